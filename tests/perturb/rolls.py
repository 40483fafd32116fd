"""Rolls of two and three hosts, each point, each fault; and what is wrong at their ends."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import owner
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Stage, State
from fleetsim.fleet import Fleet
from fleetsim.machines import Domain, Machine
from perturb.judge import Wrong, facts
from perturb.pairs import FAR, PAIRS
from perturb.play import Case, Endless, Killed
from perturb.roll_bed import Playbook
from perturb.roll_world import World

FAULTS: dict[str, Callable[[World, Playbook, str], None]] = {}
AFTER = 90.0  # s: what failed for a while works again
AGAIN = 4  # how often the same command is given
ABORT_STEPS = (2, 8, 1000)  # after which of its steps an abort is cut off, or as soon as it has given a host back
MOMENTS = (
    "written",
    "lost_answer",
    "others_go_on",
    "second",
    "drain_by_hand",
    "silent_host",
)  # over when they are seen


def fault(act: Callable[[World, Playbook, str], None]) -> Callable[[World, Playbook, str], None]:
    FAULTS[act.__name__.strip("_")] = act
    return act


@dataclass(frozen=True)
class Rolling:
    """`hosts`: that are rolled; the fleet has one more, and `vms` on each of these."""

    name: str
    hosts: str = "ab"
    vms: int = 1
    most_out: int = 1

    def world(self, case: Case | None = None) -> World:
        machines = [Machine(name, 16384, link=400.0) for name in (*self.hosts, "z")]
        for machine in machines[:-1]:
            for number in range(self.vms):
                uuid = f"u{machine.name}{number}"
                machine.domains[uuid] = Domain(VM(uuid, uuid, machine.name, memory_mib=1024), autostart=True)
        return World(Fleet(machines), self.most_out, case, FAULTS, second=case.second if case is not None else None)


ROLLS = (
    Rolling("rolling-empty", vms=0),
    Rolling("rolling-one-out"),
    Rolling("rolling-two-out", "abc", vms=0, most_out=2),
)
BY_NAME = {scenario.name: scenario for scenario in ROLLS}


# What is done at the point of a case


@fault
def kill(_world: World, who: Playbook, _what: str) -> None:
    """Whoever looks on the same machine sees that it has ended."""
    who.lives = False


@fault
def kill_elsewhere(_world: World, who: Playbook, _what: str) -> None:
    """On another machine: the record is no longer renewed, and no more is known."""
    who.lives = who.seen_dead = False


@fault
def kill_abort(_world: World, who: Playbook, _what: str) -> None:
    who.lives = False


@fault
def kill_not_ready(world: World, who: Playbook, _what: str) -> None:
    """And when the same command is given, no host is ready. `arg`: what is commanded after that."""
    world.not_ready = True
    who.lives = False


@fault
def lost_answer(world: World, _who: Playbook, _what: str) -> None:
    """It is written. `arg`: what is told of it, that nobody answered (libvirt), or, since the client asked again, that
    somebody had changed it (KubeVirt)."""
    world.lose_answer = world.arg


@fault
def silent(world: World, _who: Playbook, _what: str) -> None:
    """No quorum host answers."""
    world.silent_until = world.fleet.clock + world.arg


@fault
def silent_host(world: World, _who: Playbook, _what: str) -> None:
    """One of the fleet that is not rolled is slow."""
    world.silent_host = "z", world.fleet.clock + world.arg


@fault
def written(world: World, _who: Playbook, _what: str) -> None:
    """Between a read and the write after it somebody else writes."""
    world.touch()


@fault
def others_go_on(world: World, who: Playbook, _what: str) -> None:
    """The other workers of the same playbook, some steps each, while this one stands still."""
    for _number in range(world.arg):
        for name, steps in [*who.workers.items()]:
            if not steps.gi_running and name in who.workers:
                who.go_on(name)


@fault
def second(world: World, who: Playbook, _what: str) -> None:
    """The same command, given elsewhere, while this playbook lives: it has to be refused."""
    roll = world.roll
    two = Playbook(world, f"{who.run}-second", who.hosts)
    two.to_the_end(two.main())
    if two.began and roll is not None and roll.state is State.RUNNING:
        world.say("a second playbook carries on a roll that lives")


@fault
def taken_over(world: World, who: Playbook, _what: str) -> None:
    """The same, and its user says that it is to be taken over."""
    two = Playbook(world, f"{who.run}-over", who.hosts, take_over=True)
    two.to_the_end(two.main())


@fault
def aborted(world: World, who: Playbook, _what: str) -> None:
    Playbook(world, f"{who.run}-abort", who.hosts).to_the_end(Playbook.abort(world.playbooks[-1]))


@fault
def tasks_fail(world: World, who: Playbook, what: str) -> None:
    """A task of the user's task file fails on this host."""
    world.fails = (who.run, what.split()[1])


