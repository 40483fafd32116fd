"""Saves that take longer than a slice, a run, or the time that a guest gets to stop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import (
    FIXED,
    ended,
    on,
    run,
    two,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, vm
from fleetsim.platform import ModelPlatform

SAVE = on("save")


def saved_slowly(takes: float = 60.0, **more):
    return two(vm(1, "a", autostart=True, save_takes=takes, **FIXED, **more))


def the(made):
    return made.machines["a"].domains["u1"]


def killed_after(made, seconds: float) -> None:
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "drained", "first", platform.now(), platform.own.boot_id)
    Engine(platform, SAVE, record).run(platform.now() + seconds)
    assert the(made).save_ends is not None


def test_a_save_may_take_longer_than_a_guest_gets_to_stop() -> None:
    made = saved_slowly()
    outcome = run(made, SAVE)
    assert (outcome.phase, ended(outcome)[0]) == (NodePhase.DRAINED, "saved")
    assert [a.do for a in outcome.actions_done].count(Do.SAVE) == 1


@pytest.mark.parametrize("policy", [SAVE, POLICY])
def test_a_new_run_waits_for_the_save_of_one_that_was_killed(policy) -> None:
    """Also where it would not ask for it itself: it cannot be taken back, and it is progress."""
    made = saved_slowly()
    killed_after(made, 5.0)
    made.advance(made.clock + 20.0)
    outcome = run(made, policy, name="second")
    assert (outcome.phase, ended(outcome)[0]) == (NodePhase.DRAINED, "saved")
    assert {a.do for a in outcome.actions_done}.isdisjoint({Do.SAVE, Do.AUTOSTART_ON})
    assert the(made).autostart is False


def test_a_restore_says_that_it_waits_for_the_save_and_starts_the_vm() -> None:
    made = saved_slowly()
    killed_after(made, 5.0)
    platform = ModelPlatform(made, "a")
    record = begin(platform.load(), "a", "active", "back", platform.now(), platform.own.boot_id)
    outcome = Engine(platform, SAVE, record).run(platform.now() + 5.0)
    assert outcome.phase is NodePhase.RESTORING
    assert "is being saved" in outcome.record.vms["u1"].message
    assert run(made, SAVE, "active", "back").phase is NodePhase.ACTIVE
    assert (the(made).state, the(made).managed_save) == (State.RUNNING, False)
    assert the(made).autostart is True


def queued():
    """Ordered, the drain killed; it waits for others to be saved."""
    made = saved_slowly(save_waits=600.0)
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "drained", "first", platform.now(), platform.own.boot_id)
    Engine(platform, SAVE, record).run(platform.now() + 100.0)
    domain = the(made)
    assert (domain.state, domain.save_ends) == (State.RUNNING, None)
    assert domain.save_begins is not None
    return made


def test_a_save_that_waits_its_turn_is_asked_for_once_and_not_timed() -> None:
    made = queued()
    outcome = run(made, replace(SAVE, drain_timeout=3000.0), name="second")
    assert (outcome.phase, ended(outcome)[0]) == (NodePhase.DRAINED, "saved")
    assert {a.do for a in outcome.actions_done}.isdisjoint({Do.SAVE, Do.UNSAVE})


def test_a_restore_withdraws_a_save_that_has_not_begun() -> None:
    made = queued()
    outcome = run(made, SAVE, "active", "back")
    assert (outcome.phase, ended(outcome)) == (NodePhase.ACTIVE, ("restored", ""))
    made.advance(made.clock + 2000.0)
    assert (the(made).state, the(made).managed_save) == (State.RUNNING, False)
    assert the(made).autostart is True


def test_a_run_that_may_not_stop_it_withdraws_a_save_that_has_not_begun() -> None:
    made = queued()
    assert ended(run(made, POLICY, name="again")) == ("blocked", "HostDeviceNotLiveMigratable")
    made.advance(made.clock + 2000.0)
    assert (the(made).state, the(made).autostart) == (State.RUNNING, True)


def test_a_save_that_begins_as_it_is_withdrawn_is_waited_for() -> None:
    made = queued()

    def too_late(action):
        if action.do is Do.UNSAVE:
            made.advance(made.clock + 1000.0)

    outcome = run(made, replace(POLICY, drain_timeout=9000.0), name="again", fails=too_late)
    assert (outcome.phase, ended(outcome)[0]) == (NodePhase.DRAINED, "saved")
    assert the(made).autostart is False


@pytest.mark.parametrize("takes", [3.0, 60.0])
def test_a_save_that_fails_is_told_in_its_own_words(takes: float) -> None:
    made = saved_slowly(takes, save_fails=True)
    outcome = run(made, SAVE)
    assert (outcome.phase, ended(outcome)) == (NodePhase.BLOCKED, ("blocked", "StopFailed"))
    assert "the disk is full" in outcome.record.vms["u1"].message
    assert (the(made).state, the(made).autostart) == (State.RUNNING, True)


def test_a_save_of_another_run_that_fails_is_not_asked_for_by_one_that_may_not_stop_it() -> None:
    made = saved_slowly(save_fails=True)
    killed_after(made, 5.0)
    outcome = run(made, replace(SAVE, allow_stop=False, force_stop=True), name="second")
    assert (outcome.phase, ended(outcome)) == (NodePhase.BLOCKED, ("blocked", "StopNotAllowed"))
    assert {a.do for a in outcome.actions_done}.isdisjoint({Do.SAVE, Do.FORCE_OFF})
    assert (the(made).state, the(made).autostart) == (State.RUNNING, True)


def test_the_deadline_of_the_node_ends_the_wait_and_the_next_run_takes_it_up() -> None:
    made = saved_slowly(100.0)
    outcome = run(made, replace(SAVE, drain_timeout=30.0))
    assert ended(outcome) == ("blocked", "DeadlineExceeded")
    assert "still being saved" in outcome.record.vms["u1"].message
    outcome = run(made, SAVE, name="second")
    assert (outcome.phase, ended(outcome)[0]) == (NodePhase.DRAINED, "saved")


def test_two_saves_go_on_at_the_same_time() -> None:
    made = two(vm(1, "a", save_takes=60.0, **FIXED), vm(2, "a", save_takes=60.0, **FIXED))
    before = made.clock
    assert run(made, SAVE).phase is NodePhase.DRAINED
    assert made.clock - before < 70.0
