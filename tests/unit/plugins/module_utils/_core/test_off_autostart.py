"""What is off on a drained node is not started by its next boot, and gets its autostart back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.certificate import problems
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import (
    ALLOWED,
    ended,
    run,
    two,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, vm
from fleetsim.platform import ModelPlatform

MOVES = replace(POLICY, move_inactive=True)


def off(**more):
    return vm(1, "a", state=State.SHUTOFF, autostart=True, **more)


def the(made):
    return made.machines["a"].domains["u1"]


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("policy", [POLICY, MOVES], ids=["stays", "has no target"])
def test_autostart_of_what_is_off_is_suspended_and_given_back(saved: bool, policy) -> None:
    made = two(off(managed_save=saved, memory=9999), vm(2, "a"))
    outcome = run(made, policy)
    assert outcome.phase is NodePhase.DRAINED
    assert the(made).autostart is False
    if policy is POLICY:
        assert ended(outcome) == ("off", "AutostartSuspended")
    back = run(made, policy, "active", "back")
    assert (back.phase, ended(back)) == (NodePhase.ACTIVE, ("off", ""))
    assert (the(made).state, the(made).autostart) == (State.SHUTOFF, True)


def test_what_was_off_without_autostart_stays_so() -> None:
    made = two(vm(1, "a", state=State.SHUTOFF))
    assert ended(run(made)) == ("off", "")
    outcome = run(made, intent="active", name="back")
    assert not {action.do for action in outcome.actions_done} & {Do.AUTOSTART_ON, Do.AUTOSTART_OFF}


def test_what_its_owner_switched_off_meanwhile_has_its_autostart_suspended_too() -> None:
    made = two(vm(1, "a", autostart=True, declared_strategy="External"))
    made.at(made.clock + 5, lambda: made.power_off("a", "u1"))
    outcome = run(made)
    assert outcome.phase is NodePhase.DRAINED
    assert ended(outcome) == ("gone", "StoppedByItself")
    assert the(made).autostart is False
    assert run(made, intent="active", name="back").phase is NodePhase.ACTIVE
    assert the(made).autostart is True


def test_switched_on_again_after_the_drain_it_is_no_drained_node() -> None:
    """The certificate that is taken right before the power-off sees it, and it is suspended."""
    made = two(off())
    assert run(made).phase is NodePhase.DRAINED
    the(made).autostart = True
    outcome = run(made, name="again")
    assert outcome.phase is NodePhase.DRAINED
    assert the(made).autostart is False
    assert run(made, intent="active", name="back").phase is NodePhase.ACTIVE
    assert the(made).autostart is True


def test_with_it_there_is_no_certificate() -> None:
    made = two(off())
    outcome = run(made)
    assert outcome.certificate is not None
    the(made).autostart = True
    seen = ModelPlatform(made, "a").observe(outcome.record)
    assert problems(seen, outcome.record) == ["vm1 is off, and autostarts with a"]


def test_where_it_cannot_be_suspended_the_node_is_not_drained() -> None:
    made = two(off())
    denied = Finding(Reason.StopFailed, "not allowed")
    outcome = run(made, fails=lambda action: denied if action.do is Do.AUTOSTART_OFF else None)
    assert outcome.phase is NodePhase.BLOCKED
    assert ended(outcome) == ("blocked", "StopFailed")


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_run_that_was_killed_at_it_loses_nothing(at: str) -> None:
    made = two(off())

    def killed(action):
        if action.do is Do.AUTOSTART_OFF:
            the(made).autostart = at == "before"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(made, fails=killed)
    assert run(made, intent="active", name="back").phase is NodePhase.ACTIVE
    assert the(made).autostart is True


def test_restored_in_the_middle_of_its_move_it_has_its_autostart_where_it_was_moved() -> None:
    made = two(off())

    def killed(action):
        if action.do is Do.FINISH:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(made, MOVES, fails=killed)
    assert run(made, MOVES, "active", "back").phase is NodePhase.ACTIVE
    there = made.machines["b"].domains["u1"]
    assert (there.state, there.autostart) == (State.SHUTOFF, True)
    assert not any(machine.claims or machine.slots for machine in made.machines.values())


def test_started_by_its_owner_it_gets_its_autostart_back() -> None:
    made = two(off())
    assert run(made).phase is NodePhase.DRAINED
    the(made).state = State.RUNNING
    assert run(made, intent="active", name="back").phase is NodePhase.ACTIVE
    assert (the(made).state, the(made).autostart) == (State.RUNNING, True)


@pytest.mark.parametrize("stopped", [False, True], ids=["was off", "stopped by the drain"])
def test_started_by_its_owner_on_another_node_it_starts_with_that_one(stopped: bool) -> None:
    """And not with its old one too: it would run twice."""
    kind = {"declared_strategy": "None"} if stopped else {"state": State.SHUTOFF}
    made = two(vm(1, "a", autostart=True, **kind))
    assert run(made, ALLOWED).phase is NodePhase.DRAINED
    made.machines["b"].domains["u1"] = replace(the(made), state=State.RUNNING, off_at=None)
    outcome = run(made, ALLOWED, "active", "back")
    assert outcome.phase is NodePhase.ACTIVE
    assert made.machines["b"].domains["u1"].autostart is True
    assert the(made).autostart is False


def test_of_a_definition_of_what_runs_elsewhere_it_is_suspended_too() -> None:
    """With the next boot of this node it would run twice."""
    made = two(off())
    made.machines["b"].domains["u1"] = vm(1, "b")
    outcome = run(made)
    assert outcome.phase is NodePhase.DRAINED
    assert ended(outcome) == ("off", "AutostartSuspended")
    assert the(made).autostart is False


def test_the_migration_of_one_vm_leaves_the_others_alone() -> None:
    made = two(off(), vm(2, "a"))
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "migrated", "one", platform.now(), platform.own.boot_id, only="u2")
    outcome = Engine(platform, POLICY, record).run(platform.now() + 2000.0)
    assert outcome.phase is NodePhase.MIGRATED
    assert the(made).autostart is True