@fault
def abort_cut(world: World, who: Playbook, _what: str) -> None:
    """An abort, killed after so many of its steps (`arg`), or once it has given a host back; then its user wants the
    roll to be carried on."""
    world.anew = True
    cut = Playbook(world, f"{who.run}-abort", who.hosts)
    steps = Playbook.abort(cut)
    for _number in range(world.arg):
        try:
            next(steps)
        except StopIteration:
            break
        roll = world.roll
        if roll is not None and roll.in_stage(Stage.GIVEN_BACK):
            break
    cut.lives = False
    who.lives = False


@fault
def drain_by_hand(world: World, who: Playbook, _what: str) -> None:
    """A drain of one of its hosts that belongs to no roll asks whether it may."""
    roll, host = world.roll, world.arg
    if roll is None or roll.state is not State.RUNNING or not who.began:
        return
    hand = Playbook(world, "by hand", who.hosts)
    try:
        owner.check_host(hand.store, host, hand.run, hand.clock, begun=False, drains=True)
    except owner.RollRefused:
        hand.over = True
        return
    world.say(f"{host} is drained beside a roll that lives")


# The cases, and what is wrong


@dataclass
class Rolled:
    """The undisturbed one."""

    scenario: Rolling
    points: list[tuple[str, str]]
    want: dict[str, Any]
    first: int = 1


def record(scenario: Rolling) -> Rolled:
    world = scenario.world()
    one = Playbook(world, "one", tuple(scenario.hosts))
    found = one.to_the_end(one.main())
    wrong = judge(world, scenario, {})
    if found.get("answer") != "done" or wrong:
        raise ValueError(f"{scenario.name}: the undisturbed roll ends with {found}, {wrong}")
    return Rolled(scenario, world.points, facts(world.fleet))


def cases(run: Rolled) -> Iterator[Case]:
    seen: set[tuple[str, str]] = set()
    for at, (what, state) in enumerate(run.points, 1):
        if (what, state) in seen:
            continue  # the same is done once more, as in a wait, and all is as it was
        seen.add((what, state))
        # Between the note of the stage and the act nobody asks again: who stands still just there is not covered.
        over = () if what.startswith(("reboot ", "work ")) else ("second", "taken_over", "aborted")
        if state.startswith(f"({State.ENDED!r}"):  # the second one begins another roll then
            over = over[1:]
        for kind in ("kill", "kill_elsewhere", "kill_abort", *over):
            yield Case(kind, at)
        yield from (Case("kill_not_ready", at, then) for then in ("again", "abort"))
        if what.startswith("work "):
            yield Case("tasks_fail", at)
        if over:
            yield from (Case("abort_cut", at, steps) for steps in ABORT_STEPS)
        if what in ("read roll", "read fleet", "write roll"):
            for seconds in (0.004, 10.0, 80.0):
                yield Case("silent", at, seconds)
        if what == "read fleet":
            yield from (Case("silent_host", at, seconds) for seconds in (0.004, 10.0))
        if what == "write roll":
            yield from (Case("lost_answer", at, told) for told in ("nothing", "changed"))
            yield Case("written", at)
        for steps in (1, 2, 4, 12):
            yield Case("others_go_on", at, steps)
        for host in run.scenario.hosts:
            yield Case("drain_by_hand", at, host)


def pairs(run: Rolled, singles: list[Case], seed: str = "") -> Iterator[Case]:
    """Two faults, as `perturb.pairs` draws them. The second one is of the record, or other workers go on."""
    draw = random.Random(f"{run.scenario.name} {seed}")
    firsts: dict[str, list[Case]] = {}
    for case in singles:
        firsts.setdefault(case.kind, []).append(case)
    seconds = [("lost_answer", "nothing"), ("lost_answer", "changed"), ("written", None), ("silent", 10.0),
               ("others_go_on", 4)]  # fmt: skip
    for _number in range(PAIRS):
        first = draw.choice(firsts[draw.choice(sorted(firsts))])
        kind, arg = draw.choice(seconds)
        yield replace(first, second=Case(kind, round(FAR ** draw.random()), arg))


@dataclass
class RollOutcome:
    case: Case
    wrong: list[Wrong]
    world: World


