"""Rolls over hosts of two releases, and rolls whose work is an upgrade: no VM is led to where it cannot leave."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, Node, Observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits, Policy, Rule
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.input import request_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.observed import fleet_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.order import plan_roll
from ansible_collections.virtops.maintenance.tests.bench.plan_bench import request
from ansible_collections.virtops.maintenance.tests.bench.plan_fleets import NEW, make

GIB = 1024
OLD_QEMU, NEW_QEMU = "7.2.0", "10.0.8"


def host(name: str, gib: int = 64, **more: Any) -> dict[str, Any]:
    return {"name": name, "memory_mib": gib * GIB, "version": OLD_QEMU, **more}


def vm(name: str, where: str, gib: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "host": where, "memory_mib": gib * GIB, **more}


def plan(hosts: list[Any], vms: list[Any], roll: list[str], rules: Any = (), **more: Any) -> dict[str, Any]:
    return plan_roll(request_of(hosts, vms, roll, Policy(rules, limits=Limits(9, 9, 9)), **more)).to_dict()


def test_the_new_host_goes_first_however_slow_its_link_is() -> None:
    """Only the spare host takes its VM; that of the old one would take the place."""
    hosts = [
        host("old", link_mib_s=3000),
        host("new", version=NEW_QEMU, link_mib_s=1000),
        host("spare", version=NEW_QEMU),
    ]
    found = plan(hosts, [vm("x", "old", 40), vm("y", "new", 40)], ["old", "new"])
    assert found["fits"], found["refusal"]
    assert [step["hosts"] for step in found["steps"]] == [["new"], ["old"]]


def test_a_host_that_only_older_ones_could_relieve_is_refused_with_what_helps() -> None:
    hosts = [host("new", version=NEW_QEMU), host("b"), host("c")]
    found = plan(hosts, [vm("x", "new", 8), vm("y", "b", 8)], ["new", "b", "c"])
    assert found["refusal"]["reason"] == "NewerToOlder"
    assert "; upgrade the older hosts before new or " in found["refusal"]["sentence"]
    assert plan(hosts, [vm("x", "new", 8), vm("y", "b", 8)], ["b", "c"])["fits"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_move_stays_possible_if_the_work_is_an_upgrade(seed: int) -> None:
    """Every host is newer once its step is over."""
    instance = make(20, 300, seed)
    for one in instance.hosts:
        one.version = NEW
    instance.max_unavailable = 2
    found = plan_roll(request(instance)).to_dict()
    assert found["fits"], found["refusal"]
    done: set[str] = set()
    for step in found["steps"]:
        against = [m for m in step["moves"] if m["source"] in done and m["target"] and m["target"] not in done]
        assert against == []
        done.update(step["hosts"])


def needs_a_swap() -> dict[str, Any]:
    """z fits on a alone, once y has left it; by then the work on a is over."""
    ssd = {"labels": {"disk": "ssd"}}
    hosts = [host("a", **ssd), host("b", 32), host("c"), host("d", 32, **ssd)]
    vms = [vm("y", "b", 24, needs={"selector": {"disk": "ssd"}}), vm("z", "c", 48), vm("w", "d", 6)]
    return plan(hosts, vms, ["a", "b", "c"])


def test_a_swap_that_an_upgrade_would_prevent_is_said() -> None:
    found = needs_a_swap()
    assert [(m["name"], m["source"], m["target"]) for m in found["steps"][-1]["moves"]] == [
        ("y", "a", "d"),
        ("z", "c", "a"),
    ]
    (warning,) = found["warnings"]
    assert warning.startswith("y has to make room on a once the work there is over, and moves to d: that is not")


def test_a_vm_that_goes_back_to_an_older_host_is_said() -> None:
    hosts = [host("old"), host("new", version=NEW_QEMU)]
    found = plan(hosts, [vm("x", "old", 8)], ["old"], move_back=True)
    assert [(m["source"], m["target"]) for m in found["moves_back"]] == [("new", "old")]
    assert found["warnings"] == [
        "x can go back from new (10.0.8) to old only if the work makes its hypervisor (7.2.0) as new."
    ]
    assert plan(hosts, [vm("x", "new", 8)], ["old"], move_back=True)["warnings"] == []
    assert plan(hosts, [vm("x", "old", 8)], ["old"])["warnings"] == []


def test_an_upgrade_that_failed_on_the_second_of_three_can_be_rolled_on_and_back() -> None:
    """a is new and has the VMs, b was emptied and is as it was, c is to come."""
    hosts = [host("a", version=NEW_QEMU), host("b"), host("c")]
    vms = [
        vm("x", "a", 8, compared={"b": "", "c": ""}),
        vm("y", "a", 8, compared={"b": "its libvirt does not compare the CPU custom"}),
        vm("z", "c", 8),
    ]
    on = plan(hosts, vms, ["b", "c"])
    assert on["fits"]
    assert [(m["name"], m["target"]) for step in on["steps"] for m in step["moves"]] == [("z", "a")]
    rule = Rule("back", when=lambda document: True, allow_older_hypervisor=True)
    back = plan(hosts, vms, ["a"], (rule,))
    assert back["refusal"]["name"] == "y"
    assert "and its libvirt does not compare the CPU custom" in back["refusal"]["sentence"]
    vms[1]["compared"]["c"] = ""
    back = plan(hosts, vms, ["a"], (rule,))
    assert [(m["name"], m["target"] in "bc") for m in back["steps"][0]["moves"]] == [("x", True), ("y", True)]
    assert plan(hosts, vms, ["a"])["refusal"]["reason"] == "NewerToOlder"


def test_what_was_compared_reaches_the_plan() -> None:
    given = VM("u", "x", "a", memory_mib=8 * GIB, compared={"b": "", "c": "why not"})
    (row,) = fleet_of(Observation({"a": Node("a")}, {"u": given}), "a")["vms"]
    found = request_of([host("a", version=NEW_QEMU), host("b")], [row], ["a"], Policy())
    assert found.vms["u"].compared == given.compared
