"""Events on the Node: who looks at it with kubectl sees what is done with it, and by whom."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, rules_without
from kubesim.kinds import EVENTS, NODES

pytestmark = pytest.mark.full


def events(sim: Any) -> list[dict[str, Any]]:
    """Those about nodes, in the order in which they came."""
    about = [event for event in sim.all(EVENTS) if event["involvedObject"]["kind"] == "Node"]
    return sorted(about, key=lambda event: int(event["metadata"]["resourceVersion"]))


def test_a_drain_and_its_restore_are_noted_on_the_node(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    assert operator.drain()["phase"] == "Drained"
    assert operator.drain()["changed"] is False, "what changes nothing is not noted"
    assert operator.restore()["phase"] == "Active"
    found = events(sim)
    assert [event["reason"] for event in found] == [
        "MaintenanceDrainBegan",
        "MaintenanceDrainEnded",
        "MaintenanceRestoreEnded",
    ]
    assert {event["type"] for event in found} == {"Normal"}
    assert "The node is Drained, 1 moved, run " in found[1]["message"]
    about = found[0]["involvedObject"]
    assert (about["name"], about["uid"]) == ("n1", sim.find(NODES, "n1")["metadata"]["uid"])
    assert {event["metadata"]["namespace"] for event in found} == {"default"}
    assert {event["reportingComponent"] for event in found} == {"virtops.maintenance"}


def test_a_drain_that_is_blocked_is_a_warning_with_why(sim, operator) -> None:
    sim.add_vm("vm", "n1", strategy=None)
    assert operator.drain()["phase"] == "Blocked"
    last = events(sim)[-1]
    assert (last["reason"], last["type"]) == ("MaintenanceDrainFailed", "Warning")
    assert "not Drained: StopNotAllowed" in last["message"]


def test_who_may_not_write_them_is_told_and_works_on(sim, operator) -> None:
    sim.api.access.rules[TOKEN] = rules_without("create", "events")
    found = operator.drain()
    assert found["phase"] == "Drained" and events(sim) == []
    assert "No Event is written on the node" in " ".join(found["warnings"])
