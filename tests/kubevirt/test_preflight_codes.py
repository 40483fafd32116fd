"""Each code of the preflight that a cluster can have is planted once over HTTP and found, and
nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import OnNotMigratable
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import CHECKED, Platform, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import names
from ansible_collections.virtops.maintenance.tests.kubevirt.still_cluster import Still, budget
from kubesim import templates
from kubesim.kinds import PODS, VMIS
from kubesim.reading import add_budget, add_pod


def condition(kind: str, value: str, reason: str = "", message: str = "why") -> dict[str, Any]:
    return {"type": kind, "status": value, "reason": reason, "message": message}


def taint(key: str) -> dict[str, Any]:
    return {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}


# Planting: each puts one thing into a cluster with one VM. It may return the policy.

Plant = Callable[[Still], Any]


def cannot(reason: str) -> Plant:
    told = condition("LiveMigratable", "False", reason)
    return lambda still: still.vm(vmi={"status": {"conditions": [told]}})


def vmi(run: Any = None, **changes: Any) -> Plant:
    def plant(still: Still) -> Any:
        still.vm(vmi=changes)
        return run

    return plant


def node(**changes: Any) -> Plant:
    def plant(still: Still) -> None:
        still.vm()
        still.node("n1", **changes)

    return plant


def others(**changes: Any) -> Plant:
    def plant(still: Still) -> None:
        still.vm()
        still.node("n2", **changes)
        still.node("n3", **changes)

    return plant


def kubevirt(**changes: Any) -> Plant:
    def plant(still: Still) -> None:
        still.vm()
        still.kubevirt(**changes)

    return plant


def selector(still: Still) -> None:
    still.vm(pod={"spec": {"nodeSelector": {"pool": "gold"}}})


def vendor(still: Still) -> None:
    still.vm()
    still.node("n1", metadata={"labels": {"cpu-vendor.node.kubevirt.io/Intel": "true"}})
    for name in ("n2", "n3"):
        still.node(name, metadata={"labels": {"cpu-vendor.node.kubevirt.io/AMD": "true"}})


def cpu_model(still: Still) -> None:
    still.vm()
    still.node("n1", metadata={"labels": {"host-model-cpu.node.kubevirt.io/Skylake": "true"}})


def room(still: Still) -> None:
    still.vm()
    for name in ("n2", "n3"):
        still.node(name, status={"allocatable": {"memory": "1Gi"}})


def too_full(still: Still) -> None:
    """Each of the two fits, both do not."""
    still.vm()
    still.vm("vm2")
    still.node("n2", spec={"unschedulable": True})
    still.node("n3", status={"allocatable": {"memory": "2Gi"}})


def quota(still: Still) -> None:
    still.vm()
    meta = {"name": "small", "namespace": "default"}
    still.sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": {"pods": "1"}}})


def copied(still: Still) -> None:
    volumes = [{"name": "data", "emptyDisk": {"capacity": "1Gi"}}]
    status = {"migrationMethod": "BlockMigration"}
    still.vm(vmi={"spec": {"volumes": volumes}, "status": status})


def blocking_budget(still: Still) -> Any:
    still.vm(strategy="None")
    budget(still, "all-of-them", minAvailable=1)
    return {"allow_stop": True}


def stays_off(still: Still) -> Any:
    still.vm(strategy="None", run_strategy="Manual")
    return {"allow_stop": True}


def bare(still: Still) -> Any:
    still.vm(strategy="None", run_strategy="")
    return {"allow_stop": True}


def skipped(still: Still) -> Any:
    cannot("DisksNotLiveMigratable")(still)
    return {"on_not_migratable": OnNotMigratable.SKIP}


def starting(still: Still) -> None:
    meta = {"labels": {"kubevirt.io/nodeName": ""}}
    still.vm(vmi={"metadata": meta, "status": {"phase": "Scheduling", "nodeName": ""}})


def snapshot(still: Still) -> None:
    still.vm(vm={"status": {"snapshotInProgress": "before-update"}})


def in_flight(still: Still) -> None:
    still.vm()
    still.migration("by-hand", "Running")


def inbound(still: Still) -> None:
    still.vm("vm", "n2")
    uid = still.sim.find(VMIS, "vm")["metadata"]["uid"]
    labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": uid}
    labels["kubevirt.io/migrationJobUID"] = "m"
    meta = {"name": "virt-launcher-vm-y", "namespace": "default", "labels": labels}
    spec = {"nodeName": "n1", "containers": [templates.container()]}
    status = {"phase": "Running"}
    still.sim.add("pods", {"metadata": meta, "spec": spec, "status": status})


def stuck(still: Still) -> None:
    """Two of them: that is all that may leave a node at once."""
    still.vm()
    for name in ("m1", "m2"):
        still.migration(name, "TargetReady", since="2020-01-01T00:00:00Z")


def record(still: Still) -> None:
    still.vm()
    text = NodeRecord("n1", "r1", requester="ann", started_wall="2026-01-01").to_json()
    still.node("n1", metadata={"annotations": {names.RECORD: text}})


def an_agent_silent(still: Still) -> None:
    still.vm("web", "n2")
    record = NodeRecord("n1", "r1")
    uuid = still.sim.find(VMIS, "web")["metadata"]["ownerReferences"][0]["uid"]
    record.vms[uuid] = VMRecord(uuid, "default/web", agent=True, ending="moved")
    still.node("n1", metadata={"annotations": {names.RECORD: record.to_json()}})


def descheduler(still: Still) -> None:
    still.vm()
    meta = {"name": "d", "namespace": "kube-system", "labels": {"app": "descheduler"}}
    spec = {"containers": [templates.container()]}
    still.sim.add("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Running"}})


def updater(still: Still) -> None:
    still.vm()
    still.migration("update-1", "Pending", **{names.UPDATE: ""})


def silent(still: Still) -> None:
    still.vm()
    notes = {"kubevirt.io/heartbeat": "2020-01-01T00:00:00Z"}
    still.node("n1", metadata={"annotations": notes})


def not_schedulable(still: Still) -> None:
    still.vm()
    still.node("n1", metadata={"labels": {"kubevirt.io/schedulable": "false"}})


def webhook(still: Still) -> None:
    still.vm()
    still.sim.world.virt_api_down = True


def no_right(still: Still) -> None:
    still.vm()
    still.forbid("pods/eviction")


def unread(still: Still) -> None:
    still.vm()
    still.forbid("resourcequotas")


def settings(still: Still) -> Any:
    still.vm()
    rules = [{"name": "slowed", "migration": {"auto_converge": True}}]
    return {"rules": options.rules(rules)}


def slow(still: Still) -> None:
    still.vm()
    still.kubevirt(
        spec={"configuration": {"migrations": {"bandwidthPerMigration": "1Mi", "completionTimeoutPerGiB": 2}}}
    )


def eviction_fails(still: Still) -> None:
    still.vm()
    still.sim.api.faults.plan(500, matches=lambda _method, path: path.endswith("/eviction"))


def pod(**more: Any) -> Plant:
    """Another pod on the node; see add_pod."""

    def plant(still: Still) -> None:
        still.vm()
        add_pod(still.sim, "odd", "n1", **more)

    return plant


def ending_pod(still: Still) -> None:
    pod()(still)
    stamp = {"deletionTimestamp": "2099-01-01T00:00:00Z"}
    still.sim.edit(PODS, "odd", lambda o: o["metadata"].update(stamp), "default")


def never_computed(still: Still) -> None:
    pod(owner="Controller/orders", labels={"app": "odd"})(still)
    add_budget(still.sim, "percent", None, app="odd")


PLANTS: dict[Reason, Plant] = {
    **{
        Reason(reason.value): cannot(reason.value)
        for reason in (
            *(
                Reason.DisksNotLiveMigratable,
                Reason.InterfaceNotLiveMigratable,
                Reason.HotplugNotLiveMigratable,
                Reason.VirtIOFSNotLiveMigratable,
                Reason.HostDeviceNotLiveMigratable,
            ),
            *(
                Reason.SEVNotLiveMigratable,
                Reason.SecureExecutionNotLiveMigratable,
                Reason.TDXNotLiveMigratable,
                Reason.HypervPassthroughNotLiveMigratable,
            ),
            Reason.PersistentReservationNotLiveMigratable,
        )
    },
    Reason.CPUModelNotLiveMigratable: cpu_model,
    Reason.StateNotLiveMigratable: vmi(
        status={"conditions": [condition("LiveMigratable", "True"), condition("Paused", "True", "PausedIOError")]}
    ),
    Reason.MigratableNotKnown: vmi(status={"conditions": []}),
    Reason.NoTargetWithCapacity: room,
    Reason.NoTargetForSelector: selector,
    Reason.NoTargetForCPUVendor: vendor,
    Reason.NoTargetTolerated: others(**taint("dedicated")),
    Reason.LastSchedulableNode: others(spec={"unschedulable": True}),
    Reason.FleetTooFull: too_full,
    Reason.QuotaExceeded: quota,
    Reason.StorageOnlyHere: copied,
    Reason.StopNotAllowed: lambda still: still.vm(strategy="None"),
    Reason.SkippedByPolicy: skipped,
    Reason.ExternalOwner: lambda still: still.vm(strategy="External"),
    Reason.StaysOff: stays_off,
    Reason.TransientDomain: bare,
    Reason.DisruptionBudget: blocking_budget,
    Reason.PodNotManaged: pod(owner=""),
    Reason.PodHasLocalData: pod(empty_dir=True),
    Reason.PodOfDaemonSet: pod(owner="DaemonSet/lost"),
    Reason.PodStillTerminating: ending_pod,
    Reason.PodNotCompleted: pod(labels={"cluster.x-k8s.io/drain": "wait-completed"}),
    Reason.LastReadyReplica: pod(owner="Controller/virt-api", labels={"kubevirt.io": "virt-api"}),
    Reason.DisruptionBudgetNotComputed: never_computed,
    Reason.RuleSettingsNotApplied: settings,
    Reason.CompletionTimeout: slow,
    Reason.VMStarting: starting,
    Reason.BackupInProgress: vmi(
        status={
            "changedBlockTracking": {
                "state": "Enabled",
                "backupStatus": {"backupName": "nightly", "startTimestamp": "2026-01-01T00:00:00Z"},
            }
        }
    ),
    Reason.SnapshotInProgress: snapshot,
    Reason.UtilityVolumesPresent: vmi(spec={"utilityVolumes": [{"name": "scratch", "claimName": "c"}]}),
    Reason.MigrationInFlight: in_flight,
    Reason.InboundMigration: inbound,
    Reason.StuckMigration: stuck,
    Reason.LeftoverMark: vmi(status={"evacuationNodeName": "n1"}),
    Reason.MaintenanceUnderWay: record,
    Reason.DrainTaint: node(**taint("kubevirt.io/drain")),
    Reason.GuestAgentSilent: an_agent_silent,
    Reason.CordonedByOthers: node(spec={"unschedulable": True}),
    Reason.OthersMaintenance: node(**taint("medik8s.io/drain")),
    Reason.DeschedulerAtWork: descheduler,
    Reason.WorkloadUpdaterAtWork: updater,
    Reason.NodeNotReady: node(status={"conditions": [condition("Ready", "Unknown")]}),
    Reason.VirtHandlerSilent: silent,
    Reason.NodeNotSchedulable: not_schedulable,
    Reason.MigrationLimitZero: kubevirt(
        spec={"configuration": {"migrations": {"parallelOutboundMigrationsPerNode": 0}}}
    ),
    Reason.KubeVirtUpgrading: kubevirt(status={"targetDeploymentID": "2"}),
    Reason.KubeVirtUnhealthy: kubevirt(status={"conditions": [condition("Available", "False")]}),
    Reason.MigrationInTheClear: kubevirt(spec={"configuration": {"migrations": {"disableTLS": True}}}),
    Reason.EvacuationCannotBeCancelled: kubevirt(status={"observedKubeVirtVersion": "v1.6.2"}),
    Reason.WebhookUnavailable: webhook,
    Reason.APIError: eviction_fails,
    Reason.Forbidden: no_right,
    Reason.NotChecked: unread,
}
# Where they are planted instead.
# Who runs KubeVirt reads of nodes and objects.
OF_HOSTS = re.compile(r"\bhosts?\b|libvirt|virsh|\bdomains?'?\b|QEMU|(un)?defined\b")
ELSEWHERE = {
    Reason.RunsTheMaintenance: "test_preflight.py::test_our_own_pod_and_our_own_machine",
    Reason.NotConverging: "test_metrics.py: it takes a server of metrics",
    Reason.Undecided: "rules: tests/unit/plugins/module_utils/_libvirt/preflight/test_codes.py",
}


def test_every_code_of_this_platform_is_planted_here() -> None:
    here = {c for c, info in CHECKED.items() if Platform.KUBEVIRT in info.platforms}
    assert here - set(ELSEWHERE) == set(PLANTS)


@pytest.mark.parametrize("member", PLANTS, ids=lambda member: member.value)
def test_what_is_planted_is_found_and_nothing_is_written(still: Still, member: Reason) -> None:
    policy = PLANTS[member](still) or {}
    told = still.told(**policy)
    assert member in told, sorted(told)
    assert told[member]["severity"] in (CHECKED[member].severity.value, "warning")
    for key in ("subject", "sentence", "remedy", "decided_by", "plane"):
        assert told[member][key], key
    words = "{sentence} {remedy} {decided_by}".format(**told[member]).replace("host-model", "")
    assert OF_HOSTS.findall(words) == []
    mild = {Reason.MigratableNotKnown}  # a blocker by default, but not here
    if member not in mild:
        assert told[member]["severity"] == CHECKED[member].severity.value
