"""Translate what KubeVirt's objects say into the core's words. Pure; no I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ..._core.model.observation import Job, MigrationMethod, Mode
from ..._core.reasons.reason import Finding, Reason
from . import names
from .quantity import mib

Obj = dict[str, Any]
AGAIN = "again"  # in our note on a cordon
FINAL = ("Succeeded", "Failed")
# Phases of a migration whose target is not ready; an abort waits for their end.
PREPARING = ("PreparingTarget", "TargetReady")
_ABORTED = "Live migration has been aborted"
# So many seconds virt-controller may take for what it takes up at once.
FOLLOWS = 10.0
_REASONS = {reason.value: reason for reason in Reason}
# LiveMigratable reasons whose names are spelled otherwise than ours (kubevirt.io/api/core/v1).
_REASONS["CPUModeLiveMigratable"] = Reason.CPUModelNotLiveMigratable


def labels(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def status(obj: Obj) -> Obj:
    found: Obj = obj.get("status") or {}
    return found


def phase(obj: Obj) -> str:
    return str(status(obj).get("phase") or "")


def final(obj: Obj) -> bool:
    return phase(obj) in FINAL


def deleted(obj: Obj) -> bool:
    """Is it on its way out?"""
    return bool(obj["metadata"].get("deletionTimestamp"))


def key(obj: Obj) -> tuple[str, str]:
    """Namespace and name."""
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def of_vm(migration: Obj) -> tuple[str, str]:
    """Namespace and name of the VM that it moves."""
    return key(migration)[0], str(migration["spec"].get("vmiName") or "")


def condition(obj: Obj, kind: str) -> Obj | None:
    for found in status(obj).get("conditions") or []:
        if found.get("type") == kind:
            return dict(found)
    return None


def is_true(obj: Obj, kind: str) -> bool:
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"


def seconds(stamp: str | None) -> float:
    """Seconds since the epoch of an RFC 3339 stamp; 0 for none."""
    if not stamp:
        return 0.0
    try:
        return datetime.strptime(f"{stamp[:19]}+0000", "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except ValueError:
        return 0.0


def owner(vmi: Obj) -> Obj | None:
    """The owner reference to its VirtualMachine; None for a bare instance."""
    for found in vmi["metadata"].get("ownerReferences") or []:
        if found.get("kind") == "VirtualMachine":
            return dict(found)
    return None


def maker(vmi: Obj) -> str:
    """Return the owner that creates another instance when this one has ended: a VirtualMachineInstanceReplicaSet or the
    like, by kind and name; empty: a VirtualMachine starts it again, or nobody does."""
    for found in vmi["metadata"].get("ownerReferences") or []:
        if found.get("controller") and found.get("kind") != "VirtualMachine":
            return f"{found.get('kind')} {vmi['metadata'].get('namespace')}/{found.get('name')}"
    return ""


def looked_after_by(vmi: Obj) -> str:
    """Who moves a VM of strategy External, by its labels or its owner; may be empty."""
    found = labels(vmi)
    cluster, manager = found.get("cluster.x-k8s.io/cluster-name"), found.get("app.kubernetes.io/managed-by")
    if cluster:
        return f"Cluster API, cluster {cluster}"
    return manager or maker(vmi)


def identity(vmi: Obj) -> str:
    """The UID that stays the same when a VM is started anew: that of the VirtualMachine; a bare instance's own."""
    vm = owner(vmi)
    return str(vm["uid"] if vm else vmi["metadata"]["uid"])


def never_stopped(vmi: Obj) -> tuple[Finding, ...]:
    """Why it must not be stopped: with the instance its only definition would go."""
    return () if owner(vmi) is not None or maker(vmi) else (Finding(Reason.TransientDomain),)


def not_started(vmi: Obj | None, vm: Obj | None) -> Finding:
    """Why what is started anew does not run yet: by the scheduler's word, else how far it is."""
    found = condition(vmi, "PodScheduled") if vmi is not None else None
    if found is not None and found.get("status") == "False":
        return Finding(Reason.TargetUnschedulable, f"Nothing runs it: {found.get('message', '')}")
    shown = status(vm).get("printableStatus", "not started") if vm is not None else "not started"
    text = f"Its VirtualMachine is {shown}." if vm is not None else "It is being restarted."
    if vmi is not None:
        where = status(vmi).get("nodeName")
        on = f" on {where}" if where else ""
        since = vmi["metadata"].get("creationTimestamp", "?")
        text = f"Its new instance is {phase(vmi) or 'Pending'}{on} since {since}."
    return Finding(Reason.TargetPodNotReady, text)


def memory_mib(vmi: Obj) -> int:
    """Guest memory."""
    domain = vmi["spec"].get("domain") or {}
    guest = (domain.get("memory") or {}).get("guest")
    requests = ((domain.get("resources") or {}).get("requests") or {}).get("memory")
    current = (status(vmi).get("memory") or {}).get("guestCurrent")
    return mib(current) or mib(guest) or mib(requests)


