"""Find what a migration waits for, in the order in which an operator should look. Pure.

First the migration itself, then its target pod, then policy and limits, then quota and storage:
each of them hides the ones after it. The drain, the migration of one VM and
kubevirt_migration_info all go by it; each reads as much as it can afford.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from ..._core.model.columns import count
from ..._core.model.policy import pause_after
from ..._core.reasons.reason import Finding, Platform, Reason
from ..api.cluster import Cluster
from ..objects import facts, names, quotas
from .slots import Holder

Obj = dict[str, Any]
Found = list[tuple[str, Finding, str]]  # where to look, what is wrong, with what
_TAKES = 10.0  # seconds; sooner it is no news that a target is not there yet
_BACKOFF = 20.0
_VOLUME_EVENTS = ("FailedAttachVolume", "FailedMount", "FailedMapVolume", "ProvisioningFailed", "FailedBinding")
_SHOWN = 5
_NEEDS_POD = ("", "Pending", "Scheduling")  # of a migration that waits for its target pod
MIGRATION, POD, LIMITS, STORAGE = "migration", "target pod", "policy and limits", "quota, storage"


@dataclass(frozen=True)
class Known:
    """The objects that were read about one VM. `migrations`: its own, oldest first. `pods`: of the VMI.

    `now`: seconds since the epoch. `lasting`: it is in its phase for longer than that takes
    (None: told by the stamps). `events`: of the migration, the VMI and the target pod, oldest
    first. `out`: holders of slots of its node; `holders`: of the whole cluster, None where that
    was not read. `settings`: what applies to its migration; `policy`: the policy that says so.
    `down`: nodes of its pods that are not Ready. `freed`: when a migration of the cluster ended last, as `now`.
    """

    vmi: Obj
    migrations: Sequence[Obj]
    now: float
    cluster: Cluster | None = None
    pods: Sequence[Obj] = ()
    events: Sequence[Obj] = ()
    quotas: Sequence[Obj] = ()
    out: Sequence[Holder] = ()
    holders: Sequence[Holder] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    policy: str = ""
    lasting: bool | None = None
    down: Container[str] = ()
    freed: float = 0.0
    namespace: Obj | None = None

    @property
    def strategy(self) -> str:
        default = self.cluster.default_strategy if self.cluster else "None"
        return str(self.vmi["spec"].get("evictionStrategy") or default)

    @property
    def current(self) -> Obj | None:
        """The one under way; else the last one."""
        open_ = [m for m in self.migrations if not facts.final(m)]
        return (open_ or list(self.migrations) or [None])[-1]

    @property
    def waits(self) -> Obj | None:
        """The current one, if its guest has not moved. One that was withdrawn before it began waits for nothing."""
        current = self.current
        if current is None or facts.final(current):
            return None
        if facts.deleted(current) and facts.phase(current) in ("", "Pending"):
            return None
        return None if facts.switched(self.vmi, current) else current

    @property
    def target(self) -> Obj | None:
        if self.current is None:
            return None
        uid = self.current["metadata"]["uid"]
        return next((p for p in self.pods if facts.labels(p).get(names.JOB_UID) == uid), None)

    @property
    def lasts(self) -> bool:
        if self.lasting is not None or self.current is None:
            return bool(self.lasting)
        return self.now - facts.seconds(facts.entered(self.current)) >= _TAKES

    def event_message(self, *reasons: str, since: str = "") -> str:
        """The newest event with one of these reasons, not older than `since`."""
        texts = [
            str(e.get("message", ""))
            for e in self.events
            if e.get("reason") in reasons
            and facts.seconds(e.get("lastTimestamp") or e.get("eventTime")) >= facts.seconds(since)
        ]
        return texts[-1] if texts else ""


def not_known(vmi: Obj, more: str = "") -> Finding:
    """Why a VM lacks the condition LiveMigratable."""
    text = f"It does not have the condition LiveMigratable yet (phase {facts.phase(vmi) or 'none'})."
    return Finding(Reason.MigratableNotKnown, f"{text} {more}".strip())


def not_begun(
    vmi: Obj, more: str = "", pods: Sequence[Obj] = (), down: Container[str] = (), followed: bool = True
) -> Finding:
    """Why a marked VM has no migration. KubeVirt creates none while a pod elsewhere is left. `down`: see Known.
    `followed`: virt-controller knows of the mark, or may still come to know of it."""
    if not followed:
        text = f"{named(vmi)}: marked for evacuation, but it has no condition EvictionRequested"
        return Finding(Reason.VirtControllerSilent, f"{text}: virt-controller lags behind.")
    left = _left_pod(vmi, pods, down)
    if left:
        return Finding(Reason.TargetPodNotReady, left)
    text = f"Marked for evacuation from {facts.mark(vmi)}, and no migration is under way."
    return Finding(Reason.EvacuationNotStarted, f"{text} {more}".strip())


def first(known: Known) -> Finding | None:
    """The first reason for which a VM's migration waits; None: it moves, or none is under way."""
    found = waits(known)
    return found[0][1] if found else None


