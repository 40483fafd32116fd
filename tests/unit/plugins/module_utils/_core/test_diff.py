"""Diff mode: what is foreseen in check mode is what a drain then comes to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Platform, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.diff import (
    diff,
    diff_lines,
    predicted_lines,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, fleet, vm
from fleetsim.platform import ModelPlatform

FIXED = {"migratable": False, "findings": (Finding(Reason.HostDeviceNotLiveMigratable, "a card"),)}


@pytest.mark.parametrize(
    ("domain", "before", "after"),
    [
        (vm(1, "a"), "running on a", "running on b"),
        (vm(1, "a", **FIXED), "running on a", "running on a"),
        (vm(1, "a", declared_strategy="None"), "running on a", "shutoff on a"),
        (vm(1, "a", state=State.SHUTOFF), "shutoff on a", "shutoff on a"),
    ],
)
def test_foreseen_is_what_comes(domain, before: str, after: str) -> None:
    made = fleet([("a", replace(domain))], {"a": 8192, "b": 8192})
    policy = replace(POLICY, allow_stop=True)
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "drained", "run", platform.now(), platform.own.boot_id)
    obs = platform.observe(record)
    decision = decide(obs, {"a": record}, policy)
    planned = diff_lines(obs, decision.records["a"])
    told = predicted_lines(planned, decision.actions, Platform.LIBVIRT)

    outcome = Engine(platform, policy, record).run(platform.now() + 2000.0)
    found = diff(diff_lines(outcome.first, outcome.record), diff_lines(outcome.observation, outcome.record))
    assert found == diff(planned, told)
    assert found["before"] == f"VM vm1: {before}\nhost a: takes VMs\n"
    assert found["after"] == f"VM vm1: {after}\nhost a: cordoned\n"