def migratable(vmi: Obj) -> tuple[bool | None, tuple[Finding, ...]]:
    """The LiveMigratable condition: read, not computed. Absent: not known yet."""
    found = condition(vmi, "LiveMigratable")
    if found is None:
        return None, ()
    if found.get("status") == "True":
        return True, ()
    reported, text = found.get("reason", ""), found.get("message", "")
    reason = _REASONS.get(reported)
    if reason is None:
        return False, (Finding(Reason.StateNotLiveMigratable, f"{reported}: {text}"),)
    return False, (Finding(reason, text),)


def method(vmi: Obj) -> MigrationMethod:
    if status(vmi).get("migrationMethod") == MigrationMethod.BLOCK.value:
        return MigrationMethod.BLOCK
    return MigrationMethod.LIVE


def mark(vmi: Obj) -> str:
    """evacuationNodeName, empty when it is not marked, and of an instance that has ended: KubeVirt
    migrates that no more ("Cannot migrate VMI in finalized state"), and takes the mark off it never."""
    return "" if final(vmi) else str(status(vmi).get("evacuationNodeName") or "")


def request(obj: Obj) -> Obj:
    """Our signature on it; empty when there is none that can be read."""
    try:
        found = json.loads(annotations(obj).get(names.REQUEST, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def cordoned_again(node: Obj) -> int:
    """How often somebody else uncordoned it under our cordon, as our note on it tells."""
    try:
        found = json.loads(annotations(node).get(names.CORDON, "{}"))
        return int(found.get(AGAIN, 0))
    except (ValueError, TypeError, AttributeError):
        return 0


def state_of(vmi: Obj, migration: Obj) -> Obj:
    """The migration state that is this migration's: a VMI keeps that of the one before."""
    for found in (status(vmi).get("migrationState"), status(migration).get("migrationState")):
        if found and found.get("migrationUid") == migration["metadata"]["uid"]:
            return dict(found)
    return {}


def mode_of(vmi: Obj, migration: Obj) -> Mode:
    return Mode(state_of(vmi, migration).get("mode") or Mode.PRE_COPY.value)


def job(vmi: Obj, migration: Obj, finding: Finding | None, ours: bool) -> Job:
    """A migration that has not ended, as the core sees it. `finding`: what it waits for."""
    state = state_of(vmi, migration)
    return Job(
        mode=mode_of(vmi, migration),
        work=migration["metadata"]["uid"],
        target=str(state.get("targetNode") or ""),
        phase=phase(migration) or "Pending",
        ours=ours,
        finding=finding,
    )


def no_job(finding: Finding) -> Job:
    """A migration that we asked for and that KubeVirt has not made."""
    return Job(mode=Mode.PRE_COPY, work="", phase="Pending", ours=True, finding=finding)


def entered(migration: Obj) -> str:
    """When it came into its phase, as the API writes it."""
    stamps = status(migration).get("phaseTransitionTimestamps") or []
    found = [s["phaseTransitionTimestamp"] for s in stamps if s.get("phase") == phase(migration)]
    return str(found[-1]) if found else str(migration["metadata"].get("creationTimestamp", "?"))


def ended(migration: Obj) -> str:
    return entered(migration)


# Seconds after its failure for which the reason of a migration is waited for: on a real data plane it comes
# up to 3.4 s later, and some never say.
REASON_COMES = 5.0


def reason_is_coming(vmi: Obj | None, migration: Obj) -> bool:
    """It is Failed, and virt-handler has not written why yet. Of the VMI even the word that it failed
    may not have come: the two are watched one beside the other."""
    state = state_of(vmi, migration) if vmi is not None else {}
    return phase(migration) == "Failed" and bool(state) and not state.get("failureReason")


def why_failed(vmi: Obj | None, migration: Obj, event: str = "") -> Finding:
    """Why a failed migration failed. `event`: text of its FailedMigration event."""
    state = state_of(vmi, migration) if vmi is not None else {}
    state = state or status(migration).get("migrationState") or {}
    told = str(state.get("failureReason") or "").strip()
    text = told or event
    if is_true(migration, "migrationAbortRequested") or state.get("abortRequested"):
        return Finding(Reason.AbortRequested, text)
    if "stuck" in text:
        return Finding(Reason.ProgressTimeout, text)
    if "not completed after" in text:
        return Finding(Reason.CompletionTimeout, text)
    if text == _ABORTED or (not told and state.get("abortStatus") == "Succeeded"):
        # From 1.9 on this is also what KubeVirt's own two deadlines say.
        return Finding(Reason.CompletionTimeout, f"{_ABORTED}, by KubeVirt's progress or completion deadline")
    return Finding(Reason.MigrationFailed, text)


def switched(vmi: Obj | None, migration: Obj) -> bool:
    """Does the guest run on the target? The migration object may stay Running for long."""
    if vmi is None:
        return False
    state = state_of(vmi, migration)
    moved = bool(state.get("endTimestamp")) and not state.get("failed")
    return moved and status(vmi).get("nodeName") == state.get("targetNode")


def handed_off(vmi: Obj | None, migration: Obj | None) -> str:
    """When the guest changed its node; empty when it has not, or nobody reports it."""
    if migration is None:
        return ""
    state = state_of(vmi, migration) if vmi is not None else {}
    state = state or status(migration).get("migrationState") or {}
    return "" if state.get("failed") else str(state.get("endTimestamp") or "")


def too_late(vmi: Obj, migration: Obj) -> str:
    """Why it can no longer be aborted; empty when it can."""
    state = state_of(vmi, migration)
    if switched(vmi, migration):
        return f"it runs on {state.get('targetNode')} since {state.get('endTimestamp')}"
    if state.get("mode") == "PostCopy":
        return (
            f"it is in post-copy to {state.get('targetNode')}: "
            "its memory is on both nodes, and an abort would lose the guest"
        )
    return ""


def what_keeps_it(vmi: Obj) -> str:
    """Which conditions keep a migration object Running after the guest has moved."""
    kept = [kind for kind in ("MigrationRequired", "HotMemoryChange") if is_true(vmi, kind)]
    if condition(vmi, "HotVCPUChange") is not None:
        kept.append("HotVCPUChange")
    return ", ".join(kept)


def not_followed(vmi: Obj, migration: Obj, now: float) -> Finding | None:
    """The finding that virt-controller has not taken up in time what a migration's objects say; None: it has.

    What virt-handler writes into the VMI carries the migration object on by virt-controller's hand alone.
    """
    state, at, name = state_of(vmi, migration), phase(migration), migration["metadata"]["name"]
    if final(migration) or what_keeps_it(vmi):
        return None
    made, ended = migration["metadata"].get("creationTimestamp"), state.get("endTimestamp")
    prepared = at == "PreparingTarget" and state.get("targetNodeAddress")
    reported = [
        (not at, made, f"{name} was created at {made} and has no phase"),
        (state.get("failed"), ended, f"its VMI says that {name} failed at {ended}, and it is still {at}"),
        (state.get("completed"), ended, f"its VMI says that {name} was over at {ended}, and it is still {at}"),
        (at == "TargetReady", state.get("startTimestamp"), f"its VMI says that {name} runs, and it is still {at}"),
        (prepared, entered(migration), f"its VMI says that its target is prepared, and {name} is still {at}"),
    ]
    for so, since, said in reported:
        if so and since and now - seconds(since) >= FOLLOWS:
            text = f"{'/'.join(key(vmi))}: {said}: virt-controller lags behind."
            return Finding(Reason.VirtControllerSilent, text)
    return None


def mark_followed(vmi: Obj, version: tuple[int, int]) -> bool:
    """Has virt-controller taken up its mark? Since 1.7 it answers each with a condition, at once."""
    return version < (1, 7) or is_true(vmi, "EvictionRequested")


def took(migration: Obj, vmi: Obj | None) -> float:
    """Seconds that the guest's move took, start to end; 0 when that is not known."""
    state = state_of(vmi, migration) if vmi is not None else {}
    state = state or status(migration).get("migrationState") or {}
    if not state.get("startTimestamp") or not state.get("endTimestamp"):
        return 0.0
    return max(0.0, seconds(state["endTimestamp"]) - seconds(state["startTimestamp"]))


def live_launchers(pods: Sequence[Obj]) -> list[Obj]:
    """Launcher pods that have not ended."""
    return [p for p in pods if labels(p).get("kubevirt.io") == "virt-launcher" and not final(p)]


def launcher_of(vmi: Obj, pods: Sequence[Obj]) -> Obj | None:
    """The pod in which the guest runs: the newest live one of the VMI on its node."""
    uid, node = vmi["metadata"]["uid"], status(vmi).get("nodeName")
    found = [
        pod
        for pod in live_launchers(pods)
        if labels(pod).get(names.CREATED_BY) == uid and (pod.get("spec") or {}).get("nodeName") == node
    ]
    found.sort(key=lambda p: p["metadata"]["creationTimestamp"])
    return found[-1] if found else None


def restarts(vm: Obj, ended: str) -> bool:
    """Does KubeVirt start this VM anew after its instance ended so?"""
    if deleted(vm):
        return False
    spec, requests = vm.get("spec") or {}, status(vm).get("stateChangeRequests") or []
    if any(r.get("action") == "Start" for r in requests):
        return True
    strategy = run_strategy(spec)
    return strategy == "Always" or (strategy == "RerunOnFailure" and ended == "Failed")


def kept_off(vm: Obj) -> bool:
    """Does its owner want it off? Then neither KubeVirt nor a request of ours starts it."""
    return run_strategy(vm.get("spec") or {}) not in ("Always", "Manual", "Once", "RerunOnFailure")


def run_strategy(spec: Obj) -> str:
    """The run strategy of a VirtualMachine's spec, including the older field `running`."""
    return str(spec.get("runStrategy") or ("Always" if spec.get("running") else "Halted"))


def version(text: str) -> tuple[int, int]:
    """(major, minor) of v1.9.0-rc.2; (0, 0) when it is not known."""
    found = re.match(r"^v?(\d+)\.(\d+)", text or "")
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)
