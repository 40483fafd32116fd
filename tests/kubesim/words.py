"""What objects say: small readers that everybody here needs."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]
FINAL = ("Succeeded", "Failed")
# A migration in one of these does not count for the limits, unless it has a target pod.
NOT_RUNNING = ("", "Pending", "WaitingForSync", "Synchronizing", *FINAL)
EVACUATION = "kubevirt.io/evacuationMigration"
UPDATE = "kubevirt.io/workloadUpdateMigration"
VMI_NAME = "kubevirt.io/vmi-name"
CREATED_BY = "kubevirt.io/created-by"
JOB_UID = "kubevirt.io/migrationJobUID"
NODE_NAME = "kubevirt.io/nodeName"
TARGET_NODE = "kubevirt.io/migrationTargetNodeName"
FINALIZER = "kubevirt.io/migrationJobFinalize"


def phase(obj: Obj) -> str:
    return str(obj.get("status", {}).get("phase", ""))


def final(obj: Obj) -> bool:
    return phase(obj) in FINAL


def annotations(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def labels(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def condition(obj: Obj, kind: str) -> Obj | None:
    for found in obj.get("status", {}).get("conditions") or []:
        if found["type"] == kind:
            return dict(found)
    return None


def is_true(obj: Obj, kind: str) -> bool:
    found = condition(obj, kind)
    return found is not None and found["status"] == "True"


def set_condition(obj: Obj, kind: str, value: str | None, **more: Any) -> None:
    """`value` None: without it."""
    status = obj.setdefault("status", {})
    rest = [c for c in status.get("conditions") or [] if c["type"] != kind]
    if value is not None:
        rest.append({"lastProbeTime": None, "status": value, "type": kind, **more})
    status["conditions"] = rest


def live_pod(pod: Obj) -> bool:
    return not final(pod)


def is_launcher(pod: Obj) -> bool:
    return labels(pod).get("kubevirt.io") == "virt-launcher"


def completed(pod: Obj) -> None:
    """Its containers have ended."""
    pod["status"]["phase"] = "Succeeded"
    set_condition(pod, "Ready", "False", reason="PodCompleted")


def failed(pod: Obj) -> None:
    """Its containers ended with their node."""
    pod["status"]["phase"] = "Failed"


def enter(obj: Obj, new: str, stamp: str) -> None:
    """A new phase, with its time."""
    status = obj.setdefault("status", {})
    status["phase"] = new
    status.setdefault("phaseTransitionTimestamps", []).append({"phase": new, "phaseTransitionTimestamp": stamp})


def ran(obj: Obj) -> bool:
    """Was it ever Running?"""
    past = obj.get("status", {}).get("phaseTransitionTimestamps") or []
    return any(found["phase"] == "Running" for found in past)


def knob(name: str, default: str, *objs: Obj) -> str:
    """A knob of the node agents: the first of the objects that has it decides."""
    for obj in objs:
        found = annotations(obj).get(f"lab/{name}")
        if found is not None:
            return found
    return default


def leftovers(vmis: list[Obj], migrations: list[Obj], nodes: list[Obj]) -> list[str]:
    """Marks, migrations that have not ended, and taints of a roll."""
    found = [f"mark on {v['metadata']['name']}" for v in vmis if v.get("status", {}).get("evacuationNodeName")]
    found += [f"{m['metadata']['name']} is {phase(m)}" for m in migrations if not final(m)]
    for node in nodes:
        ours = [t["key"] for t in node["spec"].get("taints") or [] if t["key"].startswith("virtops.")]
        found += [f"taint {key} on {node['metadata']['name']}" for key in ours]
    return found
