"""Owners go on with their VMs: they delete, stop and restart them in any phase of a drain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from ansible_collections.virtops.maintenance.tests.kubevirt.one_vm import phases
from kubesim import handler
from kubesim.kinds import NAMESPACES, NODES, PODS, VMIS, VMS
from kubesim.reading import clean, row, take_slots
from kubesim.virtapi import put
from kubesim.words import phase

DELETED = "deletionTimestamp"
LIVES_LONG = {"migrate_seconds": "60", "linger_seconds": "17"}


def delete(sim, name: str = "vm", kind=VMS) -> None:
    sim.call(lambda: sim.world.store.delete(kind, "default", name))


def ask(sim, what: str, name: str = "vm") -> None:
    """virtctl stop, restart"""
    sim.call(lambda: put(sim.world, "default", "virtualmachines", name, what, {}))


def until_gone(sim, name: str = "vm") -> None:
    sim.until(lambda: sim.world.store.find(VMIS, "default", name) is None)


def is_over(sim) -> bool:
    vmi = sim.world.store.find(VMIS, "default", "vm")
    return vmi is None or phase(vmi) in ("Succeeded", "Failed")


def begin(sim, operator, phase: str = "Running", **policy) -> Callable[[], dict]:
    """A drain whose migration is in this phase; carries it on to its end, as a module would."""
    request = operator.request(Intent.DRAINED, "begun", 0.3, **policy)
    service.run_slice(request)
    sim.until(lambda: phase in phases(sim))

    def go_on() -> dict:
        for _slice in range(15):
            found = service.run_slice(replace(request, begun=True, seconds=2.0))
            if found["ended"] == "final":
                return found
        raise AssertionError(f"not final: {found}")

    return go_on


def tells_of_its_end(found: dict, name: str = "vm") -> None:
    told = row(found, name)
    assert (told["verdict"], told["reason"]) == ("gone", "VMVanished")
    assert "was deleted" in told["message"]
    assert [text for text in found["warnings"] if f"default/{name}" in text and "deleted" in text]


@pytest.mark.parametrize("bare", [False, True], ids=["VirtualMachine", "bare instance"])
def test_a_vm_deleted_after_it_moved_is_gone_and_the_node_is_restored(sim, operator, bare) -> None:
    sim.add_vm("vm", "n1", run_strategy="" if bare else "Always")
    assert operator.drain()["phase"] == "Drained"
    delete(sim, kind=VMIS if bare else VMS)
    until_gone(sim)
    found = operator.restore()
    assert found["phase"] == "Active"
    tells_of_its_end(found)
    assert clean(sim) and operator.restore()["phase"] == "Active"


@pytest.mark.parametrize(
    ("bare", "phase"), [(False, "Pending"), (False, "Scheduling"), (False, "Running"), (True, "Running")]
)
def test_a_vm_deleted_while_it_migrates_is_gone_and_the_node_is_drained(sim, operator, bare, phase) -> None:
    knobs = {"target_pod": "hang"} if phase == "Scheduling" else {}
    if phase == "Pending":
        take_slots(sim)
    sim.add_vm("vm", "n1", run_strategy="" if bare else "Always", **LIVES_LONG, **knobs)
    go_on = begin(sim, operator, phase)
    delete(sim, kind=VMIS if bare else VMS)
    found = go_on()
    assert found["phase"] == "Drained"
    tells_of_its_end(found)
    assert "VMLost" not in str(found)
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_a_vm_deleted_and_made_anew_under_its_name_is_another_one(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    assert operator.drain()["phase"] == "Drained"
    delete(sim)
    until_gone(sim)
    sim.until(lambda: sim.world.store.find(VMS, "default", "vm") is None)
    sim.add_vm("vm", "n2")
    found = operator.restore()
    assert found["phase"] == "Active"
    tells_of_its_end(found)


@pytest.mark.parametrize("when", ["before its migration", "while it migrates", "after it moved"])
def test_a_vm_that_its_owner_stops_is_reported_as_stopped(sim, operator, when) -> None:
    sim.add_vm("vm", "n1", **{**LIVES_LONG, "migrate_seconds": "5"})
    go_on = operator.drain
    if when == "before its migration":
        ask(sim, "stop")
    elif when == "while it migrates":
        go_on = begin(sim, operator, max_attempts=1)
        ask(sim, "stop")
    found = go_on()
    assert found["phase"] == "Drained"
    if when == "after it moved":
        ask(sim, "stop")
        until_gone(sim)  # until then it has moved, and is there
        found = operator.drain()
    assert row(found, "vm")["verdict"] in ("gone", "off")
    assert row(found, "vm")["reason"] in ("StoppedByItself", "")
    assert found["phase"] == "Drained"
    assert operator.restore()["phase"] == "Active"


def test_a_vm_that_is_restarted_while_it_migrates_is_no_failed_attempt(sim, operator) -> None:
    """virtctl restart: for a while the old instance has ended, and is still there."""
    sim.add_vm("vm", "n1", **LIVES_LONG)
    go_on = begin(sim, operator, max_attempts=1)
    ask(sim, "restart")
    found = go_on()
    assert found["phase"] == "Drained"
    vm = row(found, "vm")
    assert (vm["verdict"], vm["at"]) == ("cold_moved", sim.node_of("vm"))
    assert sim.node_of("vm") in ("n2", "n3")
    assert vm["reason"] == "RestartedByOthers" and "Someone else" in vm["message"]
    assert [text for text in found["warnings"] if "default/vm" in text and "omeone else" in text]
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_a_vm_that_another_client_evicts_is_not_called_blocked(sim, operator) -> None:
    """Its instance still runs, and then has ended, before it is started anew elsewhere."""
    more = {"not_migratable_reason": "DisksNotLiveMigratable", "shutdown_seconds": "15"}
    sim.add_vm("vm", "n1", strategy="LiveMigrateIfPossible", linger_seconds="17", **more)
    sim.edit(NODES, "n1", lambda o: o["spec"].update(unschedulable=True))
    pod = sim.all(PODS)[0]
    sim.call(lambda: sim.world.delete_pod(pod))
    found = operator.drain()
    assert found["phase"] == "Drained", row(found, "vm")
    assert row(found, "vm")["verdict"] == "cold_moved" and sim.node_of("vm") != "n1"
    assert row(found, "vm")["reason"] == "RestartedByOthers"


@pytest.mark.parametrize("how", ["restarted", "collected"])
def test_a_vm_that_kubevirt_starts_again_is_not_to_be_started_by_hand(sim, operator, how) -> None:
    """Its instance is being ended, or its pod is collected at once; it comes back by itself."""
    sim.add_vm("vm", "n1", shutdown_seconds="1000", grace=1000)
    sim.edit(NODES, "n1", lambda o: o["spec"].update(unschedulable=True))
    if how == "restarted":
        ask(sim, "restart")
        sim.until(lambda: sim.world.store.find(VMIS, "default", "vm")["metadata"].get(DELETED))
    else:
        sim.world.paused.add("vm")
        (pod,) = sim.all(PODS)
        sim.call(lambda: sim.world.store.delete(PODS, "default", pod["metadata"]["name"]))
        sim.until(lambda: phase(sim.world.store.find(VMIS, "default", "vm")) == "Failed")
    vm = row(operator.slice(Intent.DRAINED, 1.0), "vm")
    assert (vm["verdict"], vm["reason"]) == ("pending", "RestartedByOthers"), vm
    assert "KubeVirt restarts it" in vm["message"]


def test_a_vm_of_a_namespace_that_is_deleted_is_not_started_anew(sim, operator) -> None:
    """Its pod is asked to end before its VirtualMachine is deleted."""
    sim.add_vm("vm", "n1", shutdown_seconds="20", **LIVES_LONG)
    begin(sim, operator)
    ends = {"finalizers": ["kubernetes"], DELETED: sim.world.clock.stamp()}
    sim.edit(NAMESPACES, "default", lambda o: o["metadata"].update(ends))
    for pod in sim.all(PODS):
        sim.call(lambda pod=pod: sim.world.delete_pod(pod))
    vm = row(operator.slice(Intent.DRAINED, 0.0), "vm")
    assert vm["reason"] == "StoppedByItself" and "the namespace default is being deleted" in vm["message"], vm
    sim.until(lambda: is_over(sim))
    vm = row(operator.slice(Intent.DRAINED, 0.0), "vm")
    assert "anew" not in vm["message"], vm
    delete(sim)
    found = operator.drain()
    assert (found["phase"], row(found, "vm")["reason"]) == ("Drained", "VMVanished"), row(found, "vm")


@pytest.mark.parametrize(
    ("strategy", "when"),
    [
        *(("Manual", "in its migration"), ("Once", "before it is asked")),
        *(("Always", "in its migration"), ("RerunOnFailure", "before it is asked")),
    ],
)
def test_a_guest_that_crashes_is_told_as_that_and_holds_up_nothing(sim, operator, strategy, when) -> None:
    """As seen with a real QEMU: all migrations Failed, and the mark stays on the VMI that has ended."""
    anew = strategy in ("RerunOnFailure", "Always")
    sim.add_vm("vm", "n1", run_strategy=strategy, migrate_seconds="2", migrate_result="crash")
    if when == "in its migration":
        found = operator.drain()
    else:
        operator.slice(Intent.DRAINED, 0.0)  # the VM is known
        sim.call(lambda: handler.crash(sim.world, "default", "vm"))
        found = operator.drain()
    vm = row(found, "vm")
    assert vm["reason"] == "VMCrashed", vm
    assert vm["verdict"] == ("cold_moved" if anew else "blocked")
    assert found["phase"] == ("Drained" if anew else "Blocked")
    assert vm["nudges"] <= 1
    assert [text for text in found["warnings"] if "default/vm" in text and "crash" in text] or not anew


@pytest.mark.parametrize("strategy", ["Manual", "Always"])
def test_a_crash_is_told_by_an_event_that_comes_after_the_phase(
    sim, operator, strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """virt-handler updates the VMI, and then has its event sent by another thread."""
    sim.add_vm("vm", "n1", run_strategy=strategy, **LIVES_LONG)
    go_on = begin(sim, operator, phase="Running")
    told = sim.world.event
    monkeypatch.setattr(sim.world, "event", lambda *what: sim.world.later(8.0, lambda: told(*what)))
    sim.call(lambda: handler.crash(sim.world, "default", "vm"))
    vm = row(go_on(), "vm")
    assert (vm["verdict"], vm["reason"]) == ("cold_moved" if strategy == "Always" else "blocked", "VMCrashed"), vm


@pytest.mark.parametrize("strategy", ["Manual", "Always"])
def test_a_guest_that_kubevirt_ends_for_its_broken_post_copy_is_told_in_its_words(sim, operator, strategy) -> None:
    sim.add_vm("vm", "n1", run_strategy=strategy, migrate_seconds="3", migrate_result="crash")
    go_on = begin(sim, operator)
    sim.edit(VMIS, "vm", lambda o: o["status"]["migrationState"].update(mode="PostCopy"), "default")
    found = go_on()
    vm = row(found, "vm")
    assert vm["reason"] == "Irrecoverable" and "VMI is irrecoverable due to failed post-copy" in vm["remedy"], vm
    assert vm["verdict"] == ("cold_moved" if strategy == "Always" else "blocked"), vm
    assert "virtctl start" in vm["remedy"]


def test_a_mark_on_an_instance_that_has_ended_is_no_work(sim, operator) -> None:
    """Its guest shut itself down while it waited for a slot. KubeVirt leaves the mark, and migrates it never."""
    take_slots(sim)
    sim.add_vm("vm", "n1", run_strategy="Manual")
    go_on = begin(sim, operator, phase="Pending")
    sim.call(lambda: handler.crash(sim.world, "default", "vm", "Succeeded"))
    found = go_on()
    vm = row(found, "vm")
    assert (found["phase"], vm["verdict"], vm["reason"]) == ("Drained", "gone", "StoppedByItself"), vm
    assert sim.find(VMIS, "vm")["status"]["evacuationNodeName"] == "n1"
