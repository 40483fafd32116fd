"""Other pods of the node: which of them have to go, and in which order. Pure.

The filters and their order are those of kubectl drain. Ours comes on top: what the VMs and the
API need goes last, and what moves the VMs never.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

from ..._core.reasons.reason import Finding, Reason
from ..objects import facts

Obj = dict[str, Any]
MIRROR = "kubernetes.io/config.mirror"
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
    """What shall become of a pod."""

    GO = "go"
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


def judge(
    pod: Obj, options: PodOptions, orphan: Callable[[Obj], bool], now: float, selected: Collection[str] | None = None
) -> JudgedPod:
    """`orphan`: is a pod's DaemonSet gone? `selected`: UIDs that the selector matches, None: all.

    `now`: seconds since the epoch.
    """
    kind = facts.labels(pod).get("kubevirt.io", "")
    if kind in (LAUNCHER, HOTPLUG):
        return JudgedPod(pod, PodDecision.STAY, "it belongs to a VM")
    if kind in _NEVER:
        return JudgedPod(pod, PodDecision.STAY, f"{kind} is never evicted")
    if selected is not None and pod["metadata"]["uid"] not in selected:
        return JudgedPod(pod, PodDecision.STAY, "the selector does not match it")
    if _deleted_long_ago(pod, options, now):
        return JudgedPod(pod, PodDecision.STAY, "it has been terminating for long and is not waited for")
    ended = facts.final(pod)
    owner = controller(pod)
    if owner is not None and owner.get("kind") == "DaemonSet" and not ended:
        found = _of_daemonset(pod, owner, options, orphan)
        if found is not None:
            return found
    if MIRROR in facts.annotations(pod):
        return JudgedPod(pod, PodDecision.STAY, "it is a static pod of the kubelet")
    if not ended and not options.delete_emptydir_data:
        volumes = [v["name"] for v in _spec(pod).get("volumes") or [] if "emptyDir" in v]
        if volumes:
            text = f"emptyDir {', '.join(volumes)}"
            return _refused(pod, Reason.PodHasLocalData, text)
    if owner is None and not ended and not options.force:
        return _refused(pod, Reason.PodNotManaged, "it has no controller")
    return JudgedPod(pod, PodDecision.GO, stage=_stage(pod, kind, ended))


def _spec(pod: Obj) -> Obj:
    found: Obj = pod.get("spec") or {}
    return found


def controller(pod: Obj) -> Obj | None:
    """The owner reference to its controller."""
    for found in pod["metadata"].get("ownerReferences") or []:
        if found.get("controller"):
            return dict(found)
    return None


def _refused(pod: Obj, reason: Reason, text: str) -> JudgedPod:
    reported = f"Pod {'/'.join(facts.key(pod))}: {text}."
    return JudgedPod(pod, PodDecision.REFUSED, text, Finding(reason, reported))


def _deleted_long_ago(pod: Obj, options: PodOptions, now: float) -> bool:
    stamp, limit = pod["metadata"].get("deletionTimestamp"), options.skip_wait_for_delete_timeout
    return bool(stamp) and limit > 0 and now - facts.seconds(stamp) > limit


def _of_daemonset(pod: Obj, owner: Obj, options: PodOptions, orphan: Callable[[Obj], bool]) -> JudgedPod | None:
    """None: the next filter decides."""
    if orphan(pod):
        if options.force:
            return None
        text = f"its DaemonSet {owner.get('name')} is gone"
        return _refused(pod, Reason.PodOfDaemonSet, text)
    if not options.ignore_daemonsets:
        text = f"it is managed by DaemonSet {owner.get('name')}"
        return _refused(pod, Reason.PodOfDaemonSet, text)
    return JudgedPod(pod, PodDecision.STAY, "its DaemonSet would bring it back")


def _stage(pod: Obj, kind: str, ended: bool) -> Stage:
    if ended:
        return Stage.ORDINARY
    spec = _spec(pod)
    containers = [c.get("name", "") for c in spec.get("containers") or []]
    texts = [(controller(pod) or {}).get("name", ""), *containers]
    words = {word for text in texts for word in re.split(r"[-.]", text)}
    infrastructure = (
        kind in _CONTROL_PLANE or spec.get("priorityClassName") in _CRITICAL or bool(words & _INFRASTRUCTURE)
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


def finished_launchers(pods: Collection[Obj]) -> set[tuple[str, str]]:
    """(namespace, phase) of launcher pods that have ended."""
    return {
        (pod["metadata"]["namespace"], facts.phase(pod))
        for pod in pods
        if facts.labels(pod).get("kubevirt.io") == LAUNCHER and facts.final(pod)
    }


def attachments_left(pods: Collection[Obj]) -> list[Obj]:
    """Attachment pods whose launcher is not alive on the node: eviction is then allowed."""
    alive = {p["metadata"]["uid"] for p in facts.live_launchers(list(pods))}
    return [
        pod
        for pod in pods
        if facts.labels(pod).get("kubevirt.io") == HOTPLUG and (controller(pod) or {}).get("uid") not in alive
    ]


__all__ = [
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
