"""The controllers of VirtualMachines and of their instances."""

from __future__ import annotations

from typing import Any

from . import words
from .answers import ApiError
from .kinds import PODS, VMIMS, VMIS, VMS
from .launchers import launcher, text_of
from .store import Change, Obj
from .world import World

_CONTROLLER = "kubevirt.io/virtualMachineControllerFinalize"
_FOREGROUND = "kubevirt.io/foregroundDeleteVirtualMachine"
IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"
CRASH_BACKOFF = 10.0
_FOLLOWS = 0.3  # the conditions of a VM, those of its instance
_OWN = ("Failure", "RestartRequired", "ManualRecoveryRequired")  # of VMs, not from instances


class VMController:
    """Runs a VM's instance as its runStrategy says."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        self._started: set[str] = set()  # UIDs of VMs that have run once
        self._not_before: dict[str, float] = {}
        world.on_change(self._look)

    def _look(self, change: Change) -> None:
        meta = change.obj["metadata"]
        if change.kind in (VMS, VMIS):
            self._world.enqueue(self.reconcile, meta["namespace"], meta["name"])

    def reconcile(self, namespace: str, name: str) -> None:
        if "vm" in self._world.paused:
            return
        vm = self._store.find(VMS, namespace, name)
        vmi = self._store.find(VMIS, namespace, name)
        if vm is None:
            if vmi is not None and _owned(vmi):  # what the garbage collector does
                self._store.delete(VMIS, namespace, name)
            return
        if vm["metadata"].get("deletionTimestamp"):
            self._end(vm, vmi)
            return
        if _CONTROLLER not in (vm["metadata"].get("finalizers") or []):
            self._finalizers(vm, [_CONTROLLER])
        wanted = self._requests(vm, vmi) or self._strategy(vm, vmi)
        if wanted == "start" and vmi is None:
            self._start(vm)
        elif wanted == "stop" and vmi is not None:
            self._store.delete(VMIS, namespace, name)
        self._tell(namespace, name)
        self._world.later(_FOLLOWS, self._conditions, namespace, name)

    def _conditions(self, namespace: str, name: str) -> None:
        """Those of its instance, a moment later."""
        vm, vmi = self._store.find(VMS, namespace, name), self._store.find(VMIS, namespace, name)
        if vm is None:
            return
        own = [c for c in vm.get("status", {}).get("conditions") or [] if c["type"] in _OWN]
        found = (vmi or {}).get("status", {}).get("conditions") or []
        if not any(c["type"] == "Ready" for c in found):
            why = {"reason": "VMIConditionMissing", "message": "VMI is missing the Ready condition"}
            if vmi is None:
                why = {"reason": "VMINotExists", "message": "VMI does not exist"}
            found = [*found, {"type": "Ready", "status": "False", **why}]
        self._store.change(VMS, namespace, name, lambda o: o.setdefault("status", {}).update(conditions=[*own, *found]))

    def _end(self, vm: Obj, vmi: Obj | None) -> None:
        """It is deleted: its instance first, and it stays until that is gone."""
        meta = vm["metadata"]
        if vmi is not None and vmi["metadata"].get("deletionTimestamp") is None:
            self._store.delete(VMIS, meta["namespace"], meta["name"])
        if vmi is not None:
            self._tell(meta["namespace"], meta["name"])
        else:
            self._finalizers(vm, [])

    def _finalizers(self, vm: Obj, wanted: list[str]) -> None:
        meta = vm["metadata"]
        self._store.change(VMS, meta["namespace"], meta["name"], lambda o: o["metadata"].update(finalizers=wanted))

    def _requests(self, vm: Obj, vmi: Obj | None) -> str:
        requests = vm.get("status", {}).get("stateChangeRequests") or []
        if not requests:
            return ""
        first = requests[0]
        if first["action"] == "Stop":
            if vmi is not None and vmi["metadata"]["uid"] == first.get("uid"):
                return "stop"
        elif vmi is None:
            self._drop_request(vm)
            return "start"
        else:
            return ""
        self._drop_request(vm)
        return ""

    def _drop_request(self, vm: Obj) -> None:
        def edit(obj: Obj) -> None:
            left = obj["status"]["stateChangeRequests"][1:]
            obj["status"]["stateChangeRequests"] = left
            if not left:
                del obj["status"]["stateChangeRequests"]

        meta = vm["metadata"]
        self._store.change(VMS, meta["namespace"], meta["name"], edit)

    def _strategy(self, vm: Obj, vmi: Obj | None) -> str:
        strategy, uid = vm["spec"].get("runStrategy", "Halted"), vm["metadata"]["uid"]
        if strategy == "Halted":
            return "stop"
        if strategy == "Always":
            if vmi is None:
                return "start"
            if words.final(vmi):
                if words.phase(vmi) == "Failed" and not words.ran(vmi):
                    self._not_before[uid] = self._world.clock.now() + CRASH_BACKOFF
                return "stop"
        elif strategy == "Once":
            return "start" if vmi is None else ""
        elif strategy == "RerunOnFailure":
            if vmi is None:
                return "start" if uid not in self._started else ""
            if words.phase(vmi) == "Failed":
                self._again(vm)
            return "stop" if words.final(vmi) else ""
        return ""

    def _again(self, vm: Obj) -> None:
        def edit(obj: Obj) -> None:
            obj.setdefault("status", {})["stateChangeRequests"] = [{"action": "Start"}]

        if not vm.get("status", {}).get("stateChangeRequests"):
            self._store.change(VMS, vm["metadata"]["namespace"], vm["metadata"]["name"], edit)

    def _start(self, vm: Obj) -> None:
        meta, uid = vm["metadata"], vm["metadata"]["uid"]
        wait = self._not_before.get(uid, 0.0) - self._world.clock.now()
        if wait > 0:
            self._world.later(wait, self.reconcile, meta["namespace"], meta["name"])
            return
        template = vm["spec"]["template"]
        more = template.get("metadata") or {}
        spec: dict[str, Any] = dict(template["spec"])
        spec.setdefault("evictionStrategy", self._world.config().get("evictionStrategy", "None"))
        owner = {
            "apiVersion": "kubevirt.io/v1",
            "blockOwnerDeletion": True,
            "controller": True,
            "kind": "VirtualMachine",
            "name": meta["name"],
            "uid": uid,
        }
        self._store.create(
            VMIS,
            {
                "metadata": {
                    "name": meta["name"],
                    "namespace": meta["namespace"],
                    "labels": dict(more.get("labels") or {}),
                    "annotations": dict(more.get("annotations") or {}),
                    "finalizers": [_CONTROLLER, _FOREGROUND],
                    "ownerReferences": [owner],
                },
                "spec": spec,
                "status": {},
            },
        )
        self._started.add(uid)

    def _tell(self, namespace: str, name: str) -> None:
        vm, vmi = self._store.find(VMS, namespace, name), self._store.find(VMIS, namespace, name)
        if vm is None:
            return
        uid = vm["metadata"]["uid"]
        state = ((vmi or {}).get("status") or {}).get("migrationState") or {}
        moving = "startTimestamp" in state and "endTimestamp" not in state
        ending = vmi is not None and vmi["metadata"].get("deletionTimestamp")
        if vmi is not None and words.final(vmi) and ending and moving:
            shown = "Migrating"  # once more, until the instance is gone
        elif vmi is None or words.final(vmi):
            later = self._not_before.get(uid, 0.0) > self._world.clock.now()
            shown = "CrashLoopBackOff" if later else "Stopped"
        elif vm["metadata"].get("deletionTimestamp"):
            shown = "Terminating"
        elif ending:
            shown = "Stopping"
        elif words.phase(vmi) != "Running":
            shown = "Starting"
        else:
            shown = "Migrating" if moving else "Running"

        def edit(obj: Obj) -> None:
            status = obj.setdefault("status", {})
            status["printableStatus"] = shown
            status["created"], status["ready"] = vmi is not None, shown in ("Running", "Migrating")

        self._store.change(VMS, namespace, name, edit)


class VMIController:
    """Gives an instance its pod, and ends it when it shall end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        world.on_change(self._look)

    def _look(self, change: Change) -> None:
        meta = change.obj["metadata"]
        if change.kind is VMIS and change.type != "DELETED":
            self._world.enqueue(self.reconcile, meta["namespace"], meta["name"])
        elif change.kind is PODS and words.is_launcher(change.obj):
            name = words.annotations(change.obj)["kubevirt.io/domain"]
            self._world.enqueue(self.reconcile, meta["namespace"], name)

    def reconcile(self, namespace: str, name: str) -> None:
        vmi = self._store.find(VMIS, namespace, name)
        if vmi is None or "vmi" in self._world.paused:
            return
        pods = self._world.pods_of(vmi)
        live = [p for p in pods if words.live_pod(p)]
        active = {p["metadata"]["uid"]: p["spec"].get("nodeName", "") for p in pods}  # those that have ended too
        if active != vmi.get("status", {}).get("activePods", {}):
            vmi = self._store.change(
                VMIS, namespace, name, lambda o: o.setdefault("status", {}).update(activePods=active)
            )
        if vmi["metadata"].get("deletionTimestamp") or words.final(vmi):
            self._end(vmi, pods, live)
            return
        if words.phase(vmi) == "":
            self._hold(vmi)
            self._phase(vmi, "Pending")
        elif words.phase(vmi) == "Pending" and not live:
            try:
                launcher(self._world, vmi)
            except ApiError as exc:
                self._world.event(vmi, "FailedCreate", f"Error creating pod: {text_of(exc)}")
                self._world.later(5.0, self.reconcile, namespace, name)
                return
            self._phase(vmi, "Scheduling")
        elif _lost(vmi, live):
            self._phase(vmi, "Failed")
        self._mark(namespace, name, live)
        self._ready(namespace, name, live)
        self._scheduled(namespace, name, live)

    def _scheduled(self, namespace: str, name: str, live: list[Obj]) -> None:
        """While no node takes its pod, the instance says so as the pod does."""
        vmi = self._store.get(VMIS, namespace, name)
        waits = [p for p in live if words.phase(vmi) == "Scheduling"]
        found = words.condition(waits[0], "PodScheduled") if waits else None
        refused = found if found is not None and found["status"] == "False" else None
        if refused == words.condition(vmi, "PodScheduled"):
            return
        more = {key: refused[key] for key in ("reason", "message")} if refused else {}
        value = "False" if refused else None
        self._store.change(VMIS, namespace, name, lambda o: words.set_condition(o, "PodScheduled", value, **more))

    def _ready(self, namespace: str, name: str, live: list[Obj]) -> None:
        """Its pod was asked to end: that is told before the guest has shut down."""
        vmi = self._store.get(VMIS, namespace, name)
        node = vmi.get("status", {}).get("nodeName")
        ending = [p for p in live if p["spec"].get("nodeName") == node and p["metadata"].get("deletionTimestamp")]
        if words.phase(vmi) != "Running" or not ending:
            return
        more = {"reason": "PodTerminating", "message": "virt-launcher pod is terminating"}
        self._store.change(VMIS, namespace, name, lambda o: words.set_condition(o, "Ready", "False", **more))

    def _hold(self, vmi: Obj) -> None:
        """One that nobody's VirtualMachine made has the finalizers of all others too."""
        meta = vmi["metadata"]
        both = [_CONTROLLER, _FOREGROUND]
        self._store.change(VMIS, meta["namespace"], meta["name"], lambda o: o["metadata"].update(finalizers=both))

    def _end(self, vmi: Obj, pods: list[Obj], live: list[Obj]) -> None:
        if vmi["metadata"].get("deletionTimestamp"):
            for pod in live:
                self._world.delete_pod(pod)
            self._ready(vmi["metadata"]["namespace"], vmi["metadata"]["name"], live)
            if not live:
                meta = vmi["metadata"]

                def release(obj: Obj) -> None:
                    obj["metadata"]["finalizers"] = []

                self._store.change(VMIS, meta["namespace"], meta["name"], release)
                for pod in pods:
                    self._world.delete_pod(pod)

    def _phase(self, vmi: Obj, phase: str) -> None:
        stamp = self._world.clock.stamp()
        meta = vmi["metadata"]
        self._store.change(VMIS, meta["namespace"], meta["name"], lambda o: words.enter(o, phase, stamp))

    def _mark(self, namespace: str, name: str, live: list[Obj]) -> None:
        """The condition follows the mark; so does the annotation on the current pod."""
        vmi = self._store.get(VMIS, namespace, name)
        marked = bool(vmi.get("status", {}).get("evacuationNodeName"))
        if self._world.version >= (1, 7) and marked != words.is_true(vmi, "EvictionRequested"):
            more = {"message": "VMI is marked for eviction", "reason": "EvictionRequested"}
            self._store.change(
                VMIS,
                namespace,
                name,
                lambda o: words.set_condition(o, "EvictionRequested", "True" if marked else None, **more),
            )
        node = vmi.get("status", {}).get("nodeName")
        for pod in live:
            if not node or pod["spec"].get("nodeName") != node:
                continue
            self._store.change(
                PODS,
                namespace,
                pod["metadata"]["name"],
                lambda o: o["metadata"]["labels"].update({words.NODE_NAME: node}),
            )
            if marked != (IN_PROGRESS in words.annotations(pod)):

                def edit(obj: Obj) -> None:
                    notes = obj["metadata"].setdefault("annotations", {})
                    if marked:
                        notes[IN_PROGRESS] = "true"
                    else:
                        notes.pop(IN_PROGRESS, None)

                self._store.change(PODS, namespace, pod["metadata"]["name"], edit)


def _lost(vmi: Obj, live: list[Obj]) -> bool:
    """Its pod is gone; the target pod of a migration is no stand-in."""
    node = vmi.get("status", {}).get("nodeName")
    if words.phase(vmi) in ("Scheduled", "Running"):
        return not any(pod["spec"].get("nodeName") == node for pod in live)
    return words.phase(vmi) == "Scheduling" and not live


def _owned(vmi: Obj) -> bool:
    owners = vmi["metadata"].get("ownerReferences") or []
    return any(owner["kind"] == "VirtualMachine" for owner in owners)


def unfinished(world: World, vmi: Obj) -> list[Obj]:
    """Migrations of this VMI that have not ended."""
    name = vmi["metadata"]["name"]
    found = world.store.all(VMIMS, vmi["metadata"]["namespace"])
    return [m for m in found if m["spec"]["vmiName"] == name and not words.final(m)]
