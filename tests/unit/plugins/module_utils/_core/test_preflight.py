# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preflight on facts: every code is planted once and found, and a clean cluster has none."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model import (
    VM,
    EvictionStrategy,
    Job,
    Node,
    Observation,
    OnNotMigratable,
    Reservation,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.policy import (
    MigrationSettings,
    Placing,
    Policy,
    PolicyError,
    Rule,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight import (
    check,
    parse_severity,
    result,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight_catalogue import (
    CHECKS,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight_facts import (
    Budget,
    ClusterSeen,
    Facts,
    HostSeen,
    NodeSeen,
    PodSeen,
    QuotaLeft,
    StuckWork,
    VMSeen,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight_words import (
    About,
    Check,
    Platform,
    Severity,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons import (
    CATALOGUE,
    Finding,
    Reason,
)

GIB = 1024
POLICY = Policy()
STOPS = Policy(default_strategy=EvictionStrategy.NONE, allow_stop=True)


def clean(platform: Platform = Platform.LIBVIRT, seed: int | None = None) -> Facts:
    """A cluster in which nothing stands in the way. Without a seed a small one."""
    dice = random.Random(seed)
    many = 2 if seed is None else dice.randint(1, 40)
    vms = {
        f"u{n}": VM(f"u{n}", f"vm{n}", "a", memory_mib=dice.choice([256, GIB, 8 * GIB]))
        for n in range(many)
    }
    others = ("b", "c") if seed is None else tuple(f"h{n}" for n in range(dice.randint(1, 9)))
    need = sum(vm.memory_mib for vm in vms.values())
    kube = platform is Platform.KUBEVIRT
    names = ("",) if kube else others
    nodes = {name: Node(name, capacity_mib=need + dice.randint(0, 64) * GIB) for name in names}
    nodes["a"] = Node("a", capacity_mib=2 * need)
    seen = {
        uuid: VMSeen(
            stays_off="Its autostart is off." if dice.random() < 0.5 else "",
            refused={others[0]: (Check.NO_TARGET, "")} if kube and len(others) > 1 else {},
            quotas=(QuotaLeft("q", "pods", 1, 1), QuotaLeft("q", "memory", 2**33, 2**32))
            if kube
            else (),
            budgets=(Budget("b", left=dice.choice([0, 1])),) if kube else (),
            pod_mib=vm.memory_mib if kube else None,
        )
        for uuid, vm in vms.items()
    }
    hosts = [HostSeen("a", 7002000, 9000000, True, 0.3)]
    hosts += [
        HostSeen(n, 7002000 + dice.choice([0, 1000]), 9000000, True, dice.uniform(-1, 1))
        for n in others
    ]
    return Facts(
        platform=platform,
        node="a",
        observation=Observation(nodes=nodes, vms=vms),
        vms=seen,
        hosts=() if kube else tuple(hosts),
        targets=others,
        room_mib=need + dice.randint(0, 64) * GIB,
    )


def found(facts: Facts, policy: Policy = POLICY) -> dict[Check, dict[str, Any]]:
    rows = result(facts, check(facts, policy), {})["findings"]
    return {Check(row["code"]): row for row in rows}


# Planting. Each gives the facts, and the policy under which it is a fault.

Plant = Callable[[], tuple[Facts, Policy]]
L, K = Platform.LIBVIRT, Platform.KUBEVIRT


def vm(platform: Platform, policy: Policy = POLICY, **changes: Any) -> Plant:
    def plant() -> tuple[Facts, Policy]:
        facts = clean(platform)
        facts.observation.vms["u0"] = replace(facts.observation.vms["u0"], **changes)
        return facts, policy

    return plant


def seen(platform: Platform, policy: Policy = POLICY, **changes: Any) -> Plant:
    def plant() -> tuple[Facts, Policy]:
        facts = clean(platform)
        return replace(facts, vms={**facts.vms, "u0": replace(facts.vms["u0"], **changes)}), policy

    return plant


def whole(platform: Platform, policy: Policy = POLICY, **changes: Any) -> Plant:
    return lambda: (replace(clean(platform), **changes), policy)


def cannot(reason: Reason) -> Plant:
    return vm(K, migratable=False, findings=(Finding(reason, "because"),))


def refused(reason: Reason) -> Plant:
    why = (Finding(reason, "because"),)
    return vm(L, refused_by={"b": why, "c": why})


def every_target(check: Check) -> Plant:
    return seen(K, refused={"b": (check, "no"), "c": (check, "no")})


def hosts(policy: Policy = POLICY, **changes: Any) -> Plant:
    """Both peers are changed."""

    def plant() -> tuple[Facts, Policy]:
        facts = clean(L)
        return replace(
            facts, hosts=(facts.hosts[0], *(replace(h, **changes) for h in facts.hosts[1:]))
        ), policy

    return plant


def unreachable() -> tuple[Facts, Policy]:
    facts = clean(L)
    facts.observation.nodes["c"] = Node("c", reachable=False, message="no route to host")
    return replace(facts, targets=("b",)), POLICY


def inbound() -> tuple[Facts, Policy]:
    facts = clean(K)
    facts.observation.inbound.append(Reservation("other/vm", "a", "b", 0))
    return facts, POLICY


def twice() -> tuple[Facts, Policy]:
    facts = clean(L)
    facts.observation.sightings["u0"] = [Sighting("b", State.RUNNING)]
    return facts, POLICY


def a_clock_ahead() -> tuple[Facts, Policy]:
    facts = clean(L)
    return replace(facts, hosts=(*facts.hosts[:2], replace(facts.hosts[2], clock=60.0))), POLICY


def a_medium() -> tuple[Facts, Policy]:
    facts, policy = refused(Reason.DISKS)()
    media = replace(facts.vms["u0"], local_media=("sda (/iso/tools.iso)",))
    return replace(facts, vms={**facts.vms, "u0": media}), policy


SAVE = Policy(on_not_migratable=OnNotMigratable.SAVE, allow_stop=True)
UNKNOWN = Policy(rules=(Rule("rate", lambda _document: None),))
POST_COPY = Policy(migration=MigrationSettings(post_copy=True))
STUCK = StuckWork("x/y", "a", "it is TargetReady since 2000 s.")

PLANTS: dict[Check, Plant] = {
    Check.DISKS: cannot(Reason.DISKS),
    Check.INTERFACE: cannot(Reason.INTERFACE),
    Check.HOTPLUG: cannot(Reason.HOTPLUG),
    Check.VIRTIOFS: cannot(Reason.VIRTIOFS),
    Check.HOST_DEVICE: cannot(Reason.HOST_DEVICE),
    Check.SEV: cannot(Reason.SEV),
    Check.SECURE_EXECUTION: cannot(Reason.SECURE_EXECUTION),
    Check.TDX: cannot(Reason.TDX),
    Check.HYPERV_PASSTHROUGH: cannot(Reason.HYPERV_PASSTHROUGH),
    Check.PERSISTENT_RESERVATION: cannot(Reason.PERSISTENT_RESERVATION),
    Check.CPU_MODEL: refused(Reason.CPU_MODEL),
    Check.MACHINE_TYPE: refused(Reason.MACHINE_TYPE),
    Check.SNAPSHOTS: vm(L, migratable=False, findings=(Finding(Reason.SNAPSHOTS),)),
    Check.NAME_TAKEN: refused(Reason.NAME_TAKEN),
    Check.SECRET: refused(Reason.SECRET),
    Check.HUGEPAGES: refused(Reason.HUGEPAGES),
    Check.PINNING: refused(Reason.PINNING),
    Check.TPM_STATE: refused(Reason.TPM_STATE),
    Check.BLOCK_JOB: vm(L, migratable=False, findings=(Finding(Reason.BLOCK_JOB),)),
    Check.TRANSIENT: vm(
        L,
        SAVE,
        migratable=False,
        findings=(Finding(Reason.DISKS),),
        save_findings=(Finding(Reason.TRANSIENT),),
    ),
    Check.NOT_RUNNING_NORMALLY: vm(L, state=State.PAUSED),
    Check.NOT_KNOWN_YET: vm(L, migratable=None),
    Check.NO_TARGET: vm(L, memory_mib=10**6),
    Check.NO_SELECTOR: every_target(Check.NO_SELECTOR),
    Check.NO_VENDOR: every_target(Check.NO_VENDOR),
    Check.NOT_TOLERATED: every_target(Check.NOT_TOLERATED),
    Check.LAST_NODE: whole(K, targets=()),
    Check.FLEET_TOO_FULL: whole(L, room_mib=100),
    Check.NEWER_TO_OLDER: hosts(hypervisor_version=6000000),
    Check.QUOTA: seen(K, quotas=(QuotaLeft("q", "pods", 0, 1),)),
    Check.STORAGE_HERE: seen(L, local_disks=("vda (/images/a)",)),
    Check.LOCAL_MEDIUM: a_medium,
    Check.POST_COPY: hosts(POST_COPY, userfaultfd=False),
    Check.STOP_NOT_ALLOWED: vm(K, declared_strategy="None"),
    Check.UNDECIDED: whole(L, UNKNOWN),
    Check.SKIPPED: vm(
        L,
        Policy(on_not_migratable=OnNotMigratable.SKIP),
        migratable=False,
        findings=(Finding(Reason.DISKS),),
    ),
    Check.EXTERNAL_OWNER: vm(K, declared_strategy="External"),
    Check.STAYS_OFF: seen(K, STOPS, stays_off="Its runStrategy is Manual."),
    Check.UNMET_SETTINGS: seen(K, unmet=("auto_converge is wanted as true.",)),
    Check.DISRUPTION_BUDGET: seen(K, STOPS, budgets=(Budget("b", "a percentage"),)),
    **{
        member: whole(K, pods=(PodSeen("shop/odd", member, "because", whole=True),))
        for member in (Check.POD_UNMANAGED, Check.POD_LOCAL_DATA, Check.POD_OF_DAEMONSET)
    },
    **{
        member: whole(K, pods=(PodSeen("shop/held", member, "because"),))
        for member in (Check.POD_TERMINATING, Check.LAST_REPLICA, Check.BUDGET_NOT_COMPUTED)
    },
    Check.STARTING: seen(K, starting="Scheduling"),
    Check.CRASHED: vm(L, state=State.CRASHED),
    Check.RUNNING_TWICE: twice,
    Check.POSTCOPY_BROKEN: vm(L, state=State.POSTCOPY_FAILED),
    Check.BACKUP: seen(K, backup="Backup b runs."),
    Check.SNAPSHOT: seen(K, snapshot="Snapshot s."),
    Check.UTILITY_VOLUMES: seen(K, utility_volumes="v"),
    Check.MANAGED_SAVE: vm(L, state=State.SHUTOFF, managed_save=True),
    Check.IN_FLIGHT: seen(K, foreign="Migration m is Running."),
    Check.INBOUND: inbound,
    Check.STUCK: whole(K, stuck=(STUCK, STUCK)),
    Check.LEFT_MARK: seen(K, left_mark="evacuationNodeName is a."),
    Check.LEFT_CLAIM: whole(L, left_claims=("resv.u9.512.a on b",)),
    Check.RECORD: whole(L, own=NodeSeen(record="Run r1.")),
    Check.DRAIN_TAINT: whole(K, own=NodeSeen(drain_taint="Taint kubevirt.io/drain.")),
    Check.CORDONED: whole(L, own=NodeSeen(cordoned_by_others=True)),
    Check.OTHERS: whole(K, own=NodeSeen(others=("Taint medik8s.io/drain.",))),
    Check.DESCHEDULER: whole(K, cluster=ClusterSeen(descheduler="Pod d.")),
    Check.UPDATER: whole(K, cluster=ClusterSeen(updater="Migration m.")),
    Check.NODE_NOT_READY: whole(K, own=NodeSeen(not_ready="Ready is Unknown.")),
    Check.SILENT: whole(K, own=NodeSeen(silent="Its last heartbeat is old.")),
    Check.PEER_UNREACHABLE: unreachable,
    Check.CLOCK_SKEW: a_clock_ahead,
    Check.UPGRADING: whole(K, cluster=ClusterSeen(upgrading="From 1.8 to 1.9.")),
    Check.UNHEALTHY: whole(K, cluster=ClusterSeen(unhealthy="Its phase is Deploying.")),
    Check.NO_CANCEL: whole(K, cluster=ClusterSeen(no_cancel="It is 1.6.")),
    Check.WEBHOOK_UNAVAILABLE: whole(K, cluster=ClusterSeen(webhook="connection refused")),
    Check.API_ERROR: seen(K, tried=(Check.API_ERROR, "500")),
    Check.FORBIDDEN: whole(K, missing=("create pods/eviction",)),
    Check.RUNS_THE_MAINTENANCE: whole(K, own=NodeSeen(runs_us="This runs in pod x.")),
    Check.NOT_CHECKED: whole(K, unread=("The quotas: forbidden",)),
}


@pytest.mark.parametrize("member", list(Check), ids=lambda member: member.value)
def test_every_code_is_planted_once_and_found(member: Check) -> None:
    assert member in PLANTS, f"nobody plants {member.value}: add it to PLANTS"
    facts, policy = PLANTS[member]()
    told = found(facts, policy)
    assert member in told, sorted(told)
    row, info = told[member], CHECKS[member]
    assert facts.platform in info.platforms
    assert row["severity"] == info.severity.value
    for key in ("subject", "sentence", "remedy", "decided_by", "plane"):
        assert row[key], key
    # The other VM is well.
    assert policy is not POLICY or "VM vm1" not in {row["subject"] for row in told.values()}


def test_the_catalogue_has_every_code_and_the_reasons_words() -> None:
    assert set(CHECKS) == set(Check)
    reasons = {reason.value: reason for reason in Reason}
    for member, info in CHECKS.items():
        if member.value in reasons:
            assert info.sentence == CATALOGUE[reasons[member.value]].sentence


@pytest.mark.parametrize("platform", [L, K])
def test_no_false_alarm_on_200_clean_clusters(platform: Platform) -> None:
    for seed in range(200):
        told = found(clean(platform, seed))
        assert told == {}, (seed, told)


def test_what_the_drain_does_not_begin_for_is_of_the_node_and_what_it_leaves_is_of_the_pod() -> (
    None
):
    held = PodSeen("shop/held", Check.DISRUPTION_BUDGET, "b needs 1")
    odd = PodSeen("shop/odd", Check.POD_UNMANAGED, "it has no controller", whole=True)
    facts = replace(clean(K), pods=(held, odd))
    told = result(facts, check(facts, POLICY), {})
    about = {row["subject"]: row["about"] for row in told["findings"]}
    assert about == {"pod shop/odd": "node", "pod shop/held": "pod"}
    assert len(told["blockers"]) == 2 and told["node_blockers"] == told["blockers"][:1]
    for row in told["findings"]:
        info = CHECKS[Check(row["code"])]
        assert About(row["about"]) in (info.about, *info.also)


# What policy answers


def test_a_vm_that_policy_stops_is_a_warning_that_names_who_decided() -> None:
    why = (Finding(Reason.HOST_DEVICE, "The pci device 3b is passed to it."),)
    facts, _policy = vm(K, migratable=False, findings=why)()
    rule = Rule("gpus", lambda d: True, on_not_migratable=OnNotMigratable.SHUTDOWN, allow_stop=True)
    told = found(facts, Policy(rules=(rule,)))
    row = told[Check.HOST_DEVICE]
    assert row["severity"] == "warning"
    assert "with rule gpus" in row["decided_by"]
    assert found(facts)[Check.HOST_DEVICE]["severity"] == "blocker"


def test_a_vm_that_will_be_stopped_anyway_is_not_asked_whether_it_can_migrate() -> None:
    facts, _policy = vm(L, migratable=False, findings=(Finding(Reason.DISKS),))()
    assert Check.DISKS not in found(facts, STOPS)


def test_a_budget_matters_only_to_a_pod_that_is_really_evicted() -> None:
    full, _policy = seen(K, budgets=(Budget("b", left=0),))()
    assert found(full) == {}
    assert found(full, STOPS)[Check.DISRUPTION_BUDGET]["severity"] == "blocker"
    never, _policy = seen(K, budgets=(Budget("b", "a percentage"),))()
    assert found(never)[Check.DISRUPTION_BUDGET]["severity"] == "warning"
    two, _policy = seen(K, budgets=(Budget("b", left=1), Budget("c", left=1)))()
    assert found(two, STOPS)[Check.DISRUPTION_BUDGET]["severity"] == "blocker"


def test_of_several_refusals_the_nearest_is_told_and_one_node_is_enough() -> None:
    full = (Check.NO_TARGET, "1 MiB free")
    facts, _policy = seen(K, refused={"b": (Check.NO_SELECTOR, "no label"), "c": full})()
    told = found(facts)
    assert Check.NO_TARGET in told and Check.NO_SELECTOR not in told
    assert "no label" in told[Check.NO_TARGET]["message"]
    facts, _policy = seen(K, refused={"b": full})()
    assert found(facts) == {}


def test_a_stuck_migration_beside_a_free_slot_is_a_warning() -> None:
    elsewhere = replace(STUCK, source="z")
    facts, _policy = whole(K, stuck=(elsewhere,))()
    assert found(facts)[Check.STUCK]["severity"] == "warning"
    facts, _policy = whole(K, stuck=tuple(replace(elsewhere, vm=f"v{n}") for n in range(5)))()
    assert found(facts)[Check.STUCK]["severity"] == "blocker"


def test_one_older_peer_of_two_is_a_warning() -> None:
    facts = clean(L)
    old = replace(facts.hosts[2], libvirt_version=8000000)
    row = found(replace(facts, hosts=(*facts.hosts[:2], old)))[Check.NEWER_TO_OLDER]
    assert (row["severity"], row["subject"]) == ("warning", "host c")
    assert "8.0.0 there and 9.0.0 on a" in row["message"]


def test_a_vm_without_its_condition_yet_is_waited_for() -> None:
    facts, _policy = vm(K, migratable=None)()
    assert found(facts)[Check.NOT_KNOWN_YET]["severity"] == "warning"


def test_a_vm_on_its_way_is_not_running_twice() -> None:
    facts, _policy = twice()
    facts.observation.vms["u0"] = replace(facts.observation.vms["u0"], job=Job())
    assert Check.RUNNING_TWICE not in found(facts)


def test_a_mark_under_our_own_record_is_not_left_over() -> None:
    facts, _policy = seen(K, left_mark="evacuationNodeName is a.")()
    assert Check.LEFT_MARK not in found(replace(facts, own=NodeSeen(record="Run r1.")))


# Severity is policy


@pytest.mark.parametrize("member", list(Check), ids=lambda member: member.value)
def test_each_code_can_be_raised_lowered_and_ignored(member: Check) -> None:
    facts, policy = PLANTS[member]()
    here = check(facts, policy)
    for wanted in Severity:
        rows = result(facts, here, {member: wanted})["findings"]
        told = {row["severity"] for row in rows if row["code"] == member.value}
        assert told == (set() if wanted is Severity.IGNORE else {wanted.value})


def test_a_wrong_severity_is_one_clear_error() -> None:
    assert parse_severity({"ClockSkew": "blocker"}) == {Check.CLOCK_SKEW: Severity.BLOCKER}
    with pytest.raises(PolicyError, match=r"'ClokSkew', which is no code.*Did you mean ClockSkew"):
        parse_severity({"ClokSkew": "blocker"})
    with pytest.raises(PolicyError, match="'fatal': expected is blocker, warning, ignore"):
        parse_severity({"ClockSkew": "fatal"})


@pytest.mark.parametrize(("apart", "codes"), [(False, set()), (True, {Check.NO_TARGET})])
def test_groups_that_must_stay_apart_are_judged_as_the_drain_does(
    apart: bool, codes: set[Check]
) -> None:
    facts = clean()
    facts.observation.vms["u0"] = replace(facts.observation.vms["u0"], group="db")
    for name in ("b", "c"):
        node = facts.observation.nodes[name]
        facts.observation.nodes[name] = replace(node, group_counts={"db": 1})
    policy = replace(POLICY, placing=Placing(apart=apart))
    assert set(found(facts, policy)) == codes


# For people


def test_blockers_come_first_one_line_each_with_the_remedy() -> None:
    facts, _policy = unreachable()
    facts.observation.vms["u0"] = replace(
        facts.observation.vms["u0"], migratable=False, findings=(Finding(Reason.DISKS, "vda."),)
    )
    facts = replace(facts, own=NodeSeen(cordoned_by_others=True))
    told = result(facts, check(facts, POLICY), {})
    assert [row["severity"] for row in told["findings"]] == ["blocker", "blocker", "warning"]
    assert told["blockers"] == [
        "BLOCKER PeerUnreachable host c: no route to host -> "
        + CATALOGUE[Reason.PEER_UNREACHABLE].remedy,
        "BLOCKER DisksNotLiveMigratable VM vm0: vda. -> " + CATALOGUE[Reason.DISKS].remedy,
    ]
    assert told["node_blockers"] == told["blockers"][:1]
    assert told["cautions"][0].startswith("WARNING CordonedByOthers node a: ")
    assert told["vms_checked"] == 2
    assert CHECKS[Check.DISKS].about is About.VM
