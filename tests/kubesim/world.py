"""What everybody in the simulated cluster shares: the store, the clock, the work queue."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from . import words
from .answers import ApiError
from .clock import Clock
from .kinds import EVENTS, KUBEVIRTS, PODS
from .store import Change, Obj, Store, random_name

T = TypeVar("T")
# As client-go does: so many of one reason about one object, the next ones are told together, with the newest text.
SIMILAR = 10
# And of one component about one object it takes so many, then one in so many seconds, whatever their reasons.
BURST, REFILL = 25, 300.0
_OF_NODES = frozenset({"Migrated", "Migrating", "Started", "Stopped", "SyncFailed"})  # what virt-handlers tell of a VMI
GOES = 0.005  # from the end of a pod's grace until the API has it no more
COMBINED = "(combined from similar events): "
DEFAULTS: dict[str, Any] = {
    "parallelMigrationsPerCluster": 5,
    "parallelOutboundMigrationsPerNode": 2,
    "completionTimeoutPerGiB": 150,
    "progressTimeout": 150,
    "allowAutoConverge": False,
    "allowPostCopy": False,
    "bandwidthPerMigration": "0",
    "unsafeMigrationOverride": False,
    "nodeDrainTaintKey": "kubevirt.io/drain",
}


class World:
    """`version`: KubeVirt's, as (major, minor). `heartbeat`: seconds between two of a node."""

    def __init__(self, clock: Clock, version: tuple[int, int] = (1, 10)) -> None:
        self.clock = clock
        self.store = Store(clock)
        self.version = version
        self.heartbeat = 10.0
        self.pace = 1.0  # node agents need so many times as long for all that they do
        self.virt_api_down = False
        self.target_ends = 12.0  # from the failure of a migration until its target pod has ended
        self.detach_seconds = 2.0  # from the end of a pod until its volume is detached
        self.pods_refused: dict[str, str] = {}  # namespace -> why no launcher is made there: PodSecurity, a LimitRange
        self.paused: set[str] = set()  # controllers that do nothing
        self._pending: dict[Hashable, Callable[[], None]] = {}
        self._scheduled = False
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._events_left: dict[tuple[str, bool], tuple[float, float]] = {}  # UID, by a virt-handler -> how many, when
        self.broken: list[str] = []  # what a controller of ours could not do

    # Work

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def do(self, what: Callable[[], T]) -> T:
        """Do it now, on the cluster's own thread, whichever thread asks."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if self._loop is None or here is self._loop:
            return what()

        async def run() -> T:
            return what()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(120)

    def enqueue(self, what: Callable[..., None], *args: Hashable) -> None:
        """Do it soon; the same work that waits already is not queued twice."""
        if self._loop is None:
            return
        self._pending.setdefault((what.__qualname__, *args), lambda: what(*args))
        if not self._scheduled:
            self._scheduled = True
            self._in(0.005, self._work)

    def later(self, seconds: float, what: Callable[..., None], *args: Hashable) -> None:
        """Do it after that many simulated seconds."""
        if self._loop is not None:
            self._in(seconds, lambda: self.enqueue(what, *args))

    def agent(self, seconds: float, what: Callable[..., None], *args: Hashable) -> None:
        """The same for what kubelet, virt-handler and the guest do."""
        self.later(seconds * self.pace, what, *args)

    def _in(self, seconds: float, what: Callable[[], None]) -> None:
        if self.clock.stands:
            due = self.clock.at + max(0.0, seconds)
            heapq.heappush(self._timers, (due, next(self._number), what))
        elif self._loop is not None:
            self._loop.call_later(self.clock.real(seconds), what)

    def advance(self, to: float) -> None:
        """Where the clock stands still: do all that is due until then, in its order."""
        while self._timers and self._timers[0][0] <= to:
            self.clock.at, _number, what = heapq.heappop(self._timers)
            what()
        self.clock.at = max(self.clock.at, to)

    def _work(self) -> None:
        self._scheduled = False
        pending, self._pending = self._pending, {}
        for key, what in pending.items():
            try:
                what()
            except Exception as exc:  # a controller goes on with its other work
                if isinstance(exc, ApiError) and "is being terminated" in str(exc):
                    continue  # what it was to make is not made
                self.broken.append(f"{key}: {type(exc).__name__}: {exc}")

    def on_change(self, listener: Callable[[Change], None]) -> None:
        self.store.listeners.append(listener)

    # What more than one part does

    def config(self) -> dict[str, Any]:
        """spec.configuration of the KubeVirt object."""
        for obj in self.store.all(KUBEVIRTS):
            found: dict[str, Any] = obj["spec"].get("configuration") or {}
            return found
        return {}

    def migrations_config(self) -> dict[str, Any]:
        own = self.config().get("migrations") or {}
        found = {**DEFAULTS, "allowWorkloadDisruption": own.get("allowPostCopy", False)}
        if self.version >= (1, 8):
            found["utilityVolumesTimeout"] = 150
        if self.version >= (1, 9):
            found["maxDowntimeMs"] = 900
        return {**found, **own}

    def event(self, obj: Obj, reason: str, message: str, kind: str = "Normal") -> None:
        """An Event; the same one again only counts, and of too many the later ones never come."""
        meta = obj["metadata"]
        stamp = self.clock.stamp()
        namespace = meta.get("namespace", "default")
        if self.store.is_ending(namespace) or not self._may_tell((meta["uid"], reason in _OF_NODES)):
            return
        like = [
            found
            for found in self.store.all(EVENTS, namespace)
            if found["involvedObject"].get("uid") == meta["uid"] and found["reason"] == reason
        ]
        if len(like) >= SIMILAR and all(found["message"] != message for found in like):
            message = f"{COMBINED}{message}"
        for found in like:
            if found["message"] == message or (found["message"].startswith(COMBINED) and message.startswith(COMBINED)):

                def again(event: Obj) -> None:
                    event["count"] += 1
                    event.update(lastTimestamp=stamp, message=message)

                self.store.change(EVENTS, namespace, found["metadata"]["name"], again)
                return
        involved = {
            "kind": obj["kind"],
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta["uid"],
            "apiVersion": obj["apiVersion"],
        }
        self.store.create(
            EVENTS,
            {
                "metadata": {"name": f"{meta['name']}.{random_name(10)}", "namespace": namespace},
                "involvedObject": involved,
                "reason": reason,
                "message": message,
                "type": kind,
                "count": 1,
                "firstTimestamp": stamp,
                "lastTimestamp": stamp,
            },
        )

    def _may_tell(self, key: tuple[str, bool]) -> bool:
        now = self.clock.now()
        left, at = self._events_left.get(key, (float(BURST), now))
        left = min(float(BURST), left + (now - at) / REFILL)
        self._events_left[key] = (left - 1 if left >= 1 else left, now)
        return left >= 1

    def pods_of(self, vmi: Obj) -> list[Obj]:
        uid = vmi["metadata"]["uid"]
        pods = self.store.all(PODS, vmi["metadata"]["namespace"])
        return [p for p in pods if words.labels(p).get(words.CREATED_BY) == uid]

    def delete_pod(self, pod: Obj, dry: bool = False, grace: int | None = None) -> Obj:
        """Ask its node to end it; what has ended, or is on no node, goes by itself. The pod as it is now.

        `grace`: seconds; asked again with fewer, it has only these. 0: nobody is asked.
        """
        meta = pod["metadata"]
        if dry:
            return pod
        if words.final(pod) or not pod["spec"].get("nodeName"):
            grace = 0
        elif grace is None:
            grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
        left = meta.get("deletionGracePeriodSeconds")
        if left is not None and grace >= left:
            return pod
        times = {"deletionTimestamp": self.clock.stamp(), "deletionGracePeriodSeconds": grace}
        if grace == 0:
            self.later(GOES, self.forget_pod, meta["namespace"], meta["name"], meta["uid"])
        return self.store.change(PODS, meta["namespace"], meta["name"], lambda o: o["metadata"].update(times))

    def forget_pod(self, namespace: str, name: str, uid: str) -> None:
        found = self.store.find(PODS, namespace, name)
        if found is not None and found["metadata"]["uid"] == uid:
            self.store.delete(PODS, namespace, name)
