"""Drains over real HTTP with the real client. What was asked is counted from the server's log."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.wall import between
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import LOOKS
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import facts, names
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import check_mode, service
from ansible_collections.virtops.maintenance.tests.kubevirt.plays import written
from kubesim.kinds import NODES, PODS, VMIMS, VMIS, VMS
from kubesim.reading import DISKS, add_budget, clean, evictions, launcher, row


def test_each_vm_is_evicted_once_and_runs_elsewhere(sim, operator) -> None:
    for number in range(6):
        sim.add_vm(f"vm{number}", "n1")
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert len(found["certificate"]["vms"]) == 6
    assert {vm["attempts"] for vm in found["vms"]} == {1}
    assert evictions(sim) == [f"vm{number}" for number in range(6)]
    assert all(sim.node_of(f"vm{number}") in ("n2", "n3") for number in range(6))
    assert sim.leftovers() == []
    assert operator.restore()["phase"] == "Active"
    assert clean(sim)


def test_a_vm_that_has_left_and_whose_end_is_not_told_yet_is_still_running(sim, operator) -> None:
    """Between the switch and the end of its migration; it was told as Scheduled again, which it had been before."""
    sim.add_vm("vm", "n1", migrate_seconds="10")
    found = operator.slice(Intent.DRAINED, 0.2, "r")
    sim.until(lambda: any(m["status"].get("phase") == "Running" for m in sim.world.store.all(VMIMS)))
    moves = row(operator.slice(Intent.DRAINED, 0.0, "r"), "vm")
    sim.world.pace = 100.0
    sim.until(lambda: sim.world.store.get(VMIS, "default", "vm")["status"]["nodeName"] != "n1")
    assert moves["target"] == sim.node_of("vm"), moves  # it named none before it had arrived
    found = operator.slice(Intent.DRAINED, 0.5, "r")
    assert (row(found, "vm")["verdict"], row(found, "vm")["phase"]) == ("pending", "Running")
    sim.world.pace = 1.0
    assert operator.drain()["phase"] == "Drained"


def test_every_strategy_has_its_way(sim, operator, verdicts) -> None:
    sim.add_vm("live", "n1")
    sim.add_vm("stuck", "n1", **DISKS)
    sim.add_vm("maybe", "n1", strategy="LiveMigrateIfPossible")
    sim.add_vm("maybenot", "n1", strategy="LiveMigrateIfPossible", **DISKS)
    sim.add_vm("external", "n1", strategy="External")
    sim.add_vm("silent", "n1", strategy=None)
    for strategy in ("RerunOnFailure", "Manual", "Once"):
        sim.add_vm(strategy.lower(), "n1", strategy="None", run_strategy=strategy)
    found = operator.drain(allow_stop=True, external_timeout=1.0)
    assert found["phase"] == "Blocked"
    assert verdicts(found) == {
        "live": "moved",
        "stuck": "blocked",
        "maybe": "moved",
        "maybenot": "cold_moved",
        "external": "blocked",
        "silent": "cold_moved",
        "rerunonfailure": "stopped",
        "manual": "stopped",
        "once": "stopped",
    }
    assert row(found, "stuck")["reason"] == "DisksNotLiveMigratable"
    assert "StoppedByItself" not in [row(found, name)["reason"] for name in ("rerunonfailure", "manual", "once")]
    assert row(found, "external")["reason"] == "ExternalOwnerTimedOut"
    assert sim.leftovers() == []
    back = operator.restore()
    assert back["phase"] == "Active"
    became = {one["name"]: one["message"] for one in back["outcomes"]}
    assert "started again, on n" in became["default/manual"]
    assert became["default/maybenot"].startswith("left on")
    for name in ("rerunonfailure", "manual", "once"):
        assert sim.node_of(name) in ("n2", "n3"), name
        assert sim.find(VMS, name)["spec"]["runStrategy"].lower() == name
    assert clean(sim)


def test_nothing_is_stopped_without_permission(sim, operator, verdicts) -> None:
    sim.add_vm("silent", "n1", strategy=None)
    sim.add_vm("maybenot", "n1", strategy="LiveMigrateIfPossible", **DISKS)
    found = operator.drain()
    assert verdicts(found) == {"silent": "blocked", "maybenot": "blocked"}
    assert row(found, "silent")["reason"] == "StopNotAllowed"
    assert evictions(sim) == []
    assert sim.node_of("silent") == sim.node_of("maybenot") == "n1"


def test_shutdown_of_what_cannot_migrate_starts_it_elsewhere(sim, operator, verdicts) -> None:
    sim.add_vm("stuck", "n1", **DISKS)
    found = operator.drain(on_not_migratable="shutdown", allow_stop=True)
    assert found["phase"] == "Drained" and verdicts(found) == {"stuck": "cold_moved"}
    assert evictions(sim) == []  # the webhook would refuse it for ever
    assert sim.node_of("stuck") in ("n2", "n3")


def test_a_guest_whose_condition_is_not_there_yet_is_left_alone(sim, operator) -> None:
    """Evicted before it, a LiveMigrateIfPossible guest is killed."""
    sim.add_vm("early", "n1", strategy="LiveMigrateIfPossible", wait=False, start_seconds="1000")
    sim.until(
        lambda: (sim.world.store.find(VMIS, "default", "early") or {}).get("status", {}).get("phase") == "Scheduled"
    )
    uid = sim.find(VMIS, "early")["metadata"]["uid"]
    found = operator.drain(allow_stop=True, unknown_timeout=1.0)
    assert (found["phase"], row(found, "early")["reason"]) == ("Blocked", "MigratableNotKnown")
    assert evictions(sim) == []
    assert sim.find(VMIS, "early")["metadata"]["uid"] == uid


def test_attempts_are_bounded_and_the_request_is_withdrawn(sim, operator) -> None:
    sim.add_vm("giveup", "n1", migrate_result="fail")
    found = operator.drain(max_attempts=2)
    giveup = row(found, "giveup")
    assert (giveup["verdict"], giveup["reason"]) == ("blocked", "AttemptsUsedUp")
    failed = [m for m in sim.all(VMIMS) if m["status"]["phase"] == "Failed"]
    # KubeVirt makes the third one. It is deleted in its back-off, or has failed before that.
    assert giveup["attempts"] in (2, 3) and len(failed) in (2, 3)
    assert sim.leftovers() == []
    sim.let_pass(10.0)  # KubeVirt does not begin again
    assert sim.leftovers() == []


def test_a_failure_by_the_completion_deadline_is_told_as_that_though_its_reason_comes_late(sim, operator) -> None:
    """The object is Failed 3.4 s before the VMI says why."""
    sim.add_vm("vm", "n1", migrate_result="deadline", migrate_seconds="1")
    found = operator.drain(max_attempts=1)
    assert (found["phase"], row(found, "vm")["reason"]) == ("Blocked", "AttemptsUsedUp")
    assert "CompletionTimeout. Live migration has been aborted, by KubeVirt's" in row(found, "vm")["message"], found


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"abortStatus": "Succeeded"}, "CompletionTimeout"),
        ({"abortStatus": "Succeeded", "abortRequested": True}, "AbortRequested"),
        ({}, "MigrationFailed"),
        ({"failed": None}, "MigrationFailed"),  # its word of the failure comes later than the migration's
    ],
)
def test_a_failure_without_a_reason_is_told_by_its_other_signs(state: dict[str, object], reason: str) -> None:
    vmi = {"status": {"migrationState": {"migrationUid": "m", "failed": True, **state}}}
    migration = {"metadata": {"uid": "m"}, "status": {"phase": "Failed"}}
    found = facts.why_failed(vmi, migration, "source node reported migration failed")
    assert found.reason.value == reason and facts.reason_is_coming(vmi, migration)


def test_attempts_are_bounded_over_slices(sim, operator) -> None:
    """Each slice is shorter than the pause between two attempts."""
    sim.add_vm("giveup", "n1", migrate_result="fail")
    found = operator.run(Intent.DRAINED, seconds=1.0, max_attempts=2)
    assert row(found, "giveup")["reason"] == "AttemptsUsedUp"
    assert sim.leftovers() == []


def test_a_failed_migration_is_tried_again_though_nothing_wakes_kubevirt(sim, operator) -> None:
    sim.world.heartbeat = 10000.0
    sim.add_vm("flaky", "n1", migrate_result="fail:1")
    sim.let_pass(12.0)  # the last heartbeat that was planned
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert row(found, "flaky")["attempts"] == 2


def test_what_is_on_its_way_here_is_waited_for_and_moved_on(sim, operator) -> None:
    sim.add_vm("guest", "n2", migrate_seconds="20")
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update(unschedulable=True))
    body = {"metadata": {"name": "here", "namespace": "default"}, "spec": {"vmiName": "guest"}}
    body["metadata"]["labels"] = {"kubevirt.io/vmi-name": "guest"}
    sim.add("virtualmachineinstancemigrations", body)
    sim.until(lambda: any(m["status"].get("phase") == "Running" for m in sim.world.store.all(VMIMS) if "status" in m))
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update(unschedulable=False))
    first = operator.slice(Intent.DRAINED, 0.5)
    assert (first["phase"], first["findings"][0]["reason"]) == ("Draining", "InboundMigration")
    assert evictions(sim) == []
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert row(found, "guest")["verdict"] == "moved"
    assert sim.node_of("guest") in ("n2", "n3")


def test_a_plan_only_reads(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    before = len(sim.log)
    found = check_mode.plan(operator.request(Intent.DRAINED, "r", 1.0), {})
    assert [step["do"] for step in found["planned"]] == ["cordon", "migrate"]
    assert [call.query for call in sim.log[before:] if call.method == "POST"].count("dryRun=All") == 1
    assert written(sim.log[before:]) == []
    assert "evacuationNodeName" not in sim.find(VMIS, "vm")["status"]
    seen = check_mode.read_node(operator.request(Intent.DRAINED, "r", 1.0))
    assert seen["kubevirt"]["parallel_outbound_migrations_per_node"] == 2
    assert seen["target_exists"] and not seen["cordoned"]


def test_a_marked_vm_without_a_migration_is_woken_up(sim, operator) -> None:
    """Nothing but a change of the node tells KubeVirt to go on, and nothing else changes it."""
    sim.world.heartbeat = 10000.0
    sim.add_vm("vm", "n1")
    sim.let_pass(12.0)
    sim.world.paused.add("evacuation")

    def unpause(change) -> None:  # it slept when the VM was marked, and is awake when it is woken
        if change.kind is NODES and names.NUDGE in change.obj["metadata"].get("annotations", {}):
            sim.world.paused.clear()

    sim.call(lambda: sim.world.on_change(unpause))
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert row(found, "vm")["attempts"] == 1
    assert (row(found, "vm")["nudges"], found["nudges"]) == (1, 1)


def test_each_write_that_woke_kubevirt_is_counted_over_slices_and_restarts(sim, operator) -> None:
    """As often as the Node was written for it; the count stands there in that same write."""
    sim.add_vm("vm", "n1")
    sim.add_vm("other", "n1", strategy="None")
    sim.world.paused.add("evacuation")
    told: dict[str, int] = {}  # when the Node was written to wake KubeVirt -> the count in it

    def note(change) -> None:
        notes = change.obj["metadata"].get("annotations", {})
        if change.kind is NODES and names.NUDGE in notes:
            known = json.loads(notes[names.INSTANCES]).values()
            told.setdefault(notes[names.NUDGE], sum(vm["nudges"] for vm in known))

    sim.call(lambda: sim.world.on_change(note))
    for run_id in ("r", "again"):
        before = len(told)
        while len(told) == before:
            found = operator.slice(Intent.DRAINED, 4.0, run_id=run_id)
        assert list(told.values()) == [*range(1, len(told) + 1)]
        assert (row(found, "vm")["nudges"], row(found, "other")["nudges"]) == (len(told), 0)
    sim.world.paused.clear()
    found = operator.drain(allow_stop=True)
    assert found["phase"] == "Drained"
    assert found["nudges"] == row(found, "vm")["nudges"] >= 2
    assert operator.restore()["nudges"] == 0 and clean(sim)


def test_for_a_vm_that_has_gone_kubevirt_is_not_woken(sim, operator) -> None:
    """It stood marked and without a migration, and then it was gone: at once, so no look saw how it ended."""
    sim.add_vm("vm", "n1", run_strategy="Manual")
    sim.add_vm("stays", "n1")
    sim.world.paused.add("evacuation")
    marked: list[str] = []

    def remove() -> None:
        sim.world.store.change(VMIS, "default", "vm", lambda o: o["metadata"].update(finalizers=[]))
        sim.world.store.delete(VMIS, "default", "vm")

    def stop(change) -> None:
        if change.kind is VMIS and change.obj["status"].get("evacuationNodeName") and not marked:
            marked.append(change.obj["metadata"]["name"])
            sim.world.later(8.0, remove)

    sim.call(lambda: sim.world.on_change(stop))
    found = operator.slice(Intent.DRAINED, 5.0)
    sim.world.paused.clear()
    assert (row(found, "vm")["nudges"], row(found, "stays")["nudges"]) == (0, 1)


def test_the_certificate_waits_for_the_source_pods(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    pod = launcher(sim)["metadata"]["name"]
    found = operator.drain()
    assert found["phase"] == "Drained"
    ended = sim.find(PODS, pod)
    assert ended is None or ended["status"]["phase"] == "Succeeded"


def test_the_certificate_is_read_and_not_remembered(sim, operator) -> None:
    """After the last VM has gone the node is listed again, twice."""
    sim.add_vm("vm", "n1")
    operator.drain()
    lists = [c for c in sim.requests("GET", "/virtualmachineinstances") if "nodeName" in c.query]
    plain = [c for c in lists if "watch" not in c.query]
    assert len(plain) >= 2


def test_a_migration_object_that_stays_open_is_told_as_moved(sim, operator) -> None:
    """The guest has moved; KubeVirt keeps the object Running until the condition is gone."""
    sim.add_vm("vm", "n1")
    keeps = {"type": "MigrationRequired", "status": "True"}
    sim.edit(VMIS, "vm", lambda o: o["status"]["conditions"].append(keeps), "default")
    found = operator.drain()
    vm = row(found, "vm")
    assert (found["phase"], vm["verdict"], vm["phase"]) == ("Drained", "moved", "Succeeded")
    assert [m["status"]["phase"] for m in sim.all(VMIMS)] == ["Running"]
    assert vm["target"] == sim.node_of("vm") != "n1" and vm["duration"] > 0
    state = sim.find(VMIS, "vm")["status"]["migrationState"]
    assert vm["handed_off"] == state["endTimestamp"]


def test_a_plan_tells_what_only_the_server_knows(sim, operator) -> None:
    """Evictions that are planned are tried out there; nothing is marked, nothing is stopped."""
    sim.add_vm("well", "n1")
    sim.add_vm("silent", "n1", strategy="None", labels={"tier": "db"})
    add_budget(sim, "strict", 1, tier="db")
    found = check_mode.plan(operator.request(Intent.DRAINED, "r", 1.0, allow_stop=True), {})
    assert row(found, "well")["reason"] == ""
    assert row(found, "silent")["reason"] == "DisruptionBudget"
    sim.world.virt_api_down = True
    found = check_mode.plan(operator.request(Intent.DRAINED, "r", 1.0, allow_stop=True), {})
    assert row(found, "well")["reason"] == "WebhookUnavailable"
    sim.world.virt_api_down = False
    rules = sim.api.access.rules["maintenance"]
    sim.api.access.rules["maintenance"] = [r for r in rules if "pods/eviction" not in r["resources"]]
    found = check_mode.plan(operator.request(Intent.DRAINED, "r", 1.0, allow_stop=True), {})
    assert [f["reason"] for f in found["findings"]] == ["Forbidden"]
    assert "create pods/eviction" in found["findings"][0]["message"]
    sim.api.access.rules["maintenance"] = [
        {**r, "verbs": [verb for verb in r["verbs"] if verb != "deletecollection"]} for r in rules
    ]
    found = check_mode.plan(operator.request(Intent.DRAINED, "r", 1.0, allow_stop=True), {})
    assert [f["message"] for f in found["findings"]] == [
        "Not allowed: deletecollection pods in default (to remove launcher pods that have ended)."
    ]
    assert clean(sim) and sim.node_of("well") == "n1"


def test_an_owner_that_moves_its_vm_as_it_was_asked_is_no_second_loop(sim, operator) -> None:
    """Cluster API's provider makes the migration or another VM; a drain names it, and since when it waits."""
    sim.add_vm("vm", "n1", strategy="External", labels={"cluster.x-k8s.io/cluster-name": "c1"}, migrate_seconds="20")
    request = operator.request(Intent.DRAINED, "r", 1.0)
    vm = row(service.run_slice(request), "vm")
    assert (vm["verdict"], vm["reason"]) == ("pending", "ExternalOwner"), vm
    told = re.fullmatch(
        r"Its owner \(Cluster API, cluster c1\) was asked at (\S+Z) to move it, and has until (\S+Z)\.", vm["message"]
    )
    assert told is not None and between(told[1], told[2]) == 300.0, vm
    meta = {"name": "owners", "namespace": "default", "labels": {"kubevirt.io/vmi-name": "vm"}}
    sim.add(VMIMS.plural, {"metadata": meta, "spec": {"vmiName": "vm"}})
    sim.until(lambda: sim.world.store.find(VMIMS, "default", "owners").get("status", {}).get("phase") == "Running")
    vm = row(service.run_slice(replace(request, begun=True)), "vm")
    assert (vm["phase"], vm["reason"]) == ("Running", ""), vm
    while (found := service.run_slice(replace(request, begun=True)))["ended"] != "final":
        pass
    assert (found["phase"], row(found, "vm")["verdict"], row(found, "vm")["reason"]) == ("Drained", "moved", "")


