"""A run begins, or is carried on; and it ends where another run has taken over."""

from __future__ import annotations

from typing import Protocol

from ..decision.stops import ASK_AGAIN_SECONDS
from ..model.policy import Policy
from ..model.record import Ending, Intent, NodeRecord, Superseded, VMRecord
from ..reasons.reason import Reason
from .platform import Clocks


class Request(Protocol):
    """A request: who wants what for which node. `only`: UUID of one VM; `to`: its target.

    `begun`: an earlier slice of the same run has written the record. `of_roll`: a roll asks, and when it is carried on
    it asks again without anybody having read the answer.
    """

    @property
    def node(self) -> str: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def intent(self) -> Intent: ...
    @property
    def run_id(self) -> str: ...
    @property
    def requester(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def begun(self) -> bool: ...
    @property
    def of_roll(self) -> bool: ...
    @property
    def only(self) -> str: ...
    @property
    def to(self) -> str: ...


LOOKS = "info"  # the run of who asks only how the node stands


def check_owner(old: NodeRecord | None, request: Request) -> None:
    """A run that another one has taken over must stop, or the two undo each other's work.

    Where all is to be undone, no record is the end of it: of this run, whose last answer was
    lost on its way, or of another one. Raises Superseded.
    """
    if not request.begun or (old is None and request.intent is Intent.ACTIVE):
        return
    if old is None:
        # A drain's own end leaves the record where it is; that of one VM's migration removes it.
        lost = ", or the answer that ended this run was lost" if request.only else ""
        raise Superseded(
            f"Another run restored {request.node} meanwhile{lost}: the record of this run "
            f"({request.run_id}) was removed. This run has stopped; nothing more was done."
        )
    if old.run_id != request.run_id:
        raise Superseded(
            f"Run {old.run_id} ({old.requester or 'unknown'}, {old.intent}) took over "
            f"{request.node}. This run ({request.run_id}) has stopped; nothing was undone."
        )


def start(platform: Clocks, request: Request, old: NodeRecord | None) -> NodeRecord:
    """The record of the run that is asked for."""
    record = begin(
        old,
        request.node,
        request.intent.value,
        request.run_id,
        platform.now(),
        platform.boot_id,
        request.requester,
        request.reason,
        platform.wall(),
        request.only,
        request.to,
        fresh=not request.begun,
        of_roll=request.of_roll,
    )
    if old is None and not request.only:
        record.provides = list(platform.provides())
    return record


def begin(
    old: NodeRecord | None,
    node: str,
    intent: str,
    run_id: str,
    now: float,
    boot_id: str,
    requester: str = "",
    reason: str = "",
    wall: str = "",
    only: str = "",
    to: str = "",
    fresh: bool = False,
    of_roll: bool = False,
) -> NodeRecord:
    """The record for this run: a new one, or the old one carried on.

    A new run starts its deadlines and attempts anew and keeps what was done before. `fresh`:
    it is a new one even under the id of the last one. `of_roll`: see Request.
    """
    record = NodeRecord(node=node, run_id=run_id) if old is None else old.copy()
    if fresh or record.run_id != run_id or not record.runs or record.boot_id != boot_id:
        record.started, record.boot_id = now, boot_id
        record.started_wall = record.started_wall or wall
        record.waiting_since = record.detaching_since = None
        # A restore that was killed before it was over has said nothing.
        again = record.intent == intent == Intent.ACTIVE.value and bool(record.blocked)
        record.blocked = ""
        record.note(None)
        for entry in record.vms.values():
            asked_owner = entry.waiting_since if run_id == LOOKS and entry.owner_asked else None
            if again and not of_roll and entry.ending == Ending.LOST.value:
                entry.was_active = False  # said once, with the remedy: whoever asks again says that it was deleted
            _continue_record(entry, now, again)
            entry.waiting_since = asked_owner
            for attempt in entry.attempts:
                if attempt.ended and attempt.run_id == run_id:
                    attempt.run_id += " before"  # it does not count for the new one
    if record.intent != intent:
        for entry in record.vms.values():
            entry.start_tries = 0
    record.run_id, record.intent = run_id, intent
    record.only, record.to = only or record.only, to or record.to
    if run_id not in record.runs:
        record.runs.append(run_id)
    record.requester, record.reason = requester or record.requester, reason or record.reason
    return record


def _continue_record(entry: VMRecord, now: float, restored: bool) -> None:
    """Prepare the VM's entry for a new run: what was given up is tried again, and times of an older run or boot are
    cleared. `restored`: this restore follows another one, that has said what blocks it.
    """
    entry.waiting_since = entry.calm_since = entry.unread_since = entry.refused_since = None
    entry.tries = {}
    entry.full_stores = 0
    if entry.start_tries:
        entry.stop_instance = ""  # what runs now a restore may have started, and nobody else
    entry.back_reason = entry.back_message = ""
    if entry.ending == Ending.RESTORED.value:
        entry.forget_stop()
        entry.start_tries = 0
        entry.ending = Ending.NONE.value
    if entry.reason == Reason.Forbidden.value:
        entry.note(None)  # it may have been granted since
    if entry.ending in (Ending.BLOCKED.value, Ending.SKIPPED.value, Ending.LOST.value):
        if entry.reason == Reason.ShutdownTimedOut.value and restored:
            entry.stop_requests = 0  # said once; if it still runs, it is taken to be deaf
        elif entry.reason == Reason.ShutdownTimedOut.value:
            entry.renew_stop()
        entry.ending = Ending.NONE.value
        entry.start_tries = 0
        entry.note(None)
    if entry.stop_way:
        # Asked again at once: the run before may have been killed before it asked.
        entry.stop_started, entry.stop_sent = now, now - ASK_AGAIN_SECONDS
        entry.stop_asked, entry.stop_forced = 0.0, False
        entry.stop_run = ""  # the new run has to want it too
