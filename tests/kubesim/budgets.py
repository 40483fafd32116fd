"""Disruption budgets and quotas: what they allow, and their status."""

from __future__ import annotations

from dataclasses import dataclass

from . import words
from .kinds import PDBS, PODS, QUOTAS
from .scheduler import quantity
from .store import Change, Obj, Store
from .world import World

NO_SCALE = "{} does not implement the scale subresource"
SCALABLE = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Deployment"})


@dataclass(frozen=True)
class Budget:
    """What a PodDisruptionBudget comes to now. `unscalable`: who owns a pod of it and has no scale,
    such as a VMI; unless minAvailable is a number it is then never computed."""

    unscalable: str = ""
    healthy: int = 0
    desired: int = 0
    expected: int = 0

    @property
    def computed(self) -> bool:
        return not self.unscalable

    @property
    def allowed(self) -> int:
        return max(0, self.healthy - self.desired) if self.computed else 0


def selects(pdb: Obj, pod: Obj) -> bool:
    wanted = (pdb["spec"].get("selector") or {}).get("matchLabels") or {}
    return wanted.items() <= words.labels(pod).items()


def assess(store: Store, pdb: Obj) -> Budget:
    pods = [p for p in store.all(PODS, pdb["metadata"]["namespace"]) if selects(pdb, p)]
    healthy = sum(1 for p in pods if words.is_true(p, "Ready") and not words.final(p))
    least, most = pdb["spec"].get("minAvailable"), pdb["spec"].get("maxUnavailable")
    if isinstance(least, int):
        return Budget("", healthy, least, len(pods))
    for pod in pods:
        if owner := _without_scale(pod):
            return Budget(owner)
    if least is not None:
        return Budget("", healthy, _share(least, len(pods)), len(pods))
    unavailable = most if isinstance(most, int) else _share(most or 0, len(pods))
    return Budget("", healthy, max(0, len(pods) - unavailable), len(pods))


def _without_scale(pod: Obj) -> str:
    """The resource that owns the pod, if it has no scale; a pod of nobody is not counted."""
    if words.is_launcher(pod):
        return "virtualmachineinstances.kubevirt.io"
    for owner in pod["metadata"].get("ownerReferences") or []:
        if owner.get("controller") and owner["kind"] not in SCALABLE:
            return f"{owner['kind'].lower()}s"
    return ""


def _share(text: str | int, count: int) -> int:
    """A percentage, rounded up."""
    if isinstance(text, int):
        return text
    return -(-count * int(text.removesuffix("%")) // 100)


class BudgetController:
    """Keeps the status of the budgets."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        world.on_change(self._look)

    def _look(self, change: Change) -> None:
        if change.kind in (PDBS, PODS):
            for pdb in self._store.all(PDBS, change.obj["metadata"]["namespace"]):
                meta = pdb["metadata"]
                self._world.enqueue(self.reconcile, meta["namespace"], meta["name"])

    def reconcile(self, namespace: str, name: str) -> None:
        pdb = self._store.find(PDBS, namespace, name)
        if pdb is None:
            return
        found, stamp = assess(self._store, pdb), self._world.clock.stamp()

        def edit(obj: Obj) -> None:
            before = words.condition(obj, "DisruptionAllowed") or {}
            value = "True" if found.allowed else "False"
            reason = "SufficientPods" if found.allowed else "InsufficientPods"
            if not found.computed:
                reason = "SyncFailed"
            same = (before.get("status"), before.get("reason")) == (value, reason)
            condition = {
                "type": "DisruptionAllowed",
                "status": value,
                "reason": reason,
                "message": "" if found.computed else NO_SCALE.format(found.unscalable),
                "lastTransitionTime": before.get("lastTransitionTime") if same else stamp,
            }
            obj["status"] = {
                "disruptionsAllowed": found.allowed,
                "currentHealthy": found.healthy,
                "desiredHealthy": found.desired,
                "expectedPods": found.expected,
                "conditions": [condition],
                **({"observedGeneration": obj["metadata"]["generation"]} if found.computed else {}),
            }

        self._store.change(PDBS, namespace, name, edit)


def used(store: Store, namespace: str, resource: str) -> float:
    """What live pods use of a quota's resource."""
    live = [pod for pod in store.all(PODS, namespace) if words.live_pod(pod)]
    return sum(needs(pod, resource) for pod in live)


def needs(pod: Obj, resource: str) -> float:
    """`pods`, `requests.memory`, `limits.cpu` and so on."""
    if resource in ("pods", "count/pods"):
        return 1.0
    kind, _dot, name = resource.partition(".")
    kind, name = (kind, name) if name else ("requests", kind)
    found = 0.0
    for container in pod["spec"].get("containers") or []:
        asked = (container.get("resources") or {}).get(kind) or {}
        found += quantity(asked.get(name, 0))
    return found


def shown(amount: float) -> str:
    return f"{amount:.0f}"


class QuotaController:
    """Keeps the status of the quotas."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        world.on_change(self._look)

    def _look(self, change: Change) -> None:
        if change.kind in (QUOTAS, PODS):
            for quota in self._store.all(QUOTAS, change.obj["metadata"]["namespace"]):
                meta = quota["metadata"]
                self._world.enqueue(self.reconcile, meta["namespace"], meta["name"])

    def reconcile(self, namespace: str, name: str) -> None:
        quota = self._store.find(QUOTAS, namespace, name)
        if quota is None:
            return
        hard = quota["spec"].get("hard") or {}
        now = {resource: shown(used(self._store, namespace, resource)) for resource in hard}

        def edit(obj: Obj) -> None:
            obj["status"] = {"hard": dict(hard), "used": now}

        self._store.change(QUOTAS, namespace, name, edit)
