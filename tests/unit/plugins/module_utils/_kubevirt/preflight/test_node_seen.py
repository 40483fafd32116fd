"""What a Node object says of its own state."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.cluster import node_seen


def node(name: str, beat: str, ready: str, label: str = "true") -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": ready}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubevirt.io/schedulable": label},
            "annotations": {"kubevirt.io/heartbeat": beat},
        },
        "status": {"conditions": [condition if ready else {"type": "Ready", "status": "True"}]},
    }


@pytest.mark.parametrize(
    ("beat", "ready", "silent"),
    [
        ("2026-03-01T10:00:00Z", "2026-03-01T10:00:30Z", "no heartbeat since the node rebooted"),
        ("2026-03-01T10:00:31Z", "2026-03-01T10:00:30Z", ""),
        ("2026-03-01T10:00:30Z", "2026-03-01T10:00:30Z", ""),
        ("2026-03-01T10:00:00Z", "", ""),
        ("2026-03-01T09:50:00Z", "2026-02-01T10:00:00Z", "older than the newest of all nodes"),
    ],
)
def test_a_heartbeat_of_before_the_reboot_is_none(beat: str, ready: str, silent: str) -> None:
    one = node("a", beat, ready)
    found = node_seen(one, [one, node("b", "2026-03-01T10:00:40Z", "")], None, "", "", rebooted=True)
    assert silent in found.silent
    assert bool(found.silent) == bool(silent)


def test_where_only_the_kubelet_was_away_its_ready_says_nothing_of_virt_handler() -> None:
    """A heartbeat comes every 60 to 132 s, so for that long Ready is newer."""
    one = node("a", "2026-03-01T10:00:00Z", "2026-03-01T10:00:30Z")
    assert node_seen(one, [one], None, "", "").silent == ""


def test_a_label_that_is_false_and_a_heartbeat_that_is_old_are_two_things() -> None:
    one = node("a", "2026-03-01T10:00:31Z", "2026-03-01T10:00:30Z", "false")
    found = node_seen(one, [one], None, "", "", rebooted=True)
    assert found.silent == "" and "is false" in found.unschedulable and "2026-03-01T10:00:31Z" in found.unschedulable
