"""The objects of one pass of the preflight. Lists only."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from ..api.client import Client
from ..api.errors import AccessDenied
from ..objects import facts, names
from ..placement.targets import claims

Obj = dict[str, Any]


@dataclass
class ClusterObjects:
    """The objects of one pass. `unread`: what the account may not list, in words.

    `volumes`: namespace and name of a claim -> the nodeSelectorTerms of its volume.
    """

    nodes: list[Obj] = field(default_factory=list)
    pods: list[Obj] = field(default_factory=list)
    vmis: list[Obj] = field(default_factory=list)
    migrations: list[Obj] = field(default_factory=list)
    kubevirt: Obj | None = None
    vms: dict[tuple[str, str], Obj] = field(default_factory=dict)
    quotas: dict[str, list[Obj]] = field(default_factory=dict)
    budgets: dict[str, list[Obj]] = field(default_factory=dict)
    volumes: dict[tuple[str, str], list[Obj]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    @functools.cached_property
    def migrations_by_uid(self) -> dict[str, Obj]:
        return {one["metadata"]["uid"]: one for one in self.migrations}


def read(client: Client) -> ClusterObjects:
    """Lists only. Raises AccessDenied for what a drain cannot do without."""
    found = ClusterObjects(
        nodes=client.list(f"{names.CORE}/nodes")[0],
        pods=client.list(f"{names.CORE}/pods")[0],
        vmis=client.list(f"{names.KUBEVIRT}/virtualmachineinstances")[0],
        migrations=client.list(f"{names.KUBEVIRT}/virtualmachineinstancemigrations")[0],
    )
    kubevirts = client.list(f"{names.KUBEVIRT}/kubevirts")[0]
    found.kubevirt = kubevirts[0] if kubevirts else None
    for vm in _optional(client, found, f"{names.KUBEVIRT}/virtualmachines", "run strategies"):
        found.vms[facts.key(vm)] = vm
    for quota in _optional(client, found, f"{names.CORE}/resourcequotas", "quotas"):
        found.quotas.setdefault(quota["metadata"]["namespace"], []).append(quota)
    path = "/apis/policy/v1/poddisruptionbudgets"
    for budget in _optional(client, found, path, "disruption budgets"):
        found.budgets.setdefault(budget["metadata"]["namespace"], []).append(budget)
    if any(claims(vmi) for vmi in found.vmis):
        for volume in _optional(client, found, f"{names.CORE}/persistentvolumes", "volumes' zones"):
            found.volumes.update(_zones(volume))
    return found


def _zones(volume: Obj) -> dict[tuple[str, str], list[Obj]]:
    spec = volume.get("spec") or {}
    claim = spec.get("claimRef") or {}
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    if not claim.get("name") or not required.get("nodeSelectorTerms"):
        return {}
    return {(claim.get("namespace", ""), claim["name"]): required["nodeSelectorTerms"]}


def _optional(client: Client, found: ClusterObjects, path: str, what: str) -> list[Obj]:
    try:
        return client.list(path)[0]
    except AccessDenied as exc:
        found.unread.append(f"The {what}: {exc}")
        return []
