"""What stands in the way of one VM's migration: it is got over, or told as the reason."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import AccessDenied, NoAnswer
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import (
    MigrationRefused,
    VMNotHere,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.model import WantedState
from ansible_collections.virtops.maintenance.tests.kubevirt.one_vm import full, nowhere, vm, writes
from kubesim.kinds import NODES, VMIMS, VMIS, VMS
from kubesim.reading import full_quota

pytestmark = pytest.mark.full


def test_a_target_that_cannot_take_it_is_refused_before_anything_is_asked(sim, one) -> None:
    sim.add_vm("vm", "n1")
    sim.edit(NODES, "n3", lambda o: o["spec"].update(unschedulable=True))
    before = len(sim.log)
    found = one.migrate(target="n3")
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "TargetUnschedulable")
    assert "n3 takes no VMs: it is cordoned" in vm(found)["message"]
    with pytest.raises(MigrationRefused, match="no node n9"):
        one.migrate(target="n9")
    assert writes(sim, before) == []


def test_a_tainted_target_takes_those_that_tolerate_it(sim, one) -> None:
    sim.add_vm("vm", "n1")
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    sim.edit(NODES, "n3", lambda o: o["spec"].update(taints=[taint]))
    before = len(sim.log)
    found = one.migrate(target="n3")
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "TargetUnschedulable")
    text = "n3 does not take the VM: it has the taint dedicated=db:NoSchedule"
    assert text in vm(found)["message"] and writes(sim, before) == []
    tolerates = [{"key": "dedicated", "operator": "Exists"}]
    sim.edit(VMIS, "vm", lambda o: o["spec"].update(tolerations=tolerates), "default")
    found = one.migrate(target="n3")
    assert found["phase"] == "Migrated" and sim.node_of("vm") == "n3"


def test_attempts_are_bounded_and_the_last_reason_is_kept(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_result="fail", migrate_fail_reason="link is down")
    found = one.migrate(max_attempts=2)
    row = vm(found)
    assert (found["phase"], row["reason"], row["attempts"]) == ("Blocked", "AttemptsUsedUp", 2)
    assert "MigrationFailed. link is down" in row["message"] and row["plane"] == "data"
    assert len(sim.requests("POST", "virtualmachineinstancemigrations")) == 2
    assert sim.leftovers() == [] and sim.node_of("vm") == "n1"


def test_a_second_attempt_may_succeed(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_result="fail:1")
    found = one.migrate()
    assert (found["phase"], vm(found)["attempts"]) == ("Migrated", 2)


@pytest.mark.three_nodes
def test_what_no_node_takes_is_withdrawn_and_named(sim, one) -> None:
    sim.add_vm("vm", "n1")
    nowhere(sim)
    found = one.migrate(pending_timeout=2.5)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "TargetUnschedulable")
    assert "0/3 nodes are available" in vm(found)["message"]
    assert sim.leftovers() == [] and sim.node_of("vm") == "n1"


def test_a_quota_is_withdrawn_and_named(sim, one) -> None:
    sim.add_vm("vm", "n1")
    full_quota(sim)
    found = one.migrate(pending_timeout=0.5)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "QuotaExceeded")
    assert sim.leftovers() == []


def test_a_slot_is_waited_for_up_to_the_deadline_of_the_whole(sim, one) -> None:
    sim.add_vm("vm", "n1")
    full(sim)
    found = one.migrate(pending_timeout=0.1, migration_timeout=1.5)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "DeadlineExceeded")
    assert "WaitingForSlot" in vm(found)["message"] and sim.leftovers() == []


def test_a_stuck_preparation_is_ended_by_its_target_pod(sim, one) -> None:
    sim.add_vm("vm", "n1", prepare="hang")
    found = one.migrate(pending_timeout=0.5, abort_timeout=0.5)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "TargetPreparation")
    (gone,) = sim.requests("DELETE", "/pods/")
    assert sim.leftovers() == [] and sim.node_of("vm") == "n1"
    assert gone.status == 200


def test_what_cannot_migrate_is_not_asked_for(sim, one) -> None:
    sim.add_vm("vm", "n1", not_migratable_reason="DisksNotLiveMigratable")
    before = len(sim.log)
    found = one.migrate()
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "DisksNotLiveMigratable")
    assert writes(sim, before) == [] and not found["changed"]


def test_a_vm_that_is_not_there_or_off(sim, one) -> None:
    sim.add_vm("off", "n1", run_strategy="Halted", wait=False)
    with pytest.raises(VMNotHere, match=r"no VM nobody in namespace default.*kubectl get vm"):
        one.migrate(name="nobody")
    sim.until(lambda: sim.world.store.find(VMS, "default", "off").get("status"))
    with pytest.raises(VMNotHere, match=r"default/off does not run \(Stopped\)"):
        one.migrate(name="off")
    assert one.abort(name="off")["phase"] == "Active"
    with pytest.raises(PolicyError, match="without a slash"):
        one.migrate(name="default/off")


@pytest.mark.parametrize("bare", [False, True])
def test_one_that_was_made_anew_with_the_same_name_is_another_one(sim, one, bare) -> None:
    sim.add_vm("vm", "n1", **({"run_strategy": ""} if bare else {}))
    vmi = sim.find(VMIS, "vm")
    own = vmi["metadata"] if bare else vmi["metadata"]["ownerReferences"][0]
    before = len(sim.log)
    with pytest.raises(VMNotHere, match=rf"is a different VM now: its UID is {own['uid']}, not of-before.*Nothing was"):
        one.migrate(uid="of-before")
    assert writes(sim, before) == []
    assert one.migrate(uid=own["uid"])["phase"] == "Migrated"


def test_a_vm_that_is_stopped_meanwhile(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    request = one.begin()
    sim.edit(VMS, "vm", lambda o: o["spec"].update(runStrategy="Halted"), "default")
    sim.until(lambda: sim.world.store.find(VMIS, "default", "vm") is None)
    found = one.run(request)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "VMVanished")


def test_a_vm_that_is_started_anew_meanwhile_was_not_moved(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    request = one.begin()
    old = sim.find(VMIS, "vm")["metadata"]["uid"]
    sim.call(lambda: sim.world.store.delete(VMIS, "default", "vm"))

    def anew() -> bool:
        vmi = sim.world.store.find(VMIS, "default", "vm")
        return vmi is not None and vmi["metadata"]["uid"] != old and sim.running("vm")

    sim.until(anew)
    found = one.run(request)
    assert found["phase"] == "Blocked" and "restarted on" in vm(found)["message"]


def test_one_that_somebody_deletes_is_not_made_again(sim, one) -> None:
    sim.add_vm("vm", "n1")
    full(sim)
    request = one.begin()
    name = sim.all(VMIMS)[0]["metadata"]["name"]
    sim.call(lambda: sim.world.store.delete(VMIMS, "default", name))
    found = one.run(request)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "AbortRequested")
    assert len(sim.requests("POST", "virtualmachineinstancemigrations")) == 1


def test_trouble_of_the_api_is_everyday(sim, one) -> None:
    sim.add_vm("vm", "n1")
    faults = sim.api.faults
    faults.drop_watches = 0.2
    faults.plan(500, 2, lambda method, _path: method == "GET")
    faults.plan(429, 1, lambda method, _path: method == "GET", retry_after=1)
    faults.plan(503, 1, lambda method, path: method == "POST")
    faults.plan(409, 1, lambda method, path: method == "PATCH")
    found = one.migrate()
    assert found["phase"] == "Migrated"
    assert len(sim.all(VMIMS)) == 1


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_that_is_busy_for_a_moment_ends_nothing(sim, one, code) -> None:
    """Whichever write it meets: that of the note, of the migration, or of what the note then says of it."""
    for number in range(3):
        sim.add_vm(f"vm{number}", "n1")
        passed = iter(range(number))
        # The first `number` notes are let through.
        sim.api.faults.plan(code, 1, lambda method, _path, passed=passed: method == "PATCH" and next(passed, -1) < 0)
        found = one.migrate(name=f"vm{number}")
        assert found["phase"] == "Migrated", (number, vm(found))


@pytest.mark.parametrize("want", ["migrate", "abort"])
def test_a_write_that_nobody_answers_is_not_taken_for_one_that_is_refused(
    sim, one, want, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who called is told that, and calls again."""
    sim.add_vm("vm", "n1", migrate_seconds="20")
    if want == "abort":
        one.begin("Running")
    asked, silent = Client.request, iter([True])

    def request(self, method, path, *args, **kwargs):
        if method == ("DELETE" if want == "abort" else "PATCH") and next(silent, False):
            raise NoAnswer(0, "connection refused", f"{method} {path}")
        return asked(self, method, path, *args, **kwargs)

    monkeypatch.setattr(Client, "request", request)
    again = one.request(WantedState.ABORTED if want == "abort" else WantedState.MIGRATED)
    with pytest.raises(NoAnswer):
        one.run(again)
    assert one.run(again)["phase"] == ("Active" if want == "abort" else "Migrated")


def test_virt_api_down_is_a_reason(sim, one) -> None:
    sim.add_vm("vm", "n1")
    sim.world.virt_api_down = True
    found = one.migrate()
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "WebhookUnavailable")
    assert sim.node_of("vm") == "n1"


def test_a_missing_right_is_named(sim, one) -> None:
    sim.add_vm("vm", "n1")
    for rule in sim.api.access.rules["maintenance"]:
        if "virtualmachineinstancemigrations" in rule["resources"]:
            rule["verbs"] = [v for v in rule["verbs"] if v != "create"]
    with pytest.raises(AccessDenied, match=r"create virtualmachineinstancemigrations\.kubevirt\.io"):
        one.migrate()
