"""A node that dies, and what Kubernetes and virt-controller do about it, at the recorded times."""

from __future__ import annotations

from . import words
from .kinds import NODES, PODS, VMIS
from .store import Change, Obj
from .world import World

UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
# Seconds after its agents have stopped
REPORTS = 10.0  # a kubelet, at least
FOLLOWS = 0.04  # a taint, the cordon or its end
UNKNOWN = 42.0  # the node controller's grace period, and its round
UNRESPONSIVE = 325.0  # virt-controller takes virt-handler for dead
# Seconds after that
TOLERATED = 300.0  # what every pod tolerates by default
ORPHANED = 45.0  # pod garbage collection, after the Node object was deleted
COLLECTED = 9.5  # pod garbage collection, after the out-of-service taint


class NodeLifecycle:
    """The node controller, taint eviction, pod GC, and virt-controller's node controller."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        self._since: dict[str, float] = {}  # node -> when its kubelet stopped
        self._handler: dict[str, float] = {}  # node -> when its virt-handler stopped
        self._collecting: set[str] = set()
        world.on_change(self._look)

    def _look(self, change: Change) -> None:
        if change.kind is NODES and change.type != "DELETED":
            self._world.enqueue(self.reconcile, change.obj["metadata"]["name"])
        elif change.kind is NODES:
            self._world.later(ORPHANED, self.orphaned, change.obj["metadata"]["name"])

    def orphaned(self, name: str) -> None:
        """Pod GC: pods of a Node that is not there any more."""
        if self._store.find(NODES, "", name) is None:
            for vmi in self._vmis(name):
                text = f"virt-handler on node {name} is not responsive, marking VMI as failed"
                self._world.event(vmi, "NodeUnresponsive", text)
            self.collect(name)

    def reconcile(self, name: str) -> None:
        node = self._store.find(NODES, "", name)
        if node is None:
            return
        now = self._world.clock.now()
        off = words.knob("down", "", node) == "true"
        down = off or words.knob("kubelet-down", "", node) == "true"
        silent = off or words.knob("virt-handler-down", "", node) == "true"
        if down and name not in self._since:
            self._since[name] = now
            self._world.later(UNKNOWN, self.unknown, name, now)
        if silent and name not in self._handler:
            self._handler[name] = now
            self._world.later(UNRESPONSIVE, self.unresponsive, name, now)
        if not down and self._since.pop(name, None) is not None:
            self._world.later(min(REPORTS, self._world.heartbeat), self.back, name)
        if not silent and self._handler.pop(name, None) is not None:
            self._world.later(self._world.heartbeat, self.responsive, name)
        taints = node.get("spec", {}).get("taints") or []
        if any(taint["key"] == UNSCHEDULABLE for taint in taints) != _cordoned(node):
            self._world.later(FOLLOWS, self.cordoned, name)
        if any(taint["key"] == OUT_OF_SERVICE for taint in taints) and not _ready(node):
            self._out_of_service(name)

    def cordoned(self, name: str) -> None:
        """The node controller's taint goes with spec.unschedulable."""
        node, stamp = self._store.find(NODES, "", name), self._world.clock.stamp()
        if node is not None and _cordoned(node):
            self._store.change(NODES, "", name, lambda o: _taint(o, UNSCHEDULABLE, "NoSchedule", stamp))
        elif node is not None:
            self._store.change(NODES, "", name, lambda o: _untaint(o, UNSCHEDULABLE, "NoSchedule"))

    def _pods(self, node: str) -> list[Obj]:
        return [p for p in self._store.all(PODS) if p["spec"].get("nodeName") == node]

    def unknown(self, name: str, since: float) -> None:
        """Its kubelet is silent for too long."""
        if self._since.get(name) != since:
            return
        stamp = self._world.clock.stamp()

        def edit(obj: Obj) -> None:
            text = "Kubelet stopped posting node status."
            more = {"reason": "NodeStatusUnknown", "message": text, "lastTransitionTime": stamp}
            words.set_condition(obj, "Ready", "Unknown", **more)
            _taint(obj, UNREACHABLE, "NoSchedule", stamp)

        node = self._store.change(NODES, "", name, edit)
        text = f"Node {name} status is now: NodeNotReady"
        self._world.event(node, "NodeNotReady", text)
        for pod in self._pods(name):
            meta = pod["metadata"]
            self._store.change(
                PODS, meta["namespace"], meta["name"], lambda o: words.set_condition(o, "Ready", "False")
            )
        for vmi in self._vmis(name):
            meta = vmi["metadata"]
            self._store.change(
                VMIS, meta["namespace"], meta["name"], lambda o: words.set_condition(o, "Ready", "False")
            )
        self._world.later(0.25, self.no_execute, name, since)

    def _vmis(self, node: str) -> list[Obj]:
        found = [v for v in self._store.all(VMIS) if v.get("status", {}).get("nodeName") == node]
        return [vmi for vmi in found if not words.final(vmi)]

    def no_execute(self, name: str, since: float) -> None:
        if self._since.get(name) == since:
            stamp = self._world.clock.stamp()
            self._store.change(NODES, "", name, lambda o: _taint(o, UNREACHABLE, "NoExecute", stamp))
            self._world.later(TOLERATED, self.evict, name, since)

    def evict(self, name: str, since: float) -> None:
        """Taint eviction: the pods are marked, and nobody is there to end them."""
        if self._since.get(name) == since:
            for pod in self._pods(name):
                self._world.delete_pod(pod)

    def unresponsive(self, name: str, since: float) -> None:
        if self._handler.get(name) == since:
            node = self._schedulable(name, "false")
            text = "virt-handler is not responsive, marking node as unresponsive"
            self._world.event(node, "NodeUnresponsive", text, "Warning")

    def _schedulable(self, name: str, value: str) -> Obj:
        def edit(obj: Obj) -> None:
            obj["metadata"].setdefault("labels", {})["kubevirt.io/schedulable"] = value

        return self._store.change(NODES, "", name, edit)

    def responsive(self, name: str) -> None:
        if "schedulable" in self._world.paused:
            self._world.later(1.0, self.responsive, name)
        elif name not in self._handler and self._store.find(NODES, "", name) is not None:
            self._schedulable(name, "true")

    def back(self, name: str) -> None:
        """Its kubelet reports again: our taints go one after the other, that of others stays."""
        if name in self._since or self._store.find(NODES, "", name) is None:
            return

        stamp = self._world.clock.stamp()

        def ready(obj: Obj) -> None:
            words.set_condition(obj, "Ready", "True", reason="KubeletReady", lastTransitionTime=stamp)
            _untaint(obj, UNREACHABLE, "NoSchedule")

        self._store.change(NODES, "", name, ready)
        self._world.later(2.2, self.untaint, name)

    def untaint(self, name: str) -> None:
        if name not in self._since and self._store.find(NODES, "", name) is not None:
            self._store.change(NODES, "", name, lambda o: _untaint(o, UNREACHABLE, "NoExecute"))

    # Out of service

    def _out_of_service(self, name: str) -> None:
        if name not in self._collecting:
            self._collecting.add(name)
            for pod in self._pods(name):
                self._world.delete_pod(pod)
            self._world.later(COLLECTED, self.collect, name)

    def collect(self, name: str) -> None:
        """Pod GC: they are Failed, then gone; what ran in them runs no more."""
        self._collecting.discard(name)
        for pod in self._pods(name):
            meta = pod["metadata"]
            self._store.change(PODS, meta["namespace"], meta["name"], words.failed)
            self._store.delete(PODS, meta["namespace"], meta["name"])


