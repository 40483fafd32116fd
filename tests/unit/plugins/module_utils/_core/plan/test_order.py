"""Plans of whole rolls, replayed by code that shares nothing with the planner."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Node, Observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    Limits,
    MigrationSettings,
    Policy,
    PolicyError,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan import text as plan_text
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.input import request_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.observed import fleet_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.order import plan_roll
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.transfers import (
    PAUSE_MS,
    Speeds,
    Timeline,
    Transfer,
    converges,
    pause_ms,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.bench.plan_bench import request
from ansible_collections.virtops.maintenance.tests.bench.plan_fleets import Instance, make
from ansible_collections.virtops.maintenance.tests.bench.plan_replay import violations
from ansible_collections.virtops.maintenance.tests.bench.plan_rivals import Fifo, bound

GIB = 1024


def planned(instance: Instance) -> dict[str, Any]:
    return json.loads(json.dumps(plan_roll(request(instance)).to_dict()))


@pytest.mark.parametrize("binding", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_plan_breaks_nothing_when_it_is_replayed(seed: int, binding: bool) -> None:
    instance = make(30, 600, seed, binding)
    instance.max_unavailable = 3
    plan = planned(instance)
    assert plan["fits"], plan["refusal"]
    assert violations(instance, plan) == {}


def test_the_plan_is_better_than_a_loop_and_not_better_than_can_be() -> None:
    instance = make(30, 600, 4)
    instance.max_unavailable = 2
    plan = plan_roll(request(instance))
    assert plan.duration >= bound(instance)
    assert plan.duration < min(Fifo(instance, width).run() for width in (2, 4, 8))
    assert plan.moves_per_vm <= 1.05


def test_equal_hosts_go_as_they_were_given() -> None:
    names = ["c", "a", "b"]
    hosts = [{"name": name, "memory_mib": 64 * GIB} for name in names]
    vms = [{"name": f"vm-{name}", "host": name, "memory_mib": GIB} for name in names]
    steps = plan_roll(request_of(hosts, vms, names, Policy())).to_dict()["steps"]
    assert [host for step in steps for host in step["hosts"]] == names


def test_hosts_that_the_roll_depends_on_come_last() -> None:
    """The quorum hosts (libvirt: the first three by name), then the one with the machine that runs it."""
    names = ["a", "b", "c", "d", "e"]
    hosts = [{"name": name, "memory_mib": 64 * GIB} for name in [*names, "spare"]]
    vms = [{"name": f"vm-{name}", "host": name, "memory_mib": GIB} for name in names]
    ours = [{**vm, "control_node": "VM vm-d is us."} if vm["host"] == "d" else vm for vm in vms]

    def order(vms: list[dict[str, Any]], platform: Platform) -> list[str]:
        plan = plan_roll(request_of(hosts, vms, names, Policy(), platform=platform)).to_dict()
        assert plan["warnings"] == [
            f"VM vm-d is us. Step {step['number']} migrates it from d to {move['target']}."
            for step in plan["steps"]
            for move in step["moves"]
            if move["name"] == "vm-d" and vms is ours
        ]
        assert plan["moves_per_vm"] == 1.0
        return [host for step in plan["steps"] for host in step["hosts"]]

    assert order(vms, Platform.LIBVIRT) == ["d", "e", "a", "b", "c"]
    assert order(ours, Platform.LIBVIRT) == ["e", "a", "b", "c", "d"]
    assert order(vms, Platform.KUBEVIRT) == names
    assert order(ours, Platform.KUBEVIRT) == ["a", "b", "c", "e", "d"]


def test_hosts_of_one_rack_go_one_after_the_other() -> None:
    racks = {"a": "r1", "b": "r1", "c": "r1", "d": "r2"}
    hosts = [{"name": name, "memory_mib": 64 * GIB, "labels": {"rack": rack}} for name, rack in racks.items()]
    hosts.append({"name": "spare", "memory_mib": 64 * GIB})
    vms = [{"name": f"vm-{name}", "host": name, "memory_mib": GIB} for name in racks]

    def steps(per: dict[str, int], groups: dict[str, dict[str, str]] | None = None) -> list[set[str]]:
        asked = request_of(hosts, vms, [*racks], Policy(), 2, max_unavailable_per=per, groups=groups)
        return [set(step["hosts"]) for step in plan_roll(asked).to_dict()["steps"]]

    assert [len(step) for step in steps({})] == [2, 2]
    apart = steps({"rack": 1})
    assert sorted(map(len, apart)) == [1, 1, 2]
    assert all(len(step - {"d"}) <= 1 for step in apart)
    assert len(steps({"rack": 1}, {"c": {"rack": "r2"}, "d": {"rack": "r1"}})) == 3
    with pytest.raises(PolicyError, match="no value for site of a"):
        steps({"site": 1}, {"b": {"site": "s"}})


# The replay itself must see what is wrong.


@pytest.fixture(scope="module")
def good() -> tuple[Instance, dict[str, Any]]:
    instance = make(20, 300, 5, binding=True)
    return instance, planned(instance)


def spoilt(good: tuple[Instance, dict[str, Any]]) -> tuple[Instance, dict[str, Any]]:
    return copy.deepcopy(good[0]), copy.deepcopy(good[1])


def test_replay_sees_too_many_at_once(good: Any) -> None:
    instance, plan = spoilt(good)
    for move in plan["steps"][0]["moves"]:
        move["start"] = 0.0
    assert violations(instance, plan)["limits"] > 0


def test_replay_sees_too_many_hosts_out(good: Any) -> None:
    instance, plan = spoilt(good)
    instance.max_unavailable = 0
    assert violations(instance, plan)["limits"] == len(plan["steps"])


def test_replay_sees_a_full_host(good: Any) -> None:
    instance, plan = spoilt(good)
    next(h for h in instance.hosts if h.name == "spare").reserve = 300 * GIB
    assert violations(instance, plan)["capacity"] > 0


def test_replay_sees_a_group_together(good: Any) -> None:
    instance, plan = spoilt(good)
    for guest in instance.guests:
        guest.group = "all"
    assert violations(instance, plan)["spread"] > 0


def test_replay_sees_an_older_target(good: Any) -> None:
    instance, plan = spoilt(good)
    for host in instance.hosts:
        host.version = (9, 9) if host.name in plan["steps"][0]["hosts"] else (1, 0)
    assert violations(instance, plan)["direction"] > 0


def test_replay_sees_a_vm_that_was_left_and_a_link_that_is_too_full(good: Any) -> None:
    instance, plan = spoilt(good)
    plan["steps"][0]["moves"].pop()
    plan["steps"][1]["moves"][0]["duration"] /= 2
    broken = violations(instance, plan)
    assert broken["left"] > 0
    assert broken["link"] > 0


# The plan is the drain


def small(vms: list[dict[str, Any]], roll: list[str], **more: Any) -> Any:
    hosts = [{"name": n, "memory_mib": 64 * GIB} for n in ("a", "b", "c")]
    policy = Policy(limits=Limits(9, 9, 9), **more.pop("policy", {}))
    speeds = more.pop("speeds", Speeds(default=100.0))
    return request_of(hosts, vms, roll, policy, speeds=speeds, **more)


def guest(name: str, host: str, gib: int = 8, **more: Any) -> dict[str, Any]:
    return {"name": name, "host": host, "memory_mib": gib * GIB, **more}


def test_the_first_step_is_what_the_drain_would_decide() -> None:
    """Ways and targets, VM by VM, of `decide` asked directly."""
    vms = [guest(f"vm-{n}", "a", 2 + n) for n in range(8)] + [guest("other", "c", 20)]
    vms += [guest("stop", "a", strategy="None")]
    asked = small(vms, ["a"], policy={"allow_stop": True})
    record = begin(None, "a", "drained", "r", 0.0, "")
    on_a = {u: vm for u, vm in asked.vms.items() if vm.node == "a"}
    decision = decide(Observation(dict(asked.nodes), on_a), {"a": record}, asked.policy)
    wanted = [(act.vm, act.do.value, act.target) for act in decision.actions if act.do in (Do.MIGRATE, Do.SHUTDOWN)]
    moves = plan_roll(asked).steps[0].moves
    assert [(m.vm, m.way, m.target) for m in moves] == wanted


def test_what_an_owner_moves_takes_its_room_along() -> None:
    """Counted nowhere, two would be planned onto one host, and none onto the one that is free."""
    vms = [guest("own-1", "a", 40, strategy="External"), guest("web-1", "b", 40)]
    plan = plan_roll(small(vms, ["a", "b"]))
    assert plan.fits and [step.hosts for step in plan.steps] == [("a",), ("b",)]
    (own,), (web,) = (step.moves for step in plan.steps)
    assert (own.way, own.target, web.target) == ("external", "c", "a")
    assert (plan.moves, plan.vms_moved) == (1, 1)  # ours
    owned = {"vm": own.vm, "name": "own-1", "host": "a", "place": "c", "memory_mib": 40 * GIB}
    told = plan.to_dict()
    assert told["fits_if"] == told["steps"][0]["fits_if"] == [owned]
    assert told["steps"][1]["fits_if"] == []
    table = plan_text.table({**told, "targets": ""})
    assert "1 VM, fits, if its owner moves own-1, takes" in table[0]
    assert table[-2] == "To roll in this order: -e maintenance_hosts=a,b"


def test_owners_have_what_room_there_is_and_no_more() -> None:
    vms = [guest(f"own-{n}", "a", 30, strategy="External") for n in range(5)]
    fits = plan_roll(small(vms[:4], ["a"]))
    assert sorted(move.target for move in fits.steps[0].moves) == ["b", "b", "c", "c"]
    text = plan_text.summary(fits.to_dict())
    assert "if their owners move own-0, own-1, own-2, own-3:" in text
    full = plan_roll(small(vms, ["a"]))
    assert full.refusal is not None and full.refusal.reason == "NoTargetWithCapacity"
    assert not any("in this order" in line for line in plan_text.table(full.to_dict()))


def test_who_waits_for_a_quota_is_told_once() -> None:
    """Of those that are migrated; in one line for each quota."""
    vms = [guest(f"vm-{n}", "a", 1) for n in range(7)] + [guest("b", "b", 1), guest("c", "c", 1)]
    vms += [guest("stop", "a", 1, strategy="None")]
    full = {"name": "shop/tight", "why": "is used up", "vms": [vm["name"] for vm in vms]}
    one = {"name": "shop/other", "why": "is too", "vms": ["b"]}
    asked = {"policy": {"allow_stop": True}, "quotas": [full, one]}
    told = plan_roll(small(vms, ["a", "b"], **asked)).warnings
    (first,) = [text for text in told if text.startswith("shop/tight is used up: ")]
    assert first.endswith(" and 3 more wait for it, until pending_timeout.") and "stop" not in first
    assert "shop/other is too: b waits for it, until pending_timeout." in told and len(told) == 2
    assert plan_roll(small(vms, ["c"], **{**asked, "quotas": [one]})).warnings == ()
    with pytest.raises(PolicyError, match="the quota shop/other names VMs that are not there: b"):
        small(vms[:1], ["a"], quotas=[one])


def test_what_a_host_says_of_a_vm_reaches_the_plan() -> None:
    """Who refuses it while it runs, and who does when it is off."""
    given = guest("vm-1", "a", refused_by={"b": ["NameTaken"], "c": ["CPUModelNotLiveMigratable"]})
    for cold in (None, {"b": ["NameTaken"]}):
        (vm,) = small([given | {"cold_refused_by": cold}], ["a"]).vms.values()
        assert set(vm.refused_by) == {"b", "c"}
        assert (vm.cold_refused_by and set(vm.cold_refused_by)) == (cold and {"b"})
        nodes = {n: Node(n) for n in "abc"}
        row = fleet_of(Observation(nodes, {vm.uuid: vm}), "a")["vms"][0]
        (again,) = small([row], ["a"]).vms.values()
        assert (again.refused_by, again.cold_refused_by) == (vm.refused_by, vm.cold_refused_by)


def test_a_vm_on_two_hosts_is_not_planned() -> None:
    with pytest.raises(PolicyError, match="Read them again"):
        small([guest("vm", "a", uuid="u"), guest("vm", "b", uuid="u")], ["a"])


def test_wrong_input_names_the_thing() -> None:
    with pytest.raises(PolicyError, match="vm-1 is on nowhere"):
        small([guest("vm-1", "nowhere")], ["a"])
    with pytest.raises(PolicyError, match="roll names x"):
        small([], ["x"])
    with pytest.raises(PolicyError, match="max_unavailable"):
        small([], ["a"], max_unavailable=0)
    with pytest.raises(PolicyError, match="version of a"):
        request_of([{"name": "a", "version": "new"}], [], [], Policy())


# Time


def run(transfers: list[Transfer], limits: Limits | None = None, **links: float) -> float:
    return Timeline(transfers, Speeds(links=links, default=100.0), limits or Limits(9, 9, 9)).run()


def test_one_after_the_other_on_one_link() -> None:
    two = [Transfer("u", "a", "b", 1000), Transfer("v", "a", "b", 3000)]
    assert run(two) == pytest.approx(40)
    assert two[0].end == pytest.approx(10)


def test_a_limit_is_each_migrations_own() -> None:
    """Two go at once: what the first one leaves of the link is more than the second one may take."""
    limited = MigrationSettings(bandwidth_mib=1)
    two = [Transfer(name, "a", "b", 96, settings=limited) for name in ("u", "v")]
    assert run(two) == pytest.approx(96)


def test_what_is_written_is_sent_again() -> None:
    one = Transfer("u", "a", "b", 1000, dirty=50)
    assert run([one]) == pytest.approx(20)
    assert one.sent == pytest.approx(2000)


def test_what_is_written_over_and_over_is_sent_again_once() -> None:
    """10 s for all of it, in which 80 MiB are written of which 40 are the same; 40 at 100 - 50."""
    one = Transfer("u", "a", "b", 1000, dirty=50, hot=40)
    assert run([one]) == pytest.approx(10.8)
    assert one.sent == pytest.approx(1080)


def test_a_small_working_set_converges_however_fast_it_is_written() -> None:
    """It goes in the pause: 20 MiB at 100 MiB/s are less than 300 ms."""
    small = Transfer("u", "a", "b", 1000, dirty=500, hot=20)
    large = Transfer("v", "a", "b", 1000, dirty=500, hot=40)
    speeds = Speeds(default=100.0)
    assert converges(small, speeds) and not converges(large, speeds)
    assert run([small]) == pytest.approx(10.2)
    assert pause_ms(small) == pytest.approx(PAUSE_MS + 200)
    assert pause_ms(small, 100.0) == pytest.approx(300)


def test_a_working_set_counts_from_where_it_was_interrupted() -> None:
    """Half of it beside another one, the rest alone: nothing is lost or sent twice."""
    slow = Transfer("u", "a", "b", 1000, dirty=10, hot=60)
    other = Transfer("v", "c", "b", 300)
    run([slow, other], b=100.0)
    assert slow.sent == pytest.approx(1000 + 60 * 100 / 90)


def test_a_migration_has_a_beginning_and_an_end_beside_its_bytes() -> None:
    speeds = Speeds(default=100.0, setup=2.0, switch=3.0)
    two = [Transfer(name, "a", "b", 1000) for name in ("u", "v")]
    assert Timeline(two, speeds, Limits(9, 1, 9)).run() == pytest.approx(30)
    both = [Transfer(name, "a", "b", 1000) for name in ("u", "v")]
    assert Timeline(both, speeds, Limits(9, 2, 9)).run() == pytest.approx(25)


def test_what_a_drain_costs_beside_its_migrations_is_in_every_step() -> None:
    vms = [{"name": n, "host": n, "memory_mib": 1000} for n in ("a", "b")]
    bare = plan_roll(small(vms, ["a", "b", "c"])).duration
    speeds = Speeds(default=100.0, overhead=7.0)
    with_it = plan_roll(small(vms, ["a", "b", "c"], speeds=speeds))
    moving = [step for step in with_it.steps if step.moves]
    assert with_it.duration == pytest.approx(bare + 7 * len(moving))


def test_what_is_given_by_name_stands_above_what_was_measured() -> None:
    row = {"name": "u", "host": "a", "memory_mib": 1000, "dirty_rate": 10, "working_set_mib": 5}
    known = {"dirty_rates": {"u": 50}, "working_sets": {"u": 2000}}
    measured = plan_roll(small([row], ["a"])).duration
    given = plan_roll(small([row], ["a"], known=known)).duration
    assert measured == pytest.approx(10.05) and given == pytest.approx(20)


def test_a_narrow_target_leaves_the_link_to_others() -> None:
    two = [Transfer("u", "a", "slow", 500), Transfer("v", "a", "b", 1000)]
    assert run(two, slow=50) == pytest.approx(15)


def test_two_sources_share_the_link_of_one_target() -> None:
    two = [Transfer("u", "a", "c", 1000), Transfer("v", "b", "c", 1000)]
    assert run(two) == pytest.approx(20)


def test_limits_queue() -> None:
    four = [Transfer(f"u{n}", "a", "b", 1000) for n in range(4)]
    run(four, Limits(cluster=9, outbound=1, inbound=9))
    assert sorted(t.start for t in four) == pytest.approx([0, 10, 20, 30])


def test_one_that_never_converges_ends() -> None:
    one = Transfer("u", "a", "b", 1024, dirty=200)
    assert run([one]) == pytest.approx(150)


def test_the_way_back_is_planned_and_timed() -> None:
    hosts = [{"name": name, "memory_mib": 8 * GIB} for name in ("a", "b", "c")]
    vms = [{"name": f"vm-{name}", "host": name, "memory_mib": 2 * GIB} for name in ("a", "b", "b2")]
    vms[2]["host"] = "b"
    stays = plan_roll(request_of(hosts, vms, ["a", "b"], Policy())).to_dict()
    plan = plan_roll(request_of(hosts, vms, ["a", "b"], Policy(), move_back=True)).to_dict()
    assert stays["moves_back"] == [] and stays["steps"] == plan["steps"]
    moved = {move["name"]: move["target"] for step in plan["steps"] for move in step["moves"]}
    assert {(m["name"], m["source"], m["target"]) for m in plan["moves_back"]} == {
        (vm["name"], moved[vm["name"]], vm["host"]) for vm in vms if moved[vm["name"]] != vm["host"]
    }
    assert plan["back_duration"] > 0
    assert plan["duration"] == pytest.approx(stays["duration"] + plan["back_duration"], abs=0.2)
    lines = plan_text.table(plan)
    count = len(plan["moves_back"])
    assert any(line.startswith(f"Then {count} VMs go back to where they were: takes ") for line in lines)
    assert f"then {count} VMs go back" in lines[-1]
    places = plan_text.diff([{**vm, "uuid": vm["name"]} for vm in vms], plan)
    assert places["before"] == places["after"]


def test_a_vm_that_is_off_for_its_move_is_not_planned_to_go_back() -> None:
    hosts = [{"name": name, "memory_mib": 8 * GIB} for name in ("a", "b")]
    vms = [
        {"name": "vm", "host": "a", "memory_mib": GIB, "migratable": False, "reasons": ["HostDeviceNotLiveMigratable"]}
    ]
    policy = Policy(on_not_migratable="cold_migrate", allow_stop=True)
    plan = plan_roll(request_of(hosts, vms, ["a"], policy, move_back=True)).to_dict()
    assert plan["moves"] == 1 and plan["moves_back"] == []
