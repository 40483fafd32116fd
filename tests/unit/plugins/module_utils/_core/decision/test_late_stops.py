"""Guests that act on a shutdown request after the time that they were given for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.restore import leaves_nothing
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import EvictionStrategy, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Rule
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import (
    ALLOWED,
    FIXED,
    ended,
    on,
    run,
    two,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, vm
from fleetsim.platform import ModelPlatform

MOVE = replace(POLICY, rules=(Rule("move", lambda _document: True, strategy=EvictionStrategy.LIVE_MIGRATE),))
TIMED_OUT = ("blocked", "ShutdownTimedOut")


def slow(takes: float | None, **more):
    return two(vm(1, "a", declared_strategy="None", shutdown_takes=takes, **more))


def state(made) -> State:
    return made.machines["a"].domains["u1"].state


def a_slice(made, policy, seconds: float, name: str = "first") -> None:
    """A drain that is killed after so many seconds."""
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "drained", name, platform.now(), platform.own.boot_id)
    Engine(platform, policy, record).run(platform.now() + seconds)


@pytest.mark.parametrize("persistent", [True, False])
def test_a_guest_that_goes_off_after_its_timeout_was_stopped_by_us(persistent: bool) -> None:
    made = slow(25.0, persistent=persistent, autostart=persistent)
    assert ended(run(made, ALLOWED, name="first")) == TIMED_OUT
    made.advance(made.clock + 60.0)
    outcome = run(made, ALLOWED, name="second")
    assert (outcome.phase, ended(outcome)) == (NodePhase.DRAINED, ("stopped", ""))
    outcome = run(made, ALLOWED, "active", "back")
    assert (outcome.phase, state(made)) == (NodePhase.ACTIVE, State.RUNNING)
    assert made.machines["a"].domains["u1"].autostart is persistent


def test_it_is_started_again_by_a_restore_that_comes_after_it_went_off() -> None:
    made = slow(25.0)
    run(made, ALLOWED, name="first")
    made.advance(made.clock + 60.0)
    assert run(made, ALLOWED, "active", "back").phase is NodePhase.ACTIVE
    assert state(made) is State.RUNNING


@pytest.mark.parametrize("autostart", [True, False])
def test_also_where_the_host_has_rebooted_since(autostart: bool) -> None:
    """With autostart it runs in the new boot, and acts on nothing that was asked before."""
    made = slow(25.0, autostart=autostart)
    assert ended(run(made, ALLOWED, name="first")) == TIMED_OUT
    made.advance(made.clock + 60.0)
    made.machines["a"].boot += 1
    if autostart:
        made.machines["a"].domains["u1"].state = State.RUNNING
    before = made.clock
    assert run(made, ALLOWED, "active", "back").phase is NodePhase.ACTIVE
    assert state(made) is State.RUNNING and made.clock - before < 5.0


@pytest.mark.parametrize(("boots", "why"), [(1, "VMCrashed"), (0, "StoppedByItself")])
def test_one_that_was_not_asked_and_is_off_is_said_and_not_started(boots: int, why: str) -> None:
    made = slow(25.0)
    run(made, name="first")  # it may not be stopped: the drain is blocked, and somebody reboots the host all the same
    made.power_off("a", "u1")
    made.machines["a"].boot += boots
    outcome = run(made, ALLOWED, "active", "back")
    assert (outcome.phase, ended(outcome), state(made)) == (NodePhase.ACTIVE, ("gone", why), State.SHUTOFF)


def test_a_run_that_does_not_want_the_stop_remembers_that_it_was_asked() -> None:
    made = slow(25.0)
    run(made, ALLOWED, name="first")
    assert ended(run(made, name="second")) == ("blocked", "StopNotAllowed")
    made.advance(made.clock + 60.0)
    assert ended(run(made, name="third")) == ("stopped", "")
    run(made, ALLOWED, "active", "back")
    assert state(made) is State.RUNNING


def test_restore_waits_as_long_as_the_drain_had_given_the_guest() -> None:
    """A restore has its own shutdown_timeout, which may be shorter."""
    made = slow(40.0)
    a_slice(made, replace(ALLOWED, shutdown_timeout=60.0), 3.0)
    outcome = run(made, ALLOWED, "active", "back")
    assert (outcome.phase, state(made)) == (NodePhase.ACTIVE, State.RUNNING)
    made.advance(made.clock + 100.0)
    assert state(made) is State.RUNNING


def test_restore_does_not_forget_a_guest_that_may_still_go_off() -> None:
    made = slow(90.0)
    run(made, ALLOWED, name="first")
    outcome = run(made, ALLOWED, "active", "back")
    assert (outcome.phase, ended(outcome)) == (NodePhase.BLOCKED, TIMED_OUT)
    assert "may still stop" in outcome.record.vms["u1"].message
    assert not made.machines["a"].cordons
    made.advance(made.clock + 100.0)
    assert state(made) is State.SHUTOFF
    assert run(made, ALLOWED, "active", "again").phase is NodePhase.ACTIVE
    assert state(made) is State.RUNNING


def test_a_deaf_guest_blocks_one_restore_and_not_the_next() -> None:
    made = slow(None)
    run(made, ALLOWED, name="first")
    assert run(made, ALLOWED, "active", "back").phase is NodePhase.BLOCKED
    before = made.clock
    assert run(made, ALLOWED, "active", "again").phase is NodePhase.ACTIVE
    assert made.clock - before < 5.0


def noted(made, name: str = "first") -> None:
    """A drain that is killed between its note and its request."""
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "drained", name, platform.now(), platform.own.boot_id)
    decision = decide(platform.observe(record), {"a": record}, ALLOWED)
    assert Do.SHUTDOWN in {action.do for action in decision.actions}
    platform.save(decision.records["a"])


@pytest.mark.parametrize(("shown", "ending"), [(False, ("restored", "")), (None, TIMED_OUT)])
def test_one_that_was_not_asked_after_all_is_given_back_where_that_is_seen(shown, ending) -> None:
    """KubeVirt shows a stop at the VMI and its pod. libvirt shows nothing of a request to the guest."""
    made = slow(25.0, stopping=shown)
    noted(made)
    before = made.clock
    outcome = run(made, replace(ALLOWED, shutdown_timeout=150.0), "active", "back")
    assert ended(outcome) == ending
    assert state(made) is State.RUNNING and (made.clock - before < 90.0) is (shown is False)


def test_one_that_is_seen_to_stop_is_waited_for_and_started_again() -> None:
    made = slow(80.0, stopping=False)
    a_slice(made, replace(ALLOWED, shutdown_timeout=120.0), 3.0)
    assert run(made, ALLOWED, "active", "back").phase is NodePhase.ACTIVE
    assert state(made) is State.RUNNING and made.machines["a"].domains["u1"].asked_at is None


def test_a_request_that_is_on_its_way_when_its_run_is_killed_is_waited_for() -> None:
    made, ask = slow(5.0, stopping=False), Action(Do.SHUTDOWN, "a", "u1")
    noted(made)
    platform = ModelPlatform(made, "a")
    made.at(made.clock + 20.0, lambda: platform.apply([ask], platform.load()))
    outcome = run(made, replace(ALLOWED, shutdown_timeout=45.0), "active", "back")
    assert (outcome.phase, ended(outcome)) == (NodePhase.ACTIVE, ("restored", ""))
    made.advance(made.clock + 100.0)
    assert state(made) is State.RUNNING and made.machines["a"].domains["u1"].asked_at is None


def test_a_restore_that_was_killed_before_its_word_has_said_nothing() -> None:
    """It had decided that it is blocked, and nobody was told that the guest may still go off."""
    made = slow(90.0)
    run(made, ALLOWED, name="first")
    run(made, ALLOWED, "active", "back")
    platform = ModelPlatform(made, "a")
    record = platform.load()
    assert record.blocked
    record.blocked = ""
    platform.save(record)
    assert ended(run(made, ALLOWED, "active", "again")) == TIMED_OUT
    assert run(made, ALLOWED, "active", "once more").phase is NodePhase.ACTIVE


@pytest.mark.parametrize("persistent", [True, False])
def test_one_vm_that_goes_off_late_is_not_forgotten(persistent: bool) -> None:
    """Its cold move gave up on the guest. The same command finds it off: it says so, and a restore starts it."""
    made = two(vm(1, "a", **FIXED, shutdown_takes=25.0, persistent=persistent, autostart=persistent))
    assert ended(one(made, "migrated", "first")) == TIMED_OUT
    made.advance(made.clock + 60.0)
    for name in ("second", "third"):
        outcome = one(made, "migrated", name)
        assert (outcome.phase, ended(outcome)) == (NodePhase.BLOCKED, ("stopped", "StateNotLiveMigratable"))
        assert not leaves_nothing(outcome.record, outcome.observation)
    assert one(made, "active", "back").phase is NodePhase.ACTIVE
    assert state(made) is State.RUNNING
    assert made.machines["a"].domains["u1"].autostart is persistent


def one(made, intent: str, name: str):
    """The migration of one VM, or its abort."""
    platform = ModelPlatform(made, "a")
    record = begin(platform.load(), "a", intent, name, platform.now(), platform.own.boot_id, only="u1")
    return Engine(platform, on("cold_migrate"), record).run(platform.now() + 2000.0)


def test_a_guest_whose_request_was_refused_is_not_waited_for() -> None:
    def refuse(action):
        return Finding(Reason.StopFailed, "no") if action.do is Do.SHUTDOWN else None

    made = slow(5.0)
    run(made, ALLOWED, name="first", fails=refuse)
    before = made.clock
    assert run(made, ALLOWED, "active", "back").phase is NodePhase.ACTIVE
    assert made.clock - before < 5.0


def test_who_starts_it_again_ends_the_request() -> None:
    made = slow(25.0)
    run(made, ALLOWED, name="first")
    made.advance(made.clock + 60.0)
    assert ended(run(made, ALLOWED, name="second")) == ("stopped", "")
    made.machines["a"].domains["u1"].state = State.RUNNING
    assert ended(run(made, name="third")) == ("blocked", "StopNotAllowed")
    made.power_off("a", "u1")
    assert ended(run(made, name="fourth")) == ("gone", "StoppedByItself")


def moved_late():
    """Asked to stop by one run, moved by the next, and then it acts on the request."""
    made = slow(25.0, autostart=True)
    run(made, ALLOWED, name="first")
    assert ended(run(made, MOVE, name="second"))[0] == "moved"
    made.power_off("b", "u1")
    return made


def test_a_guest_that_moves_with_a_request_and_goes_off_there_is_told_once() -> None:
    made = moved_late()
    outcome = run(made, MOVE, name="third")
    assert (outcome.phase, ended(outcome)) == (NodePhase.BLOCKED, TIMED_OUT)
    assert "shut down there" in outcome.record.vms["u1"].message
    outcome = run(made, MOVE, name="fourth")
    assert (outcome.phase, ended(outcome)[0]) == (NodePhase.DRAINED, "gone")


def test_a_restore_starts_it_where_it_went_off() -> None:
    made = moved_late()
    assert run(made, MOVE, "active", "back").phase is NodePhase.ACTIVE
    domain = made.machines["b"].domains["u1"]
    assert (domain.state, domain.autostart) == (State.RUNNING, True)
    assert not made.machines["b"].claims
