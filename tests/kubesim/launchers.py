"""Launcher pods: made for a VMI, or as the target of a migration."""

from __future__ import annotations

from . import budgets, words
from .answers import ApiError, status
from .kinds import PODS, QUOTAS
from .scheduler import quantity
from .store import Obj, random_name
from .world import World


def launcher(world: World, vmi: Obj, migration: Obj | None = None) -> Obj:
    """Create the pod. Raises ApiError 403 when a quota forbids it, or the namespace's PodSecurity or LimitRange."""
    meta = vmi["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    labels = {
        **words.labels(vmi),
        "kubevirt.io": "virt-launcher",
        words.CREATED_BY: meta["uid"],
        "vm.kubevirt.io/name": name,
    }
    for gone in (words.TARGET_NODE, words.NODE_NAME):
        labels.pop(gone, None)
    notes = {
        **words.annotations(vmi),
        "kubevirt.io/domain": name,
        "kubectl.kubernetes.io/default-container": "compute",
        "descheduler.alpha.kubernetes.io/request-evict-only": "",
    }
    selector = {**(vmi["spec"].get("nodeSelector") or {}), "kubevirt.io/schedulable": "true"}
    affinity = dict(vmi["spec"].get("affinity") or {})
    if migration is not None:
        labels[words.JOB_UID] = migration["metadata"]["uid"]
        labels[words.NODE_NAME] = vmi["status"].get("nodeName", "")
        notes["kubevirt.io/migrationJobName"] = migration["metadata"]["name"]
        selector = {**(migration["spec"].get("addedNodeSelector") or {}), **selector}
        rule = {
            "labelSelector": {"matchLabels": {words.CREATED_BY: meta["uid"]}},
            "topologyKey": "kubernetes.io/hostname",
        }
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
    grace = vmi["spec"].get("terminationGracePeriodSeconds", 30) + 30
    pod: Obj = {
        "metadata": {
            "generateName": f"virt-launcher-{name}-",
            "namespace": namespace,
            "labels": labels,
            "annotations": notes,
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "kind": "VirtualMachineInstance",
                    "name": name,
                    "uid": meta["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "volumes": [{"name": "private", "emptyDir": {}}, *_volumes(vmi)],
            "containers": [{"name": "compute", "image": "virt-launcher", "resources": _wants(vmi)}],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace,
            "nodeSelector": selector,
            "tolerations": list(vmi["spec"].get("tolerations") or []),
            "affinity": affinity,
        },
        "status": {"phase": "Pending"},
    }
    words_of_refusal = world.pods_refused.get(namespace)
    if words_of_refusal:
        text = f'pods "virt-launcher-{name}-{random_name(5)}" is forbidden: {words_of_refusal}'
        raise status(403, text, "Forbidden")
    _within_quota(world, pod)
    return world.store.create(PODS, pod)


def _volumes(vmi: Obj) -> list[Obj]:
    """The claims of its disks; that of a DataVolume has its name."""
    found = []
    for volume in vmi["spec"].get("volumes") or []:
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        claim = claim or (volume.get("dataVolume") or {}).get("name")
        if claim:
            found.append({"name": volume["name"], "persistentVolumeClaim": {"claimName": claim}})
    return found


def _wants(vmi: Obj) -> Obj:
    """The guest's memory; a real launcher asks for some more, for itself."""
    domain = vmi["spec"].get("domain") or {}
    memory = (domain.get("memory") or {}).get("guest")
    asked = dict((domain.get("resources") or {}).get("requests") or {})
    if memory:
        asked.setdefault("memory", memory)
    return {"requests": asked} if asked else {}


def _within_quota(world: World, pod: Obj) -> None:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["generateName"]
    for quota in world.store.all(QUOTAS, namespace):
        for resource, hard in (quota["spec"].get("hard") or {}).items():
            asked = budgets.needs(pod, resource)
            taken = budgets.used(world.store, namespace, resource)
            if asked and taken + asked > quantity(hard):
                text = (
                    f'pods "{name}" is forbidden: exceeded quota: {quota["metadata"]["name"]}, '
                    f"requested: {resource}={budgets.shown(asked)}, "
                    f"used: {resource}={budgets.shown(taken)}, limited: {resource}={hard}"
                )
                raise status(403, text, "Forbidden")


def text_of(exc: ApiError) -> str:
    return exc.body["message"] if isinstance(exc.body, dict) else str(exc.body)
