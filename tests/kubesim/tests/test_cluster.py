"""What the simulated cluster does by itself: scheduling, budgets, quotas, the death of a node.

The numbers of the dying node are those that were recorded (the eight minutes run 80 times as
fast); the rest is what Kubernetes documents.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from kubesim import Kubesim, templates, words
from kubesim.kinds import ATTACHMENTS, EVENTS, NODES, PDBS, PODS, QUOTAS, VMIMS, VMIS, VMS
from kubesim.nodelife import reboot
from kubesim.store import Obj


@pytest.fixture
def sim() -> Iterator[Kubesim]:
    with Kubesim(scale=20) as cluster:
        for name in ("n1", "n2", "n3"):
            cluster.add_node(name)
        yield cluster
        assert cluster.world.broken == []


def pod(sim: Kubesim, name: str, **spec: Any) -> None:
    """A pod of nobody's."""
    meta = {"name": name, "namespace": "default", "labels": {"app": name.partition("-")[0]}}
    spec.setdefault("containers", [templates.container()])
    sim.add("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})


def place(sim: Kubesim, name: str) -> str:
    """The node it was given, or the scheduler's words."""

    def told() -> str:
        found = sim.world.store.get(PODS, "default", name)
        waits = words.condition(found, "PodScheduled") or {}
        return str(found["spec"].get("nodeName") or waits.get("message", ""))

    return str(sim.until(told))


def migrate(sim: Kubesim, vm: str, name: str, **spec: Any) -> None:
    body: Obj = {
        "metadata": {"name": name, "namespace": "default", "finalizers": [words.FINALIZER]},
        "spec": {"vmiName": vm, **spec},
    }
    body["metadata"]["labels"] = {words.VMI_NAME: vm}
    sim.add("virtualmachineinstancemigrations", body)


def phase(sim: Kubesim, name: str) -> str:
    found = sim.find(VMIMS, name)
    return words.phase(found) if found else "gone"


# The scheduler


def test_taints_keep_pods_away_unless_they_are_tolerated(sim: Kubesim) -> None:
    for node in ("n1", "n2", "n3"):
        soft = {"key": "soft", "effect": "PreferNoSchedule"}
        hard = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
        taints = [soft] if node == "n3" else [soft, hard]
        sim.edit(NODES, node, lambda o, taints=taints: o["spec"].update(taints=taints))
    pod(sim, "plain")
    assert place(sim, "plain") == "n3"
    sim.edit(NODES, "n3", lambda o: o["spec"].update(unschedulable=True))
    pod(sim, "late")
    text = "0/3 nodes are available: 1 node(s) were unschedulable, "
    assert place(sim, "late") == text + "2 node(s) had untolerated taint(s) {gpu: yes}."
    pod(sim, "equal", tolerations=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    pod(sim, "exists", tolerations=[{"operator": "Exists"}])
    pod(sim, "other", tolerations=[{"key": "gpu", "value": "no"}])
    assert {place(sim, "equal"), place(sim, "exists")} <= {"n1", "n2"}
    assert "untolerated" in place(sim, "other")


def test_selectors_and_required_affinity(sim: Kubesim) -> None:
    sim.edit(NODES, "n2", lambda o: o["metadata"]["labels"].update(disk="fast"))
    pod(sim, "selected", nodeSelector={"disk": "fast"})
    term = {"key": "disk", "operator": "NotIn", "values": ["fast"]}
    known = {"key": "disk", "operator": "Exists"}
    rule = {"nodeSelectorTerms": [{"matchExpressions": [term, known]}]}
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": rule}}
    pod(sim, "nowhere", affinity=wanted)
    assert place(sim, "selected") == "n2"
    text = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
    assert place(sim, "nowhere") == text


def test_memory_that_is_declared_is_not_given_twice(sim: Kubesim) -> None:
    for name in ("big-1", "big-2", "big-3", "big-4"):
        asked = {"requests": {"memory": "200Gi"}}
        pod(sim, name, containers=[{**templates.container(), "resources": asked}])
    places = {place(sim, name) for name in ("big-1", "big-2", "big-3")}
    assert places == {"n1", "n2", "n3"}
    assert place(sim, "big-4") == "0/3 nodes are available: 3 Insufficient memory."
    found = [e["reason"] for e in sim.all(EVENTS) if e["involvedObject"]["name"] == "big-4"]
    assert found == ["FailedScheduling"]


# Budgets and quotas


def test_a_budget_says_what_it_allows(sim: Kubesim) -> None:
    for number in (1, 2, 3):
        pod(sim, f"web-{number}")
    sim.until(lambda: all(words.is_true(p, "Ready") for p in sim.world.store.all(PODS)))
    selector = {"matchLabels": {"app": "web"}}
    for name, rule in (("two", {"minAvailable": 2}), ("most", {"maxUnavailable": "34%"})):
        meta = {"name": name, "namespace": "default"}
        sim.add("poddisruptionbudgets", {"metadata": meta, "spec": {"selector": selector, **rule}})
    for name, allowed in (("two", 1), ("most", 2)):
        status = sim.until(lambda name=name: sim.world.store.get(PDBS, "default", name).get("status"))
        assert (status["disruptionsAllowed"], status["expectedPods"]) == (allowed, 3)
        assert status["conditions"][0]["reason"] == "SufficientPods"


def test_a_budget_over_launchers_cannot_be_computed_but_from_a_number(sim: Kubesim) -> None:
    sim.add_vm("vm", "n1", labels={"app": "vm"})
    spec = {"selector": {"matchLabels": {"app": "vm"}}, "maxUnavailable": 1}
    meta = {"name": "stuck", "namespace": "default"}
    sim.add("poddisruptionbudgets", {"metadata": meta, "spec": spec})
    status = sim.until(lambda: sim.world.store.get(PDBS, "default", "stuck").get("status"))
    assert (status["disruptionsAllowed"], status["conditions"][0]["reason"]) == (0, "SyncFailed")


def test_a_quota_of_memory_holds_a_target_back(sim: Kubesim) -> None:
    sim.add_vm("vm", "n1", memory="4Gi")
    meta = {"name": "small", "namespace": "default"}
    sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": {"requests.memory": "6Gi"}}})
    migrate(sim, "vm", "held")

    def rejected() -> bool:
        found = sim.world.store.get(VMIMS, "default", "held")
        return words.is_true(found, "migrationRejectedByResourceQuota")

    sim.until(rejected)
    used = sim.find(QUOTAS, "small")["status"]["used"]["requests.memory"]
    assert (phase(sim, "held"), int(used)) == ("Pending", 4 * 2**30)
    sim.edit(QUOTAS, "small", lambda o: o["spec"]["hard"].update({"requests.memory": "8Gi"}), "default")
    sim.until(lambda: words.final(sim.world.store.get(VMIMS, "default", "held")))
    assert phase(sim, "held") == "Succeeded"


# Migrations


def test_no_more_at_once_than_the_limits_and_no_slot_is_left_free(sim: Kubesim) -> None:
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 2})
    for number in range(6):
        sim.add_vm(f"vm{number}", "n1", migrate_seconds="2")
    most: list[int] = []

    def look(_change: Any) -> None:
        live = [p for p in sim.world.store.all(PODS) if words.JOB_UID in words.labels(p)]
        jobs = {words.labels(p)[words.JOB_UID] for p in live}
        found = [m for m in sim.world.store.all(VMIMS) if m["metadata"]["uid"] in jobs]
        most.append(sum(1 for m in found if not words.final(m)))

    sim.call(lambda: sim.world.on_change(look))
    for number in range(6):
        migrate(sim, f"vm{number}", f"m{number}")
    sim.until(lambda: all(words.final(m) for m in sim.world.store.all(VMIMS)))
    assert max(most) == 2


