"""One VM's migration and its abort in check mode: the server is asked, nothing is written."""

from __future__ import annotations

from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.migration import plan_migration
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.model import WantedState
from ansible_collections.virtops.maintenance.tests.kubevirt.one_vm import mark, phases, vm, writes
from kubesim import Kubesim
from kubesim.kinds import PODS, VMIMS, VMIS


def test_check_mode_asks_the_server_and_writes_nothing(sim, one) -> None:
    sim.add_vm("vm", "n1")
    versions = {kind.plural: _versions(sim, kind) for kind in (VMIS, VMIMS, PODS)}
    found = plan_migration(one.request(WantedState.MIGRATED, target="n3"))
    assert found["planned"] == [{"do": "migrate", "vm": "default/vm", "target": "n3"}]
    assert found["changed"] and "running on n3" in found["diff"]["after"]
    (tried,) = sim.requests("POST", "virtualmachineinstancemigrations")
    assert "dryRun=All" in tried.query and tried.status == 201
    assert {kind.plural: _versions(sim, kind) for kind in (VMIS, VMIMS, PODS)} == versions


def test_check_mode_of_an_abort(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    mark(sim)
    sim.until(lambda: "Running" in phases(sim))
    before = len(sim.log)
    found = plan_migration(one.request(WantedState.ABORTED))
    assert [act["do"] for act in found["planned"]] == ["cancel", "abort"]
    assert [w.split("/")[-1] for w in writes(sim, before)] == ["cancel"]  # a dry run
    assert sim.find(VMIS, "vm")["status"]["evacuationNodeName"] == "n1"
    assert plan_migration(one.request(WantedState.MIGRATED))["planned"][0]["do"] == "adopt"
    assert len(sim.all(VMIMS)) == 1
    one.abort()
    nothing = plan_migration(one.request(WantedState.ABORTED))
    assert nothing["planned"] == [] and not nothing["changed"]


def test_check_mode_tells_what_the_server_refuses(sim, one) -> None:
    sim.add_vm("vm", "n1")
    sim.world.virt_api_down = True
    found = plan_migration(one.request(WantedState.MIGRATED))
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "WebhookUnavailable")
    assert found["planned"] == [] and not found["changed"]


def _versions(sim: Kubesim, kind: Any) -> dict[str, str]:
    return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in sim.all(kind)}