def waits(known: Known) -> Found:
    """All that keeps the migration under way from going on, the first one first."""
    current = known.waits
    if current is None:
        return []
    found = [*_itself(known, current), *_pod(known), *_slot(known, current)]
    return [*found, *_storage(known, current)]


def named(obj: Obj) -> str:
    return "/".join(facts.key(obj))


def _itself(known: Known, current: Obj) -> Found:
    subject = f"migration {named(current)}"
    for kind, reason in (
        ("migrationBlockedByBackup", Reason.BackupInProgress),
        ("migrationBlockedByUtilityVolumes", Reason.UtilityVolumesPresent),
    ):
        if facts.is_true(current, kind):
            return [(MIGRATION, Finding(reason), subject)]
    silent = facts.not_followed(known.vmi, current, known.now)
    if silent is not None:
        return [(MIGRATION, silent, subject)]
    if facts.phase(current) in facts.PREPARING and known.lasts:
        return [(MIGRATION, _preparation(known.vmi, current), subject)]
    before = _before_slot(known, current) if queued(known) else None
    return [(MIGRATION, before, subject)] if before is not None else []


def _preparation(vmi: Obj, migration: Obj) -> Finding:
    state, phase = facts.state_of(vmi, migration), facts.phase(migration)
    node, pod = state.get("targetNode") or "the target", state.get("targetPod", "?")
    text = f"virt-handler on {node} has not prepared the target (pod {pod})"
    if phase == "TargetReady":
        text = f"{node} is ready (pod {pod}), and virt-handler on {state.get('sourceNode')} has not begun"
    return Finding(Reason.TargetPreparation, f"{text}: {phase} since {facts.entered(migration)}.")


def queued(known: Known) -> bool:
    """Has KubeVirt not begun with it, for nothing that it reports?"""
    current = known.waits
    if current is None or facts.phase(current) not in ("", "Pending"):
        return False
    reported = ("RejectedByResourceQuota", "BlockedByBackup", "BlockedByUtilityVolumes")
    return known.target is None and not any(facts.is_true(current, f"migration{t}") for t in reported)


def for_slot(known: Known) -> bool:
    """Does it wait for a slot, and for nothing before that?"""
    current = known.waits
    return current is not None and queued(known) and _before_slot(known, current) is None


def _before_slot(known: Known, current: Obj) -> Finding | None:
    """Return what KubeVirt waits for before it even asks for a slot."""
    vmi = known.vmi
    if facts.phase(vmi) != "Running":
        text = f"The instance is {facts.phase(vmi) or 'not started yet'}; it must run first."
        return Finding(Reason.StateNotLiveMigratable, text)
    left = _left_pod(vmi, known.pods, known.down)
    if left:
        return Finding(Reason.TargetPodNotReady, left)
    return _backoff(known, current)


def left_nodes(vmi: Obj, pods: Sequence[Obj]) -> list[str]:
    """Other nodes on which a launcher pod of it has not ended."""
    here = facts.status(vmi).get("nodeName")
    nodes = {str((pod.get("spec") or {}).get("nodeName") or "") for pod in facts.live_launchers(pods)}
    return sorted(nodes - {here, ""})


def _left_pod(vmi: Obj, pods: Sequence[Obj], down: Container[str]) -> str:
    """Which pod of an earlier migration has not ended; empty: none. On a node that works that takes 11 to 18 s."""
    here = facts.status(vmi).get("nodeName")
    nodes = [(pod, (pod.get("spec") or {}).get("nodeName")) for pod in facts.live_launchers(pods)]
    for pod, node in nodes:
        if node == here:
            continue
        where = f"on {node} yet." if node else "yet; check the scheduler."
        if node in down:
            where = (
                f"; check its node {node}, which is not Ready. If that is down, bring it back, or, once it is"
                " certainly off, give it the taint node.kubernetes.io/out-of-service."
            )
        text = f"Pod {named(pod)} of an earlier migration has not ended"
        return f"{text}{where}" if node in down else f"{text} {where}"
    return ""


