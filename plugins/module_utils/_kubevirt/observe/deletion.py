"""See what others do to a VM meanwhile: they stop, restart, evict or delete it. Pure.

The cluster is read whole: what is in no list does not exist, so a VM that cannot be found was
deleted. Who did it stands nowhere; who stopped it stands in the VirtualMachine's managedFields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._core.reasons.reason import Finding, Reason
from ..objects import facts
from ..records.node_record import Instance

Obj = dict[str, Any]
_SWITCHES = ("f:runStrategy", "f:running")


def is_deleted(vmi: Obj | None, vm: Obj | None, bare: bool) -> bool:
    """Has somebody deleted it? `vm`, `vmi`: as found, None where there is none."""
    if bare:
        return vmi is None or facts.deleted(vmi)
    return vm is None or facts.deleted(vm)


def deleted_finding(known: Instance) -> Finding:
    if known.maker:
        text = f"{known.namespace}/{known.name} has ended; its {known.maker} creates another one."
        return Finding(Reason.RestartedByOthers, text)
    kind = "VirtualMachineInstance" if known.bare else "VirtualMachine"
    return Finding(Reason.VMVanished, f"The {kind} {known.namespace}/{known.name} was deleted.")


def stopped_finding(vm: Obj) -> Finding:
    """Its VirtualMachine is there, and does not run."""
    strategy = facts.run_strategy(vm.get("spec") or {})
    who = _who_switched(vm)
    text = f"Its VirtualMachine has runStrategy {strategy}{f', set by {who}' if who else ''}."
    return Finding(Reason.StoppedByItself, text)


def _who_switched(vm: Obj) -> str:
    """Field manager and time of the last change of its runStrategy; empty: not reported."""
    found = [
        (str(entry.get("time", "")), str(entry.get("manager", "")))
        for entry in vm["metadata"].get("managedFields") or []
        if any(key in ((entry.get("fieldsV1") or {}).get("f:spec") or {}) for key in _SWITCHES)
    ]
    when, who = max(found, default=("", ""))
    return f"{who} at {when}" if who else ""


def ends(vmi: Obj) -> bool:
    """Has an instance ended, or is it being ended? Its pod may be asked to end long before the
    instance is: then the guest is shutting down."""
    return facts.final(vmi) or facts.deleted(vmi) or _pod_ends(vmi)


def ending(vmi: Obj, starts_again: bool, crashed: bool, namespace_ends: Callable[[str], bool]) -> Finding | None:
    """How an instance that is still on its node ends without us; None: it does not. `namespace_ends`: is it being
    deleted?"""
    over = facts.final(vmi) and starts_again
    if not (over or facts.deleted(vmi) or _pod_ends(vmi)):
        return None
    node = facts.status(vmi).get("nodeName") or "its node"
    what = "has ended" if facts.final(vmi) else "is being stopped by others"
    then = ", and KubeVirt restarts it" if starts_again else ""
    reason = Reason.RestartedByOthers if starts_again else Reason.StoppedByItself
    if crashed:
        reason, what = Reason.VMCrashed, "has crashed"
    elif not starts_again and namespace_ends(facts.key(vmi)[0]):
        then = f": the namespace {facts.key(vmi)[0]} is being deleted"
    return Finding(reason, f"Its instance on {node} {what}{then}.")


def _pod_ends(vmi: Obj) -> bool:
    ready = facts.condition(vmi, "Ready") or {}
    return not facts.final(vmi) and ready.get("reason") == "PodTerminating"
