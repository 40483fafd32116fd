"""What is noted on a node about a run: once, and what became of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.node_events import notices


def told(intent: Intent, begun: bool, phase: str, ended: str = "final", changed: bool = True, **more: Any) -> list[str]:
    request: Any = SimpleNamespace(intent=intent, begun=begun, run_id="7", requester="me", reason="CHG-1")
    found = {"phase": phase, "ended": ended, "changed": changed, "vms": [], "findings": [], **more}
    return [one.reason + ("" if one.good else "!") for one in notices(request, found)]


@pytest.mark.parametrize(
    ("intent", "begun", "phase", "ended", "changed", "wanted"),
    [
        (Intent.DRAINED, False, "Draining", "out_of_time", True, ["MaintenanceDrainBegan"]),
        (Intent.DRAINED, True, "Draining", "out_of_time", True, []),
        (Intent.DRAINED, True, "Drained", "final", False, ["MaintenanceDrainEnded"]),
        (Intent.DRAINED, False, "Drained", "final", True, ["MaintenanceDrainBegan", "MaintenanceDrainEnded"]),
        (Intent.DRAINED, False, "Drained", "final", False, []),
        (Intent.DRAINED, True, "Blocked", "final", False, ["MaintenanceDrainFailed!"]),
        (Intent.DRAINED, True, "Draining", "needs", True, []),
        (Intent.ACTIVE, False, "Restoring", "out_of_time", True, []),
        (Intent.ACTIVE, False, "Active", "final", True, ["MaintenanceRestoreEnded"]),
        (Intent.ACTIVE, False, "Active", "final", False, []),
        (Intent.ACTIVE, True, "Blocked", "final", True, ["MaintenanceRestoreFailed!"]),
        (Intent.CORDONED, False, "Cordoned", "final", True, []),
    ],
)
def test_begin_and_end_are_noted_once(
    intent: Intent, begun: bool, phase: str, ended: str, changed: bool, wanted: list[str]
) -> None:
    assert told(intent, begun, phase, ended, changed) == wanted


def test_the_words_have_the_reasons_and_who_asked() -> None:
    request: Any = SimpleNamespace(intent=Intent.DRAINED, begun=True, run_id="7", requester="me", reason="CHG-1")
    vms = [{"verdict": "blocked", "reason": reason} for reason in ("A", "B", "B", "C", "D", "E")]
    found = {"phase": "Blocked", "ended": "final", "changed": True, "findings": [], "vms": vms}
    (one,) = notices(request, found)
    assert one.message == "The node is Blocked, not Drained: B, A, C and 2 more, run 7 of me: CHG-1"
