"""Eviction strategies in the templates of VMs, over real HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import AccessDenied
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import VMNotHere
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.declare import (
    DeclareError,
    DeclareRequest,
    declare,
)
from kubesim import Kubesim
from kubesim.kinds import VMIS, VMS


def ask(operator: Any, strategy: str = "External", **more: Any) -> dict[str, Any]:
    if "names" in more:
        more.setdefault("namespace", "default")
    return declare(DeclareRequest(operator.auth, strategy, **more))


def declared(sim: Kubesim, name: str) -> str | None:
    template = sim.find(VMS, name)["spec"]["template"]["spec"]
    found: str | None = template.get("evictionStrategy")
    return found


def patches(sim: Kubesim, dry: bool) -> int:
    found = [c for c in sim.requests("PATCH", "/virtualmachines/") if c.status == 200]
    return sum(("dryRun=All" in c.query) is dry for c in found)


def test_by_name_and_who_keeps_the_old_one(sim, operator) -> None:
    sim.add_vm("runs", "n1", strategy="LiveMigrate")
    sim.add_vm("off", "n1", strategy="LiveMigrate", run_strategy="Halted", wait=False)
    sim.add_vm("other", "n1", strategy="LiveMigrate")
    found = ask(operator, names=["runs", "off"])
    assert found["changed"] and found["restart_needed"] == ["default/runs"]
    rows = {row["name"]: row for row in found["vms"]}
    assert rows["runs"]["running"] == rows["runs"]["template"] == "LiveMigrate"
    assert rows["off"]["running"] is None and not rows["off"]["restart_needed"]
    assert [declared(sim, n) for n in ("runs", "off", "other")] == ["External", "External", "LiveMigrate"]
    assert sim.find(VMIS, "runs")["spec"]["evictionStrategy"] == "LiveMigrate"
    assert "(running): LiveMigrate until it is restarted" in found["diff"]["after"]
    again = ask(operator, names=["runs", "off"])
    assert not again["changed"] and again["restart_needed"] == ["default/runs"]
    assert patches(sim, dry=False) == 2


def test_taking_it_away_leaves_the_clusters_default(sim, operator) -> None:
    sim.add_vm("vm", "n1", strategy="LiveMigrate")
    found = ask(operator, "", names=["vm"])
    assert declared(sim, "vm") is None
    assert found["restart_needed"] == ["default/vm"]  # the default is None
    sim.configure(evictionStrategy="LiveMigrate")
    assert ask(operator, "", names=["vm"])["restart_needed"] == []


def test_check_mode_asks_the_server_and_writes_nothing(sim, operator) -> None:
    sim.add_vm("vm", "n1", strategy="LiveMigrate")
    found = ask(operator, names=["vm"], check=True)
    assert found["changed"] and found["vms"][0]["written"]
    assert declared(sim, "vm") == "LiveMigrate"
    assert (patches(sim, dry=True), patches(sim, dry=False)) == (1, 0)


def test_by_expression_on_the_vms_document(sim, operator) -> None:
    sim.add_vm("big", "n1", memory="8Gi", labels={"tier": "db"})
    sim.add_vm("small", "n1", memory="1Gi", labels={"tier": "db"})
    sim.add_vm("off", "n1", memory="8Gi", run_strategy="Halted", wait=False)
    sim.add_vm("far", "n1", memory="8Gi", namespace="far")
    found = ask(operator, when="memory_mib > `4096` && namespace == 'default'")
    assert [row["name"] for row in found["vms"]] == ["big", "off"]
    assert ask(operator, when="labels.tier == 'db'")["vms"][1]["name"] == "small"
    everywhere = ask(operator, when="memory_mib > `4096`", check=True)
    assert {row["namespace"] for row in everywhere["vms"]} == {"default", "far"}


def test_by_labels_of_the_vm_and_an_expression(sim, operator) -> None:
    for name in ("a", "b"):
        sim.add_vm(name, "n1")
        sim.edit(VMS, name, lambda o: o["metadata"].update(labels={"tier": "test"}), "default")
    sim.add_vm("c", "n1")
    assert len(ask(operator, labels="tier=test", check=True)["vms"]) == 2
    found = ask(operator, labels="tier=test", when="name == 'b'")
    assert [row["name"] for row in found["vms"]] == ["b"]


def test_a_value_that_is_not_known_decides_nothing(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    with pytest.raises(DeclareError, match=r"default/vm \(dirty_rate\)"):
        ask(operator, when="dirty_rate > `100`")
    with pytest.raises(PolicyError, match="when:"):
        ask(operator, when="dirty rate")
    assert patches(sim, dry=True) == 0


def test_nothing_is_written_before_all_were_found_and_accepted(sim, operator) -> None:
    for name in ("a", "b"):
        sim.add_vm(name, "n1")
    with pytest.raises(VMNotHere, match=r"no VM 'nobody' in namespace default"):
        ask(operator, names=["a", "nobody"])
    refusal = "/virtualmachines/b"
    sim.api.faults.plan(422, 9, lambda method, path: method == "PATCH" and refusal in path)
    with pytest.raises(DeclareError, match=r"default/b: .*Changed before: nothing"):
        ask(operator, names=["a", "b"])
    assert patches(sim, dry=False) == 0
    assert declared(sim, "a") == "LiveMigrate"


def test_nothing_named_is_not_everything(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    for nothing in ({}, {"names": []}, {"labels": ""}):
        with pytest.raises(PolicyError, match="every VM of the cluster"):
            ask(operator, **nothing)


def test_a_vm_that_changes_meanwhile(sim, operator) -> None:
    """Its status changes often, and with it its version; its declaration hardly ever."""
    sim.add_vm("vm", "n1")
    sim.api.faults.plan(409, 1, lambda method, _path: method == "PATCH")
    assert ask(operator, names=["vm"])["changed"]
    assert declared(sim, "vm") == "External"


def test_a_missing_right_is_named(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    for rule in sim.api.access.rules["maintenance"]:
        if "virtualmachines" in rule["resources"]:
            rule["verbs"] = ["get"]
    with pytest.raises(AccessDenied, match=r"patch virtualmachines\.kubevirt\.io"):
        ask(operator, names=["vm"])
    with pytest.raises(AccessDenied, match=r"list virtualmachines\.kubevirt\.io"):
        ask(operator, labels="a=b")
