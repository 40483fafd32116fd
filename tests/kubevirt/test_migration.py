# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One VM's migration and its abort, over real HTTP with the real client."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.errors import (
    AccessDenied,
    Superseded,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration import (
    plan_migration,
    run_migration,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration_model import (
    MigrationRefused,
    MigrationRequest,
    VMNotHere,
    Want,
)
from kubesim import Kubesim
from kubesim.kinds import NODES, PODS, VMIMS, VMIS, VMS

REQUEST = "virtops.maintenance/request"
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class One:
    """Asks for one VM's migration, as the module does."""

    def __init__(self, sim: Kubesim, auth: dict[str, Any]) -> None:
        self.sim = sim
        self.auth = auth
        self.runs = 0

    def request(self, want: Want, **more: Any) -> MigrationRequest:
        self.runs += 1
        settings = {"backoff": 0.2, "seconds": 4.0, "run_id": f"one-{self.runs}", **more}
        base = {"name": "vm", "namespace": "default", "requester": "me", "reason": "why"}
        return MigrationRequest(auth=self.auth, want=want, **{**base, **settings})

    def run(self, request: MigrationRequest) -> dict[str, Any]:
        """To its end, slice by slice."""
        changed = False
        for _slice in range(15):
            found = run_migration(request)
            changed = changed or found["changed"]
            if found["ended"] == "final":
                return {**found, "changed": changed}
            request = replace(request, begun=True)
        raise AssertionError(f"not final: {found}")

    def migrate(self, **more: Any) -> dict[str, Any]:
        return self.run(self.request(Want.MIGRATED, **more))

    def abort(self, **more: Any) -> dict[str, Any]:
        return self.run(self.request(Want.ABORTED, **more))

    def begin(self, phase: str = "", **more: Any) -> MigrationRequest:
        """A migration that is under way, in this phase; the request, to go on with."""
        request = self.request(Want.MIGRATED, **{"seconds": 0.2, **more})
        for _slice in range(50):
            run_migration(request)
            request = replace(request, begun=True)
            if self.sim.call(lambda: set(phases(self.sim)) - {"Succeeded", "Failed"}):
                break
        if phase:
            self.sim.until(lambda: phase in phases(self.sim))
        return replace(request, seconds=4.0)


def phases(sim: Kubesim) -> list[str]:
    """Only on the cluster's thread."""
    return [m.get("status", {}).get("phase", "") for m in sim.world.store.all(VMIMS)]


def writes(sim: Kubesim, since: int) -> list[str]:
    return [f"{c.method} {c.path}" for c in sim.log[since:] if c.method in _WRITES]


def vm(result: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = result["vms"][0]
    return row


def mark(sim: Kubesim) -> None:
    """What an eviction of somebody leads to."""
    sim.edit(VMIS, "vm", lambda o: o["status"].update(evacuationNodeName="n1"), "default")


def foreign(sim: Kubesim) -> None:
    """A migration by hand."""
    meta = {"name": "byhand", "namespace": "default", "labels": {"kubevirt.io/vmi-name": "vm"}}
    meta["finalizers"] = ["kubevirt.io/migrationJobFinalize"]
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": "vm"}})


def keep_open(sim: Kubesim, kind: str = "MigrationRequired", status: str = "True") -> None:
    """What leaves a migration object Running after the guest has moved."""
    keeps = {"type": kind, "status": status}
    sim.edit(VMIS, "vm", lambda o: o["status"]["conditions"].append(keeps), "default")


def full(sim: Kubesim) -> None:
    sim.configure(migrations={"parallelMigrationsPerCluster": 0})


def nowhere(sim: Kubesim) -> None:
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update(unschedulable=True))


@pytest.fixture
def one(sim: Kubesim, operator: Any) -> One:
    return One(sim, operator.auth)


# Moving


@pytest.mark.parametrize("strategy", ["LiveMigrate", "None", "External"])
def test_it_is_moved_by_a_migration_of_its_own(sim, one, strategy) -> None:
    sim.add_vm("vm", "n1", strategy=strategy)
    found = one.migrate()
    row = vm(found)
    assert (found["phase"], row["verdict"], row["attempts"]) == ("Migrated", "moved", 1)
    assert found["changed"] and sim.node_of("vm") == row["at"] == row["target"] != "n1"
    assert row["handed_off"] and row["requested_by"] == "me (run one-1)" and row["reason"] == ""
    assert sim.requests("POST", "/eviction") == [] and sim.leftovers() == []


def test_who_asked_and_why_stands_there_before_anything_is_asked(sim, one) -> None:
    sim.add_vm("vm", "n1")
    one.migrate()
    (migration,) = sim.all(VMIMS)
    for obj in (migration, sim.find(VMIS, "vm")):
        note = json.loads(obj["metadata"]["annotations"][REQUEST])
        assert (note["run"], note["by"], note["reason"]) == ("one-1", "me", "why")
        assert note["at"].endswith("Z") and note["node"] == "n1"
    signed = sim.requests("PATCH", "virtualmachineinstances/vm")[0]
    (asked,) = sim.requests("POST", "virtualmachineinstancemigrations")
    assert signed.at < asked.at


def test_with_a_node_or_a_target_the_second_time_changes_nothing(sim, one) -> None:
    sim.add_vm("vm", "n1")
    assert one.migrate(target="n3")["phase"] == "Migrated" and sim.node_of("vm") == "n3"
    sim.until(lambda: set(phases(sim)) == {"Succeeded"})
    before = len(sim.log)
    for again in ({"target": "n3"}, {"node": "n1"}, {"selector": {"kubernetes.io/hostname": "n3"}}):
        found = one.migrate(**again)
        assert (found["phase"], found["changed"]) == ("Migrated", False), again
    assert writes(sim, before) == []


def test_without_them_it_moves_once_more(sim, one) -> None:
    sim.add_vm("vm", "n1")
    one.migrate()
    first = sim.node_of("vm")
    sim.until(lambda: set(phases(sim)) == {"Succeeded"})
    assert one.migrate()["phase"] == "Migrated"
    assert sim.node_of("vm") != first


def test_an_older_kubevirt_is_not_told_where_to(tmp_path: Path) -> None:
    with Kubesim(scale=10, version=(1, 5)) as sim:
        for name in ("n1", "n2", "n3"):
            sim.add_node(name)
        sim.add_vm("vm", "n1")
        from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import auth

        found = auth.settings({"kubeconfig": str(sim.kubeconfig(tmp_path / "k"))}, {})
        before = len(sim.log)
        for where in ({"target": "n3"}, {"selector": {"zone": "east"}}):
            with pytest.raises(MigrationRefused, match=r"KubeVirt 1\.5 .* came with 1\.6"):
                One(sim, found).migrate(**where)
        assert writes(sim, before) == []
        assert One(sim, found).migrate()["phase"] == "Migrated"


def test_a_target_that_cannot_take_it_is_refused_before_anything_is_asked(sim, one) -> None:
    sim.add_vm("vm", "n1")
    sim.edit(NODES, "n3", lambda o: o["spec"].update(unschedulable=True))
    before = len(sim.log)
    found = one.migrate(target="n3")
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "TargetUnschedulable")
    assert "n3 takes no VMs: it is cordoned" in vm(found)["message"]
    with pytest.raises(MigrationRefused, match="no node n9"):
        one.migrate(target="n9")
    assert writes(sim, before) == []


