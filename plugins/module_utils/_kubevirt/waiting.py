# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a migration waits for, in the order in which an operator should look. Pure.

First the migration itself, then its target pod, then policy and limits, then quota and storage:
each of them hides the ones after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._core.reasons import Finding, Reason
from . import facts, names
from .cluster import Cluster
from .migration_model import switched, waits_for, what_keeps_it
from .migration_report import asked_by, told

Obj = dict[str, Any]
# Sooner than after so many seconds it is no news that a target is not there yet.
_TAKES = 10.0
# A preparation of more than this is stuck, and so is a migration whose guest's node is gone.
_STUCK = 120.0
_BACKOFF = 20.0
_NOT_RUNNING = frozenset({"", "Pending", "WaitingForSync", "Synchronizing"})
_VOLUME_EVENTS = frozenset(
    {"FailedAttachVolume", "FailedMount", "FailedMapVolume", "ProvisioningFailed", "FailedBinding"}
)
MIGRATION, POD, LIMITS, STORAGE = "migration", "target pod", "policy and limits", "quota, storage"


@dataclass(frozen=True)
class Holder:
    """A migration that holds a slot. `seconds`: since it entered its phase."""

    vm: str
    phase: str
    source: str
    seconds: float

    @property
    def stuck(self) -> bool:
        return self.phase in ("PreparingTarget", "TargetReady") and self.seconds > _STUCK

    def text(self) -> str:
        note = ", stuck?" if self.stuck else ""
        return f"{self.vm} ({self.phase} for {self.seconds:.0f} s from {self.source or '?'}{note})"


@dataclass(frozen=True)
class Known:
    """What was read about one VM. `migrations`: its own, oldest first. `pods`: all of the VMI.

    `events`: of the migration, the VMI and the target pod. `holders`: of the whole cluster.
    `settings`: what applies to its migration; `policy`: the policy that says so.
    """

    vmi: Obj
    migrations: Sequence[Obj]
    now: float
    cluster: Cluster
    pods: Sequence[Obj] = ()
    events: Sequence[Obj] = ()
    quotas: Sequence[Obj] = ()
    holders: Sequence[Holder] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    policy: str = ""

    @property
    def current(self) -> Obj | None:
        """The one under way; else the last one."""
        open_ = [m for m in self.migrations if not facts.final(m)]
        return (open_ or list(self.migrations) or [None])[-1]

    @property
    def target(self) -> Obj | None:
        if self.current is None:
            return None
        uid = self.current["metadata"]["uid"]
        return next((p for p in self.pods if facts.labels(p).get(names.JOB_UID) == uid), None)

    def told_by(self, *reasons: str) -> str:
        """The newest event with one of these reasons."""
        texts = [str(e.get("message", "")) for e in self.events if e.get("reason") in reasons]
        return texts[-1] if texts else ""


def entered(migration: Obj) -> float:
    """When it entered its phase; else when it was made."""
    stamps = facts.status(migration).get("phaseTransitionTimestamps") or []
    times = [
        s.get("phaseTransitionTimestamp")
        for s in stamps
        if s.get("phase") == facts.phase(migration)
    ]
    return facts.seconds(times[-1] if times else migration["metadata"].get("creationTimestamp"))


def holds_slot(migration: Obj, has_pod: bool) -> bool:
    """Does KubeVirt count it within its limits?"""
    return not facts.final(migration) and (facts.phase(migration) not in _NOT_RUNNING or has_pod)


def source_of(vmi: Obj | None, migration: Obj) -> str:
    """The node whose outbound slot it takes."""
    if vmi is None:
        return ""
    state = facts.state_of(vmi, migration)
    return str(state.get("sourceNode") or facts.status(vmi).get("nodeName") or "")


def findings(known: Known) -> list[dict[str, str]]:
    """All that stands in the way, the first one first. Empty: it moves, or nothing is asked."""
    found = [*_migration(known), *_pod(known), *_limits(known), *_storage(known)]
    return [
        {
            "where": where,
            "code": row["reason"],
            "plane": row["plane"],
            "subject": subject,
            "sentence": row["message"],
            "remedy": row["remedy"],
        }
        for where, finding, subject in found
        for row in [told(finding)]
    ]


Found = list[tuple[str, Finding, str]]


def _name(obj: Obj) -> str:
    return "/".join(facts.key(obj))


def _migration(known: Known) -> Found:
    vmi, current = known.vmi, known.current
    me = f"VM {_name(vmi)}"
    found: Found = []
    able, why = facts.migratable(vmi)
    wanted = facts.mark(vmi) or (current is not None and not facts.final(current))
    if wanted and able is False:
        found += [(MIGRATION, finding, me) for finding in why]
    if wanted and able is None:
        text = (
            f"Its condition LiveMigratable is not there yet (phase {facts.phase(vmi) or 'none'})."
        )
        found.append((MIGRATION, Finding(Reason.NOT_KNOWN_YET, text), me))
    if current is None or facts.final(current):
        return found + _none_under_way(known, current, me)
    subject = f"migration {_name(current)}"
    if switched(vmi, current):
        return [*found, (MIGRATION, _stays(vmi, current), subject)]
    if facts.deleted(current):
        return [*found, (MIGRATION, _aborting(current), subject)]
    waits = waits_for(vmi, current, None)
    if waits is None or waits.reason is Reason.QUOTA:
        return found
    if waits.reason is Reason.TARGET_PREPARATION:
        waited = known.now - entered(current)
        if waited < _TAKES:
            return found
        waits = Finding(waits.reason, f"{waits.message} It is so for {waited:.0f} s.")
    if waits.reason is Reason.WAITING_FOR_SLOT:
        before = _before_slot(known, current)
        return found + ([(MIGRATION, before, subject)] if before else [])
    return [*found, (MIGRATION, waits, subject)]


