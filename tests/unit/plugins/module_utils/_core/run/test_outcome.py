"""What became of each VM when its host was given back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.outcome import outcomes
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import FIXED, on, run, two
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, vm
from fleetsim.platform import ModelPlatform


def begun(made):
    """A drain of a that has begun its first migration."""
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "drained", "drain", platform.now(), platform.own.boot_id)
    outcome = Engine(platform, POLICY, record).step()
    made.advance(made.clock + 1.0)
    return outcome


@pytest.mark.parametrize(
    ("let_finish", "expected"),
    [(False, ("a", "aborted", "migration aborted, runs on a")), (True, ("b", "moved", "left on b"))],
)
def test_a_migration_that_runs_is_aborted_or_may_finish(let_finish: bool, expected) -> None:
    made = two(vm(1, "a", memory=4096))
    begun(made)
    policy = replace(POLICY, let_finish=let_finish)
    outcome = run(made, policy, intent="active", name="back")
    assert outcome.phase is NodePhase.ACTIVE
    (found,) = outcomes(outcome.record, Platform.LIBVIRT)
    assert (found["at"], found["outcome"], found["message"]) == expected


def test_what_was_stopped_is_started_again() -> None:
    made = two(vm(1, "a", **FIXED))
    policy = on("shutdown")
    run(made, policy)
    outcome = run(made, policy, intent="active", name="back")
    assert [one["outcome"] for one in outcomes(outcome.record, Platform.LIBVIRT)] == ["started"]
