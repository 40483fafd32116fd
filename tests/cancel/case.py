"""One case: a drain or a roll that is ended in its middle; what comes then; the judgement.

Each of these words counts faults, seen from outside: in the log of the simulator's server, or by
virsh on the hosts, the lab's collector and its checker. No playbook is asked.

lost            a VM that ran before and does not run at the end, or that was stopped though its
                strategy forbids it
twice           a VM that ran at two places at once
leftovers       what is left at the end: a cordon, a mark, a claim, a record of a host, a migration
                that has not ended, a lock that is held
orphans         a process of the case's commands that lives a slice after the last one has ended
rebooted_twice  a host that was rebooted more than once
redone          a host that was given back after its reboot, and was then cordoned, rebooted or
                worked on again

"Wrong" is all else: a command that fails, a host that was not rebooted although the roll ended,
more hosts out at once than may be, a VM that is not where a drain has to leave it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo.plays import Command, Ended, watch

from . import ways

WORDS = ("lost", "twice", "leftovers", "orphans", "rebooted_twice", "redone")
THEN = {"again": "the same command again", "abort": "abort.yml", "restore": "the same command again, and restore.yml"}
# A stage lasts longer, or has more in it, than another.
STAGES = ("draining",) * 5 + ("empty", "at work", "rebooting", "checking", "restoring")
_ORDER = ("", *dict.fromkeys(STAGES), "done")
# Seconds that a module call may take, and as long again for a busy machine.
SLICE = 40.0


@dataclass
class Outcome:
    """What came of a case.

    `seen`: how far the command was. `missed`: it was over before the moment came. `excused`: guests whose kernel
    panicked, which is QEMU's doing when it emulates the CPU. Then faults by word, and what else is wrong.
    """

    case: Case | None = None
    seen: str = ""
    missed: bool = False
    excused: list[str] = field(default_factory=list)
    faults: dict[str, list[str]] = field(default_factory=lambda: {word: [] for word in WORDS})
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """None: it is well."""
        counted = [f"{word}: {text}" for word in WORDS for text in self.faults[word]]
        return counted + [f"wrong: {text}" for text in self.wrong]


class Outs:
    """Of the hosts: their boots, which are out, and what was done again with one that had been given back."""

    def __init__(self) -> None:
        self.boots: dict[str, list[str]] = {}
        self.most_out = 0
        self.redone: list[str] = []
        self._out: set[str] = set()
        self._given_back: set[str] = set()  # rebooted, and the cordon is gone

    def look(self, host: str, boot: str | None, cordoned: bool) -> None:
        boots = self.boots.setdefault(host, [])
        if boot and boot not in boots:
            boots.append(boot)
            self._again(host, "rebooted")
        if cordoned and host not in self._out:
            self._out.add(host)
            self._again(host, "cordoned")
        elif not cordoned and host in self._out:
            self._out.remove(host)
            if len(boots) > 1:
                self._given_back.add(host)
        self.most_out = max(self.most_out, len(self._out))

    def _again(self, host: str, what: str) -> None:
        if host in self._given_back:
            self.redone.append(f"{host} was given back and is {what} again")


class Bed:
    """Three hosts with VMs: the place of one case. `folders`: what to look into after a fault."""

    playbook = "rolling_maintenance"

    def __init__(self, directory: Path, hosts: Sequence[str], work: Path) -> None:
        self.hosts = [*hosts]
        self.folders: Sequence[Path] = [directory]
        self.variables: dict[str, Any] = {
            "maintenance_hosts": ",".join(hosts),
            "maintenance_tasks": str(work),
            "drain_allow_stop": True,
        }
        self.mark = f"{time.monotonic_ns()}/"
        self.outs = Outs()
        self._directory = directory
        self._runs = 0

    def start(self, playbook: str, variables: Mapping[str, Any], way: str = "") -> Command:
        """A playbook of the collection; its processes have the bed's mark."""
        self._runs += 1
        folder = self._directory / f"run-{self.mark[:-1]}-{self._runs}"
        argv = self.argv(playbook, variables)
        return ways.start(way, self.mark, argv, self.environment(folder), folder)

    def end(self, way: str, run: Command) -> bool:
        """End it that way. False: it was over, though its playbook ran a little longer, as with its last host."""
        ways.cancel(way, run)
        return set(self.stages()) != {"done"}

    def seen(self) -> str:
        """How far it is, for whoever repeats the case."""
        return ", ".join(self.stages())

    def foreign(self) -> list[str]:
        """Processes of a command that run elsewhere than on this machine."""
        return []

    def after(self, playbook: str, ended: Ended, out: Outcome) -> None:
        """One of the later commands has ended."""

    # What each has of its own

    def argv(self, playbook: str, variables: Mapping[str, Any]) -> list[str]:
        raise NotImplementedError

    def environment(self, folder: Path) -> Mapping[str, str]:
        raise NotImplementedError

    def stages(self) -> list[str]:
        """Of the hosts in the order of the roll: the stages that each has come to last."""
        raise NotImplementedError

    def events(self, first: Command) -> int:
        """Grows with what happens."""
        raise NotImplementedError

    def worked(self) -> Collection[str]:
        """Hosts on which the task file of the roll was done."""
        raise NotImplementedError

    def look(self, out: Outcome) -> None:
        """Add what is seen of the VMs, and what is left. `outs` is as it is at the end."""
        raise NotImplementedError


