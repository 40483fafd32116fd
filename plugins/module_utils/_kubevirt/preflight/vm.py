"""Preflight of a KubeVirt node: its VMs, read into the core's facts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..._core.model.observation import VM, State
from ..._core.model.record import NodeRecord
from ..._core.preflight.facts import VMSeen
from ..._core.reasons.reason import Reason
from ..objects import facts
from ..objects.affinity import pod_affinity
from ..objects.document import vmi_document
from ..objects.quotas import budgets_of, pod_needs, quotas_left, taken
from ..placement.targets import MIB, Target, refusals, requirements_of
from .read import ClusterObjects, Obj

_STARTING = ("Pending", "Scheduling", "Scheduled", "")
_OF_A_MIGRATION = frozenset({Reason.NoTargetForCPUVendor, Reason.CPUModelNotLiveMigratable})
_DATA_VOLUMES = ("persistentVolumeClaim", "dataVolume", "hostDisk", "emptyDisk", "ephemeral")


def vm_of(vmi: Obj, node: str, default_strategy: str, machine: Obj | None, dirty_rate: float | None = None) -> VM:
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
        persistent=not facts.never_stopped(vmi),
        marked=bool(facts.mark(vmi)),
        method=facts.method(vmi),
        migratable=able,
        findings=findings,
        shutdown_findings=facts.never_stopped(vmi),
        document=vmi_document(vmi, machine, dirty_rate),
    )


@dataclass
class Around:
    """The surroundings against which the facts of a VM are read. Indexes, so that each VM costs the same."""

    found: ClusterObjects
    node: Obj
    targets: Sequence[Target]
    record: NodeRecord | None
    moving: dict[tuple[str, str], Obj] = field(default_factory=dict)
    _pods: dict[str, list[Obj]] = field(default_factory=dict)
    _taken: dict[tuple[str, str], float] = field(default_factory=dict)

    def taken(self, namespace: str, resource: str) -> float:
        """How much of a resource the pods of a namespace use, for a quota that has no status yet."""
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
        return VMSeen(starting=facts.phase(vmi) or "not reported")
    paused, soft = _paused(vmi)
    copied = facts.status(vmi).get("migrationMethod") == "BlockMigration"
    quotas = found.quotas.get(key[0], ())
    wanted = requirements_of(vmi, pod, around.node, found.volumes, found.migrations_by_uid)
    refused = refusals(around.targets, wanted)
    return VMSeen(
        paused=paused,
        paused_soft=soft,
        stays_off=_stays_off(vm) or _only_here(refused),
        backup=_backup(vmi),
        snapshot=_snapshot(vm),
        utility_volumes=", ".join(v["name"] for v in vmi["spec"].get("utilityVolumes") or []),
        local_disks=tuple(_own_volumes(vmi)) if copied else (),
        refused=refused,
        unchecked=pod_affinity(vmi).unchecked,
        quotas=tuple(quotas_left(quotas, pod, lambda what: around.taken(key[0], what))),
        budgets=budgets_of(found.budgets.get(key[0], ()), pod) if pod is not None else (),
        stale_mark=f"evacuationNodeName is {facts.mark(vmi)}." if facts.mark(vmi) else "",
        foreign=_foreign(around, key),
        pod_mib=int(pod_needs(pod).get("memory", 0.0) / MIB),
    )


def _paused(vmi: Obj) -> tuple[str, bool]:
    found = facts.condition(vmi, "Paused")
    if found is None or found.get("status") != "True":
        return "", False
    reason = found.get("reason", "")
    return f"It is paused ({reason}).", reason != "PausedIOError"


def _stays_off(vm: Obj | None) -> str:
    if vm is None:
        return ""
    spec = vm.get("spec") or {}
    strategy = spec.get("runStrategy") or ("Always" if spec.get("running") else "Halted")
    return (
        ""
        if strategy == "Always"
        else f"It will be stopped, and stays off until the restore: its runStrategy is {strategy}."
    )


def _only_here(refused: Mapping[str, tuple[Reason, str]]) -> str:
    """Why it is started nowhere else. A start anew does not ask for the CPU of this node."""
    if not refused or any(check in _OF_A_MIGRATION for check, _why in refused.values()):
        return ""
    why = "; ".join(f"{name}: {text}" for name, (_check, text) in sorted(refused.items())[:3])
    return f"No other node takes it ({why}), so it stays off until the node is restored."


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
    for reported in facts.status(vmi).get("volumeStatus") or []:
        modes = (reported.get("persistentVolumeClaimInfo") or {}).get("accessModes") or []
        if "ReadWriteMany" in modes:
            shared.add(reported["name"])
    for volume in vmi["spec"].get("volumes") or []:
        if volume["name"] not in shared and any(kind in volume for kind in _DATA_VOLUMES):
            yield volume["name"]


def _foreign(around: Around, key: tuple[str, str]) -> str:
    migration = around.moving.get(key)
    if migration is None or around.record is not None:
        return ""
    phase = facts.phase(migration) or "Pending"
    return f"Migration {migration['metadata']['name']} is {phase}."
