"""How fast guests write to their memory, measured by QEMU when asked.

virDomainStartDirtyRateCalc lets QEMU take samples of the guest's pages and compare them after
some seconds. It changes nothing in the guest, and no page is protected or logged for it. What is
counted is pages that differ, so a guest that writes the same few pages over and over stands at
no more than these in the time of a measurement: that is also what a migration must send again.

QEMU keeps the last measurement, with its start: in seconds of the host's monotonic clock up to
QEMU 8.1, of its wall clock since 8.2 (QEMU's migration/dirtyrate.c: first QEMU_CLOCK_REALTIME, then
QEMU_CLOCK_HOST; both were seen). So nothing is kept here: the next slice, and a run that is
started again, find it there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .connection import libvirt

# virDomainDirtyRateStatus in libvirt's include/libvirt/libvirt-domain.h (stable API).
MEASURING, MEASURED = 1, 2
# The longest that libvirt takes, and how long a measurement is good for. Seconds.
LONGEST = 60
MIB = 1 << 20
FRESH = 600
# Beyond its time, for the sums over the samples of a large guest whose QEMU shares its processor.
# Who is done is not waited for.
_GRACE = 15.0
_POLL = 0.2

Stats = Mapping[str, Any]


def measure(
    conn: Any,
    uuids: Iterable[str],
    seconds: int,
    now: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_MONOTONIC),
    sleep: Callable[[float], None] = time.sleep,
    wall: Callable[[], float] = time.time,
    fresh: float = FRESH,
) -> dict[str, float]:
    """UUID -> MiB/s, of those that could be measured. All at once; takes about `seconds`, or
    nothing where all were measured in the last ten minutes (`fresh`, in seconds).

    Raises libvirtError when the connection broke.
    """
    wanted = set(uuids)
    found = _read(conn, wanted)
    old = {u for u in wanted if not _is_fresh(found.get(u, {}), fresh, now(), wall())}
    waiting = {u for u in old if _start(conn, u, seconds)}
    over = now() + seconds + _GRACE
    while waiting and now() < over:
        sleep(_POLL)
        found.update(_read(conn, waiting))
        waiting = {u for u in waiting if found.get(u, {}).get("status") == MEASURING}
    return {u: float(s["rate"]) for u, s in found.items() if _is_fresh(s, FRESH, now(), wall())}


class Rate(NamedTuple):
    """Bytes/s, as they were measured for so many seconds."""

    writes: float
    seconds: float


def begin(dom: Any, seconds: int = 1) -> None:
    """Let QEMU measure for so long, and do not wait for it: see `known`. Not while it migrates, that waits for the
    job; it may end while it does. Raises libvirtError.

    Never a second time before `known` has told that the first is over. QEMU refuses it only once the thread of the
    first runs. Before that it starts another thread, which ends without leaving QEMU's RCU list (migration/dirtyrate.c,
    "change dirtyrate state failed", since 6.2): the next thread that gets its stack makes a circle of that
    list, and QEMU hangs for good. Seen on 7.2: a guest was paused for ever as its migration was handed over.
    """
    dom.startDirtyRateCalc(seconds, 0)


def known(conn: Any, dom: Any) -> Rate | None:
    """The dirty rate of one domain as measured in the last ten minutes, whoever asked for it, also while it migrates;
    None: it was not measured, or is just being. Raises libvirtError."""
    flags = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
    found = conn.domainListGetStats([dom], libvirt.VIR_DOMAIN_STATS_DIRTYRATE, flags)
    last = _of(found[0][1] if found else {})  # one that has left is left out
    if not _is_fresh(last, FRESH, time.clock_gettime(time.CLOCK_MONOTONIC), time.time()):
        return None
    return Rate(float(last["rate"]) * MIB, float(last["seconds"]))


def _of(stats: Stats) -> Stats:
    return {
        "status": stats.get("dirtyrate.calc_status", 0),
        "start": stats.get("dirtyrate.calc_start_time", 0),
        "rate": stats.get("dirtyrate.megabytes_per_second", 0),
        "seconds": stats.get("dirtyrate.calc_period", 1),
    }


def _read(conn: Any, wanted: Iterable[str]) -> dict[str, Stats]:
    """Not those whose monitor is busy (NOWAIT): a migration may hold it."""
    flags = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
    flags |= libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE
    asked = set(wanted)
    every = conn.getAllDomainStats(libvirt.VIR_DOMAIN_STATS_DIRTYRATE, flags)
    return {dom.UUIDString(): _of(stats) for dom, stats in every if dom.UUIDString() in asked}


def _is_fresh(stats: Stats, fresh: float, *clocks: float) -> bool:
    """Whether it is recent by one of the clocks. They are decades apart, so a start fits at most one.

    A start that lies ahead is of another host's clock, or of one that was set back.
    """
    return stats.get("status") == MEASURED and any(-1 <= now - stats["start"] <= fresh for now in clocks)


def _start(conn: Any, uuid: str, seconds: int) -> bool:
    """Is it being measured? Not one that left, that has a job, or whose QEMU cannot do it."""
    try:
        conn.lookupByUUIDString(uuid).startDirtyRateCalc(seconds, 0)
    except libvirt.libvirtError:
        return False
    return True
