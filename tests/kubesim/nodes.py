"""A kubelet and virt-handler for each node."""

from __future__ import annotations

from typing import Any

from . import words
from .kinds import NODES, PODS, VMIS
from .store import Change, Obj
from .world import World

_NOT_SHARED = (
    "cannot migrate VMI: PVC rootdisk is not shared, live migration requires that all PVCs must "
    "be shared (using ReadWriteMany access mode)"
)
# Knobs of whether it can migrate, and what they say where they are not set.
_NO_KUBELET = ("down", "kubelet-down")
ABLE = {"not-migratable-reason": "", "not-migratable-message": _NOT_SHARED}


class NodeAgent:
    """Every node's kubelet and virt-handler, migrations left aside."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        self._busy: set[tuple[str, str]] = set()  # (pod UID, step) that waits for its time
        world.on_change(self._look)

    def _look(self, change: Change) -> None:
        if change.kind is PODS and change.type != "DELETED":
            meta = change.obj["metadata"]
            self._world.enqueue(self.pod, meta["namespace"], meta["name"])
        elif change.kind is VMIS and change.type == "MODIFIED" and change.old is not None:
            if any(words.knob(k, "", change.old) != words.knob(k, "", change.obj) for k in ABLE):
                meta = change.obj["metadata"]
                self._world.enqueue(self.migratable, meta["namespace"], meta["name"])
        elif change.kind is NODES and change.type != "DELETED":
            old, new = change.old, change.obj
            if old is None:
                self._world.enqueue(self.beat, new["metadata"]["name"])
            elif any(words.knob(k, "", old) != words.knob(k, "", new) for k in _NO_KUBELET):
                for pod in self._store.all(PODS):
                    if pod["spec"].get("nodeName") == new["metadata"]["name"]:
                        meta = pod["metadata"]
                        self._world.enqueue(self.pod, meta["namespace"], meta["name"])

    def down(self, name: str) -> bool:
        """Its kubelet does nothing."""
        node = self._store.find(NODES, "", name)
        return node is not None and "true" in (words.knob(k, "", node) for k in _NO_KUBELET)

    def beat(self, name: str) -> None:
        """The heartbeat."""
        node = self._store.find(NODES, "", name)
        if node is None:
            return
        self._world.later(self._world.heartbeat, self.beat, name)
        stamp = self._world.clock.stamp()
        if "true" not in (words.knob(k, "", node) for k in ("down", "virt-handler-down")):
            self._store.change(
                NODES,
                "",
                name,
                lambda o: o["metadata"].setdefault("annotations", {}).update({"kubevirt.io/heartbeat": stamp}),
            )

    def _once(self, pod: Obj, step: str, seconds: float, what: Any) -> None:
        key = (pod["metadata"]["uid"], step)
        if key not in self._busy:
            self._busy.add(key)
            meta = pod["metadata"]
            self._world.agent(seconds, what, meta["namespace"], meta["name"])

    def pod(self, namespace: str, name: str) -> None:
        pod = self._store.find(PODS, namespace, name)
        if pod is None or not pod["spec"].get("nodeName") or self.down(pod["spec"]["nodeName"]):
            return
        if pod["metadata"].get("deletionTimestamp"):
            self._end(pod)
        elif words.phase(pod) == "Pending":
            target = words.JOB_UID in words.labels(pod)
            fate = words.knob("target-pod" if target else "pod", "ok", pod)
            if fate != "hang":
                self._once(pod, "run", 0.1 if fate == "fail" else 0.5, self._run)
        elif words.phase(pod) == "Running" and words.is_launcher(pod) and (words.JOB_UID not in words.labels(pod)):
            self._boot(pod)

    def _run(self, namespace: str, name: str) -> None:
        pod = self._store.find(PODS, namespace, name)
        if pod is None or self.down(pod["spec"]["nodeName"]) or words.phase(pod) != "Pending":
            return
        target = words.JOB_UID in words.labels(pod)
        fate = words.knob("target-pod" if target else "pod", "ok", pod)
        failed, unready = fate == "fail", fate == "notready"

        def edit(obj: Obj) -> None:
            obj["status"]["phase"] = "Failed" if failed else "Running"
            words.set_condition(obj, "Ready", "False" if failed or unready else "True")

        self._store.change(PODS, namespace, name, edit)

    # The guest of a launcher pod

    def _vmi(self, pod: Obj) -> Obj | None:
        namespace = pod["metadata"]["namespace"]
        vmi = self._store.find(VMIS, namespace, words.annotations(pod)["kubevirt.io/domain"])
        if vmi is None or vmi["metadata"]["uid"] != words.labels(pod).get(words.CREATED_BY):
            return None
        return vmi

    def _boot(self, pod: Obj) -> None:
        vmi = self._vmi(pod)
        if vmi is None or words.phase(vmi) != "Scheduling":
            return
        node, stamp = pod["spec"]["nodeName"], self._world.clock.stamp()

        def scheduled(obj: Obj) -> None:
            words.enter(obj, "Scheduled", stamp)
            obj["status"]["nodeName"] = node
            obj["metadata"].setdefault("labels", {})[words.NODE_NAME] = node

        self._store.change(VMIS, vmi["metadata"]["namespace"], vmi["metadata"]["name"], scheduled)
        seconds = float(words.knob("start-seconds", "0.5", vmi))
        self._once(pod, "boot", seconds, self._booted)

    def _booted(self, namespace: str, name: str) -> None:
        pod = self._store.find(PODS, namespace, name)
        vmi = self._vmi(pod) if pod is not None else None
        if vmi is None or words.phase(vmi) != "Scheduled":
            return
        stamp = self._world.clock.stamp()

        def running(obj: Obj) -> None:
            words.enter(obj, "Running", stamp)
            words.set_condition(obj, "Ready", "True")
            _tell_migratable(obj)
            obj["status"]["migrationMethod"] = "LiveMigration"

        self._store.change(VMIS, namespace, vmi["metadata"]["name"], running)
        self._world.event(vmi, "Started", "VirtualMachineInstance started.")

    def migratable(self, namespace: str, name: str) -> None:
        """virt-handler says it anew whenever it changes."""
        vmi = self._store.find(VMIS, namespace, name)
        if vmi is not None and words.phase(vmi) == "Running":
            self._store.change(VMIS, namespace, name, _tell_migratable)

    def _end(self, pod: Obj) -> None:
        if words.final(pod):
            self._world.delete_pod(pod)
            return
        vmi = self._vmi(pod) if words.is_launcher(pod) else None
        if vmi is None or vmi["status"].get("nodeName") != pod["spec"]["nodeName"]:
            seconds = float(words.knob("terminate-seconds", "1", pod))
        else:
            seconds = min(float(words.knob("shutdown-seconds", "1", vmi)), self._grace(pod, vmi))
        step = f"end {pod['metadata'].get('deletionGracePeriodSeconds')}"
        self._once(pod, step, seconds, self._ended)

    @staticmethod
    def _grace(pod: Obj, vmi: Obj) -> float:
        """Of the guest; less if the pod itself was given less."""
        grace = float(vmi["spec"].get("terminationGracePeriodSeconds", 30))
        given = float(pod["metadata"].get("deletionGracePeriodSeconds", grace))
        return min(grace, given)

    def _ended(self, namespace: str, name: str) -> None:
        pod = self._store.find(PODS, namespace, name)
        if pod is None or self.down(pod["spec"]["nodeName"]):
            return
        vmi = self._vmi(pod) if words.is_launcher(pod) else None
        if vmi is not None and vmi["status"].get("nodeName") == pod["spec"]["nodeName"]:
            killed = float(words.knob("shutdown-seconds", "1", vmi)) > self._grace(pod, vmi)
            ran = words.phase(vmi) == "Running"
            stamp = self._world.clock.stamp()
            phase = "Failed" if killed or not ran else "Succeeded"
            if not words.final(vmi):
                self._store.change(VMIS, namespace, vmi["metadata"]["name"], lambda o: words.enter(o, phase, stamp))
                # The guest has ended; its pod stays a moment longer.
                linger = float(words.knob("linger-seconds", "0.5", vmi))
                self._world.agent(linger, self._removed, namespace, name)
                return
        self._removed(namespace, name)

    def _removed(self, namespace: str, name: str) -> None:
        """Its kubelet tells that it has ended, then that it may go."""
        pod = self._store.find(PODS, namespace, name)
        if pod is not None and not words.final(pod):
            self._store.change(PODS, namespace, name, words.completed)
        elif pod is not None:
            self._world.delete_pod(pod)


def _tell_migratable(vmi: Obj) -> None:
    reason, message = (words.knob(k, d, vmi) for k, d in ABLE.items())
    value, more = ("False", {"reason": reason, "message": message}) if reason else ("True", {})
    words.set_condition(vmi, "LiveMigratable", value, **more)
