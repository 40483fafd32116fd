"""After the fact: what the plan said of each VM against what became of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# The plan's way -> the verdict with which it ends.
_ENDS = {
    "migrate": "moved",
    "cold_migrate": "cold_moved",
    "shutdown": "stopped",
    "save": "saved",
    "off": "off",
    "external": "moved",
}
# Where targets are predicted, on KubeVirt, a VM that is stopped starts elsewhere by itself if its
# runStrategy says so.
_ENDS_THERE = {"shutdown": frozenset({"stopped", "cold_moved"})}


def compare(plan: Mapping[str, Any], node: str, vms: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each VM of the plan's step for `node`, and for each that the drain saw.

    `plan`: Plan.to_dict(). `vms`: the rows of the drain's result. Where the plan has the node
    not at all, every VM is unforeseen.
    """
    planned = {
        move["vm"]: move
        for step in plan.get("steps", ())
        if node in step["hosts"]
        for move in step["moves"]
        if move["source"] == node
    }
    seen = {row["uuid"]: row for row in vms}
    others = _ENDS_THERE if plan.get("targets") == "predicted" else {}
    rows = [_row(planned.get(uuid), seen.get(uuid), others) for uuid in {**planned, **seen}]
    return sorted(rows, key=lambda row: (row["name"], row["uuid"]))


def _row(
    planned: Mapping[str, Any] | None, seen: Mapping[str, Any] | None, others: Mapping[str, frozenset[str]]
) -> dict[str, Any]:
    one: Mapping[str, Any] = seen or planned or {}
    predicted = None if planned is None else planned["duration"]
    actual = (seen or {}).get("duration") or None
    off = None
    if predicted and actual:
        off = round(actual / predicted - 1, 3)
    return {
        "name": one["name"],
        "uuid": one.get("uuid") or one.get("vm"),
        "predicted_verdict": "" if planned is None else _ENDS.get(planned["way"], planned["way"]),
        "verdict": "" if seen is None else seen["verdict"],
        "predicted_target": "" if planned is None else planned["target"],
        "target": "" if seen is None else seen["at"],
        "predicted_duration": predicted,
        "duration": actual,
        "off_by": off,
        "predicted_pause_ms": None if planned is None else planned["pause_ms"],
        "outage_ms": None if seen is None else seen["outage_ms"],
        "as_foreseen": _as_predicted(planned, seen, others),
    }


def _as_predicted(
    planned: Mapping[str, Any] | None, seen: Mapping[str, Any] | None, others: Mapping[str, frozenset[str]]
) -> bool:
    """The verdict, not the target: the drain chooses among those that fit when a VM starts."""
    if planned is None or seen is None:
        return False
    way, verdict = planned["way"], seen["verdict"]
    return bool(_ENDS.get(way, way) == verdict or verdict in others.get(way, ()))
