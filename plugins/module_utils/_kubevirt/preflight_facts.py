# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Preflight of a KubeVirt node: objects read into the core's facts. Pure but for `read`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._core.model import VM, State
from .._core.preflight_facts import ClusterSeen, NodeSeen, StuckWork, VMSeen
from .._core.record import NodeRecord
from . import facts, names
from .affinity import between
from .askers import from_descheduler
from .client import Client
from .document import vmi_document
from .errors import AccessDenied
from .preflight_limits import budgets_of, pod_needs, quotas_left, taken
from .preflight_targets import MIB, Target, claims, refusals, wants

Obj = dict[str, Any]

# A heartbeat comes about every minute; KubeVirt gives a node up after five (its node controller).
SILENT_AFTER = 300.0
# Nothing ends a migration that waits in one of these phases.
_ENDLESS = ("Scheduling", "Scheduled", "PreparingTarget", "TargetReady")
# KubeVirt gives up a target pod after 900 s in any phase before this.
STUCK_AFTER = 900.0
_HOLDS_NO_SLOT = ("", "Pending", "WaitingForSync", "Synchronizing")
_STARTING = ("Pending", "Scheduling", "Scheduled", "")
OUTDATED = "kubevirt.io/outdatedLauncherImage"
# Taints and annotations by which other tools say that they work on a node.
_OTHERS_TAINTS = {
    "medik8s.io/drain": "the node maintenance operator",
    "node.kubernetes.io/out-of-service": "whoever fenced it",
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler",
    "karpenter.sh/disrupted": "Karpenter",
}
_DATA_VOLUMES = ("persistentVolumeClaim", "dataVolume", "hostDisk", "emptyDisk", "ephemeral")
_MCO = "machineconfiguration.openshift.io"
_HARVESTER = "harvesterhci.io/maintain-status"


