"""May one more host be out: how many may be at once, of the fleet and of each rack, site, or whatever else groups them;
and when the next one may begin, by the soak after a host and the end of the maintenance window. Pure.

The times are those that the record has, in UTC, and may be of a host whose clock is wrong after its reboot: so who
rests also counts its own seconds, the window ends by the clock of the controller, and whether a roll lives never hangs
on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..model.wall import between
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
    others = dict(fleet.out) if roll.terms.count_others else {}
    own = {entry.name: words.at_stage(entry) for entry in roll.hosts.values() if entry.is_out}
    return {name: why for name, why in {**others, **own}.items() if name != host}


def limits(roll: Roll, fleet: Fleet, host: str, out: Mapping[str, str]) -> list[Limit]:
    """All that `host` must keep to, while `out` are out."""
    found = [Limit(budget(roll.terms.max_unavailable, len(fleet.hosts)), out)]
    for key, most in roll.terms.max_unavailable_per.items():
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


def reboots_first(roll: Roll, host: str, quorum_hosts: Sequence[str]) -> list[str]:
    """Hosts that have to be back before `host` reboots: most of the quorum hosts have to answer, or nothing can be
    recorded meanwhile, and no abort. Of one or two each is needed: there it is no help."""
    if host not in quorum_hosts or len(quorum_hosts) < 3:
        return []
    now = [name for name in roll.in_stage(Stage.REBOOTING) if name in quorum_hosts and name != host]
    return now if 2 * (len(quorum_hosts) - len(now) - 1) <= len(quorum_hosts) else []


def group(roll: Roll, fleet: Fleet, host: str, key: str) -> str:
    """The rack of a host, for example, as the inventory has it, or the platform; "": unknown."""
    return roll.terms.groups.get(host, {}).get(key) or fleet.labels.get(host, {}).get(key, "")


def in_no_group(roll: Roll, fleet: Fleet) -> list[tuple[str, str]]:
    """Hosts of which it is not known to which they belong, each with the key."""
    return [
        (host, key)
        for key in roll.terms.max_unavailable_per
        for host in roll.hosts
        if not group(roll, fleet, host, key)
    ]


def expected(roll: Roll, host: str) -> float:
    """Seconds until it is done: by the plan, and what hosts of this roll took beyond theirs (work, reboot). One that
    another command carried on says nothing of that: the time between the two is in it."""
    beyond = [
        between(entry.begun, entry.since) - roll.terms.seconds.get(entry.name, 0.0)
        for entry in roll.hosts.values()
        if entry.stage is Stage.DONE and entry.begun and not entry.carried_on
    ]
    return roll.terms.seconds.get(host, 0.0) + max([0.0, *beyond])


def is_over(roll: Roll, now: str) -> str:
    """The message that the window has ended; '': it has not."""
    if not roll.terms.until or between(now, roll.terms.until) > 0:
        return ""
    return f"the window ended at {roll.terms.until} (maintenance_until)"


def too_long(roll: Roll, host: str, now: str, first: float) -> str:
    """Why the window has no time left for this host; '': it has. `first`: seconds until it begins."""
    takes, until = first + expected(roll, host), roll.terms.until
    if not until or takes < between(now, until):
        return ""
    return f"{host} takes about {words.minutes(takes)}, and the window ends at {until} (maintenance_until)"


def soaks(roll: Roll, now: str, rested: float = 0.0, watched: bool = False) -> tuple[str, float]:
    """(the host that was done last, seconds until the next may begin); ('', 0): at once.

    `rested`: seconds for which the next one has waited for that, by its own clock. `watched`: it saw that host under
    way, so its own clock is enough, and one that is slow after its reboot shortens nothing.
    """
    done = [entry for entry in roll.hosts.values() if entry.stage is Stage.DONE]
    if not roll.terms.soak or not done:
        return "", 0.0
    last = max(done, key=lambda entry: entry.since)
    left = roll.terms.soak - (rested if watched else max(rested, between(last.since, now)))
    return (last.name, left) if left > 0 else ("", 0.0)
