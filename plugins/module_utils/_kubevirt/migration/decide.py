"""Decide the next step of one VM's migration. Pure: from a view to one step.

Each step is taken on what was just read, so it may be taken again after a kill at any place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from ..._core.model.columns import count
from ..._core.model.policy import pause_after
from ..._core.reasons.reason import IN_A_QUEUE, Finding, Platform, Reason
from ..objects import facts
from ..requests.withdrawal import WithdrawalStep, mark_stays, withdrawal_steps
from ..waiting.causes import not_known
from .model import MigrationRequest, RequestNote, View, WantedState, begins_late

Obj = dict[str, Any]
# KubeVirt ends a migration object within a second of the move, if nothing keeps it.
_CLOSES = 5.0
# A launcher pod has this long to end: 30 s more than the guest's 30 s, and some to be seen.
_POD_ENDS = 90.0


class Do(str, Enum):
    WAIT = "wait"
    SIGN = "sign"  # the note as in `asked`
    CREATE = "create"  # the note, then a migration of our own
    DELETE = "delete"  # the note, then this migration
    CANCEL = "cancel"  # the note, then the mark
    END_TARGET = "end_target"  # delete the target pod of a preparation that is stuck
    DONE = "done"


_DO = {WithdrawalStep.CANCEL: Do.CANCEL, WithdrawalStep.DELETE: Do.DELETE, WithdrawalStep.END_TARGET: Do.END_TARGET}


class Phase(str, Enum):
    """The phase of the whole request, as in virt_migration."""

    MIGRATING = "Migrating"
    MIGRATED = "Migrated"
    ABORTING = "Aborting"
    ACTIVE = "Active"
    BLOCKED = "Blocked"


@dataclass(frozen=True)
class Step:
    """`asked`: the note to write first. `migration`: the one that it is about."""

    do: Do
    phase: Phase
    finding: Finding | None = None
    migration: Obj | None = None
    asked: RequestNote | None = None


def next_step(view: View, asked: RequestNote | None, request: MigrationRequest) -> Step:
    """Decide the next step: of an abort, or of the migration. `asked`: our note on the VMI; None: there is none."""
    gone = _gone(view, asked, request)
    if gone is not None:
        return gone
    if request.want is WantedState.ABORTED:
        return _abort(view, asked, request)
    return _move(view, asked, request)


def _done(phase: Phase, finding: Finding | None = None, migration: Obj | None = None) -> Step:
    return Step(Do.DONE, phase, finding, migration)


def _gone(view: View, asked: RequestNote | None, request: MigrationRequest) -> Step | None:
    """The VM has ended, or is another one by now."""
    vmi = view.vmi
    if (vmi is None or facts.final(vmi)) and asked is None and request.want is WantedState.ABORTED:
        return _done(Phase.ACTIVE)  # it is off: nothing can be under way
    if vmi is None:
        return _done(Phase.BLOCKED, Finding(Reason.VMVanished, "Its instance is gone: it was stopped."))
    if facts.final(vmi):
        return _done(Phase.BLOCKED, _ended(vmi, view))
    if asked is not None and asked.uid != vmi["metadata"]["uid"]:
        text = f"It was stopped and restarted on {view.node or 'a node'}."
        return _done(Phase.BLOCKED, Finding(Reason.StoppedByItself, text))
    return None


def _ended(vmi: Obj, view: View) -> Finding:
    phase = facts.phase(vmi)
    if phase != "Failed":
        text = f"The guest was shut down (phase {phase})."
        return Finding(Reason.StoppedByItself, text)
    last = view.migrations[-1] if view.migrations else None
    if last is not None and facts.state_of(vmi, last).get("mode") == "PostCopy":
        return Finding(Reason.Irrecoverable, "VMI is irrecoverable due to failed post-copy migration.")
    return Finding(Reason.VMCrashed, f"{facts.status(vmi).get('reason') or 'phase Failed'}")


# Moving


def _move(view: View, asked: RequestNote | None, request: MigrationRequest) -> Step:
    if asked is None:
        return _begin(view, request)
    alive = [m for m in view.moving if not facts.deleted(m)]
    mine = [m for m in alive[1:] if facts.request(m).get("run") == request.run_id]
    if mine:
        # Two were created at the same moment and both let through: the VM would move twice.
        return Step(Do.DELETE, Phase.MIGRATING, None, mine[-1])
    current = view.current
    if current is None and _arrived(view, asked):
        return _close(view, asked)
    if current is not None:
        return _under_way(view, asked, request, current)
    return _again(view, asked, request)


def _begin(view: View, request: MigrationRequest) -> Step:
    """The first look of this run."""
    already = view.fits if view.fits is not None else view.node != (request.node or view.node)
    if already and not view.moving:
        return _done(Phase.MIGRATED)
    if request.node and request.node != view.node and not view.moving:
        text = f"It is on {view.node}, not on {request.node}."
        return _done(Phase.BLOCKED, Finding(Reason.NoTargetWithCapacity, text))
    able, findings = facts.migratable(view.vmi or {})
    if able is False and not view.moving:
        return _done(Phase.BLOCKED, findings[0])
    uid = (view.vmi or {})["metadata"]["uid"]
    note = RequestNote(view.node, uid, 0, "", view.now, view.now, request.want.value)
    return Step(Do.SIGN, Phase.MIGRATING, asked=note)


def _arrived(view: View, asked: RequestNote) -> bool:
    return view.fits if view.fits is not None else view.node != asked.source


def _close(view: View, asked: RequestNote) -> Step:
    """It has moved. The migration object may be kept open; that is reported, not waited for."""
    open_ = [m for m in view.unfinished if facts.switched(view.vmi, m)]
    work = open_[-1] if open_ else view.by_uid(asked.work)
    if not open_:
        return _done(Phase.MIGRATED, None, work)
    kept = facts.what_keeps_it(view.vmi or {})
    state = facts.state_of(view.vmi or {}, open_[-1])
    if not kept and not state.get("completed"):
        return Step(Do.WAIT, Phase.MIGRATING, None, work)
    if not kept and view.since_switched < _CLOSES:
        return Step(Do.WAIT, Phase.MIGRATING, None, work)
    text = (
        f"It runs on {view.node} since {state.get('endTimestamp')}; "
        f"{open_[-1]['metadata']['name']} is still {facts.phase(open_[-1])}"
    )
    text += f" because of {kept}." if kept else ": virt-controller lags behind."
    return _done(Phase.MIGRATED, Finding(Reason.MigrationObjectStays, text), work)


def _under_way(view: View, asked: RequestNote, request: MigrationRequest, current: Obj) -> Step:
    uid = current["metadata"]["uid"]
    if uid != asked.work:
        return _bind(view, asked, request, current)
    if asked.finding is not None:
        return _withdrawn(view, asked, request, current)
    if facts.deleted(current):
        # By somebody else; how it ends is seen.
        return Step(Do.WAIT, Phase.MIGRATING, Finding(Reason.AbortRequested), current)
    overdue = _overdue(view, asked, request, current)
    if overdue is None:
        return Step(Do.WAIT, Phase.MIGRATING, view.waits, current)
    if not _ours(current):
        text = f"{overdue.message} This collection did not start it, and left it as it is."
        return _done(Phase.BLOCKED, Finding(overdue.reason, text.strip()), current)
    why = (overdue.reason.value, overdue.message)
    note = replace(asked, at=view.now, why=why)
    return Step(Do.DELETE, Phase.MIGRATING, overdue, current, note)


def _bind(view: View, asked: RequestNote, request: MigrationRequest, current: Obj) -> Step:
    """The migration of this attempt: made by us a moment ago, or adopted."""
    note = facts.request(current)
    made = note.get("run") == request.run_id and note.get("attempt") == asked.attempt
    attempt = asked.attempt if made else asked.attempt + 1
    uid = current["metadata"]["uid"]
    bound = replace(asked, attempt=attempt, work=uid, at=view.now, why=("", ""))
    return Step(Do.SIGN, Phase.MIGRATING, None, current, bound)


def _overdue(view: View, asked: RequestNote, request: MigrationRequest, current: Obj) -> Finding | None:
    """Our own deadlines: KubeVirt has none for what waits, and none for a preparation."""
    waits = view.waits
    if view.now - asked.first > request.migration_timeout and not facts.too_late(view.vmi or {}, current):
        text = f"It had not moved within migration_timeout ({request.migration_timeout:g} s)."
        if waits is not None:
            text += f" {waits.reason.value}: {waits.text(Platform.KUBEVIRT)}"
        return Finding(Reason.DeadlineExceeded, text)
    waited = view.now - asked.at > request.pending_timeout
    if waits is None or waits.reason in IN_A_QUEUE or not waited:
        return None
    return waits if begins_late(facts.phase(current)) else None


def _withdrawn(view: View, asked: RequestNote, request: MigrationRequest, current: Obj) -> Step:
    return _withdrawal(view, asked, request, Phase.MIGRATING, [current])


def _ours(migration: Obj) -> bool:
    return bool(facts.request(migration))


def _again(view: View, asked: RequestNote, request: MigrationRequest) -> Step:
    """No migration is under way, and it is not where it shall be."""
    if asked.attempt:
        ended = _how_it_ended(view, asked)
        if ended is not None:
            last = view.by_uid(asked.work)
            if asked.finding is not None:
                return _done(Phase.BLOCKED, asked.finding, last)
            if last is not None and view.since_ended < facts.REASON_COMES and facts.reason_is_coming(view.vmi, last):
                return Step(Do.WAIT, Phase.MIGRATING, ended, last)
            if ended.reason is Reason.AbortRequested:
                return _done(Phase.BLOCKED, ended, last)
            if asked.attempt >= request.max_attempts:
                text = f"Attempt {asked.attempt} of {request.max_attempts} failed with {_as_text(ended)}"
                return _done(Phase.BLOCKED, Finding(Reason.AttemptsUsedUp, text), last)
            if view.since_ended < pause_after(asked.attempt, request.backoff):
                return Step(Do.WAIT, Phase.MIGRATING, ended, last)
        elif asked.attempt >= request.max_attempts:
            text = f"There is no migration, after {count(asked.attempt, 'attempt')} to create one."
            return _done(Phase.BLOCKED, view.refused or Finding(Reason.AttemptsUsedUp, text))
        elif view.refused and view.since_refused < pause_after(asked.attempt, request.backoff):
            return Step(Do.WAIT, Phase.MIGRATING, view.refused)
    return _ask(view, asked, request)


def _as_text(finding: Finding) -> str:
    return f"{finding.reason.value}. {finding.text(Platform.KUBEVIRT)}"


def _how_it_ended(view: View, asked: RequestNote) -> Finding | None:
    """None: it was never made, because we were killed between note and request."""
    last = view.by_uid(asked.work) if asked.work else None
    if last is None and asked.work:
        return Finding(Reason.AbortRequested, "Someone deleted its migration object.")
    if last is None:
        return None
    if facts.phase(last) == "Succeeded":
        text = f"The migration ended on {view.node}, which is not the requested target."
        return Finding(Reason.MigrationFailed, text)
    return facts.why_failed(view.vmi, last, view.event)


def _ask(view: View, asked: RequestNote, request: MigrationRequest) -> Step:
    overdue = view.now - asked.at > request.pending_timeout
    if view.unfinished:
        # It has moved before; KubeVirt takes no second one as long as the first is open.
        name = view.unfinished[-1]["metadata"]["name"]
        kept = facts.what_keeps_it(view.vmi or {})
        text = f"{name} has moved it to {view.node} but is kept open: {kept}"
        open_ = Finding(Reason.MigrationObjectStays, text)
        return _done(Phase.BLOCKED, open_) if overdue else Step(Do.WAIT, Phase.MIGRATING, open_)
    able, findings = facts.migratable(view.vmi or {})
    if able is False:
        return _done(Phase.BLOCKED, findings[0])
    if able is None or facts.phase(view.vmi or {}) != "Running":
        unknown = Finding(Reason.MigratableNotKnown, f"The instance is {facts.phase(view.vmi or {})}.")
        if able is None:
            unknown = not_known(view.vmi or {})
        return _done(Phase.BLOCKED, unknown) if overdue else Step(Do.WAIT, Phase.MIGRATING, unknown)
    note = replace(asked, source=view.node, attempt=asked.attempt + 1, work="", at=view.now, why=("", ""))
    return Step(Do.CREATE, Phase.MIGRATING, asked=note)


# Aborting: the mark first, or KubeVirt makes a new migration for it; then the migration


def _abort(view: View, asked: RequestNote | None, request: MigrationRequest) -> Step:
    vmi = view.vmi or {}
    late = [(m, why) for m in view.unfinished for why in [facts.too_late(vmi, m)] if why]
    open_ = [m for m in view.unfinished if not facts.too_late(vmi, m)]
    marked = bool(facts.mark(vmi))
    if marked and not view.can_cancel and (open_ or not late):
        return _done(Phase.BLOCKED, mark_stays(facts.mark(vmi)), open_[-1] if open_ else None)
    if asked is None:
        if late and not open_:
            return _refused(view, late[-1][0], late[-1][1])
        if not open_ and not marked:
            return _done(Phase.ACTIVE)
        work = open_[-1]["metadata"]["uid"] if open_ else ""
        uid = vmi["metadata"]["uid"]
        note = RequestNote(view.node, uid, 0, work, view.now, view.now, request.want.value)
        return Step(Do.SIGN, Phase.ABORTING, None, open_[-1] if open_ else None, note)
    if marked and view.now - asked.at > request.abort_timeout:
        text = (
            f"Its mark (evacuationNodeName {facts.mark(vmi)}) could not be removed within "
            f"{request.abort_timeout:g} s. The migration was left as it is: KubeVirt would create a "
            "new one for the mark at once."
        )
        return _done(Phase.BLOCKED, Finding(Reason.AbortUnanswered, text))
    if marked or open_:
        return _withdrawal(view, asked, request, Phase.ABORTING, open_, marked)
    if late and view.node == asked.source:
        return _refused(view, late[-1][0], late[-1][1])
    return _aborted(view, asked)


def _refused(view: View, migration: Obj, why: str) -> Step:
    moved = facts.switched(view.vmi, migration)
    phase = Phase.MIGRATED if moved else Phase.MIGRATING
    return _done(phase, Finding(Reason.TooLateToAbort, f"Not aborted: {why}."), migration)


def _withdrawal(
    view: View, asked: RequestNote, request: MigrationRequest, phase: Phase, open_: list[Obj], marked: bool = False
) -> Step:
    """The next step of a withdrawal. What is due is the same for a drain (requests/withdrawal)."""
    waited, last = view.now - asked.at, open_[-1] if open_ else None
    late = waited > request.abort_timeout
    stuck = late and waited <= request.abort_timeout + _POD_ENDS
    for due, what in withdrawal_steps(view.vmi, marked, open_, lambda _migration: stuck):
        return Step(_DO[due], phase, asked.finding, last if due is WithdrawalStep.CANCEL else what)
    if last is None or not late:
        return Step(Do.WAIT, phase, asked.finding, last)
    name, reported = last["metadata"]["name"], facts.phase(last)
    text = f"{name} is {reported}; it was asked to abort but did not end within {waited:.0f} s."
    return _done(Phase.BLOCKED, Finding(Reason.AbortUnanswered, text), last)


def _aborted(view: View, asked: RequestNote) -> Step:
    last = view.by_uid(asked.work)
    if view.node != asked.source:
        text = f"The abort came too late: it runs on {view.node}."
        when = facts.state_of(view.vmi or {}, last).get("endTimestamp") if last else ""
        text = text[:-1] + (f" since {when}." if when else ".")
        return _done(Phase.MIGRATED, Finding(Reason.TooLateToAbort, text), last)
    return _done(Phase.ACTIVE, None, last)
