"""What real control and data planes did that no replay compares: moments, fields, events.

The clock stands still and is moved on, so a moment is one of simulated time.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from kubesim import Kubesim, words
from kubesim.kinds import EVENTS, NODES, PODS, QUOTAS, VMIMS, VMIS, VMS, Kind
from kubesim.store import Change, Obj

CLOSED = "virError(Code=1, Domain=7, Message='internal error: client socket is closed')"
ENDED = "Migration failed because target pod shutdown during migration"
APPLIED = {"maxDowntimeMs": 900, "allowWorkloadDisruption": False, "unsafeMigrationOverride": False}
REMOVED = "Migration target pod was removed during active migration."


@pytest.fixture
def sim() -> Iterator[Kubesim]:
    with Kubesim(scale=0) as cluster:
        for name in ("n1", "n2", "n3"):
            cluster.add_node(name)
        yield cluster
        assert cluster.world.broken == []


def migrate(sim: Kubesim, vm: str, name: str = "m", **notes: str) -> None:
    knobs = {f"lab/{key.replace('_', '-')}": value for key, value in notes.items()}
    meta = {"name": name, "namespace": "default", "finalizers": [words.FINALIZER], "annotations": knobs}
    meta["labels"] = {words.VMI_NAME: vm}
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": vm}})


def of(sim: Kubesim, kind: Kind, name: str = "vm") -> Obj:
    return sim.find(kind, name) or {"metadata": {}, "status": {"phase": "gone"}}


def phase(sim: Kubesim, name: str = "m") -> str:
    return words.phase(of(sim, VMIMS, name))


def until_phase(sim: Kubesim, wanted: str, name: str = "m", seconds: float = 20.0) -> None:
    sim.until(lambda: words.phase(sim.world.store.get(VMIMS, "default", name)) == wanted, seconds)


# The queue


def limits(sim: Kubesim, number: int) -> None:
    both = ("parallelMigrationsPerCluster", "parallelOutboundMigrationsPerNode")
    sim.configure(migrations=dict.fromkeys(both, number))


def active(sim: Kubesim) -> list[str]:
    waits = ("", "Pending", *words.FINAL)
    return sorted(m["spec"]["vmiName"] for m in sim.all(VMIMS) if words.phase(m) not in waits)


def test_limits_that_change_while_some_wait(sim: Kubesim) -> None:
    """Recording 25: what runs goes on; fewer may begin from now on, or more, within a second."""
    limits(sim, 2)
    for number in range(6):
        sim.add_vm(f"v{number}", "n1", migrate_seconds="3" if number else "2")
        migrate(sim, f"v{number}", f"m{number}")
    sim.until(lambda: len(active(sim)) == 2)
    limits(sim, 1)
    until_phase(sim, "Succeeded", "m0")
    sim.advance(0.5)
    assert active(sim) == ["v1"]
    until_phase(sim, "Succeeded", "m1")
    sim.advance(0.2)
    assert active(sim) == ["v2"]
    limits(sim, 4)
    sim.advance(1.1)
    assert active(sim) == ["v2", "v3", "v4", "v5"]


def test_a_migration_that_a_quota_holds_back_takes_no_place(sim: Kubesim) -> None:
    """Recording 27: limit 2, two before it; the next one goes through."""
    limits(sim, 2)
    for name in ("q1", "q2", "o1"):
        sim.add_vm(name, "n1", namespace="other" if name == "o1" else "default")
    spec: Obj = {"hard": {"pods": "2"}}
    sim.add("resourcequotas", {"metadata": {"name": "tight", "namespace": "default"}, "spec": spec})
    for name in ("q1", "q2"):
        migrate(sim, name, name)
    meta: dict[str, Any] = {"name": "o1", "namespace": "other", "finalizers": [words.FINALIZER]}
    sim.advance(2)
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": "o1"}})
    sim.until(lambda: words.final(sim.world.store.get(VMIMS, "other", "o1")))
    assert (phase(sim, "q1"), phase(sim, "q2")) == ("Pending", "Pending")
    sim.edit(QUOTAS, "tight", lambda o: o["spec"]["hard"].update(pods="3"), "default")
    sim.advance(0.1)
    assert sorted(phase(sim, name) for name in ("q1", "q2")) == ["Pending", "Scheduling"]


# The migration, its events and what it leaves


def state(sim: Kubesim, vm: str = "vm") -> Obj:
    return dict(of(sim, VMIS, vm)["status"].get("migrationState") or {})


def events(sim: Kubesim, reason: str) -> list[tuple[str, str]]:
    found = [e for e in sim.all(EVENTS) if e["reason"] == reason]
    return [(e["involvedObject"]["kind"], e["message"]) for e in found]


def knob(sim: Kubesim, node: str, name: str, on: bool = True) -> None:
    def turn(obj: Obj) -> None:
        notes = obj["metadata"].setdefault("annotations", {})
        notes.pop(f"lab/{name}", None)
        if on:
            notes[f"lab/{name}"] = "true"

    sim.edit(NODES, node, turn)


def evict(sim: Kubesim, vm: str = "vm") -> None:
    """The mark, as the webhook sets it."""
    node = sim.node_of(vm)
    sim.edit(VMIS, vm, lambda o: o["status"].update(evacuationNodeName=node), "default")


def target(sim: Kubesim) -> str:
    found = [p for p in sim.all(PODS) if words.JOB_UID in words.labels(p) and words.live_pod(p)]
    return str(found[-1]["metadata"]["name"])


@pytest.mark.parametrize("result", ["ok", "target-crash", "abort"])
def test_the_target_sees_the_domain_early_and_ready_comes_with_the_move(sim: Kubesim, result: str) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="30", migrate_result=result.replace("abort", "hang"))
    migrate(sim, "vm")
    until_phase(sim, "Running")
    sim.advance(2.1)
    assert state(sim)["targetNodeDomainDetected"] and state(sim)["mode"] == "PreCopy"
    if result == "abort":
        sim.call(lambda: sim.world.store.delete(VMIMS, "default", "m"))
    sim.until(lambda: sim.world.store.get(VMIS, "default", "vm")["status"]["migrationState"].get("completed"), 60)
    ended = state(sim)
    assert ended["targetNodeDomainDetected"] and APPLIED.items() <= ended["migrationConfiguration"].items()
    assert ("targetNodeDomainReadyTimestamp" in ended) == (result == "ok")
    assert (ended.get("failureReason") == CLOSED) == (result == "target-crash")


@pytest.mark.parametrize(("grace", "text"), [(None, ENDED), (0, REMOVED)], ids=["deleted", "by force"])
@pytest.mark.parametrize("stands", ["PreparingTarget", "Running"])
def test_a_target_pod_that_goes_ends_its_migration(sim: Kubesim, grace: int | None, text: str, stands: str) -> None:
    sim.add_vm("vm", "n1", **({"prepare": "hang"} if stands != "Running" else {"migrate_result": "hang"}))
    migrate(sim, "vm")
    until_phase(sim, stands)
    began = state(sim).get("startTimestamp")
    pod, seen = target(sim), []

    def look(change: Change) -> None:
        if change.kind is PODS and change.obj["metadata"]["name"] == pod:
            ready = words.condition(change.obj, "Ready") or {}
            seen.append((change.type, words.phase(change.obj), ready.get("reason")))

    sim.call(lambda: sim.world.on_change(look))
    sim.call(lambda: sim.world.delete_pod(sim.world.store.get(PODS, "default", pod), grace=grace))
    until_phase(sim, "Failed")
    found = state(sim)
    assert (found["failed"], found["failureReason"]) == (True, "Target pod is down")
    assert found["startTimestamp"] == (began or found["endTimestamp"])
    told = f"VirtualMachineInstance migration uid {found['migrationUid']} failed. reason: Target pod is down"
    assert ("VirtualMachineInstance", told) in events(sim, "FailedMigration")
    assert ("VirtualMachineInstanceMigration", text) in events(sim, "FailedMigration")
    sim.advance(1)
    if grace is None:
        assert ("MODIFIED", "Succeeded", "PodCompleted") in seen and seen[-1][0] == "DELETED"
    assert sim.node_of("vm") == "n1" and words.TARGET_NODE not in words.labels(of(sim, VMIS))


def test_an_abort_that_is_not_taken_at_first(sim: Kubesim) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="30", abort_refused="2")
    migrate(sim, "vm")
    until_phase(sim, "Running")
    sim.call(lambda: sim.world.store.delete(VMIMS, "default", "m"))
    sim.advance(0.5)
    text = "failed to set MigrationState in VMI status. :the server rejected our request due to an error in our request"
    assert events(sim, "FailedAbortMigration") == [("VirtualMachineInstanceMigration", text)]
    assert "abortRequested" not in state(sim) and not events(sim, "SuccessfulAbortMigration")
    sim.advance(2)
    assert state(sim)["abortRequested"] and events(sim, "SuccessfulAbortMigration")
    sim.until(lambda: sim.world.store.find(VMIMS, "default", "m") is None)
    assert (state(sim)["abortStatus"], sim.node_of("vm")) == ("Succeeded", "n1")


@pytest.mark.parametrize("back", [False, True], ids=["for good", "back after 20 s"])
def test_the_virt_handler_of_the_source_dies(sim: Kubesim, back: bool) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="60")
    migrate(sim, "vm")
    until_phase(sim, "Running")
    knob(sim, "n1", "virt-handler-down")
    sim.advance(20)
    assert phase(sim) == "Running" and "endTimestamp" not in state(sim)
    if back:
        knob(sim, "n1", "virt-handler-down", on=False)
    sim.advance(1 if back else 15)
    assert (phase(sim), state(sim)["failureReason"]) == ("Failed", CLOSED if back else "Target pod is down")
    assert sim.running("vm") and sim.node_of("vm") == "n1"


def test_the_virt_handler_of_the_target_dies(sim: Kubesim) -> None:
    """It fails at once; the node is called schedulable for long, and what comes there meanwhile stands for good."""
    sim.add_vm("vm", "n1", migrate_seconds="60")
    sim.edit(NODES, "n3", lambda o: o["spec"].update(unschedulable=True))
    migrate(sim, "vm")
    until_phase(sim, "Running")
    knob(sim, "n2", "virt-handler-down")
    sim.advance(0.1)
    assert (phase(sim), state(sim)["failureReason"]) == ("Failed", CLOSED)
    assert words.labels(of(sim, NODES, "n2"))["kubevirt.io/schedulable"] == "true"
    migrate(sim, "vm", "again")
    until_phase(sim, "PreparingTarget", "again", 60)
    knob(sim, "n2", "virt-handler-down", on=False)
    sim.advance(30)
    assert (phase(sim, "again"), state(sim)["targetNode"]) == ("PreparingTarget", "n2")
    text = "can not add ghost record when entry already exists with differing socket file location"
    assert events(sim, "SyncFailed") == [("VirtualMachineInstance", text)]
    sim.call(lambda: sim.world.delete_pod(sim.world.store.get(PODS, "default", target(sim))))
    until_phase(sim, "Failed", "again")
    migrate(sim, "vm", "third")
    until_phase(sim, "Running", "third", 60)


def test_the_label_of_a_target_goes_though_a_replacement_waits(sim: Kubesim) -> None:
    sim.add_vm("vm", "n1", migrate_result="fail", migrate_seconds="1")
    evict(sim)
    sim.until(lambda: "completed" in (sim.world.store.get(VMIS, "default", "vm")["status"].get("migrationState") or {}))
    assert words.labels(of(sim, VMIS))[words.TARGET_NODE] == state(sim)["targetNode"]
    sim.advance(0.65)
    assert words.TARGET_NODE not in words.labels(of(sim, VMIS))
    sim.until(lambda: any(words.phase(m) == "Pending" for m in sim.world.store.all(VMIMS)), 60)
    assert words.TARGET_NODE not in words.labels(of(sim, VMIS))


def test_a_failed_target_pod_lasts_and_stays_in_active_pods(sim: Kubesim) -> None:
    """The next migration is Pending as long as it does."""
    sim.add_vm("vm", "n1", migrate_result="fail:1", migrate_seconds="1")
    migrate(sim, "vm")
    until_phase(sim, "Failed")
    pod = of(sim, PODS, target(sim))
    uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
    migrate(sim, "vm", "next")
    sim.advance(10)
    assert (phase(sim, "next"), of(sim, VMIS)["status"]["activePods"][uid]) == ("Pending", node)
    until_phase(sim, "Scheduling", "next")
    assert words.phase(of(sim, PODS, pod["metadata"]["name"])) == "Succeeded"
    assert len(of(sim, VMIS)["status"]["activePods"]) == 3
    until_phase(sim, "Succeeded", "next")


def test_migrations_of_one_priority_begin_as_they_were_made(sim: Kubesim) -> None:
    limits(sim, 1)
    names = ["c", "a", "d", "b"]
    for name in names:
        sim.add_vm(name, "n1", migrate_seconds="1")
    begun: list[str] = []

    def look(change: Change) -> None:
        if change.kind is PODS and change.type == "ADDED" and words.JOB_UID in words.labels(change.obj):
            begun.append(words.annotations(change.obj)["kubevirt.io/domain"])

    sim.call(lambda: sim.world.on_change(look))
    for name in names:
        migrate(sim, name, f"m-{name}")
    sim.until(lambda: all(words.final(m) for m in sim.world.store.all(VMIMS)), 60)
    assert begun == names


@pytest.mark.parametrize("why", ['violates PodSecurity "restricted:latest"', "maximum memory usage per Pod is 64Mi"])
def test_refused_targets_are_told_together_each_with_a_new_pod(sim: Kubesim, why: str) -> None:
    sim.add_vm("vm", "n1")
    sim.world.pods_refused["default"] = why
    migrate(sim, "vm")
    sim.advance(70)
    first = [text for _kind, text in events(sim, "FailedCreate")]
    assert len(first) == 11 and len(set(first)) == 11
    combined = [text for text in first if text.startswith("(combined from similar events): Error creating pod: pods")]
    sim.advance(6)
    again = [text for _kind, text in events(sim, "FailedCreate") if text.startswith("(combined")]
    assert len(combined) == len(again) == 1 and combined != again and again[0].endswith(why)


# Pods, nodes and VMs


def send(sim: Kubesim, method: str, path: str, body: Obj | None = None) -> tuple[int, Obj]:
    headers = {"Authorization": "Bearer admin", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(sim.url + path, data, headers, method=method)
    with urllib.request.urlopen(request, context=sim.trust) as response:
        return response.status, json.load(response)


def test_the_answer_to_a_deletion_has_its_times_and_a_grace_in_the_query_is_obeyed(sim: Kubesim) -> None:
    sim.add_vm("vm", "n1", migrate_result="hang")
    migrate(sim, "vm")
    until_phase(sim, "Running")
    path = f"/api/v1/namespaces/default/pods/{target(sim)}"
    _code, found = send(sim, "DELETE", path)
    assert found["metadata"]["deletionGracePeriodSeconds"] == 60 and found["metadata"]["deletionTimestamp"]
    _code, found = send(sim, "DELETE", path + "?gracePeriodSeconds=0")
    assert found["metadata"]["deletionGracePeriodSeconds"] == 0
    assert sim.find(PODS, found["metadata"]["name"])
    sim.advance(0.011)
    assert sim.find(PODS, found["metadata"]["name"]) is None


def test_a_pod_that_has_ended_is_evicted_at_once_and_says_so_first(sim: Kubesim) -> None:
    sim.add_vm("vm", "n1")
    name = sim.all(PODS)[0]["metadata"]["name"]
    migrate(sim, "vm")
    sim.until(lambda: words.final(sim.world.store.get(PODS, "default", name)))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    code, _body = send(sim, "POST", f"/api/v1/namespaces/default/pods/{name}/eviction", body)
    pod = of(sim, PODS, name)
    assert code == 201 and words.is_true(pod, "DisruptionTarget") and pod["metadata"]["deletionTimestamp"]
    sim.advance(0.03)
    assert sim.find(PODS, name) is None


def test_a_cordon_and_its_end_are_followed_by_the_taint(sim: Kubesim) -> None:
    def taints() -> list[str]:
        return [t["key"] for t in of(sim, NODES, "n1")["spec"].get("taints") or []]

    for on, found in ((True, ["node.kubernetes.io/unschedulable"]), (False, [])):
        before = taints()
        sim.edit(NODES, "n1", lambda o, on=on: o["spec"].update(unschedulable=on))
        assert taints() == before
        sim.advance(0.08)
        assert taints() == found


def test_conditions_of_a_vm_and_labels_of_launchers_follow(sim: Kubesim) -> None:
    def of_vm() -> dict[str, str]:
        return {c["type"]: c["status"] for c in of(sim, VMS)["status"]["conditions"]}

    def label(pod: str) -> str:
        return words.labels(of(sim, PODS, pod)).get(words.NODE_NAME, "")

    sim.add_vm("vm", "n1")
    sim.advance(0.4)
    assert of_vm() == {"Ready": "True", "LiveMigratable": "True"}
    note = {"lab/not-migratable-reason": "DisksNotLiveMigratable"}
    sim.edit(VMIS, "vm", lambda o: o["metadata"]["annotations"].update(note), "default")
    sim.advance(0.1)
    assert of_vm()["LiveMigratable"] == "True"
    sim.advance(0.3)
    assert of_vm()["LiveMigratable"] == "False"
    sim.edit(VMIS, "vm", lambda o: o["metadata"]["annotations"].pop(*note), "default")
    sim.advance(0.4)
    source = sim.all(PODS)[0]["metadata"]["name"]
    migrate(sim, "vm")
    until_phase(sim, "Running")
    there = target(sim)
    assert (label(source), label(there)) == ("n1", "n1")
    sim.until(lambda: sim.world.store.get(VMIS, "default", "vm")["status"]["nodeName"] != "n1")
    sim.advance(0.03)
    assert label(there) == sim.node_of("vm")


def test_a_kubelet_is_away_and_migrations_go_on(sim: Kubesim) -> None:
    """When it is back, its Ready is newer than virt-handler's last heartbeat, for up to two minutes."""
    sim.world.heartbeat = 132.0
    sim.add_vm("vm", "n1", migrate_seconds="70")
    sim.advance(130)
    migrate(sim, "vm")
    until_phase(sim, "Running")
    knob(sim, "n1", "kubelet-down")

    def ready() -> Obj:
        return words.condition(sim.world.store.get(NODES, "", "n1"), "Ready") or {}

    def beat() -> str:
        return words.annotations(sim.world.store.get(NODES, "", "n1"))["kubevirt.io/heartbeat"]

    sim.until(lambda: ready()["status"] == "Unknown", 50)
    assert phase(sim) == "Running"
    until_phase(sim, "Succeeded", seconds=60)
    knob(sim, "n1", "kubelet-down", on=False)
    sim.until(lambda: ready()["status"] == "True", 15)
    assert ready()["lastTransitionTime"] > beat()
    assert words.labels(of(sim, NODES, "n1"))["kubevirt.io/schedulable"] == "true"
    sim.until(lambda: ready()["lastTransitionTime"] <= beat(), 132)
