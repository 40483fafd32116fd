"""The plan's input: what is wrong in it is named, and nothing is taken for something else."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy, PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.input import request_of, strange_names
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.speeds import LIBVIRT, speeds_of

HOST = {"name": "a", "memory_mib": 65536}
VM = {"name": "x", "host": "a", "memory_mib": 8192}


def given(host: dict[str, Any] | None = None, vm: Any = None, **more: Any) -> Any:
    hosts = [{**HOST, **(host or {})}, {"name": "b", "memory_mib": 65536}]
    vms = [{**VM, **(vm or {})}]
    return request_of(hosts, vms, ["a"], Policy(), **more)


@pytest.mark.parametrize("text", ["false", "no", False, 0, "OFF"])
def test_a_text_that_says_no_is_no(text: Any) -> None:
    asked = given({"reachable": text, "cordoned": text}, {"migratable": text, "reasons": ["NameTaken"]})
    assert (asked.nodes["a"].reachable, asked.nodes["a"].cordoned) == (False, False)
    assert asked.vms["x"].migratable is False


def test_what_is_not_known_is_not_made_up() -> None:
    assert given(vm={"migratable": None}).vms["x"].migratable is None
    assert given({"cpu_milli": None}).nodes["a"].cpu_milli is None
    assert given(vm={"cold_refused_by": None}).vms["x"].cold_refused_by is None


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"reachable": "maybe"}, "reachable of a is 'maybe': expected true or false"),
        ({"memory_mib": None}, "the host a has no memory_mib"),
        ({"link_mib_s": float("inf")}, "link_mib_s of a is inf: expected a number"),
        ({"taints": {"a": "b"}}, "taints of a is .*: expected a list"),
        ({"cordonned": True}, "cordonned of a is not known: did you mean cordoned"),
        ({"name": ""}, "a host without a name"),
        ({"name": ["a"]}, "a host without a name"),
        ({"version": [9, 1]}, "version of a is .*: expected text"),
    ],
)
def test_a_wrong_host(row: dict[str, Any], told: str) -> None:
    with pytest.raises(PolicyError, match=told):
        given(host=row)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"memory_mib": None}, "the VM x has no memory_mib"),
        ({"memory_mib": float("nan")}, "memory_mib of x is nan: expected a number"),
        ({"memory_mib": True}, "memory_mib of x is True: expected a number"),
        ({"memory_mib": "12g"}, "memory_mib of x is '12g': expected a number"),
        ({"migratable": "maybe"}, "migratable of x is 'maybe': expected true or false"),
        ({"migratable": False}, "migratable of x is false, but reasons is empty"),
        ({"refused_by": ["b"]}, "refused_by of x is .*: expected a dict"),
        ({"refused_by": {"b": "NameTaken"}}, "refused_by of x, b, is 'NameTaken': expected a list"),
        ({"reasons": "HostDevice"}, "reasons of x is 'HostDevice': expected a list"),
        ({"needs": "zone=a"}, "needs of x is 'zone=a': expected a dict"),
        ({"needs": {"nodeSelector": {}}}, "nodeSelector of needs of x is not known: did you mean selector"),
        ({"needs": {"affinity": [{}]}}, "an entry of affinity of needs of x is {}: expected text"),
        ({"group": ["g"]}, "group of x is .*: expected text"),
        ({"document": "x"}, "document of x is 'x': expected a dict"),
        ({"need": {}}, "need of x is not known: did you mean needs"),
    ],
)
def test_a_wrong_vm(row: dict[str, Any], told: str) -> None:
    with pytest.raises(PolicyError, match=told):
        given(vm=row)


def test_a_row_is_a_dict() -> None:
    with pytest.raises(PolicyError, match="a host is 'a': expected a dict"):
        request_of(["a"], [], ["a"], Policy())  # type: ignore[list-item]
    with pytest.raises(PolicyError, match="a VM is 'x': expected a dict"):
        request_of([HOST], ["x"], ["a"], Policy())  # type: ignore[list-item]


def test_a_vm_that_could_not_be_read_needs_no_memory() -> None:
    assert given(vm={"memory_mib": 0, "known": False}).vms["x"].memory_mib == 0


@pytest.mark.parametrize("state", ["shutoff", "running"])
def test_a_vm_on_two_hosts_is_told_by_what_it_is_there(state: str) -> None:
    """Of a definition that was left behind it said to read again, which changes nothing."""
    rows = [{**VM, "uuid": "u1", "state": state}, {**VM, "uuid": "u1", "host": "b"}]
    with pytest.raises(PolicyError, match=r"the VM x \(u1\) is on a and on b: ") as told:
        request_of([HOST, {"name": "b", "memory_mib": 65536}], rows, ["a"], Policy())
    assert ("Read them again" in str(told.value)) is (state == "running")
    left = "on a it is off. It runs on b. If it is not being migrated, a definition was left behind: remove it (virsh u"
    assert (left in str(told.value)) is (state == "shutoff")


def test_vms_that_are_not_listed_count_too() -> None:
    node = given({"committed_mib": 1000, "group_counts": {"db": "2"}}, {"group": "db"}).nodes["a"]
    assert (node.committed_mib, node.group_counts) == (1000 + VM["memory_mib"], {"db": 3})
    with pytest.raises(PolicyError, match="db in group_counts of a is 'two': expected a number"):
        given({"group_counts": {"db": "two"}})


def test_an_empty_roll_and_a_budget_of_none() -> None:
    with pytest.raises(PolicyError, match="roll is empty"):
        request_of([HOST], [], [], Policy())
    with pytest.raises(PolicyError, match="at_once of w is 0: expected 1 or more"):
        given(budgets=[{"name": "w", "vms": ["x"], "at_once": 0}])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "fast", True])
def test_a_speed_is_a_number(value: Any) -> None:
    with pytest.raises(PolicyError, match=r"speeds.setup is .*: expected a number"):
        speeds_of({"setup": value}, LIBVIRT)


def test_speeds_of_strangers_are_named() -> None:
    known = {"links": {"a": 110, "c": 110}, "dirty_rates": {"x": 1, "y": 1}, "working_sets": None}
    assert strange_names(given(), known) == [
        "speeds.links names c, which is not a host of the fleet.",
        "speeds.dirty_rates names y, which is not a VM of the fleet.",
    ]
