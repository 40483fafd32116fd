"""Statistics and names of a roll, plan or drains, for the next job of a workflow and for notifications. Pure.

They are small whatever the fleet is: hosts that went well are counted, those that need somebody are named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..model.tally import tally, together
from . import table, words
from .record import AT_REST, Roll, Stage
from .report import outcome

_AT_REST = frozenset(stage.value for stage in AT_REST)


def of_roll(
    roll: Mapping[str, Any] | None, unreadable: bool = False, given_back: Collection[str] = ()
) -> dict[str, Any]:
    """`roll`: its record, in result form. `given_back`: by an abort, since that record was read."""
    entries = [] if roll is None else [entry for entry in roll["hosts"] if entry["name"] not in given_back]
    failed = [entry["name"] for entry in entries if entry["stage"] == Stage.FAILED.value]
    return {
        "roll": "" if roll is None else roll["id"],
        "result": _result(roll, unreadable),
        "hosts": 0 if roll is None else len(roll["hosts"]),
        "done": sum(entry["stage"] == Stage.DONE.value for entry in entries),
        "out": [entry["name"] for entry in entries if _is_out(entry)],
        "failed": failed,
        "begun": "" if roll is None else roll["begun"],
        "tally": together([] if roll is None else [entry.get("tally") or {} for entry in roll["hosts"]]),
    }


def _is_out(entry: Mapping[str, Any]) -> bool:
    return entry["stage"] not in _AT_REST and entry.get("failed_in") != Stage.WAITING.value


def _result(roll: Mapping[str, Any] | None, unreadable: bool) -> str:
    if roll is None:
        return "unreadable" if unreadable else "none"
    return outcome(roll["state"], roll["hosts"])


def of_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """`plan`: as Plan.to_dict() has it."""
    return {
        "fits": plan["fits"],
        "hosts": sum(len(step["hosts"]) for step in plan["steps"]),
        "steps": len(plan["steps"]),
        "hosts_left": list(plan["hosts_left"]),
        "moves": plan["moves"],
        "stops": plan["stops"],
        "minutes": round(plan["duration"] / 60, 1),
    }


def of_drains(hosts: Sequence[str], results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """`results`: of the drains by host. A host without one was not begun."""
    drained = [name for name in hosts if results.get(name, {}).get("phase") == "Drained"]
    return {
        "hosts": len(hosts),
        "drained": len(drained),
        "not_drained": [name for name in hosts if name not in drained],
        "tally": tally(vm for name in hosts for vm in results.get(name, {}).get("vms") or ()),
    }


def begun(roll: Roll, message: str) -> dict[str, Any]:
    """An event, for the user's own notifications: statistics of the roll, and what happened."""
    return _event("begin", roll, message)


def of_host(roll: Roll, host: str) -> dict[str, Any]:
    """The event that a host is done or has failed; empty: nothing to report."""
    entry = roll.hosts.get(host)
    if entry is None or entry.stage not in (Stage.DONE, Stage.FAILED):
        return {}
    if entry.stage is Stage.FAILED:
        return _event("failed", roll, words.has_failed(entry), host)
    return _event("done", roll, table.host_is_done(roll.to_dict(), host), host)


def ended(roll: Roll) -> dict[str, Any]:
    return _event("end", roll, words.result(roll))


def _event(what: str, roll: Roll, message: str, host: str = "") -> dict[str, Any]:
    found = {"event": what, "host": host, "message": message, **of_roll(roll.to_dict())}
    return {**found, "tally": together([roll.hosts[host].tally])} if host else found
