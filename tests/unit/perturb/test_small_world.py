"""The first states of `make small-world`, and what it would see."""

from __future__ import annotations

import pytest
from perturb import small_world
from perturb.small_world import Violation, ends, explore, first, last_line

from fleetsim.machines import Domain


def test_from_the_first_states_every_command_comes_to_an_end() -> None:
    states, depth, wrong = explore(150, 10)
    assert (states >= 150, depth >= 2, wrong) == (True, True, [])


def test_what_stays_blocked_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody follows the remedy."""
    world = first()
    world.fleet.machines["b"].cordons.add("a person")
    monkeypatch.setattr(small_world, "follow_remedies", lambda *_what: None)
    with pytest.raises(Violation, match=r"Blocked for ever.*NoTargetWithCapacity"):
        ends(world, set())


def test_what_runs_twice_is_a_violation() -> None:
    world = first()
    world.fleet.machines["b"].domains["u1"] = Domain(world.fleet.machines["a"].domains["u1"].spec)
    with pytest.raises(Violation, match="runs twice"):
        small_world.check(world)


def test_the_last_line() -> None:
    assert last_line(7, 2, 0) == "small-world: states=7 depth=2 violations=0"
