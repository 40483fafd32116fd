"""Other pods of the node: which of them have to go, and in which order. Pure.

The filters and their order are those of kubectl drain, with Cluster API's label on single pods. Ours
comes on top: what the VMs and the API need goes last, and what moves the VMs never.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Optional

from ..._core.reasons.reason import Finding, Reason
from ..objects import facts

Obj = dict[str, Any]
MIRROR = "kubernetes.io/config.mirror"
# Of Cluster API: whoever owns a pod says with it that a drain leaves it, or waits until it has completed.
DRAIN_LABEL = "cluster.x-k8s.io/drain"
# virt-handler moves the VMs and tells how they are; its DaemonSet looks after it.
_NEVER = frozenset({"virt-handler"})
# Launchers are the VMs' business; attachment pods go with their launcher.
LAUNCHER, HOTPLUG = "virt-launcher", "hotplug-disk"
_CONTROL_PLANE = frozenset({"virt-api", "virt-controller", "virt-operator", "virt-exportproxy"})
_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})
# Parts of names by which webhooks, storage and network are known where nothing better tells.
_INFRASTRUCTURE = frozenset({"webhook", "csi", "cni", "cdi", "dns", "coredns"})


@dataclass(frozen=True)
class PodOptions:
    """kubectl drain's flags. `grace_period` -1: each pod's own. Times in seconds."""

    selector: str = ""
    ignore_daemonsets: bool = True
    delete_emptydir_data: bool = False
    force: bool = False
    grace_period: int = -1
    disable_eviction: bool = False
    skip_wait_for_delete_timeout: int = 0


class PodDecision(str, Enum):
    """The decision about a pod of the node."""

    GO = "go"
    WAIT = "wait"  # it goes by itself
    STAY = "stay"
    REFUSED = "refused"


class Stage(IntEnum):
    """VMs went before. A stage begins when the one before it is empty."""

    ORDINARY = 1
    LAST = 2  # only while another replica is Ready elsewhere


@dataclass(frozen=True)
class JudgedPod:
    """One pod: its fate, why, and when it goes."""

    pod: Obj
    decision: PodDecision
    why: str = ""
    finding: Finding | None = None
    stage: Stage = Stage.ORDINARY

    @property
    def name(self) -> str:
        """Namespace and name."""
        return "/".join(facts.key(self.pod))


@dataclass(frozen=True)
class Asked:
    """The facts that the filters know beside the pod. `orphan`: is a pod's DaemonSet gone? `selected`: UIDs that the
    selector matches, None: all. `now`: seconds since the epoch."""

    options: PodOptions
    orphan: Callable[[Obj], bool]
    now: float
    selected: Collection[str] | None = None


def judge(pod: Obj, asked: Asked) -> JudgedPod:
    """The first filter that has an answer decides. A pod that has ended can be removed, whatever it had."""
    filters = FILTERS_OF_ENDED if facts.final(pod) else FILTERS
    answers = (answer for one in filters if (answer := one(pod, asked)) is not None)
    return next(answers, JudgedPod(pod, PodDecision.GO, stage=_stage(pod)))


def pod_of_vm(pod: Obj, _asked: Asked) -> JudgedPod | None:
    return _stays(pod, "it belongs to a VM") if _kind(pod) in (LAUNCHER, HOTPLUG) else None


def mover_of_vms(pod: Obj, _asked: Asked) -> JudgedPod | None:
    return _stays(pod, f"{_kind(pod)} is never evicted") if _kind(pod) in _NEVER else None


def not_selected(pod: Obj, asked: Asked) -> JudgedPod | None:
    matches = asked.selected is None or pod["metadata"]["uid"] in asked.selected
    return None if matches else _stays(pod, "the selector does not match it")


def skipped_by_label(pod: Obj, _asked: Asked) -> JudgedPod | None:
    return _stays(pod, f"its label {DRAIN_LABEL} says skip") if _drain_label(pod) == "skip" else None


def terminating_for_long(pod: Obj, asked: Asked) -> JudgedPod | None:
    stamp, limit = pod["metadata"].get("deletionTimestamp"), asked.options.skip_wait_for_delete_timeout
    is_long = bool(stamp) and 0 < limit < asked.now - facts.seconds(stamp)
    return _stays(pod, "it has been terminating for long and is not waited for") if is_long else None


def pod_of_daemonset(pod: Obj, asked: Asked) -> JudgedPod | None:
    owner, options = controller(pod), asked.options
    if owner is None or owner.get("kind") != "DaemonSet":
        return None
    if asked.orphan(pod):
        text = f"its DaemonSet {owner.get('name')} is gone"
        return None if options.force else _refused(pod, Reason.PodOfDaemonSet, text)
    if not options.ignore_daemonsets:
        return _refused(pod, Reason.PodOfDaemonSet, f"it is managed by DaemonSet {owner.get('name')}")
    return _stays(pod, "its DaemonSet would bring it back")


def static_pod(pod: Obj, _asked: Asked) -> JudgedPod | None:
    return _stays(pod, "it is a static pod of the kubelet") if MIRROR in facts.annotations(pod) else None


def awaited_by_label(pod: Obj, _asked: Asked) -> JudgedPod | None:
    """Evicted, a pod of a Job would begin its work anew elsewhere."""
    if _drain_label(pod) != "waitcompleted":
        return None
    why = "it has not completed"
    return JudgedPod(pod, PodDecision.WAIT, why, _finding(pod, Reason.PodNotCompleted, why))


def local_data(pod: Obj, asked: Asked) -> JudgedPod | None:
    volumes = [v["name"] for v in _spec(pod).get("volumes") or [] if "emptyDir" in v]
    if not volumes or asked.options.delete_emptydir_data:
        return None
    return _refused(pod, Reason.PodHasLocalData, f"emptyDir {', '.join(volumes)}")


def without_controller(pod: Obj, asked: Asked) -> JudgedPod | None:
    if controller(pod) is not None or asked.options.force:
        return None
    return _refused(pod, Reason.PodNotManaged, "it has no controller")


Filter = Callable[[Obj, Asked], Optional[JudgedPod]]
FILTERS: tuple[Filter, ...] = (
    pod_of_vm,
    mover_of_vms,
    not_selected,
    skipped_by_label,
    terminating_for_long,
    pod_of_daemonset,
    static_pod,
    awaited_by_label,
    local_data,
    without_controller,
)
_ONLY_RUNNING = frozenset({pod_of_daemonset, awaited_by_label, local_data, without_controller})
FILTERS_OF_ENDED = tuple(one for one in FILTERS if one not in _ONLY_RUNNING)


def _kind(pod: Obj) -> str:
    return str(facts.labels(pod).get("kubevirt.io", ""))


def _drain_label(pod: Obj) -> str:
    """Cluster API reads it so: skip, and wait-completed as well as WaitCompleted."""
    return str(facts.labels(pod).get(DRAIN_LABEL, "")).replace("-", "", 1).lower()


def _stays(pod: Obj, why: str) -> JudgedPod:
    return JudgedPod(pod, PodDecision.STAY, why)


def _refused(pod: Obj, reason: Reason, text: str) -> JudgedPod:
    return JudgedPod(pod, PodDecision.REFUSED, text, _finding(pod, reason, text))


def _finding(pod: Obj, reason: Reason, text: str) -> Finding:
    return Finding(reason, f"Pod {'/'.join(facts.key(pod))}: {text}.")


def _spec(pod: Obj) -> Obj:
    found: Obj = pod.get("spec") or {}
    return found


def controller(pod: Obj) -> Obj | None:
    """The owner reference to its controller."""
    for found in pod["metadata"].get("ownerReferences") or []:
        if found.get("controller"):
            return dict(found)
    return None


def _stage(pod: Obj) -> Stage:
    if facts.final(pod):
        return Stage.ORDINARY
    spec = _spec(pod)
    containers = [c.get("name", "") for c in spec.get("containers") or []]
    texts = [(controller(pod) or {}).get("name", ""), *containers]
    words = {word for text in texts for word in re.split(r"[-.]", text)}
    infrastructure = (
        _kind(pod) in _CONTROL_PLANE or spec.get("priorityClassName") in _CRITICAL or bool(words & _INFRASTRUCTURE)
    )
    return Stage.LAST if infrastructure else Stage.ORDINARY


def replica_elsewhere(pod: Obj, others: Collection[Obj]) -> bool:
    """Is another pod of its controller Ready on another node, and not about to end?"""
    owner = controller(pod)
    if owner is None:
        return False
    node = _spec(pod).get("nodeName")
    for other in others:
        theirs = controller(other) or {}
        if theirs.get("uid") != owner.get("uid") or _spec(other).get("nodeName") == node:
            continue
        if facts.is_true(other, "Ready") and not other["metadata"].get("deletionTimestamp"):
            return True
    return False


def finished_launchers(pods: Collection[Obj]) -> list[Obj]:
    """Launcher pods that have ended."""
    return [pod for pod in pods if _kind(pod) == LAUNCHER and facts.final(pod)]


def attachments_left(pods: Collection[Obj]) -> list[Obj]:
    """Attachment pods whose launcher is not alive on the node: eviction is then allowed."""
    alive = {p["metadata"]["uid"] for p in facts.live_launchers(list(pods))}
    return [
        pod
        for pod in pods
        if facts.labels(pod).get("kubevirt.io") == HOTPLUG and (controller(pod) or {}).get("uid") not in alive
    ]


__all__ = [
    "FILTERS",
    "Asked",
    "JudgedPod",
    "PodDecision",
    "PodOptions",
    "Stage",
    "attachments_left",
    "controller",
    "finished_launchers",
    "judge",
    "replica_elsewhere",
]
