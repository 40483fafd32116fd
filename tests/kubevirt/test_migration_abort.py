"""The abort of one VM's migration: a test a row of what KubeVirt does in each phase."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api import auth
from ansible_collections.virtops.maintenance.tests.kubevirt.one_vm import (
    One,
    full,
    keep_open,
    mark,
    nowhere,
    phases,
    vm,
    writes,
)
from kubesim import Kubesim
from kubesim.kinds import NODES, VMIMS, VMIS


def stopped_at(sim: Kubesim, found: dict[str, Any]) -> str:
    """Nothing of it is left, and this is where the VM runs."""
    assert found["phase"] == "Active", found
    assert sim.leftovers() == []
    return sim.node_of("vm")


@pytest.mark.parametrize(
    ("phase", "prepare", "knobs"),
    [
        ("Pending", full, {}),
        ("Scheduling", nowhere, {}),
        ("PreparingTarget", lambda _sim: None, {"prepare_seconds": "12"}),
        ("Running", lambda _sim: None, {"abort_seconds": "20"}),
    ],
    ids=["Pending", "Scheduling", "PreparingTarget", "Running"],
)
def test_an_abort_in_each_phase(
    sim: Kubesim, one: One, phase: str, prepare: Callable[[Kubesim], None], knobs: dict[str, str]
) -> None:
    sim.add_vm("vm", "n1", **{"migrate_seconds": "1000", **knobs})
    prepare(sim)
    one.begin(phase)
    found = one.abort()
    assert stopped_at(sim, found) == "n1"
    row = vm(found)
    assert (row["verdict"], row["abort_status"]) in (("restored", "Succeeded"), ("restored", ""))
    assert found["changed"]


def test_an_abort_of_a_stuck_preparation(sim, one) -> None:
    """KubeVirt puts it off until the target is ready, which is never."""
    sim.add_vm("vm", "n1", prepare="hang")
    one.begin("PreparingTarget")
    assert stopped_at(sim, one.abort(abort_timeout=0.5)) == "n1"
    assert len(sim.requests("DELETE", "/pods/")) == 1


def test_a_preparation_that_ends_keeps_its_target_pod(sim, one) -> None:
    sim.add_vm("vm", "n1", prepare_seconds="12", migrate_seconds="1000")
    one.begin("PreparingTarget")
    assert stopped_at(sim, one.abort()) == "n1"
    assert sim.requests("DELETE", "/pods/") == []


def test_an_abort_that_fails_is_told_by_where_the_vm_runs(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="15", abort="fail")
    one.begin("Running")
    found = one.abort()
    there = sim.node_of("vm")
    assert there != "n1"
    assert (found["phase"], vm(found)["verdict"], vm(found)["at"]) == ("Migrated", "moved", there)
    assert found["findings"][0]["reason"] == "TooLateToAbort"
    assert there in found["findings"][0]["message"]


def test_an_abort_that_is_never_answered_is_told(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="10", abort="hang")
    one.begin("Running")
    found = one.abort(abort_timeout=0.5)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "AbortUnanswered")
    assert sim.node_of("vm") == "n1"


def test_nothing_to_abort_changes_nothing(sim, one) -> None:
    sim.add_vm("vm", "n1")
    before = len(sim.log)
    found = one.abort()
    assert (found["phase"], found["changed"]) == ("Active", False)
    assert writes(sim, before) == []


def test_an_evacuation_is_cancelled_before_its_migration_is_deleted(sim, one) -> None:
    """In the other order KubeVirt makes a new migration."""
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    mark(sim)
    sim.until(lambda: "Running" in phases(sim))
    assert stopped_at(sim, one.abort()) == "n1"
    (cancel,) = sim.requests("PUT", "/vm/evacuate/cancel")
    (deleted,) = sim.requests("DELETE", "virtualmachineinstancemigrations")
    assert cancel.status == 200 and cancel.at < deleted.at
    sim.edit(NODES, "n1", lambda o: o["metadata"]["annotations"].update(wake="up"))
    sim.let_pass(5.0)  # KubeVirt does not begin again
    assert sim.leftovers() == [] and len(sim.all(VMIMS)) <= 1


def test_in_post_copy_an_abort_is_refused(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    one.begin("Running")
    sim.edit(VMIS, "vm", lambda o: o["status"]["migrationState"].update(mode="PostCopy"), "default")
    before = len(sim.log)
    found = one.abort()
    assert found["phase"] == "Migrating" and vm(found)["reason"] == "TooLateToAbort"
    assert "post-copy" in vm(found)["message"] and not found["changed"]
    assert writes(sim, before) == []


def test_post_copy_of_the_migration_before_does_not_count(sim, one) -> None:
    sim.add_vm("vm", "n1")
    one.migrate()
    sim.until(lambda: set(phases(sim)) == {"Succeeded"})
    sim.edit(VMIS, "vm", lambda o: o["status"]["migrationState"].update(mode="PostCopy"), "default")
    full(sim)
    here = sim.node_of("vm")
    one.begin("Pending")
    assert stopped_at(sim, one.abort()) == here


def test_once_it_runs_on_the_target_an_abort_is_refused(sim, one) -> None:
    sim.add_vm("vm", "n1")
    keep_open(sim)
    one.migrate()
    before = len(sim.log)
    found = one.abort()
    assert found["phase"] == "Migrated" and "Not aborted: it runs on" in vm(found)["message"]
    assert writes(sim, before) == []


def test_the_drain_taint_is_named(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    mark(sim)
    sim.until(lambda: "Running" in phases(sim))
    taint = {"key": "kubevirt.io/drain", "effect": "NoSchedule"}
    sim.edit(NODES, "n1", lambda o: o["spec"].update(taints=[taint]))
    found = one.abort()
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "DrainTaint")
    assert sim.requests("DELETE", "virtualmachineinstancemigrations") == []


def test_a_mark_that_cannot_be_cancelled_is_told(tmp_path: Path) -> None:
    """Before 1.7 there is no evacuate/cancel, and a change of the field is dropped."""
    with Kubesim(scale=10, version=(1, 6)) as sim:
        for name in ("n1", "n2"):
            sim.add_node(name)
        sim.add_vm("vm", "n1", migrate_seconds="1000")
        mark(sim)
        sim.until(lambda: "Running" in phases(sim))
        found = auth.settings({"kubeconfig": str(sim.kubeconfig(tmp_path / "k"))}, {})
        result = One(sim, found).abort(abort_timeout=1.0)
        assert (result["phase"], vm(result)["reason"]) == ("Blocked", "EvacuationMarkStays")
        assert "since 1.7" in vm(result)["message"]
        assert sim.requests("DELETE", "virtualmachineinstancemigrations") == []
        assert sim.requests("PATCH", "virtualmachineinstances") == []  # it would be in vain
