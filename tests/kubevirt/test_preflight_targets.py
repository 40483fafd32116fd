"""What the preflight knows of a target before the pod exists: pods that are kept apart, zones."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.plan.fleet import read_fleet
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.check import preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.work import Request
from ansible_collections.virtops.maintenance.tests.kubevirt.one_vm import phases
from ansible_collections.virtops.maintenance.tests.kubevirt.still_cluster import Still
from kubesim import templates
from kubesim.kinds import VMIMS, VMIS

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def apart(key: str = HOST) -> dict[str, Any]:
    """Merged into VMI and pod: VMs of kind db never share a node (or a zone)."""
    term = {"labelSelector": {"matchLabels": {"kind": "db"}}, "topologyKey": key}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    meta = {"labels": {"kind": "db"}}
    return {"metadata": meta, "spec": {"affinity": {"podAntiAffinity": rule}}}


def kin(still: Still, name: str, node: str) -> None:
    still.vm(name, node, vmi=apart(), pod=apart())


def test_vms_that_never_share_a_node_need_one_without_the_others(still) -> None:
    kin(still, "vm", "n1")
    kin(still, "vm2", "n2")
    assert still.look()["findings"] == []  # n3 takes it
    kin(still, "vm3", "n3")
    found = still.told()[Reason.NoTargetWithCapacity]
    assert found["severity"] == "blocker" and found["subject"] == "VM default/vm"
    assert "n2: anti-affinity with pod default/virt-launcher-vm2-x" in found["message"]


def test_a_pod_that_wants_to_be_alone_is_asked_too(still) -> None:
    """The scheduler asks both sides."""
    still.vm(vmi={"metadata": {"labels": {"kind": "db"}}})
    for node in ("n2", "n3"):
        meta = {"name": f"alone-{node}", "namespace": "default"}
        spec = {**apart()["spec"], "nodeName": node, "containers": [templates.container()]}
        still.sim.add("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Running"}})
    assert "pod default/alone-n2" in still.told()[Reason.NoTargetWithCapacity]["message"]


def test_the_vms_own_target_pod_is_not_in_its_way(still) -> None:
    kin(still, "vm", "n1")
    kin(still, "vm2", "n3")
    uid = still.sim.find(VMIS, "vm")["metadata"]["uid"]
    labels = {"kind": "db", "kubevirt.io/created-by": uid, "kubevirt.io": "virt-launcher"}
    meta = {"name": "virt-launcher-vm-y", "namespace": "default", "labels": labels}
    spec = {**apart()["spec"], "nodeName": "n2", "containers": [templates.container()]}
    still.sim.add("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Running"}})
    assert Reason.NoTargetWithCapacity not in still.told()


def test_what_it_cannot_check_it_says(still) -> None:
    still.vm(vmi=apart(ZONE))
    found = still.told()[Reason.NotChecked]
    assert found["subject"] == "VM default/vm" and f"anti-affinity by {ZONE}" in found["message"]


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "its object was removed"])
def test_where_a_migration_sent_a_vm_says_nothing_of_the_next_one(sim, operator, one, kept) -> None:
    """KubeVirt makes each target pod from the VMI: what a migration added to the selector of its pod is not there."""
    sim.add_vm("vm", "n2")
    assert one.migrate(target="n1")["phase"] == "Migrated"
    sim.until(lambda: set(phases(sim)) == {"Succeeded"})
    (migration,) = sim.all(VMIMS)
    if not kept:
        sim.call(lambda: sim.world.store.delete(VMIMS, "default", migration["metadata"]["name"]))
    (vm,) = read_fleet(operator.auth)["vms"]
    assert vm["host"] == "n1" and vm["refused_by"] == {}
    found = preflight(Request(operator.auth, "n1", Policy(), Intent.DRAINED, "preflight"), {})
    assert [row["code"] for row in found["findings"] if row["severity"] == "blocker"] == []


def test_what_the_namespace_adds_to_each_pod_stays(still) -> None:
    labels = {"kubevirt.io/migrationJobUID": "long-gone"}
    still.vm(pod={"metadata": {"labels": labels}, "spec": {"nodeSelector": {"env": "prod"}}})
    assert "no label env=prod" in still.told()[Reason.NoTargetForSelector]["message"]


def test_room_on_a_node_that_no_vm_tolerates_is_no_room(still) -> None:
    """Each of the two fits on n3, both do not; what n2 has is for others."""
    still.vm()
    still.vm("vm2")
    for name, memory in (("n2", "64Gi"), ("n3", "2Gi")):
        still.node(name, status={"allocatable": {"memory": memory}})
    assert Reason.FleetTooFull not in still.told()
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    still.node("n2", spec={"taints": [taint]})
    assert "; n3 have 2048 MiB." in still.told()[Reason.FleetTooFull]["message"]
    # One that tolerates it may go there: then the sum says nothing against it.
    more = {"spec": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}}
    still.vm("vm3", vmi=more, pod=more)
    assert Reason.FleetTooFull not in still.told()
    # Where nobody tolerates any, each VM is told so, and nothing of a sum.
    still.node("n2", spec={"taints": [{"key": "other", "effect": "NoSchedule"}]})
    still.node("n3", spec={"taints": [{"key": "other", "effect": "NoSchedule"}]})
    told = still.told()
    assert Reason.NoTargetTolerated in told and Reason.FleetTooFull not in told


def volume(still: Still, *zones: str) -> None:
    """The VM's disk is on a volume of these zones; n2 and n3 are in zones b and c."""
    for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "c")):
        still.node(name, metadata={"labels": {ZONE: zone}})
    disk = {"name": "root", "persistentVolumeClaim": {"claimName": "root"}}
    still.vm(vmi={"spec": {"volumes": [disk]}})
    wanted = {"key": ZONE, "operator": "In", "values": list(zones)}
    terms = [{"matchExpressions": [wanted]}]
    spec = {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "default", "name": "root"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    still.sim.add("persistentvolumes", {"metadata": {"name": "pv-1"}, "spec": spec})


def test_a_volume_that_no_other_node_reaches(still) -> None:
    volume(still, "a")
    found = still.told()[Reason.NoTargetForSelector]
    assert "n2: the volume of claim root is not for this node" in found["message"]


def test_a_volume_that_one_of_them_reaches(still) -> None:
    volume(still, "a", "c")
    assert still.look()["findings"] == []


def test_volumes_that_may_not_be_listed_are_not_checked(still) -> None:
    volume(still, "a")
    still.forbid("persistentvolumes")
    found = still.told()
    assert Reason.NoTargetForSelector not in found
    assert "The volumes' zones" in found[Reason.NotChecked]["message"]
