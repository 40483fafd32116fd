"""The plan counts the CPU that pods request, and sees quotas that are used up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import quotas
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.plan.fleet import fleet_of, read_fleet
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight import read as preflight_read
from ansible_collections.virtops.maintenance.tests.kubevirt.test_plan import plan
from kubesim import Kubesim, templates
from kubesim.kinds import NODES, PODS, QUOTAS
from kubesim.reading import full_quota, row

pytestmark = pytest.mark.full


def cpus(sim: Kubesim, name: str, count: str, *names: str) -> None:
    """A VM's pod requests so many; nodes can give so many."""
    for node in names:
        sim.edit(NODES, node, lambda obj: obj["status"]["allocatable"].update(cpu=count))
    if name:
        made = templates.vm(name, "n1")
        inner = made["spec"]["template"]["spec"]
        inner["domain"]["resources"] = {"requests": {"cpu": count}}
        sim.add("virtualmachines", made)
        sim.until(lambda: sim.running(name, "default"))


def busy(sim: Kubesim, node: str, cpu: str) -> None:
    """Another pod there."""
    spec = {"nodeName": node, "containers": [templates.container(cpu=cpu)]}
    pod = {"metadata": {"name": f"busy-{node}", "namespace": "default"}, "spec": spec}
    sim.add("pods", {**pod, "status": {"phase": "Running"}})


def test_cpu_that_nobody_has_free_is_named(sim, operator) -> None:
    """And the scheduler says so too: the drain's target pod finds no node."""
    cpus(sim, "", "10", "n1", "n2", "n3")
    cpus(sim, "db", "8")
    busy(sim, "n2", "2500m")
    busy(sim, "n3", "4")
    found = read_fleet(operator.auth)
    (vm,) = found["vms"]
    assert (vm["cpu_milli"], vm["refused_by"]) == (8000, {})
    rows = {host["name"]: host for host in found["hosts"]}
    assert (rows["n2"]["cpu_milli"], rows["n2"]["committed_cpu_milli"]) == (10000, 2500)
    assert rows["n1"]["committed_cpu_milli"] == 0  # its launcher is the VM, counted once
    refusal = plan(found, ["n1"])["refusal"]
    text = "default/db (8 CPUs requested) has no target once n1 is out; free 0.5 CPUs"
    assert text in refusal["sentence"]
    assert "n2 has room for" in refusal["detail"] and "and 7.5 CPUs" in refusal["detail"]
    blocked = operator.drain(pending_timeout=1.0)
    assert blocked["phase"] == "Blocked" and "Insufficient cpu" in row(blocked, "db")["message"]
    assert operator.restore()["phase"] == "Active"
    sim.edit(PODS, "busy-n2", lambda pod: pod["status"].update(phase="Succeeded"), "default")
    planned = plan(read_fleet(operator.auth), ["n1"])
    assert planned["fits"] and planned["steps"][0]["moves"][0]["target"] == "n2"


def test_huge_pages_and_devices_are_counted_for_all_vms_together(sim, operator) -> None:
    """One node's two VMs find a place each by themselves, and together none: pages for one are free."""
    for name, node in (("a", "n1"), ("b", "n1"), ("on-n2", "n2"), ("on-n3", "n3")):
        sim.add_vm(name, node)
    client = Client(operator.auth)
    found = preflight_read.read(client)
    client.close()
    for what, each, whole in (("hugepages-1Gi", "16Gi", ("48Gi", "32Gi")), ("example.com/nic", "1", ("3", "2"))):
        for node in found.nodes:
            node["status"]["allocatable"][what] = whole[0] if node["metadata"]["name"] == "n2" else whole[1]
        for pod in found.pods:
            pod["spec"]["containers"][0]["resources"].setdefault("requests", {})[what] = each
        fleet = {**read_fleet(operator.auth), **fleet_of(found, "None")}
        free = {host["name"]: host["spare"][what] for host in fleet["hosts"]}
        assert list(free.values()) == ([0, 32768, 16384] if what == "hugepages-1Gi" else [0, 2, 1])
        assert plan(fleet, ["n1"])["fits"]
        for node in found.nodes:
            node["status"]["allocatable"][what] = whole[1] if node["metadata"]["name"] != "n3" else each
        refusal = plan({**fleet, **fleet_of(found, "None")}, ["n1"])["refusal"]
        assert what in refusal["sentence"] and "does not fit" in refusal["sentence"]
        for pod in found.pods:
            del pod["spec"]["containers"][0]["resources"]["requests"][what]


