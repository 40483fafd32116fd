"""A guest that something starts again after we stopped it is asked once in a run, and no more."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import (
    FIXED,
    ended,
    on,
    run,
    two,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import vm


def start_again(made, seen_off: bool) -> None:
    """As a cluster manager does it, at once or a moment later."""
    domain = made.machines["a"].domains["u1"]

    def starts() -> None:
        domain.state, domain.instance = State.RUNNING, domain.instance + "+"
        domain.off_at = domain.asked_at = None
        domain.shutdown_takes = 3.0 if seen_off else None
        made.at(made.clock + (9.0 if seen_off else 3.0), starts)

    made.at(made.clock + (9.0 if seen_off else 3.0), starts)


@pytest.mark.parametrize("seen_off", [True, False], ids=["seen off", "never seen off"])
@pytest.mark.parametrize("way", ["shutdown", "cold_migrate"])
def test_it_is_not_asked_again_in_the_same_run(way: str, seen_off: bool) -> None:
    made = two(vm(1, "a", autostart=True, shutdown_takes=5.0, **FIXED), vm(2, "a"))
    # So that the run goes on while it is off.
    made.machines["a"].domains["u2"].spec = vm(2, "a", declared_strategy="External").spec
    start_again(made, seen_off)
    outcome = run(made, on(way))
    assert outcome.phase is NodePhase.BLOCKED
    if way == "shutdown" or not seen_off:
        assert ended(outcome) == ("blocked", "RestartsOnPowerOff")
        asked = [a.do for a in outcome.actions_done if a.vm == "u1"].count(Do.SHUTDOWN)
        assert asked == 1
        assert made.machines["a"].domains["u1"].autostart is True
        assert not made.machines["b"].claims


def test_another_run_may_ask_again() -> None:
    made = two(vm(1, "a", **FIXED))
    assert ended(run(made, on("shutdown"))) == ("stopped", "HostDeviceNotLiveMigratable")
    domain = made.machines["a"].domains["u1"]
    domain.state, domain.instance, domain.off_at, domain.asked_at = State.RUNNING, "2", None, None
    assert ended(run(made, on("shutdown"), name="again"))[0] == "stopped"