def test_what_is_under_way_is_taken_over(sim, one) -> None:
    sim.add_vm("vm", "n1")
    foreign(sim)
    found = one.migrate()
    assert found["phase"] == "Migrated" and found["changed"]
    assert vm(found)["requested_by"].startswith("somebody else")
    assert sim.requests("POST", "virtualmachineinstancemigrations") == []


def test_a_second_loop_is_named_while_it_moves(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    request = one.begin("Running")
    mark(sim)
    found = run_migration(replace(request, seconds=1.0))
    assert vm(found)["reason"] == "TwoLoops"
    assert "an eviction from n1 asks to move it too" in vm(found)["message"]


def test_an_evacuation_is_taken_over(sim, one) -> None:
    sim.add_vm("vm", "n1")
    mark(sim)
    found = one.migrate()
    assert found["phase"] == "Migrated" and "an eviction from n1" in vm(found)["requested_by"]
    assert len(sim.all(VMIMS)) == 1 and sim.leftovers() == []


def test_one_that_was_taken_over_and_went_elsewhere_is_moved_on(sim, one) -> None:
    sim.add_vm("vm", "n1")
    foreign(sim)
    sim.until(lambda: "Running" in phases(sim))
    there = sim.find(VMIS, "vm")["status"]["migrationState"]["targetNode"]
    wanted = "n3" if there == "n2" else "n2"
    found = one.migrate(target=wanted)
    assert found["phase"] == "Migrated" and sim.node_of("vm") == wanted


def test_attempts_are_bounded_and_the_last_reason_is_kept(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_result="fail", migrate_fail_reason="link is down")
    found = one.migrate(max_attempts=2)
    row = vm(found)
    assert (found["phase"], row["reason"], row["attempts"]) == ("Blocked", "AttemptsUsedUp", 2)
    assert "MigrationFailed: link is down" in row["message"] and row["plane"] == "data"
    assert len(sim.requests("POST", "virtualmachineinstancemigrations")) == 2
    assert sim.leftovers() == [] and sim.node_of("vm") == "n1"


def test_a_second_attempt_may_succeed(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_result="fail:1")
    found = one.migrate()
    assert (found["phase"], vm(found)["attempts"]) == ("Migrated", 2)


def test_what_the_migration_before_left_on_the_vmi_is_not_believed(sim, one) -> None:
    """Until the next hand-off the VMI tells how the last migration went."""
    sim.add_vm("vm", "n1")
    one.migrate()
    sim.until(lambda: set(phases(sim)) == {"Succeeded"})
    here = sim.node_of("vm")
    full(sim)
    found = run_migration(replace(one.begin("Pending"), seconds=0.5))
    row = vm(found)
    assert (found["phase"], row["phase"], row["reason"]) == (
        "Migrating",
        "Pending",
        "WaitingForSlot",
    )
    assert row["handed_off"] == "" and sim.node_of("vm") == here


@pytest.mark.parametrize(
    ("kind", "status"),
    [("MigrationRequired", "True"), ("HotVCPUChange", "False"), ("HotMemoryChange", "True")],
)
def test_a_migration_object_that_stays_open_is_told_as_moved(sim, one, kind, status) -> None:
    """HotVCPUChange counts for KubeVirt as soon as it is there."""
    sim.add_vm("vm", "n1")
    keep_open(sim, kind, status)
    found = one.migrate()
    row = vm(found)
    assert (found["phase"], row["verdict"], row["phase"]) == ("Migrated", "moved", "Succeeded")
    assert row["reason"] == "MigrationObjectStays" and kind in row["message"]
    assert row["handed_off"] and row["handed_off"] in row["message"]
    assert [m["status"]["phase"] for m in sim.all(VMIMS)] == ["Running"]


def test_what_no_node_takes_is_withdrawn_and_named(sim, one) -> None:
    sim.add_vm("vm", "n1")
    nowhere(sim)
    found = one.migrate(pending_timeout=2.5)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "TargetUnschedulable")
    assert "0/3 nodes are available" in vm(found)["message"]
    assert sim.leftovers() == [] and sim.node_of("vm") == "n1"