def _backoff(known: Known, current: Obj) -> Finding | None:
    """KubeVirt holds back what it made itself, behind the failures of its like."""
    failed, until = _failures(known, current)
    if until <= known.now:
        return None
    wait, since = pause_after(len(failed), _BACKOFF), facts.entered(failed[0])
    last = facts.why_failed(known.vmi, failed[0])
    text = (
        f"{count(len(failed), 'attempt')} failed, the last with {last.reason.value}. "
        f"{last.text(Platform.KUBEVIRT).rstrip('.')}. KubeVirt's back-off is {wait:.0f} s from {since} on."
    )
    return Finding(Reason.MigrationBackoff, text)


def _failures(known: Known, current: Obj) -> tuple[list[Obj], float]:
    """(migrations by KubeVirt that failed in a row before this one, the newest first; until when it backs off, seconds
    since the epoch)."""
    failed: list[Obj] = []
    for before in reversed([m for m in known.migrations if m is not current and facts.final(m)]):
        if facts.deleted(before) or not _made_by_kubevirt(before):
            continue
        if facts.phase(before) == "Succeeded":
            break
        failed.append(before)
    if not failed or not _made_by_kubevirt(current):
        return [], 0.0
    return failed, facts.seconds(facts.entered(failed[0])) + pause_after(len(failed), _BACKOFF)


def _made_by_kubevirt(migration: Obj) -> bool:
    notes = facts.annotations(migration)
    return names.EVACUATION in notes or names.UPDATE in notes


def _pod(known: Known) -> Found:
    pod = known.target
    if pod is None or known.current is None or facts.phase(known.current) not in _NEEDS_POD:
        return []  # of a migration that has come further it was read before
    subject = f"pod {named(pod)}"
    if facts.phase(pod) == "Running":
        return []
    if facts.phase(pod) != "Pending":
        text = f"It has ended ({facts.phase(pod)}); KubeVirt then fails the migration."
        return [(POD, Finding(Reason.TargetPodNotReady, text), subject)]
    scheduled = facts.condition(pod, "PodScheduled") or {}
    if scheduled.get("status") == "False":
        return [(POD, _unscheduled(known, pod, scheduled.get("message", "")), subject)]
    waited = known.now - facts.seconds(pod["metadata"].get("creationTimestamp"))
    if waited < _TAKES or known.event_message(*_VOLUME_EVENTS):
        return []
    node = (pod.get("spec") or {}).get("nodeName") or "no node yet"
    why = _container(pod)
    since = pod["metadata"].get("creationTimestamp")
    text = f"Pending on {node} since {since}" + (f": {why}." if why else ".")
    return [(POD, Finding(Reason.TargetPodNotReady, text), subject)]


def _unscheduled(known: Known, pod: Obj, text: str) -> Finding:
    """The scheduler's own words name the predicates. A host-model VM carries its model along."""
    reported = known.event_message("NoSuitableNodesForHostModelMigration")
    selector = (pod.get("spec") or {}).get("nodeSelector") or {}
    models = [key[len(names.HOST_MODEL) :] for key in selector if key.startswith(names.HOST_MODEL)]
    if models and "affinity/selector" in text:
        reported = f"CPU model {', '.join(models)}: {text}"
    if reported:
        return Finding(Reason.HostModelNotElsewhere, reported)
    limit = facts.annotations(known.current or {}).get(names.UNSCHEDULABLE, "300")
    gives_up = f"KubeVirt ends an attempt whose pod finds no node within {limit} s."
    return Finding(Reason.TargetUnschedulable, f"{text.rstrip('.')}. {gives_up}".removeprefix(". "))


def _container(pod: Obj) -> str:
    """Why a container waits."""
    status = facts.status(pod)
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or []:
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") not in (None, "", "PodInitializing", "ContainerCreating"):
                more = f" ({waiting['message']})" if waiting.get("message") else ""
                return f"{container.get('name')}: {waiting['reason']}{more}"
    return ""


