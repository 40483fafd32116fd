"""When the migrations of the whole cluster are read, which costs most of all."""

from __future__ import annotations

from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.cluster import Cluster
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.waiting.read import WaitReader

CLUSTER = Cluster((1, 9), "None", 5, 2, False)
VMI = {
    "metadata": {"name": "vm", "namespace": "shop", "uid": "i1"},
    "spec": {},
    "status": {"phase": "Running", "nodeName": "n1"},
}


class Client:
    """Everything is empty; counts what is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find(self, _path: str) -> None:
        return None

    def list(self, path: str, *_selectors: str) -> tuple[list[Any], str]:
        self.asked.append(path.rpartition("/")[2])
        return [], "1"


def vmim(uid: str) -> dict[str, Any]:
    stamps = [{"phase": "Pending", "phaseTransitionTimestamp": "2026-01-01T00:00:00Z"}]
    meta = {"name": uid, "namespace": "shop", "uid": uid}
    status = {"phase": "Pending", "phaseTransitionTimestamps": stamps}
    return {"metadata": meta, "spec": {"vmiName": "vm"}, "status": status}


def test_the_cluster_is_read_when_one_waits_for_long_beside_free_places() -> None:
    """One that has only begun to wait, after a time when nobody did, gives no reason to."""
    now = [100.0]
    client = Client()
    waits = WaitReader(client, mono=lambda: now[0])

    def look(*moving: dict[str, Any]) -> bool:
        waits.update(moving)
        for migration in moving:
            waits.waits_for(VMI, [migration], CLUSTER, moving)
        return "virtualmachineinstancemigrations" in client.asked

    assert not look()
    now[0] += 1.0
    assert not look(vmim("m1"))
    now[0] += 1.0
    assert not look()
    now[0] += 60.0
    assert not look(vmim("m2"))
    now[0] += 2.5
    assert look(vmim("m2"))


def test_the_first_look_of_a_slice_reads_the_cluster_where_one_waits_beside_free_places() -> None:
    """The slice before has seen it wait, and this one does not know that."""
    client = Client()
    waits = WaitReader(client, mono=lambda: 100.0)
    waits.update([vmim("m1")])
    waits.waits_for(VMI, [vmim("m1")], CLUSTER, [vmim("m1")])
    assert "virtualmachineinstancemigrations" in client.asked
