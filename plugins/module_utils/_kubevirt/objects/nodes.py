"""Does a node take VMs, as far as the node itself says? Pure. Taints: tolerations.py."""

from __future__ import annotations

from typing import Any

from .facts import condition, labels
from .names import SCHEDULABLE

Obj = dict[str, Any]


def cordoned(node: Obj) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def takes_vms(node: Obj) -> bool:
    """Does KubeVirt's label say that virt-handler works there?"""
    return labels(node).get(SCHEDULABLE) == "true"


def runs_vms(node: Obj) -> bool:
    """Is it one of those that run VMs, or would if virt-handler worked there? The label is there in either case."""
    return SCHEDULABLE in labels(node)


def not_ready(node: Obj) -> str:
    """Return the kubelet's condition as a sentence without a full stop; '' for a node that is Ready."""
    ready = condition(node, "Ready") or {}
    if ready.get("status") == "True":
        return ""
    return f"the node is not Ready ({ready.get('reason', '')}: {ready.get('message', '')})"


def why_closed(node: Obj) -> list[str]:
    """Return why the node takes no VM at all, taints left aside; empty: the node is open.

    A cordon does, also for a VM that tolerates it: somebody wants the node to be empty.
    """
    return (["it is cordoned"] if cordoned(node) else []) + closed_beside_cordon(node)


def closed_beside_cordon(node: Obj | None) -> list[str]:
    """The same of a node whose cordon is another's question. None: it is not registered."""
    if node is None:
        return ["there is no such Node any more"]
    why = []
    if not takes_vms(node):
        why.append(f"its label {SCHEDULABLE} is not true (virt-handler does not run there?)")
    if not_ready(node):
        why.append("it is not Ready")
    return why


def is_open(node: Obj) -> bool:
    return not why_closed(node)
