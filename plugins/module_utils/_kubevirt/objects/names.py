"""Paths of the API, and the labels and annotations of KubeVirt and of ours."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

CORE = "/api/v1"
KUBEVIRT = "/apis/kubevirt.io/v1"
SUBRESOURCES = "/apis/subresources.kubevirt.io/v1"
LEASES = "/apis/coordination.k8s.io/v1"

# The Lease of a node is named so, and then as the node.
LEASE = "virtops-maintenance-"
# The one Lease of all rolls, and ours on it: their record.
ROLL_LEASE = "virtops-roll"
ROLL = "virtops.maintenance/roll"
ROLL_TAINT = "virtops.maintenance/roll"

# KubeVirt's
HOSTNAME = "kubernetes.io/hostname"
NODE_NAME = "kubevirt.io/nodeName"
VMI_NAME = "kubevirt.io/vmi-name"
CREATED_BY = "kubevirt.io/created-by"
DOMAIN = "kubevirt.io/domain"
JOB_UID = "kubevirt.io/migrationJobUID"
EVACUATION = "kubevirt.io/evacuationMigration"
UPDATE = "kubevirt.io/workloadUpdateMigration"
# On a migration: for how long KubeVirt waits for a node that takes the target pod.
UNSCHEDULABLE = "kubevirt.io/migrationUnschedulablePodTimeoutSeconds"
SCHEDULABLE = "kubevirt.io/schedulable"
EVICTION_SOURCE = "kubevirt.io/eviction-source"
HOST_MODEL = "cpu-model-migration.node.kubevirt.io/"

# Ours, on the Node
RECORD = "virtops.maintenance/record"
INSTANCES = "virtops.maintenance/vms"
CORDON = "virtops.maintenance/cordon"
RECOVERY = "virtops.maintenance/recovery"
NUDGE = "virtops.maintenance/nudge"
PODS = "virtops.maintenance/pods"
# Ours, on the Lease of a node: the Node's UID, and the runs that worked on it since it was restored
RUNS = "virtops.maintenance/runs"
# Ours, on VMIs and migrations: who asked, when, why, for which node
REQUEST = "virtops.maintenance/request"
# Ours, a label on VMIs: one selector finds all that a run moved, wherever they are
FROM_NODE = "virtops.maintenance/from-node"


def label(text: str) -> str:
    """The text as a label's value, which has at most 63 characters: a longer one is replaced by a hash of it."""
    return text if len(text) <= 63 else hashlib.sha256(text.encode()).hexdigest()[:40]


def one(name: str) -> str:
    """The name as one part of a path. The client refuses what had to be quoted, since no name has that."""
    return quote(name, safe="")


def no_node(name: str, known: Iterable[Mapping[str, Any]]) -> str:
    """The error that no Node has this name, with a similar one. `known`: the Nodes of the cluster."""
    others = {one["metadata"]["name"].lower(): one["metadata"]["name"] for one in known}
    near = difflib.get_close_matches(name.lower(), others, 1)
    meant = f" Did you mean {others[near[0]]}?" if near else ""
    return (
        f"There is no node {name} in this cluster.{meant} A host has the name of its Node in the inventory; if "
        "that name differs, set drain_node, restore_node and preflight_node."
    )


def node(name: str) -> str:
    return f"{CORE}/nodes/{one(name)}"


def leases(namespace: str) -> str:
    return f"{LEASES}/namespaces/{one(namespace)}/leases"


def pod(namespace: str, name: str) -> str:
    return f"{CORE}/namespaces/{one(namespace)}/pods/{one(name)}"


def daemonset(namespace: str, name: str) -> str:
    return f"/apis/apps/v1/namespaces/{one(namespace)}/daemonsets/{one(name)}"


def budgets(namespace: str) -> str:
    return f"/apis/policy/v1/namespaces/{one(namespace)}/poddisruptionbudgets"


def quotas(namespace: str) -> str:
    return f"{CORE}/namespaces/{one(namespace)}/resourcequotas"


def kubevirt(namespace: str, plural: str, name: str = "") -> str:
    return f"{KUBEVIRT}/namespaces/{one(namespace)}/{plural}" + (f"/{one(name)}" if name else "")


def subresource(namespace: str, plural: str, name: str, sub: str) -> str:
    return f"{SUBRESOURCES}/namespaces/{one(namespace)}/{plural}/{one(name)}/{sub}"
