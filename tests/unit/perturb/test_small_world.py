"""The first states of `make small-world`, and what it would see."""

from __future__ import annotations

import pytest
from perturb import others, small_proof, small_world
from perturb.judge import digest
from perturb.small_proof import AGAIN, Proofs, Violation
from perturb.small_state import AGES, World, first
from perturb.small_world import EVERYBODY, explore

from fleetsim.copies import copied
from fleetsim.machines import Domain


def test_from_the_first_states_every_command_comes_to_an_end() -> None:
    small = explore(100)
    assert (small.states >= 100, small.depth >= 5, small.wrong) == (True, True, [])


def test_what_stays_blocked_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody follows the remedy."""
    world = first()
    world.fleet.machines["b"].cordons.add("a person")
    monkeypatch.setattr(small_proof, "follow_remedies", lambda *_what: None)
    with pytest.raises(Violation, match=r"Blocked for ever.*NoTargetWithCapacity"):
        Proofs().ends(world)


def test_what_runs_twice_is_a_violation() -> None:
    world = first()
    world.fleet.machines["b"].domains["u1"] = Domain(world.fleet.machines["a"].domains["u1"].spec)
    with pytest.raises(Violation, match="runs twice"):
        small_proof.check(world)


def test_a_proof_counts_only_as_long_as_the_commands_suffice() -> None:
    """Blocked, and after the remedy done: what comes later on that way takes fewer commands than what comes first. In
    the last command a state that takes two more is not taken for proven."""
    world = first()
    world.fleet.machines["b"].cordons.add("a person")
    proofs = Proofs()
    proofs.ends(world)
    assert max(proofs.known.values()) == proofs.known[world.key()] == 3
    assert min(proofs.known.values()) == 1
    proofs.known = {world.key(): 2}
    assert proofs._to_the_end(world, None, [], AGAIN - 2)[2] == 2
    assert proofs._to_the_end(world, None, [], AGAIN - 1)[2] == 0


def test_states_that_differ_in_names_and_in_the_hour_are_one() -> None:
    def begun(number: int, later: float) -> World:
        world = first()
        world.number = number
        world.fleet.clock += later
        for _step in range(3):
            world.step()
        return world

    one, same = begun(1, 0.0), begun(7, 5000.0)
    assert one.fleet.machines["a"].record != same.fleet.machines["a"].record
    assert one.key() == same.key()
    same.fleet.clock += AGES[0]
    assert one.key() != same.key()


@pytest.mark.parametrize("kind", small_world.OWNER)
def test_what_an_owner_did_is_another_state(kind: str) -> None:
    world = first()
    opposite = {"owner_starts": "owner_stops", "owner_defines": "owner_undefines"}.get(kind)
    if opposite:
        others.act(world.fleet, opposite, "u1")
    before = world.key()
    others.act(world.fleet, kind, "u1")
    assert world.key() != before


def test_each_acts_once() -> None:
    """No state that comes by an act has that act left."""
    small = small_world.Small(lambda tasks: map(small_world.Worker(), tasks))
    alone = small.alone(small.begin([first()]))
    assert (len(alone), {state & EVERYBODY for state in alone}) == (small.states, {EVERYBODY})
    acted = small.acted(alone[:3])
    assert {state & EVERYBODY for state in acted} == {EVERYBODY & ~(1 << bit) for bit in range(4)}


def test_a_copy_of_a_fleet_is_another_fleet() -> None:
    world = first()
    for _step in range(2):
        world.step()
    before = digest(world.fleet)
    copy = world.copy()
    assert (digest(copy.fleet), copy.key()) == (before, world.key())
    for _step in range(12):
        copy.step()
        copy.wait(4.0)
    assert (digest(copy.fleet) == before, digest(world.fleet)) == (False, before)
    world.fleet.crash("b", 5.0)
    with pytest.raises(ValueError, match="belongs to one fleet alone"):
        copied(world.fleet)


def test_the_last_line() -> None:
    small = small_world.Small(lambda _tasks: [])
    small.states, small.depth = 7, 2
    assert small_world.last_line(small) == "small-world: states=7 depth=2 violations=0"
