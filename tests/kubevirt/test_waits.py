"""What a migration waits for, told in words."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.observe import observe
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import check_mode, service
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.waiting import causes
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.waiting.read import WaitReader
from ansible_collections.virtops.maintenance.tests.kubevirt.one_vm import phases
from kubesim import templates
from kubesim.kinds import EVENTS, NAMESPACES, NODES, PODS, QUOTAS, VMIMS, VMIS
from kubesim.reading import add_budget, clean, evictions, free_slots, full_quota, launcher, row, take_slots

pytestmark = pytest.mark.full
OUTBOUND = "parallelOutboundMigrationsPerNode"


def test_a_quota_is_named_and_waited_for(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    pods = full_quota(sim)
    found = operator.slice(Intent.DRAINED, 2.0)
    assert row(found, "vm")["reason"] == "QuotaExceeded"
    assert row(found, "vm")["phase"] == "Pending"

    sim.edit(QUOTAS, "tight", lambda o: o["spec"]["hard"].update(pods=str(pods + 1)), "default")
    assert operator.drain()["phase"] == "Drained"


def test_what_waits_in_vain_is_withdrawn(sim, operator) -> None:
    """KubeVirt has no deadline for a quota: it would wait, and hold the mark, for ever."""
    sim.add_vm("vm", "n1")
    full_quota(sim)
    found = operator.drain(pending_timeout=1.0)
    assert (found["phase"], row(found, "vm")["reason"]) == ("Blocked", "QuotaExceeded")
    assert sim.leftovers() == []
    assert evictions(sim) == ["vm"]


def test_a_target_that_no_node_takes_is_named(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.world.paused.add("migration")
    operator.slice(Intent.DRAINED, 0.5)
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["metadata"]["labels"].update({"kubevirt.io/schedulable": "false"}))
    sim.world.paused.clear()
    sim.edit(VMIS, "vm", lambda o: o["metadata"]["labels"].update(wake="up"), "default")
    found = operator.slice(Intent.DRAINED, 4.0, run_id="run-1")
    vm = row(found, "vm")
    assert (vm["phase"], vm["reason"]) == ("Scheduling", "TargetUnschedulable")
    assert "0/3 nodes are available" in vm["message"]
    assert vm["message"].endswith(". KubeVirt ends an attempt whose pod finds no node within 300 s."), vm
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_without_another_node_nothing_is_asked_for(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update(unschedulable=True))
    found = operator.drain(unknown_timeout=1.0)
    assert row(found, "vm")["reason"] == "NoTargetWithCapacity"
    assert evictions(sim) == [] and sim.leftovers() == []


def tolerant(sim, name: str, toleration: dict[str, str]) -> None:
    made = templates.vm(name, "n1")
    made["spec"]["template"]["spec"]["tolerations"] = [toleration]
    sim.add("virtualmachines", made)
    sim.until(lambda: sim.running(name))


def dedicated(sim, *nodes: str) -> None:
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    for name in nodes:
        sim.edit(NODES, name, lambda o: o["spec"].update(taints=[taint]))


def exists(operator) -> bool:
    return bool(check_mode.read_node(operator.request(Intent.DRAINED, "r", 1.0))["target_exists"])


def test_a_taint_keeps_those_away_that_do_not_tolerate_it(sim, operator) -> None:
    tolerant(sim, "db", {"key": "dedicated", "operator": "Exists"})
    tolerant(sim, "other", {"key": "dedicated", "value": "web"})
    sim.add_vm("plain", "n1")
    dedicated(sim, "n2", "n3")
    assert exists(operator)
    found = operator.drain(unknown_timeout=1.0)
    assert found["phase"] == "Blocked" and evictions(sim) == ["db"]
    assert row(found, "db")["verdict"] == "moved"
    for name in ("plain", "other"):
        assert row(found, name)["reason"] == "NoTargetWithCapacity"
        text = "any other node: n2 has dedicated=db:NoSchedule; n3 has dedicated=db:NoSchedule."
        assert text in row(found, name)["message"]
    assert not exists(operator)
    # One node for all is enough, and it is looked for beyond those that do not take all.
    sim.edit(NODES, "n3", lambda o: o["spec"].pop("taints"))
    assert operator.drain()["phase"] == "Drained"


def test_a_taint_that_only_discourages_keeps_nobody_away(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    taint = {"key": "busy", "effect": "PreferNoSchedule"}
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update(taints=[taint]))
    assert operator.drain()["phase"] == "Drained"


@pytest.mark.three_nodes
def test_of_a_node_without_vms_it_is_asked_who_takes_any(sim, operator) -> None:
    assert exists(operator)
    dedicated(sim, "n2", "n3")
    assert not exists(operator)


@pytest.mark.three_nodes
def test_a_pod_may_tolerate_more_than_its_vm_says(sim, operator) -> None:
    """The cluster adds what it adds by default in a namespace."""
    sim.add_vm("vm", "n1")
    dedicated(sim, "n2", "n3")
    assert not exists(operator)
    pod = launcher(sim)
    added = [{"key": "dedicated", "operator": "Exists"}]
    name = pod["metadata"]["name"]
    sim.edit(PODS, name, lambda o: o["spec"].update(tolerations=added), "default")
    assert exists(operator)


def test_who_tolerates_a_cordon_is_not_put_there(sim, operator) -> None:
    tolerant(sim, "vm", {"operator": "Exists"})
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update(unschedulable=True))
    found = operator.drain(unknown_timeout=1.0)
    assert "No other node is Ready" in row(found, "vm")["message"] and evictions(sim) == []


def test_those_who_hold_the_slots_are_named(sim, operator) -> None:
    for name in ("a", "b", "c"):
        sim.add_vm(name, "n1", migrate_seconds="1000")

    def waits(found: dict[str, Any]) -> list[str]:
        return [vm["message"] for vm in found["vms"] if vm["reason"] == "WaitingForSlot"]

    (text,) = waits(operator.drain_until(lambda found: "Running since 20" in str(waits(found))))
    assert "2 of 2 outbound migrations of n1 are taken: default/" in text


def test_those_who_hold_the_slots_of_the_cluster_are_named(sim, operator) -> None:
    sim.configure(migrations={"parallelMigrationsPerCluster": 1})
    sim.add_vm("far", "n2", migrate_seconds="1000")
    meta = {"name": "stuck", "namespace": "default", "labels": {"kubevirt.io/vmi-name": "far"}}
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": "far"}})
    sim.add_vm("vm", "n1")
    found = row(operator.slice(Intent.DRAINED, 5.0), "vm")
    assert found["reason"] == "WaitingForSlot"
    assert "1 of 1 migrations of the cluster are taken: default/far" in found["message"]


def test_a_virt_controller_that_is_away_is_named_when_the_vmis_say_that_their_moves_are_over(
    sim, operator, same_clock
) -> None:
    """It exits when the API was away for 12 s. virt-handlers go on, and only it closes the migration objects."""
    for name in ("a", "b", "c"):
        sim.add_vm(name, "n1", migrate_seconds="3")
    operator.slice(Intent.DRAINED, 0.3, run_id="r")
    sim.until(lambda: [m["status"].get("phase") for m in sim.world.store.all(VMIMS)].count("Running") == 2)
    sim.virt_controller(runs=False)
    for _slice in range(10):
        found = operator.slice(Intent.DRAINED, 4.0, run_id="r")
        if "VirtControllerSilent" in str(found):
            break
    (waits,) = [vm for vm in found["vms"] if vm["verdict"] == "pending"]
    assert waits["reason"] == "VirtControllerSilent", found
    assert re.fullmatch(
        r"default/.: its VMI says that kubevirt-evacuation-\w+ was over at 20\S+Z, and it is still Running: "
        r"virt-controller lags behind\.",
        waits["message"],
    )
    assert [vm["verdict"] for vm in found["vms"]].count("moved") == 2
    sim.virt_controller(runs=True)
    assert operator.drain()["phase"] == "Drained"


def test_a_virt_controller_that_is_away_when_a_vm_is_marked_is_named(sim, operator) -> None:
    """Nothing but the condition that it gives a marked VM tells it from one that makes no migration yet."""
    sim.add_vm("vm", "n1")
    sim.virt_controller(runs=False)
    told = {row(operator.slice(Intent.DRAINED, 12.0, run_id="r"), "vm")["reason"] for _slice in range(2)}
    assert told == {"VirtControllerSilent"}
    sim.virt_controller(runs=True)
    assert operator.drain()["phase"] == "Drained"


@pytest.mark.parametrize(
    ("phase", "state", "said"),
    [
        ("", {}, "m was created at 2026-03-01T10:00:00Z and has no phase"),
        (
            "PreparingTarget",
            {"targetNodeAddress": "10.0.0.1"},
            "its target is prepared, and m is still PreparingTarget",
        ),
        ("PreparingTarget", {}, "virt-handler on n2 has not prepared the target"),
        ("TargetReady", {"startTimestamp": "2026-03-01T10:00:00Z"}, "m runs, and it is still TargetReady"),
        ("TargetReady", {}, "virt-handler on n1 has not begun"),
        (
            "Running",
            {"failed": True, "endTimestamp": "2026-03-01T10:00:00Z"},
            "m failed at 2026-03-01T10:00:00Z, and it is still Running",
        ),
    ],
)
def test_who_does_not_follow_is_told_by_what_the_vmi_says(phase: str, state: dict[str, str], said: str) -> None:
    meta = {"namespace": "default", "name": "m", "uid": "m", "creationTimestamp": "2026-03-01T10:00:00Z"}
    nodes = {"migrationUid": "m", "sourceNode": "n1", "targetNode": "n2", **state}
    vmi = {"metadata": {**meta, "name": "vm"}, "spec": {}, "status": {"phase": "Running", "migrationState": nodes}}
    migration = {"metadata": meta, "spec": {"vmiName": "vm"}, "status": {"phase": phase}}
    found = causes.first(causes.Known(vmi, [migration], 1e10))
    assert found is not None and said in found.message
    assert (found.reason.value == "VirtControllerSilent") == ("virt-controller" in found.message)


def test_the_back_off_is_told(sim, operator) -> None:
    sim.add_vm("flaky", "n1", migrate_result="fail", migrate_seconds="1")
    found = operator.drain_until(lambda found: row(found, "flaky")["reason"] == "MigrationBackoff", 0.5)
    assert "KubeVirt's back-off is " in row(found, "flaky")["message"]


def test_the_quota_is_told_by_its_refusal_or_by_its_numbers(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    meta = {"name": "tight", "namespace": "default"}
    state = {"hard": {"pods": "1"}, "used": {"pods": "1"}}
    sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": {"pods": "1"}}, "status": state})
    found = row(operator.slice(Intent.DRAINED, 5.0, run_id="r"), "vm")
    assert "exceeded quota: tight" in found["message"]  # the server's words
    for rule in sim.api.access.rules["maintenance"]:
        if "events" in rule["resources"]:
            rule["verbs"] = ["create"]
    found = row(operator.slice(Intent.DRAINED, 2.0, run_id="r"), "vm")
    assert found["message"] == "Namespace default: quota tight: pods 1 of 1 used."


@pytest.mark.parametrize(
    ("phase", "blamed"),
    [
        ("PreparingTarget", r"virt-handler on n[23] has not prepared the target \(pod virt-launcher-vm-\w+\)"),
        ("TargetReady", r"n[23] is ready \(pod virt-launcher-vm-\w+\), and virt-handler on n1 has not begun"),
    ],
)
def test_a_target_that_is_never_ready_is_told_and_given_up(sim, operator, phase, blamed) -> None:
    """KubeVirt has no deadline for it, and it holds its slot for ever. One of two virt-handlers is to blame."""
    sim.add_vm("vm", "n1", prepare="hang" if phase == "PreparingTarget" else "ok")
    if phase == "TargetReady":
        notes = {"lab/virt-handler-down": "true"}
        sim.edit(NODES, "n1", lambda o: o["metadata"]["annotations"].update(notes))
    found = operator.drain(pending_timeout=3.0)
    vm = row(found, "vm")
    assert (found["phase"], vm["reason"], vm["plane"]) == ("Blocked", "TargetPreparation", "control")
    assert re.match(rf"{blamed}: {phase} since ", vm["message"]), vm
    assert vm["remedy"] == "Check the virt-handler that the message names. Deleting the target pod ends this attempt."
    assert sim.leftovers() == [] and sim.node_of("vm") == "n1"


def test_a_preparation_that_has_just_begun_is_not_called_stuck(sim, operator) -> None:
    """Each slice begins with a first look; how long it has been so, the stamps of the migration tell."""
    sim.add_vm("vm", "n1", prepare="hang")
    operator.slice(Intent.DRAINED, 1.0, run_id="r")
    sim.until(lambda: "PreparingTarget" in phases(sim))
    vm = row(operator.slice(Intent.DRAINED, 1.0, run_id="r"), "vm")
    assert (vm["phase"], vm["reason"]) == ("PreparingTarget", ""), vm


@pytest.mark.parametrize(("phase", "reason"), [("Scheduling", "TargetPodNotReady"), ("Running", "")])
def test_a_pod_that_was_read_before_its_migration_says_nothing_of_it(phase: str, reason: str) -> None:
    meta = {"namespace": "default", "name": "vm", "creationTimestamp": "2026-03-01T10:00:00Z"}
    pod = {"metadata": {**meta, "labels": {"kubevirt.io/migrationJobUID": "m"}}, "status": {"phase": "Pending"}}
    migration = {"metadata": {**meta, "uid": "m"}, "status": {"phase": phase}}
    found = causes.first(causes.Known({"metadata": meta, "spec": {}}, [migration], 1e10, pods=[pod]))
    assert (found.reason.value if found else "") == reason


@pytest.mark.parametrize("down", [(), ("n2",)])
def test_a_node_that_works_is_not_to_be_fenced_for_a_pod_that_ends(down: tuple[str, ...]) -> None:
    """Of a migration that has just failed: its pod takes 11 to 18 s."""
    vmi = {"metadata": {"namespace": "default", "name": "vm"}, "status": {"nodeName": "n1"}}
    meta = {"namespace": "default", "name": "p", "labels": {"kubevirt.io": "virt-launcher"}}
    pod = {"metadata": meta, "spec": {"nodeName": "n2"}, "status": {"phase": "Running"}}
    said = causes.not_begun(vmi, "", [pod], down).message
    assert "Pod default/p of an earlier migration has not ended" in said and "n2" in said
    assert ("out-of-service" in said) == bool(down)


def test_a_cpu_model_that_no_other_node_has_is_told(sim, operator) -> None:
    told = [{"type": "PodScheduled", "status": "False"}]
    told[0]["message"] = "0/3 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    spec = {"nodeSelector": {"cpu-model-migration.node.kubevirt.io/Skylake": "true"}}
    meta = {"namespace": "default", "name": "vm"}
    labels = {"kubevirt.io/migrationJobUID": "m"}
    status = {"phase": "Pending", "conditions": told}
    pod = {"metadata": {**meta, "labels": labels}, "spec": spec, "status": status}
    migration = {"metadata": {**meta, "uid": "m"}, "status": {"phase": "Scheduling"}}
    vmi = {"metadata": meta, "spec": {}}
    finding = causes.first(causes.Known(vmi, [migration], 0.0, pods=[pod]))
    assert finding.reason.value == "HostModelNotElsewhere" and "Skylake" in finding.message


def test_a_budget_over_a_vm_that_shall_stop_is_told(sim, operator) -> None:
    sim.add_vm("silent", "n1", strategy="None", labels={"tier": "db"})
    add_budget(sim, "strict", 1, tier="db")
    found = operator.drain(allow_stop=True, shutdown_timeout=2.0)
    assert found["phase"] == "Blocked"
    assert row(found, "silent")["reason"] == "DisruptionBudget"
    assert sim.node_of("silent") == "n1"


PODSECURITY = 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'
LIMITRANGE = "maximum memory usage per Container is 1Gi, but limit is 2Gi"


ENFORCED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture
def same_clock(sim, monkeypatch) -> None:
    """How long something waits is told by the stamps of the cluster, whose time goes faster than ours."""
    read = functools.partial(WaitReader, wall=sim.world.clock.now)
    monkeypatch.setattr(observe, "WaitReader", read)


def test_a_target_pod_that_is_refused_after_a_back_off_is_told_without_an_event(sim, operator, same_clock) -> None:
    """PodSecurity: nothing but an event on the VMI tells why there is no target pod. The back-off has used these up."""
    sim.add_vm("vm", "n1", migrate_result="fail", migrate_seconds="1")
    _until(operator, "MigrationBackoff")
    # On a slow machine the first back-off, short as it is after its target pod has ended, leaves some.
    sim.until(lambda: sum(e["count"] for e in sim.world.store.all(EVENTS) if e["reason"] == "MigrationBackoff") >= 20)
    sim.world.pods_refused["default"] = PODSECURITY
    sim.edit(NAMESPACES, "default", lambda o: o["metadata"]["labels"].update(ENFORCED))
    found = _until(operator, "TargetPodRefused")
    assert not [e for e in sim.all(EVENTS) if e["reason"] == "FailedCreate"]
    assert re.fullmatch(
        r"KubeVirt has created no target pod since \S+Z, although 0 of 2 outbound migrations of n1 and 0 of 5 of the "
        r"cluster are taken; virt-controller's log has the reason\. The API gets only 25 of its events about a VM, "
        r"then one every 300 s; its back-off took 2\d\. Namespace default enforces PodSecurity restricted\.",
        found["message"],
    ), found
    ended = operator.drain(pending_timeout=1.0, max_attempts=9)
    assert (ended["phase"], row(ended, "vm")["reason"]) == ("Blocked", "TargetPodRefused")
    assert "should start" not in str(ended) and sim.leftovers() == []


def _until(operator, reason: str) -> dict[str, Any]:
    """The VM's row when it has this reason."""
    for _slice in range(20):
        found = row(operator.slice(Intent.DRAINED, 1.0, "r", max_attempts=9), "vm")
        if found["reason"] == reason:
            return found
    raise AssertionError(found)


