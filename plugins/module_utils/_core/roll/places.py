"""How many hosts may be out at once: of the fleet, and of each rack, site, or whatever else groups them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from . import words
from .record import Fleet, Roll, Stage


@dataclass(frozen=True)
class Limit:
    """At most `most` hosts at once; `out`: those that are, and why. `of`: what they share, "rack r1"; "": the fleet."""

    most: int
    out: Mapping[str, str]
    of: str = ""

    @property
    def is_used_up(self) -> bool:
        return len(self.out) >= self.most


def budget(most: str, hosts: int) -> int:
    """How many hosts may be out at once: a number, or a share of the fleet, rounded down; at least
    one."""
    if most.endswith("%"):
        return max(1, int(hosts * float(most[:-1]) // 100))
    return max(1, int(most))


def unavailable(roll: Roll, fleet: Fleet, host: str) -> dict[str, str]:
    """Hosts that are out now, and why; `host` itself, which wants to begin, does not count."""
    others = dict(fleet.out) if roll.count_others else {}
    own = {entry.name: words.at_stage(entry) for entry in roll.hosts.values() if entry.is_out}
    return {name: why for name, why in {**others, **own}.items() if name != host}


def limits(roll: Roll, fleet: Fleet, host: str, out: Mapping[str, str]) -> list[Limit]:
    """All that `host` must keep to, while `out` are out."""
    found = [Limit(budget(roll.max_unavailable, len(fleet.hosts)), out)]
    for key, most in roll.max_unavailable_per.items():
        value = group(roll, fleet, host, key)
        same = {name: why for name, why in out.items() if value and group(roll, fleet, name, key) == value}
        found.append(Limit(most, same, f"{key} {value}"))
    return found


def used_up(roll: Roll, fleet: Fleet, host: str, out: Mapping[str, str]) -> Limit | None:
    """The first of them that has no place left."""
    return next((limit for limit in limits(roll, fleet, host, out) if limit.is_used_up), None)


def before(roll: Roll, fleet: Fleet, host: str) -> list[str]:
    """Hosts that wait for a place, come before this one, and can have theirs now."""
    out, found = unavailable(roll, fleet, host), []
    waiting = roll.in_stage(Stage.WAITING)
    for name in waiting[: waiting.index(host)]:
        if name not in out and not used_up(roll, fleet, name, out):
            out[name] = ""
            found.append(name)
    return found


def coming_back(roll: Roll, host: str, targets: Iterable[str]) -> dict[str, str]:
    """Which of the hosts to which the plan sends its VMs are out in this roll now, and why. Without them VMs would go
    to hosts that are still to come, and move twice; from the last host they move once wherever they go."""
    if roll.in_stage(Stage.WAITING) == [host]:
        return {}
    entries = [roll.hosts[name] for name in targets if name in roll.hosts]
    out = [entry for entry in entries if entry.is_out and entry.stage is not Stage.FAILED]
    return {entry.name: words.at_stage(entry) for entry in out}


def group(roll: Roll, fleet: Fleet, host: str, key: str) -> str:
    """The rack of a host, for example, as the inventory has it, or the platform; "": unknown."""
    return roll.groups.get(host, {}).get(key) or fleet.labels.get(host, {}).get(key, "")


def in_no_group(keys: Iterable[str], hosts: Iterable[str], roll: Roll, fleet: Fleet) -> list[tuple[str, str]]:
    """Hosts of which it is not known to which they belong, each with the key."""
    return [(host, key) for key in keys for host in hosts if not group(roll, fleet, host, key)]
