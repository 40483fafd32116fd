"""What a migration waits for: each cause planted, and found as the first thing to look at."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import NodeUnknown
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import VMNotHere
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration_info.read import (
    InfoRequest,
    waiting,
)
from kubesim import Kubesim
from kubesim.kinds import NODES, PODS, VMIMS, VMIS, VMS
from kubesim.reading import take_slots


def ask(operator: Any, **what: str) -> dict[str, Any]:
    if "name" in what:
        what.setdefault("namespace", "default")
    return waiting(InfoRequest(operator.auth, **what))


def first(operator: Any, name: str = "vm") -> dict[str, Any]:
    """The first finding of a VM."""
    found = ask(operator, name=name)["migrations"][0]["findings"]
    assert found, "nothing was found"
    finding: dict[str, Any] = found[0]
    return finding


def migrate(sim: Kubesim, name: str = "vm", phase: str = "", **notes: str) -> str:
    """A migration by hand, waited for until it is in this phase. Its name."""
    meta = {
        "name": f"m-{name}",
        "namespace": "default",
        "labels": {"kubevirt.io/vmi-name": name},
        "annotations": {f"lab/{k.replace('_', '-')}": v for k, v in notes.items()},
        "finalizers": ["kubevirt.io/migrationJobFinalize"],
    }
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": name}})

    def reached() -> bool:
        found = sim.world.store.find(VMIMS, "default", f"m-{name}")
        return found is not None and found.get("status", {}).get("phase") == phase

    if phase:
        sim.until(reached)
    return f"m-{name}"


def long_ago(sim: Kubesim, name: str, phase: str) -> None:
    """It is in this phase since ten minutes ago."""
    stamp = {"phase": phase, "phaseTransitionTimestamp": "2020-01-01T00:00:00Z"}
    sim.edit(VMIMS, name, lambda o: o["status"].update(phaseTransitionTimestamps=[stamp]), "default")


def test_what_moves_waits_for_nothing(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    migrate(sim, phase="Running")
    found = ask(operator, name="vm")
    (row,) = found["migrations"]
    assert (row["phase"], row["source"], row["findings"]) == ("Running", "n1", [])
    assert row["target"] in ("n2", "n3") and row["target_pod"]
    assert row["requested_by"].startswith("someone else") and found["not_read"] == []


def test_slots_are_counted_and_their_holders_named(sim, operator) -> None:
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 1})
    for name in ("vm", "holder"):
        sim.add_vm(name, "n1", migrate_seconds="1000")
    migrate(sim, "holder", "Running")
    migrate(sim, "vm", "Pending")
    found = first(operator)
    assert (found["where"], found["code"]) == ("policy and limits", "WaitingForSlot")
    assert "1 of 1 outbound migrations of n1 are taken: " in found["sentence"]
    assert "default/holder (Running" in found["sentence"]
    assert found["subject"] == "migration default/m-vm" and found["plane"] == "control"


def test_a_stuck_holder_is_told(sim, operator) -> None:
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 1})
    sim.add_vm("holder", "n1", prepare="hang")
    sim.add_vm("vm", "n1")
    migrate(sim, "holder", "PreparingTarget")
    long_ago(sim, "m-holder", "PreparingTarget")
    migrate(sim, "vm", "Pending")
    assert "from n1, stuck?" in first(operator)["sentence"]
    held = first(operator, "holder")
    assert (held["where"], held["code"]) == ("migration", "TargetPreparation")
    assert "virt-handler on n" in held["sentence"]


def test_a_target_pod_that_does_not_start(sim, operator) -> None:
    sim.add_vm("vm", "n1", target_pod="hang")
    migrate(sim, phase="Scheduling")

    def wait_long(pod: dict[str, Any]) -> None:  # and not so long that KubeVirt deletes it
        made = datetime.fromtimestamp(sim.world.clock.now() - 60, UTC)
        pod["metadata"]["creationTimestamp"] = made.strftime("%Y-%m-%dT%H:%M:%SZ")
        waiting_for = {"reason": "ImagePullBackOff", "message": "no such image"}
        status = {"name": "compute", "state": {"waiting": waiting_for}}
        pod["status"]["containerStatuses"] = [status]

    pod = target(sim)
    sim.edit(PODS, pod["metadata"]["name"], wait_long, "default")
    found = first(operator)
    assert (found["where"], found["code"]) == ("target pod", "TargetPodNotReady")
    assert "compute: ImagePullBackOff (no such image)" in found["sentence"]


def target(sim: Kubesim) -> dict[str, Any]:
    found = [p for p in sim.all(PODS) if "kubevirt.io/migrationJobUID" in p["metadata"]["labels"]]
    pod: dict[str, Any] = found[-1]
    return pod


def test_a_mark_without_a_migration(sim, operator) -> None:
    sim.add_vm("vm", "n1", strategy="External")
    sim.edit(VMIS, "vm", lambda o: o["status"].update(evacuationNodeName="n1"), "default")
    found = first(operator)
    assert (found["where"], found["code"]) == ("migration", "EvacuationNotStarted")
    assert "External" in found["sentence"]
    assert ask(operator, namespace="default")["migrations"][0]["marked"] == "n1"


def test_the_back_off_says_how_often_and_how_long(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_result="fail", migrate_fail_reason="link is down")
    sim.edit(VMIS, "vm", lambda o: o["status"].update(evacuationNodeName="n1"), "default")

    asked = InfoRequest(operator.auth, name="vm", namespace="default")
    findings: list[Any] = []
    # A back-off may be over before it is read; the next one is twice as long.
    for _try in range(200):
        migrations = waiting(asked, wall=sim.world.clock.now)["migrations"]
        findings = [why for one in migrations for why in one["findings"] if why["code"] == "MigrationBackoff"]
        if findings:
            break
        time.sleep(0.05)
    (why,) = findings
    assert (why["where"], why["code"]) == ("migration", "MigrationBackoff")
    # One, or more if the simulator came further before it was read.
    told = re.match(
        r"(\d+) attempts? failed, the last with MigrationFailed\. .*back-off is (\d+) s from ", why["sentence"]
    )
    assert told and int(told[2]) == 20 * 2 ** (int(told[1]) - 1), why
    assert "link is down" in why["sentence"]


def test_a_backup_and_utility_volumes(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.world.paused.add("migration")
    name = migrate(sim)
    for kind, code in (
        ("migrationBlockedByBackup", "BackupInProgress"),
        ("migrationBlockedByUtilityVolumes", "UtilityVolumesPresent"),
    ):
        condition = {"type": kind, "status": "True"}
        sim.edit(
            VMIMS, name, lambda o, c=condition: o.update(status={"phase": "Pending", "conditions": [c]}), "default"
        )
        assert first(operator)["code"] == code


def test_two_loops_on_one_vm_are_told(sim, operator) -> None:
    """The descheduler wants it away, on a VM that had no annotations, and somebody moves it."""
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    migrate(sim, phase="Running")
    notes = {"kubevirt.io~1eviction-source": "descheduler"}
    sim.edit(VMIS, "vm", lambda o: o["status"].update(evacuationNodeName="n1"), "default")
    sim.edit(VMIS, "vm", lambda o: o["metadata"].update(annotations=notes), "default")
    found = first(operator)
    assert (found["where"], found["code"]) == ("migration", "TwoLoops")
    assert "m-vm of someone else" in found["sentence"]
    assert "descheduler (eviction from n1) asks to move it too" in found["sentence"]


def test_a_policy_that_is_too_slow_for_the_vm(sim, operator) -> None:
    sim.add_vm("vm", "n1", memory="8Gi", migrate_seconds="1000", labels={"size": "big"})
    policy = {
        "metadata": {"name": "slow"},
        "spec": {"selectors": {"virtualMachineInstanceSelector": {"size": "big"}}, "bandwidthPerMigration": "1Mi"},
    }
    sim.add("migrationpolicies", policy)
    migrate(sim, phase="Running")
    found = ask(operator, name="vm")["migrations"][0]
    assert found["policy"] == "slow"
    (why,) = found["findings"]
    assert (why["where"], why["code"]) == ("policy and limits", "CompletionTimeout")
    assert why["subject"] == "MigrationPolicy slow"
    assert "8192 MiB of memory at 1 MiB/s take 8192 s" in why["sentence"]


def test_a_migration_that_moved_and_is_kept_open(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    required = {"type": "MigrationRequired", "status": "True"}
    sim.edit(VMIS, "vm", lambda o: o["status"]["conditions"].append(required), "default")
    migrate(sim)
    sim.until(lambda: sim.world.store.find(VMIS, "default", "vm")["status"]["nodeName"] != "n1")
    found = first(operator)
    assert found["code"] == "MigrationObjectStays" and "The VM runs on n" in found["sentence"]


def test_how_the_last_one_failed(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_result="fail", migrate_fail_reason="link is down")
    migrate(sim, phase="Failed")
    found = first(operator)
    assert (found["code"], found["plane"]) == ("MigrationFailed", "data")
    assert "link is down" in found["sentence"]


def test_of_a_node_what_leaves_and_what_comes(sim, operator) -> None:
    for name, node in (("leaves", "n1"), ("comes", "n2"), ("stays", "n1"), ("other", "n2")):
        sim.add_vm(name, node, migrate_seconds="1000")
    sim.edit(NODES, "n3", lambda o: o["spec"].update(unschedulable=True))
    migrate(sim, "leaves", "Running")  # to n2
    migrate(sim, "comes", "Running")  # to n1
    found = ask(operator, node="n1")["migrations"]
    assert {row["name"] for row in found} == {"default/leaves", "default/comes"}


def test_what_may_not_be_read_is_told_and_the_rest_is_there(sim, operator) -> None:
    take_slots(sim)
    sim.add_vm("vm", "n1")
    migrate(sim, phase="Pending")
    rules = sim.api.access.rules["maintenance"]
    sim.api.access.rules["maintenance"] = [
        r for r in rules if not {"migrationpolicies", "events"} & set(r["resources"])
    ] + [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    found = ask(operator, name="vm")
    assert found["migrations"][0]["findings"][0]["code"] == "WaitingForSlot"
    assert any("list migrationpolicies.migrations.kubevirt.io" in t for t in found["not_read"])
    assert any("list events" in text for text in found["not_read"])


def test_it_only_reads(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    migrate(sim, phase="Running")
    before = len(sim.log)
    for what in ({"name": "vm"}, {"namespace": "default"}, {"node": "n1"}):
        ask(operator, **what)
    assert {call.method for call in sim.log[before:]} == {"GET"}


def test_what_is_not_there_is_one_clear_error(sim, operator) -> None:
    sim.add_vm("off", "n1", run_strategy="Halted", wait=False)
    sim.until(lambda: sim.world.store.find(VMS, "default", "off").get("status"))
    with pytest.raises(VMNotHere, match="There is no VM nobody in namespace default"):
        ask(operator, name="nobody")
    with pytest.raises(VMNotHere, match=r"does not run \(Stopped\)"):
        ask(operator, name="off")
    with pytest.raises(NodeUnknown, match="no node n9"):
        ask(operator, node="n9")
    with pytest.raises(PolicyError, match="none of them may be empty"):
        ask(operator, node="")
    assert ask(operator, namespace="empty")["migrations"] == []
