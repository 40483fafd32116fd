"""The garbage collector: a pod of whose owners none is there goes within a second.

Launcher pods are ended by their instance's controller; other objects of tests have no owners.
"""

from __future__ import annotations

from . import words
from .kinds import KINDS, PODS
from .store import Change, Obj
from .world import World

_LOOKS_AFTER = 0.5  # seconds


class GarbageCollector:
    """What kube-controller-manager does."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        world.on_change(self._look)

    def _look(self, change: Change) -> None:
        if change.type == "DELETED":
            uid = change.obj["metadata"]["uid"]
            for pod in self._store.all(PODS):
                if any(owner.get("uid") == uid for owner in _owners(pod)):
                    self._later(pod)
        elif change.kind is PODS and _owners(change.obj):
            old = _owners(change.old) if change.old is not None else []
            if old != _owners(change.obj):
                self._later(change.obj)

    def _later(self, pod: Obj) -> None:
        meta = pod["metadata"]
        self._world.later(_LOOKS_AFTER, self.collect, meta["namespace"], meta["name"])

    def collect(self, namespace: str, name: str) -> None:
        pod = self._store.find(PODS, namespace, name)
        if pod is None or words.is_launcher(pod) or "garbage" in self._world.paused:
            return
        wanted = {owner.get("uid") for owner in _owners(pod)}
        if wanted and not wanted & self._living():
            self._world.delete_pod(pod)

    def _living(self) -> set[str]:
        return {obj["metadata"]["uid"] for kind in KINDS for obj in self._store.all(kind)}


def _owners(obj: Obj) -> list[Obj]:
    found: list[Obj] = obj["metadata"].get("ownerReferences") or []
    return found
