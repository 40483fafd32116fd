"""From a run that nothing disturbed to the list of its points and cases.

What is left out of the product of points and faults, by a rule and never by chance:

- As long as nothing of the fleet changes, as in a wait, a call that is made again and again is played at its first and
  its last time.
- An act is refused at each of its points with each class of error (`REFUSALS`) once. For how long turns from point to
  point, so that each point has each duration (`SECONDS`) too, and over three points each class has each duration.
- A host that does not answer has one duration at each point, in turn; of what hurts least every second case is played.
- Another host is drained meanwhile: given back and not given back at the first point of each call, then in turn.
- A reservation is taken for left where a VM is about to be sent off with it.
- Somebody else's act is no case where there is nothing to act on: it is tried on a copy of the fleet.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fleetsim.fleet import Fleet
from perturb import others
from perturb.judge import Facts, facts
from perturb.looks import parts
from perturb.play import Case, Command, Play
from perturb.request import Nothing, Point
from perturb.scenarios import DRAIN, RESTORE, Scenario

_ACTS = ("write ",)
_SENDS = ("write migrate", "write shutdown", "read claim on ")  # what a VM with a reservation is sent off with
_IN_TURN = ("owner_edits", "owner_renames", "controller_cordons", "other_takes_room")
# The errors of the platforms: to an act, and how long they last.
REFUSALS = ("PeerUnreachable", "APIError", "MigrationFailed", "StopFailed", "CannotStart")
FOR_GOOD = 1e9
SECONDS = (0.0, 10.0, FOR_GOOD)


@dataclass
class Recorded:
    """The undisturbed run. `first`: the number of the first point that is perturbed. `wants`: the end of each command;
    `backs`: of a restore after it. `ends`: what each command says of its end. `acts`: state of the fleet -> what others
    can do then, and with what."""

    scenario: Scenario
    points: list[Point]
    first: int
    wants: list[Facts]
    backs: list[Facts]
    ends: list[Facts]
    uuids: list[str]
    acts: dict[str, list[tuple[str, str]]]


def record(scenario: Scenario) -> Recorded:
    play = scenario.play(recording=True, keep=range(10**6))
    first, wants, backs, ends = 1, [], [], []
    for number, command in enumerate(scenario.commands):
        if number == scenario.begin:
            first = play.count + 1
        ends.append(verdicts(play.command(command)))
        given = scenario.commands[: number + 1]
        wants.append(_end_of(scenario, given))
        backs.append(_end_of(scenario, (*given, Command("active", command.node, command.only))))
    uuids = sorted(play.watch.names)
    acts: dict[str, list[tuple[str, str]]] = {}
    for at in range(first, len(play.points) + 1):
        state = play.points[at - 1].state
        if state not in acts:
            acts[state] = _possible(replace(play, case=None), play.copies[at], uuids, scenario.hosts)
    return Recorded(scenario, list(play.points), first, wants, backs, ends, uuids, acts)


def _end_of(scenario: Scenario, commands: Sequence[Command]) -> Facts:
    play = scenario.play()
    for command in commands:
        play.command(command)
    settle(play)
    return facts(play.fleet)


def _possible(play: Play, fleet: Fleet, uuids: list[str], hosts: str) -> list[tuple[str, str]]:
    """Which acts of others there are on this fleet: (kind, subject)."""
    found = [*(("host_reboots", name) for name in hosts), ("host_reboots_in_a_slice", hosts[0])]
    wanted = [(kind, uuid) for kind in others.ON_VMS for uuid in uuids]
    wanted += [(kind, name) for kind in others.ON_HOSTS if "reboots" not in kind for name in hosts]
    play.fleet = copy.deepcopy(fleet)
    for kind, subject in wanted:
        if kind == "other_takes_slots" and subject != hosts[0]:
            continue
        try:
            if kind in others.ON_VMS:
                others.ACTS[kind](play.fleet, subject)
            else:
                others.ON_HOSTS_ACTS[kind](play, subject)
        except Nothing:  # and nothing was changed
            continue
        found.append((kind, subject))
        play.fleet = copy.deepcopy(fleet)
    return found


def verdicts(result: dict[str, Any]) -> Facts:
    """What a command says of its end: the phase, and of each VM how it ended."""
    found: Facts = {"phase": result["phase"], "certificate": result.get("certificate")}
    found.update({f"verdict of {uuid}": row["verdict"] for uuid, row in result.get("vms", {}).items()})
    return found


def settle(play: Play) -> None:
    """What owners have begun comes to its end, whatever we do."""
    play.fleet.advance(play.fleet.clock + 30.0)


def told_apart(run: Recorded) -> list[int]:
    """The numbers of the points that are played: see above."""
    played: set[int] = set()
    since: dict[str, int] = {}
    for at in range(run.first, len(run.points) + 1):
        point = run.points[at - 1]
        if at == run.first or run.points[at - 2].state != point.state:
            played.update(since.values())
            since.clear()
        if point.what not in since:
            played.add(at)
        since[point.what] = at
    return sorted(played.union(since.values()))


def cases(run: Recorded) -> Iterator[Case]:
    """All of them, by point."""
    last_event: int | None = None
    count: Counter[str] = Counter()
    played = set(told_apart(run))
    for at in range(run.first, len(run.points) + 1):
        point = run.points[at - 1]
        if at > run.first and run.points[at - 2].state != point.state:
            last_event = at - 1
        if at not in played:
            continue
        turn, count[point.what] = count[point.what], count[point.what] + 1
        yield from _late_reads(run, at, point, last_event)
        forth = ("forth",) if point.back and turns(run.scenario) else ()
        for then in ("again", "back", *forth):
            yield Case("kill", at, None, then)
            if point.what.startswith(_ACTS) or point.what == "wait":
                yield Case("kill_holder", at, None, then)
        yield from _errors(run, point, at, turn)
        if point.what == "wait for the next slice":
            yield from (Case("taken_over", at, intent) for intent in ("drained", "active", "no_stop"))
        for number, kind in enumerate(("other_drain", "other_drain_stays")):
            if not turn or turn % 2 == number:
                yield Case(kind, at, "b")
        if " claim on " in point.state and point.what.startswith(_SENDS):
            last = run.scenario.hosts[-1]
            yield from (Case("taken_for_left", at, (last, step, more)) for step in (1, 2, 3) for more in (1, 2, 4))
        acts = sorted(run.acts[point.state], key=lambda act: act[0] in _IN_TURN)
        every = sum(kind not in _IN_TURN for kind, _subject in acts)
        yield from (Case(kind, at, subject) for kind, subject in (*acts[:every], *acts[every + turn % 2 :: 2]))


def _late_reads(run: Recorded, at: int, point: Point, last_event: int | None) -> Iterator[Case]:
    reads = point.what in ("read holders", "read outcomes") or point.what in [f"read {n}" for n in run.scenario.hosts]
    if not reads:
        return
    slice_before = next((n for n, p in enumerate(run.points, 1) if p.slice == point.slice - 1 and n >= run.first), None)
    # No read is older than what the same process wrote: libvirt answers itself, and a watch knows our own writes.
    writes = ("write", "read claim on ")  # the latter in the middle of one
    own = max((n for n, p in enumerate(run.points[: at - 1], 1) if p.what.startswith(writes)), default=0)
    for before in sorted({b for b in (last_event, slice_before) if b is not None}):
        if before > own and run.points[before - 1].state != point.state:
            yield Case("stale", at, before)
            if point.what == "read holders":
                yield Case("stale_all", at, before)
    for events in (1, 2, 4):
        yield Case("unseen", at, events)
    if point.what == "read holders":
        yield from _blurred(run, at, point)
    if point.what == "read holders" and point.moving:
        for events in (1, 2, 3, 4, 6):
            yield Case("slow_look", at, events)


def _blurred(run: Recorded, at: int, point: Point) -> Iterator[Case]:
    """One look that cannot read one VM; in turn also for longer. Or the agent answers nothing."""
    looks = [p for p in run.points[run.first - 1 : at - 1] if p.what == point.what]
    fresh = not looks or (looks[-1].slice, looks[-1].state) != (point.slice, point.state)
    for uuid in run.uuids:
        for number, what in enumerate(parts(point, uuid, run.scenario.hosts, fresh)):
            yield Case("unreadable", at, (uuid, what, 0.0))
            if (len(looks) + number) % 3 == 0:
                yield Case("unreadable", at, (uuid, what, SECONDS[1 + len(looks) % 2]))
    if not looks or looks[-1].slice != point.slice:
        yield Case("silent_agent", at, 0.0)
        yield Case("silent_agent", at, 10.0)


def turns(scenario: Scenario) -> bool:
    """Can a restore of it be given up for another drain?"""
    return not scenario.cut and scenario.commands[:2] == (DRAIN, RESTORE)


def _errors(run: Recorded, point: Point, at: int, turn: int) -> Iterator[Case]:
    """`turn`: how many points with the same call there were before."""
    yield Case("no_answer", at, ("b", SECONDS[turn % len(SECONDS)]))
    if point.what in ("read record", "write record"):
        yield from (Case("error", at, seconds) for seconds in SECONDS)
    if point.what.startswith(_ACTS) and len(point.what.split()) > 1 and "record" not in point.what:
        yield Case("lost_answer", at)
        if "claim" not in point.what and "slot" not in point.what:
            for number, reason in enumerate(REFUSALS):
                yield Case("refused", at, (reason, SECONDS[(number + turn) % len(SECONDS)]))
        then = "forth" if point.back else "back"
        if not point.back or turns(run.scenario):
            yield Case("lost_answer", at, None, then)
            yield Case("refused", at, (REFUSALS[turn % 2], 0.0), then)
            yield Case("refused", at, (REFUSALS[2 + turn % 3], FOR_GOOD), then)
    if point.what == "write record":
        yield Case("lost_answer", at)
