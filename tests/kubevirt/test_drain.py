# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drains over real HTTP with the real client. What was asked is counted from the server's log."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import service
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.errors import (
    AccessDenied,
    KubeError,
    LockHeld,
    NodeUnknown,
)
from kubesim import Kubesim
from kubesim.kinds import NODES, VMIMS, VMIS, VMS

DISKS = {
    "not_migratable_reason": "DisksNotLiveMigratable",
    "not_migratable_message": "PVC x is not shared",
}


def row(result: dict[str, Any], name: str) -> dict[str, Any]:
    return next(vm for vm in result["vms"] if vm["name"] == f"default/{name}")


def evictions(sim: Kubesim) -> list[str]:
    """Names of the VMs whose pods were asked to go."""
    found = [c.path.split("/")[-2] for c in sim.requests("POST", "/eviction")]
    return sorted(pod.removeprefix("virt-launcher-").rsplit("-", 1)[0] for pod in found)


def clean(sim: Kubesim) -> bool:
    """No mark, no migration, no cordon and no annotation of ours."""
    node = sim.find(NODES, "n1")
    notes = [n for n in node["metadata"].get("annotations", {}) if n.startswith("virtops.")]
    return not sim.leftovers() and not notes and not node["spec"].get("unschedulable")


def test_each_vm_is_evicted_once_and_runs_elsewhere(sim, operator) -> None:
    for number in range(6):
        sim.add_vm(f"vm{number}", "n1")
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert len(found["certificate"]["vms"]) == 6
    assert {vm["attempts"] for vm in found["vms"]} == {1}
    assert evictions(sim) == [f"vm{number}" for number in range(6)]
    assert all(sim.node_of(f"vm{number}") in ("n2", "n3") for number in range(6))
    assert sim.leftovers() == []
    assert operator.restore()["phase"] == "Active"
    assert clean(sim)


def test_every_strategy_has_its_way(sim, operator, verdicts) -> None:
    sim.add_vm("live", "n1")
    sim.add_vm("stuck", "n1", **DISKS)
    sim.add_vm("maybe", "n1", strategy="LiveMigrateIfPossible")
    sim.add_vm("maybenot", "n1", strategy="LiveMigrateIfPossible", **DISKS)
    sim.add_vm("external", "n1", strategy="External")
    sim.add_vm("silent", "n1", strategy=None)
    for strategy in ("RerunOnFailure", "Manual", "Once"):
        sim.add_vm(strategy.lower(), "n1", strategy="None", run_strategy=strategy)
    found = operator.drain(allow_stop=True, external_timeout=1.0)
    assert found["phase"] == "Blocked"
    assert verdicts(found) == {
        "live": "moved",
        "stuck": "blocked",
        "maybe": "moved",
        "maybenot": "cold_moved",
        "external": "blocked",
        "silent": "cold_moved",
        "rerunonfailure": "stopped",
        "manual": "stopped",
        "once": "stopped",
    }
    assert row(found, "stuck")["reason"] == "DisksNotLiveMigratable"
    assert row(found, "external")["reason"] == "ExternalOwnerTimedOut"
    assert sim.leftovers() == []
    back = operator.restore()
    assert back["phase"] == "Active"
    for name in ("rerunonfailure", "manual", "once"):
        assert sim.node_of(name) in ("n2", "n3"), name
        assert sim.find(VMS, name)["spec"]["runStrategy"].lower() == name
    assert clean(sim)


def test_nothing_is_stopped_without_permission(sim, operator, verdicts) -> None:
    sim.add_vm("silent", "n1", strategy=None)
    sim.add_vm("maybenot", "n1", strategy="LiveMigrateIfPossible", **DISKS)
    found = operator.drain()
    assert verdicts(found) == {"silent": "blocked", "maybenot": "blocked"}
    assert row(found, "silent")["reason"] == "StopNotAllowed"
    assert evictions(sim) == []
    assert sim.node_of("silent") == sim.node_of("maybenot") == "n1"


def test_shutdown_of_what_cannot_migrate_starts_it_elsewhere(sim, operator, verdicts) -> None:
    sim.add_vm("stuck", "n1", **DISKS)
    found = operator.drain(on_not_migratable="shutdown", allow_stop=True)
    assert found["phase"] == "Drained" and verdicts(found) == {"stuck": "cold_moved"}
    assert evictions(sim) == []  # the webhook would refuse it for ever
    assert sim.node_of("stuck") in ("n2", "n3")