@pytest.mark.parametrize("why", [PODSECURITY, LIMITRANGE])
def test_a_target_pod_that_is_always_refused_ends_at_pending_timeout_however_many_slices_it_takes(
    sim, operator, why
) -> None:
    """Each slice begins without knowing it: the events are read when nothing else tells."""
    sim.add_vm("vm", "n1")
    sim.world.pods_refused["default"] = why
    found = operator.drain(pending_timeout=8.0)
    vm = row(found, "vm")
    assert (found["phase"], vm["verdict"], vm["reason"]) == ("Blocked", "blocked", "TargetPodRefused"), vm
    # Each refusal names a new pod: the same words all the time.
    assert vm["message"] == f"Error creating pod: the target pod is forbidden: {why}"
    sim.world.pods_refused.clear()
    assert operator.drain()["phase"] == "Drained"


def test_what_an_earlier_slice_has_told_is_told_by_the_first_look_of_the_next(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.world.pods_refused["default"] = PODSECURITY
    found = row(operator.slice(Intent.DRAINED, 5.0, run_id="run-1"), "vm")
    assert found["reason"] == "TargetPodRefused"
    request = operator.request(Intent.DRAINED, "run-1", 0.01)
    found = row(service.run_slice(replace(request, begun=True)), "vm")
    assert found["reason"] == "TargetPodRefused", found


def test_a_mark_for_which_no_migration_is_made_is_told_and_taken_back(sim, operator) -> None:
    """KubeVirt has no deadline for it: the mark would stand for ever."""
    sim.add_vm("vm", "n1")
    sim.world.paused.add("evacuation")
    text = "Error creating a Migration: quota of migrations is used up"
    vmi = sim.find(VMIS, "vm")
    sim.call(lambda: sim.world.event(vmi, "FailedCreate", text, "Warning"))
    assert row(operator.slice(Intent.DRAINED, 6.0, "r"), "vm")["reason"] == "EvacuationNotStarted"
    again = service.run_slice(replace(operator.request(Intent.DRAINED, "r", 0.01), begun=True))
    assert row(again, "vm")["reason"] == "EvacuationNotStarted"
    found = operator.drain(pending_timeout=1.0)
    vm = row(found, "vm")
    assert (found["phase"], vm["reason"]) == ("Blocked", "EvacuationNotStarted")
    assert text in vm["message"] and sim.leftovers() == []
    sim.world.paused.clear()
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_what_the_claims_let_expect_is_told_while_the_condition_is_missing(sim, operator) -> None:
    sim.add("persistentvolumeclaims", templates.claim("disk", "ReadWriteOnce"))
    sim.add_vm("vm", "n1", wait=False, start_seconds="1000")
    sim.until(lambda: sim.world.store.find(VMIS, "default", "vm") is not None)
    volume = {"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}
    sim.call(lambda: sim.world.store.change(VMIS, "default", "vm", lambda o: o["spec"].update(volumes=[volume])))
    sim.until(lambda: sim.world.store.find(VMIS, "default", "vm")["status"].get("nodeName"))
    vm = row(operator.slice(Intent.DRAINED, 1.0), "vm")
    assert vm["reason"] == "MigratableNotKnown"
    assert "disk has ReadWriteOnce" in vm["message"]
    assert evictions(sim) == []


def test_the_settings_that_apply_stand_with_each_vm(sim, operator) -> None:
    sim.configure(migrations={"bandwidthPerMigration": "64Mi"})
    sim.add_vm("big", "n1", memory="8Gi", labels={"size": "big"})
    sim.add_vm("small", "n1")
    selectors = {"virtualMachineInstanceSelector": {"size": "big"}}
    spec = {"selectors": selectors, "allowPostCopy": False, "bandwidthPerMigration": "1Mi"}
    sim.add("migrationpolicies", {"metadata": {"name": "slow"}, "spec": spec})
    found = operator.drain()
    big, small = row(found, "big")["settings"], row(found, "small")["settings"]
    assert (big["policy"], big["bandwidth_mib_s"], big["allow_post_copy"]) == ("slow", 1, False)
    assert "8192 MiB of memory at 1 MiB/s take 8192 s" in big["warning"]
    assert (small["policy"], small["bandwidth_mib_s"], small["warning"]) == ("", 64, "")
    assert len(sim.requests("GET", "/migrationpolicies")) == 1  # once a run, not once a slice


@pytest.mark.parametrize("limit", [0, -1])
@pytest.mark.parametrize("name", ["parallelMigrationsPerCluster", OUTBOUND])
def test_a_limit_that_lets_none_begin_is_said_and_the_drain_ends(sim, operator, name, limit) -> None:
    sim.configure(migrations={name: limit})
    sim.add_vm("vm", "n1")
    found = operator.drain(unknown_timeout=1.0, pending_timeout=1.0)
    vm = row(found, "vm")
    assert (found["phase"], vm["reason"]) == ("Blocked", "MigrationLimitZero"), found
    assert vm["message"] == f"{name} is {limit}." and evictions(sim) == []
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_a_limit_that_is_taken_away_in_mid_drain_ends_it_too(sim, operator) -> None:
    """What was requested before is withdrawn after pending_timeout."""
    for name in ("a", "b", "c"):
        sim.add_vm(name, "n1", migrate_seconds="1000")
    operator.slice(Intent.DRAINED, 2.0, run_id="r")
    assert len(evictions(sim)) == 3
    sim.configure(migrations={OUTBOUND: -1})
    waits = [vm for vm in operator.slice(Intent.DRAINED, 2.0, "r")["vms"] if vm["message"]]
    assert [vm["reason"] for vm in waits] == ["MigrationLimitZero"]
    found = operator.slice(Intent.DRAINED, 12.0, "r", pending_timeout=0.5, unknown_timeout=0.5)
    (stays,) = [vm for vm in found["vms"] if vm["verdict"] == "blocked"]
    assert stays["reason"] == "MigrationLimitZero"


def test_settings_that_may_not_be_read_end_no_drain(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    rules = sim.api.access.rules["maintenance"]
    sim.api.access.rules["maintenance"] = [r for r in rules if "migrationpolicies" not in r["resources"]]
    take_slots(sim)
    found = operator.slice(Intent.DRAINED, 1.0)
    assert row(found, "vm")["settings"] == {}
    free_slots(sim)
    assert operator.drain()["phase"] == "Drained"


def test_without_a_limit_of_bandwidth_no_vm_is_too_big(sim, operator) -> None:
    sim.configure(migrations={"bandwidthPerMigration": "0Mi"})
    sim.add_vm("big", "n1", memory="64Gi")
    told = row(operator.drain(), "big")["settings"]
    assert (told["bandwidth_mib_s"], told["warning"]) == (0, "")
