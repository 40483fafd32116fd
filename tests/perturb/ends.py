"""One case, played and judged: what is wrong after each command, and once all works again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleetsim.machines import Fate
from perturb import others
from perturb.judge import Facts, Wrong, differences, facts, judge, lost, reasons_of
from perturb.play import Case, Command, Endless, Play
from perturb.points import Recorded, settle, verdicts
from perturb.request import Nothing


@dataclass
class Outcome:
    case: Case
    wrong: list[Wrong]
    play: Play


def run_case(run: Recorded, case: Case) -> Outcome | None:
    """None: it was no case, since there was nothing to act on."""
    keep = {case.arg} if case.kind in ("stale", "stale_all") else ()
    play = run.scenario.play(case=case, second=case.second, keep=keep)
    wrong: list[Wrong] = []
    try:
        for number, command in enumerate(run.scenario.commands):
            play.command(command)
            if number >= run.scenario.begin and play.count >= case.at and not wrong:
                turned = play.results[-1]["phase"] == "Killed" and case.then in ("back", "forth")
                forth = turned and case.then == "forth"
                wrong += _end(run, number - forth, turned and not forth, play)
                if turned:
                    break
        if not wrong and (case.second or case.at % 3 == 0 or play.late):
            wrong += _home(run, play)
    except Nothing:
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
    for again in range(3):
        if play.results[-1]["phase"] in ("Killed", "Failed"):
            if again:
                _heal(play)
            play.command(command)
    by_others, excused = _hands(play)
    theirs = {**by_others}
    for case, at in play.struck:
        late = at > play.results[-1].get("read_at", 0)  # after the last look
        if case.kind.startswith("other_drain") and late:  # it was moved on
            by_others = theirs = {uuid: {"all"} for uuid in run.uuids}
        if late:
            play.results[-1].setdefault("came_later", set()).add(case.arg)
        if case.kind == "other_drain_stays":
            theirs = {**theirs, case.arg: {"all"}}
    if run.scenario.external:
        settle(play)
    back = command.intent == "active"
    wrong += judge(_loose(want, back, run, play), play.fleet, play.watch, play.results, theirs, excused)
    if not by_others and not back and not command.check and of_a_moment(play):
        said = verdicts(play.results[-1])
        changed = differences(want, facts(play.fleet)) + differences(run.ends[number], said)
        wrong += [Wrong("differences_unexplained", f"a moment's fault: {key} ({said})") for key in changed]
    if back and not by_others and takes_no_time(play, run):
        got = facts(play.fleet)
        home = [key for key in want if key.startswith("vm ") and key.endswith(f" {command.node} state")]
        wrong += [Wrong("differences_unexplained", f"not aborted: {key}") for key in home if key not in got]
    _heal(play)
    for _again in range(2):
        if not differences(_loose(want, back, run, play), facts(play.fleet)):
            return wrong + lost(play.fleet, play.watch, play.results, excused)  # what goes off late does so now
        play.command(command)
    by_others = {**by_others, **_hands(play)[0]}
    wrong += judge(_loose(want, back, run, play), play.fleet, play.watch, play.results, by_others, excused)
    word = others.last_word(play)
    if (
        word
        and back
        and not play.late
        and len(play.cases) == 1
        and not reasons_of(play.results)[0].get(word.split()[0])
    ):
        wrong.append(Wrong("differences_unexplained", word))
    if not by_others:
        wrong += [
            Wrong("differences_unexplained", f"stays: {key} ({_why(play)})")
            for key in differences(_loose(want, back, run, play), facts(play.fleet))
        ]
    return wrong


def _home(run: Recorded, play: Play) -> list[Wrong]:
    """However it has ended, restores bring all home: what ran, runs, and nothing of ours is left."""
    if run.scenario.commands[-1].check:
        return []
    _heal(play)
    for _again in range(3):
        for name in [name for name, machine in play.fleet.machines.items() if machine.record is not None]:
            play.command(Command("active", name, run.scenario.commands[0].only))
    settle(play)
    by_others, excused = _hands(play)
    found = lost(play.fleet, play.watch, play.results, excused)
    left = [key for key in facts(play.fleet) if key.endswith((" record", " mark")) or " claim on " in key]
    said = reasons_of(play.results)[0].keys() | by_others.keys()
    if by_others and play.results[-1]["phase"] == "Blocked" and said:  # what is to be done, it says
        left = [key for key in left if key != f"node {play.results[-1]['node']} record"]
    return found + [Wrong("endless", f"restored, and there is: {key}") for key in left if key.split()[1] not in said]


def of_a_moment(play: Play) -> bool:
    """A fault that is over when it is seen. No reason excuses that it changes the end. Two may use up attempts."""
    return len(play.cases) == 1 and play.case.then != "forth" and _of_a_moment(play, play.case)


def _of_a_moment(play: Play, case: Case) -> bool:
    if case.kind in ("stale", "stale_all", "unseen", "slow_look", "lost_answer"):
        return True
    if case.kind in ("other_takes_room", "other_takes_slots"):
        return play.policy.pending_timeout > others.TAKEN_FOR
    if case.kind in ("kill", "kill_holder"):
        return case.then == "again"
    if case.kind == "no_answer":
        return play.tick is None and bool(case.arg[-1] < play.policy.pending_timeout)  # an owner tries once
    if case.kind in ("refused", "unreadable"):
        return bool(case.arg[-1] == 0.0)
    return case.kind in ("error", "silent_agent") and case.arg == 0.0


def takes_no_time(play: Play, run: Recorded) -> bool:
    """A fault of a moment in a restore, in which no migration gets further: what it kept at home without it stays."""
    late = ("stale", "stale_all", "unseen", "slow_look", "unreadable", "silent_agent", "kill_holder")
    return run.points[play.case.at - 1].back and of_a_moment(play) and not any(c.kind in late for c in play.cases)


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


def _hands(play: Play) -> tuple[dict[str, set[str]], set[str]]:
    """What others changed, and which VMs may be off for that."""
    changed: dict[str, set[str]] = {uuid: {"all"} for uuid in play.late}
    changed.update({play.watch.names[uuid]: {"record"} for uuid in play.late})
    off: set[str] = set()
    for case, _at in play.struck:
        if case.kind in others.ON_VMS:
            changed.setdefault(case.arg, set()).update(others.ON_VMS[case.kind])
            off.update({case.arg} if case.kind in others.ENDS else ())
        elif case.kind in others.ON_HOSTS and "nothing" not in others.ON_HOSTS[case.kind]:
            changed.setdefault(case.arg, set()).update(others.ON_HOSTS[case.kind])
            changed.update({uuid: {"all"} for uuid in play.fleet.killed | play.started})
            off.update(play.fleet.killed)
        elif case.arg == "no_stop":  # a guest may go off late: it was stopped by us, and is not moved
            rows = play.results[-1].get("vms", {})
            changed.update({uuid: {"all"} for uuid, row in rows.items() if row["verdict"] == "stopped"})
    return changed, off


def _heal(play: Play) -> None:
    """What failed for good works again, and no other fault comes."""
    play.failing, play.lost_answer, play.blur, play.second = None, False, None, None
    play.refuses = lambda _action: None
    play.fleet.fate = lambda _vm, _attempt: Fate()
    for machine in play.fleet.machines.values():
        machine.reachable = True
    for case, _at in play.struck:
        if case.kind == "other_drain_stays":
            play.aside(Command("active", case.arg))
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
