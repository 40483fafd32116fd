"""Preflight of a KubeVirt node: the node and its cluster, read into the core's facts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..._core.model.columns import count
from ..._core.preflight.facts import ClusterSeen, NodeSeen, StuckWork
from ..api.cluster import no_slots
from ..objects import facts, names
from ..objects.nodes import cordoned
from ..objects.requesters import from_descheduler
from ..waiting.slots import holds_slot, source_of
from .read import ClusterObjects, Obj

# A heartbeat comes about every minute; KubeVirt gives a node up after five (its node controller).
SILENT_AFTER = 300.0
# Nothing ends a migration that waits in one of these phases.
_ENDLESS = ("Scheduling", "Scheduled", "PreparingTarget", "TargetReady")
# KubeVirt gives up a target pod after 900 s in any phase before this.
STUCK_AFTER = 900.0
OUTDATED = "kubevirt.io/outdatedLauncherImage"
# Taints and annotations by which other tools say that they work on a node.
_OTHERS_TAINTS = {
    "medik8s.io/drain": "the node maintenance operator",
    "node.kubernetes.io/out-of-service": "the one who fenced it",
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler",
    "karpenter.sh/disrupted": "Karpenter",
}
_MCO = "machineconfiguration.openshift.io"
_HARVESTER = "harvesterhci.io/maintain-status"


# The node


def node_seen(
    node: Obj, nodes: Sequence[Obj], kubevirt: Obj | None, record: str, control_node: str, rebooted: bool = False
) -> NodeSeen:
    """Return the state of the node, and who works on it, by its Node object. `rebooted`: since its drain."""
    ready = facts.condition(node, "Ready") or {}
    notes, spec = facts.annotations(node), node.get("spec") or {}
    config = ((kubevirt or {}).get("spec") or {}).get("configuration") or {}
    drain = (config.get("migrations") or {}).get("nodeDrainTaintKey") or "kubevirt.io/drain"
    taints = [taint["key"] for taint in spec.get("taints") or []]
    up = ready.get("status") == "True"
    reported = f"Ready is {ready.get('status', 'not reported')}: {ready.get('message', '')}".rstrip(": ")
    return NodeSeen(
        not_ready="" if up else f"{reported}.",
        silent=_silent(node, nodes, rebooted) if up else "",
        unschedulable=_unschedulable(node) if up else "",
        drain_taint=f"Taint {drain}." if drain in taints else "",
        other_maintenance=tuple(_others(taints, notes)),
        cordoned_by_others=cordoned(node) and names.CORDON not in notes,
        record=record,
        control_node=control_node,
    )


def _silent(node: Obj, nodes: Sequence[Obj], rebooted: bool) -> str:
    """Against the newest heartbeat of all nodes, so that no clock of ours is believed.

    After a reboot against the node's own Ready too: label and heartbeat are still those of before it. Without one
    that says nothing: where only the kubelet restarts, Ready is newer than the heartbeat for up to 132 s.
    """
    newest = now_of(nodes)
    own = facts.seconds(facts.annotations(node).get("kubevirt.io/heartbeat"))
    if own and newest - own > SILENT_AFTER:
        return f"Its last heartbeat is {newest - own:.0f} s older than the newest of all nodes."
    ready = facts.seconds((facts.condition(node, "Ready") or {}).get("lastTransitionTime"))
    if own and own < ready and rebooted:
        return "virt-handler has sent no heartbeat since the node rebooted."
    return ""


def _unschedulable(node: Obj) -> str:
    """KubeVirt makes it true with the second heartbeat of a virt-handler that has started: 60 to 132 s later."""
    label = facts.labels(node).get(names.SCHEDULABLE)
    if label == "true":
        return ""
    beat = facts.annotations(node).get("kubevirt.io/heartbeat") or "none"
    return f"Its label {names.SCHEDULABLE} is {label or 'not there'}; virt-handler's last heartbeat: {beat}."


def now_of(nodes: Iterable[Obj]) -> float:
    """The cluster's time, as its nodes report it: the newest heartbeat."""
    stamps = [facts.annotations(node).get("kubevirt.io/heartbeat") for node in nodes]
    return max((facts.seconds(stamp) for stamp in stamps), default=0.0)


def _others(taints: Sequence[str], notes: Mapping[str, str]) -> Iterable[str]:
    for key, who in _OTHERS_TAINTS.items():
        if key in taints:
            yield f"Taint {key}: {who}."
    wanted, done = notes.get(f"{_MCO}/desiredDrain"), notes.get(f"{_MCO}/lastAppliedDrain")
    if wanted and wanted != done:
        yield f"The machine config operator wants {wanted}."
    elif notes.get(f"{_MCO}/state") == "Working":
        yield "The machine config operator is working on it."
    if notes.get(_HARVESTER):
        yield f"Harvester's maintenance mode is {notes[_HARVESTER]}."


