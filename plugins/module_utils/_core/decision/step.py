"""The context of one decide step for one node: what all parts of deciding read, and what they add."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ..model.failed_targets import failed_targets, left_alone
from ..model.observation import VM, Observation, Sighting, State
from ..model.policy import Policy, pause_after
from ..model.record import Ending, Intent, NodeRecord, VMRecord
from ..reasons.reason import IN_A_QUEUE, Finding, Reason
from .actions import Action, Decision, Do, NodePhase
from .placement import Placement
from .reconcile import Situation, most_significant
from .strategy import Choice
from .unread_hosts import may_have

# Of a migration that prepares its target an abort is put off; what ends it then comes last.
WITHDRAWALS = 3
WITHDRAWAL_PAUSE = 2.0


class Step:
    """The step's inputs, the situations judged so far, and the actions collected."""

    def __init__(
        self,
        obs: Observation,
        record: NodeRecord,
        policy: Policy,
        placement: Placement,
        decision: Decision,
        cluster_room: int,
        refused: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.obs = obs
        self.record = record
        self.policy = policy
        self.placement = placement
        self.decision = decision
        self.cluster_room = cluster_room
        self._refused = refused or {}
        self.here: dict[str, VM | None] = {}
        self.situations: dict[str, Situation] = {}
        self.unsure: set[str] = set()
        self.in_flight = 0
        self.wanted: list[tuple[VM, Choice]] = []
        self._tried: dict[str, dict[str, list[float]]] = {}
        self.look_at_failures()

    def order(self) -> list[str]:
        """UUIDs in a stable order, so that a run is repeatable; what runs us comes last."""
        vms = self.record.vms
        return sorted(vms, key=lambda u: (self._is_control_node(u), vms[u].name, u))

    def _is_control_node(self, uuid: str) -> bool:
        vm = self.here.get(uuid)
        return vm is not None and vm.control_node != ""

    def before_control_node(self) -> list[str]:
        """Names of the VMs that have to go before the one that runs us, and have not yet."""
        return [
            entry.name
            for uuid, entry in self.record.vms.items()
            if entry.ending == Ending.NONE.value and not self._is_control_node(uuid)
        ]

    def do(self, what: Do, uuid: str = "", target: str = "", **more: object) -> None:
        """Collect one action."""
        entry = self.record.vms.get(uuid)
        self.decision.actions.append(
            Action(
                do=what,
                node=self.record.node,
                vm=uuid,
                name=entry.name if entry else "",
                target=target,
                memory_mib=entry.memory_mib if entry else 0,
                persistent=entry.persistent if entry else True,
                autostart=entry.autostart if entry else False,
                **more,  # type: ignore[arg-type]
            )
        )

    @property
    def cordons(self) -> bool:
        """Does this step ask for the cordon of its node?"""
        node = self.record.node
        return any(action.do is Do.CORDON and action.node == node for action in self.decision.actions)

    @property
    def acts_on_node(self) -> bool:
        """Does this step ask for something that belongs to no VM of the record?"""
        record = self.record
        return any(action.node == record.node and action.vm not in record.vms for action in self.decision.actions)

    def look_at_failures(self) -> None:
        """Once more when the ends of attempts were read: see `pick`."""
        self.failures = failed_targets(self.record, self.obs.outcomes)
        self._left_alone = left_alone(self.failures, self.obs.now)

    def pick(self, vm: VM, cold: bool = False) -> str | None:
        """A target for it: while another one fits, none that has just refused its claim, and none that failed in
        this run, for this VM or for others. None: there is none now."""
        refused = frozenset(self._refused.get(vm.uuid, ()))
        entry = self.record.vms.get(vm.uuid)
        own = [a.target for a in entry.attempts if a.target in self.failures] if entry is not None else []
        # The last one of its own is the last that it is given again.
        for failed in (frozenset(self.failures), frozenset(own), frozenset(own[-1:])) if self.failures else ():
            others = _without(vm, refused | failed)
            target = self.placement.pick(others, cold)
            if target is not None:
                return target
            # A place or room on another one is waited for.
            waits = failed & self._left_alone and not self.placement.refusals(others, cold)
            if failed and (waits or self.placement.with_room(others)):
                return None
        target = self.placement.pick(_without(vm, refused), cold) if refused else None
        return target if target is not None else self.placement.pick(vm, cold)

    def attempt(self, what: Do, uuid: str, target: str = "", state: str = "") -> bool:
        """`do`, with back-off, at most max_attempts times in a row. False: used up. `state`: of what it is done to;
        in another one it is counted anew."""
        entry = self.record.vms[uuid]
        key = f"{what.value} {target} {state}".strip()
        count, when = entry.tries.get(key, [0, 0.0])
        most, least = self.policy.max_attempts, self.policy.backoff
        if what is Do.UNMARK:  # it takes more than one request, and its time
            most, least = max(most, WITHDRAWALS), max(least, WITHDRAWAL_PAUSE)
        denied = count > 0 and entry.reason == Reason.Forbidden.value
        used_up = count >= most or denied
        pause = 0.0 if denied else pause_after(count, least)
        if self.obs.now - when >= pause and not used_up:
            self.do(what, uuid, target)
            count, when = count + 1, self.obs.now
        self._tried.setdefault(uuid, {})[key] = [count, when]
        return not used_up or self.obs.now - when < pause

    def unmark(self, vm: VM) -> None:
        if vm.marked:
            self.attempt(Do.UNMARK, vm.uuid)

    def attempt_or_block(self, what: Do, uuid: str, target: str, reason: Reason, ending: Ending = Ending.NONE) -> None:
        """Attempt it and stay in `ending`; when the attempts are used up, block."""
        entry = self.record.vms[uuid]
        if self.attempt(what, uuid, target):
            entry.ending = ending.value
        else:
            entry.end(Ending.BLOCKED, target, entry.finding or Finding(reason))

    def off_late(self, entry: VMRecord, found: Finding | None) -> Finding | None:
        """Why it is off: `found`, or for the migration of one VM that it acted on a request when that was given up."""
        if found is not None or self.record.intent != Intent.MIGRATED.value:
            return found
        text = f"{entry.name} went off for a request to stop that was given up, and was not moved. A restore starts it."
        return Finding(Reason.StateNotLiveMigratable, text)

    def unread(self, entry: VMRecord, vm: VM) -> None:
        """Wait until it can be read, by a clock of its own: what it waits for otherwise goes on.

        Why one was stopped stays its reason.
        """
        why = vm.findings[0] if vm.findings else Finding(Reason.MigratableNotKnown)
        entry.ending = Ending.NONE.value
        if not entry.asked_to_stop:
            entry.note(why)
        if entry.unread_since is None:
            entry.unread_since = self.obs.now
        if self.obs.now - entry.unread_since > self.policy.unknown_timeout or self.late():
            entry.end(Ending.BLOCKED, vm.node, why, keep_waiting=True)

    def is_unreadable(self, uuid: str) -> bool:
        """It is on the node, and whether anything moves it could not be read."""
        vm = self.obs.vms.get(uuid)
        return vm is not None and vm.state is State.UNKNOWN

    def close(self) -> None:
        """Forget how often an action was tried that is no longer wanted: it has worked.

        The count is kept for a VM of which nothing was concluded, as in the first step of each slice; else what is
        refused again and again would never be used up.
        """
        for uuid, entry in self.record.vms.items():
            if uuid in self._tried or not (uuid in self.unsure or self.is_unreadable(uuid)):
                entry.tries = self._tried.get(uuid, {})

    def sighting(self, uuid: str) -> Sighting | None:
        """The most telling sighting on another node."""
        found = self.obs.sightings.get(uuid, [])
        state = most_significant(tuple(s.state for s in found))
        return next((s for s in found if s.state is state), None)

    def hosts_not_listed(self, entry: VMRecord) -> list[str]:
        """Nodes to which the record says that it went or may have gone, and that nobody reads."""
        if self.obs.complete:
            return []
        last = entry.last
        reported = {entry.at, entry.cold_target, last.target if last and not last.adopted else ""}
        return sorted(name for name in reported if name and name not in self.obs.nodes)

    def may_have(self, entry: VMRecord, here: VM | None) -> list[str]:
        """Nodes that do not answer and may have it."""
        return may_have(self.obs, self.record.node, entry, here)

    def seen_elsewhere(self, uuid: str) -> Sighting:
        """The same, where the verdict table says that there is one."""
        seen = self.sighting(uuid)
        if seen is None:
            raise LookupError(f"{uuid} was judged to be on another node, and is on none")
        return seen

    def vm_here(self, uuid: str) -> VM:
        """The VM on the node itself, where the verdict table says that it is there."""
        vm = self.here.get(uuid)
        if vm is None:
            raise LookupError(f"{uuid} was judged to be on the node, and is not")
        return vm

    def where(self, uuid: str) -> str:
        """All places of a VM in words."""
        here = self.here.get(uuid)
        places = [f"{here.state.words} on {here.node}"] if here else []
        places += [f"{s.state.words} on {s.node}" for s in self.obs.sightings.get(uuid, [])]
        return ", ".join(places) or "nowhere"

    def refused_long(self, entry: VMRecord) -> bool:
        """Has every claim for it been refused for longer than pending_timeout, or again and again
        for what time does not mend?"""
        if entry.full_stores >= self.policy.max_attempts:
            return True
        since = entry.refused_since
        return since is not None and self.obs.now - since > self.policy.pending_timeout

    def refused_to_the_end(self, entry: VMRecord) -> bool:
        """The same, or it still stands in a queue when the time of the node is over."""
        queues = entry.finding is not None and entry.finding.reason in IN_A_QUEUE
        return self.refused_long(entry) or (queues and self.late())

    def final_finding(self, entry: VMRecord) -> Finding:
        """Why it is not tried any more: with what stood in the way to the end."""
        last = entry.finding
        if self.refused_long(entry) and last is not None:
            return last
        text = f"The last was {self.said(last)}" if last is not None else ""
        return Finding(Reason.DeadlineExceeded, text)

    def said(self, finding: Finding | None) -> str:
        """Its code and its words, for a message about another one."""
        if finding is None:
            return ""
        return f"{finding.reason.value}. {finding.text(self.obs.platform)}"

    def waits_for_node(self) -> bool:
        """Something about the node itself is waited for, from now on if not before. False: it
        took longer than pending_timeout, or than the node has in all."""
        if self.record.waiting_since is None:
            self.record.waiting_since = self.obs.now
        return not self.waited_long()

    def waited_long(self) -> bool:
        since = self.record.waiting_since
        long = since is not None and self.obs.now - since > self.policy.pending_timeout
        return long or self.late()

    def late(self, grace: float = 0.0) -> bool:
        """Is the node's own deadline over? A reboot of the source starts the count anew."""
        node = self.obs.nodes[self.record.node]
        if node.boot_id != self.record.boot_id:
            return False
        return self.obs.now - self.record.started > self.policy.drain_timeout + grace


def _without(vm: VM, hosts: frozenset[str]) -> VM:
    """The same VM, which these hosts do not take."""
    no = dict.fromkeys(hosts, (Finding(Reason.NoTargetWithCapacity, "It is left out for now."),))
    cold = None if vm.cold_refused_by is None else {**vm.cold_refused_by, **no}
    return replace(vm, refused_by={**vm.refused_by, **no}, cold_refused_by=cold) if no else vm


def wait_for_node(step: Step, text: str, reason: Reason = Reason.NodeUnreadable) -> NodePhase:
    """Wait for something about the node, up to pending_timeout and the node's deadline."""
    record = step.record
    step.decision.node_findings[record.node] = (Finding(reason, text),)
    return NodePhase.DRAINING if step.waits_for_node() else NodePhase.BLOCKED


def wait_for_others(step: Step, text: str, reason: Reason = Reason.NodeUnreadable) -> NodePhase:
    """A migration of others takes as long as it takes: only the node's own deadline ends that."""
    step.record.waiting_since = None
    step.decision.node_findings[step.record.node] = (Finding(reason, text),)
    return NodePhase.BLOCKED if step.late() else NodePhase.DRAINING


def wait_for_volumes(step: Step, text: str) -> NodePhase:
    """Wait by a separate clock: earlier waits of the node say nothing about volumes."""
    record = step.record
    if record.detaching_since is None:
        record.detaching_since = step.obs.now
    step.decision.node_findings[record.node] = (Finding(Reason.VolumeStillAttached, text),)
    long = step.obs.now - record.detaching_since > step.policy.pending_timeout
    return NodePhase.BLOCKED if long or step.late() else NodePhase.DRAINING
