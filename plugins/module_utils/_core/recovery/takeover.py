"""Decide for each VM of a host that is proven to be off where it is started, or why it stays. Pure.

Two things must never be: a VM that is started while its host may run it, and one that its host starts again when it
comes back. The proof is against the first. Against the second something has to keep the host from it: see `Safety`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from ..decision.placement import Placement
from ..decision.strategy import Choice, Way, choose
from ..model import wall
from ..model.observation import ARRIVING, VM, Observation, Sighting, State, is_active
from ..model.policy import Limits, Policy
from ..reasons.reason import Finding, Reason
from .record import Recovery, Step, Taken

# Its memory came from the host that is off. libvirt ends one that has not run yet when its connection is seen dead.
_HALF = ARRIVING | {State.POSTCOPY_FAILED}
SERVES_WITHIN = 60.0  # seconds
# Starts are not migrations: no limit of those holds for them.
_NO_LIMITS = Limits(10**9, 10**9, 10**9)


class Verdict(str, Enum):
    START = "start"  # to be started on `target`
    RUNS = "runs"  # it runs elsewhere, by us or by others
    OFF = "off"  # it was off on its host, and stays off
    STAYS = "stays"


@dataclass(frozen=True)
class Safety:
    """The safeguards that keep the host from starting a VM again that was taken over.

    `guard`: its libvirt asks the peers before each start (`protect` installed that). `lock`: the lock manager of its
    libvirt, empty for none; `locks`: those of the others. `stays_off`: the user says that it does not come back.
    virtlockd (lockd) locks files, which hosts share; a device it locks on each host by itself, if nobody set a
    directory for that. `images`: of each host, the dead one too, the files on which it has seen the lock of another
    host's QEMU.
    """

    guard: bool = False
    lock: str = ""
    locks: Mapping[str, str] = field(default_factory=dict)
    stays_off: bool = False
    images: Mapping[str, Collection[str]] = field(default_factory=dict)

    def allows(self, vm: VM, target: str) -> bool:
        if self.guard or self.stays_off or not vm.autostart:
            return True
        disks = [one for one in vm.document.get("volumes") or () if not one.get("read_only")]
        files = all(one.get("kind") == "file" for one in disks)
        if self.lock and self.locks.get(target) == self.lock and (files or self.lock != "lockd"):
            return True
        return bool(disks) and files and all(self._locked(vm.node, target, str(one.get("source"))) for one in disks)

    def _locked(self, host: str, target: str, file: str) -> bool:
        """Locks of each of the two are seen by the other: that of this very file there, and one beside it here."""
        beside = {one.rpartition("/")[0] for one in self.images.get(host, ())}
        return file in self.images.get(target, ()) and file.rpartition("/")[0] in beside


@dataclass(frozen=True)
class Row:
    """One VM. `finding`: why it stays."""

    vm: VM | Taken
    verdict: Verdict
    target: str = ""
    finding: Finding | None = None
    priority: int = 0


def take_over(
    host: str,
    kept: Sequence[VM],
    obs: Observation,
    recovery: Recovery,
    policy: Policy,
    safety: Safety,
    priorities: Mapping[str, int],
) -> list[Row]:
    """Rows in the order in which the VMs are started: higher priority first, then larger ones.

    `kept`: the VMs of the host as its peers keep them; of each its state, and who takes it while it is off. `obs`: the
    other hosts as they are now, with a sighting of each VM that one of them knows. A host that is not reachable there
    may run any of them. `priorities`: kept with the definitions, for whom the rules of now have none.
    """
    silent = sorted(node.name for node in obs.nodes.values() if not node.reachable)
    choices = {vm.uuid: choose(vm, policy) for vm in kept}
    first = {uuid: choice.priority or priorities.get(uuid, 0) for uuid, choice in choices.items()}
    placement = Placement(obs, frozenset({host}), _NO_LIMITS, placement_policy=policy.placement_policy)
    rows = []
    for vm in sorted(kept, key=lambda vm: (-first[vm.uuid], -vm.memory_mib, vm.name)):
        seen = obs.sightings.get(vm.uuid, [])
        row = _known(vm, seen, recovery.taken(vm.uuid), silent) or _others(vm, choices[vm.uuid])
        row = row or _place(vm, placement, obs.nodes, recovery, safety)
        rows.append(replace(row, priority=first[vm.uuid]))
    return rows


def goes_before(row: Row, other: Row, known: Recovery, now: str) -> bool:
    """Is this one to serve before the other is started? So it is with one of a higher priority that was just started,
    and whose agent answered when it was protected. Not for longer than SERVES_WITHIN: its guest may be broken."""
    taken = known.taken(row.vm.uuid)
    if taken is None or taken.step is not Step.RUNS or not isinstance(row.vm, VM):
        return False
    answers = row.vm.document.get("agent_connected") is True
    return answers and row.priority > other.priority and now <= wall.after(taken.at, SERVES_WITHIN)


def _known(vm: VM, seen: Sequence[Sighting], taken: Taken | None, silent: Sequence[str]) -> Row | None:
    """The row of a VM for which no target has to be chosen: it runs, it stays, it was off, or it has its target
    already. None: it is to be started somewhere."""
    for one in seen:
        if one.state in _HALF:
            text = (
                f"It was migrating to {one.node} when {vm.node} died, and is incomplete there. libvirt ends it"
                f" within a minute; otherwise do so on {one.node}: virsh destroy {vm.name}. Then run recover again."
            )
            return Row(vm, Verdict.STAYS, one.node, Finding(Reason.MigrationFailed, text))
        if is_active(one.state):
            return Row(vm, Verdict.RUNS, one.node)
    if taken is not None:  # it is started there and nowhere else
        if taken.target in silent:
            text = f"It was started on {taken.target}, which does not answer."
            return Row(vm, Verdict.STAYS, taken.target, Finding(Reason.PeerUnreachable, text))
        if seen or not silent:  # else a drain may have moved it on, to one of those
            return Row(vm, Verdict.START, taken.target)
    elif not vm.known:
        return Row(vm, Verdict.STAYS, finding=(vm.findings or (Finding(Reason.MigratableNotKnown),))[0])
    elif not vm.active:
        return Row(vm, Verdict.OFF, finding=_left(vm))
    elif _left(vm) and seen:
        return Row(vm, Verdict.OFF, seen[0].node)
    if silent:
        text = f"It may run on {', '.join(silent)}, which cannot be read."
        return Row(vm, Verdict.STAYS, finding=Finding(Reason.PeerUnreachable, text))
    if seen:
        text = f"It is also defined on {seen[0].node}, and is off there. This collection did not do that."
        return Row(vm, Verdict.STAYS, seen[0].node, Finding(Reason.MayStartTwice, text))
    return Row(vm, Verdict.STAYS, finding=_left(vm)) if taken is None and _left(vm) else None


def _left(vm: VM) -> Finding | None:
    """That it had left its host when that died: moved by a drain, or deleted by its owner."""
    return next((one for one in vm.findings if one.reason is Reason.VMVanished), None)


def _others(vm: VM, choice: Choice) -> Row | None:
    """One that is its owner's to move is its owner's to start: a cluster manager would start it a second time."""
    if choice.way is not Way.EXTERNAL:
        return None
    text = f"{vm.owner or 'Its owner'} moves it, and starts it again, too (External, by {choice.decided_by})."
    return Row(vm, Verdict.STAYS, finding=Finding(Reason.ExternalOwner, text))


def _place(vm: VM, placement: Placement, nodes: Iterable[str], recovery: Recovery, safety: Safety) -> Row:
    if vm.cold_findings:
        return Row(vm, Verdict.STAYS, finding=vm.cold_findings[0])
    refused = dict(vm.refused_by if vm.cold_refused_by is None else vm.cold_refused_by)
    text = f"Its autostart is on, and nothing stops {vm.node} from starting it when it comes back."
    refused.update({node: (Finding(Reason.MayStartTwice, text),) for node in nodes if not safety.allows(vm, node)})
    before = recovery.vms.get(vm.uuid)
    if before is not None and before.step is Step.FAILED:
        refused.update(dict.fromkeys(before.tried, (Finding(Reason.CannotStart, before.message),)))
    asked = replace(vm, state=State.SHUTOFF, cold_refused_by=refused)
    target = placement.pick(asked, cold=True)
    if target is not None:
        return Row(vm, Verdict.START, target)
    why = placement.refusals(asked, cold=True) or (Finding(Reason.NoTargetWithCapacity),)
    return Row(vm, Verdict.STAYS, finding=why[0])
