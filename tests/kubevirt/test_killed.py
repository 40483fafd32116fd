"""A run that is killed: what the next one says of its VMs is of this maintenance."""

from __future__ import annotations

import json

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import facts
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.names import INSTANCES
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.node_record import unpack
from kubesim.kinds import NODES, VMIMS, VMIS
from kubesim.reading import row
from kubesim.words import annotations

pytestmark = pytest.mark.full


def moved_before(sim, to: str) -> None:
    """Somebody has moved it there; KubeVirt keeps that migration object."""
    meta = {"generateName": "by-hand-", "namespace": "default", "labels": {"kubevirt.io/vmi-name": "vm"}}
    spec = {"vmiName": "vm", "addedNodeSelector": {"kubernetes.io/hostname": to}}
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": spec})
    sim.until(lambda: all(m.get("status", {}).get("phase") == "Succeeded" for m in sim.world.store.all(VMIMS)))
    sim.until(lambda: sim.world.store.find(VMIS, "default", "vm")["status"]["nodeName"] == to)


def test_a_migration_object_that_is_gone_when_the_next_run_looks_has_its_seconds(sim, operator) -> None:
    """KubeVirt keeps five that have ended, and users delete more."""
    sim.add_vm("vm", "n1", migrate_seconds="8")
    operator.drain_until(lambda found: any(m.get("status", {}).get("phase") == "Running" for m in sim.all(VMIMS)), 0.3)
    sim.until(lambda: all(m.get("status", {}).get("phase") == "Succeeded" for m in sim.world.store.all(VMIMS)))
    (ours,) = sim.all(VMIMS)
    sim.call(lambda: sim.world.store.delete(VMIMS, "default", ours["metadata"]["name"]))
    sim.until(lambda: not list(sim.world.store.all(VMIMS)))
    found = operator.drain()
    assert (found["phase"], row(found, "vm")["verdict"]) == ("Drained", "moved")
    assert row(found, "vm")["duration"] == facts.took(ours, sim.find(VMIS, "vm")) > 0


def test_which_migrations_are_older_than_the_request_is_written_before_it_is_made(sim, operator, monkeypatch) -> None:
    """Killed after its eviction, the next run must not take an earlier migration of the VM for the one asked for: it
    told that one's seconds, or its failure."""
    sim.add_vm("vm", "n1")
    for node in ("n2", "n1"):
        moved_before(sim, node)
    before = {m["metadata"]["uid"][:8] for m in sim.all(VMIMS)}
    written, send = [], Client._send

    def sent(client, method, path, *args):
        if path.endswith("/eviction"):
            written.append(json.loads(unpack(annotations(sim.find(NODES, "n1"))[INSTANCES])))
        return send(client, method, path, *args)

    monkeypatch.setattr(Client, "_send", sent)
    found = operator.drain()
    assert found["phase"] == "Drained" and len(before) == 2
    assert [set(one["old"]) for one in written[0].values()] == [before]
    vmi = sim.find(VMIS, "vm")
    (ours,) = [m for m in sim.all(VMIMS) if m["metadata"]["uid"][:8] not in before]
    assert row(found, "vm")["duration"] == facts.took(ours, vmi)
