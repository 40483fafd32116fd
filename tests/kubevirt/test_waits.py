# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a migration waits for, told in words."""

from __future__ import annotations

from ansible_collections.virtops.maintenance.plugins.module_utils._core.record import (
    Intent,
)
from kubesim.kinds import NODES, QUOTAS, VMIS
from kubesim.reading import add_budget, clean, evictions, row


def test_a_quota_is_named_and_waited_for(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    quota = {"metadata": {"name": "tight", "namespace": "default"}}
    sim.add("resourcequotas", {**quota, "spec": {"hard": {"pods": "1"}}})
    found = operator.slice(Intent.DRAINED, 2.0)
    assert row(found, "vm")["reason"] == "QuotaExceeded"
    assert row(found, "vm")["phase"] == "Pending"

    sim.edit(QUOTAS, "tight", lambda o: o["spec"]["hard"].update(pods="2"), "default")
    assert operator.drain()["phase"] == "Drained"


def test_what_waits_in_vain_is_withdrawn(sim, operator) -> None:
    """KubeVirt has no deadline for a quota: it would wait, and hold the mark, for ever."""
    sim.add_vm("vm", "n1")
    quota = {"metadata": {"name": "tight", "namespace": "default"}}
    sim.add("resourcequotas", {**quota, "spec": {"hard": {"pods": "1"}}})
    found = operator.drain(pending_timeout=1.0)
    assert (found["phase"], row(found, "vm")["reason"]) == ("Blocked", "QuotaExceeded")
    assert sim.leftovers() == []
    assert evictions(sim) == ["vm"]


def test_a_target_that_no_node_takes_is_named(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.world.paused.add("migration")
    operator.slice(Intent.DRAINED, 0.5)
    for name in ("n2", "n3"):
        sim.edit(
            NODES,
            name,
            lambda o: o["metadata"]["labels"].update({"kubevirt.io/schedulable": "false"}),
        )
    sim.world.paused.clear()
    sim.edit(VMIS, "vm", lambda o: o["metadata"]["labels"].update(wake="up"), "default")
    found = operator.slice(Intent.DRAINED, 4.0, run_id="run-1")
    vm = row(found, "vm")
    assert (vm["phase"], vm["reason"]) == ("Scheduling", "TargetUnschedulable")
    assert "0/3 nodes are available" in vm["message"]
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_without_another_node_nothing_is_asked_for(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update(unschedulable=True))
    found = operator.drain(unknown_timeout=1.0)
    assert row(found, "vm")["reason"] == "NoTargetWithCapacity"
    assert evictions(sim) == [] and sim.leftovers() == []


def test_those_who_hold_the_slots_are_named(sim, operator) -> None:
    for name in ("a", "b", "c"):
        sim.add_vm(name, "n1", migrate_seconds="1000")
    found = operator.slice(Intent.DRAINED, 2.0)
    (waits,) = [vm for vm in found["vms"] if vm["reason"] == "WaitingForSlot"]
    assert "2 of 2 outbound migrations of n1 are taken: default/" in waits["message"]
    assert "Running since 20" in waits["message"]


def test_those_who_hold_the_slots_of_the_cluster_are_named(sim, operator) -> None:
    sim.configure(migrations={"parallelMigrationsPerCluster": 1})
    sim.add_vm("far", "n2", migrate_seconds="1000")
    meta = {"name": "stuck", "namespace": "default", "labels": {"kubevirt.io/vmi-name": "far"}}
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": "far"}})
    sim.add_vm("vm", "n1")
    found = row(operator.slice(Intent.DRAINED, 5.0), "vm")
    assert found["reason"] == "WaitingForSlot"
    assert "1 of 1 migrations of the cluster are taken: default/far" in found["message"]


def test_the_back_off_is_told(sim, operator) -> None:
    sim.add_vm("flaky", "n1", migrate_result="fail", migrate_seconds="1")
    found = operator.slice(Intent.DRAINED, 2.0)
    for _slice in range(10):
        if row(found, "flaky")["reason"] == "MigrationBackoff":
            break
        found = operator.slice(Intent.DRAINED, 0.5, "run-1")
    assert "KubeVirt waits" in row(found, "flaky")["message"]


def test_the_quota_is_told_by_its_numbers(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    meta = {"name": "tight", "namespace": "default"}
    state = {"hard": {"pods": "1"}, "used": {"pods": "1"}}
    sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": {"pods": "1"}}, "status": state})
    found = row(operator.slice(Intent.DRAINED, 2.0), "vm")
    assert found["message"] == "Namespace default: quota tight: pods 1 of 1 used."


def test_a_target_that_is_never_ready_is_told_and_given_up(sim, operator) -> None:
    """KubeVirt has no deadline for it, and it holds its slot for ever."""
    sim.add_vm("vm", "n1", prepare="hang")
    found = operator.drain(pending_timeout=3.0)
    vm = row(found, "vm")
    assert (found["phase"], vm["reason"], vm["plane"]) == (
        "Blocked",
        "TargetPreparation",
        "control",
    )
    assert "PreparingTarget" in vm["message"]
    assert sim.leftovers() == [] and sim.node_of("vm") == "n1"


def test_a_cpu_model_that_no_other_node_has_is_told(sim, operator) -> None:
    from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import waiting

    told = [{"type": "PodScheduled", "status": "False"}]
    told[0]["message"] = (
        "0/3 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    )
    spec = {"nodeSelector": {"cpu-model-migration.node.kubevirt.io/Skylake": "true"}}
    meta = {"namespace": "default", "name": "vm"}
    labels = {"kubevirt.io/migrationJobUID": "m"}
    status = {"phase": "Pending", "conditions": told}
    pod = {"metadata": {**meta, "labels": labels}, "spec": spec, "status": status}
    migration = {"metadata": {**meta, "uid": "m"}, "status": {"phase": "Scheduling"}}
    vmi = {"metadata": meta, "spec": {}}
    finding = waiting.first(waiting.Known(vmi, [migration], 0.0, pods=[pod]))
    assert finding.reason.value == "HostModelNotElsewhere" and "Skylake" in finding.message


def test_a_budget_over_a_vm_that_shall_stop_is_told(sim, operator) -> None:
    sim.add_vm("silent", "n1", strategy="None", labels={"tier": "db"})
    add_budget(sim, "strict", 1, tier="db")
    found = operator.drain(allow_stop=True, shutdown_timeout=2.0)
    assert found["phase"] == "Blocked"
    assert row(found, "silent")["reason"] == "DisruptionBudget"
    assert sim.node_of("silent") == "n1"
