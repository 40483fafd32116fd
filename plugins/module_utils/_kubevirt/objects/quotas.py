"""Preflight: quotas and disruption budgets, as numbers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..._core.model.columns import count
from ..._core.preflight.facts import Budget, QuotaLeft
from . import facts
from .quantity import amount
from .selectors import selects

Obj = dict[str, Any]

# As quotas name them -> as pods do: (the list in a container, the resource).
_COUNTED = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}
_PODS = ("pods", "count/pods")


def pod_needs(pod: Obj | None, kind: str = "requests") -> dict[str, float]:
    """Add up what a pod asks for, as the scheduler and quotas count it: resource -> amount. `kind`: requests or
    limits."""
    spec = (pod or {}).get("spec") or {}
    total: dict[str, float] = {}
    starting: dict[str, float] = {}
    beside: dict[str, float] = {}  # sidecars: init containers that stay, as the log of a guest
    for container in spec.get("containers") or []:
        _add(total, _listed(container, kind))
    for container in spec.get("initContainers") or []:
        asked = _listed(container, kind)
        if container.get("restartPolicy") == "Always":
            _add(beside, asked)
            _add(total, asked)
            asked = {}
        for what in {**beside, **asked}:
            now = asked.get(what, 0.0) + beside.get(what, 0.0)
            starting[what] = max(starting.get(what, 0.0), now)
    for what, value in starting.items():
        total[what] = max(total.get(what, 0.0), value)
    for what, value in (spec.get("overhead") or {}).items():
        total[what] = total.get(what, 0.0) + amount(value)
    return total


def _add(total: dict[str, float], more: Mapping[str, float]) -> None:
    for what, value in more.items():
        total[what] = total.get(what, 0.0) + value


def _listed(container: Obj, kind: str) -> dict[str, float]:
    resources = (container.get("resources") or {}).get(kind) or {}
    return {what: amount(value) for what, value in resources.items()}


def quotas_left(quotas: Iterable[Obj], pod: Obj | None, used_by_pods: Callable[[str], float]) -> list[QuotaLeft]:
    """Return for each quota of the pod's namespace its rest, and the need of one more pod like it.

    `used_by_pods`: of a resource, for a quota that has no status yet.
    """
    found = []
    for quota in quotas:
        if not _applies(quota, pod):
            continue
        status = facts.status(quota)
        hard = status.get("hard") or (quota.get("spec") or {}).get("hard") or {}
        used = status.get("used") or {}
        for resource, limit in hard.items():
            needs = _needs(resource, pod)
            if needs is None:
                continue
            gone = amount(used[resource]) if resource in used else used_by_pods(resource)
            name = quota["metadata"]["name"]
            left = max(0.0, amount(limit) - gone)
            found.append(QuotaLeft(name, resource, left, needs))
    return found


def _needs(resource: str, pod: Obj | None) -> float | None:
    """None: it is not a pod's resource, or the pod asks for none of it."""
    if resource in _PODS:
        return 1.0
    if resource in _COUNTED:
        kind, what = _COUNTED[resource]
        return pod_needs(pod, kind).get(what)
    if resource.startswith("requests."):  # devices and the like
        return pod_needs(pod).get(resource[len("requests.") :])
    return None


def taken(pods: Sequence[Obj], resource: str) -> float:
    """How much of a quota's resource the pods use that have not ended."""
    live = [pod for pod in pods if not facts.final(pod)]
    return sum(_needs(resource, pod) or 0.0 for pod in live)


def _applies(quota: Obj, pod: Obj | None) -> bool:
    """A launcher pod has no end of its own and asks for resources."""
    spec = quota.get("spec") or {}
    scopes = set(spec.get("scopes") or ())
    for part in (spec.get("scopeSelector") or {}).get("matchExpressions") or []:
        if part.get("scopeName") != "PriorityClass":
            scopes.add(part.get("scopeName"))
            continue
        have = ((pod or {}).get("spec") or {}).get("priorityClassName") or ""
        how, values = part.get("operator"), part.get("values") or []
        if (how == "In" and have not in values) or (how == "NotIn" and have in values):
            return False
        if (how == "Exists" and not have) or (how == "DoesNotExist" and have):
            return False
    if "CrossNamespacePodAffinity" in scopes and not _looks_across(pod):
        return False
    return not scopes & {"Terminating", "BestEffort"}


def _looks_across(pod: Obj | None) -> bool:
    """Has it a term of affinity to pods that names other namespaces?"""
    affinity = ((pod or {}).get("spec") or {}).get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        terms = list(found.get("requiredDuringSchedulingIgnoredDuringExecution") or [])
        for weighted in found.get("preferredDuringSchedulingIgnoredDuringExecution") or []:
            terms.append(weighted.get("podAffinityTerm") or {})
        if any(t.get("namespaces") or t.get("namespaceSelector") is not None for t in terms):
            return True
    return False


# Budgets


def budgets_of(budgets: Iterable[Obj], pod: Obj) -> tuple[Budget, ...]:
    """The disruption budgets that select the pod, without KubeVirt's own (up to 1.5), which belong to its
    evacuation."""
    return tuple(
        read_budget(budget) for budget in budgets if _selects(budget, facts.labels(pod)) and not _kubevirts(budget)
    )


def _selects(budget: Obj, labels: Mapping[str, str]) -> bool:
    """policy/v1: an empty selector selects every pod, none selects no pod."""
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and selects(selector, labels)


def _kubevirts(budget: Obj) -> bool:
    owners = budget["metadata"].get("ownerReferences") or []
    return any(owner.get("kind") == "VirtualMachineInstance" for owner in owners)


def read_budget(budget: Obj) -> Budget:
    """A VMI has no scale subresource, so only an integer minAvailable is ever computed."""
    name, spec, status = budget["metadata"]["name"], budget["spec"], facts.status(budget)
    least = spec.get("minAvailable")
    if spec.get("maxUnavailable") is not None:
        return Budget(name, "maxUnavailable is never computed for VMs")
    if isinstance(least, str) and least.endswith("%"):
        return Budget(name, "a percentage is never computed for VMs")
    expected = status.get("expectedPods")
    if expected and least is not None and amount(least) >= expected:
        return Budget(name, f"minAvailable {least} of {count(expected, 'pod')}")
    left = status.get("disruptionsAllowed")
    return Budget(name, left=None if left is None else int(left))


def lines(quota: Obj) -> list[str]:
    """A text for each limit of a quota: how much of it is used, if its status has that."""
    reported = facts.status(quota)
    hard = reported.get("hard") or (quota.get("spec") or {}).get("hard") or {}
    used, name = reported.get("used") or {}, quota["metadata"]["name"]
    return [
        f"quota {name}: {key} {used[key]} of {hard[key]} used"
        if key in used
        else f"quota {name}: {key} at most {hard[key]}"
        for key in sorted(hard)
    ]


def is_full(quota: Obj) -> bool:
    """Has it no room for one more pod?"""
    status = facts.status(quota)
    hard = status.get("hard") or (quota.get("spec") or {}).get("hard") or {}
    used = status.get("used") or {}
    for key in ("pods", "count/pods"):
        if key in hard and key in used:
            return amount(used[key]) >= amount(hard[key])
    return False
