"""What a roll refuses before its first host."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.plugin_utils._roll_plan import misnamed, one_node, other_fleet


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        ({}, 0),
        ({"drain_node": "a", "restore_node": "", "preflight_node": None}, 0),
        ({"drain_node": "b"}, 1),
        ({"drain_node": "b", "restore_node": "b"}, 2),
    ],
)
def test_a_host_of_a_roll_is_the_node_of_its_name(given: dict[str, Any], faults: int) -> None:
    found = misnamed("a", given, given.__getitem__)
    assert len(found) == faults
    assert all("of a is b: a roll works on the node that has the host's name" in text for text in found)


@pytest.mark.parametrize(
    ("given", "differs"),
    [
        ({}, ""),
        ({"drain_fleet": ["c", "b", "a"], "restore_fleet": ["b", "c"], "plan_fleet": "{{ not known yet }}"}, ""),
        ({"drain_fleet": ["a", "b"]}, "drain_fleet is not the fleet of the roll, it lacks c: "),
        ({"restore_fleet": ["a", "b", "c", "x"]}, "restore_fleet is not the fleet of the roll, it has x too: "),
        ({"maintenance_fleet": ["a", "x"]}, "maintenance_fleet is not the fleet of the roll, it lacks b, c and has x"),
    ],
)
def test_a_role_looks_for_the_record_where_the_roll_has_it(given: dict[str, Any], differs: str) -> None:
    """Its own host need not be in the list: a role counts it."""
    found = other_fleet("a", given, given.__getitem__, ["a", "b", "c"])
    assert [text[: len(differs)] for text in found] == [differs] * bool(differs)


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ({"a": {}, "b": {}}, ""),
        ({"a": {}, "b": {"drain_node": "c"}}, ""),
        ({"a": {"drain_node": "b"}, "b": {"drain_node": "a"}}, ""),
        ({"a": {}, "b": {"drain_node": "a"}}, "a and b are the same host (drain_node a)"),
        (
            {"a": {}, "b": {"restore_node": "x"}, "c": {"restore_node": "x"}},
            "b and c are the same host (restore_node x)",
        ),
    ],
)
def test_two_hosts_of_the_inventory_that_are_one_node(hosts: dict[str, dict[str, Any]], names: str) -> None:
    found = one_node({host: (given, given.__getitem__) for host, given in hosts.items()})
    assert [text.partition(":")[0] for text in found] == [names] * bool(names)
