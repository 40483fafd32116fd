"""What its target cannot start goes back to where it ran, by itself, before the drain gives up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Reservation, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import (
    FIXED,
    ended,
    on,
    run,
    two,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, fleet, vm

COLD = on("cold_migrate")
WORDS = "Network not found: no network with matching name 'lab'"


def refuse(action):
    """Host b starts nothing."""
    if action.do is Do.COLD_START:
        return Finding(Reason.CannotStart, f"cold_start: {WORDS}")
    return None


def here(made):
    return made.machines["a"].domains["u1"]


@pytest.mark.parametrize("crashed", [False, True], ids=["off there", "failed there"])
@pytest.mark.parametrize("persistent", [True, False])
def test_it_runs_again_where_it_ran(persistent: bool, crashed: bool) -> None:
    made = two(vm(1, "a", persistent=persistent, autostart=persistent, **FIXED))

    def fails(action):
        there = made.machines["b"].domains.get("u1")
        if crashed and there is not None:  # libvirt's state of what it could not start
            there.spec = replace(there.spec, crashed=True)
        return refuse(action)

    outcome = run(made, COLD, fails=fails)
    assert outcome.phase is NodePhase.BLOCKED
    assert ended(outcome) == ("blocked", "CannotStart")
    entry = outcome.record.vms["u1"]
    assert WORDS in entry.message
    assert "b could not start it" in entry.message
    assert "runs on a again" in entry.message
    assert (here(made).state, here(made).autostart) == (State.RUNNING, persistent)
    assert not made.machines["b"].domains
    assert not made.machines["b"].claims
    # Asked once in this run, and no second time.
    assert [action.do for action in outcome.actions_done].count(Do.COLD_DEFINE) <= 1
    back = run(made, COLD, "active", "back")
    assert (back.phase, ended(back)[0]) == (NodePhase.ACTIVE, "restored")


@pytest.mark.parametrize(("about", "policy"), [(FIXED, COLD), ({}, POLICY)], ids=["cold", "live"])
@pytest.mark.parametrize("drained_again", [False, True])
def test_what_its_owner_stops_at_its_target_a_restore_does_not_start(about, policy, drained_again: bool) -> None:
    made = two(vm(1, "a", **about))
    assert run(made, policy).phase is NodePhase.DRAINED
    made.power_off("b", "u1")
    if drained_again:
        assert ended(run(made, policy, name="again")) == ("gone", "StoppedByItself")
    back = run(made, policy, "active", "back")
    assert (back.phase, ended(back)) == (NodePhase.ACTIVE, ("gone", "StoppedByItself"))
    assert made.machines["b"].domains["u1"].state is State.SHUTOFF


def test_one_that_was_refused_and_then_waits_for_a_place_is_moved_when_there_is_one() -> None:
    """Its target is cordoned once it is off, and others have all places of the only other one for longer than a
    refusal may last."""
    made = fleet([("a", vm(1, "a", **FIXED))], {"a": 8192, "b": 8192, "c": 8192})
    places = made.machines["c"].claims
    for number in range(POLICY.limits.inbound):
        places[f"x{number}", "z"] = Reservation(f"x{number}", "c", "z", 512)
    made.at(made.clock + 1, lambda: made.machines["b"].cordons.add("a person"))
    made.at(made.clock + POLICY.pending_timeout + 20, places.clear)
    assert ended(run(made, COLD)) == ("cold_moved", "")
    assert made.machines["c"].domains["u1"].state is State.RUNNING


@pytest.mark.parametrize("drained_again", [False, True])
def test_a_transient_vm_that_ends_where_it_had_gone_is_started_nowhere(drained_again: bool) -> None:
    made = two(vm(1, "a", persistent=False, **FIXED))
    assert run(made, COLD).phase is NodePhase.DRAINED
    made.power_off("b", "u1")
    if drained_again:
        assert ended(run(made, COLD, name="again")) == ("gone", "VMVanished")
    assert run(made, COLD, "active", "back").phase is NodePhase.ACTIVE
    assert not any(machine.domains for machine in made.machines.values())


@pytest.mark.parametrize("act", [Do.FINISH, Do.RELEASE])
@pytest.mark.parametrize("intent", ["drained", "active"])
def test_what_is_stopped_as_its_move_is_finished_is_not_started(act: Do, intent: str) -> None:
    """It was seen to run there. Its owner stops it before that is looked at again."""
    made = two(vm(1, "a", autostart=True, **FIXED))

    def stopped_first(action):
        if action.do is act and made.machines["b"].domains["u1"].active:
            made.power_off("b", "u1")
            raise KeyboardInterrupt
        return

    with pytest.raises(KeyboardInterrupt):
        run(made, COLD, fails=stopped_first)
    assert ended(run(made, COLD, intent, name="next")) == ("gone", "StoppedByItself")
    assert made.machines["b"].domains["u1"].state is State.SHUTOFF
    assert made.machines["b"].domains["u1"].autostart
    assert not made.machines["b"].claims


def test_another_run_may_try_again() -> None:
    made = two(vm(1, "a", **FIXED))
    assert ended(run(made, COLD, fails=refuse)) == ("blocked", "CannotStart")
    here(made).off_at = None
    assert ended(run(made, COLD, name="again")) == ("cold_moved", "")


@pytest.mark.parametrize("killed_at", [Do.COLD_RETURN, Do.COLD_WITHDRAW, Do.START])
@pytest.mark.parametrize("intent", ["drained", "active"])
def test_killed_on_the_way_back_it_is_carried_on(killed_at: Do, intent: str) -> None:
    made = two(vm(1, "a", **FIXED))

    def fails(action):
        if action.do is killed_at:
            raise KeyboardInterrupt
        return refuse(action)

    with pytest.raises(KeyboardInterrupt):
        run(made, COLD, fails=fails)
    outcome = run(made, COLD, intent, "again", fails=refuse)
    assert outcome.phase is (NodePhase.ACTIVE if intent == "active" else NodePhase.BLOCKED)
    assert here(made).state is State.RUNNING
    assert not made.machines["b"].domains


def test_a_restore_takes_it_back_too() -> None:
    made = two(vm(1, "a", **FIXED))

    def fails(action):
        if action.do is Do.COLD_START:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(made, COLD, fails=fails)
    outcome = run(made, COLD, "active", "back", fails=refuse)
    assert outcome.phase is NodePhase.ACTIVE
    assert here(made).state is State.RUNNING
    assert not made.machines["b"].domains


@pytest.mark.parametrize("target", [False, True], ids=["anywhere", "on its target"])
def test_what_turns_out_once_it_is_off_is_heeded(target: bool) -> None:
    """Its definition was changed while its guest shut down."""
    made = two(vm(1, "a", **FIXED))
    why = (Finding(Reason.DisksNotLiveMigratable, "Disk vdb is local."),)

    def changes(action):
        if action.do is Do.SHUTDOWN:
            more = {"cold_refused_by": {"b": why}} if target else {"cold_findings": why}
            here(made).spec = replace(here(made).spec, **more)

    outcome = run(made, COLD, fails=changes)
    assert ended(outcome) == ("blocked", "DisksNotLiveMigratable")
    assert here(made).state is State.RUNNING
    assert "u1" not in made.machines["b"].domains


def test_what_starts_nowhere_is_said_with_both_sentences() -> None:
    made = two(vm(1, "a", **FIXED))

    def fails(action):
        if action.do is Do.START:
            return Finding(Reason.CannotStart, "start: no memory")
        return refuse(action)

    outcome = run(made, COLD, fails=fails)
    assert ended(outcome) == ("blocked", "CannotStart")
    assert WORDS in outcome.record.vms["u1"].message
    assert "no memory" in outcome.record.vms["u1"].message
