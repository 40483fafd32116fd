"""The scheduler: which node takes a pod, and why no node does."""

from __future__ import annotations

from typing import Any

from . import words
from .kinds import NODES, PODS
from .store import Change, Obj
from .world import World

_BINARY = {f"{unit}i": 2.0 ** (10 * n) for n, unit in enumerate("KMGTPE", 1)}
_DECIMAL = {unit: 10.0 ** (3 * n) for n, unit in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)}
_UNITS = {**_BINARY, **{unit: factor for unit, factor in _DECIMAL.items() if unit}}  # 12E is exa, 12e3 a number
_SELECTOR = "node(s) didn't match Pod's node affinity/selector"


def quantity(text: str | int | float) -> float:
    """A Kubernetes quantity as a number: bytes, or cores."""
    text = str(text)
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text)


# A pod that tolerates this comes to a cordoned node.
_CORDON: Obj = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class Scheduler:
    """Gives pods a node."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        world.on_change(self._look)

    def _look(self, change: Change) -> None:
        waiting = change.kind is PODS and not change.obj["spec"].get("nodeName")
        ended = change.kind is PODS and (change.type == "DELETED" or words.final(change.obj))
        if waiting or ended or change.kind is NODES:
            self._world.enqueue(self.reconcile)

    def reconcile(self) -> None:
        for pod in list(self._store.all(PODS)):
            if not pod["spec"].get("nodeName") and words.live_pod(pod):
                self._place(pod)

    def _place(self, pod: Obj) -> None:
        nodes = list(self._store.all(NODES))
        taken = self._taken()
        why: dict[str, int] = {}
        fitting = []
        for node in nodes:
            reason = self._refuses(node, pod, taken.get(node["metadata"]["name"], []))
            if reason:
                why[reason] = why.get(reason, 0) + 1
            else:
                fitting.append(node)
        if not fitting:
            parts = ", ".join(sorted(f"{count} {reason}" for reason, count in why.items()))
            self._tell(pod, f"0/{len(nodes)} nodes are available: {parts}.")
            return

        def rank(node: Obj) -> tuple[int, bool, int, str]:
            name = node["metadata"]["name"]
            return (_unwished(node, pod), not _prefers(pod, node), len(taken.get(name, [])), name)

        best = min(fitting, key=rank)["metadata"]["name"]

        def bind(obj: Obj) -> None:
            obj["spec"]["nodeName"] = best
            words.set_condition(obj, "PodScheduled", "True")

        self._store.change(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], bind)

    def _taken(self) -> dict[str, list[Obj]]:
        """The pods of each node that use something."""
        found: dict[str, list[Obj]] = {}
        for pod in self._store.all(PODS):
            if pod["spec"].get("nodeName") and words.live_pod(pod):
                found.setdefault(pod["spec"]["nodeName"], []).append(pod)
        return found

    def _tell(self, pod: Obj, text: str) -> None:
        before = words.condition(pod, "PodScheduled")
        if before is None or before.get("message") != text:
            self._world.event(pod, "FailedScheduling", text, "Warning")
        more = {"reason": "Unschedulable", "message": text}
        self._store.change(
            PODS,
            pod["metadata"]["namespace"],
            pod["metadata"]["name"],
            lambda o: words.set_condition(o, "PodScheduled", "False", **more),
        )

    def _refuses(self, node: Obj, pod: Obj, others: list[Obj]) -> str:
        """Why this node does not take it; empty: it does."""
        spec, allocatable = node.get("spec", {}), node["status"].get("allocatable", {})
        if spec.get("unschedulable") and not tolerates(pod, _CORDON):
            return "node(s) were unschedulable"
        for taint in spec.get("taints") or []:
            if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(pod, taint):
                return f"node(s) had untolerated taint(s) {{{taint['key']}: {taint.get('value', '')}}}"
        selector = pod["spec"].get("nodeSelector") or {}
        if any(words.labels(node).get(k) != v for k, v in selector.items()):
            return _SELECTOR
        if not _required(pod, node):
            return _SELECTOR
        if not _apart(pod, others):
            return "node(s) didn't match pod anti-affinity rules"
        if len(others) >= int(allocatable.get("pods", "250")):
            return "Too many pods"
        for resource in ("cpu", "memory"):
            used = sum(_requests(other, resource) for other in others)
            if used + _requests(pod, resource) > quantity(allocatable.get(resource, "1Ti")):
                return f"Insufficient {resource}"
        return ""


def tolerates(pod: Obj, taint: Obj) -> bool:
    for found in pod["spec"].get("tolerations") or []:
        if found.get("effect") not in (None, "", taint["effect"]):
            continue
        if found.get("operator", "Equal") == "Exists":
            if found.get("key") in (None, "", taint["key"]):
                return True
        elif (found.get("key"), found.get("value", "")) == (taint["key"], taint.get("value", "")):
            return True
    return False


def _unwished(node: Obj, pod: Obj) -> int:
    """Of kube-scheduler's scores this one weighs most (TaintToleration: 3)."""
    soft = [taint for taint in node["spec"].get("taints") or [] if taint["effect"] == "PreferNoSchedule"]
    return sum(not tolerates(pod, taint) for taint in soft)


def _requests(pod: Obj, resource: str) -> float:
    found = 0.0
    for container in pod["spec"].get("containers") or []:
        asked = (container.get("resources") or {}).get("requests") or {}
        found += quantity(asked.get(resource, 0))
    return found


def _matches(term: dict[str, Any], labels: dict[str, str]) -> bool:
    """One matchExpressions entry."""
    value, values = labels.get(term["key"]), term.get("values") or []
    how = term["operator"]
    if how == "In":
        return value in values
    if how == "NotIn":
        return value not in values
    return (value is not None) == (how == "Exists")


def _node_affinity(pod: Obj) -> dict[str, Any]:
    return (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}


def _required(pod: Obj, node: Obj) -> bool:
    rule = _node_affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    if not rule:
        return True
    labels = words.labels(node)
    return any(
        all(_matches(one, labels) for one in term.get("matchExpressions") or []) for term in rule["nodeSelectorTerms"]
    )


def _prefers(pod: Obj, node: Obj) -> bool:
    labels = words.labels(node)
    return any(
        all(_matches(one, labels) for one in rule["preference"].get("matchExpressions") or [])
        for rule in _node_affinity(pod).get("preferredDuringSchedulingIgnoredDuringExecution") or []
    )


def _apart(pod: Obj, others: list[Obj]) -> bool:
    """No pod of the node is one that this one must not stand beside."""
    rules = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    for rule in rules.get("requiredDuringSchedulingIgnoredDuringExecution") or []:
        wanted = (rule["labelSelector"].get("matchLabels") or {}).items()
        for other in others:
            same = other["metadata"].get("namespace") == pod["metadata"]["namespace"]
            if same and wanted <= words.labels(other).items():
                return False
    return True
