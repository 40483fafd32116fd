"""What `make chaos` draws, and what it counts."""

from __future__ import annotations

from chaos.acts import ACTS
from chaos.run import last_line
from chaos.simulator import Outcome, draw, reasons


def test_a_seed_and_a_number_are_a_case_and_each_act_comes_in_turn() -> None:
    drawn = [draw(7, number) for number in range(1, len(ACTS) + 1)]
    assert drawn == [draw(7, number) for number in range(1, len(ACTS) + 1)]
    assert {act for case in drawn for _events, act in case.acts} == set(ACTS)
    assert {case.roll for case in drawn} == {True, False}


def test_reasons_are_those_of_the_documentation() -> None:
    assert {"VMLost", "NoTargetWithCapacity"} <= reasons()


def test_the_last_line_counts_each_kind() -> None:
    outcome = Outcome(draw(1, 1))
    outcome.faults["lost"].append("a VM")
    assert (outcome.ok, last_line([outcome])) == (
        False,
        "chaos: cases=1 lost=1 twice=0 false_certificates=0 false_blocked=0 unfinished=0 unexplained=0 left_behind=0",
    )
