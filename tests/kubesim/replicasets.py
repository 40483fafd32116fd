"""The controller of VirtualMachineInstanceReplicaSets: what has ended is replaced at once."""

from __future__ import annotations

from . import words
from .kinds import REPLICA_SETS, VMIS
from .store import Change, Obj, random_name
from .world import World


class ReplicaSetController:
    """virt-controller's: as many instances as the set wants, of those that have not ended."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        world.on_change(self._look)

    def _look(self, change: Change) -> None:
        if change.kind is REPLICA_SETS:
            meta = change.obj["metadata"]
            self._world.enqueue(self.reconcile, meta["namespace"], meta["name"])
        elif change.kind is VMIS:
            for owner in change.obj["metadata"].get("ownerReferences") or []:
                if owner.get("kind") == REPLICA_SETS.kind:
                    self._world.enqueue(self.reconcile, change.obj["metadata"]["namespace"], owner["name"])

    def reconcile(self, namespace: str, name: str) -> None:
        found = self._store.find(REPLICA_SETS, namespace, name)
        if found is None:
            return
        uid, live = found["metadata"]["uid"], 0
        for vmi in list(self._store.all(VMIS, namespace)):
            if not any(owner["uid"] == uid for owner in vmi["metadata"].get("ownerReferences") or []):
                continue
            ended = words.final(vmi) or vmi["metadata"].get("deletionTimestamp")
            live += not ended
            if words.final(vmi):
                self._store.delete(VMIS, namespace, vmi["metadata"]["name"])
        for _number in range(found["spec"].get("replicas", 1) - live):
            self._make(found)

    def _make(self, found: Obj) -> None:
        meta, template = found["metadata"], found["spec"]["template"]
        owner = {**REPLICA_SETS.head, "name": meta["name"], "uid": meta["uid"], "controller": True}
        inner = {**(template.get("metadata") or {}), "ownerReferences": [owner]}
        inner |= {"name": f"{meta['name']}{random_name(5)}", "namespace": meta["namespace"]}
        self._store.create(VMIS, {"metadata": inner, "spec": dict(template["spec"]), "status": {}})
