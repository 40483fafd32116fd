"""A roll is cancelled during its second host, and two begin at once, on the lab.

More of it: make test-cancel, make test-two-rolls.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cancel import hosts, races
from cancel.case import Case, play

from lab import Lab

# Each waits a minute for the lease of a dead roll, and reboots hosts.
pytestmark = [pytest.mark.lab, pytest.mark.full]


@pytest.mark.parametrize(
    ("way", "then", "stage", "events"), [("SIGKILL", "again", "draining", 30), ("SIGKILL", "abort", "draining", 30)]
)
def test_what_was_cancelled_carries_on_or_is_given_back(
    shared: Callable[[int], Lab], way: str, then: str, stage: str, events: int
) -> None:
    with hosts.place(shared(hosts.COUNT)) as bed:
        outcome = play(bed, Case(hosts.ROLLS, 0, 0, way, then, 1, stage, events))
    assert not outcome.missed
    assert outcome.lines() == []


def test_of_two_playbooks_at_the_same_moment_one_wins(shared: Callable[[int], Lab]) -> None:
    with hosts.place(shared(hosts.COUNT)) as bed:
        assert races.play(bed, Case(hosts.ROLLS, 0, 0)).lines() == []
