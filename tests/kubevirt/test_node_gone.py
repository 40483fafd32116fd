"""Somebody deletes the Node object during its drain; and what a restore leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent, Superseded
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import NodeUnknown
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import platform, service
from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, documented_rules
from ansible_collections.virtops.maintenance.tests.kubevirt.one_vm import phases
from kubesim.kinds import BY_PLURAL, NODES, VMIS
from kubesim.reading import clean, row
from kubesim.words import annotations

pytestmark = pytest.mark.full

LEASES = BY_PLURAL["leases"]
LEASE = "virtops-maintenance-n1"


def begun(sim, operator):
    """A drain with one migration that runs and one VM that is marked and waits; its request."""
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 1})
    sim.add_vm("moves", "n1", migrate_seconds="30")
    sim.add_vm("waits", "n1", migrate_seconds="600")
    request = operator.request(Intent.DRAINED, "first", 1.0)
    service.run_slice(request)
    sim.until(lambda: set(phases(sim)) == {"Running", "Pending"})
    return request


def delete_node(sim) -> None:
    sim.call(lambda: sim.world.store.delete(NODES, "", "n1"))


@pytest.mark.parametrize("copied", [True, False], ids=["the run saw it go", "the run was killed"])
def test_what_must_outlive_the_node_is_kept_elsewhere(sim, operator, monkeypatch, copied) -> None:
    monkeypatch.setattr(platform, "_NODE", 0.0)  # each slice reads the Node
    request = begun(sim, operator)
    told = service.run_slice(replace(request, begun=True, cursor=""))
    delete_node(sim)
    if copied:
        found = service.run_slice(replace(request, begun=True, cursor=told["cursor"], seconds=3.0))
        assert (found["ended"], found["phase"]) == ("final", "Blocked")
        finding = found["findings"][0]
        assert finding["reason"] == "NodeUnreadable"
        assert "deleted" in finding["message"] and LEASE in finding["message"]
        assert {vm["reason"] for vm in found["vms"] if vm["verdict"] == "pending"} == {"NodeUnreadable"}, found["vms"]
    moving = "waits" if sim.node_of("moves") != "n1" else "moves"
    sim.until(lambda: "Succeeded" in phases(sim))  # a missing Node stops no migration
    assert sim.node_of(moving) in ("n2", "n3") or sim.node_of("waits") in ("n2", "n3")
    sim.add_node("n1")
    marked = [v for v in sim.all(VMIS) if v["status"].get("evacuationNodeName") == "n1"]
    assert marked
    again = operator.slice(Intent.DRAINED, 1.5, run_id="second")
    for vmi in marked:
        vm = row(again, vmi["metadata"]["name"])
        assert vm["reason"] not in ("AdoptedMigration", "TwoLoops"), vm
    if copied:
        assert {vm["name"] for vm in again["vms"]} == {"default/moves", "default/waits"}
    assert operator.restore()["phase"] == "Active"
    assert clean(sim)


def test_pods_of_a_node_that_does_not_come_back_are_collected(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    delete_node(sim)
    sim.until(
        lambda: (v := sim.world.store.find(VMIS, "default", "vm")) and (v["status"].get("nodeName") in ("n2", "n3"))
    )
    with pytest.raises(NodeUnknown, match="n1"):
        operator.restore()


def test_an_uncordon_of_others_is_not_undone_in_silence(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="600")
    operator.slice(Intent.DRAINED, 1.0, run_id="mine")
    told = set()
    for _time in ("once", "again"):
        sim.edit(NODES, "n1", lambda o: o["spec"].pop("unschedulable"))
        found = operator.slice(Intent.DRAINED, 1.0, run_id="mine")
        assert sim.find(NODES, "n1")["spec"]["unschedulable"]
        told |= {text for text in found["warnings"] if "someone else uncordoned it during" in text}
    assert len(told) == 1, "both are told by one sentence"
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_a_drain_whose_node_another_run_restored_says_so(sim, operator) -> None:
    """Its own answer was not lost: a drain's end leaves the record."""
    sim.add_vm("vm", "n1", migrate_seconds="600")
    request = operator.request(Intent.DRAINED, "mine", 1.0)
    service.run_slice(request)
    assert operator.restore()["phase"] == "Active"
    with pytest.raises(Superseded, match="Another run restored n1") as told:
        service.run_slice(replace(request, begun=True))
    assert "lost" not in str(told.value) and clean(sim)


@pytest.mark.parametrize("may", [True, False], ids=["may delete", "may not delete"])
def test_a_restore_leaves_nothing_of_the_maintenance(sim, operator, may) -> None:
    if not may:
        rules = documented_rules()
        for rule in rules:
            if rule["resources"] == ["leases"]:
                rule["verbs"].remove("delete")
        sim.api.access.rules[TOKEN] = rules
    sim.add_vm("vm", "n1")
    assert operator.drain()["phase"] == "Drained"
    assert sim.find(LEASES, LEASE) is not None
    assert operator.restore()["phase"] == "Active"
    lease = sim.find(LEASES, LEASE)
    assert (lease is None) is may
    if lease is not None:
        assert not annotations(lease) and not lease["spec"]["holderIdentity"]
    vmi = sim.find(VMIS, "vm")
    assert [key for key in annotations(vmi) if key.startswith("virtops.")] == []
    assert operator.restore()["phase"] == "Active"  # there is nothing to undo
