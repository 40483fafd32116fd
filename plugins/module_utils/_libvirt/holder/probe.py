"""Looks at one migration and acts on it, in a thread of its own.

A QEMU that is just switching over does not answer for some 100 ms. With a thread each, that
holds up nobody else. Everything here is allowed while a migration job runs: statistics,
speed, abort, post-copy, suspend. Metadata is not (it blocks 30 s and fails), and is never set.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..._core.link.converge import HYPERVISOR_PAUSE
from ..._core.link.deadline import DeadlineAction
from ..._core.model.observation import AbortStatus, Mode, State
from ..domain.state import PAUSED, to_state
from ..host.connection import LibvirtProblem, libvirt
from ..host.dirty_rate import Rate, known
from .links import Local
from .migrate import outgoing_job

FAST, SLOW = 0.1, 0.4  # least seconds between two looks: with the link, and without
# A look makes QEMU's main thread work, and libvirtd's: so many a second, for all of them.
FAST_LOOKS, SLOW_LOOKS = 30, 12
MEASURED_BY = 3.0  # s of a migration, after which what QEMU was asked to measure as it began may be there ...
LOOK_AGAIN = 1.0  # ... and after which it is looked for again
END_FOR = 30.0  # seconds to wait for the end of a call to libvirt
# Seconds for which a VM must stand still before its owner may have suspended it: a switch-over is shorter.
STANDS_STILL = 1.0
_RUN_STATE = '{"execute": "query-status"}'
# Seconds until an abort or a pause that was refused is asked for again: at first, and at most.
ABORT_AGAIN, ABORT_LATEST = 0.5, 5.0


@dataclass
class Pace:
    """Seconds between two looks at one migration: with the link, and without."""

    fast: float = FAST
    slow: float = SLOW

    def share(self, open_jobs: int, waiting_jobs: int) -> None:
        """Keep to the number of looks, however many migrations there are."""
        self.fast = max(FAST, open_jobs / FAST_LOOKS)
        self.slow = max(SLOW, waiting_jobs / SLOW_LOOKS)


@dataclass(frozen=True)
class Sample:
    """The job as last seen. `stamp`: monotonic seconds. Sizes in bytes, rates in bytes/s."""

    stamp: float = 0.0
    processed: int = 0
    total: int = 0
    remaining: int = 0
    rate: int = 0
    dirty_rate: int = 0
    iteration: int = 0
    elapsed: float = 0.0
    memory: bool = False  # memory flows (not: disks are copied first)
    throttle: int = 0  # %, by auto-converge


def to_sample(stats: Mapping[str, Any], stamp: float) -> Sample:
    """Parse virDomainGetJobStats. The dirty rate is in pages per second."""
    page = int(stats.get("memory_page_size", 4096))
    return Sample(
        stamp=stamp,
        processed=int(stats.get("data_processed", 0)),
        total=int(stats.get("data_total", 0)),
        remaining=int(stats.get("data_remaining", 0)),
        rate=int(stats.get("memory_bps", 0)) + int(stats.get("disk_bps", 0)),
        dirty_rate=int(stats.get("memory_dirty_rate", 0)) * page,
        iteration=int(stats.get("memory_iteration", 0)),
        elapsed=int(stats.get("time_elapsed", 0)) / 1000.0,
        memory=int(stats.get("memory_total", 0)) > 0,
        throttle=int(stats.get("auto_converge_throttle", 0)),
    )


class Probe:
    """One domain's migration job, seen from the source. `local`: for its thread alone.

    `pace`: how often to look. `max_downtime_ms`: the pause that the guest is allowed; 0 leaves
    it to the hypervisor. A shorter one than the hypervisor's holds from the start, a longer one when it is due.
    """

    def __init__(
        self, local: Local, uuid: str, changed: Callable[[], None], pace: Pace | None = None, max_downtime_ms: int = 0
    ) -> None:
        self._pace = pace or Pace()
        self._max_downtime_ms = max_downtime_ms
        self._downtime_due = max_downtime_ms <= HYPERVISOR_PAUSE * 1000
        self._local = local
        self._uuid = uuid
        self._changed = changed
        self._wake = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._dom: Any = None
        self._wanted: int | None = None
        self._applied: int | None = None
        self._measures: list[DeadlineAction] = []
        self._pause = self._not_before = 0.0  # of an abort or a pause that was refused
        self._still_since: float | None = None
        self.sample = Sample()
        self.seen = False  # a job was seen at all
        self.gone = False  # a job was seen, and is no more
        self.measured: Rate | None = None  # as QEMU measured what the guest writes; None: that was not read yet
        self._read_at = MEASURED_BY
        self.mode = Mode.PRE_COPY
        self.suspended = False  # by its owner, while it migrates
        self.abort_status = AbortStatus.NONE  # FAILED: not any more, post-copy runs
        self.message = ""

    # From other threads

    def start(self, first_mib: int | None) -> None:
        """Look until `stop`. `first_mib`: the bandwidth with which the job starts (MiB/s)."""
        self._applied = first_mib
        self._thread = threading.Thread(target=self._run, name=f"probe-{self._uuid}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()

    def end(self) -> None:
        """`stop`, and wait until it does nothing any more, or hangs in a call."""
        self.stop()
        if self._thread is not None:
            self._thread.join(END_FOR)

    def want(self, mib: int) -> None:
        """The bandwidth that the job shall have (MiB/s)."""
        self._wanted = mib
        self._wake.set()

    def apply_deadline(self, what: DeadlineAction) -> None:
        """A longer downtime, abort, post-copy or pause, as soon as the job can be reached."""
        if what is DeadlineAction.DOWNTIME:
            self._downtime_due = True
            self._wake.set()
            return
        if what is DeadlineAction.ABORT:
            self.abort_status = AbortStatus.ABORTING
        self._measures.append(what)
        self._wake.set()

    # The thread

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._read_job()
                if self.seen and not self.gone:
                    self._act()
            except (libvirt.libvirtError, LibvirtProblem) as exc:
                # The domain is gone, or libvirtd restarts: who waits for the end finds out.
                self.message = str(exc)
                self._dom = None
            busy = self._wanted is None or self._wanted > 1 or bool(self._measures)
            self._wake.wait(self._pace.fast if busy or not self.seen else self._pace.slow)
            self._wake.clear()
        self._dom = None
        self._local.close()

    def _read_job(self) -> None:
        if self._dom is None:
            self._dom = self._local.conn.lookupByUUIDString(self._uuid)
        stats = outgoing_job(self._dom)
        if stats is None:
            self.gone = self.seen
            return
        self._look_for_suspend(time.monotonic())
        before = self.sample
        self.sample = to_sample(stats, time.monotonic())
        flows = self.sample.processed > 0
        if self.measured is None and self.sample.iteration == 1 and self.sample.elapsed >= self._read_at:
            self._read_at = self.sample.elapsed + LOOK_AGAIN
            self.measured = self._read_measured()
        if not self.seen or (flows and not before.processed):
            self._first_read(flows)

    def _read_measured(self) -> Rate | None:
        """Read the rate that QEMU has measured; None: there is none. For a first pass that is long: before it is over
        nothing else tells what the guest writes."""
        try:
            return known(self._local.conn, self._dom)
        except libvirt.libvirtError as exc:
            self.message = str(exc)
            return None

    def _look_for_suspend(self, now: float) -> None:
        """libvirt lets a VM be suspended while it migrates, and resumes it on its target.

        It says "paused for migration" of that as of the switch-over, and so does its event. QEMU
        knows; its monitor taints the domain, so it is asked once, of one that stands still too long.
        """
        if self.mode is not Mode.PRE_COPY:
            return
        if self._dom.state()[0] != PAUSED:
            self._still_since, self.suspended = None, False
            return
        if self._still_since is None:
            self._still_since = now
        elif not self.suspended and now - self._still_since >= STANDS_STILL:
            self._still_since = now
            self.suspended = _is_suspended(self._dom)

    def _first_read(self, flows: bool) -> None:
        """A speed that was set before the memory flows is overwritten by the start's."""
        if not self.seen and self._applied is None:  # adopted: it may be in post-copy already
            number, reason = self._dom.state()
            if to_state(number, reason, incoming=False) is State.POSTCOPY_SOURCE:
                self.mode = Mode.POST_COPY
        self.seen = True
        if flows:
            self._changed()

    def _act(self) -> None:
        if self.mode is not Mode.POST_COPY and self.sample.processed > 0:
            wanted = self._wanted
            if wanted is not None and wanted != self._applied:
                self._dom.migrateSetMaxSpeed(wanted, 0)
                self._applied = wanted
            self._allow_downtime()
        while self._measures:
            due = DeadlineAction.ABORT if DeadlineAction.ABORT in self._measures else self._measures[0]
            if not self._take(due):
                return
            self._measures.remove(due)
            self._changed()

    def _allow_downtime(self) -> None:
        """Once. libvirt takes it while the job runs; a refusal is no ground to end the job."""
        if not self._downtime_due:
            return
        milliseconds, self._max_downtime_ms = self._max_downtime_ms, 0
        if milliseconds:
            try:
                self._dom.migrateSetMaxDowntime(milliseconds, 0)
            except libvirt.libvirtError as exc:
                self.message = str(exc)

    def _take(self, what: DeadlineAction) -> bool:
        """Do it. False: not yet, try again."""
        if time.monotonic() < self._not_before:
            return False
        try:
            if what is DeadlineAction.ABORT:
                return self._abort()
            if what is DeadlineAction.POST_COPY:
                self._dom.migrateStartPostCopy(0)
                self.mode = Mode.POST_COPY
            elif what is DeadlineAction.PAUSE:
                self._dom.suspend()
                self.mode = Mode.PAUSED
        except libvirt.libvirtError as exc:
            self.message = str(exc)
            # A lock that was not to be had, libvirtd is busy ... Post-copy is named again as long as it is due.
            if what is not DeadlineAction.POST_COPY:
                self._put_off()
                return False
        self._pause = 0.0
        return True

    def _put_off(self) -> None:
        """Ask again: as long as the job runs it is due."""
        self._pause = min(ABORT_LATEST, self._pause * 2 or ABORT_AGAIN)
        self._not_before = time.monotonic() + self._pause

    def _abort(self) -> bool:
        number, reason = self._dom.state()
        state = to_state(number, reason, incoming=False)
        if state in (State.POSTCOPY_SOURCE, State.POSTCOPY_FAILED):
            self.mode = Mode.POST_COPY
            self.message = "post-copy runs: the VM's memory is on both hosts, so it must complete"
            self.abort_status = AbortStatus.FAILED
            return True
        self._dom.abortJob()
        return True


def _is_suspended(dom: Any) -> bool:
    """Does QEMU say that it was stopped, and not for the end of its migration?"""
    try:
        import libvirt_qemu  # noqa: PLC0415 - it comes with libvirt's binding on some systems only

        answer = json.loads(libvirt_qemu.qemuMonitorCommand(dom, _RUN_STATE, 0))
    except (ImportError, ValueError):
        return False
    return bool(answer.get("return", {}).get("status") == "paused")
