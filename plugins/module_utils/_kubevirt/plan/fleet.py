"""The fleet for the plan of a roll: nodes and VMs of a cluster in the plan's plain form.

Where a VM goes is the scheduler's to decide, so what it asks is put into the words of the core:
memory and CPU as pods request them, and for each VM the nodes that it would refuse (selector,
affinity, taints, CPU model, vendor, devices, zones of volumes). The plan then predicts. Not asked:
affinity to other pods, but for the rule that keeps VMs of one kind on different nodes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..._core.model.policy import Policy
from ..._core.preflight.facts import Budget
from ..._core.preflight.vm import number
from ..._core.reasons.reason import Reason
from ..api.client import Client
from ..api.cluster import read_cluster
from ..api.metrics import DirtyRates, Source
from ..objects import facts, names
from ..objects.affinity import pod_affinity
from ..objects.nodes import cordoned, not_ready, runs_vms, takes_vms
from ..objects.quantity import amount
from ..objects.quotas import budgets_of, pod_needs, quotas_left
from ..objects.tolerations import hard
from ..observe.control_node import ControlNode
from ..placement.targets import MIB, PodRequirements, Target, refusal, requirements_of
from ..preflight.read import ClusterObjects, read
from ..preflight.vm import Around, vm_of
from ..run.check_mode import limits, settings

Obj = dict[str, Any]

# What the plan counts from step to step, in its own units.
_COUNTED = {"memory": 1 / MIB, "cpu": 1000.0}
# Taints that say what the Node itself says: not Ready, cordoned.
_PASSING = "node.kubernetes.io/"


def read_fleet(
    auth: Mapping[str, Any], metrics: Source | None = None, labels: Sequence[str] = (), controller_uuid: str = ""
) -> dict[str, Any]:
    """Lists only. `metrics`: the source of dirty rates. `labels`: of the nodes, those that are wanted.
    `controller_uuid`: of the machine that Ansible runs on. Raises KubeError for what a plan cannot do without."""
    client = Client(dict(auth))
    try:
        cluster = read_cluster(client)
        found = read(client)
    finally:
        client.close()
    rates = DirtyRates(metrics)
    if found.vmis:
        rates.refresh(time.time())
    policy = Policy()
    allowed = limits(replace(policy, limits=replace(policy.limits, outbound=10**6)), cluster)
    how = settings(cluster)
    return {
        **fleet_of(found, cluster.default_strategy, rates, labels, ControlNode(client.server, controller_uuid).why),
        "limits": {"cluster": allowed.cluster, "outbound": allowed.outbound, "inbound": 10**6},
        "migration": {
            "bandwidth": how.bandwidth_mib,
            "auto_converge": how.auto_converge,
            "post_copy": how.post_copy,
            "completion_timeout_per_gib": how.completion_timeout_per_gib,
            "progress_timeout": how.progress_timeout,
            "on_timeout": how.on_timeout,
        },
        "unread": found.unread,
        "changed": False,
        **rates.result_fields,
    }


def fleet_of(
    found: ClusterObjects,
    default_strategy: str,
    rates: DirtyRates | None = None,
    labels: Sequence[str] = (),
    runs_us: Callable[[Obj], str] = lambda _vmi: "",
) -> dict[str, Any]:
    """Pure: the objects of one pass in the plan's plain form. `rates`: as they were told. `labels`: of nodes.
    `runs_us`: why a VM is taken for the machine that runs the maintenance, or empty."""
    rates = rates or DirtyRates()
    nodes = {node["metadata"]["name"]: node for node in found.nodes}
    pods = _launchers(found)
    others: dict[str, dict[str, float]] = {name: dict.fromkeys(_COUNTED, 0.0) for name in nodes}
    counted = {pod["metadata"]["uid"] for pod in pods.values()}
    spare = {name: _more(facts.status(node).get("allocatable") or {}) for name, node in nodes.items()}
    for pod in found.pods:
        where = (pod.get("spec") or {}).get("nodeName") or ""
        if where not in others or facts.final(pod):
            continue
        needs = pod_needs(pod)
        for what, value in _taken(needs).items():
            spare[where][what] = max(0, spare[where].get(what, 0) - value)
        for what in _COUNTED if pod["metadata"]["uid"] not in counted else ():
            others[where][what] += needs.get(what, 0.0)
    targets = [_target(node) for node in nodes.values()]
    refused: dict[str, dict[str, list[dict[str, str]]]] = {}
    rows = []
    for vmi in found.vmis:
        where = facts.status(vmi).get("nodeName") or ""
        if facts.final(vmi) or where not in nodes:
            continue
        pod = pods.get(vmi["metadata"]["uid"])
        asked = _but_counted(requirements_of(vmi, pod, nodes[where], found.volumes, found.migrations_by_uid))
        key = json.dumps([asked.labels, asked.affinity, asked.tolerations, asked.needs, asked.volumes])
        if key not in refused:
            refused[key] = _refused(targets, asked)
        row = _vm_row(vmi, pod, found, default_strategy, refused[key], rates)
        rows.append({**row, "control_node": runs_us(vmi)})
    return {
        "hosts": [
            {**_host_row(node, others[name], labels), "spare": spare[name]} for name, node in sorted(nodes.items())
        ],
        "vms": sorted(rows, key=lambda row: (row["host"], row["name"])),
        "budgets": _budgets(found, rows, pods),
        "quotas": _quotas(found, rows, pods),
    }


def _launchers(found: ClusterObjects) -> dict[str, Obj]:
    """UID of the VMI -> its launcher pod, on the node where it runs."""
    place = {vmi["metadata"]["uid"]: facts.status(vmi).get("nodeName") for vmi in found.vmis}
    pods = {}
    for pod in facts.live_launchers(found.pods):
        uid = facts.labels(pod).get(names.CREATED_BY, "")
        if place.get(uid) and (pod.get("spec") or {}).get("nodeName") == place[uid]:
            pods[uid] = pod
    return pods


# Nodes


def _up(what: str, value: float) -> int:
    """A request in the plan's unit, rounded up."""
    return int(value * _COUNTED[what] + 0.999)


