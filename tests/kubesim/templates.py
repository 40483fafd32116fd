"""Objects that tests put into a cluster, and the kubeconfig that leads to it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

Obj = dict[str, Any]
# An annotation of each VM that tests make, and of its instance, so that they remove no other.
MADE_HERE = "lab/made-by-tests"
# All of it is there on a real node, and typed clients refuse a node without.
NODE_INFO = {
    "architecture": "amd64",
    "containerRuntimeVersion": "containerd://2.1.0",
    "kernelVersion": "6.12.0",
    "kubeProxyVersion": "",
    "kubeletVersion": "v1.36.2",
    "machineID": "0",
    "operatingSystem": "linux",
    "osImage": "simulated",
    "systemUUID": "0",
}


def node(name: str, heartbeat: str, **labels: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubevirt.io/schedulable": "true", **labels},
            "annotations": {"kubevirt.io/heartbeat": heartbeat},
        },
        "spec": {},
        "status": {
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "250"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {**NODE_INFO, "bootID": f"boot-{name}-1"},
        },
    }


def vm(
    name: str,
    node: str,
    strategy: str | None = "LiveMigrate",
    run_strategy: str = "Always",
    namespace: str = "default",
    memory: str = "128Mi",
    labels: dict[str, str] | None = None,
    grace: int = 30,
    pool: str = "",
    image: str = "",
    within: Sequence[str] = (),
    **knobs: str,
) -> Obj:
    """A VirtualMachine that prefers `node` at its start; without `run_strategy` a bare instance.

    `knobs`: migrate_seconds="5" and so on. `pool`: it stays on nodes with this label. `image`: a
    container disk with a guest; without it nothing boots, which is as good for what only runs.
    `within`: the only nodes that it runs on; empty: all.
    """
    terms = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
    preference = {"weight": 100, "preference": {"matchExpressions": terms}}
    affinity: Obj = {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
    if within:
        allowed = [{**terms[0], "values": [*within]}]
        must = {"nodeSelectorTerms": [{"matchExpressions": allowed}]}
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = must
    spec: Obj = {
        # A pod network by a bridge, which KubeVirt attaches by itself, would not migrate.
        "domain": {"memory": {"guest": memory}, "devices": {"autoattachPodInterface": False}},
        "affinity": {"nodeAffinity": affinity},
        "terminationGracePeriodSeconds": grace,
    }
    if pool:
        spec["nodeSelector"] = {"pool": pool}
    if strategy is not None:
        spec["evictionStrategy"] = strategy
    if image:
        spec["volumes"] = [{"name": "disk", "containerDisk": {"image": image}}]
        spec["domain"]["devices"]["disks"] = [{"name": "disk", "disk": {"bus": "virtio"}}]
    notes = {f"lab/{key.replace('_', '-')}": value for key, value in knobs.items()}
    inner = {"annotations": notes, "labels": {"app": name, **(labels or {})}}
    notes[MADE_HERE] = "true"
    meta: Obj = {"name": name, "namespace": namespace}
    head = {"apiVersion": "kubevirt.io/v1"}
    if not run_strategy:
        spec.setdefault("evictionStrategy", "None")
        bare = {"metadata": {**inner, **meta}, "spec": spec, "status": {}}
        return {**head, "kind": "VirtualMachineInstance", **bare}
    template = {"metadata": inner, "spec": spec}
    meta["annotations"] = {MADE_HERE: "true"}
    whole = {"metadata": meta, "spec": {"runStrategy": run_strategy, "template": template}}
    return {**head, "kind": "VirtualMachine", **whole}


def theirs(name: str, *nodes: str) -> Obj:
    """A VM of others on these nodes: no test made it, and none takes it away."""
    made = vm(name, nodes[0], within=nodes)
    for part in (made, made["spec"]["template"]):
        part["metadata"]["annotations"].pop(MADE_HERE)
    return made


def replica_set(name: str, node: str, strategy: str = "None", replicas: int = 1, **knobs: str) -> Obj:
    """A VirtualMachineInstanceReplicaSet, whose instances prefer `node`."""
    made = vm(name, node, strategy, **knobs)["spec"]["template"]
    selector = {"matchLabels": {"app": name}}
    head = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceReplicaSet"}
    spec = {"replicas": replicas, "selector": selector, "template": made}
    return {**head, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def kubeconfig(url: str, token: str, ca: str = "") -> Obj:
    cluster: Obj = {"server": url}
    if ca:
        cluster["certificate-authority-data"] = base64.b64encode(ca.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "sim",
        "contexts": [{"name": "sim", "context": {"cluster": "sim", "user": "sim"}}],
        "clusters": [{"name": "sim", "cluster": cluster}],
        "users": [{"name": "sim", "user": {"token": token}}],
    }


def container(name: str = "c", **requests: str) -> Obj:
    found: Obj = {"name": name, "image": "none"}
    return {**found, "resources": {"requests": requests}} if requests else found


def daemon_set(name: str) -> Obj:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def claim(name: str, *modes: str) -> Obj:
    spec = {"accessModes": [*modes], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
