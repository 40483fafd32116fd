"""VMs that a migration of ours left paused are resumed; those of their owners never are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import ended, run, two
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, vm
from fleetsim.machines import Stage
from fleetsim.platform import ModelPlatform


def the(made):
    return made.machines["a"].domains["u1"]


def moving(made) -> None:
    """A drain that is killed while the memory is copied."""
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "drained", "first", platform.now(), platform.own.boot_id)
    engine = Engine(platform, POLICY, record)
    while "u1" not in made.moves or made.moves["u1"].stage is not Stage.PRECOPY:
        engine.step()
        platform.wait(0.1)


def suspended(made, deaf: bool = False):
    """The holder suspends the VM and is killed."""
    moving(made)
    move = made.moves["u1"]
    move.suspended, move.held, move.deaf = True, False, deaf
    the(made).state = State.PAUSED
    return move


def failed(made):
    made.fail(suspended(made), Finding(Reason.MigrationFailed))
    return made


def test_a_restore_while_it_moves_leaves_it_running() -> None:
    made = two(vm(1, "a"))
    suspended(made)
    assert run(made, POLICY, "active", "back").phase is NodePhase.ACTIVE
    assert the(made).state is State.RUNNING


def test_what_the_holder_could_not_resume_the_next_step_does() -> None:
    made = two(vm(1, "a"))
    suspended(made, deaf=True)
    outcome = run(made, POLICY, "active", "back")
    assert (outcome.phase, the(made).state) == (NodePhase.ACTIVE, State.RUNNING)
    assert [a.do for a in outcome.actions_done].count(Do.RESUME) == 1


@pytest.mark.parametrize("intent", ["drained", "active"])
def test_its_migration_failed_while_nobody_looked(intent: str) -> None:
    made = failed(two(vm(1, "a")))
    outcome = run(made, POLICY, intent, "next")
    assert outcome.phase is (NodePhase.DRAINED if intent == "drained" else NodePhase.ACTIVE)
    where = "b" if intent == "drained" else "a"
    assert made.machines[where].domains["u1"].state is State.RUNNING


@pytest.mark.parametrize("intent", ["drained", "active"])
def test_what_cannot_be_resumed_is_told_and_never_called_restored(intent: str) -> None:
    made = failed(two(vm(1, "a")))

    def refuse(action):
        if action.do is Do.RESUME:
            return Finding(Reason.StateNotLiveMigratable, "resume: the monitor is busy")
        return None

    outcome = run(made, POLICY, intent, "next", fails=refuse)
    assert (outcome.phase, ended(outcome)) == (NodePhase.BLOCKED, ("blocked", "StateNotLiveMigratable"))
    assert "busy" in outcome.record.vms["u1"].message
    assert run(made, POLICY, "active", "back").phase is NodePhase.ACTIVE
    assert the(made).state is State.RUNNING


def test_it_is_not_resumed_while_a_host_on_which_it_may_run_does_not_answer() -> None:
    made = failed(two(vm(1, "a")))
    made.machines["b"].reachable = False
    outcome = run(made, POLICY, "drained", "next")
    assert (outcome.phase, ended(outcome)[1]) == (NodePhase.BLOCKED, "PeerUnreachable")
    assert the(made).state is State.PAUSED
    made.machines["b"].reachable = True
    assert run(made, POLICY, "drained", "again").phase is NodePhase.DRAINED


@pytest.mark.parametrize("intent", ["drained", "active"])
def test_what_its_owner_has_paused_stays_so(intent: str) -> None:
    """Also after an attempt of ours whose end was read before."""
    made = two(vm(1, "a"))
    moving(made)
    made.fail(made.moves["u1"], Finding(Reason.MigrationFailed))
    platform = ModelPlatform(made, "a")
    record = begin(platform.load(), "a", "drained", "next", platform.now(), platform.own.boot_id)
    Engine(platform, POLICY, record).step()
    made.moves.pop("u1", None)
    the(made).state = State.PAUSED
    outcome = run(made, POLICY, intent, "last")
    assert Do.RESUME not in {a.do for a in outcome.actions_done}
    assert the(made).state is State.PAUSED


def test_a_refused_request_paused_nothing() -> None:
    """It never reached the holder; then the owner paused the VM."""
    made = two(vm(1, "a"))
    platform = ModelPlatform(made, "a")

    def refuse(action):
        if action.do is Do.MIGRATE:
            return Finding(Reason.MigrationFailed, "the migration agent does not start")
        return None

    platform.fails = refuse
    record = begin(None, "a", "drained", "first", platform.now(), platform.own.boot_id)
    engine = Engine(platform, POLICY, record)
    while not engine.done or engine.done[-1].do is not Do.MIGRATE:
        engine.step()
    the(made).state = State.PAUSED
    outcome = run(made, POLICY, "drained", "next")
    assert ended(outcome) == ("blocked", "StateNotLiveMigratable")
    assert the(made).state is State.PAUSED


def test_one_that_is_paused_where_it_arrived_is_told_and_left() -> None:
    """Its owner suspended it on its way."""
    made = two(vm(1, "a"))
    assert run(made, POLICY).phase is NodePhase.DRAINED
    made.machines["b"].domains["u1"].state = State.PAUSED
    outcome = run(made, POLICY, name="next")
    assert (outcome.phase, ended(outcome)) == (NodePhase.DRAINED, ("moved", "ArrivedPaused"))
    assert made.machines["b"].domains["u1"].state is State.PAUSED
    back = run(made, POLICY, "active", "back")
    assert back.phase is NodePhase.ACTIVE
    assert made.machines["b"].domains["u1"].state is State.PAUSED


def test_what_paused_it_is_said() -> None:
    made = two(vm(1, "a"))
    the(made).state = State.PAUSED
    the(made).spec = replace(the(made).spec, paused_by="an I/O error of a disk (vda: no space)")
    outcome = run(made, POLICY)
    assert ended(outcome) == ("blocked", "StateNotLiveMigratable")
    assert outcome.record.vms["u1"].message == "vm1 is paused on a: an I/O error of a disk (vda: no space)."
