"""virt-handler and virt-launcher of a migration: they prepare, move, hand over, abort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import words
from .kinds import NODES, PODS, VMIMS, VMIS
from .store import Change, Obj
from .world import World

# From the target's preparation until the controller sees its address.
_NOTICED = 0.45
_FAILED = "Live migration failed: lab/migrate-result=fail"
_CRASHED = "virError(Code=1, Domain=10, Message='internal error: End of file from qemu monitor')"
# What virt-handler at the source is told when the other end of the migration's connection is gone.
_CLOSED = "virError(Code=1, Domain=7, Message='internal error: client socket is closed')"
_ORPHANED = 34.0  # from the death of the source's virt-handler until the target pod gives up
_GHOST = "can not add ghost record when entry already exists with differing socket file location"
_ABORTED = "Live migration has been aborted"
_REASON = 3.4  # from the failure of a migration by its deadline until its reason
_NOTICES = 10.0  # up to 20 s go by before the VMI of a QEMU that died says so


class Handler:
    """One step after another, each after its time; what the knobs say is read at each."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        self._begun: set[tuple[str, str]] = set()  # (migration UID, step)
        self._cut: set[str] = set()  # UIDs of those whose source's virt-handler died
        self._broken: set[tuple[str, str]] = set()  # (VMI UID, target whose virt-handler died under it)
        self._ghosts: set[str] = set()  # UIDs of those that came there before it was back, and stay so
        world.on_change(self._look)

    def _look(self, change: Change) -> None:
        if change.kind is VMIS and change.type != "DELETED":
            meta = change.obj["metadata"]
            self._world.enqueue(self.reconcile, meta["namespace"], meta["name"])
        elif change.kind is VMIMS and change.type == "MODIFIED":
            meta = change.obj["metadata"]
            self._world.enqueue(self.reconcile, meta["namespace"], change.obj["spec"]["vmiName"])
        elif change.kind is NODES and change.type == "MODIFIED":
            for vmi in self._store.all(VMIS):
                meta = vmi["metadata"]
                self._world.enqueue(self.reconcile, meta["namespace"], meta["name"])

    def _down(self, *names: str) -> bool:
        for name in names:
            node = self._store.find(NODES, "", name)
            if node is None:
                continue  # its agents run on: nothing but the object was deleted
            if words.knob("down", "", node) == "true":
                return True
            if words.knob("virt-handler-down", "", node) == "true":
                return True
        return False

    def _is_off(self, name: str) -> bool:
        node = self._store.find(NODES, "", name)
        return node is not None and words.knob("down", "", node) == "true"

    def _stuck(self, namespace: str, name: str, uid: str) -> None:
        """The target is off, so nothing moves: virt-handler at the source gives up."""
        vmi = self._store.find(VMIS, namespace, name)
        state = (vmi or {}).get("status", {}).get("migrationState") or {}
        if state.get("migrationUid") == uid and self._is_off(state["targetNode"]):
            limit = self._world.migrations_config()["progressTimeout"]
            text = f"Live migration stuck for {limit} seconds and has been aborted"
            if self._world.version >= (1, 9):
                text = "Live migration has been aborted"
            self._failed(namespace, name, uid, text)

    def _migration(self, vmi: Obj) -> Obj | None:
        uid = (vmi["status"].get("migrationState") or {}).get("migrationUid")
        for found in self._store.all(VMIMS, vmi["metadata"]["namespace"]):
            if found["metadata"]["uid"] == uid:
                return found
        return None

    def reconcile(self, namespace: str, name: str) -> None:
        vmi = self._store.find(VMIS, namespace, name)
        if vmi is None or words.final(vmi):
            return
        state = vmi.get("status", {}).get("migrationState") or {}
        migration = self._migration(vmi)
        if state.get("completed"):
            self._after(state, "unlabel", 0.5, self._unlabel, namespace, name, state["migrationUid"])
        if migration is None or "endTimestamp" in state:
            if migration is not None and state.get("failed"):
                wait = self._world.target_ends
                self._after(state, "target-pod", wait, self._pod_ends, namespace, state["targetPod"])
            return
        phase = words.phase(migration)
        if phase == "PreparingTarget":
            self._prepare(vmi, migration, state)
        elif phase == "TargetReady" and not self._down(state["sourceNode"]):
            self._once(migration, "start", 1.0, self._start, vmi)
        elif phase == "Running":
            self._run(vmi, migration, state)

    def _prepare(self, vmi: Obj, migration: Obj, state: dict[str, Any]) -> None:
        uid, target = state["migrationUid"], state["targetNode"]
        if self._down(target):
            if (vmi["metadata"]["uid"], target) in self._broken:
                self._ghosts.add(uid)
        elif uid in self._ghosts:
            self._world.event(vmi, "SyncFailed", _GHOST, "Warning")
        elif words.knob("prepare", "ok", migration, vmi) == "ok":
            seconds = float(words.knob("prepare-seconds", "0.5", migration, vmi))
            self._once(migration, "prepare", seconds + _NOTICED, self._prepared, vmi)

    def _run(self, vmi: Obj, migration: Obj, state: dict[str, Any]) -> None:
        source, target, uid = state["sourceNode"], state["targetNode"], state["migrationUid"]
        if self._down(source):
            if not self._is_off(source):
                self._cut.add(uid)
                self._once(migration, "orphaned", _ORPHANED, self._orphaned, vmi)
            return
        if uid in self._cut or (self._down(target) and not self._is_off(target)):
            if uid not in self._cut:
                self._broken.add((vmi["metadata"]["uid"], target))
            self._failed(vmi["metadata"]["namespace"], vmi["metadata"]["name"], uid, _CLOSED)
            return
        if state.get("abortRequested") and not state.get("abortStatus"):
            fate = words.knob("abort", "ok", migration, vmi)
            if fate != "hang":
                seconds = float(words.knob("abort-seconds", "1", migration, vmi))
                self._once(migration, f"abort-{fate}", seconds, self._abort, vmi)
        seconds = float(words.knob("migrate-seconds", "3", migration, vmi))
        if self._is_off(state["targetNode"]):
            limit = float(self._world.migrations_config()["progressTimeout"])
            self._once(migration, "stuck", limit, self._stuck, vmi)
        elif words.knob("migrate-result", "ok", migration, vmi) != "hang":
            self._once(migration, "move", seconds, self._moved, vmi)

    def _once(self, migration: Obj, step: str, seconds: float, what: Callable[[str, str, str], None], vmi: Obj) -> None:
        uid = migration["metadata"]["uid"]
        if (uid, step) not in self._begun:
            self._begun.add((uid, step))
            meta = vmi["metadata"]
            self._world.agent(seconds, what, meta["namespace"], meta["name"], uid)

    def _edit(self, namespace: str, name: str, uid: str, **fields: Any) -> bool:
        """Change the VMI's migration state, if it is still this migration's and not ended."""
        vmi = self._store.find(VMIS, namespace, name)
        if vmi is None or words.final(vmi):
            return False
        state = vmi["status"].get("migrationState") or {}
        if state.get("migrationUid") != uid or "completed" in state:
            return False

        def edit(obj: Obj) -> None:
            obj["status"]["migrationState"].update(fields)

        self._store.change(VMIS, namespace, name, edit)
        return True

    def _prepared(self, namespace: str, name: str, uid: str) -> None:
        ports = {"34567": 0, "34568": 49152}
        self._edit(namespace, name, uid, targetNodeAddress="127.0.1.2", targetDirectMigrationNodePorts=ports)

    def _start(self, namespace: str, name: str, uid: str) -> None:
        stamp = self._world.clock.stamp()
        if self._edit(namespace, name, uid, startTimestamp=stamp, mode="PreCopy"):
            vmi = self._store.get(VMIS, namespace, name)
            self._world.event(vmi, "Migrating", "VirtualMachineInstance is migrating.")
            seconds = float(words.knob("migrate-seconds", "3", *filter(None, [self._migration(vmi)]), vmi))
            self._world.agent(min(2.0, seconds / 2), self._detected, namespace, name, uid)

    def _detected(self, namespace: str, name: str, uid: str) -> None:
        """The target's virt-handler sees the domain that QEMU fills."""
        self._edit(namespace, name, uid, targetNodeDomainDetected=True)

    def _orphaned(self, namespace: str, name: str, uid: str) -> None:
        """Nobody has the connection any more: the target's launcher gives up, the guest stays."""
        vmi = self._store.find(VMIS, namespace, name)
        state = (vmi or {}).get("status", {}).get("migrationState") or {}
        if state.get("migrationUid") == uid and "endTimestamp" not in state and self._down(state["sourceNode"]):
            self._pod_ends(namespace, state["targetPod"])

    def _fate(self, vmi: Obj, migration: Obj) -> str:
        fate = words.knob("migrate-result", "ok", migration, vmi)
        if fate.startswith("fail:"):
            failed = int(words.annotations(vmi).get("lab/failed", "0"))
            if failed >= int(fate[5:]):
                return "ok"
            self._store.change(
                VMIS,
                vmi["metadata"]["namespace"],
                vmi["metadata"]["name"],
                lambda o: o["metadata"]["annotations"].update({"lab/failed": str(failed + 1)}),
            )
            return "fail"
        return fate

    def _moved(self, namespace: str, name: str, uid: str) -> None:
        vmi = self._store.find(VMIS, namespace, name)
        migration = self._migration(vmi) if vmi is not None else None
        if vmi is None or migration is None or migration["metadata"]["uid"] != uid:
            return
        state = vmi["status"]["migrationState"]
        if "endTimestamp" in state or self._down(state["sourceNode"], state["targetNode"]):
            return
        if state.get("abortRequested") and words.knob("abort", "ok", migration, vmi) == "hang":
            return  # neither done nor given up, until the knob is turned
        fate = self._fate(vmi, migration)
        if fate == "crash":
            self._failed(namespace, name, uid, _CRASHED)
            self._world.agent(_NOTICES, crash, self._world, namespace, name)
        elif fate == "target-crash":
            self._failed(namespace, name, uid, _CLOSED)
        elif fate == "deadline":  # of its completion: the reason comes later than the failure
            self._failed(namespace, name, uid, "")
            self._world.agent(_REASON, self._tell_why, namespace, name, uid)
        elif fate == "fail":
            text = words.knob("migrate-fail-reason", _FAILED, migration, vmi)
            self._failed(namespace, name, uid, text)
        else:
            stamp = self._world.clock.stamp()
            self._edit(namespace, name, uid, targetNodeDomainDetected=True, targetNodeDomainReadyTimestamp=stamp)
            self._world.agent(0.3, self._switch, namespace, name, uid)

    def _failed(self, namespace: str, name: str, uid: str, text: str, **more: Any) -> None:
        stamp = self._world.clock.stamp()
        done = {"completed": True, "failed": True, "endTimestamp": stamp}
        if text:
            done["failureReason"] = text
        if self._edit(namespace, name, uid, **done, **more) and text:
            vmi = self._store.get(VMIS, namespace, name)
            told = f"VirtualMachineInstance migration uid {uid} failed. reason:{text}"
            self._world.event(vmi, "Migrated", told, "Warning")

    def _tell_why(self, namespace: str, name: str, uid: str) -> None:
        vmi = self._store.find(VMIS, namespace, name)
        if vmi is not None and (vmi["status"].get("migrationState") or {}).get("migrationUid") == uid:
            told = {"failureReason": _ABORTED, "abortStatus": "Succeeded"}
            self._store.change(VMIS, namespace, name, lambda o: o["status"]["migrationState"].update(told))

    def _switch(self, namespace: str, name: str, uid: str) -> None:
        """The guest runs there: node, label and mark change in one update."""
        vmi = self._store.find(VMIS, namespace, name)
        if vmi is None or "endTimestamp" in vmi["status"]["migrationState"]:
            return
        stamp = self._world.clock.stamp()

        def edit(obj: Obj) -> None:
            state = obj["status"]["migrationState"]
            state["endTimestamp"] = stamp
            obj["status"]["nodeName"] = state["targetNode"]
            obj["status"].pop("evacuationNodeName", None)
            obj["metadata"]["labels"][words.NODE_NAME] = state["targetNode"]

        self._store.change(VMIS, namespace, name, edit)
        node = vmi["status"]["migrationState"]["targetNode"]
        self._world.event(vmi, "Migrated", f"The VirtualMachineInstance migrated to node {node}.")
        self._world.agent(0.7, self._complete, namespace, name, uid)

    def _complete(self, namespace: str, name: str, uid: str) -> None:
        if self._edit(namespace, name, uid, completed=True):
            vmi = self._store.get(VMIS, namespace, name)
            pod = vmi["status"]["migrationState"]["sourcePod"]
            self._world.agent(0.6, self._pod_ends, namespace, pod)

    def _unlabel(self, namespace: str, name: str, uid: str) -> None:
        vmi = self._store.find(VMIS, namespace, name)
        if vmi is None or (vmi["status"].get("migrationState") or {}).get("migrationUid") != uid:
            return
        self._store.change(VMIS, namespace, name, lambda o: words.labels(o).pop(words.TARGET_NODE, None))

    def _abort(self, namespace: str, name: str, uid: str) -> None:
        vmi = self._store.find(VMIS, namespace, name)
        migration = self._migration(vmi) if vmi is not None else None
        if vmi is None or migration is None:
            return
        fate = words.knob("abort", "ok", migration, vmi)
        if fate == "late":  # it has just switched over
            self._moved(namespace, name, uid)
            return
        if fate == "fail":
            if self._world.version < (1, 9):
                self._edit(namespace, name, uid, abortStatus="Failed")
            return
        self._failed(namespace, name, uid, _ABORTED, abortStatus="Succeeded")

    def _after(self, state: dict[str, Any], step: str, seconds: float, what: Callable[..., None], *args: str) -> None:
        """Once, so many seconds after the end of this migration."""
        key = (state["migrationUid"], step)
        if key not in self._begun:
            self._begun.add(key)
            self._world.agent(seconds, what, *args)

    def _pod_ends(self, namespace: str, name: str) -> None:
        """Its launcher has ended; its kubelet tells."""
        pod = self._store.find(PODS, namespace, name)
        if pod is None or words.final(pod):
            return
        node = self._store.find(NODES, "", pod["spec"].get("nodeName", ""))
        if node is not None and words.knob("kubelet-down", "", node) == "true":
            self._world.later(1.0, self._pod_ends, namespace, name)
        elif node is None or words.knob("down", "", node) != "true":
            self._store.change(PODS, namespace, name, words.completed)


def crash(world: World, namespace: str, name: str, phase: str = "Failed") -> None:
    """Its QEMU has died, and virt-handler says so. A mark on the VMI stays. `phase` Succeeded: its
    guest has shut itself down."""
    vmi = world.store.find(VMIS, namespace, name)
    if vmi is None or words.final(vmi):
        return
    stamp, node = world.clock.stamp(), vmi["status"].get("nodeName")
    world.store.change(VMIS, namespace, name, lambda o: words.enter(o, phase, stamp))
    if phase == "Failed":
        world.event(vmi, "Stopped", "The VirtualMachineInstance crashed.", "Warning")
    for pod in world.pods_of(vmi):
        if words.live_pod(pod) and pod["spec"].get("nodeName") == node:
            meta = pod["metadata"]
            world.store.change(PODS, namespace, meta["name"], lambda o: o["status"].update(phase=phase))