def test_a_guest_whose_condition_is_not_there_yet_is_left_alone(sim, operator) -> None:
    """Evicted before it, a LiveMigrateIfPossible guest is killed."""
    sim.add_vm("early", "n1", strategy="LiveMigrateIfPossible", wait=False, start_seconds="1000")
    sim.until(
        lambda: (
            (sim.world.store.find(VMIS, "default", "early") or {}).get("status", {}).get("phase")
            == "Scheduled"
        )
    )
    uid = sim.find(VMIS, "early")["metadata"]["uid"]
    found = operator.drain(allow_stop=True, unknown_timeout=1.0)
    assert (found["phase"], row(found, "early")["reason"]) == ("Blocked", "MigratableNotKnown")
    assert evictions(sim) == []
    assert sim.find(VMIS, "early")["metadata"]["uid"] == uid


def test_attempts_are_bounded_and_the_request_is_withdrawn(sim, operator) -> None:
    sim.add_vm("giveup", "n1", migrate_result="fail")
    found = operator.drain(max_attempts=2)
    giveup = row(found, "giveup")
    assert (giveup["verdict"], giveup["reason"]) == ("blocked", "AttemptsUsedUp")
    assert giveup["attempts"] == 2
    failed = [m for m in sim.all(VMIMS) if m["status"]["phase"] == "Failed"]
    assert len(failed) in (2, 3)  # the third one was deleted in its back-off
    assert sim.leftovers() == []
    time.sleep(1.0)  # ten seconds of the cluster: KubeVirt does not begin again
    assert sim.leftovers() == []


def test_a_failed_migration_is_tried_again_though_nothing_wakes_kubevirt(sim, operator) -> None:
    sim.world.heartbeat = 10000.0
    sim.add_vm("flaky", "n1", migrate_result="fail:1")
    time.sleep(1.2)  # the last heartbeat that was planned
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert row(found, "flaky")["attempts"] == 2


def test_an_abort_cancels_the_mark_first_and_leaves_nothing(sim, operator) -> None:
    for name in ("a", "b", "c"):
        sim.add_vm(name, "n1", migrate_seconds="300")
    assert operator.slice(Intent.DRAINED, 1.5)["phase"] == "Draining"
    sim.until(lambda: len(list(sim.world.store.all(VMIMS))) == 3)
    found = operator.restore()
    assert found["phase"] == "Active"
    assert {vm["verdict"] for vm in found["vms"]} == {"restored"}
    assert clean(sim)
    assert {sim.node_of(name) for name in "abc"} == {"n1"}
    for name in ("a", "b", "c"):
        cancel = sim.requests("PUT", f"/{name}/evacuate/cancel")
        assert [call.status for call in cancel] == [200]
        deleted = [
            call
            for call in sim.requests("DELETE", "virtualmachineinstancemigrations")
            if call.at < cancel[0].at
        ]
        assert len(deleted) < 3
    first_delete = min(c.at for c in sim.requests("DELETE", "virtualmachineinstancemigrations"))
    assert first_delete > min(c.at for c in sim.requests("PUT", "/evacuate/cancel"))
    assert len(sim.all(VMIMS)) <= 3  # none was made anew


