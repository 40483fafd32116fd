"""One slice of a run on one node: the roll, the Lease, what is done, and the Lease again. What the modules call.

Who may work is decided here; what is done, in `work`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ..._core.decision.actions import NodePhase
from ..._core.model.record import Intent, NodeRecord
from ..._core.reasons.reason import Platform
from ..._core.roll.owner import RollTakenOver, calling_off, check_host, check_write
from ..._core.roll.record import RollRecord, Stage
from ..._core.roll.stages import note_seen
from ..._core.run import report
from ..._core.run.engine import Engine, SliceEnd
from ..._playbook import lives
from ..api.client import Client
from ..api.errors import KubeError, LockHeld, NoAnswer
from ..observe.control_node import refuse_own_node
from ..records.lease import PROCESSES, Lock
from ..records.roll import RollLease, system_clock
from ..turns.other_drains import OtherDrains
from ..turns.turns import Turns
from .cursor import pack_left, pack_wait, unpack, unpack_left, unpack_wait
from .platform import KubeVirtPlatform
from .work import Request, call_off, connect, do_slice, note, nothing_to_restore

# Seconds for which the node's Lease is waited for before that is said.
_SAYS_AFTER = 3.0


def run_slice(request: Request) -> dict[str, Any]:
    """Work for about `request.seconds`, then say how far it is.

    Raises KubeError (AccessDenied), NodeUnknown, RecordError, Superseded, LockHeld, RollRefused,
    RollTakenOver, RunsTheMaintenance, KubernetesMissing, and PolicyError for an answer to no hook.
    """
    platform = connect(request)
    platform.client.before_write = lambda: lives.check(request.playbook)
    try:
        if request.intent is Intent.DRAINED:
            refuse_own_node(platform.client, request.node)
        leased = RollLease(platform.client, request.lock_namespace), request.node, request.roll_run
        try:
            drains = request.intent is Intent.DRAINED
            beside: list[str] = []
            of_roll = calling_off(
                lambda: check_host(*leased, system_clock(), request.begun, drains, beside.append),
                partial(_end_what_was_begun, platform, request),
            )
        except RollTakenOver:
            _release_kept(platform.client, request)
            raise
        if request.intent is Intent.ACTIVE and not request.begun:
            note_seen(*leased, Stage.RESTORING, system_clock())
        found = _locked(platform, replace(request, of_roll=of_roll), leased[0] if of_roll else None)
        if beside:
            found["warnings"] = [*beside, *found.get("warnings", ())]
        platform.client.before_write = lambda: lives.check(request.playbook)
        if found.get("phase") == NodePhase.DRAINED.value:
            try:
                note_seen(*leased, Stage.EMPTY, system_clock())
            except KubeError as exc:  # what the drain did is not thrown away for that
                found["warnings"] = [*found.get("warnings", ()), f"The roll could not be told that it is empty: {exc}"]
        return found
    finally:
        platform.close()


def _lock(client: Client, request: Request) -> Lock:
    holder = f"{request.run_id} {secrets.token_hex(4)}"
    lease, drains = int(request.seconds) + 20, request.intent is Intent.DRAINED
    return Lock(client, request.lock_namespace, request.node, holder, lease, drains)


def _release_kept(client: Client, request: Request) -> None:
    """Release the Lease that the slice before kept for this one, so that a restore need not wait until it expires."""
    cursor = unpack(request.cursor) if request.begun else None
    if cursor is not None:
        _lock(client, request).release_kept(cursor.lease)


def _end_what_was_begun(platform: KubeVirtPlatform, request: Request, let_finish: bool) -> None:
    """End what earlier slices of this run have requested, where this one finds its roll aborted. It does nothing
    unless it gets the Lease that they kept. `let_finish`: migrations that run may end."""
    cursor = unpack(request.cursor) if request.begun else None
    lock = platform.lock = _lock(platform.client, request)
    lock.annotate = _annotations(platform, request)
    if cursor is None or not lock.renew(cursor.lease):
        return
    try:
        call_off(platform, Engine(platform, request.policy, platform.resume(cursor)), request, let_finish)
    finally:
        lock.release()


def _annotations(platform: KubeVirtPlatform, request: Request) -> Callable[[dict[str, str]], dict[str, str]]:
    """A function for Lock.annotate: the annotations of the node's Lease while this slice holds it."""
    processes = {PROCESSES: lives.noted(request.playbook)}
    return lambda notes: {**platform.lease_annotations(notes, request.run_id), **processes}


def _locked(platform: KubeVirtPlatform, request: Request, roll: RollRecord | None) -> dict[str, Any]:
    """The slice while nobody else of ours works on the node. `roll`: to which it belongs; None: to none."""
    lock = _lock(platform.client, request)
    try:
        return _with_lock(platform, request, lock, roll)
    except NoAnswer as exc:
        if request.cursor is not None:
            exc.cursor = pack_left(request.cursor, lock.holder)
        raise


def _with_lock(platform: KubeVirtPlatform, request: Request, lock: Lock, roll: RollRecord | None) -> dict[str, Any]:
    client = platform.client
    platform.lock = lock
    lock.annotate = _annotations(platform, request)
    platform.turns = Turns(OtherDrains(client, lock, platform.observer.watches.wake, platform.now))

    def before_write() -> None:
        lock.keep()
        lives.check(request.playbook)
        if roll is not None:
            check_write(roll, request.roll_run)

    client.before_write = before_write
    if (
        request.intent is Intent.ACTIVE
        and not request.begun
        and platform.load() is None
        and not platform.record_from_lease(lock.read(), request.run_id)
    ):
        return nothing_to_restore(platform, request)
    cursor = unpack(request.cursor) if request.begun else None
    saved = ("", float("-inf"))
    if cursor is not None and lock.renew(cursor.lease):
        old: NodeRecord | None = platform.resume(cursor)
        saved = (cursor.record if cursor.saved else "", cursor.saved_at)
    else:
        seen, waited = unpack_wait(request.cursor)
        longest = request.seconds + 25.0 - waited
        patience = longest if request.cursor is None else min(longest, _SAYS_AFTER)
        try:
            old = lock.take(patience, platform.load, seen, unpack_left(request.cursor))
        except LockHeld as exc:
            if patience >= longest:
                raise
            return _waits_for_lease(request, exc, waited + patience)
        if old is None:
            old = platform.record_from_lease(lock.held, request.run_id)
        if old is not None and request.begun:
            saved = (old.to_json(), platform.now())
    try:
        found = do_slice(platform, request, old, saved, lock)
        note(platform, request, found)
    except BaseException:
        client.before_write = lambda: None  # whatever ended it: who comes next need not wait for it
        lock.release()
        raise
    client.before_write = lambda: None  # the same where the roll was closed: who closed it waits for the Lease
    if found["phase"] == NodePhase.ACTIVE.value:
        lock.remove()
    elif "cursor" not in found:
        lock.release()
    return found


def _waits_for_lease(request: Request, held: LockHeld, waited: float) -> dict[str, Any]:
    """A slice in which nothing was read or done; the next one waits on."""
    drains = request.intent is Intent.DRAINED
    phase = NodePhase.DRAINING if drains else NodePhase.RESTORING
    found = replace(report.nothing(Platform.KUBEVIRT, request, phase), ended=SliceEnd.OUT_OF_TIME)
    cursor = pack_wait(held.seen, waited)
    return found.to_dict(nudges=0, pods=[], waits_for=held.waits, cursor=cursor)
