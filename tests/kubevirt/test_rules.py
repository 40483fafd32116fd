"""Rules on VMIs: the same document and the same words as on libvirt."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.filter.eviction_strategy import eviction_strategy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import check_mode
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.schema import FIELDS
from ansible_collections.virtops.maintenance.tests.unit.roles.test_rule_sets import ready
from kubesim.kinds import NODES, VMIS, VMS
from kubesim.reading import evictions, row

pytestmark = pytest.mark.full


def test_a_rule_migrates_what_kubevirt_would_stop(sim, operator) -> None:
    """An eviction would stop it, so the run makes a migration of its own."""
    sim.add_vm("silent", "n1", strategy="None")
    uid = sim.find(VMIS, "silent")["metadata"]["uid"]
    found = operator.drain(rules=[{"name": "move", "strategy": "LiveMigrate"}])
    assert found["phase"] == "Drained" and row(found, "silent")["decided_by"] == "rule move"
    assert sim.find(VMIS, "silent")["metadata"]["uid"] == uid  # the same instance
    assert [p for p in evictions(sim) if p == "silent"] == []


def test_external_by_a_rule_moves_and_stops_nothing(sim, operator) -> None:
    """An eviction would make KubeVirt migrate the one and stop the other."""
    sim.add_vm("live", "n1")
    sim.add_vm("silent", "n1", strategy="None")
    rules = [{"name": "theirs", "strategy": "External"}]
    found = operator.drain(rules=rules, external_timeout=1.0)
    assert {vm["reason"] for vm in found["vms"]} == {"ExternalOwnerTimedOut"}
    assert evictions(sim) == [] and sim.leftovers() == []
    assert sim.node_of("live") == sim.node_of("silent") == "n1"


def test_higher_priority_has_the_slots_first(sim, operator) -> None:
    for name in ("a", "b", "c", "d"):
        tier = "db" if name in "cd" else "web"
        sim.add_vm(name, "n1", labels={"tier": tier}, migrate_seconds="10")
    rules = [{"name": "db first", "when": "labels.tier == 'db'", "priority": 5}]
    assert operator.drain(rules=rules)["phase"] == "Drained"
    asked = [c.path.split("/")[-2].split("-")[2] for c in sim.requests("POST", "/eviction")]
    assert set(asked[:2]) == {"c", "d"} and sorted(asked) == ["a", "b", "c", "d"]


def test_a_limit_asks_for_fewer_at_once(sim, operator) -> None:
    from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits

    for name in ("a", "b"):
        sim.add_vm(name, "n1", migrate_seconds="300")
    operator.slice(Intent.DRAINED, 1.5, limits=Limits(10**6, 1, 10**6))
    assert len(evictions(sim)) == 1


def test_the_run_strategy_comes_from_the_virtual_machine(sim, operator, verdicts) -> None:
    sim.add_vm("always", "n1", strategy="None")
    sim.add_vm("manual", "n1", strategy="None", run_strategy="Manual")
    rules = [{"name": "comes back", "when": "run_strategy == 'Always'", "allow_stop": True}]
    found = operator.drain(rules=rules)
    assert verdicts(found) == {"always": "cold_moved", "manual": "blocked"}
    assert sim.find(VMS, "manual")["spec"]["runStrategy"] == "Manual"


def test_a_guest_that_does_not_stop_is_switched_off_if_that_is_allowed(sim, operator) -> None:
    sim.add_vm("deaf", "n1", strategy="None", grace=100000, shutdown_seconds="100000")
    found = operator.drain(allow_stop=True, shutdown_timeout=1.0)
    assert row(found, "deaf")["reason"] == "ShutdownTimedOut"
    found = operator.drain(allow_stop=True, force_stop=True, shutdown_timeout=1.0)
    assert found["phase"] == "Drained" and sim.node_of("deaf") in ("", "n2", "n3")


def test_the_filter_says_what_the_info_module_says(sim, operator) -> None:
    """For VMs of all strategies, those that name none among them."""
    for strategy in (None, "None", "LiveMigrate", "LiveMigrateIfPossible", "External"):
        name = str(strategy or "silent").lower()
        sim.add_vm(name, "n1", strategy=strategy)
        reason = "DisksNotLiveMigratable"
        sim.add_vm(f"{name}-stuck", "n1", strategy=strategy, not_migratable_reason=reason)
    rules = [{"name": "not these", "when": "name == 'silent-stuck'", "priority": 1}]
    for default in ("", "None", "LiveMigrate", "LiveMigrateIfPossible"):
        if default:
            sim.configure(evictionStrategy=default)
        found = check_mode.read_node(operator.request(Intent.DRAINED, "r", 1.0, rules=rules))
        told = {vm["name"].split("/")[1]: (vm["way"], vm["decided_by"]) for vm in found["vms"]}
        rows = eviction_strategy(found, rules)
        assert {one["name"]: (one["way"], one["decided_by"]) for one in rows} == told, default
        assert len(told) == 10


def test_the_document_has_every_field_of_the_schema(sim, operator) -> None:
    sim.add_vm("vm", "n1", labels={"tier": "web"})
    request = operator.request(Intent.DRAINED, "r", 1.0)
    (document,) = check_mode.read_node(request)["documents"]
    assert set(document) == set(FIELDS)
    assert (document["namespace"], document["name"], document["node"]) == ("default", "vm", "n1")
    assert (document["run_strategy"], document["autostart"]) == ("Always", True)
    assert document["owner"] == "VirtualMachine/vm" and document["migratable"] is True


SLOWED = {
    "name": "slowed",
    "when": "labels.tier == 'db'",
    "strategy": "LiveMigrate",
    "migration": {"auto_converge": True, "completion_timeout_per_gib": 600},
}


def unmet(found: dict[str, Any], name: str) -> list[tuple[str, str, str]]:
    rows = row(found, name)["unmet_settings"]
    return [(r["setting"], r["wanted"], r["applies"]) for r in rows]


def test_settings_that_a_rule_asks_for_are_compared_with_what_applies(sim, operator) -> None:
    """Per VM, since one may have a MigrationPolicy and another not; and it moves all the same."""
    sim.add_vm("db", "n1", labels={"tier": "db"})
    sim.add_vm("mended", "n1", labels={"tier": "db", "policy": "yes"})
    sim.add_vm("web", "n1", labels={"tier": "web"})
    sim.add_vm("stopped", "n1", labels={"tier": "db"}, strategy="None")
    spec = {
        "selectors": {"virtualMachineInstanceSelector": {"policy": "yes"}},
        "allowAutoConverge": True,
        "completionTimeoutPerGiB": 600,
    }
    sim.add("migrationpolicies", {"metadata": {"name": "patient"}, "spec": spec})
    stops = {"name": "stops", "when": "name == 'stopped'", "migration": {"tls": False}}
    found = operator.drain(rules=[stops, SLOWED], allow_stop=True)
    assert found["phase"] == "Drained"
    assert unmet(found, "db") == [("auto_converge", "true", "false"), ("completion_timeout_per_gib", "600", "150")]
    assert row(found, "db")["unmet_settings"][0]["remedy"] == (
        "Make a MigrationPolicy that selects the VM, with allowAutoConverge: true."
    )
    assert unmet(found, "mended") == unmet(found, "web") == unmet(found, "stopped") == []


def test_of_settings_that_may_not_be_read_it_is_said(sim, operator) -> None:
    rights = sim.api.access.rules["maintenance"]
    sim.api.access.rules["maintenance"] = [r for r in rights if "migrationpolicies" not in r["resources"]]
    sim.add_vm("db", "n1", labels={"tier": "db"}, migrate_seconds="90")  # looked at while it moves
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda node: node["spec"].update(unschedulable=True))
    found = operator.slice(Intent.DRAINED, 2.0, rules=[SLOWED])
    assert unmet(found, "db")[0] == ("auto_converge", "true", "not known")
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda node: node["spec"].pop("unschedulable"))
    found = operator.drain(rules=[SLOWED])
    assert found["phase"] == "Drained"
    # At the hand-off KubeVirt writes what it took into the VMI, which may be read.
    assert unmet(found, "db")[0] == ("auto_converge", "true", "false")


def test_wrong_settings_of_a_rule_are_an_error() -> None:
    rules = [{"name": "slow", "migration": {"bandwith": 5}}]
    with pytest.raises(PolicyError, match=r"rules\[0\] \(slow\), migration: .*bandwidth"):
        options.policy({"rules": rules, "on_not_migratable": "block", "limits": {}})


SETS = ("nearly_stateless", "host_devices", "shared_storage", "memory_writers")


def test_the_shipped_rules_decide_and_drain_a_node(sim, operator, verdicts) -> None:
    sim.add_vm("worker", "n1", labels={"stateless": "true"})
    sim.add_vm("gpu", "n1", not_migratable_reason="HostDeviceNotLiveMigratable")
    devices = {"hostDevices": [{"name": "d", "deviceName": "example.org/card"}]}
    sim.edit(VMIS, "gpu", lambda o: o["spec"]["domain"].update(devices=devices), "default")
    sim.add_vm("writer", "n1", labels={"memory-writes": "heavy"})
    sim.add_vm("plain", "n1")
    found = operator.drain(rules=[rule for name in SETS for rule in ready(name)])
    decided = {vm["name"].split("/")[1]: vm["decided_by"] for vm in found["vms"]}
    assert decided == {
        "worker": "rule nearly stateless VMs are stopped",
        "gpu": "rule host devices, bound to the host",
        "writer": "rule memory writers, slowed down",
        "plain": "declared by the VM",
    }
    assert found["phase"] == "Drained"
    ends = {"worker": "cold_moved", "gpu": "cold_moved", "writer": "moved", "plain": "moved"}
    assert verdicts(found) == ends
    assert ("auto_converge", "true", "false") in unmet(found, "writer")
