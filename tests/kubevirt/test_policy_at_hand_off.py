"""KubeVirt takes a MigrationPolicy at the hand-off: what it is then is what the results say."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from kubesim.kinds import BY_PLURAL, VMIMS
from kubesim.reading import free_slots, row, take_slots

pytestmark = pytest.mark.full

POLICIES = BY_PLURAL["migrationpolicies"]


def told(operator: Any, seconds: float = 1.0) -> tuple[str, int]:
    """The policy of the VM, and its bandwidth."""
    found = operator.slice(Intent.DRAINED, seconds, run_id="one")
    settings = row(found, "vm")["settings"]
    return settings["policy"], settings["bandwidth_mib_s"]


def test_a_policy_that_changes_while_the_migration_waits_is_told_as_it_was_taken(sim, operator) -> None:
    take_slots(sim)
    sim.add_vm("vm", "n1", migrate_seconds="600", labels={"size": "big"})
    selectors = {"virtualMachineInstanceSelector": {"size": "big"}}
    spec = {"selectors": selectors, "bandwidthPerMigration": "10Mi"}
    sim.add("migrationpolicies", {"metadata": {"name": "slow"}, "spec": spec})
    assert told(operator) == ("slow", 10)
    sim.edit(POLICIES, "slow", lambda o: o["spec"].update(bandwidthPerMigration="55Mi"))
    free_slots(sim)
    sim.until(lambda: any(m["status"]["phase"] == "Running" for m in sim.world.store.all(VMIMS)))
    assert told(operator) == ("slow", 55)
    sim.edit(POLICIES, "slow", lambda o: o["spec"].update(bandwidthPerMigration="99Mi"))
    assert told(operator) == ("slow", 55), "it was changed after it had been taken"
    assert len(sim.requests("GET", "/migrationpolicies")) == 1


def test_a_policy_that_is_deleted_while_the_migration_waits_is_none(sim, operator) -> None:
    take_slots(sim)
    sim.add_vm("vm", "n1", migrate_seconds="600")
    spec = {"selectors": {}, "bandwidthPerMigration": "10Mi"}
    sim.add("migrationpolicies", {"metadata": {"name": "all"}, "spec": spec})
    assert told(operator) == ("all", 10)
    sim.call(lambda: sim.world.store.delete(POLICIES, "", "all"))
    free_slots(sim)
    sim.until(lambda: any(m["status"]["phase"] == "Running" for m in sim.world.store.all(VMIMS)))
    assert told(operator) == ("", 0)