@dataclass
class Read:
    """The objects of one pass. `unread`: what the account may not list, in words.

    `volumes`: namespace and name of a claim -> the nodeSelectorTerms of its volume.
    """

    nodes: list[Obj] = field(default_factory=list)
    pods: list[Obj] = field(default_factory=list)
    vmis: list[Obj] = field(default_factory=list)
    migrations: list[Obj] = field(default_factory=list)
    kubevirt: Obj | None = None
    vms: dict[tuple[str, str], Obj] = field(default_factory=dict)
    quotas: dict[str, list[Obj]] = field(default_factory=dict)
    budgets: dict[str, list[Obj]] = field(default_factory=dict)
    volumes: dict[tuple[str, str], list[Obj]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


def read(client: Client) -> Read:
    """Lists only. Raises AccessDenied for what a drain cannot do without."""
    found = Read(
        nodes=client.list(f"{names.CORE}/nodes")[0],
        pods=client.list(f"{names.CORE}/pods")[0],
        vmis=client.list(f"{names.KUBEVIRT}/virtualmachineinstances")[0],
        migrations=client.list(f"{names.KUBEVIRT}/virtualmachineinstancemigrations")[0],
    )
    kubevirts = client.list(f"{names.KUBEVIRT}/kubevirts")[0]
    found.kubevirt = kubevirts[0] if kubevirts else None
    for vm in _optional(client, found, f"{names.KUBEVIRT}/virtualmachines", "run strategies"):
        found.vms[facts.key(vm)] = vm
    for quota in _optional(client, found, f"{names.CORE}/resourcequotas", "quotas"):
        found.quotas.setdefault(quota["metadata"]["namespace"], []).append(quota)
    path = "/apis/policy/v1/poddisruptionbudgets"
    for budget in _optional(client, found, path, "disruption budgets"):
        found.budgets.setdefault(budget["metadata"]["namespace"], []).append(budget)
    if any(claims(vmi) for vmi in found.vmis):
        for volume in _optional(client, found, f"{names.CORE}/persistentvolumes", "volumes' zones"):
            found.volumes.update(_zones(volume))
    return found


def _zones(volume: Obj) -> dict[tuple[str, str], list[Obj]]:
    spec = volume.get("spec") or {}
    claim = spec.get("claimRef") or {}
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    if not claim.get("name") or not required.get("nodeSelectorTerms"):
        return {}
    return {(claim.get("namespace", ""), claim["name"]): required["nodeSelectorTerms"]}


def _optional(client: Client, found: Read, path: str, what: str) -> list[Obj]:
    try:
        return client.list(path)[0]
    except AccessDenied as exc:
        found.unread.append(f"The {what}: {exc}")
        return []


# The node


def node_seen(
    node: Obj, nodes: Sequence[Obj], kubevirt: Obj | None, record: str, runs_us: str
) -> NodeSeen:
    """What the Node object says of its own state and of who works on it."""
    ready = facts.condition(node, "Ready") or {}
    notes, spec = facts.annotations(node), node.get("spec") or {}
    config = ((kubevirt or {}).get("spec") or {}).get("configuration") or {}
    drain = (config.get("migrations") or {}).get("nodeDrainTaintKey") or "kubevirt.io/drain"
    taints = [taint["key"] for taint in spec.get("taints") or []]
    up = ready.get("status") == "True"
    told = f"Ready is {ready.get('status', 'not told')}: {ready.get('message', '')}".rstrip(": ")
    return NodeSeen(
        not_ready="" if up else f"{told}.",
        silent=_silent(node, nodes) if up else "",
        drain_taint=f"Taint {drain}." if drain in taints else "",
        others=tuple(_others(taints, notes)),
        cordoned_by_others=bool(spec.get("unschedulable")) and names.CORDON not in notes,
        record=record,
        runs_us=runs_us,
    )


def _silent(node: Obj, nodes: Sequence[Obj]) -> str:
    """Against the newest heartbeat of all nodes, so that no clock of ours is believed."""
    label = facts.labels(node).get(names.SCHEDULABLE)
    if label != "true":
        return f"The label kubevirt.io/schedulable is {label or 'not there'}."
    newest = now_of(nodes)
    own = facts.seconds(facts.annotations(node).get("kubevirt.io/heartbeat"))
    if own and newest - own > SILENT_AFTER:
        return f"Its last heartbeat is {newest - own:.0f} s older than the newest of all nodes."
    return ""


def now_of(nodes: Iterable[Obj]) -> float:
    """The cluster's time, as its nodes tell it: the newest heartbeat."""
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
        yield "The machine config operator works on it."
    if notes.get(_HARVESTER):
        yield f"Harvester's maintenance mode is {notes[_HARVESTER]}."


# The cluster


def cluster_seen(found: Read, webhook: str) -> ClusterSeen:
    """KubeVirt's own object, and others that move VMs."""
    obj = found.kubevirt
    if obj is None:
        return ClusterSeen(unhealthy="There is no KubeVirt object.", webhook=webhook)
    status, spec = facts.status(obj), obj.get("spec") or {}
    migrations = (spec.get("configuration") or {}).get("migrations") or {}
    version = facts.version(status.get("observedKubeVirtVersion", ""))
    upgrading = status.get("observedDeploymentID") != status.get("targetDeploymentID")
    cannot = (0, 0) < version < (1, 7)
    return ClusterSeen(
        upgrading=_versions(status) if upgrading else "",
        unhealthy="" if upgrading else _unhealthy(obj),
        webhook=webhook,
        no_cancel=f"It is {version[0]}.{version[1]}." if cannot else "",
        descheduler=_descheduler(found),
        updater=_updater(found),
        in_the_clear="Its migrations.disableTLS is true." if migrations.get("disableTLS") else "",
        slots=int(migrations.get("parallelMigrationsPerCluster", 5)),
        outbound=int(migrations.get("parallelOutboundMigrationsPerNode", 2)),
    )


def _versions(status: Obj) -> str:
    here, there = status.get("observedKubeVirtVersion"), status.get("targetKubeVirtVersion")
    return f"From {here or '?'} to {there or '?'}."


def _unhealthy(obj: Obj) -> str:
    if facts.phase(obj) != "Deployed":
        return f"Its phase is {facts.phase(obj) or 'not told'}."
    for kind, bad in (("Available", "False"), ("Degraded", "True")):
        condition = facts.condition(obj, kind)
        if condition is not None and condition.get("status") == bad:
            return f"{kind} is {bad}: {condition.get('message', '')}".rstrip(": ") + "."
    return ""


def _descheduler(found: Read) -> str:
    for pod in found.pods:
        labels = facts.labels(pod)
        named = "descheduler" in (labels.get("app"), labels.get("app.kubernetes.io/name"))
        if named and not facts.final(pod):
            return "Pod {}/{}.".format(*facts.key(pod))
    for vmi in found.vmis:
        if from_descheduler(vmi) and facts.mark(vmi):
            return "It asked VM {}/{} to move.".format(*facts.key(vmi))
    return ""


def _updater(found: Read) -> str:
    for migration in found.migrations:
        if names.UPDATE in facts.annotations(migration) and not facts.final(migration):
            return "Migration {}/{}.".format(*facts.key(migration))
    spec = (found.kubevirt or {}).get("spec") or {}
    methods = (spec.get("workloadUpdateStrategy") or {}).get("workloadUpdateMethods") or []
    old = [vmi for vmi in found.vmis if OUTDATED in facts.labels(vmi) and not facts.final(vmi)]
    if methods and old:
        return f"{len(old)} VMs are outdated, and it may use {', '.join(methods)}."
    return ""


def stuck(found: Read) -> list[StuckWork]:
    """Migrations that nothing ends: a node of theirs is down, or they are too old for a phase."""
    down = {n["metadata"]["name"] for n in found.nodes if not facts.is_true(n, "Ready")}
    by_key = {facts.key(vmi): vmi for vmi in found.vmis}
    now, works = now_of(found.nodes), []
    for migration in found.migrations:
        phase = facts.phase(migration)
        if facts.final(migration) or phase in _HOLDS_NO_SLOT:
            continue
        namespace = migration["metadata"]["namespace"]
        name = migration["spec"].get("vmiName", "")
        vmi = by_key.get((namespace, name))
        state = facts.state_of(vmi, migration) if vmi is not None else {}
        source = state.get("sourceNode") or (facts.status(vmi).get("nodeName") if vmi else "") or ""
        gone = sorted({source, state.get("targetNode") or ""} & down)
        age = now - _since(migration)
        if gone:
            why = f"it is {phase}, and {', '.join(gone)} is not Ready"
        elif phase in _ENDLESS and now and age > STUCK_AFTER:
            why = f"it is {phase} since {age:.0f} s"
        else:
            continue
        text = f"Migration {namespace}/{migration['metadata']['name']}: {why}."
        works.append(StuckWork(f"{namespace}/{name}", source, text))
    return works


def _since(migration: Obj) -> float:
    """When it entered its phase."""
    stamps = [
        facts.seconds(entry.get("phaseTransitionTimestamp"))
        for entry in facts.status(migration).get("phaseTransitionTimestamps") or []
        if entry.get("phase") == facts.phase(migration)
    ]
    return max(stamps, default=facts.seconds(migration["metadata"].get("creationTimestamp")))


# The VMs


def vm_of(
    vmi: Obj,
    node: str,
    default_strategy: str,
    machine: Obj | None,
    dirty_rate: float | None = None,
) -> VM:
    """The core's VM, as the drain sees it. `machine`: its VirtualMachine, if it has one."""
    able, findings = facts.migratable(vmi)
    namespace, name = facts.key(vmi)
    return VM(
        uuid=facts.identity(vmi),
        name=f"{namespace}/{name}",
        node=node,
        state=State.RUNNING,
        memory_mib=facts.memory_mib(vmi),
        declared_strategy=vmi["spec"].get("evictionStrategy") or default_strategy,
        labels=facts.labels(vmi),
        persistent=facts.owner(vmi) is not None,
        marked=bool(facts.mark(vmi)),
        method=facts.method(vmi),
        migratable=able,
        findings=findings,
        document=vmi_document(vmi, machine, dirty_rate),
    )


@dataclass
class Around:
    """What the facts of a VM are read against. Indexes, so that each VM costs the same."""

    found: Read
    node: Obj
    targets: Sequence[Target]
    record: NodeRecord | None
    moving: dict[tuple[str, str], Obj] = field(default_factory=dict)
    _pods: dict[str, list[Obj]] = field(default_factory=dict)
    _taken: dict[tuple[str, str], float] = field(default_factory=dict)

    def taken(self, namespace: str, resource: str) -> float:
        """What the pods of a namespace use, for a quota that does not tell yet."""
        if not self._pods:
            for pod in self.found.pods:
                self._pods.setdefault(pod["metadata"].get("namespace", ""), []).append(pod)
        at = (namespace, resource)
        if at not in self._taken:
            self._taken[at] = taken(self._pods.get(namespace, ()), resource)
        return self._taken[at]

    def __post_init__(self) -> None:
        for migration in self.found.migrations:
            if not facts.final(migration):
                at = (migration["metadata"]["namespace"], migration["spec"].get("vmiName", ""))
                self.moving[at] = migration


def vm_seen(vmi: Obj, pod: Obj | None, around: Around) -> VMSeen:
    """More of a VM. `pod`: its launcher pod on the node."""
    found, key = around.found, facts.key(vmi)
    vm = found.vms.get(key) if facts.owner(vmi) is not None else None
    if facts.phase(vmi) in _STARTING:
        return VMSeen(starting=facts.phase(vmi) or "not told")
    paused, soft = _paused(vmi)
    copied = facts.status(vmi).get("migrationMethod") == "BlockMigration"
    quotas = found.quotas.get(key[0], ())
    return VMSeen(
        paused=paused,
        paused_soft=soft,
        stays_off=_stays_off(vmi, vm),
        backup=_backup(vmi),
        snapshot=_snapshot(vm),
        utility_volumes=", ".join(v["name"] for v in vmi["spec"].get("utilityVolumes") or []),
        local_disks=tuple(_own_volumes(vmi)) if copied else (),
        refused=refusals(around.targets, wants(vmi, pod, around.node, found.volumes)),
        unchecked=between(vmi).unchecked,
        quotas=tuple(quotas_left(quotas, pod, lambda what: around.taken(key[0], what))),
        budgets=budgets_of(found.budgets.get(key[0], ()), pod) if pod is not None else (),
        left_mark=f"evacuationNodeName is {facts.mark(vmi)}." if facts.mark(vmi) else "",
        foreign=_foreign(around, key),
        pod_mib=int(pod_needs(pod).get("memory", 0.0) / MIB),
    )


def _paused(vmi: Obj) -> tuple[str, bool]:
    found = facts.condition(vmi, "Paused")
    if found is None or found.get("status") != "True":
        return "", False
    reason = found.get("reason", "")
    return f"It is paused ({reason}).", reason != "PausedIOError"


def _stays_off(vmi: Obj, vm: Obj | None) -> str:
    if facts.owner(vmi) is None:
        return "It has no VirtualMachine that would start it again."
    if vm is None:
        return ""
    spec = vm.get("spec") or {}
    strategy = spec.get("runStrategy") or ("Always" if spec.get("running") else "Halted")
    return "" if strategy == "Always" else f"Its runStrategy is {strategy}."


def _backup(vmi: Obj) -> str:
    tracking = facts.status(vmi).get("changedBlockTracking") or {}
    backup = tracking.get("backupStatus")
    if not backup or backup.get("completed") or backup.get("failed") or backup.get("endTimestamp"):
        return ""
    return f"Backup {backup.get('backupName', '')} runs; an evacuation aborts it."


def _snapshot(vm: Obj | None) -> str:
    status = facts.status(vm) if vm is not None else {}
    if status.get("snapshotInProgress"):
        return f"Snapshot {status['snapshotInProgress']}."
    if status.get("restoreInProgress"):
        return f"Restore {status['restoreInProgress']}."
    return ""


def _own_volumes(vmi: Obj) -> Iterable[str]:
    """Volumes with data of the VM's own that no other node can mount.

    KubeVirt calls it a block migration as well for an image or a cloud-init disk: those are small.
    """
    shared = set()
    for told in facts.status(vmi).get("volumeStatus") or []:
        modes = (told.get("persistentVolumeClaimInfo") or {}).get("accessModes") or []
        if "ReadWriteMany" in modes:
            shared.add(told["name"])
    for volume in vmi["spec"].get("volumes") or []:
        if volume["name"] not in shared and any(kind in volume for kind in _DATA_VOLUMES):
            yield volume["name"]


def _foreign(around: Around, key: tuple[str, str]) -> str:
    migration = around.moving.get(key)
    if migration is None or around.record is not None:
        return ""
    phase = facts.phase(migration) or "Pending"
    return f"Migration {migration['metadata']['name']} is {phase}."
