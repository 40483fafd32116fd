"""The loop: observe, decide, act. The same one for real hosts, the model, and check mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from ..decision.actions import Action, Decision, Do, NodePhase
from ..decision.certificate import Certificate, certify
from ..decision.decide import IN_FLIGHT, decide
from ..decision.reconcile import Situation
from ..decision.which_hosts import was_enough
from ..model.observation import Observation
from ..model.policy import Policy
from ..model.record import Attempt, Ending, Intent, NodeRecord, VMRecord
from ..reasons.reason import IN_A_QUEUE, Finding, Reason
from .platform import Platform

_READS_IN_A_ROW = 4
# While all that is left is being migrated, reading often only takes from the migrations.
_PAUSE_IN_FLIGHT = 3.0
_GATHER = 0.5  # s; those that end together are finished together
# What becomes of a VM is shown when the slice ends. Seconds after the first news until it does: a new slice costs a
# start of Python and the reads, so news that come close together are shown together.
_TELL_AFTER = 0.8
_TELL_AT_LAST = 1.0  # also if something was just done, and is yet to be looked at
# What hindered an act on the node itself is told while it hinders.
_NOT_DONE = frozenset({NodePhase.DRAINING, NodePhase.RESTORING, NodePhase.BLOCKED})
# Refused without an answer of who should do it: it may have been done.
_PERHAPS_DONE = frozenset({Reason.PeerUnreachable, Reason.APIError})


class SliceEnd(str, Enum):
    """How a slice ended."""

    FINAL = "final"
    OUT_OF_TIME = "out_of_time"
    HOOKS_PENDING = "needs"  # a hook has to be answered; what is under way goes on


@dataclass
class Slice:
    """The result of one slice."""

    ended: SliceEnd
    phase: NodePhase
    record: NodeRecord
    observation: Observation
    decision: Decision
    certificate: Certificate | None = None
    findings: tuple[Finding, ...] = ()
    actions_done: list[Action] = field(default_factory=list)
    first: Observation | None = None  # how the slice found it


class Engine:
    """Runs one node towards its record's intent. Keeps nothing that a crash may not lose."""

    def __init__(
        self,
        platform: Platform,
        policy: Policy,
        record: NodeRecord,
        save_every: float = 0.0,
        seen: Observation | None = None,
        saved: tuple[str, float] = ("", float("-inf")),
        carried: bool = False,
        read_all: Callable[[], None] | None = None,
    ) -> None:
        """`save_every`: seconds between two writes of the record while nothing is to be done.

        Before an act it is always written. What it then lacks after a kill is what is read again.
        `seen`: a full read of an empty node, as the first of the two that a certificate needs.
        `saved`: the record as it was last written, and when. `carried`: the next slice is handed
        the record, so that it is not written only because time is up. `read_all`: from now on no
        host is left out of what is observed.
        """
        self._save_every = save_every
        self._platform = platform
        self._policy = policy
        self._record = record
        self.saved = saved
        self._carried = carried
        self._read_all = read_all
        self._before: Mapping[str, Situation] | None = None
        self._empty = seen
        self._refused: dict[str, set[str]] = {}  # UUID -> targets whose claim was refused
        self._last: list[Action] = []
        self._first: Observation | None = None
        self._forgotten = False  # the record was removed: it is not written again
        self._hindered: set[tuple[str, str]] = set()  # (UUID or "": the node, why an act on it was refused)
        self.done: list[Action] = []

    def run(self, deadline: float, longest_wait: float = 1.0, until_empty: bool = False, live: bool = False) -> Slice:
        """Step until the phase is final, a hook is due, the platform's clock passes `deadline`, or
        another run wants the node.

        `until_empty`: or until a full read found the node empty, without the second one. `live`: or until what
        became of a VM is to be shown.
        """
        again = 0
        known, news = self._endings(), float("inf")
        told = self._told()
        while True:
            last = self._last
            outcome = self.step()
            if outcome.ended is SliceEnd.OUT_OF_TIME and self._is_overdue(outcome.observation):
                self._give_up(outcome)
            if outcome.ended is not SliceEnd.OUT_OF_TIME:
                if outcome.phase is NodePhase.BLOCKED:
                    self._record.blocked = self._platform.wall()
                self._save()
                return outcome
            if until_empty and outcome.phase is NodePhase.EMPTY:
                return outcome
            # A second read follows at once, or short slices would never come to it.
            if outcome.decision.read_again and again < _READS_IN_A_ROW:
                again += 1
                continue
            again = 0
            # What was just done is looked at; what was done before in the same words, and is
            # still to be done, can wait.
            done = self._last in ([], last)
            now = self._platform.now()
            if live and (self._endings() != known or self._hindered - told):
                news = min(news, now)
            # All that can begin has begun when nothing is done any more: no place stays empty for the next slice.
            end = min(deadline, news + (_TELL_AFTER if done else _TELL_AT_LAST))
            if now >= end or self._platform.is_wanted():
                if not self._carried:
                    self._save()
                return outcome
            if done:
                left = end - now
                longest, gather = longest_wait, 0.0
                if self._all_in_flight(outcome):
                    longest, gather = _PAUSE_IN_FLIGHT * longest_wait, _GATHER
                self._platform.wait(max(0.0, min(longest, left)), gather)

    def call_off(self, let_finish: bool) -> None:
        """End the migrations under way, as the restore that comes would do first, and do nothing else. `let_finish`:
        but not those that run."""
        node, restored = self._record.node, self._record.copy()
        restored.intent = Intent.ACTIVE.value
        policy = replace(self._policy, let_finish=let_finish)
        decision = decide(self._platform.observe(restored), {node: restored}, policy)
        ends = [action for action in decision.actions if action.do is Do.ABORT]
        for action in ends:
            mine, asked = self._record.vms[action.vm].last, decision.records[node].vms[action.vm].last
            if mine is not None and asked is not None:
                mine.abort_requested, mine.abort_status = asked.abort_requested, asked.abort_status
        if ends:
            self._save()
            self._platform.apply(ends, self._record)

    def _is_overdue(self, obs: Observation) -> bool:
        """Is all time over that anything of this node may still take, with what its migrations have beyond it?

        Each wait has a deadline of its own. Should one not, nothing goes on for ever all the same.
        """
        record, policy = self._record, self._policy
        if obs.nodes[record.node].boot_id != record.boot_id:
            return False
        largest = max([1024, *(entry.memory_mib for entry in record.vms.values())]) / 1024
        settings = [policy.migration, *(rule.migration for rule in policy.rules if rule.migration is not None)]
        most = max(s.completion_timeout_per_gib * largest + s.progress_timeout for s in settings)
        after = most + policy.pending_timeout + policy.shutdown_timeout
        return obs.now - record.started > policy.drain_timeout + after

    def _give_up(self, outcome: Slice) -> None:
        """The last resort: said with what was still wished for."""
        wished = sorted({action.do.value for action in self._last}) or ["nothing but another look"]
        text = f"{outcome.phase.value} did not end; still to be done: {', '.join(wished)}."
        outcome.findings = (*outcome.findings, Finding(Reason.DeadlineExceeded, text))
        outcome.ended, outcome.phase = SliceEnd.FINAL, NodePhase.BLOCKED

    def _endings(self) -> set[tuple[str, str, int]]:
        """(UUID, ending, number of attempts that ended) of each VM of which something has ended."""
        found = set()
        for uuid, entry in self._record.vms.items():
            attempts = sum(attempt.ended for attempt in entry.attempts)
            if entry.ending or attempts:
                found.add((uuid, entry.ending, attempts))
        return found

    def _told(self) -> set[tuple[str, str]]:
        """The reasons that the record has from slices before this one, in the form of `_hindered`."""
        own = self._record.finding
        met = {(uuid, entry.reason) for uuid, entry in self._record.vms.items()}
        return met | {("", own.reason.value)} if own is not None else met

    @staticmethod
    def _all_in_flight(outcome: Slice) -> bool:
        """Is nothing left but migrations under way? Then none waits for another's place."""
        left = [u for u, e in outcome.record.vms.items() if e.ending == Ending.NONE.value]
        held = outcome.observation.held
        return all(u in held and outcome.decision.situations.get(u) in IN_FLIGHT for u in left)

    def step(self) -> Slice:
        """One round. At most one record write before the acts, and one after."""
        node = self._record.node
        obs, decision = self._observe_and_decide()
        self._first = self._first or obs
        self._before = decision.situations if obs.full else None
        self._record = decision.records[node]
        phase = decision.phases[node]
        actions = self._last = self._admit(decision, obs)
        self._stamp()
        if actions or self._platform.now() - self.saved[1] >= self._save_every:
            self._save()
        refused = self._platform.apply(actions, self._record) if actions else {}
        self.done += actions
        self._forgotten = "" not in refused and any(a.do is Do.FORGET for a in actions)
        self._take_refusals(actions, refused)
        if refused:
            if phase is NodePhase.ACTIVE:  # something of ours stays
                phase = decision.phases[node] = NodePhase.RESTORING
            self._save()  # or the reason is lost when this was the slice's last step
        certificate = None
        if phase is NodePhase.EMPTY and not actions:
            certificate = certify(self._empty, obs, self._record)
            self._empty = obs
            if certificate is not None:
                phase = decision.phases[node] = NodePhase.DRAINED
        else:
            self._empty = None
        # A final phase is one after which nothing is left to be done, FORGET excepted.
        quiet = all(a.do is Do.FORGET for a in actions) and not refused
        ended = SliceEnd.FINAL if decision.final and quiet else SliceEnd.OUT_OF_TIME
        if decision.pending_hooks:
            ended = SliceEnd.HOOKS_PENDING
        findings = decision.node_findings.get(node, ())
        if self._record.finding is not None and phase in _NOT_DONE:
            findings = (self._record.finding, *findings)
        done = list(self.done)
        return Slice(ended, phase, self._record, obs, decision, certificate, findings, done, self._first)

    def _observe_and_decide(self) -> tuple[Observation, Decision]:
        """On the hosts that can matter; on all of them where those do not settle it."""
        records = {self._record.node: self._record}
        obs = self._platform.observe(self._record)
        decision = decide(obs, records, self._policy, self._before, self._refused)
        if not obs.not_asked or self._read_all is None:
            return obs, decision
        if self._refused or not was_enough(obs, decision, self._record.node, self._policy):
            self._read_all()
            obs = self._platform.observe(self._record)
            decision = decide(obs, records, self._policy, self._before, self._refused)
        return obs, decision

    def _stamp(self) -> None:
        """Since when a guest that we stop is off, and runs again. A stop that was called off is none."""
        for entry in self._record.vms.values():
            if entry.ending == Ending.COLD_MOVED.value or (entry.ending == Ending.RESTORED.value and entry.start_tries):
                if entry.off_since and not entry.on_since:
                    entry.on_since = self._platform.wall()
            elif entry.asked_to_stop and not entry.off_since:
                entry.off_since, entry.on_since = self._platform.wall(), ""
            elif not entry.asked_to_stop and entry.ending in (Ending.NONE.value, Ending.RESTORED.value):
                entry.off_since = entry.on_since = ""

    def _take_refusals(self, actions: list[Action], refused: Mapping[str, Finding]) -> None:
        """Why acts were refused goes into the record: of a VM, or of the node."""
        own = [a.vm for a in actions if a.vm not in self._record.vms]
        if own:
            self._record.note(next((refused[key] for key in own if key in refused), None))
        for action in actions:
            finding = refused.get(action.vm)
            entry = self._record.vms.get(action.vm)
            # A migration that was refused is closed, and told, when its VM is read.
            if finding is not None and action.do is not Do.MIGRATE and finding.reason not in IN_A_QUEUE:
                self._hindered.add((action.vm if entry is not None else "", finding.reason.value))
            if finding is None or entry is None:
                continue
            entry.note(finding)
            last = entry.last
            if action.do is Do.MIGRATE and last is not None and last.number == action.attempt:
                # Closed when the VM is read: a request may be refused and yet be under way.
                last.reason, last.message = finding.reason.value, finding.message
            if action.do is Do.SHUTDOWN and finding.reason not in _PERHAPS_DONE:
                entry.unask()

    def _admit(self, decision: Decision, obs: Observation) -> list[Action]:
        """Claims first; then the intent of what was granted goes into the record."""
        wanted = [a for a in decision.actions if a.needs_claim]
        if not wanted:
            return decision.actions
        answers = self._platform.claim(wanted, self._policy.limits)
        granted: list[Action] = []
        boot_id = obs.nodes[self._record.node].boot_id
        for action in decision.actions:
            refusal = answers.get(action.vm)
            if not action.needs_claim:
                if refusal is None:  # what belongs to a refused one is not done either
                    granted.append(action)
                continue
            entry = self._record.vms[action.vm]
            if refusal is None:
                self._grant(entry)
            if refusal is None and action.do is not Do.MIGRATE:
                granted.append(action)
                continue
            if refusal is not None:
                self._refuse(action, entry, refusal, obs.now)
                if action.do is Do.SHUTDOWN:  # asked for before the guest: nothing was done yet
                    entry.unask()
                    if not entry.stop_requests:  # or it may go off by an earlier request, and is to move then
                        entry.renew_stop()
                elif action.do is Do.COLD_DEFINE and not (refusal.reason in _PERHAPS_DONE and action.vm in obs.claims):
                    entry.cold_target = ""  # another target is chosen; one where a claim may stand is not forgotten
                continue
            entry.attempts.append(
                Attempt(
                    number=action.attempt,
                    target=action.target,
                    method=action.method.value,
                    started=obs.now,
                    boot_id=boot_id,
                    run_id=self._record.run_id,
                    requester=self._record.requester,
                    wall=self._platform.wall(),
                )
            )
            granted.append(action)
        return granted

    def _grant(self, entry: VMRecord) -> None:
        entry.waiting_since = entry.refused_since = None
        entry.full_stores = 0
        self._refused.pop(entry.uuid, None)

    def _refuse(self, action: Action, entry: VMRecord, why: Finding, now: float) -> None:
        """Note why a claim was not granted, and since when none is; not where it only waits in a queue. A target that
        refused is tried again when all have refused."""
        entry.note(why)
        entry.untry(f"{action.do.value} {action.target}")
        if why.reason in IN_A_QUEUE:
            entry.refused_since = None
        elif entry.refused_since is None:
            entry.refused_since = now
        met = self._refused.setdefault(action.vm, set())
        if action.target in met:  # all have refused it: from the best one again
            met.clear()
            entry.full_stores += why.reason is Reason.TargetStoreFull
        met.add(action.target)

    def _save(self) -> None:
        text = self._record.to_json()
        if text != self.saved[0] and not self._forgotten:
            self._platform.save(self._record)
            self.saved = (text, self._platform.now())
