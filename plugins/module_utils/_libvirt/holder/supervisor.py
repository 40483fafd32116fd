"""All work of the holder: migrations (who gets the link, deadlines, outcomes), saves, stops."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..._core.link.rules import most_started
from ..._core.link.scheduler import LinkScheduler
from ..._core.model.observation import AbortStatus
from ..domain.untrusted import load_json
from ..host.connection import LibvirtProblem, libvirt
from ..store.volumes import OutcomeName, Store, StoreError, VolumeMissing, VolumeTorn, format_name
from .heartbeat import Heartbeat
from .job import Job
from .links import Links, Local
from .order import AttemptEnd, MoveOrder, OrderError, parse_order
from .probe import Pace
from .save import Saves
from .stop import Stops

TICK = 0.1  # seconds between two decisions of the scheduler
WRITE_FOR = 60.0  # seconds in which an outcome is tried to be written
RETRIES = 20  # to replace one of another run


class Supervisor:
    """`publish(event)`: called from any thread with what subscribers shall hear."""

    def __init__(self, links: Links, publish: Callable[[dict[str, Any]], None], log: Callable[[str], None]) -> None:
        self._links = links
        self._publish = publish
        self._log = log
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._scheduler = LinkScheduler(most_started(len(os.sched_getaffinity(0))))
        self._pace = Pace()
        self._saves = Saves(links, publish, log)
        self._stops = Stops(links, publish, log)
        self._stirred = threading.Event()
        self._mark = Heartbeat(links, lambda: bool(self._jobs), log)
        threading.Thread(target=self._loop, name="supervisor", daemon=True).start()
        threading.Thread(target=self._mark.keep_on, name="mark", daemon=True).start()

    @property
    def idle(self) -> bool:
        return not self._jobs and self._saves.idle and self._stops.idle

    # Orders

    def order(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Take a migrate or watch order. Raises OrderError."""
        order = parse_order(raw)
        with self._lock:
            held = self._jobs.get(order.uuid)
            if held is not None:
                return self._held_already(held, order)
            job = Job(*(self._links, order, self._changed, self._over, self._pace), self._mark.renew)
            self._jobs[order.uuid] = job
        kind = "watch" if order.watch else "migrate"
        self._log(f"{kind} {order.name} ({order.uuid}) attempt {order.attempt} -> {order.target}")
        job.thread.start()
        self._changed(job)
        return {"result": "accepted"}

    @staticmethod
    def _held_already(held: Job, order: MoveOrder) -> dict[str, Any]:
        """The same order again is no error. Another one is: it would be taken for this one."""
        mine = held.order
        place = order.target == mine.target
        if order.watch and (place or not order.target or not mine.target):
            return {"result": "held"}
        if place and (mine.run_id, mine.attempt) == (order.run_id, order.attempt):
            return {"result": "held"}
        raise OrderError(
            f"{order.name} is already under way to {mine.target or 'an unknown host'}:"
            f" attempt {mine.attempt} of run {mine.run_id or 'unknown'}"
        )

    def save(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Take a save order. Raises OrderError."""
        return self._saves.order(raw)

    def unsave(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Drop a save that has not begun."""
        return self._saves.withdraw(raw)

    def shutdown(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Take an order to ask a guest to stop. Raises OrderError."""
        return self._stops.order(raw)

    def abort(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Stage-aware: withdrawn, aborting or refused; `none` when nothing is under way.

        An order that names run and attempt aborts no other one. Who began what is only watched
        is not known: that is aborted.
        """
        job = self._jobs.get(str(raw.get("uuid")))
        if job is None:
            return {"result": "none", "message": "no migration of this VM is under way here"}
        held = job.order
        meant = raw.get("run_id"), raw.get("attempt")
        if meant[0] and not held.watch and meant != (held.run_id, held.attempt):
            text = f"attempt {held.attempt} of run {held.run_id} is under way instead"
            self._log(f"abort {held.name}: refused: {text}")
            return {"result": "refused", "message": text}
        result, message = job.abort()
        self._log(f"abort {job.order.name}: {result}: {message}")
        self._changed(job)
        return {"result": result, "message": message}

    # Telling

    def status(self) -> list[dict[str, Any]]:
        """A line for each migration."""
        with self._lock:
            jobs = list(self._jobs.values())
        return [line_of(job) for job in jobs]

    def saves(self) -> dict[str, str]:
        """UUID -> "" for each save under way, or why the last one came to nothing."""
        return self._saves.status()

    def queued(self) -> list[str]:
        """UUIDs of the saves that have not begun."""
        return self._saves.queued()

    def stops(self) -> dict[str, dict[str, Any]]:
        """UUID -> has the guest got a request to stop, and why the last one came to nothing."""
        return self._stops.status()

    def _changed(self, job: Job) -> None:
        self._stirred.set()
        self._publish({"event": "change", "job": line_of(job)})

    def _over(self, job: Job, outcome: AttemptEnd) -> None:
        """Write the outcome, then let go: who sees a VM not held finds its outcome written."""
        text = "ok" if outcome.ok else outcome.to_dict()["reason"]
        self._log(
            f"over {outcome.name} attempt {outcome.attempt}: {text} at {outcome.at or '?'} "
            f"in {outcome.seconds:.2f} s {outcome.to_dict()['message']}"
        )
        self._write(outcome, job.local)
        with self._lock:
            self._jobs.pop(outcome.uuid, None)
        self._mark.withdraw(job.local)
        self._stirred.set()
        self._publish({"event": "over", "job": line_of(job), "outcome": outcome.to_dict()})

    def _write(self, outcome: AttemptEnd, local: Local) -> None:
        name = format_name(OutcomeName(outcome.uuid, outcome.attempt))
        data = json.dumps(outcome.to_dict(), sort_keys=True).encode()
        until = time.monotonic() + WRITE_FOR
        while True:
            try:
                self._put(Store(local.conn), name, data, outcome.run_id)
                return
            except (libvirt.libvirtError, LibvirtProblem, StoreError) as exc:
                if time.monotonic() > until:
                    self._log(f"{name} could not be written: {exc}")
                    return
                time.sleep(0.5)

    def _put(self, store: Store, name: str, data: bytes, run_id: str) -> None:
        """Make the volume. One that another run or a holder that died left there is replaced."""
        for _again in range(RETRIES):
            if store.create(name, data):
                return
            try:
                stands = load_json(store.read(name)).get("run_id") == run_id
            except (VolumeMissing, VolumeTorn, ValueError, AttributeError):
                stands = False  # nothing, or not an outcome
            if stands:
                self._log(f"{name} already exists")
                return
            self._log(f"{name} of another run is replaced")
            store.delete(name)
        raise StoreError(f"something that libvirt does not list is in the way of {name}")

    # The link

    def _loop(self) -> None:
        while True:
            self._stirred.wait(TICK if self._jobs else 1.0)
            if self._stirred.is_set():
                self._stirred.clear()
            try:
                self.tick(time.monotonic())
            except Exception as exc:  # noqa: BLE001 - the loop must go on, and it is logged
                self._log(f"scheduler: {type(exc).__name__}: {exc}")
                time.sleep(1.0)
            time.sleep(TICK / 4)

    def tick(self, now: float) -> None:
        """One decision."""
        with self._lock:
            jobs = dict(self._jobs)
        for uuid, mib in self._scheduler.step(now, {uuid: job.as_link_job() for uuid, job in jobs.items()}).items():
            jobs[uuid].set_bandwidth(mib)
        for uuid, job in jobs.items():
            job.open = self._scheduler.is_open(uuid)
            job.check_deadlines(now)
        started = sum(job.started for job in jobs.values())
        has_link = sum(job.started and job.open for job in jobs.values())
        self._pace.share(has_link, started - has_link)


def line_of(job: Job) -> dict[str, Any]:
    """One migration as subscribers see it. Sizes in bytes, rates in bytes/s, times in s."""
    sample, probe, order = job.probe.sample, job.probe, job.order
    return {
        "uuid": order.uuid,
        "name": order.name,
        "attempt": order.attempt,
        "source": order.node,
        "target": order.target,
        "method": order.method.value,
        "watch": order.watch,
        "phase": job.phase.value,
        "mode": probe.mode.value,
        "open": job.open,
        "bandwidth_mib": job.bandwidth_mib,
        "processed": sample.processed,
        "total": sample.total,
        "remaining": sample.remaining,
        "rate": sample.rate,
        "dirty_rate": sample.dirty_rate,
        "iteration": sample.iteration,
        "elapsed": sample.elapsed,
        "abort_requested": probe.abort_status is not AbortStatus.NONE,
        "abort_status": probe.abort_status.value,
        "message": probe.message,
        "never": "; ".join([str(job.forecast), *job.deadlines.steps]) if job.forecast.converges is False else "",
        "run_id": order.run_id,
    }
