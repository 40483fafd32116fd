"""The plan as a table for people, and as two texts for diff mode. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..decision.placement import cpus
from ..model.columns import columns, count

_HEAD = ("VM", "what", "from", "to", "GiB", "start", "takes", "pause", "why")
_RIGHT = frozenset({4, 5, 6, 7})
WHY_WIDTH = 60
_NAMED = 5


def table(plan: Mapping[str, Any]) -> list[str]:
    """The lines. A plan as Plan.to_dict() has it."""
    lines: list[str] = []
    for step in plan["steps"]:
        second = f", {step['second_moves']} will move again" if step["second_moves"] else ""
        lines.append(
            f"Step {step['number']}: {', '.join(step['hosts'])}   "
            f"{count(len(step['moves']), 'VM')}{second}{_fits_if(step)}, "
            f"takes {_time(step['duration'])}; "
            f"left meanwhile: {_gib(step['spare_mib'])} GiB{_spare_cpu(step)}, "
            f"at most {_gib(step['largest_mib'])} GiB on one host ("
            f"{step['largest_on'] or 'none'})"
        )
        lines += _rows(step["moves"], _predicted(plan))
    back = plan.get("moves_back")
    if back:
        where = "it was" if len(back) == 1 else "they were"
        lines.append(f"Then {_goes(len(back))} back to where {where}: takes {_time(plan['back_duration'])}")
        lines += _rows(back, False)
    if _predicted(plan):
        lines.append("Targets are predicted: KubeVirt's scheduler chooses them when a VM moves.")
        if any(move["way"] == "shutdown" for step in plan["steps"] for move in step["moves"]):
            always = "KubeVirt starts it on another node at once where its runStrategy is Always."
            lines.append(f"A VM that is shut down stays off until its host is restored. {always}")
    lines += [f"Warning: {text}" for text in plan["warnings"]]
    lines += [f"This does not fit either: {one}" for one in (plan["refusal"] or {}).get("others", ())]
    order = [host for step in plan["steps"] for host in step["hosts"]]
    if plan["refusal"] is None and len(order) > 1:
        lines.append(f"To roll in this order: -e maintenance_hosts={','.join(order)}")
    lines.append(summary(plan))
    return lines


def summary(plan: Mapping[str, Any]) -> str:
    """One line: it fits, or why not."""
    if plan["refusal"] is not None:
        done = sum(len(step["hosts"]) for step in plan["steps"])
        return (
            f"{plan['refusal']['sentence']}. Planned before it: {count(done, 'host')}; "
            f"not planned: {', '.join(plan['hosts_left'])}."
        )
    hosts = sum(len(step["hosts"]) for step in plan["steps"])
    return (
        f"It fits{_if(plan['fits_if'])}: {count(hosts, 'host')} in {count(len(plan['steps']), 'step')}, {_work(plan)}."
    )


def _work(plan: Mapping[str, Any]) -> str:
    """Count moves and stops, and say how long they take. A plan that is older than the count of stops has none."""
    moves, stops = plan["moves"], plan.get("stops", 0)
    parts, what = [], []
    if moves:
        parts.append(f"{count(moves, 'move')} of {count(plan['vms_moved'], 'VM')} ({plan['moves_per_vm']:.2f} each)")
        what.append("transfers")
    if stops:
        parts.append(count(stops, "stop"))
        what.append("stops")
    if not parts:
        return "no VM moves"
    if plan.get("moves_back"):
        parts.append(f"then {_goes(len(plan['moves_back']))} back")
    return f"{', '.join(parts)}, {_time(plan['duration'])} for the {' and '.join(what)}"


def _goes(vms: int) -> str:
    return f"{count(vms, 'VM')} go{'es' if vms == 1 else ''}"


def _spare_cpu(step: Mapping[str, Any]) -> str:
    """Empty for plans that are older than CPU accounting."""
    milli = step.get("spare_cpu_milli")
    return "" if milli is None else f" and {cpus(milli)}"


def _fits_if(step: Mapping[str, Any]) -> str:
    return f", fits{_if(step['fits_if'])}" if step["fits_if"] else ""


def _if(owned: Sequence[Mapping[str, Any]]) -> str:
    """Name the VMs that their owners have to move, or it does not fit; empty: none."""
    names = list(dict.fromkeys(move["name"] for move in owned))
    if not names:
        return ""
    who = "its owner moves" if len(names) == 1 else "their owners move"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f", if {who} {', '.join(names[:_NAMED])}{more}"


def _predicted(plan: Mapping[str, Any]) -> bool:
    return bool(plan.get("targets") == "predicted")


def _rows(moves: Sequence[Mapping[str, Any]], predicted: bool) -> list[str]:
    head = tuple("to (predicted)" if predicted and cell == "to" else cell for cell in _HEAD)
    rows = [head] + [_row(move) for move in moves]
    if len(rows) == 1:
        return []
    return [f"  {line}" for line in columns(rows, _RIGHT)]


def _row(move: Mapping[str, Any]) -> tuple[str, ...]:
    what = f"{move['way']} for {move['swap_for']}" if move["swap_for"] else move["way"]
    pause = move["pause_ms"]
    return (
        move["name"],
        what,
        move["source"],
        move["target"] or "-",
        _gib(move["memory_mib"]),
        "-" if move["start"] is None else _time(move["start"]),
        "-" if move["duration"] is None else _time(move["duration"]),
        "-" if pause is None else (f"{pause / 1000:.2g} s" if pause < 2000 else _time(pause / 1000)),
        move["why"][:WHY_WIDTH],
    )


def _gib(mib: float) -> str:
    return f"{mib / 1024:.0f}" if mib % 1024 == 0 else f"{mib / 1024:.1f}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def diff(vms: Sequence[Mapping[str, Any]], plan: Mapping[str, Any]) -> dict[str, str]:
    """Where each VM is before the roll and after it."""
    before = {vm.get("uuid") or vm["name"]: (vm["name"], vm["host"]) for vm in vms}
    after = dict(before)
    for step in plan["steps"]:
        for move in step["moves"]:
            if move["target"]:
                after[move["vm"]] = (move["name"], move["target"])
    for move in plan.get("moves_back", ()):
        after[move["vm"]] = (move["name"], move["target"])
    return {"before": _places(before), "after": _places(after)}


def _places(found: Mapping[str, tuple[str, str]]) -> str:
    return "".join(f"VM {name}: on {host}\n" for name, host in sorted(found.values()))