# The cluster


def cluster_seen(found: ClusterObjects, webhook: str) -> ClusterSeen:
    """KubeVirt's own object, and others that move VMs."""
    obj = found.kubevirt
    if obj is None:
        return ClusterSeen(unhealthy="There is no KubeVirt object.", webhook=webhook)
    status, spec = facts.status(obj), obj.get("spec") or {}
    migrations = (spec.get("configuration") or {}).get("migrations") or {}
    version = facts.version(status.get("observedKubeVirtVersion", ""))
    upgrading = status.get("observedDeploymentID") != status.get("targetDeploymentID")
    cannot = (0, 0) < version < (1, 7)
    slots = int(migrations.get("parallelMigrationsPerCluster", 5))
    outbound = int(migrations.get("parallelOutboundMigrationsPerNode", 2))
    return ClusterSeen(
        upgrading=_versions(status) if upgrading else "",
        unhealthy="" if upgrading else _unhealthy(obj),
        webhook=webhook,
        no_cancel=f"It is {version[0]}.{version[1]}." if cannot else "",
        descheduler=_descheduler(found),
        updater=_updater(found),
        in_the_clear="Its migrations.disableTLS is true." if migrations.get("disableTLS") else "",
        slots=slots,
        outbound=outbound,
        no_slots=no_slots(slots, outbound),
    )


def _versions(status: Obj) -> str:
    here, there = status.get("observedKubeVirtVersion"), status.get("targetKubeVirtVersion")
    return f"From {here or '?'} to {there or '?'}."


def _unhealthy(obj: Obj) -> str:
    if facts.phase(obj) != "Deployed":
        return f"Its phase is {facts.phase(obj) or 'not reported'}."
    for kind, bad in (("Available", "False"), ("Degraded", "True")):
        condition = facts.condition(obj, kind)
        if condition is not None and condition.get("status") == bad:
            return f"{kind} is {bad}: {condition.get('message', '')}".rstrip(": ") + "."
    return ""


def _descheduler(found: ClusterObjects) -> str:
    for pod in found.pods:
        labels = facts.labels(pod)
        named = "descheduler" in (labels.get("app"), labels.get("app.kubernetes.io/name"))
        if named and not facts.final(pod):
            return "Pod {}/{}.".format(*facts.key(pod))
    for vmi in found.vmis:
        if from_descheduler(vmi) and facts.mark(vmi):
            return "It asked VM {}/{} to move.".format(*facts.key(vmi))
    return ""


def _updater(found: ClusterObjects) -> str:
    for migration in found.migrations:
        if names.UPDATE in facts.annotations(migration) and not facts.final(migration):
            return "Migration {}/{}.".format(*facts.key(migration))
    spec = (found.kubevirt or {}).get("spec") or {}
    methods = (spec.get("workloadUpdateStrategy") or {}).get("workloadUpdateMethods") or []
    old = [vmi for vmi in found.vmis if OUTDATED in facts.labels(vmi) and not facts.final(vmi)]
    if methods and old:
        return f"It has {count(len(old), 'VM')} to update, and may use {', '.join(methods)}."
    return ""


def stuck(found: ClusterObjects) -> list[StuckWork]:
    """Migrations that nothing ends: a node of theirs is down, or they are too old for a phase."""
    down = {n["metadata"]["name"] for n in found.nodes if not facts.is_true(n, "Ready")}
    by_key = {facts.key(vmi): vmi for vmi in found.vmis}
    now, works = now_of(found.nodes), []
    for migration in found.migrations:
        phase = facts.phase(migration)
        if not holds_slot(migration):
            continue
        namespace = migration["metadata"]["namespace"]
        name = migration["spec"].get("vmiName", "")
        vmi = by_key.get((namespace, name))
        state = facts.state_of(vmi, migration) if vmi is not None else {}
        source = source_of(vmi, migration)
        gone = sorted({source, state.get("targetNode") or ""} & down)
        age = now - facts.seconds(facts.entered(migration))
        if gone:
            why = f"it is {phase}, and {', '.join(gone)} is not Ready"
        elif phase in _ENDLESS and now and age > STUCK_AFTER:
            why = f"it is {phase} since {age:.0f} s"
        else:
            continue
        text = f"Migration {namespace}/{migration['metadata']['name']}: {why}."
        works.append(StuckWork(f"{namespace}/{name}", source, text))
    return works
