"""One case: a roll of three hosts, cancelled in the middle; what comes then; the judgement.

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
more hosts out at once than may be.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from demo.plays import Command, watch

from . import ways

WORDS = ("lost", "twice", "leftovers", "orphans", "rebooted_twice", "redone")
THEN = ("again", "abort")
# How often a moment is in this host, of the three: most are in the second.
_HOSTS = (0, 1, 1, 1, 1, 2)
# A stage lasts longer, or has more in it, than another.
_STAGES = ("draining",) * 5 + ("empty", "at work", "rebooting", "checking", "restoring")
# Seconds that a module call may take, and as long again for a busy machine.
SLICE = 40.0


@dataclass(frozen=True)
class Case:
    """What is done. The moment: `events` after the host (its place in the roll) came to `stage`."""

    platform: str
    seed: int
    number: int
    way: str
    then: str
    host: int
    stage: str
    events: int

    def __str__(self) -> str:
        what = {"again": "the same command again", "abort": "abort.yml"}[self.then]
        return (
            f"{self.platform} {self.number:2}: {self.way}, {self.events} events after host "
            f"{self.host + 1} was {self.stage}; then {what}"
        )


class Judgement:
    """Faults by word, and what else is wrong."""

    def __init__(self) -> None:
        self.faults: dict[str, list[str]] = {word: [] for word in WORDS}
        self.wrong: list[str] = []

    @property
    def ok(self) -> bool:
        return not self.wrong and not any(self.faults.values())

    def lines(self) -> list[str]:
        counted = [f"{word}: {text}" for word in WORDS for text in self.faults[word]]
        return counted + [f"wrong: {text}" for text in self.wrong]


@dataclass
class Outcome:
    """What came of a case. `missed`: the roll was over before the moment came. `seen`: how far it
    was."""

    case: Case
    seen: str = ""
    seconds: float = 0.0
    missed: bool = False
    judgement: Judgement = field(default_factory=Judgement)


class Bed(Protocol):
    """Three hosts with VMs, a place for the run of one case."""

    # What to look into after a fault.
    folders: Sequence[Path]
    # The variables of a roll of all three hosts, with a reboot and a task file.
    roll: Mapping[str, Any]

    def start(self, playbook: str, way: str, mark: str, variables: Mapping[str, Any]) -> Command:
        """A playbook of the collection; its processes have the mark."""

    def stages(self) -> list[str]:
        """Of the hosts in the order of the roll: the stages that each has come to last."""

    def events(self) -> int:
        """Grows with what happens."""

    def foreign(self) -> list[str]:
        """Processes of a command that run elsewhere than on this machine."""

    def judge(self, case: Case, judgement: Judgement) -> None:
        """Add the faults that it sees, but for orphans."""


def draw(seed: int, platform: str, number: int, most: Mapping[str, int]) -> Case:
    """The case of this number. After ten cases each way has come before each command."""
    dice = random.Random(f"{seed}/{platform}/{number}")
    way = ways.WAYS[(number - 1) % len(ways.WAYS)]
    then = THEN[(number - 1) // len(ways.WAYS) % len(THEN)]
    stage = dice.choice(_STAGES)
    host, events = dice.choice(_HOSTS), dice.randrange(most[stage])
    return Case(platform, seed, number, way, then, host, stage, events)


def run(bed: Bed, case: Case) -> Outcome:
    out, began = Outcome(case), time.monotonic()
    mark = f"{case.platform}-{case.number}-{began}"
    first = bed.start("rolling_maintenance", case.way, mark, bed.roll)
    try:
        over = not _came(bed, case, first)
        if not over:
            out.seen = ", ".join(bed.stages())
            ways.cancel(case.way, first)
            # Asked afterwards: with its last host the roll is over, though its playbook ran a little longer.
            out.missed = set(bed.stages()) == {"done"}
    finally:
        if first.running:
            first.kill()
    if over and first.process.returncode != 0:
        out.judgement.wrong.append(f"the roll failed before the moment: {first.text[-1500:]}")
        return out
    if over or out.missed:
        out.missed = True
        return out
    if case.then == "again":
        ended = watch(bed.start("rolling_maintenance", "", mark, bed.roll))
    else:
        ended = watch(bed.start("abort", "", mark, {}))
    if ended.code:
        out.judgement.wrong.append(f"{case.then} ended with {ended.code}: {ended.text[-1500:]}")
    out.judgement.faults["orphans"] += _orphans(bed, mark)
    bed.judge(case, out.judgement)
    out.seconds = time.monotonic() - began
    return out


def _came(bed: Bed, case: Case, play: Command) -> bool:
    """Wait for the moment. False: the roll was over before."""
    order = [*dict.fromkeys(_STAGES), "done"]

    def is_there() -> bool:
        stages = bed.stages()
        stage = stages[case.host] if len(stages) > case.host else ""
        return stage in order and order.index(stage) >= order.index(case.stage)

    if not _until(is_there, play):
        return False
    since = bed.events()
    return _until(lambda: bed.events() - since >= case.events, play)


def _until(what: Callable[[], bool], play: Command) -> bool:
    while not what():
        if not play.running:
            return False
        time.sleep(0.005)
    return play.running


def _orphans(bed: Bed, mark: str) -> list[str]:
    """A slice after the last command has ended nothing of the commands runs any more."""
    end = time.monotonic() + SLICE
    while True:
        found = [*ways.processes(mark).values(), *bed.foreign()]
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.2)
