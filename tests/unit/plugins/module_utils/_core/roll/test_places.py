"""How many hosts of a rack may be out, beside how many of the fleet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import rules, stages, terms
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import RollRefused
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Fleet, Roll, Stage, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.rules import Answer, Ask
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.roll.asking import ask as wanted

NOW = "2026-01-01T00:00:00Z"
RACKS = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
LABELLED = Fleet([*RACKS], labels={host: {"rack": rack} for host, rack in RACKS.items()})
GROUPS = {host: {"rack": rack} for host, rack in RACKS.items()}


def ask(**more: object) -> Ask:
    return wanted(hosts=[*RACKS], **{"max_unavailable": "3", "max_unavailable_per": {"rack": 1}, **more})


def new(fleet: Fleet = LABELLED, **more: object) -> Roll:
    roll = rules.begin(None, ask(**more), False, fleet, NOW).roll
    assert roll is not None
    return roll


def at(roll: Roll, **found: Stage) -> Roll:
    for host, stage in found.items():
        roll = stages.with_stage(roll, host, stage, NOW)
    return roll


def answers(roll: Roll, fleet: Fleet = LABELLED) -> dict[str, str]:
    return {host: rules.turn(roll, host, fleet, "", NOW).answer.value for host in roll.in_stage(Stage.WAITING)}


@pytest.mark.parametrize(
    ("fleet", "groups"),
    [(LABELLED, {}), (Fleet([*RACKS]), GROUPS), (Fleet([*RACKS], labels={"a": {"rack": "r2"}}), GROUPS)],
    ids=["labels of Nodes", "the inventory", "the inventory before the labels"],
)
def test_one_host_of_each_rack_is_out(fleet: Fleet, groups: object) -> None:
    roll = new(fleet, groups=groups)
    assert answers(roll, fleet) == {"a": "go", "b": "wait", "c": "go", "d": "wait"}
    roll = at(roll, a=Stage.DRAINING)
    # c does not wait for b, which comes before it and has no place.
    assert answers(roll, fleet) == {"b": "wait", "c": "go", "d": "wait"}
    waits = rules.turn(roll, "b", fleet, "", NOW).message
    assert "1 host of rack r1 may be out at once, and this one is: a (draining since" in waits
    roll = at(roll, c=Stage.AT_WORK)
    assert answers(roll, fleet) == {"b": "wait", "d": "wait"}
    assert answers(at(roll, a=Stage.DONE), fleet) == {"b": "go", "d": "wait"}


def test_who_has_no_place_keeps_none_free_for_itself() -> None:
    """b comes first and waits for its rack: the second place of the fleet is not kept for it."""
    assert answers(at(new(max_unavailable="2"), a=Stage.DRAINING)) == {"b": "wait", "c": "go", "d": "wait"}


def test_the_number_for_the_fleet_holds_beside_it() -> None:
    roll = at(new(max_unavailable="1"), a=Stage.DRAINING)
    assert answers(roll) == {"b": "wait", "c": "wait", "d": "wait"}
    assert "1 host may be out" in rules.turn(roll, "c", LABELLED, "", NOW).message


def test_a_host_waits_for_those_to_which_the_plan_sends_its_vms() -> None:
    """Else its VMs go to hosts that are still to come, and move twice. From the last one they cannot."""
    roll = at(new(max_unavailable="2", max_unavailable_per={}), a=Stage.DONE, b=Stage.AT_WORK)
    wait = rules.turn(roll, "c", LABELLED, "", NOW, targets=["a", "b", "spare"])
    assert (wait.answer, wait.waits_for) == (Answer.WAIT, ("b",))
    assert wait.message.startswith("c waits: the plan moves its VMs to b (at work since ")
    assert rules.turn(roll, "d", LABELLED, "", NOW, targets=["a"]).answer is Answer.WAIT  # c comes first
    go = [
        rules.turn(roll, "c", LABELLED, "", NOW, targets=["a", "d"]),
        rules.turn(at(roll, b=Stage.DONE), "c", LABELLED, "", NOW, targets=["a", "b"]),
        rules.turn(at(roll, c=Stage.DONE), "d", LABELLED, "", NOW, targets=["b", "c"]),
        rules.turn(roll, "c", LABELLED, "", NOW, left=True, targets=["a", "b"]),
    ]
    failed = stages.with_stage(
        at(new(max_unavailable="2", max_failures=1), a=Stage.DONE), "b", Stage.FAILED, NOW, "", "x"
    )
    go.append(rules.turn(failed, "c", LABELLED, "", NOW, targets=["a", "b"]))
    assert [verdict.answer for verdict in go] == [Answer.GO] * 5


def test_a_host_of_others_takes_the_place_of_its_rack() -> None:
    fleet = Fleet([*RACKS, "x"], {"x": "does not answer"}, labels={**LABELLED.labels, "x": {"rack": "r1"}})
    roll = new(fleet)
    verdict = rules.turn(roll, "a", fleet, "", NOW)
    assert verdict.answer is Answer.CLOSED
    assert "1 host of rack r1 may be out at once (maintenance_max_unavailable_per)" in verdict.message
    # Those of the other rack are not stopped by it.
    assert verdict.roll is not None and verdict.roll.state is State.RUNNING
    assert rules.turn(verdict.roll, "c", fleet, "", NOW).answer is Answer.GO
    assert rules.turn(new(fleet, count_others=False), "a", fleet, "", NOW).answer is Answer.GO


def test_where_no_rack_has_a_place_the_roll_stops() -> None:
    fleet = Fleet(LABELLED.hosts, {"a": "does not answer", "c": "does not answer"}, labels=LABELLED.labels)
    roll = at(new(fleet, count_others=False), a=Stage.DONE, c=Stage.DONE)
    roll.terms = replace(roll.terms, count_others=True)
    verdict = rules.turn(roll, "b", fleet, "", NOW)
    assert verdict.roll is not None and verdict.roll.state is State.STOPPED


def test_a_host_without_a_rack_is_known_before_the_first_one() -> None:
    some = Fleet([*RACKS], labels={"a": {"rack": "r1"}})
    with pytest.raises(RollRefused, match="no value for rack of b, rack of c, rack of d"):
        new(some)
    assert new(some, max_unavailable_per={}).state is State.RUNNING


def test_it_is_kept_in_the_record_and_given_anew_with_the_same_command() -> None:
    roll = Roll.from_json(rules.end(at(new(groups=GROUPS), a=Stage.DRAINING)).to_json())
    assert (roll.terms.max_unavailable_per, roll.terms.groups) == ({"rack": 1}, GROUPS)
    again = rules.begin(roll, ask(max_unavailable_per={"rack": 2}, groups=GROUPS), True, LABELLED, NOW).roll
    assert again is not None and again.terms.max_unavailable_per == {"rack": 2}


@pytest.mark.parametrize("most", [0, -1, "one", "", None, 1.5, "50%"])
def test_it_is_a_number_of_hosts(most: object) -> None:
    with pytest.raises(PolicyError, match=r"max_unavailable_per has .* for rack: expected a number of hosts above 0"):
        terms.most_per("max_unavailable_per", {"rack": most})
    assert terms.most_per("", {"rack": "2"}) == {"rack": 2}
