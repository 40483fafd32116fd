"""The record of a large roll fits into the annotation of its Lease; and which nodes are out beside it."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import HostEntry, Roll, Stage
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import names
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.lease_notes import left_behind
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll import RollLease
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll_fleet import RollOfCluster

NOW = "2026-01-01T00:00:00Z"
MOST = 256 * 1024  # the annotations of one object, Kubernetes' TotalAnnotationSizeLimitB


class Api:
    """The Lease alone."""

    lease: dict[str, Any] | None = None

    def find(self, path: str) -> dict[str, Any] | None:
        return self.lease if "/leases/" in path else None

    def request(self, _method: str, _path: str, body: dict[str, Any], **_options: Any) -> None:
        self.lease = body


def test_a_thousand_nodes_or_three_thousand_vms_that_go_back() -> None:
    uids = (str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))) for number in range(3000))
    hosts = {}
    for number in range(1000):
        name = f"worker-{number:04}.example.com"
        away = {f"shop/web-{number}-{one}/{next(uids)}": "worker-0001.example.com" for one in range(3)}
        tally = {"moved": 3, "stopped": 0, "pause_ms": 100 + number}
        hosts[name] = HostEntry(name, Stage.DONE, NOW, begun=NOW, emptied=NOW, tally=tally, away=away)
    roll, api = Roll("r1", "me", "", "", NOW, hosts), Api()
    assert len(roll.to_json()) > MOST
    store: Any = RollLease(api, "default")  # type: ignore[arg-type]
    assert store.write(roll, None)
    assert api.lease is not None
    assert sum(map(len, api.lease["metadata"]["annotations"].values())) < MOST
    assert store.read()[0] == roll


@pytest.mark.parametrize("text", ["[]", "{", "7", '{"a": 1}', "z:?"])
def test_a_lease_that_somebody_has_written_into_ends_no_roll(text: str) -> None:
    notes = {names.RECORD: text, names.INSTANCES: text}
    lease = {"metadata": {"name": "virtops-maintenance-n9", "annotations": notes}}
    found = left_behind([lease], [], Api())  # type: ignore[arg-type]
    assert "not readable" in found["n9"]


def test_a_node_that_is_not_ready_or_not_schedulable_just_now_is_silent() -> None:
    """One that somebody cordoned stays out whatever its kubelet says."""

    def node(name: str, ready: str = "True", label: str = "true", **spec: Any) -> dict[str, Any]:
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        return {"metadata": {"name": name, "labels": {names.SCHEDULABLE: label}}, "spec": spec, "status": status}

    nodes = [node("n1"), node("n2", ready="Unknown"), node("n3", label="false"), node("n4", unschedulable=True)]
    nodes.append(node("n5", ready="Unknown", unschedulable=True))
    api: Any = SimpleNamespace(list=lambda path: (nodes if path.endswith("/nodes") else [], ""))
    fleet = RollOfCluster(api, "default").fleet()
    assert (fleet.out.keys(), fleet.silent) == ({"n2", "n3", "n4", "n5"}, {"n2", "n3"})
