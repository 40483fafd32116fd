"""From a run that nothing disturbed to the list of its points and cases; and one case, played and judged.

What is left out of the product of points and faults, by a rule and never by chance:

- As long as nothing of the fleet changes, as in a wait, a call that is made again and again is played at its first and
  its last time.
- An act is refused at each of its points with each class of error (`REFUSALS`) once. For how long turns from point to
  point, so that each point has each duration (`SECONDS`) too, and over three points each class has each duration.
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
from fleetsim.machines import Fate
from perturb import others
from perturb.judge import Facts, Wrong, differences, facts, judge, reasons_of
from perturb.looks import parts
from perturb.play import Case, Command, Endless, Play
from perturb.request import Point
from perturb.scenarios import BY_NAME, Scenario

_ACTS = ("write ",)
_SENDS = ("write migrate", "write shutdown", "read claim on ")  # what a VM with a reservation is sent off with
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
        except others.Nothing:  # and nothing was changed
            continue
        found.append((kind, subject))
        play.fleet = copy.deepcopy(fleet)
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
        for then in ("again", "back"):
            yield Case("kill", at, None, then)
            if point.what.startswith(_ACTS) or point.what == "wait":
                yield Case("kill_holder", at, None, then)
        yield from _errors(point, at, turn)
        if point.what == "wait for the next slice":
            yield from (Case("taken_over", at, intent) for intent in ("drained", "active", "no_stop"))
        for number, kind in enumerate(("other_drain", "other_drain_stays")):
            if not turn or turn % 2 == number:
                yield Case(kind, at, "b")
        if " claim on " in point.state and point.what.startswith(_SENDS):
            last = run.scenario.hosts[-1]
            yield from (Case("taken_for_left", at, (last, step, more)) for step in (1, 2, 3) for more in (1, 2, 4))
        yield from (Case(kind, at, subject) for kind, subject in run.acts[point.state])


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


def _errors(point: Point, at: int, turn: int) -> Iterator[Case]:
    """`turn`: how many points with the same call there were before."""
    for seconds in SECONDS:
        yield Case("no_answer", at, ("b", seconds))
        if point.what in ("read record", "write record"):
            yield Case("error", at, seconds)
    if point.what.startswith(_ACTS) and len(point.what.split()) > 1 and "record" not in point.what:
        yield Case("lost_answer", at)
        if "claim" not in point.what and "slot" not in point.what:
            for number, reason in enumerate(REFUSALS):
                yield Case("refused", at, (reason, SECONDS[(number + turn) % len(SECONDS)]))
        if not point.back:
            yield Case("lost_answer", at, None, "back")
            yield Case("refused", at, (REFUSALS[turn % 2], 0.0), "back")
    if point.what == "write record":
        yield Case("lost_answer", at)


@dataclass
class Outcome:
    case: Case
    wrong: list[Wrong]
    play: Play


def run_case(run: Recorded, case: Case) -> Outcome | None:
    """None: it was no case, since there was nothing to act on."""
    keep = {case.arg} if case.kind in ("stale", "stale_all") else ()
    play = run.scenario.play(case=case, keep=keep)
    wrong: list[Wrong] = []
    try:
        for number, command in enumerate(run.scenario.commands):
            play.command(command)
            if number >= run.scenario.begin and play.count >= case.at and not wrong:
                back = play.results[-1]["phase"] == "Killed" and case.then == "back"
                wrong += _end(run, number, back, play)
                if back:
                    break
    except others.Nothing:
        return None
    except Endless as exc:
        wrong.append(Wrong("endless", str(exc)))
    except Exception as exc:  # whatever the product raises that it does not announce
        wrong.append(Wrong("differences_unexplained", f"raised {exc!r}"))
    return Outcome(case, wrong, play)


def _end(run: Recorded, number: int, back: bool, play: Play) -> list[Wrong]:
    """What is wrong after this command. It is carried on if it was killed or has failed; at last everything works
    again, and it has to come to the end of the undisturbed run. `back`: a restore follows instead of the same."""
    command = run.scenario.commands[number]
    stopped = play.results[-1]["phase"] == "Superseded"
    wrong = []
    if play.case.kind == "taken_over" and not play.watch.told_of_takeover:
        play.watch.told_of_takeover = True
        if stopped:
            play.results.pop()  # what the other one says holds
        elif (command.intent, play.results[-1]["phase"]) != ("active", "Active"):  # no record is the end of both
            wrong.append(Wrong("differences_unexplained", "a run that was taken over went on"))
        back = play.case.arg == "active" and command.intent != "active"
    want = run.backs[number] if back else run.wants[number]
    if back:
        command = Command("active", command.node, command.only)
    for _again in range(2):
        if play.results[-1]["phase"] in ("Killed", "Failed"):
            if _again:
                _heal(play)
            play.command(command)
    case = play.case
    by_others, excused = _hands(case, play)
    if case.kind.startswith("other_drain") and case.at > play.results[-1].get("read_at", 0):
        by_others = {uuid: {"all"} for uuid in run.uuids}  # it was moved on after the last look
    if run.scenario.external:
        settle(play)
    if case.at > play.results[-1].get("read_at", 0):
        play.results[-1]["came_later"] = {case.arg}
    back = command.intent == "active"
    stays = {case.arg: {"all"}} if case.kind == "other_drain_stays" else {}
    theirs = {**by_others, **stays}
    wrong += judge(_loose(want, back, run, play), play.fleet, play.watch, play.results, theirs, excused)
    if not by_others and not back and not command.check and of_a_moment(case):
        said = verdicts(play.results[-1])
        changed = differences(want, facts(play.fleet)) + differences(run.ends[number], said)
        wrong += [Wrong("differences_unexplained", f"a moment's fault: {key} ({said})") for key in changed]
    if back and takes_no_time(case, run):
        got = facts(play.fleet)
        home = [key for key in want if key.startswith("vm ") and key.endswith(f" {command.node} state")]
        wrong += [Wrong("differences_unexplained", f"not aborted: {key}") for key in home if key not in got]
    _heal(play)
    for _again in range(2):
        if not differences(_loose(want, back, run, play), facts(play.fleet)):
            return wrong
        play.command(command)
    by_others = {**by_others, **_hands(case, play)[0]}
    wrong += judge(_loose(want, back, run, play), play.fleet, play.watch, play.results, by_others, excused)
    word = others.last_word(play)
    if word and back and not reasons_of(play.results)[0].get(case.arg):
        wrong.append(Wrong("differences_unexplained", word))
    if not by_others:
        wrong += [
            Wrong("differences_unexplained", f"stays: {key} ({_why(play)})")
            for key in differences(_loose(want, back, run, play), facts(play.fleet))
        ]
    return wrong


def verdicts(result: dict[str, Any]) -> Facts:
    """What a command says of its end: the phase, and of each VM how it ended."""
    found: Facts = {"phase": result["phase"], "certificate": result.get("certificate")}
    found.update({f"verdict of {uuid}": row["verdict"] for uuid, row in result.get("vms", {}).items()})
    return found


def of_a_moment(case: Case) -> bool:
    """A fault that is over when it is seen. No reason excuses that it changes the end."""
    if case.kind in ("stale", "stale_all", "unseen", "slow_look", "lost_answer"):
        return True
    if case.kind in ("other_takes_room", "other_takes_slots"):  # for less time than anything waits
        return True
    if case.kind in ("kill", "kill_holder"):
        return case.then == "again"
    if case.kind in ("no_answer", "refused", "unreadable"):
        return case.arg[-1] == 0.0
    return case.kind in ("error", "silent_agent") and case.arg == 0.0


def takes_no_time(case: Case, run: Recorded) -> bool:
    """A fault of a moment in a restore, in which no migration gets further: what it kept at home without it stays."""
    late = ("stale", "stale_all", "unseen", "slow_look", "unreadable", "silent_agent", "kill_holder")
    return run.points[case.at - 1].back and case.kind not in late and of_a_moment(case)


def _why(play: Play) -> str:
    vms, node = reasons_of(play.results)
    return f"{play.results[-1]['phase']} {vms or ''} {node or ''}"


def _loose(want: Facts, back: bool, run: Recorded, play: Play) -> Facts:
    """After a restore in the middle of a drain a VM is where it was, or where it had moved. As it was, in any case."""
    if not back:
        return want
    loose = dict(want)
    got = facts(play.fleet)
    for uuid in run.uuids:
        for one, other in (("a", "b"), ("b", "a")):
            keys = [key for key in want if key.startswith(f"vm {uuid} {one} ")]
            only_there = f"vm {uuid} {other} state" in got and f"vm {uuid} {one} state" not in got
            if keys and f"vm {uuid} {other} state" not in want and only_there:
                loose.update({key.replace(f" {one} ", f" {other} "): loose.pop(key) for key in keys})
    return loose


def _hands(case: Case, play: Play) -> tuple[dict[str, set[str]], set[str]]:
    """What others changed, and which VMs may be off for that."""
    if case.kind in others.ON_VMS:
        changes = others.ON_VMS[case.kind]
        return {case.arg: changes}, {case.arg} if "all" in changes else set()
    if case.kind in others.ON_HOSTS and "nothing" not in others.ON_HOSTS[case.kind]:
        changed: dict[str, set[str]] = {case.arg: others.ON_HOSTS[case.kind]}
        changed.update({uuid: {"all"} for uuid in play.fleet.killed | play.started})
        return changed, set(play.fleet.killed)
    if case.arg == "no_stop":  # a guest may go off late: it was stopped by us, and is not moved
        rows = play.results[-1].get("vms", {})
        return {uuid: {"all"} for uuid, row in rows.items() if row["verdict"] == "stopped"}, set()
    return {}, set()


def _heal(play: Play) -> None:
    """What failed for good works again."""
    play.failing, play.lost_answer, play.blur = None, False, None
    play.refuses = lambda _action: None
    play.fleet.fate = lambda _vm, _attempt: Fate()
    for machine in play.fleet.machines.values():
        machine.reachable = True
    if play.case.kind == "other_drain_stays":
        play.aside(Command("active", play.case.arg))
    play.fleet.advance(play.fleet.clock + 61.0)


def told(outcome: Outcome) -> dict[str, Any]:
    """For a report."""
    return {
        "case": str(outcome.case),
        "wrong": [f"{w.kind}: {w.text}" for w in outcome.wrong],
        "results": [
            {"phase": r["phase"], **({"error": r["error"]} if "error" in r else {}),
             "vms": {u: (v["verdict"], v["reason"], v["at"]) for u, v in r.get("vms", {}).items()},
             "findings": [f["reason"] for f in r.get("findings", ())]}
            for r in outcome.play.results
        ],
    }  # fmt: skip


__all__ = ["BY_NAME", "Command", "Recorded", "cases", "record", "run_case", "told"]
