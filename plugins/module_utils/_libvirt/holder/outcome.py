"""After a migration: where does the VM run? Read on both sides, until the answer is final.

An error of the call says little: a migration may have gone well and only its answer been
lost, or go on in post-copy after libvirt's connection broke. Nothing is touched while the
answer is not final.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ..._core.model.observation import State
from ..._core.reasons.reason import Reason
from ..domain.state import PAUSED, is_resumable
from ..host.connection import LibvirtProblem, libvirt
from .links import Links, Local
from .migrate import Place, Side, completed_stats, flags_of, params_of, place_of, read_side
from .order import MoveOrder

# How long an answer that should be passing may stand until it is believed (seconds). Each side is
# read by itself, and libvirt undefines here and defines there in steps of its own: on busy hosts
# these are seconds apart, and libvirt itself lets a step wait 30 s for the lock of a VM. A false
# "vanished" or "twice" calls somebody at night; the wait costs nobody anything, as nothing is
# touched meanwhile. Twice is the graver word: a target that began to run may have to end first.
PATIENCE = {Place.BOTH: 60.0, Place.NOWHERE: 30.0, Place.UNKNOWN: 120.0}
# Seconds between two tries to resume a broken post-copy: at first, and at most. libvirt refuses it as long as QEMU's
# own stream lives, and that is how it shall be: then QEMU goes on by itself.
RESUME_AGAIN, RESUME_LATEST = 5.0, 60.0
# No job, the source runs, the target still receives: its end is on its way, also where QEMU must
# free much memory on a busy host before it has ended.
SWITCH_OVER = 120.0


@dataclass(frozen=True)
class FinalPlace:
    """ok: the VM runs on the target. at: the node where it is; empty: not known.

    reason: set where the place itself is the trouble. stats: of the completed job. resumed: how often its post-copy was
    resumed.
    """

    ok: bool
    at: str
    reason: Reason | None = None
    message: str = ""
    stats: Mapping[str, Any] = field(default_factory=dict)
    resumed: int = 0


class _BrokenPostCopy:
    """Resumes a post-copy whose stream broke, as often as that is needed: each call takes until the stream breaks again
    or the VM has arrived. Never one that somebody else asked for, whose flags are not known."""

    def __init__(self, local: Local, order: MoveOrder) -> None:
        self._local, self._order = local, order
        self._flag = 0 if order.foreign else int(getattr(libvirt, "VIR_MIGRATE_POSTCOPY_RESUME", 0))
        self._not_before, self._pause, self._told = 0.0, 0.0, ""
        self.resumed = 0

    def step(self, source: State, now: float) -> None:
        """To be asked with each look at the source."""
        if source is not State.POSTCOPY_FAILED or not self._flag or now < self._not_before:
            return
        order = self._order
        flags = flags_of(order) | self._flag
        try:
            dom = self._local.conn.lookupByUUIDString(order.uuid)
            dom.migrateToURI3(order.target_uri, params_of(order, 0, order.disks or ()), flags)
            self.resumed, self._pause = self.resumed + 1, 0.0
        except (libvirt.libvirtError, LibvirtProblem) as exc:
            # Refused, or broken again, or the answer was lost: what it is the next look says.
            refused = isinstance(exc, LibvirtProblem) or exc.get_error_code() == libvirt.VIR_ERR_OPERATION_INVALID
            self.resumed += not refused
            self._pause = min(RESUME_LATEST, self._pause * 2 or RESUME_AGAIN)
            self._tell(str(exc))
        self._not_before = time.monotonic() + self._pause

    def _tell(self, why: str) -> None:
        """Write to the agent's log (its standard error), once for each reason, why libvirt does not resume the
        post-copy: nobody else hears it."""
        if why != self._told:
            self._told = why
            sys.stderr.write(f"{self._order.name}: its post-copy is not resumed: {why}\n")
            sys.stderr.flush()


def wait_for_final_place(links: Links, local: Local, order: MoveOrder) -> FinalPlace:
    """Wait until the place of the VM is final, finish what belongs to it, and tell.

    `local`: the calling thread's connection to this host.
    """
    since = time.monotonic()
    last, pause = Place.MOVING, 0.05
    broken = _BrokenPostCopy(local, order)
    while True:
        source, trouble_here = _read_source(local, order)
        target, trouble_there = _read_target(links, order)
        job = source.job is not None
        place = place_of(source.state, target.state, job)
        now = time.monotonic()
        broken.step(source.state, now)
        if place is not last:
            last, since, pause = place, now, 0.05
        over = now - since
        receiving = place is Place.MOVING and not job and target.state is State.INCOMING
        if receiving and source.state is State.RUNNING and over > SWITCH_OVER:
            place = Place.SOURCE
        if place is not Place.MOVING and over >= PATIENCE.get(place, 0.0):
            trouble = "; ".join(t for t in (trouble_here, trouble_there) if t)
            return replace(_conclude(links, order, place, source, trouble), resumed=broken.resumed)
        time.sleep(pause)
        pause = min(0.5, pause * 1.5)


def _read_source(local: Local, order: MoveOrder) -> tuple[Side, str]:
    try:
        return read_side(local.conn, order.uuid), ""
    except (libvirt.libvirtError, LibvirtProblem) as exc:
        return Side(State.UNKNOWN), str(exc)


def _read_target(links: Links, order: MoveOrder) -> tuple[Side, str]:
    if not order.target_uri:
        return Side(State.UNKNOWN), "the target is not known"
    try:
        with links.peer(order.target_uri) as conn:
            return read_side(conn, order.uuid), ""
    except (libvirt.libvirtError, LibvirtProblem) as exc:
        return Side(State.UNKNOWN), str(exc)


def _conclude(links: Links, order: MoveOrder, place: Place, source: Side, trouble: str) -> FinalPlace:
    if place is Place.TARGET:
        return FinalPlace(True, order.target, stats=_arrive(links, order))
    if place is Place.SOURCE:
        return FinalPlace(False, order.node, message=trouble)
    if place is Place.BOTH:
        return FinalPlace(False, "", Reason.RunningTwice, f"on {order.node} and {order.target}")
    if place is Place.UNKNOWN:
        return FinalPlace(False, "", Reason.PeerUnreachable, trouble)
    if source.state is State.SHUTOFF:
        return FinalPlace(False, order.node, Reason.StoppedByItself)
    text = f"neither on {order.node} nor on {order.target}"
    return FinalPlace(False, "", Reason.VMVanished, text)


def _arrive(links: Links, order: MoveOrder) -> Mapping[str, Any]:
    """Autostart as before; the completed job's numbers. What fails here is done by the drain."""
    try:
        with links.peer(order.target_uri) as conn:
            dom = conn.lookupByUUIDString(order.uuid)
            if order.autostart and order.persistent and not dom.autostart():
                dom.setAutostart(1)
            return completed_stats(dom)
    except (libvirt.libvirtError, LibvirtProblem):
        return {}


