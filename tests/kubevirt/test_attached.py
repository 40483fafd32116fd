"""A node is Drained when the volumes of what has left it are detached: a power-off would hold them for six minutes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, rules_without
from kubesim import templates
from kubesim.kinds import ATTACHMENTS, NODES
from kubesim.reading import add_pod, clean

HELD = 10.0**7


def volume(sim, claim: str) -> dict:
    """A claim with its volume; what a pod says of it."""
    body = templates.claim(claim, "ReadWriteOnce")
    body["spec"]["volumeName"] = f"pv-{claim}"
    sim.add("persistentvolumeclaims", body)
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": claim},
        "csi": {"driver": "csi.kubesim.example", "volumeHandle": f"pv-{claim}"},
    }
    sim.add("persistentvolumes", {"metadata": {"name": f"pv-{claim}"}, "spec": spec})
    return {"name": "data", "persistentVolumeClaim": {"claimName": claim}}


def vm_with_disk(sim, name: str, strategy: str = "LiveMigrate", run_strategy: str = "Always") -> None:
    made = templates.vm(name, "n1", strategy, run_strategy)
    spec = made["spec"]["template"]["spec"]
    spec["volumes"] = [volume(sim, name)]
    spec["domain"]["devices"]["disks"] = [{"name": "data", "disk": {"bus": "virtio"}}]
    sim.add("virtualmachines", made)
    sim.until(lambda: sim.running(name) and attached(sim, "n1"))


def attached(sim, node: str) -> list[str]:
    """Only on the cluster's thread."""
    return [one["metadata"]["name"] for one in sim.world.store.all(ATTACHMENTS) if one["spec"]["nodeName"] == node]


def test_a_volume_of_a_vm_that_was_stopped_is_waited_for_and_named(sim, operator) -> None:
    vm_with_disk(sim, "db", strategy="None")
    sim.world.detach_seconds = HELD
    found = operator.drain(allow_stop=True, pending_timeout=3.0)
    (finding,) = found["findings"]
    assert (found["phase"], finding["reason"]) == ("Blocked", "VolumeStillAttached"), found
    assert "pv-db of default/db" in finding["message"] and found["certificate"] is None
    sim.call(lambda: sim.world.store.delete(ATTACHMENTS, "", attached(sim, "n1")[0]))
    sim.edit(NODES, "n1", lambda o: o["status"].update(volumesAttached=[]))
    assert operator.drain(allow_stop=True)["phase"] == "Drained"


def test_the_certificate_comes_after_the_volumes_of_a_vm_that_moved(sim, operator) -> None:
    vm_with_disk(sim, "web")
    sim.world.detach_seconds = 40.0
    request = replace(operator.request(Intent.DRAINED, "mine", 1.0), cursor="")
    told = []
    while True:
        found = service.run_slice(request)
        told += [one["reason"] for one in found["findings"]]
        if found["ended"] == "final":
            break
        request = replace(request, begun=True, cursor=found["cursor"])
    assert found["phase"] == "Drained" and "VolumeStillAttached" in told
    assert sim.call(lambda: attached(sim, "n1")) == []
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_what_stays_keeps_its_volume(sim, operator) -> None:
    """A pod of a DaemonSet that is left alone, as kubectl drain leaves it."""
    sim.add_vm("web", "n1")
    sim.add("daemonsets", templates.daemon_set("agent"))
    add_pod(sim, "agent", "n1", owner="DaemonSet/agent", volumes=[volume(sim, "agent")])
    sim.until(lambda: attached(sim, "n1"))
    assert operator.drain()["phase"] == "Drained"
    assert sim.call(lambda: attached(sim, "n1"))


def test_without_the_right_it_is_named(sim, operator) -> None:
    vm_with_disk(sim, "web")
    sim.world.detach_seconds = HELD
    sim.api.access.rules[TOKEN] = rules_without("list", "volumeattachments")
    with pytest.raises(Exception, match="Not allowed: list volumeattachments"):
        operator.drain()
