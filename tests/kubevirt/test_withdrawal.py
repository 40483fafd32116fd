"""Withdrawals that the account may not make, and those that KubeVirt puts off."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api import client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.requests import migration_api
from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, documented_rules, rules_without
from ansible_collections.virtops.maintenance.tests.kubevirt.one_vm import phases
from kubesim.kinds import NODES, VMIMS, VMIS
from kubesim.reading import clean, row

pytestmark = pytest.mark.full

CANCEL = "virtualmachineinstances/evacuate/cancel"
EVACUATE = "virtualmachineinstances/evacuate"
MIGRATIONS = "virtualmachineinstancemigrations"


@pytest.mark.parametrize(
    ("verb", "denied", "told"),
    [
        ("delete", (MIGRATIONS,), f"delete {MIGRATIONS}.kubevirt.io"),
        ("update", (CANCEL,), f"update {CANCEL}"),
        ("update", (EVACUATE,), f"update {CANCEL}"),
        ("update", (CANCEL, EVACUATE), f"update {CANCEL}"),
    ],
    ids=["no delete", "the short name alone", "the long name alone", "neither name"],
)
def test_a_withdrawal_without_a_right_names_it_and_ends(sim, operator, monkeypatch, verb, denied, told) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="3000")
    operator.slice(Intent.DRAINED, 0.5)
    sim.until(lambda: "Running" in phases(sim))
    sim.api.access.rules[TOKEN] = rules_without(verb, *denied)
    # A denial is asked again for some seconds, since a server that has just started denies everything: not of this one.
    monkeypatch.setattr(client, "DENIES_FOR", 0.0)
    before = len(sim.log)
    found = operator.restore()
    assert sum(call.status == 403 for call in sim.log[before:]) <= 3
    vm = row(found, "vm")
    assert (found["phase"], vm["verdict"], vm["reason"]) == ("Blocked", "blocked", "Forbidden")
    assert told in vm["message"]
    assert "withdrawn" not in str(found["vms"]) + str(found["findings"])
    # Half undone: the cordon stays until the rest may be undone too.
    assert sim.find(NODES, "n1")["spec"]["unschedulable"]
    sim.api.access.rules[TOKEN] = documented_rules()
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_a_migration_that_is_given_up_leaves_its_slot_whatever_the_back_off(sim, operator) -> None:
    """It is stuck in the preparation of its target: an abort alone is put off for ever."""
    sim.add_vm("vm", "n1", prepare="hang")
    found = operator.drain(max_attempts=1, pending_timeout=2.0, backoff=0.1)
    assert found["phase"] == "Blocked"
    assert row(found, "vm")["reason"] == "TargetPreparation"
    left = [m["status"]["phase"] for m in sim.all(VMIMS) if m["status"]["phase"] != "Failed"]
    assert left == [] and sim.leftovers() == []


def test_what_the_descheduler_left_on_a_vm_is_not_taken_for_its_work(sim, operator) -> None:
    """The annotation of its eviction stays after the migration, and lowers the priority of ours."""
    sim.add_vm("vm", "n1")
    sim.edit(
        VMIS,
        "vm",
        lambda o: o["metadata"]["annotations"].update(
            {"kubevirt.io/eviction-source": "descheduler", "lab/migrate-seconds": "20"}
        ),
        "default",
    )
    found = operator.slice(Intent.DRAINED, 1.5, run_id="mine")
    assert row(found, "vm")["reason"] not in ("TwoLoops", "AdoptedMigration"), row(found, "vm")
    assert [m["spec"]["priority"] for m in sim.all(VMIMS)] == ["system-maintenance"]
    assert operator.restore()["phase"] == "Active" and clean(sim)
    assert sim.node_of("vm") == "n1"  # it was ours, so it was withdrawn


def test_what_kubevirt_makes_while_its_mark_is_taken_away_does_not_run(sim, operator, monkeypatch) -> None:
    """As seen on a real data plane: the mark went, the migration of the same second stayed, a fourth of three."""
    sim.add_vm("vm", "n1", migrate_seconds="2", migrate_result="fail")
    cancel = migration_api.cancel_mark

    def made_meanwhile(client, vmi) -> None:
        sim.world.paused.add("evacuation")  # what it has begun, nothing stops
        meta = {"name": "late", "namespace": "default", "labels": {"kubevirt.io/vmi-name": "vm"}}
        meta["annotations"] = {"kubevirt.io/evacuationMigration": "n1", "lab/migrate-seconds": "3000"}
        sim.add(VMIMS.plural, {"metadata": meta, "spec": {"vmiName": "vm"}})
        cancel(client, vmi)

    monkeypatch.setattr(migration_api, "cancel_mark", made_meanwhile)
    found = operator.drain(max_attempts=1)
    assert (found["phase"], row(found, "vm")["reason"]) == ("Blocked", "AttemptsUsedUp")
    late = sim.find(VMIMS, "late")
    assert late is None or late["metadata"].get("deletionTimestamp"), late
    sim.until(lambda: sim.world.store.find(VMIMS, "default", "late") is None)
    assert sim.leftovers() == [] and sim.node_of("vm") == "n1"