def resume(local: Local, order: MoveOrder) -> str:
    """Let a VM run on that stayed here. Empty: it runs; else why it could not be resumed.

    Whatever the settings of this order: a holder before this one may have suspended it by others,
    and so may libvirt. It ran before, since a VM that was paused is not migrated by us.
    """
    if order.foreign:
        return ""
    try:
        dom = local.conn.lookupByUUIDString(order.uuid)
        if is_resumable(*dom.state()):
            dom.resume()
    except (libvirt.libvirtError, LibvirtProblem) as exc:
        return str(exc) or type(exc).__name__
    return ""


def suspend_again(links: Links, local: Local, order: MoveOrder, at: str) -> None:
    """Its owner suspended it on its way, and libvirt lets it run on where it ends up: at once again.

    What fails is seen by nobody but its owner: it runs.
    """
    if order.foreign:
        return
    with suppress(libvirt.libvirtError, LibvirtProblem):
        if at == order.node:
            _suspend(local.conn, order.uuid)
        elif at == order.target:
            with links.peer(order.target_uri) as conn:
                _suspend(conn, order.uuid)


def _suspend(conn: Any, uuid: str) -> None:
    dom = conn.lookupByUUIDString(uuid)
    if dom.state()[0] != PAUSED:
        dom.suspend()
