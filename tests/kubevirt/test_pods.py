"""The other pods of the node: kubectl drain's filters, VMs first, what they need last."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.pods.filters import DRAIN_LABEL, PodOptions
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.check import preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import check_mode
from kubesim import templates
from kubesim.kinds import NODES, PDBS, PODS
from kubesim.reading import add_budget, add_pod, clean, evictions, launcher, pod_row


def left(sim: Any) -> list[str]:
    """Names of the pods on n1."""
    return sorted(p["metadata"]["name"] for p in sim.all(PODS) if p["spec"].get("nodeName") == "n1")


def test_vms_go_first_then_the_other_pods(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    for number in range(3):
        add_pod(sim, f"web-{number}", "n1")
    add_pod(sim, "done", "n1", owner="", empty_dir=True, phase="Succeeded")
    found = operator.drain()
    assert found["phase"] == "Drained"
    gone = ["default/done", "default/web-0", "default/web-1", "default/web-2"]
    assert found["certificate"]["pods"] == gone
    assert {pod["verdict"] for pod in found["pods"]} == {"gone"}
    assert left(sim) == []  # the launcher that has ended is removed too
    calls = [c.path.split("/")[-2] for c in sim.requests("POST", "/eviction")]
    assert calls[0].startswith("virt-launcher-vm") and len(calls) == 5
    moved = max(c.at for c in sim.requests("POST", "virt-launcher"))
    assert min(c.at for c in sim.requests("POST", "web-0/eviction")) > moved
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_no_pod_goes_while_a_vm_still_moves(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="1000")
    add_pod(sim, "web", "n1")
    assert operator.slice(Intent.DRAINED, 1.5)["phase"] == "Draining"
    assert sim.requests("POST", "web/eviction") == [] and "web" in left(sim)


@pytest.mark.parametrize(
    ("pod", "options", "reason"),
    [
        ({"owner": ""}, {}, "PodNotManaged"),
        ({"empty_dir": True}, {}, "PodHasLocalData"),
        ({"owner": "DaemonSet/agent"}, {"ignore_daemonsets": False}, "PodOfDaemonSet"),
        ({"owner": "DaemonSet/lost"}, {}, "PodOfDaemonSet"),
    ],
)
def test_what_kubectl_refuses_is_told_before_anything_is_asked_for(sim, operator, pod, options, reason) -> None:
    sim.add_vm("vm", "n1")
    sim.add("daemonsets", templates.daemon_set("agent"))
    add_pod(sim, "odd", "n1", **pod)
    found = operator.drain(pods=PodOptions(**options))
    assert (found["phase"], found["changed"]) == ("Blocked", False)
    assert [f["reason"] for f in found["findings"]] == [reason]
    assert pod_row(found, "odd")["verdict"] == "blocked"
    assert evictions(sim) == [] and sim.node_of("vm") == "n1" and clean(sim)


@pytest.mark.parametrize(
    ("pod", "options"),
    [
        ({"owner": ""}, {"force": True}),
        ({"empty_dir": True}, {"delete_emptydir_data": True}),
        ({"owner": "DaemonSet/lost"}, {"force": True}),
    ],
)
def test_what_a_flag_allows_goes(sim, operator, pod, options) -> None:
    add_pod(sim, "odd", "n1", **pod)
    found = operator.drain(pods=PodOptions(**options))
    assert found["phase"] == "Drained" and left(sim) == []


def test_what_stays_says_why(sim, operator) -> None:
    sim.add("daemonsets", templates.daemon_set("agent"))
    add_pod(sim, "agent-x", "n1", owner="DaemonSet/agent")
    note = {"kubernetes.io/config.mirror": "x"}
    add_pod(sim, "static", "n1", owner="", notes=note)
    add_pod(sim, "other", "n1", labels={"app": "other"})
    add_pod(sim, "mine", "n1", labels={"app": "mine"})
    add_pod(sim, "virt-handler-x", "n1", owner="", labels={"kubevirt.io": "virt-handler"})
    options = PodOptions(selector="app!=other", force=True, ignore_daemonsets=True)
    found = operator.drain(pods=options)
    assert found["phase"] == "Drained"
    assert left(sim) == ["agent-x", "other", "static", "virt-handler-x"]
    assert "selector" in pod_row(found, "other")["message"]
    assert "DaemonSet" in pod_row(found, "agent-x")["message"]
    assert "never evicted" in pod_row(found, "virt-handler-x")["message"]
    assert found["certificate"]["pods"] == ["default/mine"]


def test_the_owner_of_a_pod_says_by_its_label_that_it_stays_or_is_waited_for(sim, operator) -> None:
    add_pod(sim, "kept", "n1", owner="", empty_dir=True, labels={DRAIN_LABEL: "skip"})
    add_pod(sim, "job", "n1", owner="", empty_dir=True, labels={DRAIN_LABEL: "wait-completed"})
    add_pod(sim, "web", "n1")
    add_pod(sim, "csi", "n1", owner="Controller/csi")
    add_pod(sim, "csi-2", "n2", owner="Controller/csi")
    told = preflight(operator.request(Intent.DRAINED, "r", 1.0), {})["findings"]
    assert [(row["code"], row["severity"], row["subject"]) for row in told] == [
        ("PodNotCompleted", "warning", "pod default/job")
    ]
    found = operator.slice(Intent.DRAINED, 1.5)
    row = pod_row(found, "job")
    assert (found["phase"], row["verdict"], row["reason"]) == ("Draining", "pending", "PodNotCompleted")
    assert left(sim) == ["csi", "job", "kept"]  # what the VMs and pods need stays as long as the job
    sim.edit(PODS, "job", lambda pod: pod["status"].update(phase="Succeeded"), "default")
    found = operator.drain()
    assert found["phase"] == "Drained" and left(sim) == ["kept"]
    assert DRAIN_LABEL in pod_row(found, "kept")["message"]
    assert found["certificate"]["pods"] == ["default/csi", "default/job", "default/web"]


def test_a_pod_that_does_not_complete_holds_the_drain_until_its_deadline(sim, operator) -> None:
    add_pod(sim, "job", "n1", labels={DRAIN_LABEL: "wait-completed"})
    found = operator.drain(drain_timeout=0.5)
    assert found["phase"] == "Blocked" and left(sim) == ["job"]
    assert {row["reason"] for row in found["findings"]} == {"PodNotCompleted", "DeadlineExceeded"}


def test_a_budget_holds_one_back_and_the_others_do_not_wait(sim, operator) -> None:
    add_pod(sim, "held", "n1", labels={"app": "held"})
    add_pod(sim, "free", "n1")
    add_budget(sim, "strict", 1, app="held")
    first = operator.drain_until(lambda _found: left(sim) == ["held"])
    assert (first["ended"], first["phase"], first["certificate"]) == ("out_of_time", "Draining", None)
    assert pod_row(first, "held")["reason"] == "DisruptionBudget"
    sim.edit(PDBS, "strict", lambda o: o["spec"].update(minAvailable=0), "default")
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert found["certificate"]["pods"] == ["default/free", "default/held"]


def test_a_budget_that_is_never_computed_is_no_transient(sim, operator) -> None:
    """Its pods belong to something that has no scale."""
    add_pod(sim, "held", "n1", owner="Controller/orders", labels={"app": "held"})
    add_budget(sim, "percent", None, app="held")
    found = operator.drain(pending_timeout=1.0)
    assert found["phase"] == "Blocked" and found["certificate"] is None
    held = pod_row(found, "held")
    assert (held["verdict"], held["reason"]) == ("blocked", "DisruptionBudgetNotComputed")
    assert "percent" in held["message"] and "scale" in held["message"]


def test_past_the_deadline_it_is_no_success(sim, operator) -> None:
    add_pod(sim, "held", "n1", labels={"app": "held"})
    add_budget(sim, "strict", 1, app="held")
    found = operator.drain(drain_timeout=2.0)
    assert found["phase"] == "Blocked" and found["certificate"] is None
    assert {f["reason"] for f in found["findings"]} == {"DisruptionBudget", "DeadlineExceeded"}


def test_disable_eviction_goes_past_the_budgets(sim, operator) -> None:
    add_pod(sim, "held", "n1", labels={"app": "held"})
    add_budget(sim, "strict", 1, app="held")
    found = operator.drain(pods=PodOptions(disable_eviction=True, grace_period=0))
    assert found["phase"] == "Drained" and sim.requests("POST", "/eviction") == []


def test_what_the_vms_need_goes_last_and_only_with_a_replica_elsewhere(sim, operator) -> None:
    api = {"kubevirt.io": "virt-api"}
    add_pod(sim, "virt-api-1", "n1", owner="Controller/virt-api", labels=api)
    add_pod(sim, "web", "n1")
    blocked = operator.drain(pending_timeout=1.0)
    assert blocked["phase"] == "Blocked"
    assert pod_row(blocked, "virt-api-1")["reason"] == "LastReadyReplica"
    assert left(sim) == ["virt-api-1"]
    add_pod(sim, "virt-api-2", "n2", owner="Controller/virt-api", labels=api)
    found = operator.drain()
    assert found["phase"] == "Drained" and left(sim) == []
    web = sim.requests("POST", "web/eviction")
    last = sim.requests("POST", "virt-api-1/eviction")
    assert len(last) == 1 and last[0].at > web[0].at


def test_an_attachment_pod_goes_with_its_vm(sim, operator) -> None:
    """Evicted by itself, it would take a disk from a guest that runs."""
    sim.add_vm("vm", "n1", migrate_seconds="10")
    pod = launcher(sim)
    add_pod(sim, "hp-volume-x", "n1", owner="", labels={"kubevirt.io": "hotplug-disk"})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "controller": True}
    owner["uid"] = pod["metadata"]["uid"]
    sim.edit(PODS, "hp-volume-x", lambda o: o["metadata"].update(ownerReferences=[owner]), "default")
    found = operator.drain()
    assert found["phase"] == "Drained" and left(sim) == []
    calls = sim.requests("POST", "hp-volume-x/eviction")
    assert [call.status for call in calls] == [201]


def hotplug(sim, **notes: str) -> None:
    """An attachment pod of a VM that is not here any more."""
    add_pod(sim, "hp-volume-x", "n1", owner="", labels={"kubevirt.io": "hotplug-disk"}, notes=notes)


def test_an_attachment_pod_that_does_not_end_is_named(sim, operator) -> None:
    hotplug(sim, **{"lab/terminate-seconds": "6000"})
    found = operator.slice(Intent.DRAINED, 8.0, pending_timeout=60.0)
    (finding,) = found["findings"]
    assert (found["phase"], finding["reason"]) == ("Draining", "PodStillTerminating"), found
    assert "default/hp-volume-x" in finding["message"]
    found = operator.drain(pending_timeout=2.0)
    assert (found["phase"], found["findings"][0]["reason"]) == ("Blocked", "PodStillTerminating"), found
    sim.call(lambda: sim.world.store.delete(PODS, "default", "hp-volume-x"))
    found = operator.drain()
    assert found["phase"] == "Drained" and found["certificate"]["pods"] == []


def test_pods_of_vms_that_may_not_be_removed_are_named(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    words = "admission policy frozen denied the request"
    sim.api.faults.plan(403, 10**6, lambda m, p: m == "DELETE" and p.endswith("/pods"), text=words)
    found = operator.drain(pending_timeout=3.0)
    assert found["phase"] == "Blocked" and words in found["findings"][0]["message"], found
    assert evictions(sim) == ["vm"]
    sim.api.faults.planned.clear()
    assert operator.drain()["phase"] == "Drained"


def test_a_kill_between_the_pods_loses_none_of_them(sim, operator) -> None:
    for number in range(3):
        add_pod(sim, f"web-{number}", "n1")
    add_pod(sim, "held", "n1", labels={"app": "held"})
    add_budget(sim, "strict", 1, app="held")
    operator.slice(Intent.DRAINED, 1.0, "r")
    sim.edit(PDBS, "strict", lambda o: o["spec"].update(minAvailable=0), "default")
    found = operator.drain()
    assert len(found["certificate"]["pods"]) == 4


@pytest.mark.parametrize(
    ("pod", "least", "reason"),
    [
        ({"owner": ""}, None, "PodNotManaged"),
        ({"empty_dir": True}, None, "PodHasLocalData"),
        ({"owner": "DaemonSet/lost"}, None, "PodOfDaemonSet"),
        ({"labels": {"app": "held"}}, 1, "DisruptionBudget"),
        ({"priorityClassName": "system-cluster-critical"}, None, "LastReadyReplica"),
    ],
)
def test_the_preflight_tells_of_a_pod_what_the_drain_then_tells(sim, operator, pod, least, reason) -> None:
    add_pod(sim, "odd", "n1", **pod)
    if least is not None:
        add_budget(sim, "strict", least, app="held")
    told = preflight(operator.request(Intent.DRAINED, "r", 1.0), {})["findings"]
    assert [(row["code"], row["subject"]) for row in told] == [(reason, "pod default/odd")]
    found = operator.slice(Intent.DRAINED, 1.0)
    row = pod_row(found, "odd")
    assert (row["reason"], row["remedy"]) == (reason, told[0]["remedy"])


def test_a_plan_tells_the_pods_and_only_reads(sim, operator) -> None:
    add_pod(sim, "web", "n1")
    before = len(sim.log)
    found = check_mode.plan(operator.request(Intent.DRAINED, "r", 1.0), {})
    assert pod_row(found, "web")["verdict"] == "pending"
    assert {call.method for call in sim.log[before:]} == {"GET"}
    assert not sim.find(NODES, "n1")["spec"].get("unschedulable")
