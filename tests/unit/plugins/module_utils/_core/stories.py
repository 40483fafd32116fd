"""What the stories on the model have in common: a fleet of two nodes, and a run to its end."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import OnNotMigratable
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, Slice
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, fleet
from fleetsim.machines import Domain
from fleetsim.platform import ModelPlatform

ALLOWED = replace(POLICY, allow_stop=True)
DEVICE = (Finding(Reason.HostDeviceNotLiveMigratable, "a card"),)
FIXED = {"migratable": False, "findings": DEVICE}


def two(*vms: Domain, size: int = 8192):
    return fleet([("a", v) for v in vms], {"a": 8192, "b": size})


def run(made, policy=POLICY, intent: str = "drained", name: str = "run", fails=None, of_roll: bool = False) -> Slice:
    platform = ModelPlatform(made, "a")

    def guarded(action):
        """No migration without the claim that guards its target."""
        if action.do in (Do.MIGRATE, Do.COLD_DEFINE):
            assert (action.vm, "a") in made.machines[action.target].claims
        return fails(action) if fails else None

    platform.fails = guarded
    boot_id = platform.own.boot_id
    record = begin(platform.load(), "a", intent, name, platform.now(), boot_id, of_roll=of_roll)
    return Engine(platform, policy, record).run(platform.now() + 2000.0)


def ended(outcome: Slice, uuid: str = "u1") -> tuple[str, str]:
    entry = outcome.record.vms[uuid]
    return entry.ending, entry.reason


def on(kind: str):
    return replace(ALLOWED, on_not_migratable=OnNotMigratable(kind))
