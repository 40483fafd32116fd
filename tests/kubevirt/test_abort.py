"""Aborts, other runs, cordons: only what is ours is undone."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Intent,
    NodeRecord,
    Superseded,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import LockHeld
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.lease import Lock
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.platform import KubeVirtPlatform
from kubesim.kinds import NODES, VMIMS, VMIS
from kubesim.reading import clean, evictions, row, take_slots


def test_an_abort_cancels_the_mark_first_and_leaves_nothing(sim, operator) -> None:
    for name in ("a", "b", "c"):
        sim.add_vm(name, "n1", migrate_seconds="300")
    assert operator.slice(Intent.DRAINED, 1.5)["phase"] == "Draining"
    sim.until(lambda: len(list(sim.world.store.all(VMIMS))) == 3)
    found = operator.restore()
    assert found["phase"] == "Active"
    assert {vm["verdict"] for vm in found["vms"]} == {"restored"}
    assert clean(sim)
    assert {sim.node_of(name) for name in "abc"} == {"n1"}
    for name in ("a", "b", "c"):
        cancel = sim.requests("PUT", f"/{name}/evacuate/cancel")
        assert [call.status for call in cancel] == [200]
        deleted = [
            call for call in sim.requests("DELETE", "virtualmachineinstancemigrations") if call.at < cancel[0].at
        ]
        assert len(deleted) < 3
    first_delete = min(c.at for c in sim.requests("DELETE", "virtualmachineinstancemigrations"))
    assert first_delete > min(c.at for c in sim.requests("PUT", "/evacuate/cancel"))
    assert len(sim.all(VMIMS)) <= 3  # none was made anew


def test_someone_elses_cordon_stays(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.edit(NODES, "n1", lambda o: o["spec"].update(unschedulable=True))
    found = operator.drain()
    assert found["phase"] == "Drained" and found["cordoned_by_others"]
    for _again in range(2):  # the second time there is nothing to restore
        back = operator.restore()
        assert (back["phase"], back["closed"]) == ("Active", ["it is still cordoned, by others"])
        assert sim.find(NODES, "n1")["spec"].get("unschedulable") is True
    sim.edit(NODES, "n1", lambda o: o["spec"].update(unschedulable=False))
    assert operator.restore()["closed"] == []


def test_a_node_that_is_down_is_not_in_service_when_it_is_restored(sim, operator) -> None:
    sim.edit(NODES, "n1", lambda o: o["metadata"]["labels"].update({"kubevirt.io/schedulable": "false"}))
    back = operator.restore()
    assert back["phase"] == "Active" and "virt-handler does not run there?" in back["closed"][0]


def test_a_migration_of_others_is_adopted_and_left_to_them(sim, operator) -> None:
    sim.add_vm("theirs", "n1", migrate_seconds="60")
    body = {"metadata": {"name": "byhand", "namespace": "default"}, "spec": {"vmiName": "theirs"}}
    body["metadata"]["labels"] = {"kubevirt.io/vmi-name": "theirs"}
    sim.add("virtualmachineinstancemigrations", body)
    operator.slice(Intent.DRAINED, 1.5)
    assert evictions(sim) == []
    operator.slice(Intent.ACTIVE, 1.5)
    assert sim.requests("DELETE", "virtualmachineinstancemigrations") == []


def test_a_killed_run_is_carried_on_by_the_next(sim, operator) -> None:
    for number in range(4):
        sim.add_vm(f"vm{number}", "n1", migrate_seconds="10")
    operator.slice(Intent.DRAINED, 1.0)
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert evictions(sim) == [f"vm{number}" for number in range(4)]


def test_a_run_that_was_taken_over_stops(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="300")
    operator.slice(Intent.DRAINED, 1.0, run_id="first")
    operator.slice(Intent.DRAINED, 0.5, run_id="second")
    request = operator.request(Intent.DRAINED, "first", 1.0)

    with pytest.raises(Superseded, match="second"):
        service.run_slice(replace(request, begun=True))
    operator.restore()


def test_a_restore_whose_last_answer_was_lost_is_done(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    assert operator.drain()["phase"] == "Drained"
    operator.restore()
    request = operator.request(Intent.ACTIVE, "again", 1.0)
    found = service.run_slice(replace(request, begun=True))
    assert (found["ended"], found["phase"], found["changed"]) == ("final", "Active", True)


def test_a_lease_that_another_holds_is_respected(sim, operator) -> None:
    client = Client(operator.auth)
    first = Lock(client, "default", "n1", "first", 60)
    first.take(1.0, dict)
    with pytest.raises(LockHeld, match="first"):
        Lock(client, "default", "n1", "second", 60).take(0.6, dict)
    first.release()
    Lock(client, "default", "n1", "second", 1).take(0.6, dict)
    Lock(client, "default", "n1", "third", 60).take(5.0, dict)  # the second one died


def test_a_cordon_that_others_took_over_stays(sim, operator) -> None:
    """Somebody removed our note from the cordon while we decided to take it away."""

    sim.edit(NODES, "n1", lambda o: o["spec"].update(unschedulable=True))
    platform = KubeVirtPlatform(Client(operator.auth), "n1")
    assert platform.apply([Action(Do.UNCORDON, "n1")], NodeRecord("n1", "r")) == {}
    assert sim.find(NODES, "n1")["spec"].get("unschedulable") is True


def test_a_cordon_set_between_look_and_act_is_theirs(sim, operator) -> None:
    record = NodeRecord("n1", "r", cordoned_by_us=True)
    sim.edit(NODES, "n1", lambda o: o["spec"].update(unschedulable=True))
    platform = KubeVirtPlatform(Client(operator.auth), "n1")
    platform.apply([Action(Do.CORDON, "n1")], record)
    assert not record.cordoned_by_us
    assert "virtops.maintenance/cordon" not in sim.find(NODES, "n1")["metadata"]["annotations"]


def test_an_abort_leaves_no_retry_of_kubevirt(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_result="fail:1", migrate_seconds="1")
    operator.slice(Intent.DRAINED, 1.5)
    sim.until(lambda: sim.world.store.find(VMIS, "default", "vm")["metadata"]["annotations"].get("lab/failed") == "1")
    sim.edit(VMIS, "vm", lambda o: o["metadata"]["annotations"].update({"lab/migrate-seconds": "1000"}), "default")
    operator.slice(Intent.DRAINED, 4.0, run_id="run-1")
    assert operator.restore()["phase"] == "Active"
    assert clean(sim)


def hold(sim, phase: str) -> None:
    """KubeVirt's migration controller stands still at that phase, until somebody aborts."""

    def look(change) -> None:
        if change.kind is not VMIMS or change.type == "DELETED":
            return
        if change.obj["metadata"].get("deletionTimestamp"):
            sim.world.paused.discard("migration")
        elif change.obj.get("status", {}).get("phase", "") == phase:
            sim.world.paused.add("migration")

    sim.call(lambda: sim.world.on_change(look))


