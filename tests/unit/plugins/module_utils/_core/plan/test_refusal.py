"""The plan's word: a refusal gives the reason that it is and remedies that help, and what fits is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    Limits,
    PlacementPolicy,
    Policy,
    Profile,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan import text
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.input import request_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.order import plan_roll
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import planned
from ansible_collections.virtops.maintenance.plugins.plugin_utils._roll_plan import Foreseen

GIB = 1024
POLICY = Policy(limits=Limits(9, 9, 9))
FIXED = ["HostDeviceNotLiveMigratable"]
APART = replace(POLICY, placement_policy=PlacementPolicy(require_anti_affinity=True))


def host(name: str, gib: int = 64, **more: Any) -> dict[str, Any]:
    return {"name": name, "memory_mib": gib * GIB, **more}


def vm(name: str, where: str, gib: int = 8, **more: Any) -> dict[str, Any]:
    return {"name": name, "host": where, "memory_mib": gib * GIB, **more}


def refused(hosts: list[Any], vms: list[Any], policy: Policy = POLICY, **more: Any) -> str:
    """The sentence, from the name of the VM on."""
    plan = plan_roll(request_of(hosts, vms, ["a"], policy, **more))
    assert plan.refusal is not None
    return plan.refusal.sentence.partition("does not fit: ")[2]


def test_a_taint_and_a_cordon_are_named_with_what_undoes_them() -> None:
    hosts = [host("a"), host("b", taints=["use=db:NoSchedule"]), host("c", cordoned=True)]
    assert refused(hosts, [vm("x", "a")]) == (
        "x (8 GiB) has no target once a is out (has the taint use=db:NoSchedule: b; cordoned: c);"
        " let x tolerate use=db:NoSchedule or uncordon c"
    )


def test_what_stays_full_when_it_is_opened_is_no_remedy() -> None:
    hosts = [host("a"), host("b", 4, taints=["db:NoSchedule"]), host("c", 4, cordoned=True)]
    assert refused(hosts, [vm("x", "a")]).endswith("; add a host that takes it, or allow a stop")


def test_all_that_does_not_fit_is_named_at_once() -> None:
    """Also what of the same host has another reason, and with a plan that need not fit."""
    vms = [vm("x", "a", 60), vm("gpu", "a", reasons=FIXED), vm("tpu", "c", reasons=FIXED)]
    plan = plan_roll(request_of([host("a"), host("b", 4), host("c", 4)], vms, ["a", "c"], POLICY)).to_dict()
    told = planned.misfits(plan)
    for name, where in (("x", "a"), ("gpu", "a"), ("tpu", "c")):
        assert len([one for one in told if name in one and f" {where}" in one]) == 1, told
    assert planned.objections([], plan, 0) == told
    assert [line for line in text.table(plan) if line.startswith("This does not fit either: ")] == [
        f"This does not fit either: {one}" for one in told[1:]
    ]
    given = {"looks": [], "reached": [], "max_failures": 0, "must_fit": False}
    assert Foreseen(given, [], plan, "").lines("7f", ["a", "c"], False, 5)[: len(told)] == [
        f"Warning: {one}" for one in told
    ]


def test_a_silent_host_is_named() -> None:
    hosts = [host("a"), host("b", reachable=False), host("c")]
    sentence = refused(hosts, [vm("x", "a"), vm("z", "c", 60)])
    assert sentence.endswith("(cannot be read: b); free 4 GiB or bring b back")


def test_anti_affinity_is_named_and_its_remedy_only_where_it_is_one() -> None:
    vms = [vm(name, name, group="g") for name in "abc"]
    hosts = [host(name) for name in "abc"]
    why = "has no target once a is out (runs a VM of the group g: b, c); "
    assert refused(hosts, vms, APART).endswith(why + "set anti_affinity to preferred")
    on_kubevirt = refused(hosts, vms, APART, platform=Platform.KUBEVIRT)
    assert on_kubevirt.endswith(why + "add a host that takes it, or allow a stop")


def test_no_room_can_be_freed_on_a_host_that_is_too_small() -> None:
    sentence = refused([host("a", 128), host("b"), host("c")], [vm("x", "a", 96)])
    assert sentence.endswith("(too small even when empty: b, c); add a host that takes it, or allow a stop")
    assert "free" not in sentence


def test_all_vms_without_a_place_are_named() -> None:
    vms = [vm("x", "a", 60), vm("y", "a", 40), vm("z", "a", 50)]
    assert "z (50 GiB) has no target once a is out, nor has y;" in refused([host("a", 200), host("b")], vms)


def test_a_profile_with_which_it_fits_is_named() -> None:
    hosts = [host("a", 200), host("b", 100), host("c", 100)]
    vms = [vm(f"v{n}", "a", gib) for n, gib in enumerate((50, 50, 40, 30, 30))]
    assert refused(hosts, vms).endswith(" or set the placement profile HighNodeUtilization")
    packed = replace(POLICY, placement_policy=PlacementPolicy(Profile.HIGH))
    assert plan_roll(request_of(hosts, vms, ["a"], packed)).fits
    assert "profile" not in refused(hosts, vms, platform=Platform.KUBEVIRT)


def test_two_vms_make_room_for_one() -> None:
    hosts = [host("a", 128), host("b", 128), host("c"), host("d")]
    vms = [vm("giant", "a", 96), *(vm(f"s{n}", "b", 16) for n in range(4))]
    plan = plan_roll(request_of(hosts, vms, ["a"], POLICY))
    assert plan.fits
    swapped = [move for move in plan.steps[0].moves if move.swap_for]
    assert [(move.swap_for, move.source) for move in swapped] == [("giant", "b")] * 2


def test_a_budget_that_one_host_exceeds_is_said() -> None:
    budget = {"name": "w", "vms": ["x", "y"], "at_once": 1}
    hosts, vms = [host("a"), host("b")], [vm("x", "a"), vm("y", "a")]
    assert refused(hosts, vms, budgets=[budget]) == (
        "x (8 GiB) cannot leave a (DisruptionBudget). The budget w lets 1 of its VMs go in one step, and x, y are all"
        " on it. Move one of them to another host first, or raise at_once of the budget"
    )
    assert plan_roll(request_of(hosts, vms, ["a"], POLICY, budgets=[{**budget, "at_once": 2}])).fits


def test_stops_under_a_budget_come_one_after_the_other() -> None:
    budget = {"name": "w", "vms": ["x", "y"], "at_once": 1, "stops_only": True}
    vms = [vm("x", "a", strategy="None"), vm("y", "a", strategy="None")]
    stops = replace(POLICY, allow_stop=True)
    plan = plan_roll(request_of([host("a"), host("b")], vms, ["a"], stops, budgets=[budget]))
    assert plan.fits
    assert plan.warnings == ("x, y of a, of which w lets 1 go at once, are stopped one after the other.",)


def test_two_hosts_go_where_two_can() -> None:
    """Else the first would go alone, since its VMs have to move twice, and a step more would be needed."""
    for names in ("abcd", "abcdef"):
        vms = [vm(f"{name}{n}", name, 4) for name in names for n in (1, 2)]
        plan = plan_roll(request_of([host(n) for n in names], vms, list(names), POLICY, max_unavailable=2))
        assert [len(step.hosts) for step in plan.steps] == [2] * (len(names) // 2)


def test_the_vms_of_a_silent_host_of_the_roll_are_no_python_error() -> None:
    sentence = refused([host("a", reachable=False, message="off"), host("b")], [vm("x", "a")])
    assert sentence.startswith("a (NodeUnreadable)")


def test_the_summary_has_stops_and_no_transfers_without_moves() -> None:
    stops = replace(POLICY, allow_stop=True)
    stopped = [vm(f"x{n}", "a", strategy="None") for n in range(3)]

    def summary(vms: list[Any]) -> str:
        return text.summary(plan_roll(request_of([host("a"), host("b")], vms, ["a"], stops)).to_dict())

    assert summary(stopped) == "It fits: 1 host in 1 step, 3 stops, 10.0 s for the stops."
    assert "1 move of 1 VM (1.00 each), 3 stops, " in summary([*stopped, vm("y", "a")])
    assert summary([]) == "It fits: 1 host in 1 step, no VM moves."