def _host_row(node: Obj, others: Mapping[str, float], labels: Sequence[str]) -> dict[str, Any]:
    """`others`: what pods request which the plan does not move."""
    has_labels = facts.labels(node)
    message = not_ready(node)
    has = facts.status(node).get("allocatable") or {}
    by_others = cordoned(node) and names.CORDON not in facts.annotations(node)
    return {
        "name": node["metadata"]["name"],
        "memory_mib": int(amount(has.get("memory")) / MIB),
        "committed_mib": _up("memory", others["memory"]),
        "cpu_milli": round(amount(has["cpu"]) * 1000) if "cpu" in has else None,
        "committed_cpu_milli": _up("cpu", others["cpu"]),
        # One without a working virt-handler takes no VM either.
        "cordoned": by_others or not takes_vms(node),
        "runs_vms": runs_vms(node),
        "reachable": not message,
        "message": message,
        "labels": {key: has_labels[key] for key in labels if key in has_labels},
    }


def _target(node: Obj) -> Target:
    """The node as a target with all of its room free, since what is free changes from step to step."""
    taints = [taint for taint in hard(node) if not taint["key"].startswith(_PASSING)]
    has = facts.status(node).get("allocatable") or {}
    free = {what: amount(value) for what, value in has.items()}
    return Target(node["metadata"]["name"], facts.labels(node), taints, free)


def _taken(needs: Mapping[str, float]) -> dict[str, int]:
    """What a pod takes beside memory and CPU: huge pages, devices, and one of the pods that a node may have."""
    return _more({**needs, "pods": 1.0})


def _more(what: Mapping[str, Any]) -> dict[str, int]:
    """Huge pages in MiB, devices and pods as numbers. What there is of a disk is not counted."""
    left_out = (*_COUNTED, "ephemeral-storage")
    found = {key: amount(value) for key, value in what.items() if key not in left_out}
    return {key: round(value / MIB) if key.startswith("hugepages-") else round(value) for key, value in found.items()}


# VMs


def _vm_row(
    vmi: Obj,
    pod: Obj | None,
    found: ClusterObjects,
    default_strategy: str,
    refused: Mapping[str, Sequence[Mapping[str, str]]],
    rates: DirtyRates,
) -> dict[str, Any]:
    node = str(facts.status(vmi)["nodeName"])
    machine = found.vms.get(facts.key(vmi)) if facts.owner(vmi) is not None else None
    vm = vm_of(vmi, node, default_strategy, machine, rates.of(vmi))
    needs = pod_needs(pod)
    requested = _up("memory", needs.get("memory", 0.0))
    return {
        "name": vm.name,
        "uuid": vm.uuid,
        "host": node,
        "memory_mib": max(requested, vm.memory_mib if pod is None else 1),
        "cpu_milli": _up("cpu", needs.get("cpu", 0.0)),
        "takes": {} if pod is None else _taken(needs),
        "sent_mib": vm.memory_mib,
        "group": pod_affinity(vmi).group,
        "strategy": vm.declared_strategy or "",
        "migratable": vm.migratable,
        "reasons": [{"reason": f.reason.value, "message": f.message} for f in vm.findings],
        "refused_by": {name: list(why) for name, why in refused.items() if name != node},
        "persistent": vm.persistent,
        "document": dict(vm.document),
    }


