"""Make check mode of a drain give the same answer as the preflight. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..decision.actions import NodePhase
from ..model.record import Ending, Intent
from ..reasons.reason import About, Finding, Platform, Reason, Severity

Row = dict[str, Any]


def is_due(found: Mapping[str, Any], state: str) -> bool:
    """Is a preflight to be read beside this result of check mode? `state`: that was wanted."""
    return state == Intent.DRAINED.value and bool(found.get("planned"))


def with_preflight(found: dict[str, Any], findings: Iterable[Mapping[str, Any]], platform: Platform) -> dict[str, Any]:
    """`found`, the result of check mode or of the node's info, with what a preflight calls a blocker.

    A VM that has one would not be moved, whatever its drain would ask for; one of the node keeps all of them.
    `findings`: of the preflight.
    """
    vms = {row["name"]: row for row in found["vms"]}
    for blocker in findings:
        if blocker["severity"] != Severity.BLOCKER.value:
            continue
        told = Finding(Reason(blocker["code"]), blocker["message"]).to_dict(platform)
        row = vms.get(blocker["subject"].removeprefix("VM "))
        if row is not None:
            _keep(found, row, told)
        elif blocker["about"] != About.POD.value and not blocker["subject"].startswith("VM "):
            if told["reason"] not in [known["reason"] for known in found["findings"]]:
                found["findings"].append(told)
            if "phase" in found:
                found["phase"] = NodePhase.BLOCKED.value
    return found


def _keep(found: dict[str, Any], row: Row, told: Mapping[str, str]) -> None:
    """Promise nothing for this VM: no act, no times. `told` is its reason, unless check mode itself has found one."""
    if row["verdict"] not in ("pending", Ending.NONE.value):
        return
    if not row["reason"]:
        row.update(told)
    if "planned" not in found:
        return
    found["planned"] = [act for act in found["planned"] if act["vm"] != row["name"]]
    for key in ("predicted_duration", "predicted_pause_ms"):
        row.pop(key, None)
    found["would_stay"] = sorted({*(found.get("would_stay") or ()), row["name"]})
