"""One migration in the holder: waits for admission, makes the call, finds out how it ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..._core.link.converge import Forecast, Look
from ..._core.link.deadline import DeadlineAction, Deadlines, DeadlineVerdict
from ..._core.link.rules import LinkJob
from ..._core.model.observation import AbortStatus, MigrationMethod, Mode, Phase
from ..._core.reasons.reason import Reason
from ..blockers.qemu_blockers import is_blocked
from ..domain.state import PAUSED
from ..host.connection import LibvirtProblem, libvirt, with_hint
from ..host.dirty_rate import Rate, begin, known
from ..store.copied_disks import forget, note_copies_left, stamp_copies_left
from ..store.volumes import Store, StoreError, VolumeMissing
from .copy_signs import copy_signs
from .disks import CopyDisk, DisksError, TargetVolumes, disks_to_copy
from .links import Links
from .migrate import flags_of, outgoing_job, params_of
from .order import AttemptEnd, MoveOrder, ended
from .outcome import FinalPlace, resume, suspend_again, wait_for_final_place
from .probe import Pace, Probe

MIB = 1 << 20
MEASURED_EVERY = 3.0  # s, while it waits for its turn
MEASURED_OVER = 10  # s, from the beginning of its migration on: that shows bursts
# Who writes how much is told by the passes over the memory as well, and in less than 20 s where the memory is smaller
# than this (MiB) and the link carries 400 Mbit/s. A larger VM waits until its short measurement is over (s at most).
LARGE, SHORT_IS_OVER = 1024, 1.5


def _resumed(times: int) -> list[str]:
    return [f"post-copy resumed{f' {times} times' if times > 1 else ''}"] if times else []


class PausedByOwner(Exception):
    """Its owner has paused it: it is not migrated, since afterwards it could not be told."""


class ClaimGone(Exception):
    """Its place on the target was given to others: it does not begin."""


class Job:
    """`changed(job)`: something worth telling. `over(job, ended)`: the end, called once.

    `mark(conn)`: leaves a new mark of the holder on this host.
    """

    def __init__(
        self,
        links: Links,
        order: MoveOrder,
        changed: Callable[[Job], None],
        over: Callable[[Job, AttemptEnd], None],
        pace: Pace,
        mark: Callable[[Any], None] = lambda _conn: None,
    ) -> None:
        self.order = order
        self.phase = Phase.PENDING
        self.began = time.monotonic()
        self.open = False
        self.bandwidth_mib = 0
        self.disk_bytes = 0
        self._links = links
        self.local = links.local()  # for the job's own thread
        self._changed = changed
        self._over = over
        self._mark = mark
        self._lock = threading.Lock()
        self._admitted = threading.Event()
        self._withdrawn = False
        self._verdict: DeadlineVerdict | None = None
        self._user_abort = False
        self._prepared = self._begun = False  # begun: libvirt is called, or was by another one
        self.probe = Probe(links.local(), order.uuid, lambda: changed(self), pace, order.settings.max_downtime_ms)
        self._measured: list[Rate] = []  # before it began
        self._asked = 0.0  # when QEMU was asked to measure for a second
        self.deadlines = self._deadlines()
        self.forecast = Forecast()
        self.thread = threading.Thread(target=self._run, name=f"move-{order.uuid}", daemon=True)

    # What the board sees and says

    @property
    def started(self) -> bool:
        return self.phase is not Phase.PENDING

    def as_link_job(self) -> LinkJob:
        """The scheduler's view."""
        sample, order = self.probe.sample, self.order
        block = order.method is MigrationMethod.BLOCK and not sample.memory
        return LinkJob(
            stamp=sample.stamp,
            target=order.target,
            priority=order.priority,
            size=order.memory_mib * MIB + self.disk_bytes,
            started=self.started,
            processed=sample.processed,
            remaining=sample.remaining,
            dirty_rate=sample.dirty_rate or int(order.may_write),  # before its first pass is over
            iteration=sample.iteration,
            cap_mib=order.settings.bandwidth_mib,
            adjustable=not (block or order.foreign) and self.probe.mode is not Mode.POST_COPY,
            sticky=order.settings.auto_converge,
        )

    def set_bandwidth(self, mib: int) -> None:
        """A bandwidth (MiB/s). The first one admits the migration."""
        if not self.order.foreign:
            self.bandwidth_mib = mib
            self.probe.want(mib)
        self._admitted.set()

    def check_deadlines(self, now: float) -> None:
        """Enforce them, by the latest numbers."""
        probe = self.probe
        if self.order.foreign:
            return
        if not probe.seen or probe.gone or probe.abort_status is not AbortStatus.NONE:
            return
        sample = probe.sample
        seen = Look(sample.iteration, sample.remaining, sample.processed, sample.throttle)
        if probe.measured is not None:
            self.deadlines.note_writes(*probe.measured)
        verdict = self.deadlines.step(now, self.open, seen, probe.mode)
        self.forecast = verdict.forecast
        if verdict.action is DeadlineAction.NONE:
            return
        if verdict.action is not DeadlineAction.DOWNTIME:
            self._verdict = verdict
        probe.apply_deadline(verdict.action)

    def abort(self) -> tuple[str, str]:
        """(withdrawn | aborting | refused, a sentence). The end comes as outcome."""
        with self._lock:
            if self._withdrawn or not self.started:
                self._withdrawn = self._user_abort = True
                self._admitted.set()
                return "withdrawn", "the migration had not started"
        if self.probe.mode is Mode.POST_COPY:
            return "refused", "post-copy runs: the VM's memory is on both hosts, so it must complete"
        if self.probe.gone:
            return "refused", "the memory has been sent: the VM is being switched over"
        if self.probe.abort_status is AbortStatus.FAILED:
            return "refused", self.probe.message
        if self.probe.abort_status is AbortStatus.NONE:
            self._user_abort = True
            self.probe.apply_deadline(DeadlineAction.ABORT)
        return "aborting", "the job is being aborted"

    # The thread

    def _run(self) -> None:
        try:
            outcome = self._watch() if self.order.watch else self._move()
        except Exception as exc:  # noqa: BLE001 - an error of ours must not leave it unheard
            text = f"the migration agent failed: {type(exc).__name__}: {exc}"
            outcome = ended(self.order, Reason.OutcomeLost, text)
        self.probe.stop()
        self._over(self, outcome)
        self.local.close()

    def _start(self) -> bool:
        with self._lock:
            if self._withdrawn:
                return False
            self.phase = Phase.RUNNING
        self._changed(self)
        return True

    def _move(self) -> AttemptEnd:
        self._wait_for_turn()
        if not self._start():
            return ended(self.order, Reason.AbortRequested, "withdrawn before it started", self.order.node)
        self.began = time.monotonic()
        error, reason = "", Reason.MigrationFailed
        try:
            dom = self.local.conn.lookupByUUIDString(self.order.uuid)
            if outgoing_job(dom) is not None:  # of a holder that died
                return self._watch()
            self._check_runs(dom)
            self._call(dom)
        except PausedByOwner as exc:
            error, reason = str(exc), Reason.StateNotLiveMigratable
        except DisksError as exc:
            error, reason = str(exc), Reason.DisksNotLiveMigratable
        except ClaimGone as exc:
            error, reason = str(exc), Reason.NoTargetWithCapacity
        except LibvirtProblem as exc:
            error, reason = str(exc), Reason.PeerUnreachable
        except StoreError as exc:
            error = str(exc)
        except libvirt.libvirtError as exc:
            error = with_hint(exc)
            if is_blocked(exc):
                reason = Reason.MigrationBlockedByQEMU
        return self._end(wait_for_final_place(self._links, self.local, self.order), reason, error)

    def _check_runs(self, dom: Any) -> None:
        """Raises PausedByOwner."""
        if dom.state()[0] == PAUSED:
            self.probe.suspended = True
            raise PausedByOwner("it was paused before the migration began")

    def _wait_for_turn(self) -> None:
        """Wait until the scheduler opens the link to this migration. Meanwhile QEMU measures now and then what the
        guest writes, of which the most counts; nobody waits for that."""
        while True:
            with suppress(libvirt.libvirtError, LibvirtProblem):
                dom = self.local.conn.lookupByUUIDString(self.order.uuid)
                if self._is_measured(dom) or not self._asked:
                    begin(dom)
                    self._asked = time.monotonic()
            if self._admitted.wait(MEASURED_EVERY):
                return

    def _is_measured(self, dom: Any) -> bool:
        rate = known(self.local.conn, dom)
        self._measured += [] if rate is None else [rate]
        return rate is not None

    def _measure_over_its_beginning(self, dom: Any) -> None:
        """QEMU cannot be asked while it migrates: so it is just before, if it has measured for a second by then."""
        until = self._asked + SHORT_IS_OVER if self.order.memory_mib >= LARGE else 0.0
        with suppress(libvirt.libvirtError):
            while self._asked and not self._is_measured(dom):
                if time.monotonic() >= until:
                    return  # it measures still
                time.sleep(0.1)
            begin(dom, MEASURED_OVER)

    def _call(self, dom: Any) -> None:
        disks = self._prepare(dom)
        self._measure_over_its_beginning(dom)
        self.deadlines = self._deadlines()
        self._ask_for_claim()
        self._check_runs(dom)
        first = self.bandwidth_mib
        self._begun = True
        self.probe.start(first)
        devices = [disk.device for disk in disks]
        with copy_signs(self._links, self.order):
            dom.migrateToURI3(self.order.target_uri, params_of(self.order, first, devices), flags_of(self.order))

    def _deadlines(self) -> Deadlines:
        made = Deadlines(self.order.settings, self.order.memory_mib * MIB + self.disk_bytes, self.order.writes)
        for rate in self._measured:
            made.note_writes(*rate)
        return made

    def _ask_for_claim(self) -> None:
        """Check that our claim still stands. Whoever considers us dead removes it, then reads our mark (see the core's
        owners).

        So first the mark, then the claim: one of the two sees the other.
        """
        order = self.order
        if not order.claim:
            return
        self._mark(self.local.conn)
        try:
            with self._links.peer(order.target_uri) as conn:
                Store(conn).volume(order.claim)
        except VolumeMissing:
            text = f"its reservation on {order.target} was removed: nothing was heard from this host"
            raise ClaimGone(text) from None

    def _prepare(self, dom: Any) -> list[CopyDisk]:
        """Target volumes of a BlockMigration."""
        order = self.order
        if order.method is not MigrationMethod.BLOCK:
            return []
        disks = disks_to_copy(dom, order.disks)
        self.disk_bytes = sum(disk.capacity for disk in disks)
        try:
            self._on_target(lambda volumes: volumes.prepare(disks))
            self._prepared = True
            files = [disk.path for disk in disks if disk.is_file]
            note_copies_left(self.local.conn, order.uuid, files)
        except (libvirt.libvirtError, StoreError) as exc:
            raise DisksError(f"the storage for the copy: {exc}") from exc
        return disks

    def _on_target(self, work: Callable[[TargetVolumes], None]) -> None:
        """Raises HostUnreachable where the target's storage hangs."""
        order = self.order
        self._links.apart(
            order.target_uri, lambda conn, given_up: work(TargetVolumes(conn, order.uuid, given_up=given_up))
        )

    def _watch(self) -> AttemptEnd:
        """Look after a migration that nobody of ours waits for."""
        self._start()
        self._begun = True
        self.probe.start(None)
        with copy_signs(self._links, self.order):
            settled = wait_for_final_place(self._links, self.local, self.order)
        # It was seen under way, so what is noted of its disks was in its use until now.
        copied = self.order.method is MigrationMethod.BLOCK and not self.order.foreign
        self._prepared = copied and self.probe.seen
        self.began = time.monotonic() - self.probe.sample.elapsed
        text = "the process that requested the migration died; libvirt's log has the reason"
        return self._end(settled, Reason.OutcomeLost, text)

    def _end(self, settled: FinalPlace, reason: Reason, error: str) -> AttemptEnd:
        """The outcome: where the VM runs decides, not the error."""
        stays = ""
        if settled.at == self.order.node:
            # A suspend of ours may come just after the job: nothing of ours comes after this.
            self.probe.end()
            if self._begun and not self._suspended:  # else its owner has paused it
                stays = resume(self.local, self.order)
            error = "; ".join(p for p in (error, stays and f"it is paused: {stays}") if p)
        if self._suspended:
            suspend_again(self._links, self.local, self.order, settled.at)
        if settled.ok:
            outcome = ended(self.order, None, at=settled.at)
        else:
            outcome = ended(self.order, *self._why(settled, reason, error), at=settled.at)
        self._clean(settled)
        stats = settled.stats
        sample = self.probe.sample
        downtime = stats.get("downtime")
        return AttemptEnd(
            **{
                **outcome.__dict__,
                "mode": self.probe.mode,
                "processed": int(stats.get("data_processed", 0)) or sample.processed,
                "seconds": time.monotonic() - self.began,
                "downtime_ms": None if downtime is None else int(downtime),
                "steps": [*self.deadlines.steps, *_resumed(settled.resumed)],
                "writes": self._most_written(),
                "paused": bool(stays),
            }
        )

    def _most_written(self) -> float:
        """Bytes in a second, of one that did not converge: what the next attempt begins with; 0: not known."""
        never = self._verdict is not None and self._verdict.reason is Reason.NotConverging
        return self._verdict.forecast.writes if never and self._verdict else 0.0

    @property
    def _suspended(self) -> bool:
        """Did its owner suspend it on its way? A holder before this one may have, by the policy."""
        by_us = self.order.watch and self.order.settings.on_timeout == "pause"
        return self.probe.suspended and not by_us

    def _why(self, settled: FinalPlace, reason: Reason, error: str) -> tuple[Reason, str]:
        text = "; ".join(part for part in (settled.message, error) if part)
        if settled.reason is not None:
            return settled.reason, text
        if self._user_abort:
            return Reason.AbortRequested, text
        if self._verdict is not None and self._verdict.reason is not None:
            return self._verdict.reason, f"{self._verdict.message}; {text}"
        return reason, text

    def _clean(self, settled: FinalPlace) -> None:
        """Keep the target's volumes where the VM is there, remove them where it surely is not."""
        if not self._prepared:
            return
        order = self.order
        try:
            if settled.ok:
                stamp_copies_left(self.local.conn, order.uuid, watched=True)
            elif settled.at == order.node:
                forget(Store(self.local.conn), order.uuid)
            if settled.ok:
                self._on_target(lambda volumes: volumes.keep())
            elif settled.at == order.node:
                self._on_target(lambda volumes: volumes.remove(runs=settled.reason is None))
        except (libvirt.libvirtError, LibvirtProblem, StoreError, DisksError):
            return  # the notes stay: the next look of a drain or restore goes by them (records/disk_copies.py)