def run_case(run: Rolled, case: Case) -> RollOutcome:
    world = run.scenario.world(case)
    one = Playbook(world, "one", tuple(run.scenario.hosts))
    wrong: list[Wrong] = []
    try:
        one.to_the_end(one.main())
        moment = case.second is None or case.second.kind in MOMENTS
        if (moment and case.kind in MOMENTS) or (moment and case.kind == "silent" and case.arg < 1.0):
            wrong += goes_on(one)
        if case.kind == "tasks_fail":
            wrong += others_finish(world)
        if case.kind == "kill_not_ready" and world.not_ready:
            second = Playbook(world, "not ready", one.hosts)
            second.to_the_end(second.main())
            world.not_ready = False
        if case.kind == "kill_abort" or case.arg == "abort":
            over = Playbook(world, "abort", one.hosts)
            over.to_the_end(over.abort())
        roll = world.roll
        if case.kind == "abort_cut":
            over = Playbook(world, "over", one.hosts, take_over=True)
            over.to_the_end(over.main())
            roll = world.roll
        if roll is not None and roll.state is State.ABORTING:  # a host was down, for example
            world.pass_time(AFTER)
            once_more = Playbook(world, "abort again", one.hosts)
            once_more.to_the_end(once_more.abort())
        if roll is not None and roll.state in (State.ABORTED, State.ABORTING):
            wrong += given_back(world)
        else:
            again(world, one)
            wrong += judge(world, run.scenario, run.want)
    except Endless as exc:
        wrong.append(Wrong("endless", str(exc)))
    except Exception as exc:  # whatever the product raises that it does not announce
        wrong.append(Wrong("differences_unexplained", f"raised {exc!r}"))
    return RollOutcome(case, wrong + [Wrong("out_of_order", text) for text in world.wrong], world)


def goes_on(one: Playbook) -> list[Wrong]:
    """After a fault of a moment no second command is needed: this one ends well, and no host of it has failed. Before
    it has begun, whoever gave the command is there, and nothing was done."""
    if not one.began:
        return []
    failed = [str(found.get("msg")) for found in one.results if found.get("failed")]
    if one.answer.get("answer") == "done" and not failed:
        return []
    said = one.answer.get("answer") or one.answer.get("msg")
    return [Wrong("differences_unexplained", f"a moment's fault: the roll ends with {said}: {', '.join(failed)}")]


def others_finish(world: World) -> list[Wrong]:
    """One host fails in the user's tasks: those that had begun are finished, and none of them is out."""
    roll = world.roll
    left = [name for name in roll.out if roll.hosts[name].stage is not Stage.FAILED] if roll is not None else []
    return [Wrong("differences_unexplained", f"left in the middle beside a host that failed: {left}")] if left else []


def again(world: World, one: Playbook) -> None:
    """The same command, until the roll is over."""
    for number in range(AGAIN):
        roll = world.roll
        if roll is not None and roll.state is State.ENDED:
            return
        world.pass_time(AFTER if number else 1.0)
        next_one = Playbook(world, f"again{number}", one.hosts)
        next_one.to_the_end(next_one.main())


def judge(world: World, scenario: Rolling, want: dict[str, Any]) -> list[Wrong]:
    """At the end of a roll that was carried on to its end."""
    roll, found = world.roll, []
    if roll is None or roll.state is not State.ENDED:
        why = [p.answer.get("msg") or p.answer.get("message") for p in world.playbooks]
        found.append(Wrong("endless", f"the roll is {roll and roll.state.value}: {why[-1]}"))
    for name in scenario.hosts:
        boot = world.fleet.machines[name].boot
        worked = sum(host == name for _roll, host in world.worked)
        for what, times in (("worked on", worked), ("rebooted", boot - 1)):
            if (
                times != len(world.ids) and not world.anew
            ):  # what an abort gave back begins anew, or began in its roll only
                found.append(Wrong("differences_unexplained", f"{name} is {what} {times} times"))
        if boot <= world.worked.get((world.roll_id, name), boot):
            found.append(Wrong("differences_unexplained", f"{name} was not rebooted after the last work on it"))
    found += given_back(world)
    if world.watch.twice:
        found.append(Wrong("twice", str(world.watch.twice)))
    return found


def given_back(world: World) -> list[Wrong]:
    """No host is out, nothing of a drain is left, and each VM runs once."""
    found = []
    for name, machine in world.fleet.machines.items():
        if machine.cordons:
            found.append(Wrong("left_behind", f"{name} is cordoned"))
        if machine.record is not None or machine.claims or machine.slots:
            found.append(Wrong("left_behind", f"{name} has a record or a reservation"))
    runs = [u for machine in world.fleet.machines.values() for u, d in machine.domains.items() if d.active]
    found += [Wrong("lost", f"{uuid} does not run") for uuid in sorted(world.was_on - set(runs))]
    return found


def told(outcome: RollOutcome) -> dict[str, Any]:
    return {
        "case": str(outcome.case),
        "wrong": [f"{w.kind}: {w.text}" for w in outcome.wrong],
        "results": [
            {"run": p.run, **{key: p.answer[key] for key in ("answer", "msg", "message", "killed") if key in p.answer},
             "hosts": [str(found.get("msg", ""))[:300] for found in p.results if found.get("failed")]}
            for p in outcome.world.playbooks
        ],
    }  # fmt: skip


__all__ = ["BY_NAME", "ROLLS", "Killed", "cases", "record", "run_case", "told"]
