"""What the cluster or a VM's kind does not allow is told in true words, and ends."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import OnNotMigratable
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from ansible_collections.virtops.maintenance.tests.kubevirt.one_vm import phases
from kubesim import templates
from kubesim.kinds import NODES, VMIS
from kubesim.patience import patience
from kubesim.reading import DISKS, clean, evictions, row
from kubesim.words import FINAL, phase

NO = 'admission webhook "guard.example.org" denied the request: not on a Friday'


def eviction(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/eviction")


def to_its_end(request, found=None):
    """The slices of a run that go on with it, handing over what each one knows."""
    end = time.monotonic() + patience()
    while found is None or found["ended"] != "final":
        assert time.monotonic() < end, f"not final: {found}"
        cursor = found.get("cursor") if found else None
        found = service.run_slice(replace(request, begun=True, cursor=cursor))
    return found


@pytest.mark.parametrize("strategy", ["LiveMigrate", "None"])
def test_a_bare_instance_is_not_stopped_since_its_definition_would_go(sim, operator, strategy):
    knobs = DISKS if strategy == "LiveMigrate" else {}
    sim.add_vm("vm", "n1", strategy=strategy, run_strategy="", **knobs)
    found = operator.drain(allow_stop=True, on_not_migratable=OnNotMigratable.SHUTDOWN)
    vm = row(found, "vm")
    assert (found["phase"], vm["verdict"], vm["reason"]) == ("Blocked", "blocked", "TransientDomain")
    assert "no VirtualMachine" in vm["message"]
    assert sim.find(VMIS, "vm")["status"]["phase"] == "Running" and evictions(sim) == []
    assert operator.restore()["phase"] == "Active" and clean(sim)


@pytest.mark.parametrize("strategy", ["LiveMigrate", "None"])
def test_an_instance_of_a_replica_set_is_stopped_since_the_set_makes_another(sim, operator, strategy):
    knobs = DISKS if strategy == "LiveMigrate" else {}
    sim.add("virtualmachineinstancereplicasets", templates.replica_set("web", "n1", strategy, **knobs))
    sim.until(lambda: [v for v in sim.world.store.all(VMIS) if phase(v) == "Running"])
    (before,) = sim.all(VMIS)
    found = operator.drain(allow_stop=True, on_not_migratable=OnNotMigratable.SHUTDOWN)
    vm = row(found, before["metadata"]["name"])
    assert (found["phase"], vm["verdict"], vm["reason"]) == ("Drained", "stopped", "RestartedByOthers"), vm
    assert "VirtualMachineInstanceReplicaSet default/web creates another one" in vm["message"]
    (after,) = [v for v in sim.all(VMIS) if phase(v) not in FINAL]
    assert after["metadata"]["name"] != before["metadata"]["name"] and after["status"].get("nodeName") != "n1"
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_the_preflight_says_that_a_bare_instance_is_not_stopped(still) -> None:
    still.vm(run_strategy="", strategy="None")
    found = still.told(allow_stop=True)
    assert found[Reason.TransientDomain]["severity"] == "blocker" and Reason.StaysOff not in found


@pytest.mark.parametrize("strategy", ["LiveMigrate", "None"])
@pytest.mark.parametrize("code", [403, 404, 429])
def test_a_webhook_that_refuses_an_eviction_is_told_in_its_words(sim, operator, code, strategy):
    sim.add_vm("vm", "n1", strategy=strategy)
    sim.api.faults.plan(code, 1000, eviction, text=NO)
    found = operator.drain(allow_stop=True, backoff=0.1, shutdown_timeout=1.0, max_attempts=2)
    vm = row(found, "vm")
    assert (found["phase"], vm["verdict"]) == ("Blocked", "blocked"), vm
    assert "AdmissionRefused" in f"{vm['reason']}: {vm['message']}" and NO in vm["message"]
    assert sim.node_of("vm") == "n1"


def test_when_the_server_may_be_asked_again_is_kept_over_slices(sim, operator) -> None:
    """Nothing is asked before, no attempt is spent, and it counts against pending_timeout."""
    sim.add_vm("vm", "n1")
    sim.api.faults.plan(429, 1000, eviction, retry_after=1000)
    request = operator.request(Intent.DRAINED, "mine", 1.0, backoff=0.1, pending_timeout=4.0)
    found = to_its_end(replace(request, cursor=""), service.run_slice(replace(request, cursor="")))
    vm = row(found, "vm")
    assert (found["phase"], vm["verdict"], vm["reason"]) == ("Blocked", "blocked", "APIError")
    assert "too many requests" in vm["message"] and evictions(sim) == ["vm"]


def test_a_vm_that_hangs_while_it_starts_here_is_named_with_its_pod(sim, operator) -> None:
    sim.add_vm("vm", "n1", wait=False, pod="hang")
    sim.until(lambda: [p for p in sim.world.pods_of(vmi(sim)) if p["spec"].get("nodeName")])
    found = operator.drain(pending_timeout=1.0)
    (finding,) = found["findings"]
    assert (found["phase"], finding["reason"]) == ("Blocked", "VMStartsHere")
    text = finding["message"]
    assert "default/vm is not running yet" in text and "pod default/virt-launcher-vm-" in text
    assert vmi(sim)["metadata"]["uid"] not in text and "source" not in finding["remedy"]


def vmi(sim):
    return sim.world.store.find(VMIS, "default", "vm") or {"metadata": {"uid": "", "namespace": ""}}


@pytest.mark.full
def test_a_target_node_that_goes_down_in_mid_migration_ends_with_its_pod_named(sim, operator) -> None:
    sim.edit(NODES, "n3", lambda o: o["spec"].update(unschedulable=True))
    sim.add_vm("vm", "n1", migrate_seconds="600")
    sim.configure(migrations={"progressTimeout": 30})
    request = operator.request(Intent.DRAINED, "mine", 1.0, pending_timeout=4.0)
    service.run_slice(request)
    sim.until(lambda: "Running" in phases(sim))
    sim.edit(NODES, "n2", lambda o: o["metadata"]["annotations"].update({"lab/down": "true"}))
    sim.edit(NODES, "n3", lambda o: o["spec"].pop("unschedulable"))
    sim.until(lambda: "Failed" in phases(sim))
    found = to_its_end(replace(request, seconds=6.0))
    vm = row(found, "vm")
    assert (found["phase"], vm["verdict"], vm["reason"]) == ("Blocked", "blocked", "TargetPodNotReady"), vm
    assert "of an earlier migration has not ended; check its node n2" in vm["message"]
    assert sim.node_of("vm") == "n1"
    assert operator.restore()["phase"] == "Active" and clean(sim)