def test_someone_elses_cordon_stays(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.edit(NODES, "n1", lambda o: o["spec"].update(unschedulable=True))
    found = operator.drain()
    assert found["phase"] == "Drained" and found["cordoned_by_others"]
    assert operator.restore()["phase"] == "Active"
    assert sim.find(NODES, "n1")["spec"].get("unschedulable") is True


def test_a_migration_of_others_is_adopted_and_left_to_them(sim, operator) -> None:
    sim.add_vm("theirs", "n1", migrate_seconds="60")
    body = {"metadata": {"name": "byhand", "namespace": "default"}, "spec": {"vmiName": "theirs"}}
    body["metadata"]["labels"] = {"kubevirt.io/vmi-name": "theirs"}
    sim.add("virtualmachineinstancemigrations", body)
    operator.slice(Intent.DRAINED, 1.5)
    assert evictions(sim) == []
    operator.slice(Intent.ACTIVE, 1.5)
    assert sim.requests("DELETE", "virtualmachineinstancemigrations") == []


def test_a_quota_is_named_and_waited_for(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    quota = {"metadata": {"name": "tight", "namespace": "default"}}
    sim.add("resourcequotas", {**quota, "spec": {"hard": {"pods": "1"}}})
    found = operator.slice(Intent.DRAINED, 2.0)
    assert row(found, "vm")["reason"] == "QuotaExceeded"
    assert row(found, "vm")["phase"] == "Pending"
    from kubesim.kinds import QUOTAS

    sim.edit(QUOTAS, "tight", lambda o: o["spec"]["hard"].update(pods="2"), "default")
    assert operator.drain()["phase"] == "Drained"


def test_what_waits_in_vain_is_withdrawn(sim, operator) -> None:
    """KubeVirt has no deadline for a quota: it would wait, and hold the mark, for ever."""
    sim.add_vm("vm", "n1")
    quota = {"metadata": {"name": "tight", "namespace": "default"}}
    sim.add("resourcequotas", {**quota, "spec": {"hard": {"pods": "1"}}})
    found = operator.drain(pending_timeout=1.0)
    assert (found["phase"], row(found, "vm")["reason"]) == ("Blocked", "QuotaExceeded")
    assert sim.leftovers() == []
    assert evictions(sim) == ["vm"]


def test_a_target_that_no_node_takes_is_named(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.world.paused.add("migration")
    operator.slice(Intent.DRAINED, 0.5)
    for name in ("n2", "n3"):
        sim.edit(
            NODES,
            name,
            lambda o: o["metadata"]["labels"].update({"kubevirt.io/schedulable": "false"}),
        )
    sim.world.paused.clear()
    sim.edit(VMIS, "vm", lambda o: o["metadata"]["labels"].update(wake="up"), "default")
    found = operator.slice(Intent.DRAINED, 4.0, run_id="run-1")
    vm = row(found, "vm")
    assert (vm["phase"], vm["reason"]) == ("Scheduling", "TargetUnschedulable")
    assert "0/3 nodes are available" in vm["message"]
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_without_another_node_nothing_is_asked_for(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update(unschedulable=True))
    found = operator.drain(unknown_timeout=1.0)
    assert row(found, "vm")["reason"] == "NoTargetWithCapacity"
    assert evictions(sim) == [] and sim.leftovers() == []


def test_what_is_on_its_way_here_is_waited_for_and_moved_on(sim, operator) -> None:
    sim.add_vm("guest", "n2", migrate_seconds="20")
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update(unschedulable=True))
    body = {"metadata": {"name": "here", "namespace": "default"}, "spec": {"vmiName": "guest"}}
    body["metadata"]["labels"] = {"kubevirt.io/vmi-name": "guest"}
    sim.add("virtualmachineinstancemigrations", body)
    sim.until(
        lambda: any(
            m["status"].get("phase") == "Running"
            for m in sim.world.store.all(VMIMS)
            if "status" in m
        )
    )
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update(unschedulable=False))
    first = operator.slice(Intent.DRAINED, 0.5)
    assert first["phase"] != "Drained"
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert row(found, "guest")["verdict"] == "moved"
    assert sim.node_of("guest") in ("n2", "n3")


def test_a_killed_run_is_carried_on_by_the_next(sim, operator) -> None:
    for number in range(4):
        sim.add_vm(f"vm{number}", "n1", migrate_seconds="10")
    operator.slice(Intent.DRAINED, 1.0)
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert evictions(sim) == [f"vm{number}" for number in range(4)]


def test_a_run_that_was_taken_over_stops(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="300")
    operator.slice(Intent.DRAINED, 1.0, run_id="first")
    operator.slice(Intent.DRAINED, 0.5, run_id="second")
    request = operator.request(Intent.DRAINED, "first", 1.0)
    from dataclasses import replace

    with pytest.raises(service.Superseded, match="second"):
        service.run_slice(replace(request, begun=True))
    operator.restore()


def test_a_lease_that_another_holds_is_respected(sim, operator) -> None:
    from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.client import (
        Client,
    )
    from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.lock import Lock

    client = Client(operator.auth)
    first = Lock(client, "default", "n1", "first", 60)
    first.take(1.0)
    with pytest.raises(LockHeld, match="first"):
        Lock(client, "default", "n1", "second", 60).take(0.6)
    first.give_back()
    Lock(client, "default", "n1", "second", 1).take(0.6)
    Lock(client, "default", "n1", "third", 60).take(5.0)  # the second one died


def test_a_missing_right_is_named(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    rules = sim.api.access.rules["maintenance"]
    without = [r for r in rules if "pods/eviction" not in r["resources"]]
    sim.api.access.rules["maintenance"] = without
    found = operator.drain(max_attempts=1)
    vm = row(found, "vm")
    assert vm["verdict"] == "blocked"
    assert "create pods/eviction" in vm["message"]
    sim.api.access.rules["maintenance"] = []
    with pytest.raises(AccessDenied, match="get nodes"):
        operator.slice(Intent.DRAINED)
    sim.api.access.expired.add("maintenance")
    with pytest.raises(AccessDenied, match="credentials"):
        operator.slice(Intent.DRAINED)


def test_trouble_of_the_api_is_everyday(sim, operator) -> None:
    for number in range(4):
        sim.add_vm(f"vm{number}", "n1")
    faults = sim.api.faults
    faults.drop_watches = 0.2
    faults.plan(500, 2, lambda method, _path: method == "GET")
    faults.plan(429, 1, lambda method, path: method == "GET", retry_after=1)
    faults.plan(503, 2, lambda method, _path: method == "PATCH")
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert evictions(sim) == [f"vm{number}" for number in range(4)]


def test_history_that_is_gone_is_listed_again(sim, operator) -> None:
    from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.cache import Cache
    from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.client import (
        Client,
    )

    sim.api.faults.drop_watches = 0.3
    cache = Cache(Client(operator.auth), "/api/v1/pods", lambda: None)
    cache.start()
    sim.edit(NODES, "n1", lambda o: o["metadata"]["labels"].update(some="change"))
    sim.call(sim.world.store.compact)
    time.sleep(0.5)
    sim.add_vm("vm", "n1")
    end = time.monotonic() + 5
    while not cache.items() and time.monotonic() < end:
        time.sleep(0.05)
    cache.stop()
    assert len(cache.items()) == 1


def test_virt_api_down_is_a_reason_and_no_success(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.world.virt_api_down = True
    found = operator.drain(max_attempts=1)
    assert found["phase"] == "Blocked"
    assert "WebhookUnavailable" in str(row(found, "vm"))
    assert sim.node_of("vm") == "n1"


def test_a_node_that_is_not_ready_is_not_drained(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.edit(
        NODES,
        "n1",
        lambda o: o["status"].update(
            conditions=[{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
        ),
    )
    found = operator.drain()
    assert found["phase"] == "Blocked" and found["certificate"] is None
    assert found["findings"][0]["reason"] == "NodeUnreadable"
    assert evictions(sim) == []


def test_a_node_that_does_not_exist(sim, operator) -> None:
    from dataclasses import replace

    with pytest.raises(NodeUnknown, match="n9"):
        service.run_slice(replace(operator.request(Intent.DRAINED, "r", 1.0), node="n9"))


def test_no_server_is_one_clear_error(operator, tmp_path) -> None:
    from dataclasses import replace

    nowhere = {**operator.auth, "kubeconfig": None, "host": "http://127.0.0.1:9", "api_key": "x"}
    with pytest.raises(KubeError, match="no answer"):
        service.plan(replace(operator.request(Intent.DRAINED, "r", 1.0), auth=nowhere))


def test_a_plan_only_reads(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    before = len(sim.log)
    found = service.plan(operator.request(Intent.DRAINED, "r", 1.0))
    assert [step["do"] for step in found["planned"]] == ["cordon", "migrate"]
    assert {call.method for call in sim.log[before:]} == {"GET"}
    seen = service.look(operator.request(Intent.DRAINED, "r", 1.0))
    assert seen["kubevirt"]["parallel_outbound_migrations_per_node"] == 2
    assert seen["target_exists"] and not seen["cordoned"]


@pytest.mark.parametrize("version", [(1, 6), (1, 8)])
def test_older_versions(version, tmp_path, make_operator) -> None:
    """Up to 1.8 KubeVirt makes migrations a few at a time; evacuate/cancel came with 1.7."""
    with Kubesim(scale=10, version=version) as sim:
        for name in ("n1", "n2", "n3"):
            sim.add_node(name)
        for number in range(4):
            sim.add_vm(f"vm{number}", "n1", migrate_seconds="2")
        operator = make_operator(sim, sim.kubeconfig(tmp_path / "kubeconfig"))
        assert operator.drain()["phase"] == "Drained"


def test_a_cordon_that_others_took_over_stays(sim, operator) -> None:
    """Somebody removed our note from the cordon while we decided to take it away."""
    from ansible_collections.virtops.maintenance.plugins.module_utils._core.actions import (
        Action,
        Do,
    )
    from ansible_collections.virtops.maintenance.plugins.module_utils._core.record import NodeRecord
    from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.client import (
        Client,
    )
    from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.platform import (
        KubeVirtPlatform,
    )

    sim.edit(NODES, "n1", lambda o: o["spec"].update(unschedulable=True))
    platform = KubeVirtPlatform(Client(operator.auth), "n1")
    assert platform.apply([Action(Do.UNCORDON, "n1")], NodeRecord("n1", "r")) == {}
    assert sim.find(NODES, "n1")["spec"].get("unschedulable") is True


def test_a_cordon_set_between_look_and_act_is_theirs(sim, operator) -> None:
    from ansible_collections.virtops.maintenance.plugins.module_utils._core.actions import (
        Action,
        Do,
    )
    from ansible_collections.virtops.maintenance.plugins.module_utils._core.record import NodeRecord
    from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.client import (
        Client,
    )
    from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.platform import (
        KubeVirtPlatform,
    )

    record = NodeRecord("n1", "r", cordoned_by_us=True)
    sim.edit(NODES, "n1", lambda o: o["spec"].update(unschedulable=True))
    platform = KubeVirtPlatform(Client(operator.auth), "n1")
    platform.apply([Action(Do.CORDON, "n1")], record)
    assert not record.cordoned_by_us
    assert "virtops.maintenance/cordon" not in sim.find(NODES, "n1")["metadata"]["annotations"]


def test_a_marked_vm_without_a_migration_is_woken_up(sim, operator) -> None:
    """Nothing but a change of the node tells KubeVirt to go on, and nothing else changes it."""
    sim.world.heartbeat = 10000.0
    sim.add_vm("vm", "n1")
    time.sleep(1.2)
    sim.world.paused.add("evacuation")
    unpause = threading.Timer(1.0, sim.world.paused.clear)
    unpause.start()
    found = operator.slice(Intent.DRAINED, 12.0)
    unpause.join()
    assert found["phase"] == "Drained"
    assert row(found, "vm")["attempts"] == 1


def test_an_abort_leaves_no_retry_of_kubevirt(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_result="fail:1", migrate_seconds="1")
    operator.slice(Intent.DRAINED, 1.5)
    sim.until(
        lambda: (
            sim.world.store.find(VMIS, "default", "vm")["metadata"]["annotations"].get("lab/failed")
            == "1"
        )
    )
    sim.edit(
        VMIS,
        "vm",
        lambda o: o["metadata"]["annotations"].update({"lab/migrate-seconds": "1000"}),
        "default",
    )
    operator.slice(Intent.DRAINED, 4.0, run_id="run-1")
    assert operator.restore()["phase"] == "Active"
    assert clean(sim)


def test_the_certificate_waits_for_the_source_pods(sim, operator) -> None:
    from kubesim.kinds import PODS

    sim.add_vm("vm", "n1")
    pod = next(p for p in sim.all(PODS))["metadata"]["name"]
    found = operator.drain()
    assert found["phase"] == "Drained"
    ended = sim.find(PODS, pod)
    assert ended is None or ended["status"]["phase"] == "Succeeded"


def test_the_certificate_is_read_and_not_remembered(sim, operator) -> None:
    """After the last VM has gone the node is listed again, twice."""
    sim.add_vm("vm", "n1")
    operator.drain()
    lists = [c for c in sim.requests("GET", "/virtualmachineinstances") if "nodeName" in c.query]
    plain = [c for c in lists if "watch" not in c.query]
    assert len(plain) >= 3