# Versions


@pytest.mark.parametrize(("version", "kept"), [((1, 5), False), ((1, 6), True)])
def test_a_target_can_be_chosen_from_1_6_on(version: tuple[int, int], kept: bool) -> None:
    with Kubesim(scale=20, version=version) as sim:
        sim.add_node("n1")
        sim.add_vm("vm", "n1")
        body = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstanceMigration",
            "metadata": {"name": "m", "namespace": "default"},
            "spec": {"vmiName": "vm", "addedNodeSelector": {"a": "b"}},
        }
        path = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancemigrations"
        code, found = _post(sim, path, body)
        assert (code, "addedNodeSelector" in found["spec"]) == (201, kept)


def _post(sim: Kubesim, path: str, body: Obj) -> tuple[int, Obj]:
    headers = {"Authorization": "Bearer admin", "Content-Type": "application/json"}
    request = urllib.request.Request(sim.url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, context=sim.trust) as response:
        return response.status, json.load(response)


# HTTPS


def test_it_speaks_https_with_a_ca_of_its_own(sim: Kubesim) -> None:
    request = urllib.request.Request(sim.url + "/version", headers={"Authorization": "Bearer admin"})
    with urllib.request.urlopen(request, context=sim.trust) as response:
        assert response.status == 200
    with pytest.raises(urllib.error.URLError) as refused:
        urllib.request.urlopen(request, context=ssl.create_default_context())
    assert "CERTIFICATE_VERIFY_FAILED" in str(refused.value)


