"""The document that rules see: one VM as plain JSON-like data. Pure.

Keys are the same on both platforms, those of _policy/schema.py. What is not known is null (None),
never left out, so that a rule that compares it is not taken for one that is false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..._core.model.observation import MigrationMethod
from ..._core.reasons.reason import Finding
from ..blockers.running import Runtime
from ..blockers.shared_storage import DiskView
from ..domain.spec import DiskSpec, DomainSpec


def vm_document(
    spec: DomainSpec,
    node: str,
    runtime: Runtime,
    *,
    migratable: bool | None,
    findings: Sequence[Finding] = (),
    method: MigrationMethod | None = None,
    views: Mapping[str, DiskView] | None = None,
    dirty_rate_mib: float | None = None,
) -> dict[str, Any]:
    """Memory in MiB, dirty_rate in MiB/s (None unless it was measured)."""
    seen = views or {}
    declared = spec.declared
    return {
        "name": spec.name,
        "namespace": None,  # libvirt has none
        "uuid": spec.uuid,
        "node": node,
        "labels": dict(declared.labels),
        "annotations": dict(declared.annotations),
        "owner": declared.owner or None,
        "anti_affinity_group": declared.anti_affinity_group,
        "eviction_strategy": declared.eviction_strategy or None,
        "memory_mib": spec.max_memory_mib,
        "vcpus": spec.vcpus,
        "migratable": migratable,
        "reasons": sorted({finding.reason.value for finding in findings}),
        "migration_method": None if method is None else method.value,
        "volumes": [_volume(disk, seen.get(disk.dev, DiskView())) for disk in spec.disks],
        "networks": sorted({i.network or i.bridge or i.device for i in spec.interfaces} - {""}),
        "host_devices": [{"kind": device.kind, "source": device.source} for device in spec.host_devices],
        "launch_security": spec.launch_security or None,
        "autostart": runtime.autostart,
        "run_strategy": None,  # libvirt has none
        "persistent": runtime.persistent,
        "agent_connected": spec.agent_connected,
        "dirty_rate": dirty_rate_mib,
    }


def _volume(disk: DiskSpec, view: DiskView) -> dict[str, Any]:
    return {
        "target": disk.dev,
        "kind": disk.type,
        "device": disk.device,
        "source": disk.source or None,
        "format": disk.format or None,
        "shared": view.source_shared,
        "read_only": disk.read_only,
    }
