"""What the preflight judges by more than one fact: policy, other nodes, our own record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    Job,
    OnNotMigratable,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    MigrationSettings,
    PlacementPolicy,
    Policy,
    Rule,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.check import check, result
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.facts import (
    Budget,
    MovedSeen,
    NodeSeen,
    StuckWork,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.preflight.plants import (
    POLICY,
    STOPS,
    K,
    L,
    clean,
    found,
    seen,
    vm,
)


def test_a_vm_that_policy_stops_is_a_warning_that_names_who_decided() -> None:
    why = (Finding(Reason.HostDeviceNotLiveMigratable, "The pci device 3b is passed to it."),)
    facts = vm(K, migratable=False, findings=why)
    rule = Rule("gpus", lambda d: True, on_not_migratable=OnNotMigratable.SHUTDOWN, allow_stop=True)
    told = found(facts, Policy(rules=(rule,)))
    row = told[Reason.HostDeviceNotLiveMigratable]
    assert row["severity"] == "warning"
    assert "with rule gpus" in row["decided_by"]
    assert found(facts)[Reason.HostDeviceNotLiveMigratable]["severity"] == "blocker"


def test_a_vm_that_will_be_stopped_anyway_is_not_asked_whether_it_can_migrate() -> None:
    facts = vm(L, migratable=False, findings=(Finding(Reason.DisksNotLiveMigratable),))
    assert Reason.DisksNotLiveMigratable not in found(facts, STOPS)


@pytest.mark.parametrize(("before", "now", "told"), [(True, False, True), (False, False, False), (True, None, False)])
def test_an_agent_that_was_never_there_or_cannot_be_read_is_nothing(before: bool, now: bool | None, told: bool) -> None:
    facts = replace(clean(K), moved=(MovedSeen("web", "b", before, now),))
    assert (Reason.GuestAgentSilent in found(facts)) is told


def test_a_silent_agent_holds_up_no_drain_that_is_under_way() -> None:
    facts = replace(clean(K), moved=(MovedSeen("web", "b", agent_before=True, agent=False),))
    assert found(facts)[Reason.GuestAgentSilent]["severity"] == "warning"


def test_a_server_by_name_is_one_finding_whatever_stands_on_it() -> None:
    """A guest reads other data where the name leads elsewhere; which of them move is what matters."""
    facts = clean(L)
    vms = {uuid: replace(vm, served_at=("nas-1",)) for uuid, vm in facts.observation.vms.items()}
    facts = replace(facts, observation=replace(facts.observation, vms=vms))
    (row,) = result(facts, check(facts, POLICY), {})["findings"]
    assert (row["code"], row["severity"], row["subject"]) == ("NotChecked", "warning", "node a")
    assert "nas-1 (disks of vm0, vm1)" in row["message"]
    assert Reason.NotChecked not in found(facts, STOPS)


def test_a_budget_matters_only_to_a_pod_that_is_really_evicted() -> None:
    full = seen(K, budgets=(Budget("b", left=0),))
    assert found(full) == {}
    assert found(full, STOPS)[Reason.DisruptionBudget]["severity"] == "blocker"
    never = seen(K, budgets=(Budget("b", "a percentage"),))
    assert found(never)[Reason.DisruptionBudget]["severity"] == "warning"
    two = seen(K, budgets=(Budget("b", left=1), Budget("c", left=1)))
    assert found(two, STOPS)[Reason.DisruptionBudget]["severity"] == "blocker"


def test_of_several_refusals_the_nearest_is_told_and_one_node_is_enough() -> None:
    full = (Reason.NoTargetWithCapacity, "1 MiB free")
    facts = seen(K, refused={"b": (Reason.NoTargetForSelector, "no label"), "c": full})
    told = found(facts)
    assert Reason.NoTargetWithCapacity in told and Reason.NoTargetForSelector not in told
    assert "no label" in told[Reason.NoTargetWithCapacity]["message"]
    facts = seen(K, refused={"b": full})
    assert found(facts) == {}


def test_a_stuck_migration_beside_a_free_slot_is_a_warning() -> None:
    elsewhere = StuckWork("x/y", "z", "it is TargetReady since 2000 s.")
    facts = replace(clean(K), stuck=(elsewhere,))
    assert found(facts)[Reason.StuckMigration]["severity"] == "warning"
    facts = replace(clean(K), stuck=tuple(replace(elsewhere, vm=f"v{n}") for n in range(5)))
    assert found(facts)[Reason.StuckMigration]["severity"] == "blocker"


def test_one_older_peer_of_two_is_a_warning() -> None:
    facts = clean(L)
    old = replace(facts.hosts[2], libvirt_version=8000000)
    row = found(replace(facts, hosts=(*facts.hosts[:2], old)))[Reason.NewerToOlder]
    assert (row["severity"], row["subject"]) == ("warning", "host c")
    assert "8.0.0 there and 9.0.0 on a" in row["message"]


def test_where_every_peer_is_older_the_hosts_and_the_vm_are_named() -> None:
    """As the observation has it: placement refuses all of them before the preflight asks."""
    facts = clean(L)
    older = tuple(replace(host, hypervisor_version=6000000) for host in facts.hosts[1:])
    facts = replace(facts, hosts=(facts.hosts[0], *older))
    for name, version in (("a", (7, 2, 0)), ("b", (6, 0, 0)), ("c", (6, 0, 0))):
        node = facts.observation.nodes.get(name) or facts.observation.nodes["b"]
        facts.observation.nodes[name] = replace(node, name=name, version=version)
    rows = result(facts, check(facts, POLICY), {})["findings"]
    told = {row["subject"]: row for row in rows if row["code"] == Reason.NewerToOlder.value}
    assert set(told) == {"host b", "host c", "VM vm0", "VM vm1"}
    assert {row["severity"] for row in told.values()} == {"blocker"}
    assert told["VM vm0"]["about"] == "vm" and told["host b"]["about"] == "node"
    assert "b has an older hypervisor (6.0.0, not 7.2.0)" in told["VM vm0"]["message"]
    assert Reason.NoTargetWithCapacity.value not in {row["code"] for row in rows}
    # A rule allows it for one of them, and all that it needs is known on b.
    vms = facts.observation.vms
    vms["u0"] = replace(vms["u0"], compared={"b": ""})
    rule = Rule("back", when=lambda document: True, allow_older_hypervisor=True)
    rows = result(facts, check(facts, replace(POLICY, rules=(rule,))), {})["findings"]
    severities = {row["subject"]: row["severity"] for row in rows if row["code"] == Reason.NewerToOlder.value}
    assert severities == {"host b": "warning", "host c": "warning", "VM vm1": "blocker"}


@pytest.mark.parametrize(
    ("versions", "severity", "subjects"),
    [
        ({"a": 7002000, "b": 9000000, "c": 9000002}, "", set()),
        ({"a": 7002000, "b": 9001000, "c": 7002000}, "blocker", {"host b"}),
        ({"a": 7002000, "b": 9001000, "c": 10000000}, "blocker", {"host b", "host c"}),
        ({"a": 10000000, "b": 10000000, "c": 10000000}, "blocker", {"host a", "host b", "host c"}),
        ({"a": 7002000, "b": 0, "c": 0}, "", set()),
    ],
)
def test_a_compression_that_qemu_has_no_more_names_the_hosts(
    versions: dict[str, int], severity: str, subjects: set[str]
) -> None:
    facts = clean(L)
    hosts = tuple(replace(h, hypervisor_version=versions[h.name]) for h in facts.hosts)
    facts = replace(facts, hosts=hosts)
    policy = Policy(migration=MigrationSettings(tls=True, compression=("xbzrle", "mt")))
    rows = result(facts, check(facts, policy), {})["findings"]
    told = [row for row in rows if row["code"] == "CompressionNotSupported"]
    assert {row["subject"] for row in told} == subjects
    assert {row["severity"] for row in told} == ({severity} if severity else set())
    other = Policy(migration=MigrationSettings(tls=True, compression=("xbzrle",)))
    assert "CompressionNotSupported" not in {check.value for check in found(facts, other)}


def test_a_vm_without_its_condition_yet_is_waited_for() -> None:
    facts = vm(K, migratable=None)
    assert found(facts)[Reason.MigratableNotKnown]["severity"] == "warning"


def test_a_vm_on_its_way_is_not_running_twice() -> None:
    facts = clean(L)
    facts.observation.sightings["u0"] = [Sighting("b", State.RUNNING)]
    facts.observation.vms["u0"] = replace(facts.observation.vms["u0"], job=Job())
    assert Reason.RunningTwice not in found(facts)


def test_a_mark_under_our_own_record_is_not_left_over() -> None:
    facts = seen(K, stale_mark="evacuationNodeName is a.")
    assert Reason.LeftoverMark not in found(replace(facts, own=NodeSeen(record="Run r1.")))


@pytest.mark.parametrize(("apart", "codes"), [(False, set()), (True, {Reason.NoTargetWithCapacity})])
def test_groups_that_must_stay_apart_are_judged_as_the_drain_does(apart: bool, codes: set[Reason]) -> None:
    facts = clean()
    facts.observation.vms["u0"] = replace(facts.observation.vms["u0"], group="db")
    for name in ("b", "c"):
        node = facts.observation.nodes[name]
        facts.observation.nodes[name] = replace(node, group_counts={"db": 1})
    policy = replace(POLICY, placement_policy=PlacementPolicy(require_anti_affinity=apart))
    assert set(found(facts, policy)) == codes
