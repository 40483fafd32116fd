"""What a roll refuses before its first host."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.plugin_utils._roll_plan import misnamed, one_node


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