# The death of a node, as it was recorded


def ready(sim: Kubesim, name: str) -> str:
    node = sim.world.store.get(NODES, "", name)
    return str((words.condition(node, "Ready") or {}).get("status"))


def taints(sim: Kubesim, name: str) -> list[tuple[str, str]]:
    found = sim.world.store.get(NODES, "", name)["spec"].get("taints") or []
    return [(taint["key"].rpartition("/")[2], taint["effect"]) for taint in found]


def test_a_node_dies_is_put_out_of_service_and_comes_back() -> None:
    with Kubesim(scale=80) as sim:
        for name in ("n1", "n2", "n3"):
            sim.add_node(name)
        for name, how in (("always", "Always"), ("rerun", "RerunOnFailure"), ("once", "Once")):
            sim.add_vm(name, "n1", strategy="None", run_strategy=how)
        sim.add_vm("stuck", "n1", migrate_seconds="400")
        sim.add_vm("evicted", "n1")
        migrate(sim, "stuck", "before")
        sim.until(lambda: words.phase(sim.world.store.get(VMIMS, "default", "before")) == "Running")
        _dies(sim)
        _out_of_service(sim)
        _returns(sim)
        assert sim.world.broken == []


def _dies(sim: Kubesim) -> None:
    began = sim.world.clock.now()
    sim.edit(NODES, "n1", lambda o: o["metadata"]["annotations"].update({"lab/down": "true"}))
    sim.until(lambda: ready(sim, "n1") == "Unknown")
    assert sim.world.clock.now() - began > 40  # how long it may be silent; a slow machine sees it later
    both = [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]
    sim.until(lambda: taints(sim, "n1") == both)
    # An eviction works as if the node were alive, and its migration never ends.
    sim.edit(VMIS, "evicted", lambda o: o["status"].update(evacuationNodeName="n1"), "default")

    def stands() -> bool:
        found = [m for m in sim.world.store.all(VMIMS) if m["spec"]["vmiName"] == "evicted"]
        return bool(found) and words.phase(found[0]) == "TargetReady"

    sim.until(stands)
    migration = sim.find(VMIMS, "before")
    sim.call(lambda: sim.world.store.delete(VMIMS, "default", migration["metadata"]["name"]))

    def unresponsive() -> bool:
        labels = sim.world.store.get(NODES, "", "n1")["metadata"]["labels"]
        return labels["kubevirt.io/schedulable"] == "false"

    sim.until(unresponsive)
    # The abort was accepted and never ends; the VMs are still called Running.
    assert phase(sim, "before") == "Running"
    assert {words.phase(vmi) for vmi in sim.all(VMIS)} == {"Running"}

    def evicted() -> bool:
        found = [p for p in sim.world.store.all(PODS) if p["spec"].get("nodeName") == "n1"]
        return all(p["metadata"].get("deletionTimestamp") for p in found)

    sim.until(evicted)
    assert {words.phase(vmi) for vmi in sim.all(VMIS)} == {"Running"}


def _out_of_service(sim: Kubesim) -> None:
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoExecute"}
    sim.edit(NODES, "n1", lambda o: o["spec"]["taints"].append(taint))

    def no_pods() -> bool:
        return not [p for p in sim.world.store.all(PODS) if p["spec"].get("nodeName") == "n1"]

    sim.until(no_pods)
    for name in ("always", "rerun"):
        sim.until(lambda name=name: sim.running(name))
        assert sim.node_of(name) in ("n2", "n3")
    assert words.phase(sim.find(VMIS, "once")) == "Failed"
    sim.until(lambda: all(words.final(m) for m in sim.world.store.all(VMIMS)))
    assert {vm["metadata"]["name"] for vm in sim.all(VMS)} >= {"always", "rerun", "once"}


def _returns(sim: Kubesim) -> None:
    sim.edit(NODES, "n1", lambda o: o["metadata"]["annotations"].pop("lab/down"))
    sim.until(lambda: ready(sim, "n1") == "True")
    sim.until(lambda: taints(sim, "n1") == [("out-of-service", "NoExecute")])

    def schedulable() -> bool:
        labels = sim.world.store.get(NODES, "", "n1")["metadata"]["labels"]
        return labels["kubevirt.io/schedulable"] == "true"

    sim.until(schedulable)


