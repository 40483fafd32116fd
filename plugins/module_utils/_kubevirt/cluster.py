# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said about the whole cluster: KubeVirt's own object, and whether a target exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .client import Client
from .facts import is_true, labels, status, version
from .names import CORE, KUBEVIRT, SCHEDULABLE

Obj = dict[str, Any]


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


def can_cancel(cluster: Cluster | None) -> bool:
    """evacuate/cancel exists since KubeVirt 1.7.0. What is not known is tried."""
    return cluster is None or cluster.version >= (1, 7) or cluster.version == (0, 0)


def read_cluster(client: Client) -> Cluster:
    """From the KubeVirt object; KubeVirt's own defaults where it is silent. Raises KubeError."""
    items, _version = client.list(f"{KUBEVIRT}/kubevirts")
    obj: Obj = items[0] if items else {"metadata": {}, "spec": {}}
    config = (obj.get("spec") or {}).get("configuration") or {}
    migrations = config.get("migrations") or {}
    now = status(obj)
    return Cluster(
        version=version(now.get("observedKubeVirtVersion", "")),
        default_strategy=config.get("evictionStrategy") or "None",
        cluster=int(migrations.get("parallelMigrationsPerCluster", 5)),
        outbound=int(migrations.get("parallelOutboundMigrationsPerNode", 2)),
        upgrading=now.get("observedDeploymentID") != now.get("targetDeploymentID"),
        migrations=migrations,
    )


def takes_vms(node: Obj) -> bool:
    """May the scheduler put a VM there, as far as the node itself says?"""
    spec = node.get("spec") or {}
    taints = [t for t in spec.get("taints") or [] if t.get("effect") != "PreferNoSchedule"]
    return (
        not spec.get("unschedulable")
        and not taints
        and labels(node).get(SCHEDULABLE) == "true"
        and is_true(node, "Ready")
    )


def another_node(client: Client, name: str) -> bool:
    """Is there a node other than `name` that takes VMs? Looks no further than the first."""
    query: dict[str, Any] = {"labelSelector": f"{SCHEDULABLE}=true", "limit": 20}
    while True:
        page = client.request("GET", f"{CORE}/nodes", query=query)
        for node in page.get("items") or []:
            if node["metadata"]["name"] != name and takes_vms(node):
                return True
        after = (page.get("metadata") or {}).get("continue")
        if not after:
            return False
        query["continue"] = after
