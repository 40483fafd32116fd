"""Reads that are old when the next one is made; kills at every point; cordons of others."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import FIXED, on, run, two
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, vm
from fleetsim.machines import Domain
from fleetsim.platform import ModelPlatform
from tier import points


def test_a_vm_that_moves_between_two_reads_is_not_lost() -> None:
    """The target is read before it arrives, the source after it left: nowhere, once."""
    made = two(vm(1, "a"))
    platform = ModelPlatform(made, "a", first=1)  # b is read before a
    record = begin(None, "a", "drained", "run", platform.now(), platform.own.boot_id)
    engine = Engine(platform, POLICY, record)
    engine.step()
    assert "u1" in made.moves

    def meanwhile(what: str) -> None:
        if what == "read a":
            made.advance(made.clock + 30.0)

    platform.hook = meanwhile
    seen = engine.step()
    assert seen.record.vms["u1"].ending == ""
    assert seen.decision.actions == []
    assert seen.phase is NodePhase.DRAINING
    assert engine.step().record.vms["u1"].ending in ("", "moved")


# The last one takes longest; tests/perturb kills there too.
KINDS = ["shutdown", "save", pytest.param("cold_migrate", marks=pytest.mark.full)]


class Kill(BaseException):
    """kill -9."""


def killed_at(made, number: int, policy) -> bool:
    """A drain that is killed before its `number`th read or write. False: it ended before."""
    platform = ModelPlatform(made, "a")
    count = 0

    def hook(_what: str) -> None:
        nonlocal count
        count += 1
        if count == number:
            raise Kill
        made.advance(made.clock + 0.005)

    platform.hook = hook
    boot_id = platform.own.boot_id
    try:
        record = begin(platform.load(), "a", "drained", "first", platform.now(), boot_id)
        Engine(platform, policy, record).run(platform.now() + 2000.0)
    except Kill:
        return True
    return False


def population():
    return two(
        vm(1, "a", autostart=True),
        vm(2, "a", persistent=False),
        vm(3, "a", autostart=True, **FIXED),
        vm(4, "a", persistent=False, **FIXED),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_every_point_it_is_carried_on_to_the_end(kind: str) -> None:
    policy = on(kind)
    expected = run(population(), policy).phase
    for number in points():
        made = population()
        if not killed_at(made, number, policy):
            break
        outcome = run(made, policy, name="second")
        assert outcome.phase is expected, number
        if expected is NodePhase.DRAINED:
            assert not any(m.claims or m.slots for m in made.machines.values()), number
            domain = made.machines["b"].domains["u1"]
            assert (domain.state, domain.autostart) == (State.RUNNING, True), number
    assert number > 50


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_every_point_it_can_be_undone(kind: str) -> None:
    policy = on(kind)
    for number in points():
        made = population()
        if not killed_at(made, number, policy):
            break
        outcome = run(made, policy, "active", "back")
        if outcome.phase is NodePhase.BLOCKED:
            # Killed between the record and the request: whether the guest has it is not known.
            blocked = [e for e in outcome.record.vms.values() if e.ending == "blocked"]
            assert {e.reason for e in blocked} == {"ShutdownTimedOut"}, number
            outcome = run(made, policy, "active", "again")
        assert outcome.phase is NodePhase.ACTIVE, number
        places: dict[str, list[Domain]] = {}
        for machine in made.machines.values():
            assert not machine.claims, number
            assert not machine.slots, number
            assert not machine.cordons, number
            for uuid, domain in machine.domains.items():
                places.setdefault(uuid, []).append(domain)
        for uuid in ("u1", "u2", "u3", "u4"):
            assert [d.state for d in places[uuid]] == [State.RUNNING], (number, uuid)
            domain = places[uuid][0]
            assert domain.persistent == domain.autostart == (uuid in ("u1", "u3")), (number, uuid)
    assert number > 50


@pytest.mark.parametrize("told_apart", [True, False])
def test_a_cordon_of_others_stays(told_apart: bool) -> None:
    made = two(vm(1, "a"))
    made.machines["a"].cordons.add("a person")
    platform = ModelPlatform(made, "a")
    if not told_apart:
        read = platform.observe

        def observe(record):
            seen = read(record)
            for node in seen.nodes.values():
                node.our_cordon = None
            return seen

        platform.observe = observe
    for intent, phase in (("drained", NodePhase.DRAINED), ("active", NodePhase.ACTIVE)):
        boot_id = platform.own.boot_id
        record = begin(platform.load(), "a", intent, intent, platform.now(), boot_id)
        outcome = Engine(platform, POLICY, record).run(platform.now() + 2000.0)
        assert outcome.phase is phase
        assert made.machines["a"].cordons == {"a person"}
    assert Do.UNCORDON not in {a.do for a in outcome.actions_done}