@pytest.mark.parametrize(
    ("phase", "knobs"),
    [
        ("", {}),
        ("Pending", {}),
        ("Scheduling", {"target_pod": "hang"}),
        ("Scheduled", {}),
        ("PreparingTarget", {"prepare": "hang"}),
        ("TargetReady", {}),
        ("Running", {"migrate_seconds": "1000"}),
    ],
)
def test_an_abort_in_each_phase_leaves_the_vm_where_it_is(sim, operator, phase, knobs) -> None:
    """A row a phase: what a deletion of the migration does in it.

    "", Pending, Scheduling, Scheduled: it fails at once, the target pod goes. PreparingTarget,
    TargetReady: KubeVirt puts the abort off until it runs, which may be never; without its target
    pod it fails. Running: it is aborted. The two final phases: the test after this one.
    """
    if phase == "Pending":
        take_slots(sim)
    if phase in ("", "Scheduled"):
        hold(sim, phase)
    sim.add_vm("vm", "n1", **knobs)
    if phase == "TargetReady":
        down = {"lab/virt-handler-down": "true"}
        sim.edit(NODES, "n1", lambda o: o["metadata"]["annotations"].update(down))
    uid = sim.find(VMIS, "vm")["metadata"]["uid"]
    operator.drain_until(lambda _found: [m.get("status", {}).get("phase", "") for m in sim.all(VMIMS)] == [phase])
    found = operator.restore()
    assert (found["phase"], row(found, "vm")["verdict"]) == ("Active", "restored")
    vmi = sim.find(VMIS, "vm")
    assert (vmi["metadata"]["uid"], vmi["status"]["nodeName"]) == (uid, "n1")
    assert clean(sim)


