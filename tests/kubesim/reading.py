"""What a test asks of a result and of a cluster afterwards."""

from __future__ import annotations

from typing import Any

from . import templates, words
from .cluster import Kubesim
from .kinds import CONFIG_MAPS, DAEMON_SETS, NODES, PODS, VMIS

DISKS = {"not_migratable_reason": "DisksNotLiveMigratable", "not_migratable_message": "PVC x is not shared"}


def row(result: dict[str, Any], name: str) -> dict[str, Any]:
    return next(vm for vm in result["vms"] if vm["name"] == f"default/{name}")


def evictions(sim: Kubesim) -> list[str]:
    """Names of the VMs whose pods were asked to go."""
    found = [c.path.split("/")[-2] for c in sim.requests("POST", "/eviction")]
    return sorted(pod.removeprefix("virt-launcher-").rsplit("-", 1)[0] for pod in found)


def launcher(sim: Kubesim, name: str = "vm") -> dict[str, Any]:
    """The pod in which the VM runs: a given cluster has pods of others beside it."""
    return next(p for p in sim.all(PODS) if words.labels(p).get("vm.kubevirt.io/name") == name)


def pod_row(result: dict[str, Any], name: str) -> dict[str, Any]:
    return next(pod for pod in result["pods"] if pod["name"] == f"default/{name}")


def add_pod(
    sim: Kubesim,
    name: str,
    node: str,
    owner: str = "Controller/web",
    labels: dict[str, str] | None = None,
    notes: dict[str, str] | None = None,
    empty_dir: bool = False,
    phase: str = "Running",
    **more: Any,
) -> None:
    """A pod that is no VM's. `owner`: see `_owner`, empty for none. `notes`: annotations. `more`:
    of its spec."""
    meta: dict[str, Any] = {"name": name, "namespace": "default", "labels": labels or {}}
    meta["annotations"] = notes or {}
    if owner:
        meta["ownerReferences"] = [_owner(sim, *owner.split("/"))]
    volumes = [{"name": "scratch", "emptyDir": {}}] if empty_dir else []
    spec = {"nodeName": node, "volumes": volumes, "containers": [templates.container("app")], **more}
    ready = [{"type": "Ready", "status": "True"}]
    sim.add("pods", {"metadata": meta, "spec": spec, "status": {"phase": phase, "conditions": ready}})


def _owner(sim: Kubesim, kind: str, name: str) -> dict[str, Any]:
    """DaemonSet/NAME: as it is there; where it is not, the garbage collector must not see it.
    Controller/NAME: a ConfigMap stands for it, which is there and whose controller does nothing."""
    if kind == "DaemonSet":
        found = sim.find(DAEMON_SETS, name)
        if found is None:
            sim.call(lambda: sim.world.paused.add("garbage"))
            found = {**DAEMON_SETS.head, "metadata": {"name": name, "uid": "gone"}}
    else:
        data = {"metadata": {"name": name, "namespace": "default"}}
        found = sim.find(CONFIG_MAPS, name) or sim.add("configmaps", data)
    meta = found["metadata"]
    head = {key: found[key] for key in ("apiVersion", "kind")}
    return {**head, "name": name, "uid": meta["uid"], "controller": True}


def add_budget(sim: Kubesim, name: str, least: Any, **labels: str) -> None:
    """A PodDisruptionBudget. `least`: minAvailable; None: one that cannot be computed."""
    spec: dict[str, Any] = {"selector": {"matchLabels": labels}}
    state: dict[str, Any] = {}
    if least is None:
        spec["maxUnavailable"] = 1
        text = "virtualmachineinstances.kubevirt.io does not implement the scale subresource"
        told = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed"}
        state["conditions"] = [{**told, "message": text}]
    else:
        spec["minAvailable"] = least
    meta = {"name": name, "namespace": "default"}
    sim.add("poddisruptionbudgets", {"metadata": meta, "spec": spec, "status": state})


def full_quota(sim: Kubesim) -> int:
    """A quota of pods, `tight`, that is used up. How many: on a given cluster others have some there."""
    pods = sum(pod["metadata"]["namespace"] == "default" for pod in sim.all(PODS))
    meta = {"name": "tight", "namespace": "default"}
    sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": {"pods": str(pods)}}})
    return pods


def take_slots(sim: Kubesim) -> None:
    """From now on a migration waits for its slot."""
    sim.call(lambda: sim.world.paused.add("slots"))


def free_slots(sim: Kubesim) -> None:
    sim.call(lambda: sim.world.paused.discard("slots"))


def clean(sim: Kubesim) -> bool:
    """No mark, no migration, no cordon, no label and no annotation of ours."""
    node = sim.find(NODES, "n1")
    notes = [n for n in node["metadata"].get("annotations", {}) if n.startswith("virtops.")]
    labels = [v for v in sim.all(VMIS) if "virtops.maintenance/from-node" in words.labels(v)]
    return not (sim.leftovers() or notes or labels or node["spec"].get("unschedulable"))