def _none_under_way(known: Known, last: Obj | None, me: str) -> Found:
    found: Found = []
    mark = facts.mark(known.vmi)
    if mark:
        strategy = known.vmi["spec"].get("evictionStrategy") or known.cluster.default_strategy
        text = f"Marked for evacuation from {mark}, and no migration is under way."
        if strategy == "External":
            text += " Its strategy is External: KubeVirt leaves it to the VM's owner to move it."
        found.append((MIGRATION, Finding(Reason.EVACUATION_NOT_STARTED, text), me))
    if last is not None and facts.phase(last) == "Failed":
        event = known.told_by("FailedMigration")
        why = facts.why_failed(known.vmi, last, event)
        found.append((MIGRATION, why, f"migration {_name(last)}"))
    return found


def _stays(vmi: Obj, migration: Obj) -> Finding:
    state = facts.state_of(vmi, migration)
    text = (
        f"The VM runs on {state.get('targetNode')} since {state.get('endTimestamp')}; "
        f"the object is still {facts.phase(migration)}"
    )
    kept = what_keeps_it(vmi)
    return Finding(Reason.OBJECT_STAYS, text + (f" because of {kept}." if kept else "."))


def _aborting(migration: Obj) -> Finding:
    phase, since = facts.phase(migration), migration["metadata"]["deletionTimestamp"]
    text = f"It is being aborted (deleted {since}), phase {phase}."
    if phase in ("PreparingTarget", "TargetReady"):
        text += " KubeVirt aborts it only once the target is ready."
    return Finding(Reason.ABORTED, text)


def _before_slot(known: Known, current: Obj) -> Finding | None:
    """What KubeVirt waits for before it even asks for a slot."""
    vmi = known.vmi
    if facts.phase(vmi) != "Running":
        text = f"The instance is {facts.phase(vmi) or 'not started yet'}; it must run first."
        return Finding(Reason.NOT_RUNNING_NORMALLY, text)
    here = facts.status(vmi).get("nodeName")
    others = [
        p for p in facts.live_launchers(known.pods) if (p.get("spec") or {}).get("nodeName") != here
    ]
    if others:
        text = f"Pod {_name(others[-1])} of an earlier migration has not ended."
        return Finding(Reason.TARGET_POD_NOT_READY, text)
    return _backoff(known, current)


def _backoff(known: Known, current: Obj) -> Finding | None:
    notes = facts.annotations(current)
    if names.EVACUATION not in notes and names.UPDATE not in notes:
        return None
    failed: list[Obj] = []
    for before in reversed([m for m in known.migrations if m is not current and facts.final(m)]):
        asked = facts.annotations(before)
        if facts.deleted(before) or (names.EVACUATION not in asked and names.UPDATE not in asked):
            continue
        if facts.phase(before) == "Succeeded":
            break
        failed.append(before)
    if not failed:
        return None
    wait = _BACKOFF * 2 ** (len(failed) - 1)
    left = entered(failed[0]) + wait - known.now
    if left <= 0:
        return None
    last = told(facts.why_failed(known.vmi, failed[0]))
    text = (
        f"{len(failed)} attempts failed; KubeVirt waits {wait:.0f} s, of which {left:.0f} s are "
        f"left. The last one: {last['reason']}: {last['message']}"
    )
    return Finding(Reason.RETRY_BACKOFF, text)


def _pod(known: Known) -> Found:
    pod, current = known.target, known.current
    if pod is None or current is None or facts.final(current):
        return []
    subject = f"pod {_name(pod)}"
    model = known.told_by("NoSuitableNodesForHostModelMigration")
    found: Found = [(POD, Finding(Reason.CPU_MODEL, model), subject)] if model else []
    if facts.phase(pod) != "Pending":
        return found if facts.phase(pod) == "Running" else [*found, *_pod_ended(pod, subject)]
    scheduled = facts.condition(pod, "PodScheduled") or {}
    if scheduled.get("status") == "False":
        text = str(scheduled.get("message", ""))
        return [*found, (POD, Finding(Reason.TARGET_UNSCHEDULABLE, text), subject)]
    waited = known.now - facts.seconds(pod["metadata"].get("creationTimestamp"))
    if waited < _TAKES or known.told_by(*_VOLUME_EVENTS):
        return found
    node = (pod.get("spec") or {}).get("nodeName") or "no node yet"
    why = _container(pod)
    text = f"Pending on {node} for {waited:.0f} s" + (f": {why}." if why else ".")
    return [*found, (POD, Finding(Reason.TARGET_POD_NOT_READY, text), subject)]