def reboot(world: World, name: str, off: float = 30.0, starts: float = 20.0) -> None:
    """Off for so long, then its kubelet reports with another boot id, and later virt-handler does.

    Its device plugins miss its first heartbeat: until the second one KubeVirt lets no VM go there. Its kubelet tells
    that the guests of before have ended, and goes on with the removal of pods.
    """

    def boot() -> None:
        stamp = world.clock.stamp()

        def up(obj: Obj) -> None:
            info = obj["status"]["nodeInfo"]
            info["bootID"] = f"{info['bootID']}+"
            notes = words.annotations(obj)
            notes.pop("lab/down", None)
            notes["lab/virt-handler-down"] = "true"
            words.set_condition(obj, "Ready", "True", reason="KubeletReady", lastTransitionTime=stamp)

        world.store.change(NODES, "", name, up)
        for pod in world.store.all(PODS):
            if pod["spec"].get("nodeName") == name and not words.final(pod) and _ends_with_its_node(pod):
                world.store.change(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], words.failed)
        world.later(starts, handler)

    def handler() -> None:
        def up(obj: Obj) -> None:
            notes = words.annotations(obj)
            notes.pop("lab/virt-handler-down", None)
            notes["kubevirt.io/heartbeat"] = world.clock.stamp()
            words.labels(obj)["kubevirt.io/schedulable"] = "false"

        world.store.change(NODES, "", name, up)

    def down(obj: Obj) -> None:
        obj["metadata"].setdefault("annotations", {})["lab/down"] = "true"

    world.store.change(NODES, "", name, down)
    world.later(off, boot)


def _ends_with_its_node(pod: Obj) -> bool:
    """Its containers are not started again."""
    return words.is_launcher(pod) or bool(pod["metadata"].get("deletionTimestamp"))


def _cordoned(node: Obj) -> bool:
    return bool(node.get("spec", {}).get("unschedulable"))


def _ready(node: Obj) -> bool:
    return words.is_true(node, "Ready")


def _taint(obj: Obj, key: str, effect: str, stamp: str) -> None:
    taints = obj.setdefault("spec", {}).setdefault("taints", [])
    if not any((t["key"], t["effect"]) == (key, effect) for t in taints):
        taints.append({"key": key, "effect": effect, "timeAdded": stamp})


def _untaint(obj: Obj, key: str, effect: str) -> None:
    spec = obj.setdefault("spec", {})
    left = [t for t in spec.get("taints") or [] if (t["key"], t["effect"]) != (key, effect)]
    spec.pop("taints", None)
    if left:
        spec["taints"] = left