@dataclass(frozen=True)
class Case:
    """What is done. The moment: `events` after the host (its place in the roll) came to `stage`."""

    kind: Kind
    seed: int
    number: int
    way: str = ""
    then: str = ""
    host: int = 0
    stage: str = ""
    events: int = 0

    def __str__(self) -> str:
        name = f"{self.kind.name} {self.number:2}"
        if not self.way:
            return name
        way = f"kill -9 of the {self.way}" if self.way in ways.VICTIMS else self.way
        since = f"host {self.host + 1} was {self.stage}" if self.stage else "its start"
        return f"{name}: {way}, {self.events} {self.kind.unit} after {since}; then {THEN[self.then]}"


def play(bed: Bed, case: Case) -> Outcome:
    out = Outcome(case)
    first = bed.start(bed.playbook, bed.variables, case.way)
    try:
        if _came(bed, case, first):
            out.seen = bed.seen()
            out.missed = not bed.end(case.way, first)
        elif first.process.returncode:
            out.wrong.append(f"it failed before the moment: {first.text[-1500:]}")
        else:
            out.missed = True
        if out.missed and case.then == "restore":  # for the next try; a roll has done that itself
            watch(bed.start("restore", bed.variables))
        elif not out.missed and not out.wrong:
            carry_on(bed, case.then, out)
    except TimeoutError as error:
        out.wrong.append(str(error))
    finally:
        if first.running:
            first.kill()
    return out


def carry_on(bed: Bed, then: str, out: Outcome) -> None:
    """The commands that come then, and what is seen at the end."""
    for playbook in {"again": [bed.playbook], "abort": ["abort"], "restore": [bed.playbook, "restore"]}[then]:
        ended = watch(bed.start(playbook, {} if playbook == "abort" else bed.variables))
        if ended.code:
            out.wrong.append(f"{playbook} ended with {ended.code}: {ended.text[-1500:]}")
        bed.after(playbook, ended, out)
    faults = out.faults
    faults["orphans"] += _orphans(bed)
    bed.look(out)
    reboots = {host: len(boots) - 1 for host, boots in bed.outs.boots.items()}
    faults["rebooted_twice"] += [f"{host} was rebooted {times} times" for host, times in reboots.items() if times > 1]
    faults["redone"] += bed.outs.redone
    if bed.outs.most_out > 1:
        out.wrong.append(f"{bed.outs.most_out} hosts were out at once")
    if then == "again":
        worked = bed.worked()
        out.wrong += [
            f"{host} was rebooted {reboots[host]} times, and worked on: {host in worked}"
            for host in bed.hosts
            if not reboots[host] or host not in worked
        ]


def _came(bed: Bed, case: Case, run: Command) -> bool:
    """Wait for the moment. False: the command was over before."""

    def is_there() -> bool:
        stage = [*bed.stages(), "", "", ""][case.host]
        return stage in _ORDER and _ORDER.index(stage) >= _ORDER.index(case.stage)

    if not until(is_there, run):
        return False
    since = bed.events(run)
    return until(lambda: bed.events(run) - since >= case.events, run)


def until(what: Callable[[], bool], run: Command) -> bool:
    while not what():
        if not run.running:
            return False
        time.sleep(0.005)
    return run.running


def _orphans(bed: Bed) -> list[str]:
    """A slice after the last command has ended nothing of the commands runs any more."""
    end = time.monotonic() + SLICE
    while True:
        found = [*ways.processes(bed.mark).values(), *bed.foreign()]
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.2)


@dataclass(frozen=True)
class Kind:
    """Cases of one kind: where they are played, and what they are drawn from.

    `bed`: with the name of the lab, and whether that has to be a new one. `most`: stage -> its events, at most, where
    nobody disturbs it. `unit`: what an event is. `options`: with which a case is repeated.
    """

    name: str
    bed: Callable[[str, bool], AbstractContextManager[Any]]
    most: Mapping[str, int]
    unit: str
    options: str = ""
    ways: Sequence[str] = ways.WAYS
    then: Sequence[str] = ("again", "abort")
    # How often a moment is in this host, of the three: most are in the second.
    hosts: Sequence[int] = (0, 1, 1, 1, 1, 2)
    stages: Sequence[str] = STAGES
    play: Callable[[Any, Case], Outcome] = play

    def draw(self, seed: int, number: int) -> Case:
        """The case of this number. After ten cases of a roll each way has come before each command."""
        dice = random.Random(f"{seed}/{self.name}/{number}")
        way = self.ways[(number - 1) % len(self.ways)]
        then = self.then[(number - 1) // len(self.ways) % len(self.then)]
        stage = dice.choice(self.stages)
        host, events = dice.choice(self.hosts), dice.randrange(self.most[stage])
        return Case(self, seed, number, way, then, host, stage, events)
