# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a roll did, a line for each host and one for all. Pure; from the record of the roll alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..decision.strategy import Way
from ..model.columns import columns
from .record import HostEntry, Roll, Stage

_HEAD = ("host", "is", "VMs moved", "stopped", "longest pause", "drained in", "by plan", "time")
_MOVED, _STOPPED = frozenset({"moved", "cold_moved"}), frozenset({"stopped", "saved"})


def tally(vms: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Of the rows that a drain returns: `moved`, `stopped`, and `pause_ms` where one was measured."""
    rows = list(vms)
    found = {
        "moved": sum(vm["verdict"] in _MOVED for vm in rows),
        "stopped": sum(vm["verdict"] in _STOPPED or _was_stopped_to_move(vm) for vm in rows),
    }
    pauses = [int(vm["pause_ms"]) for vm in rows if vm["verdict"] == "moved" and vm.get("pause_ms") is not None]
    return {**found, "pause_ms": max(pauses)} if pauses else found


def _was_stopped_to_move(vm: Mapping[str, Any]) -> bool:
    """Its guest was shut down, and it was started elsewhere: it counts as moved, and as stopped."""
    return bool(vm["verdict"] == "cold_moved" and vm["way"] in (Way.SHUTDOWN.value, Way.SAVE.value))


def moved(vms: Iterable[Mapping[str, Any]], by_name: bool) -> dict[str, str]:
    """VMs that a drain migrated, and where they are: by UUID, or `by_name` as namespace/name/UID.

    Not those that moved while they were off, and not those that their owner moved.
    """
    migrated = [vm for vm in vms if vm["verdict"] == "moved" and vm["way"] == Way.MIGRATE.value and vm.get("at")]
    return {f"{vm['name']}/{vm['uuid']}" if by_name else str(vm["uuid"]): str(vm["at"]) for vm in migrated}


def lines(roll: Roll) -> list[str]:
    """A table. A host that was not begun has no numbers but the plan's."""
    hosts = list(roll.hosts.values())
    rows = [(e.name, e.stage.value, *_numbers([e]), *_against_plan(roll, [e]), _time(e.begun, _end(e))) for e in hosts]
    done = f"{len(roll.in_stage(Stage.DONE))} of {len(hosts)} done"
    end = max((entry.since for entry in hosts), default="")
    whole = (f"roll {roll.id}", done, *_numbers(hosts), *_against_plan(roll, hosts), _time(roll.begun, end))
    return [*columns([_HEAD, *rows, whole]), *_back(hosts)]


def _back(entries: Sequence[HostEntry]) -> list[str]:
    """Where VMs were to go back to where they were."""
    back, away = sum(e.tally.get("back", 0) for e in entries), sum(len(e.away) for e in entries)
    return [f"back where they were: {back} of {back + away} VMs"] if back or away else []


def _against_plan(roll: Roll, entries: Sequence[HostEntry]) -> tuple[str, str]:
    """How long it took until they were empty, and what the plan said of that."""
    took = [found for e in entries if e.emptied and (found := seconds(e.begun, e.emptied)) is not None]
    by_plan = [roll.seconds[e.name] for e in entries if e.name in roll.seconds]
    return long(sum(took)) if took else "-", long(sum(by_plan)) if by_plan else "-"


def _numbers(entries: Sequence[HostEntry]) -> tuple[str, str, str]:
    known = [entry.tally for entry in entries if entry.tally]
    if not known:
        return ("-", "-", "-")
    pauses = [one["pause_ms"] for one in known if "pause_ms" in one]
    moved, stopped = (sum(one.get(key, 0) for one in known) for key in ("moved", "stopped"))
    return str(moved), str(stopped), f"{max(pauses)} ms" if pauses else "-"


def _end(entry: HostEntry) -> str:
    return entry.since if entry.stage in (Stage.DONE, Stage.FAILED) else ""


def seconds(begun: str, ended: str) -> int | None:
    """Between two times of records; None where one is missing."""
    try:
        return round((_parsed(ended) - _parsed(begun)).total_seconds())
    except ValueError:
        return None


def _parsed(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _time(begun: str, ended: str) -> str:
    took = seconds(begun, ended)
    return "-" if took is None else long(took)


def long(took: float) -> str:
    """Seconds for people: 48 s, 12 min 5 s, 3 h 20 min."""
    whole = round(took)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
