"""The evacuation controller: a migration for each marked VMI.

It is woken by changes of nodes, VMIs and migrations, never by those of pods: so a marked VMI
can stand without a migration until something of these changes.
"""

from __future__ import annotations

from . import words
from .admission import FINALIZED, admit_migration
from .kinds import NODES, VMIMS, VMIS
from .store import Change, Obj
from .vms import unfinished
from .world import World


class EvacuationController:
    """One node at a time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        world.on_change(self._look)

    def _look(self, change: Change) -> None:
        if change.kind is NODES:
            self._wake(change.obj["metadata"]["name"])
        elif change.kind is VMIS:
            self._wake(change.obj.get("status", {}).get("nodeName", ""))
        elif change.kind is VMIMS:
            meta = change.obj["metadata"]
            vmi = self._store.find(VMIS, meta["namespace"], change.obj["spec"]["vmiName"])
            if vmi is not None:
                self._wake(vmi.get("status", {}).get("nodeName", ""))

    def _wake(self, node: str) -> None:
        if node:
            self._world.enqueue(self.reconcile, node)

    def reconcile(self, name: str) -> None:
        node = self._store.find(NODES, "", name)
        if node is None or "evacuation" in self._world.paused:
            return
        key = self._world.migrations_config()["nodeDrainTaintKey"]
        taints = node.get("spec", {}).get("taints") or []
        tainted = any(t["key"] == key and t["effect"] == "NoSchedule" for t in taints)
        room = self._room(name)
        for vmi in [v for v in self._store.all(VMIS) if self._candidate(v, name, tainted)]:
            if room <= 0:
                self._world.later(5.0, self.reconcile, name)
                return
            if words.final(vmi):  # it tries, and its own webhook refuses
                self._world.event(vmi, "FailedCreate", f"Error creating a Migration: {FINALIZED}", "Warning")
                continue
            room -= 1
            self._migrate(vmi, name)

    def _room(self, name: str) -> float:
        """Before 1.9 it made no more migrations than the limits let run."""
        if self._world.version >= (1, 9):
            return float("inf")
        config = self._world.migrations_config()
        active = [m for m in self._store.all(VMIMS) if not words.final(m)]
        from_here = [m for m in active if words.annotations(m).get(words.EVACUATION) == name]
        return min(
            config["parallelMigrationsPerCluster"] - len(active),
            config["parallelOutboundMigrationsPerNode"] - len(from_here),
        )

    def _candidate(self, vmi: Obj, node: str, tainted: bool) -> bool:
        status = vmi.get("status", {})
        if status.get("nodeName") != node:
            return False
        if vmi["metadata"].get("deletionTimestamp"):
            return False
        if not tainted and status.get("evacuationNodeName") != node:
            return False
        state = status.get("migrationState") or {}
        if "startTimestamp" in state and "endTimestamp" not in state:
            return False
        if vmi["spec"].get("evictionStrategy") not in ("LiveMigrate", "LiveMigrateIfPossible"):
            return False
        if not words.is_true(vmi, "LiveMigratable") or unfinished(self._world, vmi):
            return False
        return sum(1 for p in self._world.pods_of(vmi) if words.live_pod(p)) <= 1

    def _migrate(self, vmi: Obj, node: str) -> None:
        spec = {"vmiName": vmi["metadata"]["name"]}
        if self._world.version >= (1, 9):
            source = words.annotations(vmi).get("kubevirt.io/eviction-source")
            critical = "system-maintenance" if source == "descheduler" else "system-critical"
            spec["priority"] = critical
        migration = {
            "metadata": {
                "generateName": "kubevirt-evacuation-",
                "namespace": vmi["metadata"]["namespace"],
                "annotations": {words.EVACUATION: node},
            },
            "spec": spec,
        }
        admit_migration(migration)
        made = self._store.create(VMIMS, migration)
        text = f"Created Migration {made['metadata']['name']}"
        self._world.event(vmi, "SuccessfulCreate", text)
