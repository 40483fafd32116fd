"""Others move a VM of a drain, or leave its definition behind. No definition is lost by that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.outcome import outcomes
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import ended, run, two
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, fleet, vm
from fleetsim.fleet import Fleet
from fleetsim.machines import Fate, Move
from fleetsim.platform import ModelPlatform

ONCE = replace(POLICY, max_attempts=1)


def failed(fate: Fate, *, autostart: bool = False) -> Fleet:
    """A drain of one VM has failed: it runs on host a."""
    made = two(vm(1, "a", autostart=autostart))
    made.fate = lambda _vm, _attempt: fate
    assert run(made, ONCE).phase is NodePhase.BLOCKED
    return made


def move_by_hand(made: Fleet, *, persistent: bool, undefine: bool) -> str:
    """As `virsh migrate --live`, with or without --persistent and --undefinesource."""
    here = made.machines["a"].domains
    ((uuid, domain),) = here.items()
    made.machines["b"].domains[uuid] = replace(domain, persistent=persistent, autostart=False)
    domain.state = State.SHUTOFF
    if undefine:
        del here[uuid]
    return uuid


@pytest.mark.parametrize("autostart", [False, True])
@pytest.mark.parametrize("persistent", [False, True])
def test_what_was_moved_by_hand_after_a_failed_drain_keeps_its_definition(persistent: bool, autostart: bool) -> None:
    made = failed(Fate(fail_at=0.5), autostart=autostart)
    uuid = move_by_hand(made, persistent=persistent, undefine=False)
    outcome = run(made, ONCE, name="again")
    assert outcome.phase is NodePhase.DRAINED
    assert ended(outcome) == ("moved", "DefinitionLeft")
    left = made.machines["a"].domains[uuid]
    # The next boot of its old host must not start it a second time.
    assert (left.state, left.autostart) == (State.SHUTOFF, False)
    (entry,) = outcome.record.vms.values()
    assert ("transient" in entry.message) != persistent
    back = run(made, ONCE, intent="active", name="back")
    (told,) = outcomes(back.record, Platform.LIBVIRT)
    assert told["message"].startswith("left on b: DefinitionLeft: Someone else moved ")


def test_what_others_were_moving_when_the_drain_began_keeps_its_definition() -> None:
    """The drain only watched it, so the definition that it left is not the drain's to remove."""
    made = two(vm(1, "a"))
    made.migrate(Move("u1", "a", "b", 1, MigrationSettings(), Fate(leftover=True), held=False, ours=False))
    outcome = run(made)
    assert outcome.phase is NodePhase.DRAINED
    assert ended(outcome) == ("moved", "DefinitionLeft")
    assert outcome.record.vms["u1"].last.adopted
    assert "u1" in made.machines["a"].domains


def test_where_its_definition_went_with_nobody_it_gets_one_where_it_runs() -> None:
    """virsh migrate --undefinesource: it is defined on no host."""
    made = failed(Fate(fail_at=0.5), autostart=True)
    uuid = move_by_hand(made, persistent=False, undefine=True)
    outcome = run(made, ONCE, name="again")
    assert outcome.phase is NodePhase.DRAINED
    there = made.machines["b"].domains[uuid]
    assert (there.persistent, there.autostart) == (True, True)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("intent", ["active", "drained"])
def test_what_its_owner_removes_after_the_move_blocks_nothing(intent: str, persistent: bool) -> None:
    """For persistent ones: destroyed and undefined. A transient one just has to be shut down."""
    made = two(vm(1, "a", persistent=persistent))
    assert run(made).phase is NodePhase.DRAINED
    made.power_off("b", "u1", vanish=True)
    outcome = run(made, intent=intent, name="again")
    assert ended(outcome) == ("gone", "VMVanished")
    assert outcome.phase in (NodePhase.DRAINED, NodePhase.ACTIVE)


def test_what_our_own_move_left_is_removed() -> None:
    made = two(vm(1, "a"))
    made.fate = lambda _vm, _attempt: Fate(leftover=True)
    outcome = run(made)
    assert outcome.phase is NodePhase.DRAINED
    assert Do.CLEAN_SOURCE in [action.do for action in outcome.actions_done]
    assert not made.machines["a"].domains


@pytest.mark.parametrize("fate", [Fate(), Fate(post_copy=True)])
def test_what_moves_on_from_its_target_is_waited_for_as_long_as_it_takes(fate: Fate) -> None:
    """The target is drained as well: nothing is wrong, however long that takes."""
    there = {"a": 8192, "b": 8192, "c": 1024}
    made = fleet([("a", vm(1, "a", 4096))], there, link=50.0)
    assert run(made).phase is NodePhase.DRAINED
    policy = replace(POLICY, pending_timeout=10.0)
    onward = Move("u1", "b", "c", 1, MigrationSettings(), fate, held=False, ours=False)
    made.migrate(onward)
    made.advance(made.clock + 1.0)
    assert run(made, policy, name="again").phase is NodePhase.DRAINED
    assert list(made.machines["c"].domains) == ["u1"]


def test_what_a_killed_drain_moved_is_no_move_of_others_for_the_restore() -> None:
    """It arrived when nobody looked, and its definition stayed here: autostart goes with it."""
    made = two(vm(1, "a", autostart=True))
    made.fate = lambda _vm, _attempt: Fate(leftover=True)
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "drained", "killed", platform.now(), platform.own.boot_id)
    engine = Engine(platform, POLICY, record)
    while not made.moves:
        engine.step()
    made.advance(made.clock + 100.0)
    outcome = run(made, intent="active", name="back")
    assert (outcome.phase, ended(outcome)) == (NodePhase.ACTIVE, ("moved", ""))
    assert "u1" not in made.machines["a"].domains
    assert made.machines["b"].domains["u1"].autostart