def test_a_quota_is_withdrawn_and_named(sim, one) -> None:
    sim.add_vm("vm", "n1")
    quota = {"metadata": {"name": "tight", "namespace": "default"}}
    sim.add("resourcequotas", {**quota, "spec": {"hard": {"pods": "1"}}})
    found = one.migrate(pending_timeout=0.5)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "QuotaExceeded")
    assert sim.leftovers() == []


def test_a_slot_is_waited_for_up_to_the_deadline_of_the_whole(sim, one) -> None:
    sim.add_vm("vm", "n1")
    full(sim)
    found = one.migrate(pending_timeout=0.1, migration_timeout=1.5)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "DeadlineExceeded")
    assert "WaitingForSlot" in vm(found)["message"] and sim.leftovers() == []


def test_a_stuck_preparation_is_ended_by_its_target_pod(sim, one) -> None:
    sim.add_vm("vm", "n1", prepare="hang")
    found = one.migrate(pending_timeout=0.5, abort_timeout=0.5)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "TargetPreparation")
    (gone,) = sim.requests("DELETE", "/pods/")
    assert sim.leftovers() == [] and sim.node_of("vm") == "n1"
    assert gone.status == 200


def test_what_cannot_migrate_is_not_asked_for(sim, one) -> None:
    sim.add_vm("vm", "n1", not_migratable_reason="DisksNotLiveMigratable")
    before = len(sim.log)
    found = one.migrate()
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "DisksNotLiveMigratable")
    assert writes(sim, before) == [] and not found["changed"]


def test_a_vm_that_is_not_there_or_off(sim, one) -> None:
    sim.add_vm("off", "n1", run_strategy="Halted", wait=False)
    with pytest.raises(VMNotHere, match=r"no VM nobody in namespace default.*kubectl get vm"):
        one.migrate(name="nobody")
    sim.until(lambda: sim.world.store.find(VMS, "default", "off").get("status"))
    with pytest.raises(VMNotHere, match=r"default/off does not run \(Stopped\)"):
        one.migrate(name="off")
    assert one.abort(name="off")["phase"] == "Active"
    with pytest.raises(PolicyError, match="without a slash"):
        one.migrate(name="default/off")


def test_a_vm_that_is_stopped_meanwhile(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    request = one.begin()
    sim.edit(VMS, "vm", lambda o: o["spec"].update(runStrategy="Halted"), "default")
    sim.until(lambda: sim.world.store.find(VMIS, "default", "vm") is None)
    found = one.run(request)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "VMVanished")