# What guests and nodes do that die and come back, as on a real data plane


def test_a_guest_that_crashes_in_its_migration_is_told_late_and_keeps_its_mark() -> None:
    with Kubesim(scale=0) as sim:
        sim.add_node("n1")
        sim.add_node("n2")
        sim.add_vm("vm", "n1", run_strategy="Manual", migrate_result="crash")
        sim.edit(VMIS, "vm", lambda o: o["status"].update(evacuationNodeName="n1"), "default")
        sim.until(lambda: any(words.phase(m) == "Failed" for m in sim.world.store.all(VMIMS)))
        vmi = sim.find(VMIS, "vm")
        assert words.phase(vmi) == "Running" and "qemu monitor" in vmi["status"]["migrationState"]["failureReason"]
        sim.until(lambda: words.phase(sim.world.store.get(VMIS, "default", "vm")) == "Failed")
        assert sim.find(VMIS, "vm")["status"]["evacuationNodeName"] == "n1"
        sim.until(lambda: any(e["message"].endswith("in finalized state.") for e in sim.world.store.all(EVENTS)), 60)
        told = {e["reason"]: e["message"] for e in sim.all(EVENTS) if e["involvedObject"]["name"] == "vm"}
        assert told["Stopped"] == "The VirtualMachineInstance crashed."
        assert told["FailedCreate"].endswith("Cannot migrate VMI in finalized state.")


def test_a_node_that_boots_is_closed_until_the_second_heartbeat_of_its_virt_handler() -> None:
    with Kubesim(scale=0) as sim:
        sim.add_node("n1")
        sim.world.heartbeat = 100.0

        def node() -> Obj:
            return dict(sim.world.store.get(NODES, "", "n1"))

        def label() -> str:
            return words.labels(node())["kubevirt.io/schedulable"]

        before = node()["status"]["nodeInfo"]["bootID"]
        sim.call(lambda: reboot(sim.world, "n1"))
        sim.until(lambda: label() == "false", 60)
        beat = words.annotations(node())["kubevirt.io/heartbeat"]
        assert node()["status"]["nodeInfo"]["bootID"] != before
        assert words.condition(node(), "Ready")["lastTransitionTime"] < beat
        sim.advance(90)
        assert label() == "false"
        sim.until(lambda: label() == "true", 20)


def test_what_ran_on_a_node_that_boots_has_ended_and_pods_that_were_to_go_do() -> None:
    with Kubesim(scale=0) as sim:
        sim.add_node("n1")
        for name in ("vm", "evicted"):
            sim.add_vm(name, "n1", run_strategy="Manual", start=True)
        sim.until(lambda: sim.running("vm") and sim.running("evicted"))
        pods = [p for p in sim.world.store.all(PODS) if p["metadata"]["name"].startswith("virt-launcher-evicted")]
        sim.call(lambda: sim.world.delete_pod(pods[0]))
        sim.call(lambda: reboot(sim.world, "n1"))
        sim.until(lambda: not sim.running("vm") and not sim.running("evicted"), 120)
        sim.until(lambda: pods[0]["metadata"]["name"] not in {p["metadata"]["name"] for p in sim.all(PODS)}, 60)


def test_a_volume_of_a_node_that_lost_its_power_is_held_for_six_minutes() -> None:
    with Kubesim(scale=0) as sim:
        for name in ("n1", "n2"):
            sim.add_node(name)
        claim = templates.claim("disk", "ReadWriteOnce")
        claim["spec"]["volumeName"] = "pv-disk"
        sim.add("persistentvolumeclaims", claim)
        volume = {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}
        pod(sim, "p", volumes=[volume], nodeName="n1")

        def attached() -> list[Any]:
            return list(sim.world.store.get(NODES, "", "n1")["status"].get("volumesAttached") or [])

        sim.until(attached)
        assert [one["spec"]["nodeName"] for one in sim.all(ATTACHMENTS)] == ["n1"]
        sim.edit(NODES, "n1", lambda o: o["metadata"]["annotations"].update({"lab/down": "true"}))
        sim.until(lambda: ready(sim, "n1") == "Unknown", 60)
        sim.call(lambda: sim.world.delete_pod(sim.world.store.get(PODS, "default", "p"), grace=0))
        sim.advance(355)
        assert attached()
        sim.advance(10)
        assert not attached() and not sim.all(ATTACHMENTS)