def test_a_vm_under_way_requests_its_cpu_and_memory_on_both_nodes(sim, operator) -> None:
    cpus(sim, "db", "8")
    client = Client(operator.auth)
    found = preflight_read.read(client)
    client.close()
    (pod,) = [p for p in found.pods if p["metadata"]["name"].startswith("virt-launcher")]
    there = json.loads(json.dumps(pod))
    there["metadata"]["uid"] = "another"
    there["spec"]["nodeName"] = "n2"
    found.pods.append(there)
    hosts = fleet_of(found, "None")["hosts"]
    assert {h["name"]: h["committed_cpu_milli"] for h in hosts} == {"n1": 0, "n2": 8000, "n3": 0}
    memory = {h["name"]: h["committed_mib"] for h in hosts}
    assert memory["n1"] == 0 < memory["n2"]  # nobody else gets what its target pod requests


def test_what_a_pod_requests_is_what_the_scheduler_counts() -> None:
    """Its containers beside its sidecars; or what one of its init containers asks for, if more."""

    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    def needs(*init: dict[str, Any], **more: Any) -> float:
        spec = {"containers": [container("1"), container("500m")], "initContainers": [*init]}
        return round(quotas.pod_needs({"spec": {**spec, **more}})["cpu"], 6)

    log = container("250m", restartPolicy="Always")
    assert needs() == 1.5 and needs(container("1")) == 1.5 and needs(container("2")) == 2
    assert needs(log) == 1.75 and needs(log, log) == 2
    assert needs(log, container("2")) == 2.25 and needs(container("2"), log) == 2
    assert needs(log, overhead={"cpu": "100m"}) == 1.85


def test_a_quota_with_no_headroom_is_a_warning(sim, operator) -> None:
    """Of VMs that migrate; one that is stopped needs no second pod."""
    for name, strategy in (("a", "LiveMigrate"), ("b", "LiveMigrate"), ("off", "None")):
        sim.add_vm(name, "n1", strategy=strategy)
    sim.add_vm("elsewhere", "n2")
    pods = full_quota(sim)
    found = read_fleet(operator.auth)
    planned = plan(found, ["n1"], allow_stop=True)
    assert planned["fits"]
    (text,) = planned["warnings"]
    assert text.startswith("default/tight leaves 0 of pods, and a target pod needs 1: default/a, ")
    assert text.endswith("default/a, default/b wait for it, until pending_timeout.")
    sim.edit(QUOTAS, "tight", lambda o: o["spec"]["hard"].update(pods=str(pods + 1)), "default")
    found = read_fleet(operator.auth)
    assert found["quotas"] == [] and plan(found, ["n1"], allow_stop=True)["warnings"] == []


def test_the_playbook_warns_of_a_quota_and_names_cpu(sim, plays) -> None:
    cpus(sim, "db", "8")
    meta = {"name": "tight", "namespace": "default"}
    sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": {"requests.cpu": "12"}}})
    done = plays.own("plan", maintenance_hosts="n1")
    text = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout
    assert "default/tight leaves 4 of requests.cpu, and a target pod needs 8: default/db" in text
    cpus(sim, "", "4", "n2", "n3")
    done = plays.own("plan", maintenance_hosts="n1")
    assert done.returncode != 0
    assert "default/db (8 CPUs requested) has no target" in " ".join(done.stdout.split())