def test_a_vm_that_is_started_anew_meanwhile_was_not_moved(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    request = one.begin()
    old = sim.find(VMIS, "vm")["metadata"]["uid"]
    sim.call(lambda: sim.world.store.delete(VMIS, "default", "vm"))

    def anew() -> bool:
        vmi = sim.world.store.find(VMIS, "default", "vm")
        return vmi is not None and vmi["metadata"]["uid"] != old and sim.running("vm")

    sim.until(anew)
    found = one.run(request)
    assert found["phase"] == "Blocked" and "started anew" in vm(found)["message"]


def test_a_killed_run_is_carried_on_by_the_next(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="15")
    one.begin("Running")
    found = one.migrate()
    assert found["phase"] == "Migrated" and len(sim.all(VMIMS)) == 1


def test_a_run_that_was_taken_over_stops(sim, one) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    first = one.begin()
    one.begin()
    with pytest.raises(Superseded, match=r"Run one-2 \(me: why\) took VM default/vm over"):
        run_migration(first)
    assert one.abort()["phase"] == "Active"


def test_one_that_somebody_deletes_is_not_made_again(sim, one) -> None:
    sim.add_vm("vm", "n1")
    full(sim)
    request = one.begin()
    name = sim.all(VMIMS)[0]["metadata"]["name"]
    sim.call(lambda: sim.world.store.delete(VMIMS, "default", name))
    found = one.run(request)
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "AbortRequested")
    assert len(sim.requests("POST", "virtualmachineinstancemigrations")) == 1


def test_trouble_of_the_api_is_everyday(sim, one) -> None:
    sim.add_vm("vm", "n1")
    faults = sim.api.faults
    faults.drop_watches = 0.2
    faults.plan(500, 2, lambda method, _path: method == "GET")
    faults.plan(429, 1, lambda method, _path: method == "GET", retry_after=1)
    faults.plan(503, 1, lambda method, path: method == "POST")
    faults.plan(409, 1, lambda method, path: method == "PATCH")
    found = one.migrate()
    assert found["phase"] == "Migrated"
    assert len(sim.all(VMIMS)) == 1


def test_virt_api_down_is_a_reason(sim, one) -> None:
    sim.add_vm("vm", "n1")
    sim.world.virt_api_down = True
    found = one.migrate()
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "WebhookUnavailable")
    assert sim.node_of("vm") == "n1"


def test_a_missing_right_is_named(sim, one) -> None:
    sim.add_vm("vm", "n1")
    for rule in sim.api.access.rules["maintenance"]:
        if "virtualmachineinstancemigrations" in rule["resources"]:
            rule["verbs"] = [v for v in rule["verbs"] if v != "create"]
    with pytest.raises(
        AccessDenied, match=r"create virtualmachineinstancemigrations\.kubevirt\.io"
    ):
        one.migrate()


# Aborting: a test a row of what KubeVirt does in each phase


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
    time.sleep(0.5)  # five seconds of the cluster: KubeVirt does not begin again
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
        from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import auth

        found = auth.settings({"kubeconfig": str(sim.kubeconfig(tmp_path / "k"))}, {})
        result = One(sim, found).abort(abort_timeout=1.0)
        assert (result["phase"], vm(result)["reason"]) == ("Blocked", "EvacuationMarkStays")
        assert "since 1.7" in vm(result)["message"]
        assert sim.requests("DELETE", "virtualmachineinstancemigrations") == []
        assert sim.requests("PATCH", "virtualmachineinstances") == []  # it would be in vain


# Check mode


def test_check_mode_asks_the_server_and_writes_nothing(sim, one) -> None:
    sim.add_vm("vm", "n1")
    versions = {kind.plural: _versions(sim, kind) for kind in (VMIS, VMIMS, PODS)}
    found = plan_migration(one.request(Want.MIGRATED, target="n3"))
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
    found = plan_migration(one.request(Want.ABORTED))
    assert [act["do"] for act in found["planned"]] == ["cancel", "abort"]
    assert [w.split("/")[-1] for w in writes(sim, before)] == ["cancel"]  # a dry run
    assert sim.find(VMIS, "vm")["status"]["evacuationNodeName"] == "n1"
    assert plan_migration(one.request(Want.MIGRATED))["planned"][0]["do"] == "adopt"
    assert len(sim.all(VMIMS)) == 1
    one.abort()
    nothing = plan_migration(one.request(Want.ABORTED))
    assert nothing["planned"] == [] and not nothing["changed"]


def test_check_mode_tells_what_the_server_refuses(sim, one) -> None:
    sim.add_vm("vm", "n1")
    sim.world.virt_api_down = True
    found = plan_migration(one.request(Want.MIGRATED))
    assert (found["phase"], vm(found)["reason"]) == ("Blocked", "WebhookUnavailable")
    assert found["planned"] == [] and not found["changed"]


def _versions(sim: Kubesim, kind: Any) -> dict[str, str]:
    return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in sim.all(kind)}
