"""Since when a migration could have begun."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.cluster import Cluster
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import facts
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.waiting import causes

CLUSTER = Cluster((1, 9), "None", 5, 2, False)
VMI = {
    "metadata": {"name": "vm", "namespace": "shop", "uid": "i1"},
    "spec": {},
    "status": {"phase": "Running", "nodeName": "n1"},
}
NOW = facts.seconds("2026-01-01T00:10:00Z")


def vmim(uid: str, phase: str, since: str) -> dict[str, Any]:
    stamps = [{"phase": phase, "phaseTransitionTimestamp": since}]
    meta = {"name": uid, "namespace": "shop", "uid": uid, "annotations": {"kubevirt.io/evacuationMigration": "n1"}}
    return {
        "metadata": meta,
        "spec": {"vmiName": "vm"},
        "status": {"phase": phase, "phaseTransitionTimestamps": stamps},
    }


def pod(ended: str) -> dict[str, Any]:
    state = {"terminated": {"finishedAt": ended}}
    return {"metadata": {"name": "p"}, "status": {"phase": "Failed", "containerStatuses": [{"state": state}]}}


@pytest.mark.parametrize(
    ("failed", "freed", "ended", "reason"),
    [
        ("00:05:00", "00:05:00", "00:05:00", Reason.TargetPodRefused),
        ("00:09:35", "00:05:00", "00:05:00", Reason.WaitingForSlot),  # its back-off of 20 s has ended 5 s ago
        ("00:05:00", "00:09:55", "00:05:00", Reason.WaitingForSlot),  # a slot was given back
        ("00:05:00", "00:05:00", "00:09:55", Reason.WaitingForSlot),  # the pod of the last attempt has ended
    ],
)
def test_what_has_just_become_possible_should_begin(failed: str, freed: str, ended: str, reason: Reason) -> None:
    moves = [vmim("m1", "Failed", f"2026-01-01T{failed}Z"), vmim("m2", "Pending", "2026-01-01T00:05:30Z")]
    pods, at = [pod(f"2026-01-01T{ended}Z")], facts.seconds(f"2026-01-01T{freed}Z")
    found = causes.first(causes.Known(VMI, moves, NOW, CLUSTER, pods, holders=[], freed=at))
    assert found is not None and found.reason is reason
    assert ("it should start" in found.message) == (reason is Reason.WaitingForSlot)


def test_what_was_withdrawn_before_it_began_waits_for_nothing() -> None:
    """The back-off that it stood in is told of one that is still wanted."""
    moves = [vmim("m1", "Failed", "2026-01-01T00:09:55Z"), vmim("m2", "Pending", "2026-01-01T00:09:56Z")]
    found = causes.first(causes.Known(VMI, moves, NOW, CLUSTER))
    assert found is not None and found.reason is Reason.MigrationBackoff
    moves[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:09:58Z"
    assert causes.first(causes.Known(VMI, moves, NOW, CLUSTER)) is None
