"""A roll is cancelled during its second host, and two begin at once, on the simulator.

More of it: make test-cancel, make test-two-rolls.
"""

from __future__ import annotations

import os

import pytest
from cancel import races, simulator
from cancel.case import Case, play

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("VIRTOPS_KUBECONFIG")), reason="needs the simulator: the test starts one of its own"
)


@pytest.mark.full
@pytest.mark.parametrize(
    ("way", "then", "stage", "events"),
    [("SIGKILL", "again", "draining", 60), ("SIGTERM", "abort", "rebooting", 3), ("container", "abort", "at work", 5)],
)
def test_what_was_cancelled_carries_on_or_is_given_back(way: str, then: str, stage: str, events: int) -> None:
    if way == "container" and os.geteuid():
        pytest.skip("a PID namespace needs root")
    with simulator.bed() as bed:
        outcome = play(bed, Case(simulator.ROLLS, 0, 0, way, then, 1, stage, events))
    assert not outcome.missed
    assert outcome.lines() == []


def test_of_two_rolls_at_the_same_moment_one_wins() -> None:
    for number in range(5):
        with races.by_modules() as race:
            assert race.play(Case(races.MODULES, 0, number)).lines() == []


@pytest.mark.full
def test_of_two_playbooks_at_the_same_moment_one_wins() -> None:
    with simulator.bed() as bed:
        assert races.play(bed, Case(simulator.ROLLS, 0, 0)).lines() == []