def _slot(known: Known, current: Obj) -> Found:
    if not queued(known) or _before_slot(known, current) is not None:
        return []
    subject = f"migration {named(current)}"
    refused = _refused(known, current)
    if refused:
        return [(POD, Finding(Reason.TargetPodRefused, refused), subject)]
    if known.cluster is not None and known.cluster.no_slots:
        return [(LIMITS, Finding(Reason.MigrationLimitZero, known.cluster.no_slots), subject)]
    silent = next((holder.silent for holder in (*known.out, *(known.holders or ())) if holder.silent), None)
    if silent is not None:
        return [(LIMITS, silent, subject)]
    taken, free = _slots(known)
    since = _could_begin(known, current)
    if free and known.now - since < _TAKES:
        return [(LIMITS, Finding(Reason.WaitingForSlot, f"{free}: it should start."), subject)]
    if free:
        return [(POD, Finding(Reason.TargetPodRefused, _no_pod(known, since, free)), subject)]
    return [(LIMITS, Finding(Reason.WaitingForSlot, taken), subject)]


def _could_begin(known: Known, current: Obj) -> float:
    """Since when nothing that is to be seen keeps KubeVirt from making its target pod."""
    ended = [
        ((container.get("state") or {}).get("terminated") or {}).get("finishedAt")
        for pod in known.pods
        for container in facts.status(pod).get("containerStatuses") or []
    ]
    return max(known.freed, _failures(known, current)[1], *map(facts.seconds, (facts.entered(current), *ended)))


def _no_pod(known: Known, since: float, free: str) -> str:
    """All that is known of one that KubeVirt could begin with and does not: its events may not have come."""
    at = datetime.fromtimestamp(since, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = f"KubeVirt has created no target pod since {at}, although {free}; virt-controller's log has the reason."
    told = sum(int(e.get("count") or 1) for e in known.events if e.get("reason") == "MigrationBackoff")
    if told:
        text += f" The API gets only 25 of its events about a VM, then one every 300 s; its back-off took {told}."
    before = known.event_message("FailedCreate")
    if before:
        text += f" The last one about a pod: {before}"
    level = facts.labels(known.namespace).get("pod-security.kubernetes.io/enforce") if known.namespace else ""
    if level not in (None, "", "privileged"):
        text += f" Namespace {facts.key(known.vmi)[0]} enforces PodSecurity {level}."
    return text


def _refused(known: Known, current: Obj) -> str:
    """Why KubeVirt could not create the target pod, in the server's words."""
    return known.event_message("FailedCreate", since=current["metadata"].get("creationTimestamp", ""))


def _slots(known: Known) -> tuple[str, str]:
    """Who holds them; that some are free. Both empty where that was not read."""
    node, cluster = str(facts.status(known.vmi).get("nodeName") or ""), known.cluster
    if cluster is None:
        return "", ""
    if len(known.out) >= cluster.outbound:
        return _taken(cluster.outbound, f"outbound migrations of {node}", known.out), ""
    if known.holders is None:
        return "", ""
    if len(known.holders) >= cluster.cluster:
        return _taken(cluster.cluster, "migrations of the cluster", known.holders), ""
    return "", (
        f"{len(known.out)} of {cluster.outbound} outbound migrations of {node} and "
        f"{len(known.holders)} of {cluster.cluster} of the cluster are taken"
    )


def _taken(limit: int, what: str, by: Sequence[Holder]) -> str:
    more = f" and {len(by) - _SHOWN} more" if len(by) > _SHOWN else ""
    held = ", ".join(holder.text() for holder in by[:_SHOWN])
    return f"{len(by)} of {limit} {what} are taken{': ' if by else ''}{held}{more}."


def _storage(known: Known, current: Obj) -> Found:
    if facts.is_true(current, "migrationRejectedByResourceQuota"):
        return [_quota(known, current)]
    volume = known.event_message(*_VOLUME_EVENTS)
    if volume and known.target is not None and facts.phase(known.target) == "Pending":
        finding = Finding(Reason.StorageNotReady, volume)
        return [(STORAGE, finding, f"pod {named(known.target)}")]
    return []


def _quota(known: Known, current: Obj) -> tuple[str, Finding, str]:
    """The wait for a quota, in the words of the refusal, else by the quotas' numbers."""
    namespace = facts.key(known.vmi)[0]
    full = [q["metadata"]["name"] for q in known.quotas if quotas.is_full(q)]
    of = ", ".join(full or [q["metadata"]["name"] for q in known.quotas]) or "not readable"
    lines = "; ".join(line for quota in known.quotas for line in quotas.lines(quota))
    text = _refused(known, current) or (f"Namespace {namespace}: {lines}." if lines else "")
    return (STORAGE, Finding(Reason.QuotaExceeded, text), f"ResourceQuota {of} of namespace {namespace}")