def _but_counted(asked: PodRequirements) -> PodRequirements:
    """The requirements without memory and CPU, which are counted elsewhere, and without KubeVirt's own label: what is
    left a node has or has not."""
    needs = {what: value for what, value in asked.needs.items() if what not in _COUNTED}
    labels = {key: value for key, value in asked.labels.items() if key != names.SCHEDULABLE}
    return replace(asked, needs=needs, labels=labels)


def _refused(targets: Iterable[Target], wanted: PodRequirements) -> dict[str, list[dict[str, str]]]:
    """Node -> why it never takes the VM."""
    found = {}
    for target in targets:
        why = refusal(target, wanted)
        if why is not None:
            cpu = why[0] in (Reason.CPUModelNotLiveMigratable, Reason.NoTargetForCPUVendor)
            reason = Reason.CPUModelNotLiveMigratable if cpu else Reason.NoTargetWithCapacity
            found[target.name] = [{"reason": reason.value, "message": f"{target.name}: {why[1]}."}]
    return found


def _budgets(found: ClusterObjects, rows: Sequence[Mapping[str, Any]], pods: Mapping[str, Obj]) -> list[dict[str, Any]]:
    """Disruption budgets of VMs that are stopped by an eviction, if they are stopped.

    A migration disturbs no budget; and where KubeVirt would answer an eviction with a migration, a
    drain that stops the VM deletes its instance.
    """
    covered: dict[str, dict[str, Any]] = {}
    for vm in rows:
        pod = pods.get(vm["document"]["uuid"])
        if pod is None or not _evictable(vm):
            continue
        space = pod["metadata"]["namespace"]
        for row in _budget_rows(space, budgets_of(found.budgets.get(space, ()), pod)):
            covered.setdefault(row["name"], row)["vms"].append(vm["uuid"])
    return [covered[name] for name in sorted(covered)]


def _evictable(vm: Mapping[str, Any]) -> bool:
    stuck = vm["strategy"] == "LiveMigrateIfPossible" and vm["migratable"] is not True
    return bool(vm["strategy"] == "None" or stuck)


def _budget_rows(space: str, budgets: Sequence[Budget]) -> list[dict[str, Any]]:
    row: dict[str, Any] = {"vms": [], "at_once": 1, "stops_only": True, "never": "", "left": None}
    if len(budgets) > 1:
        name = " and ".join(sorted(f"{space}/{budget.name}" for budget in budgets))
        text = "the API evicts no pod that more than one budget selects"
        return [{**row, "vms": [], "name": name, "never": text}]
    return [
        {
            **row,
            "vms": [],
            "name": f"{space}/{budget.name}",
            "at_once": max(1, budget.left or 0),
            "never": budget.never,
            "left": budget.left,
        }
        for budget in budgets
    ]


def _quotas(found: ClusterObjects, rows: Sequence[Mapping[str, Any]], pods: Mapping[str, Obj]) -> list[dict[str, Any]]:
    """Quotas that leave too little for one more pod of a VM, which a migration needs."""
    full: dict[tuple[str, str], dict[str, Any]] = {}
    used = Around(found, {}, (), None)
    for vm in rows:
        pod = pods.get(vm["document"]["uuid"])
        space = vm["document"]["namespace"]
        if pod is None or space not in found.quotas:
            continue
        for quota in quotas_left(found.quotas[space], pod, lambda what, space=space: used.taken(space, what)):
            if quota.left < quota.required:
                why = f"leaves {number(quota.left)} of {quota.resource}, and a target pod needs "
                row = {"name": f"{space}/{quota.quota}", "why": why + number(quota.required), "vms": []}
                full.setdefault((row["name"], quota.resource), row)["vms"].append(vm["uuid"])
    return [full[key] for key in sorted(full)]


__all__ = ["fleet_of", "read_fleet"]
