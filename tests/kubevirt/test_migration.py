"""One VM's migration, over real HTTP with the real client: its own, taken over, carried on."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Superseded
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.rows import Row
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api import auth
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import MigrationRefused
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.migration import run_migration
from ansible_collections.virtops.maintenance.tests.kubevirt.one_vm import (
    One,
    foreign,
    full,
    keep_open,
    mark,
    phases,
    vm,
    writes,
)
from kubesim import Kubesim
from kubesim.kinds import VMIMS, VMIS

REQUEST = "virtops.maintenance/request"


@pytest.mark.parametrize("strategy", ["LiveMigrate", "None", "External"])
def test_it_is_moved_by_a_migration_of_its_own(sim, one, strategy) -> None:
    sim.add_vm("vm", "n1", strategy=strategy)
    found = one.migrate()
    row = vm(found)
    assert (found["phase"], row["verdict"], row["attempts"]) == ("Migrated", "moved", 1)
    assert found["changed"] and sim.node_of("vm") == row["at"] == row["target"] != "n1"
    assert row["handed_off"] and row["requested_by"] == "me (run one-1)" and row["reason"] == ""
    # The same row as in a drain: one writer.
    assert {one.name for one in fields(Row)} < set(row) and "" < row["start"] <= row["end"]
    assert sim.requests("POST", "/eviction") == [] and sim.leftovers() == []


def test_who_asked_and_why_stands_there_before_anything_is_asked(sim, one) -> None:
    sim.add_vm("vm", "n1")
    one.migrate()
    (migration,) = sim.all(VMIMS)
    for obj in (migration, sim.find(VMIS, "vm")):
        note = json.loads(obj["metadata"]["annotations"][REQUEST])
        assert (note["run"], note["by"], note["reason"]) == ("one-1", "me", "why")
        assert note["at"].endswith("Z") and note["node"] == "n1"
    signed = sim.requests("PATCH", "virtualmachineinstances/vm")[0]
    (asked,) = sim.requests("POST", "virtualmachineinstancemigrations")
    assert signed.at < asked.at


def test_with_a_node_or_a_target_the_second_time_changes_nothing(sim, one) -> None:
    sim.add_vm("vm", "n1")
    assert one.migrate(target="n3")["phase"] == "Migrated" and sim.node_of("vm") == "n3"
    sim.until(lambda: set(phases(sim)) == {"Succeeded"})
    before = len(sim.log)
    for again in ({"target": "n3"}, {"node": "n1"}, {"selector": {"kubernetes.io/hostname": "n3"}}):
        found = one.migrate(**again)
        assert (found["phase"], found["changed"]) == ("Migrated", False), again
    assert writes(sim, before) == []


def test_without_them_it_moves_once_more(sim, one) -> None:
    sim.add_vm("vm", "n1")
    one.migrate()
    first = sim.node_of("vm")
    sim.until(lambda: set(phases(sim)) == {"Succeeded"})
    assert one.migrate()["phase"] == "Migrated"
    assert sim.node_of("vm") != first


def test_an_older_kubevirt_is_not_told_where_to(tmp_path: Path) -> None:
    with Kubesim(scale=10, version=(1, 5)) as sim:
        for name in ("n1", "n2", "n3"):
            sim.add_node(name)
        sim.add_vm("vm", "n1")
        found = auth.settings({"kubeconfig": str(sim.kubeconfig(tmp_path / "k"))}, {})
        before = len(sim.log)
        for where in ({"target": "n3"}, {"selector": {"zone": "east"}}):
            with pytest.raises(MigrationRefused, match=r"KubeVirt 1\.5 .* came with 1\.6"):
                One(sim, found).migrate(**where)
        assert writes(sim, before) == []
        assert One(sim, found).migrate()["phase"] == "Migrated"


def test_what_is_under_way_is_taken_over(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="20")
    foreign(sim)
    found = one.migrate()
    assert found["phase"] == "Migrated" and found["changed"]
    assert vm(found)["requested_by"].startswith("someone else")
    assert sim.requests("POST", "virtualmachineinstancemigrations") == []


def test_a_second_loop_is_named_while_it_moves(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    request = one.begin("Running")
    mark(sim)
    found = run_migration(replace(request, seconds=1.0))
    assert vm(found)["reason"] == "TwoLoops"
    assert "an eviction from n1 asks to move it too" in vm(found)["message"]


def test_an_evacuation_is_taken_over(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="20")
    mark(sim)
    found = one.migrate()
    assert found["phase"] == "Migrated" and "an eviction from n1" in vm(found)["requested_by"]
    assert len(sim.all(VMIMS)) == 1 and sim.leftovers() == []


def test_one_that_was_taken_over_and_went_elsewhere_is_moved_on(sim, one) -> None:
    sim.add_vm("vm", "n1")
    foreign(sim)
    sim.until(lambda: "Running" in phases(sim))
    there = sim.find(VMIS, "vm")["status"]["migrationState"]["targetNode"]
    wanted = "n3" if there == "n2" else "n2"
    found = one.migrate(target=wanted)
    assert found["phase"] == "Migrated" and sim.node_of("vm") == wanted


def test_what_the_migration_before_left_on_the_vmi_is_not_believed(sim, one) -> None:
    """Until the next hand-off the VMI tells how the last migration went."""
    sim.add_vm("vm", "n1")
    one.migrate()
    sim.until(lambda: set(phases(sim)) == {"Succeeded"})
    here = sim.node_of("vm")
    full(sim)
    found = run_migration(replace(one.begin("Pending"), seconds=0.5))
    row = vm(found)
    assert (found["phase"], row["phase"], row["reason"]) == ("Migrating", "Pending", "WaitingForSlot")
    assert row["handed_off"] == "" and sim.node_of("vm") == here


@pytest.mark.parametrize(
    ("kind", "status"), [("MigrationRequired", "True"), ("HotVCPUChange", "False"), ("HotMemoryChange", "True")]
)
def test_a_migration_object_that_stays_open_is_told_as_moved(sim, one, kind, status) -> None:
    """HotVCPUChange counts for KubeVirt as soon as it is there."""
    sim.add_vm("vm", "n1")
    keep_open(sim, kind, status)
    found = one.migrate()
    row = vm(found)
    assert (found["phase"], row["verdict"], row["phase"]) == ("Migrated", "moved", "Succeeded")
    assert row["reason"] == "MigrationObjectStays" and kind in row["message"]
    assert row["handed_off"] and row["handed_off"] in row["message"]
    assert [m["status"]["phase"] for m in sim.all(VMIMS)] == ["Running"]


def test_a_killed_run_is_carried_on_by_the_next(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="15")
    one.begin("Running")
    found = one.migrate()
    assert found["phase"] == "Migrated" and len(sim.all(VMIMS)) == 1


def test_a_run_that_was_taken_over_stops(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    first = one.begin()
    one.begin()
    with pytest.raises(Superseded, match=r"Run one-2 \(me: why\) took VM default/vm over"):
        run_migration(first)
    assert one.abort()["phase"] == "Active"
