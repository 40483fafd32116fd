"""The table of a roll: a line for each host and one for all. Pure; from the record of the roll alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..decision.strategy import Way
from ..model.columns import columns, count
from ..model.tally import COUNTED, together
from ..model.tally import words as counts
from . import words
from .record import HostEntry, Roll, Stage, State

_HEAD = ("host", "is", "VMs", *(name.partition("_")[0] for name in COUNTED), "outage")  # the longest
_HEAD += ("drained in", "by plan", "time")
# Stages that no other follows: `since` is when the host was through.
ENDED = (Stage.DONE, Stage.FAILED, Stage.GIVEN_BACK)


def in_order(hosts: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Order hosts as they were taken out, the others last. `hosts`: entries in result form."""
    return sorted(hosts, key=lambda entry: entry.get("begun") or "not yet")


def moved(vms: Iterable[Mapping[str, Any]], by_name: bool) -> dict[str, str]:
    """VMs that a drain migrated, and where they are: by UUID, or `by_name` as namespace/name/UID.

    Not those that moved while they were off, and not those that their owner moved.
    """
    migrated = [vm for vm in vms if vm["verdict"] == "moved" and vm["way"] == Way.MIGRATE.value and vm.get("at")]
    return {f"{vm['name']}/{vm['uuid']}" if by_name else str(vm["uuid"]): str(vm["at"]) for vm in migrated}


def lines(roll: Roll) -> list[str]:
    """A table. A host that was not begun has no numbers but the plan's."""
    hosts = [roll.hosts[entry["name"]] for entry in in_order([vars(entry) for entry in roll.hosts.values()])]
    state = roll.state.value
    head = {e.name: (e.name, shown(e.stage.value, state)) for e in hosts}
    rows = [(*head[e.name], *_numbers([e]), *_against_plan(roll, [e]), _time(e.begun, _end(e), e.idle)) for e in hosts]
    done = f"{len(roll.in_stage(Stage.DONE))} of {len(hosts)} done"
    end = max((entry.since for entry in hosts), default="")
    whole = (f"roll {roll.id}", done, *_numbers(hosts), *_against_plan(roll, hosts), _time(roll.begun, end, roll.idle))
    return [*columns([_HEAD, *rows, whole]), *_lay(hosts), *_counted(hosts), *_back(hosts)]


def host_is_done(roll: Mapping[str, Any], host: str, restore: Mapping[str, Any] | None = None) -> str:
    """`roll`: the record in result form. `restore`: what that of the host returned, if it is known."""
    entry = next(one for one in roll["hosts"] if one["name"] == host)
    idle = entry.get("idle", 0)
    took = seconds(entry.get("begun", ""), entry.get("since", ""), idle)
    lay = f" (not counted: {long(idle)} until it was resumed)" if idle else ""
    time = "" if took is None else f" in {long(took)}{lay}"
    done = sum(one["stage"] == Stage.DONE.value for one in roll["hosts"])
    counted = counts(entry.get("tally") or {})
    became = f", {counted}" if counted else ""
    closed = f", {words.in_service(restore)}" if restore and restore.get("closed") else ""
    return f"{host} is done{time}{became}{closed} | roll {done}/{len(roll['hosts'])}"


def _lay(entries: Sequence[HostEntry]) -> list[str]:
    lay = ", ".join(f"{long(e.idle)} of {e.name}" for e in entries if e.idle and _end(e))
    return [f"Not counted, because nobody worked on it until it was resumed: {lay}."] if lay else []


def _counted(entries: Sequence[HostEntry]) -> list[str]:
    """How it is counted: which VMs they were is not in the record."""
    movers = [e for e in entries if e.tally.get("moved") or e.tally.get("cold_moved")]
    return ["Each host counts the VMs that left it; one that left two hosts counts twice."] if len(movers) > 1 else []


def shown(stage: str, state: str) -> str:
    """The stage as printed: in a roll (`state`) that does not run, no host is waiting."""
    waits_no_more = stage == Stage.WAITING.value and state != State.RUNNING.value
    return "not begun" if waits_no_more else stage


def _back(entries: Sequence[HostEntry]) -> list[str]:
    """Where VMs were to go back to where they were."""
    back, away = sum(e.tally.get("back", 0) for e in entries), sum(len(e.going_back) for e in entries)
    return [f"back where they were: {back} of {count(back + away, 'VM')}"] if back or away else []


def _against_plan(roll: Roll, entries: Sequence[HostEntry]) -> tuple[str, str]:
    """How long it took until they were empty, and what the plan said of that."""
    whole = [seconds(e.begun, e.emptied, e.idle_draining) for e in entries if e.emptied]
    took = [found for found in whole if found is not None]
    by_plan = [roll.terms.seconds[e.name] for e in entries if e.name in roll.terms.seconds]
    return long(sum(took)) if took else "-", long(sum(by_plan)) if by_plan else "-"


def _numbers(entries: Sequence[HostEntry]) -> tuple[str, ...]:
    counted = [entry.tally for entry in entries if "vms" in entry.tally]
    found = together(counted)
    numbers = [str(found[name]) if counted else "-" for name in ("vms", *COUNTED)]
    return (*numbers, outage(found.get("outage_ms")))


def pause(ms: int) -> str:
    """Format a pause: 133 ms, 48 s. What is known to the second only is given in seconds."""
    return f"{ms} ms" if ms < 10_000 and (ms % 1000 or not ms) else long(ms / 1000)


def outage(ms: int | None) -> str:
    """The same in one unit, where several stand below each other."""
    if ms is None:
        return "-"
    return f"{ms / 1000:.3g} s" if ms < 10_000 else long(ms / 1000)


def _end(entry: HostEntry) -> str:
    return entry.since if entry.stage in ENDED else ""


def seconds(begun: str, ended: str, idle: int = 0) -> int | None:
    """Between two times of records; None where one is missing. `idle`: of these, for which nobody worked on it."""
    try:
        return round((_parsed(ended) - _parsed(begun)).total_seconds()) - idle
    except ValueError:
        return None


def _parsed(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _time(begun: str, ended: str, idle: int) -> str:
    took = seconds(begun, ended, idle)
    return "-" if took is None else long(took)


def long(took: float) -> str:
    """Seconds for people: 48 s, 12 min 5 s, 3 h 20 min."""
    whole = round(took)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