def test_an_abort_that_comes_too_late_says_that_the_vm_moved(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="30", abort="fail")
    operator.slice(Intent.DRAINED, 1.5)
    found = operator.restore()
    vm = row(found, "vm")
    assert (vm["verdict"], vm["abort_status"]) == ("moved", "Failed")
    assert sim.node_of("vm") in ("n2", "n3") and clean(sim)


def test_an_abort_after_the_end_deletes_nothing(sim, operator) -> None:
    """The rows Succeeded and Failed: what has ended is history, and stays."""
    sim.add_vm("moved", "n1")
    sim.add_vm("failed", "n1", migrate_result="fail")
    operator.drain(max_attempts=1)
    before = {m["metadata"]["name"] for m in sim.all(VMIMS)}
    found = operator.restore()
    assert found["phase"] == "Active"
    assert row(found, "moved")["verdict"] == "moved" and sim.node_of("moved") != "n1"
    assert row(found, "failed")["verdict"] == "restored" and sim.node_of("failed") == "n1"
    left = {m["metadata"]["name"]: m["status"]["phase"] for m in sim.all(VMIMS)}
    assert set(left.values()) == {"Succeeded", "Failed"} and set(left) <= before
    assert clean(sim)


def test_in_post_copy_nothing_is_aborted(sim, operator) -> None:
    """libvirt could end it only together with the guest."""
    sim.add_vm("vm", "n1", migrate_seconds="60")
    operator.slice(Intent.DRAINED, 2.0)
    sim.edit(VMIS, "vm", lambda o: o["status"]["migrationState"].update(mode="PostCopy"), "default")
    found = operator.restore()
    assert row(found, "vm")["verdict"] == "moved" and sim.node_of("vm") in ("n2", "n3")
    assert sim.requests("DELETE", "virtualmachineinstancemigrations") == []
    assert clean(sim)


def test_what_waits_for_a_slot_never_begins_while_the_node_is_aborted(sim, operator) -> None:
    """An aborted migration frees a slot at once. One that took it, and whose target is being
    prepared, would be aborted only when it runs."""
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 2})
    for name in ("a", "b", "c", "d", "e"):
        sim.add_vm(name, "n1", migrate_seconds="600", abort_seconds="0")
    operator.slice(Intent.DRAINED, 1.0, run_id="one")
    queued = {m["metadata"]["name"] for m in sim.until(lambda: waiting(sim))}
    begun: set[str] = set()

    def look(change) -> None:
        phase = change.obj.get("status", {}).get("phase", "")
        if change.kind is VMIMS and phase not in ("", "Pending", "Failed"):
            begun.add(change.obj["metadata"]["name"])

    sim.call(lambda: sim.world.on_change(look))
    send = Client._send

    def slowly(client, *args):  # a server that takes its time
        time.sleep(0.15)
        return send(client, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "_send", slowly)
        assert operator.restore()["phase"] == "Active"
    assert queued and not queued & begun
    assert clean(sim)


def waiting(sim) -> list:
    """The migrations in the queue, as soon as two run. Only on the cluster's thread."""
    found = list(sim.world.store.all(VMIMS))
    running = [m for m in found if m.get("status", {}).get("phase") == "Running"]
    return [m for m in found if m["status"]["phase"] == "Pending"] if len(running) == 2 else []


def test_an_abort_asks_all_to_end_before_it_notes_that_on_any(sim, operator) -> None:
    """Else the last ones move on while the first ones are noted."""
    take_slots(sim)
    for number in range(4):
        sim.add_vm(f"vm{number}", "n1", migrate_seconds="600")
    operator.slice(Intent.DRAINED, 2.0)
    before = len(sim.log)
    assert operator.restore()["phase"] == "Active" and clean(sim)
    did = [f"{call.method} {call.path.split('/')[-1]}" for call in sim.log[before:]]
    ends = [n for n, what in enumerate(did) if what == "PUT cancel"]
    notes = [n for n, what in enumerate(did) if what == "POST events"]
    assert ends and notes and max(ends) < min(notes), did


