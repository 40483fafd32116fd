"""Tell from the affinity of pods which VMs never share a node. Pure.

A required anti-affinity by host name can be told from the pods of a node. It makes a group where it
selects the VM itself: then it keeps all VMs of its kind apart, and not only this one from others.
All else (zones, other namespaces by their labels, affinity, spread) is told in words, and is for
the scheduler to find.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import facts, names
from .selectors import selects

Obj = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Parts of a term for which more than the pods of a node must be known.
_BEYOND = ("namespaceSelector", "matchLabelKeys", "mismatchLabelKeys")


@dataclass(frozen=True)
class Term:
    """Pods that must not be on the same node: of these namespaces, with these labels."""

    namespaces: tuple[str, ...]
    selector: Mapping[str, Any]

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace in self.namespaces and selects(self.selector, labels)

    @property
    def text(self) -> str:
        """The same for all VMs that have the term; empty for one that selects every pod."""
        parts = [f"{k}={v}" for k, v in (self.selector.get("matchLabels") or {}).items()]
        for one in self.selector.get("matchExpressions") or []:
            values = "|".join(sorted(one.get("values") or []))
            parts.append(" ".join(p for p in (one["key"], one["operator"], values) if p))
        return ",".join(sorted(parts))


@dataclass(frozen=True)
class PodAffinity:
    """`group`: of VMs that never share a node; empty: none. `beyond`: what a group does not say.
    `terms`: what can be told from the pods of a node. `unchecked`: what cannot, in words."""

    group: str = ""
    beyond: bool = False
    terms: tuple[Term, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def rules_group(self) -> str | None:
        """The group, as rules see it. None: there is more than groups can say, and no group."""
        return self.group or (None if self.beyond else "")


def pod_affinity(obj: Obj) -> PodAffinity:
    """Parse the pod affinity of a VMI or a pod: both have the same form in their spec."""
    spec = obj.get("spec") or {}
    affinity = spec.get("affinity") or {}
    namespace, labels = obj["metadata"].get("namespace", ""), facts.labels(obj)
    terms, unchecked, groups = [], [], []
    for raw in (affinity.get("podAntiAffinity") or {}).get(_REQUIRED) or []:
        if raw.get("labelSelector") is None:
            continue  # it selects no pod
        term = _term(raw, namespace)
        if term is None:
            unchecked.append(f"anti-affinity by {raw.get('topologyKey', names.HOSTNAME)}")
            continue
        terms.append(term)
        own = term.namespaces == (namespace,) and term.text
        if own and term.selects(namespace, labels):
            groups.append(f"{namespace}/{term.text}")
    for raw in (affinity.get("podAffinity") or {}).get(_REQUIRED) or []:
        unchecked.append(f"affinity to other pods by {raw.get('topologyKey', '')}")
    for raw in spec.get("topologySpreadConstraints") or []:
        if raw.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule":
            unchecked.append(f"spread by {raw.get('topologyKey', '')}")
    beyond = bool(unchecked) or len(terms) > len(groups) or len(set(groups)) > 1
    return PodAffinity(groups[0] if groups else "", beyond, tuple(terms), tuple(unchecked))


def _term(raw: Mapping[str, Any], namespace: str) -> Term | None:
    """None: it takes more than the pods of a node to tell it."""
    if raw.get("topologyKey", names.HOSTNAME) != names.HOSTNAME:
        return None
    if any(raw.get(key) is not None for key in _BEYOND):
        return None
    return Term(tuple(raw.get("namespaces") or (namespace,)), raw["labelSelector"])


@dataclass(frozen=True)
class PlacedPod:
    """A pod, as others stand beside it. `terms`: pods that it does not want there. `vmi`: the UID
    of the VM that it is of."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    terms: tuple[Term, ...] = ()
    vmi: str = ""


def placed_pod(obj: Obj) -> PlacedPod:
    """Describe a pod, or the future target pod of a VMI."""
    namespace, name = facts.key(obj)
    labels = facts.labels(obj)
    terms = pod_affinity(obj).terms if (obj.get("spec") or {}).get("affinity") else ()
    vmi = labels.get(names.CREATED_BY) or obj["metadata"].get("uid", "")
    return PlacedPod(namespace, name, labels, terms, vmi)


def repel(one: PlacedPod, other: PlacedPod) -> bool:
    """The scheduler asks both: the rules of the new pod, and those of the pods that are there.

    Of a migration that is under way the VM's own pod is there.
    """
    if one.vmi == other.vmi:
        return False
    return any(term.selects(other.namespace, other.labels) for term in one.terms) or any(
        term.selects(one.namespace, one.labels) for term in other.terms
    )
