"""When a guest is asked to stop, and when it is forced off: found by `make perturb`, each as a small story."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
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
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import vm
from fleetsim.platform import ModelPlatform

FORCE = replace(ALLOWED, force_stop=True)


def deaf(**more):
    made = two(vm(1, "a", declared_strategy="None", **more))
    made.machines["a"].domains["u1"].shutdown_takes = None
    return made


class Killed(Exception):
    """Of the run, before an act."""


def killed_before(made, act: Do, policy, intent: str = "drained") -> None:
    platform = ModelPlatform(made, "a")

    def hook(what: str) -> None:
        made.advance(made.clock + 0.005)
        if what.startswith(f"write {act.value} "):
            raise Killed

    platform.hook = hook
    record = begin(platform.load(), "a", intent, "killed", platform.now(), platform.own.boot_id)
    with pytest.raises(Killed):
        Engine(platform, policy, record).run(platform.now() + 2000.0)


def test_a_run_that_was_killed_before_it_forced_a_guest_off_is_carried_on() -> None:
    made = deaf()
    killed_before(made, Do.FORCE_OFF, FORCE)
    outcome = run(made, FORCE, name="again")
    assert (outcome.phase, ended(outcome)) == (NodePhase.DRAINED, ("stopped", ""))


def test_what_a_restore_has_started_was_not_started_by_others() -> None:
    """The restore is killed when it has started the VM, and the host is drained again, and restored."""
    made = two(vm(1, "a", declared_strategy="None", autostart=True))
    run(made, ALLOWED, name="first")
    killed_before(made, Do.AUTOSTART_ON, ALLOWED, "active")
    assert made.machines["a"].domains["u1"].state is State.RUNNING
    outcome = run(made, ALLOWED, name="again")
    assert (outcome.phase, ended(outcome)) == (NodePhase.DRAINED, ("stopped", ""))
    assert run(made, ALLOWED, "active", "back").phase is NodePhase.ACTIVE
    assert made.machines["a"].domains["u1"].state is State.RUNNING


def test_a_guest_is_not_forced_off_for_a_request_that_a_killed_run_did_not_make() -> None:
    """The next run's own request waits in the queue for longer than a guest has to stop."""
    made = deaf()
    domain = made.machines["a"].domains["u1"]
    domain.ask_takes = FORCE.shutdown_timeout + 10.0
    killed_before(made, Do.SHUTDOWN, FORCE)
    had: list[float] = []

    def fails(action):
        if action.do is Do.FORCE_OFF:
            had.append(made.clock - domain.asked_at)

    run(made, FORCE, name="again", fails=fails)
    assert len(had) == 1
    assert had[0] >= FORCE.shutdown_timeout


@pytest.mark.parametrize("times", [1, 99])
def test_force_that_is_refused_is_tried_again_and_then_told(times: int) -> None:
    made, tried = deaf(), []

    def fails(action):
        if action.do is Do.FORCE_OFF:
            tried.append(action)
            return Finding(Reason.StopFailed, "busy") if len(tried) <= times else None
        return None

    outcome = run(made, FORCE, fails=fails)
    assert ended(outcome)[0] == ("stopped" if times == 1 else "blocked")
    assert len(tried) == (2 if times == 1 else FORCE.max_attempts)


def test_a_guest_that_is_to_move_cold_is_not_asked_again_without_a_reservation() -> None:
    """No request reached it, so the reservation was given back; the next run asks again, and reserves again."""
    made = two(vm(1, "a", **FIXED))
    policy = on("cold_migrate")

    def refuse(action):
        return Finding(Reason.StopFailed, "no") if action.do is Do.SHUTDOWN else None

    assert run(made, policy, fails=refuse).phase is NodePhase.BLOCKED
    assert not made.machines["b"].claims
    stood: list[bool] = []

    def fails(action):
        if action.do is Do.SHUTDOWN:
            stood.append(("u1", "a") in made.machines["b"].claims)

    assert ended(run(made, policy, name="again", fails=fails)) == ("cold_moved", "")
    assert stood == [True]


def test_a_guest_that_goes_off_late_moves_though_its_reservation_was_refused_meanwhile() -> None:
    """It was asked, its reservation was taken for left, and its target is cordoned for a while."""
    made = two(vm(1, "a", **FIXED))
    made.machines["a"].domains["u1"].shutdown_takes = 14.0
    b = made.machines["b"]

    def lose() -> None:
        b.claims.clear()
        b.cordons.add("a person")

    made.at(made.clock + 3.0, lose)
    made.at(made.clock + 12.0, b.cordons.clear)
    outcome = run(made, on("cold_migrate"))
    assert ended(outcome) == ("cold_moved", "")
    assert b.domains["u1"].state is State.RUNNING
