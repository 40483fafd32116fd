"""The result that a module returns of a slice, and of check mode. It has the same keys on both platforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from ..decision.actions import Action, Do, NodePhase
from ..model.record import Ending, Intent, NodeRecord, VMRecord
from ..reasons.reason import Finding, Platform
from .check import Checked
from .diff import diff, diff_lines, predicted_lines
from .engine import Slice, SliceEnd
from .outcome import outcomes
from .rows import accounted, rows
from .start import Request

# Actions that only put our own bookkeeping right.
_QUIET = frozenset({Do.WATCH, Do.RELEASE, Do.FORGET})
_STAY = (Ending.BLOCKED.value, Ending.LOST.value)


class StayRow(TypedDict):
    """A VM that stays on the node. `reason`, `plane`, `message`, `remedy`: as Finding.to_dict; empty: none is known."""

    name: str
    uuid: str
    reason: str
    plane: str
    message: str
    remedy: str


class RecordRow(TypedDict):
    """A node's record in result form. `started`, `blocked`: UTC. `left`: its playbook was interrupted."""

    run_id: str
    intent: str
    requester: str
    reason: str
    started: str
    blocked: str
    stays: list[StayRow]
    left: bool
    cordoned_by_us: bool
    runs: list[str]


class PlannedRow(TypedDict):
    """One action that check mode predicts. `do`: as in Do. `vm`: its name. `target`: a node, or empty."""

    do: str
    vm: str
    target: str


@dataclass(frozen=True)
class Report:
    """`vms`: rows of rows.rows. `outcomes`: only of a restore. `planned`: only of check mode.
    `certificate`: in result form. `closed`: of a restore, why no VM comes to the node all the same, besides
    `cordoned_by_others`."""

    platform: Platform
    node: str
    run_id: str
    phase: NodePhase
    ended: SliceEnd = SliceEnd.FINAL
    changed: bool = False
    vms: Sequence[dict[str, Any]] = ()
    certificate: Mapping[str, Any] | None = None
    needs: Sequence[Mapping[str, str]] = ()
    findings: Sequence[Finding] = ()
    cordoned_by_others: bool = False
    diff: Mapping[str, str] | None = None
    planned: Sequence[Action] | None = None
    outcomes: Sequence[Mapping[str, str]] | None = None
    closed: Sequence[str] = ()

    def to_dict(self, **more: Any) -> dict[str, Any]:
        """Result form. `more`: keys that only one platform or module has.

        Always: `ended`, `phase`, `node`, `run_id`, `changed`, `vms`, `counts`, `certificate` (see rows.accounted),
        `needs`, `findings`, `cordoned_by_others`. `diff` if there is one; of a restore `outcomes` and `closed`; of
        check mode `planned`, a PlannedRow for each action.
        """
        found = {
            "ended": self.ended.value,
            "phase": self.phase.value,
            "node": self.node,
            "run_id": self.run_id,
            "changed": self.changed,
            **accounted(list(self.vms), None if self.certificate is None else {**self.certificate}),
            "needs": list(self.needs),
            "findings": [finding.to_dict(self.platform) for finding in self.findings],
            "cordoned_by_others": self.cordoned_by_others,
        }
        if self.diff is not None:
            found["diff"] = dict(self.diff)
        if self.outcomes is not None:
            found["outcomes"] = list(self.outcomes)
            found["closed"] = [*(["it is still cordoned, by others"] if self.cordoned_by_others else ()), *self.closed]
        if self.planned is not None:
            found["planned"] = [PlannedRow(do=a.do.value, vm=a.name, target=a.target) for a in self.planned]
        return {**found, **more}


def nothing(platform: Platform, request: Request, phase: NodePhase = NodePhase.ACTIVE) -> Report:
    """No VM. A restore that was under way has undone what had begun."""
    changed = request.begun and phase is NodePhase.ACTIVE
    vms = () if _gives_back(request) else None
    return Report(platform, request.node, request.run_id, phase, changed=changed, outcomes=vms)


def _gives_back(request: Request) -> bool:
    """A restore of the whole node says what became of each VM."""
    return request.intent is Intent.ACTIVE and not request.only


def of_slice(outcome: Slice, request: Request) -> Report:
    obs, record = outcome.observation, outcome.record
    return Report(
        obs.platform,
        request.node,
        request.run_id,
        outcome.phase,
        outcome.ended,
        changed=changes(outcome.actions_done),
        vms=rows(record, obs, outcome.decision.judged),
        certificate=outcome.certificate.to_dict() if outcome.certificate else None,
        findings=outcome.findings,
        diff=diff(diff_lines(outcome.first or obs, record), diff_lines(obs, record)),
        outcomes=outcomes(record, obs.platform) if _gives_back(request) else None,
    )


def old_news(request: Request, old: NodeRecord | None) -> dict[str, dict[str, str]]:
    """How VMs had ended before this run, so that the first slice does not report them as new.
    `old`: the record as it was found."""
    done = {} if request.begun or old is None else {u: entry.ending for u, entry in old.vms.items() if entry.ending}
    return {"old": done} if done else {}


def changes(done: Sequence[Action]) -> bool:
    return any(action.do not in _QUIET for action in done)


def of_check(seen: Checked) -> Report:
    """A single look gives no certificate."""
    node = seen.planned.node
    phase = NodePhase.EMPTY if seen.phase is NodePhase.DRAINED else seen.phase
    return Report(
        seen.obs.platform,
        node,
        seen.planned.run_id,
        phase,
        changed=bool(seen.acts),
        vms=rows(seen.planned, seen.obs, seen.decision.judged),
        findings=tuple(seen.decision.node_findings.get(node, ())),
        diff=diff(seen.before, predicted_lines(seen.before, seen.acts, seen.obs.platform)),
        planned=seen.acts,
    )


def _stays(entry: VMRecord, platform: Platform) -> StayRow:
    found = {} if entry.finding is None else entry.finding.to_dict(platform)
    reason, plane, message, remedy = (found.get(key, "") for key in ("reason", "plane", "message", "remedy"))
    return StayRow(name=entry.name, uuid=entry.uuid, reason=reason, plane=plane, message=message, remedy=remedy)


def record_row(record: NodeRecord | None, platform: Platform, has_ended: Callable[[str], bool]) -> RecordRow | None:
    """The record of a node: by whom, since when, how far its last run came, and which runs; None: it has none.

    `has_ended`: whether a recorded process (NodeRecord.playbook) is known to have ended.
    """
    if record is None:
        return None
    return {
        "run_id": record.run_id,
        "intent": record.intent,
        "requester": record.requester,
        "reason": record.reason,
        "started": record.started_wall,
        "blocked": record.blocked,
        "stays": [_stays(entry, platform) for entry in record.vms.values() if entry.ending in _STAY],
        "left": not record.blocked and has_ended(record.playbook),
        "cordoned_by_us": record.cordoned_by_us,
        "runs": list(record.runs),
    }
