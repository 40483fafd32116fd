"""The VM in which the maintenance runs: evicted last, and never stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.observe import control_node
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.plan.fleet import read_fleet
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import act, check_mode
from kubesim.kinds import VMIS
from kubesim.reading import DISKS, evictions, row

UUID = "11111111-2222-3333-4444-55555555555a"


def is_ours(sim: Any, name: str) -> None:
    def change(vmi: Any) -> None:
        vmi["spec"]["domain"]["firmware"] = {"uuid": UUID.upper()}

    sim.edit(VMIS, name, change, "default")


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process runs on the machine with that UUID."""
    monkeypatch.setattr(control_node, "own_uuid", lambda: UUID)


def test_it_is_evicted_when_all_others_have_gone(sim, operator, inside, monkeypatch) -> None:
    names = ("first", "vm0", "vm1")
    for name in names:
        sim.add_vm(name, "n1")
    is_ours(sim, "first")
    left: dict[str, list[str]] = {}
    evict = act.evict

    def look(client: Any, pod: Any, *more: Any, **options: Any) -> Any:
        who = next(n for n in names if n in pod["metadata"]["name"])
        left.setdefault(who, [n for n in names if n != who and sim.node_of(n) == "n1"])
        return evict(client, pod, *more, **options)

    monkeypatch.setattr(act, "evict", look)
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert left["first"] == []
    assert "first" in left["vm0"] and "first" in left["vm1"]
    assert sim.node_of("first") in ("n2", "n3")


@pytest.mark.parametrize("strategy", ["LiveMigrate", "LiveMigrateIfPossible", "None"])
def test_it_is_never_stopped(sim, operator, inside, strategy: str) -> None:
    sim.add_vm("ops", "n1", strategy=strategy, **DISKS)
    is_ours(sim, "ops")
    found = operator.drain(allow_stop=True, on_not_migratable="shutdown", force_stop=True)
    assert found["phase"] == "Blocked" and found["certificate"] is None
    assert row(found, "ops")["reason"] == "RunsTheMaintenance"
    assert evictions(sim) == [] and sim.node_of("ops") == "n1"


def test_the_controller_is_known_by_what_its_action_plugin_says(sim, operator) -> None:
    """The module may run on a bastion. Without it, the VM is one like any other."""
    sim.add_vm("ops", "n1", strategy="None")
    is_ours(sim, "ops")
    request = operator.request(Intent.DRAINED, "r", 5.0, allow_stop=True)
    for given, verdict in (("", "pending"), (UUID, "blocked")):
        found = check_mode.plan(replace(request, controller_uuid=given), {})
        assert row(found, "ops")["verdict"] == verdict


def test_the_plan_knows_it(sim, operator) -> None:
    sim.add_vm("ops", "n1")
    sim.add_vm("vm", "n2")
    is_ours(sim, "ops")
    rows = {row["name"]: row["control_node"] for row in read_fleet(operator.auth, controller_uuid=UUID)["vms"]}
    assert "default/ops is the machine" in rows["default/ops"] and rows["default/vm"] == ""


def test_check_mode_shows_its_eviction_beside_the_others(sim, operator, inside) -> None:
    sim.add_vm("first", "n1")
    sim.add_vm("vm0", "n1")
    is_ours(sim, "first")
    found = check_mode.plan(operator.request(Intent.DRAINED, "r", 5.0), {})
    moving = [one["vm"] for one in found["planned"] if one["do"] == "migrate"]
    assert sorted(moving) == ["default/first", "default/vm0"]