def _pod_ended(pod: Obj, subject: str) -> Found:
    text = f"It has ended ({facts.phase(pod)}); KubeVirt then fails the migration."
    return [(POD, Finding(Reason.TARGET_POD_NOT_READY, text), subject)]


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


def _limits(known: Known) -> Found:
    current = known.current
    if current is None or facts.final(current):
        return []
    found: Found = []
    waits = waits_for(known.vmi, current, known.target)
    queued = waits is not None and waits.reason is Reason.WAITING_FOR_SLOT
    if queued and _before_slot(known, current) is None:
        finding = Finding(Reason.WAITING_FOR_SLOT, _slots(known))
        found.append((LIMITS, finding, f"migration {_name(current)}"))
    slow = _too_slow(known)
    if slow:
        subject = f"MigrationPolicy {known.policy}" if known.policy else "KubeVirt's configuration"
        found.append((LIMITS, Finding(Reason.COMPLETION_TIMEOUT, slow), subject))
    return found


def _slots(known: Known) -> str:
    """Who holds them."""
    node = str(facts.status(known.vmi).get("nodeName") or "")
    cluster = known.cluster
    if known.holders is None:
        return "It waits for a slot; who holds them could not be read."
    out = [h for h in known.holders if h.source == node]
    text = (
        f"{len(out)} of {cluster.outbound} slots of {node} and {len(known.holders)} of "
        f"{cluster.cluster} of the cluster are taken"
    )
    who = out if len(out) >= cluster.outbound else known.holders
    if not who:
        return text + "; it should begin at once."
    return text + ": " + "; ".join(holder.text() for holder in who) + "."


def _too_slow(known: Known) -> str:
    """The bandwidth that is allowed does not suffice for the time that is."""
    speed = facts.mib(known.settings.get("bandwidthPerMigration"))
    allowed_per_gib = float(known.settings.get("completionTimeoutPerGiB") or 0)
    memory = facts.memory_mib(known.vmi)
    if not speed or not allowed_per_gib or not memory:
        return ""
    # KubeVirt counts whole gigabytes, at least one.
    allowed = allowed_per_gib * max(1, -(-memory * 2**20 // 10**9))
    needed = memory / speed
    if needed <= allowed or known.settings.get("allowPostCopy"):
        return ""
    return (
        f"{memory} MiB of memory at {speed} MiB/s take {needed:.0f} s; KubeVirt aborts after "
        f"{allowed:.0f} s."
    )


def _storage(known: Known) -> Found:
    current = known.current
    if current is None or facts.final(current):
        return []
    found: Found = []
    if facts.is_true(current, "migrationRejectedByResourceQuota"):
        full = [q["metadata"]["name"] for q in known.quotas if _full(q)]
        text = known.told_by("FailedCreate")
        of = ", ".join(full or [q["metadata"]["name"] for q in known.quotas]) or "not readable"
        namespace = facts.key(known.vmi)[0]
        subject = f"ResourceQuota {of} of namespace {namespace}"
        found.append((STORAGE, Finding(Reason.QUOTA, text), subject))
    volume = known.told_by(*_VOLUME_EVENTS)
    if volume and known.target is not None and facts.phase(known.target) == "Pending":
        subject = f"pod {_name(known.target)}"
        found.append((STORAGE, Finding(Reason.STORAGE_NOT_READY, volume), subject))
    return found


def _full(quota: Obj) -> bool:
    """Has it no room for one more pod, as far as whole numbers tell?"""
    status = facts.status(quota)
    hard = status.get("hard") or (quota.get("spec") or {}).get("hard") or {}
    used = status.get("used") or {}
    for key in ("pods", "count/pods"):
        if str(hard.get(key, "")).isdigit() and str(used.get(key, "")).isdigit():
            return int(used[key]) >= int(hard[key])
    return False


def row(known: Known) -> dict[str, Any]:
    """One VM in result form."""
    vmi, current = known.vmi, known.current
    state = facts.state_of(vmi, current) if current is not None else {}
    pod = known.target
    node = str(facts.status(vmi).get("nodeName") or "")
    on = (pod.get("spec") or {}).get("nodeName") if pod is not None else ""
    return {
        "name": _name(vmi),
        "uuid": facts.identity(vmi),
        "node": node,
        "strategy": str(vmi["spec"].get("evictionStrategy") or known.cluster.default_strategy),
        "marked": facts.mark(vmi),
        "migration": current["metadata"]["name"] if current is not None else "",
        "phase": (facts.phase(current) or "Pending") if current is not None else "",
        "seconds_in_phase": max(0.0, round(known.now - entered(current), 1)) if current else 0.0,
        "source": source_of(vmi, current) if current is not None else node,
        "target": str(state.get("targetNode") or on or ""),
        "target_pod": pod["metadata"]["name"] if pod is not None else "",
        "mode": str(state.get("mode") or ""),
        "requested_by": asked_by(vmi, current) if current is not None else "",
        "policy": known.policy,
        "findings": findings(known),
    }
