"""What `make chaos` draws, and what it counts."""

from __future__ import annotations

import pytest
from chaos.case import PLAIN, Outcome, Place, reasons
from chaos.run import PLACES, last_line

from ansible_collections.virtops.maintenance.plugins.plugin_utils._module import without_answer


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_seed_and_a_number_are_a_case_and_each_act_comes_in_turn(place: Place) -> None:
    drawn = [place.draw(7, number) for number in range(1, len(place.acts) + 1)]
    assert drawn == [place.draw(7, number) for number in range(1, len(place.acts) + 1)]
    assert {act for case in drawn for _events, act in case.acts} == set(place.acts)
    assert {case.command for case in drawn} == set(place.commands)


def test_reasons_are_those_of_the_documentation() -> None:
    assert {"VMLost", "NoTargetWithCapacity"} <= reasons()


@pytest.mark.parametrize("code", [-9, 137, 1])
def test_a_module_that_was_ended_is_explained_by_that(code: int) -> None:
    assert PLAIN.search(without_answer({"rc": code, "module_stdout": "", "module_stderr": "no"}, "The module"))


def test_the_last_line_counts_each_kind() -> None:
    outcome = Outcome(PLACES["simulator"].draw(1, 1))
    outcome.faults["lost"].append("a VM")
    assert (outcome.ok, last_line([outcome])) == (
        False,
        "chaos: cases=1 lost=1 twice=0 false_certificates=0 false_blocked=0 unfinished=0 unexplained=0 left_behind=0",
    )
