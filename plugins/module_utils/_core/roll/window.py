"""When the next host of a roll may begin: the soak after a host, the end of the maintenance window, a pause. Pure.

The times are those that the record has, in UTC, and may be of a host whose clock is wrong after its reboot: so who
rests also counts its own seconds, and whether a roll lives never hangs on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from ..model.policy import PolicyError
from ..model.wall import FORMAT, parsed
from .record import Roll, Stage
from .words import minutes

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration(name: str, text: str) -> float:
    """Seconds, from 300, "300", "5m", "1.5h". Raises PolicyError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(text).strip(), re.ASCII)
    if found is None:
        raise PolicyError(f"{name} is {text!r}: seconds are expected, or a number with s, m or h, such as 5m")
    return float(found[1]) * _UNITS[found[2]]


def until(name: str, text: str, now: datetime, zoned: Callable[[datetime], datetime]) -> str:
    """The end of the window in UTC; '': there is none. `now` is in the time zone in which 06:00 is meant. `zoned`:
    gives a time that zone, with the offset of then: the clocks may be changed in between.

    A time alone is the next one. Raises PolicyError for what is no time, or is over.
    """
    text = text.strip()
    if not text:
        return ""
    clock = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text, re.ASCII)
    try:
        if clock is not None:
            day = now.replace(tzinfo=None, hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
            end = zoned(day)
            end = zoned(day + timedelta(days=1)) if end <= now else end
        else:
            end = datetime.fromisoformat(re.sub("Z$", "+00:00", text))
            end = end if end.tzinfo is not None else zoned(end)
    except ValueError:
        raise PolicyError(
            f"{name} is {text!r}: a time such as 06:00 is expected (in YAML in quotes), or 2026-03-01T06:00"
        ) from None
    if end <= now:
        raise PolicyError(f"{name} is {text!r}, which is over: a time to come is expected")
    return end.astimezone(timezone.utc).strftime(FORMAT)


def planned_seconds(plan: Mapping[str, Any]) -> dict[str, float]:
    """Host -> seconds of its transfers and stops, from Plan.to_dict()."""
    return {host: float(step["duration"]) for step in plan["steps"] for host in step["hosts"]}


def planned_order(plan: Mapping[str, Any], hosts: Sequence[str]) -> list[str]:
    """The hosts in the order of the plan's steps; those that it does not have last, as they were given.

    Raises PolicyError for a plan that does not fit.
    """
    refusal = plan.get("refusal")
    if refusal:
        raise PolicyError(f"the plan does not fit: {refusal['sentence']}")
    ranks = {host: rank for rank, host in enumerate(host for step in plan["steps"] for host in step["hosts"])}
    return sorted(hosts, key=lambda host: ranks.get(host, len(ranks)))


def between(earlier: str, later: str) -> float:
    """Seconds, of two times as records have them; 0 for what is none."""
    try:
        return (parsed(later) - parsed(earlier)).total_seconds()
    except ValueError:
        return 0.0


def utc(name: str, text: str) -> str:
    """The text, if it is a time as records have it, or empty. Raises PolicyError."""
    try:
        return parsed(text).strftime(FORMAT) if text else ""
    except ValueError:
        raise PolicyError(f"{name} is {text!r}: a time in UTC is expected, such as 2026-03-01T05:00:00Z") from None


def expected(roll: Roll, host: str) -> float:
    """Seconds until it is done: by the plan, and what hosts of this roll took beyond theirs (work, reboot). One that
    another command carried on says nothing of that: the time between the two is in it."""
    beyond = [
        between(entry.begun, entry.since) - roll.seconds.get(entry.name, 0.0)
        for entry in roll.hosts.values()
        if entry.stage is Stage.DONE and entry.begun and not entry.carried_on
    ]
    return roll.seconds.get(host, 0.0) + max([0.0, *beyond])


def is_over(roll: Roll, now: str) -> str:
    """That the window has ended; '': it has not."""
    if not roll.until or between(now, roll.until) > 0:
        return ""
    return f"the window ended at {roll.until} (maintenance_until)"


def too_long(roll: Roll, host: str, now: str, first: float) -> str:
    """Why the window has no time left for this host; '': it has. `first`: seconds until it begins."""
    takes = expected(roll, host)
    if not roll.until or first + takes < between(now, roll.until):
        return ""
    return f"{host} takes about {minutes(first + takes)}, and the window ends at {roll.until} (maintenance_until)"


def soaks(roll: Roll, now: str, rested: float = 0.0, watched: bool = False) -> tuple[str, float]:
    """(the host that was done last, seconds until the next may begin); ('', 0): at once.

    `rested`: seconds for which the next one has waited for that, by its own clock. `watched`: it saw that host under
    way, so its own clock is enough, and one that is slow after its reboot shortens nothing.
    """
    done = [entry for entry in roll.hosts.values() if entry.stage is Stage.DONE]
    if not roll.soak or not done:
        return "", 0.0
    last = max(done, key=lambda entry: entry.since)
    left = roll.soak - (rested if watched else max(rested, between(last.since, now)))
    return (last.name, left) if left > 0 else ("", 0.0)
