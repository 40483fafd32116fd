"""Read what holds for the whole cluster: KubeVirt's own object, and whether a target exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..objects.facts import status, version
from ..objects.migration_policy import GATES
from ..objects.names import CORE, KUBEVIRT, SCHEDULABLE
from ..objects.nodes import is_open
from ..objects.tolerations import hard, shown, untolerated
from .client import Client

Obj = dict[str, Any]
_NAMED = 3


@dataclass(frozen=True)
class Cluster:
    """`default_strategy`: of VMIs that name none. `cluster`, `outbound`: KubeVirt's limits.

    `migrations`: KubeVirt's settings of migrations as they stand in its object.
    """

    version: tuple[int, int]
    default_strategy: str
    cluster: int
    outbound: int
    upgrading: bool
    migrations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def no_slots(self) -> str:
        """Which limit lets no migration begin, however long it is waited for; empty: none."""
        return no_slots(self.cluster, self.outbound)


def no_slots(cluster: int, outbound: int) -> str:
    """See Cluster."""
    limits = {"parallelMigrationsPerCluster": cluster, "parallelOutboundMigrationsPerNode": outbound}
    return " ".join(f"{name} is {limit}." for name, limit in limits.items() if limit <= 0)


def can_cancel(cluster: Cluster | None) -> bool:
    """evacuate/cancel exists since KubeVirt 1.7.0. What is not known is tried."""
    return cluster is None or cluster.version >= (1, 7) or cluster.version == (0, 0)


def no_targets(cluster: Cluster) -> str:
    """Why a VM cannot be sent to a node of choice; "": it can. addedNodeSelector came with KubeVirt 1.6."""
    if not (0, 0) < cluster.version < (1, 6):
        return ""
    return f"KubeVirt {cluster.version[0]}.{cluster.version[1]} cannot be given a target for a VM (that came with 1.6)"


def with_gates(config: Obj) -> Obj:
    """configuration.migrations, and which of the feature gates are open that decide how a migration ends."""
    developer = config.get("developerConfiguration") or {}
    opened = {*(developer.get("featureGates") or ())} - {*(developer.get("disabledFeatureGates") or ())}
    return {**(config.get("migrations") or {}), **{gate: True for gate in GATES if gate in opened}}


def read_cluster(client: Client) -> Cluster:
    """Read the cluster's settings from the KubeVirt object, or KubeVirt's own defaults. Raises KubeError."""
    items, _version = client.list(f"{KUBEVIRT}/kubevirts")
    obj: Obj = items[0] if items else {"metadata": {}, "spec": {}}
    config = (obj.get("spec") or {}).get("configuration") or {}
    migrations = with_gates(config)
    now = status(obj)
    return Cluster(
        version=version(now.get("observedKubeVirtVersion", "")),
        default_strategy=config.get("evictionStrategy") or "None",
        cluster=int(migrations.get("parallelMigrationsPerCluster", 5)),
        outbound=int(migrations.get("parallelOutboundMigrationsPerNode", 2)),
        upgrading=now.get("observedDeploymentID") != now.get("targetDeploymentID"),
        migrations=migrations,
    )


def refused_by_all(client: Client, name: str, wanted: Mapping[str, Sequence[Obj]]) -> dict[str, str]:
    """Find which of `wanted` (key -> tolerations) no node except `name` takes, and why.

    Looks no further than to the nodes that take all of them.
    """
    query: dict[str, Any] = {"labelSelector": f"{SCHEDULABLE}=true", "limit": 20}
    left = dict(wanted)
    tainted: list[Obj] = []
    while left:
        page = client.request("GET", f"{CORE}/nodes", query=query)
        for node in page.get("items") or []:
            if node["metadata"]["name"] != name and is_open(node):
                taints = hard(node)
                left = {key: t for key, t in left.items() if untolerated(taints, t)}
                tainted.append(node)
        after = (page.get("metadata") or {}).get("continue")
        if not after:
            break
        query["continue"] = after
    return {key: _why(tainted, tolerations) for key, tolerations in left.items()}


def _why(tainted: Sequence[Obj], tolerations: Sequence[Obj]) -> str:
    if not tainted:
        return "No other node is Ready, schedulable and uncordoned."
    parts = []
    for node in tainted[:_NAMED]:
        taints = ", ".join(shown(taint) for taint in untolerated(hard(node), tolerations))
        parts.append(f"{node['metadata']['name']} has {taints}")
    more = f"; and {len(tainted) - _NAMED} more" if len(tainted) > _NAMED else ""
    return f"It does not tolerate the taints of any other node: {'; '.join(parts)}{more}."
