"""Choose what a policy does with VMs of which only the documents are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._core.decision.strategy import choose, strongest
from .._core.model.observation import VM
from .._core.model.policy import Policy
from .._core.reasons.reason import Finding, Platform, Reason


class DocumentError(ValueError):
    """The value given is not a document of a VM."""


def choice_for(document: Mapping[str, Any], policy: Policy, undeclared: str = "") -> dict[str, Any]:
    """The row of one VM. Whether a target has room is not part of a document.

    `undeclared`: the strategy that the platform gives a VM which declares none. Rules do not see
    it, as in a drain: their document says what the VM itself declares.
    """
    if not isinstance(document, Mapping) or "uuid" not in document or "name" not in document:
        raise DocumentError(f"not the document of a VM, which has a name and a uuid: {document!r}")
    platform = Platform.KUBEVIRT if document.get("namespace") else Platform.LIBVIRT
    choice = choose(_vm(document, undeclared), policy)
    found = strongest(choice, platform)
    finding = found.to_dict(platform) if found else {}
    settings = choice.migration
    return {
        "name": document["name"],
        "uuid": document["uuid"],
        "strategy": choice.strategy.value,
        "way": choice.way.value,
        "decided_by": choice.decided_by,
        "priority": choice.priority,
        "hooks": {hook: tasks for hook, tasks in vars(choice.hooks).items() if tasks},
        "reason": finding.get("reason", ""),
        "message": finding.get("message", ""),
        "remedy": finding.get("remedy", ""),
        "migration": {
            "bandwidth": settings.bandwidth_mib,
            "auto_converge": settings.auto_converge,
            "post_copy": settings.post_copy,
            "tls": settings.tls,
            "parallel_connections": settings.parallel_connections,
            "compression": list(settings.compression),
            "completion_timeout_per_gib": settings.completion_timeout_per_gib,
            "progress_timeout": settings.progress_timeout,
            "max_downtime_ms": settings.max_downtime_ms,
            "on_timeout": settings.on_timeout,
        },
    }


def _vm(document: Mapping[str, Any], undeclared: str) -> VM:
    return VM(
        uuid=str(document["uuid"]),
        name=str(document["name"]),
        node=str(document.get("node") or ""),
        declared_strategy=document.get("eviction_strategy") or undeclared or None,
        migratable=document.get("migratable"),
        findings=tuple(_finding(text) for text in document.get("reasons") or ()),
        document=document,
    )


def _finding(text: str) -> Finding:
    try:
        return Finding(Reason(text))
    except ValueError:  # a platform may have reasons that this collection does not know
        return Finding(Reason.StateNotLiveMigratable, text)