def test_check_mode_does_not_say_that_an_owner_was_too_late(sim, operator) -> None:
    sim.add_vm("vm", "n1", strategy="External")
    assert row(check_mode.plan(operator.request(Intent.DRAINED, "r", 1.0), {}), "vm")["reason"] == "ExternalOwner"


def test_who_only_looks_goes_by_what_the_drain_gave_the_owner(sim, operator) -> None:
    """Status knows no options of a drain: until when its owner has, and that this is over, the record says."""
    sim.add_vm("vm", "n1", strategy="External")
    looks = operator.request(Intent.DRAINED, LOOKS, 1.0)
    told = row(operator.slice(Intent.DRAINED, 1.0, external_timeout=900.0), "vm")["message"]
    assert row(check_mode.read_node(looks), "vm")["message"] == told
    assert row(operator.drain(external_timeout=0.5), "vm")["reason"] == "ExternalOwnerTimedOut"
    vm = row(check_mode.read_node(looks), "vm")
    assert (vm["verdict"], vm["reason"]) == ("blocked", "ExternalOwnerTimedOut"), vm
    again = row(check_mode.plan(operator.request(Intent.DRAINED, "r", 1.0), {}), "vm")
    assert (again["verdict"], again["reason"]) == ("pending", "ExternalOwner"), again
