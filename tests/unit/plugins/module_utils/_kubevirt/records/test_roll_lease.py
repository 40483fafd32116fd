"""The record of a large roll fits into the annotation of its Lease."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import HostEntry, Roll, Stage
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import names
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.lease_notes import left_behind
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.roll import RollLease

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
