"""Tell from a VM's claims whether it can migrate, before KubeVirt itself does."""

from __future__ import annotations

from typing import Any

from ..api.client import Client
from ..api.errors import KubeError
from ..objects import facts, names

Obj = dict[str, Any]
_SHARED = "ReadWriteMany"


def not_shared(client: Client, vmi: Obj) -> str:
    """Names the claims that two nodes cannot have at once; empty where there is none."""
    known = {
        info["claimName"]: list(info.get("accessModes") or [])
        for volume in facts.status(vmi).get("volumeStatus") or []
        for info in [volume.get("persistentVolumeClaimInfo") or {}]
        if info.get("claimName")
    }
    found = []
    for claim in _claims(vmi):
        modes = known.get(claim) or _read(client, facts.key(vmi)[0], claim)
        if modes and _SHARED not in modes:
            found.append(f"{claim} has {', '.join(modes)}")
    if not found:
        return ""
    return f"A claim that is not {_SHARED} cannot be on two nodes: {'; '.join(found)}."


def _claims(vmi: Obj) -> list[str]:
    """Claims of its disks. A DataVolume's claim has its name."""
    found = []
    for volume in vmi["spec"].get("volumes") or []:
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        found.append(claim or (volume.get("dataVolume") or {}).get("name"))
    return sorted({str(name) for name in found if name})


def _read(client: Client, namespace: str, name: str) -> list[str]:
    path = f"{names.CORE}/namespaces/{namespace}/persistentvolumeclaims/{name}"
    try:
        claim = client.find(path) or {"metadata": {}}
    except KubeError:
        return []  # not allowed, or not now: a reason less
    return list((claim.get("spec") or {}).get("accessModes") or [])