def test_a_restore_after_a_killed_drain_says_which_lease_it_waits_for(sim, operator, monkeypatch) -> None:
    """Slice after slice, until the Lease of the killed one has expired; nothing is done before."""
    monkeypatch.setattr(service, "_SAYS_AFTER", 0.6)
    sim.add_vm("vm", "n1", migrate_seconds="600")
    operator.slice(Intent.DRAINED, 1.0, run_id="killed")
    Lock(Client(operator.auth), "default", "n1", "killed 1", 4).take(1.0, dict)
    request = replace(operator.request(Intent.ACTIVE, "mine", 1.0), cursor="")
    found = [service.run_slice(request)]
    while "waits_for" in found[-1]:
        assert found[-1]["phase"] == "Restoring" and not found[-1]["changed"]
        assert "Lease virtops-maintenance-n1 of run killed" in found[-1]["waits_for"]
        assert sim.leftovers() != []
        found.append(service.run_slice(replace(request, cursor=found[-1]["cursor"])))
    assert len(found) > 2
    last = found[-1]
    while last["ended"] != "final":
        last = service.run_slice(replace(request, begun=True, cursor=last["cursor"]))
    assert last["phase"] == "Active" and clean(sim)


def not_ready(sim, status: str) -> None:
    condition = {"type": "Ready", "status": status, "reason": "NodeStatusUnknown", "message": "silent"}
    sim.edit(NODES, "n1", lambda o: o["status"].update(conditions=[condition]))


def test_a_restore_of_a_node_that_did_not_come_back_gives_its_vms_back(sim, operator) -> None:
    """All that it does with VMs the API does. The node keeps its cordon until it is ready."""
    sim.add_vm("off", "n1", strategy="None", run_strategy="Manual", shutdown_seconds="1")
    assert operator.drain(allow_stop=True)["phase"] == "Drained"
    not_ready(sim, "Unknown")
    back = operator.restore(pending_timeout=2.0)
    assert (back["phase"], back["findings"][0]["reason"]) == ("Blocked", "NodeUnreadable"), back
    assert row(back, "off")["verdict"] == "cold_moved" and sim.running("off") and sim.node_of("off") != "n1"
    assert sim.find(NODES, "n1")["spec"]["unschedulable"]
    not_ready(sim, "True")
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_an_abort_withdraws_what_a_silent_node_was_asked_for(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="300")
    operator.slice(Intent.DRAINED, 1.5)
    sim.until(lambda: list(sim.world.store.all(VMIMS)))
    not_ready(sim, "Unknown")
    back = operator.restore(pending_timeout=2.0)
    assert (back["phase"], row(back, "vm")["verdict"]) == ("Blocked", "restored"), back
    assert sim.leftovers() == [] and sim.node_of("vm") == "n1"


@pytest.mark.parametrize(("arrives", "again"), [(False, False), (True, True)])
def test_a_drain_that_is_killed_at_its_request_to_stop(sim, operator, monkeypatch, arrives, again) -> None:
    """It was noted before it was made. What runs was not asked, once nothing can be on its way any more; what was, is
    seen to stop, by its pod first, and is started again."""
    sim.add_vm("vm", "n1", strategy="None", run_strategy="Manual", shutdown_seconds="3")
    uid, send = sim.find(VMIS, "vm")["metadata"]["uid"], Client._send

    def killed(client, method, path, *args):
        if not path.endswith("/eviction"):
            return send(client, method, path, *args)
        if arrives:
            send(client, method, path, *args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Client, "_send", killed)
        with pytest.raises(KeyboardInterrupt):
            operator.slice(Intent.DRAINED, 60.0, allow_stop=True)
    monkeypatch.setattr(decide, "_ON_ITS_WAY_SECONDS", 0.0 if arrives else 12.0)
    back = operator.restore(shutdown_timeout=120.0)
    verdict = row(back, "vm")["verdict"]
    # It is started where KubeVirt's scheduler likes.
    assert back["phase"] == "Active" and verdict in ("restored", *["cold_moved"] * again), back
    sim.until(lambda: sim.running("vm"))
    assert (sim.find(VMIS, "vm")["metadata"]["uid"] != uid) is again and clean(sim)
