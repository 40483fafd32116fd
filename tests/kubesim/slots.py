"""When a migration may begin: back-off after failures, and a place within the limits."""

from __future__ import annotations

from . import words
from .clock import parse
from .kinds import PODS, VMIMS, VMIS
from .store import Obj
from .world import World


def target_pod(world: World, migration: Obj) -> Obj | None:
    uid = migration["metadata"]["uid"]
    for pod in world.store.all(PODS, migration["metadata"]["namespace"]):
        if words.labels(pod).get(words.JOB_UID) == uid:
            return pod
    return None


def backoff(world: World, migration: Obj) -> float:
    """Seconds still to wait; only migrations that KubeVirt itself made wait."""
    notes = words.annotations(migration)
    if words.EVACUATION not in notes and words.UPDATE not in notes:
        return 0.0
    before = [
        m
        for m in world.store.all(VMIMS, migration["metadata"]["namespace"])
        if m["spec"]["vmiName"] == migration["spec"]["vmiName"]
        and m is not migration
        and words.final(m)
        and not m["metadata"].get("deletionTimestamp")
        and (words.EVACUATION in words.annotations(m) or words.UPDATE in words.annotations(m))
    ]
    before.sort(key=lambda m: int(m["metadata"]["resourceVersion"]), reverse=True)
    wait, last = 0.0, 0.0
    for found in before:
        if words.phase(found) == "Succeeded":
            break
        wait = wait * 2 if wait else 20.0
        ended = parse(found["status"]["phaseTransitionTimestamps"][-1]["phaseTransitionTimestamp"])
        last = max(last, ended)
    return last + wait - world.clock.now() if wait else 0.0


def is_free(world: World, vmi: Obj) -> bool:
    """Is there a place within the limits for one more from its node?"""
    config = world.migrations_config()
    if "slots" in world.paused:
        return False
    running, outbound = 0, 0
    node = vmi["status"].get("nodeName")
    for other in world.store.all(VMIMS):
        if words.final(other):
            continue
        waiting = words.phase(other) in words.NOT_RUNNING
        if waiting and target_pod(world, other) is None:
            continue
        running += 1
        owner = world.store.find(VMIS, other["metadata"]["namespace"], other["spec"]["vmiName"])
        state = (owner or {}).get("status", {}).get("migrationState") or {}
        ours = state.get("migrationUid") == other["metadata"]["uid"]
        source = state.get("sourceNode") if ours else (owner or {}).get("status", {}).get("nodeName")
        outbound += source == node
    return running < config["parallelMigrationsPerCluster"] and outbound < config["parallelOutboundMigrationsPerNode"]
