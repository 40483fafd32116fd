"""One case: a drain and a restore, or a roll; acts at seeded moments; the judgement from outside.

lost                a VM that runs no more, or was stopped, and no act did that; damage to its memory or its disks
twice               a VM that ran at two places at once
false_certificates  a drain that ended well, and a VM was on its node
false_blocked       the same command failed, with everything healed and nothing changed by hand since
unfinished          a command that had no end, or that did not end well in `TRIES` goes
unexplained         a command that failed in other words than a reason of docs/reasons.md; a VM that is off unnamed
left_behind         a mark, a migration, a record, a claim, a cordon or a lock at the end
"""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cancel import ways
from demo.plays import Command, Ended

from lab.names import REPO

WORDS = ("lost", "twice", "false_certificates", "false_blocked", "unfinished", "unexplained", "left_behind")
LONGEST = 600.0  # s of one command, on a busy machine: it has deadlines of its own
TRIES = 4
_REASONS = REPO / "docs" / "reasons.md"
PLAIN = re.compile(
    "aborted|cannot be reached|in use|interrupted|does not answer|took over|Superseded|UNREACHABLE"
    "|was ended by SIG|gave no answer"
)


@dataclass(frozen=True)
class Case:
    """`acts`: what happens, and after how many events of the command that is to be disturbed."""

    on: str
    seed: int
    number: int
    command: str
    acts: tuple[tuple[int, str], ...]

    def __str__(self) -> str:
        return f"{self.on} {self.number:2}: {self.command}; " + ", ".join(f"{act} at {at}" for at, act in self.acts)


@dataclass
class Outcome:
    case: Case
    did: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    faults: dict[str, list[str]] = field(default_factory=lambda: {word: [] for word in WORDS})
    seconds: float = 0.0
    directory: str = ""

    @property
    def ok(self) -> bool:
        return not any(self.faults.values())


class Ground:
    """Nodes with VMs, for one case. Acts note in it what they may cost: VMs that may be off or stop for it
    (`excused`), VMs that need not run any more (`gone`), and what ends it (`later`)."""

    nodes: tuple[str, ...]
    roll: Mapping[str, Any]

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.excused: set[str] = set()
        self.gone: set[str] = set()
        self.current: Command | None = None
        self.second: Command | None = None
        self._undo: list[tuple[threading.Timer, Callable[[], Any]]] = []
        self._mark, self._runs = f"chaos-{directory.name}", 0

    # What each has of its own

    def argv(self, playbook: str, variables: Mapping[str, Any]) -> list[str]:
        raise NotImplementedError

    def environment(self, folder: Path) -> Mapping[str, str]:
        raise NotImplementedError

    def events(self) -> int:
        """Grows with what happens."""
        raise NotImplementedError

    def settle(self) -> None:
        """Wait until what was healed is well."""
        raise NotImplementedError

    def there(self, node: str) -> list[str]:
        """VMs that are on a node whose drain has ended well just now. What came later is excused."""
        raise NotImplementedError

    def judge(self, out: Outcome) -> None:
        """Add the faults that are seen at the end."""
        raise NotImplementedError

    # What they share

    def start(self, playbook: str, **variables: Any) -> Command:
        self._runs += 1
        folder = self.directory / f"run-{self._runs}"
        return ways.start("", self._mark, self.argv(playbook, variables), self.environment(folder), folder)

    def later(self, seconds: float, undo: Callable[[], Any]) -> None:
        """Undo it after so many real seconds, or when everything is healed."""
        timer = threading.Timer(seconds, undo)
        timer.daemon = True
        self._undo.append((timer, undo))
        timer.start()

    def kill(self, all_of_it: bool, dice: random.Random) -> str:
        """kill -9 of the playbook and all that it started, or of one process of it."""
        run = self.current
        if run is None or not run.running:
            return "there is no playbook to kill"
        if all_of_it:
            return f"kill -9 of the playbook, {run.kill()} processes"
        found = sorted(pid for pid, words in ways.processes(self._mark).items() if "mux" not in words)
        with suppress(ProcessLookupError, IndexError):
            os.kill(dice.choice(found), signal.SIGKILL)
        return "kill -9 of one process of the playbook"

    def beside(self) -> None:
        """Another command begins beside this one: a drain of another node."""
        if self.second is None:
            self.second = self.start("drain", maintenance_hosts=self.nodes[1])

    def heal(self) -> None:
        """What was done on purpose to the machines ends; what owners did stays."""
        for timer, undo in self._undo:
            if timer.is_alive():
                timer.cancel()
                undo()
        self._undo.clear()
        self.settle()

    def end(self) -> None:
        for timer, _undo in self._undo:
            timer.cancel()
        for pid in ways.processes(self._mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


Act = Callable[[Any, random.Random], str]


@dataclass(frozen=True)
class Place:
    """`most`: command -> its events, at most, before the first act. `commands`: which are disturbed, in turn."""

    name: str
    acts: Mapping[str, Act]
    commands: tuple[str, ...]
    most: Mapping[str, int]
    bed: Callable[[Path], AbstractContextManager[Ground]]

    def draw(self, seed: int, number: int) -> Case:
        dice = random.Random(f"{seed}/{self.name}/{number}")
        names = sorted(self.acts)
        first = names[(number - 1) % len(names)]  # each of them comes in turn, others beside it
        acts = [first, *(dice.choice(names) for _more in range(dice.choice((0, 1, 1, 2))))]
        command = self.commands[(number - 1) % len(self.commands)]
        moments = tuple(sorted((dice.randrange(5, self.most[command]), act) for act in acts))
        return Case(self.name, seed, number, command, moments)

    def run(self, case: Case, directory: Path) -> Outcome:
        out, began = Outcome(case, directory=str(directory)), time.monotonic()
        with self.bed(directory) as made:
            Runner(made, out, self.acts).run()
            made.heal()
            made.judge(out)
        out.seconds = time.monotonic() - began
        return out


def reasons() -> frozenset[str]:
    return frozenset(re.findall(r"^\| `(\w+)` ", _REASONS.read_text(encoding="utf-8"), re.MULTILINE))


class Runner:
    """Gives the commands of a case, and notes what went wrong."""

    def __init__(self, on: Ground, out: Outcome, acts: Mapping[str, Act]) -> None:
        self.on, self.out, self._acts = on, out, acts
        self._known = reasons()
        self._left = list(out.case.acts)
        self._dice = random.Random(f"{out.case.seed}/{out.case.number}/acts")

    def run(self) -> None:
        on, command = self.on, self.out.case.command
        if command == "roll":
            self._until_good("rolling_maintenance", True, **on.roll)
        else:
            if self._until_good("drain", command == "drain", maintenance_hosts=on.nodes[0]):
                self.out.faults["false_certificates"] += [
                    f"{name} is on {on.nodes[0]}" for name in on.there(on.nodes[0])
                ]
            self._until_good("restore", True, maintenance_hosts=on.nodes[0])
        if on.second is not None:
            self._wait(on.second)
            self._until_good("restore", True, maintenance_hosts=on.nodes[1])

    def _until_good(self, playbook: str, disturbed: bool, **variables: Any) -> bool:
        """The command, and the same again until it ends well; from the second time on with everything healed."""
        for go in range(TRIES):
            self.on.current = command = self.on.start(playbook, **variables)
            since = self.on.events()
            while command.running and self._left and disturbed:
                if self.on.events() - since >= self._left[0][0]:
                    self._act()
                time.sleep(0.01)
            ended = self._wait(command)
            if ended is not None and ended.code == 0:
                return True
            self._explained(playbook, command)
            if go >= 2:
                self.out.faults["false_blocked"].append(f"{playbook}, healed: {_last(command.text)}")
            while self._left and disturbed:
                self._act()
            self.on.heal()
        self.out.faults["unfinished"].append(f"{playbook} did not end well in {TRIES} goes")
        return False

    def _act(self) -> None:
        _events, name = self._left.pop(0)
        try:
            self.out.did.append(self._acts[name](self.on, self._dice))
        except Exception as exc:  # the API, or a host, is away
            self.out.did.append(
                f"{name} did not come through: {type(exc).__name__}: {' '.join(str(exc).split())[-120:]}"
            )

    def _wait(self, command: Command) -> Ended | None:
        try:
            ended = command.wait(LONGEST)
        except TimeoutError as exc:
            self.out.faults["unfinished"].append(f"{exc}: {_last(command.text)}")
            self.out.codes.append("no end")
            return None
        self.out.codes.append(str(ended.code))
        return ended

    def _explained(self, playbook: str, command: Command) -> None:
        text = command.text
        if command.process.returncode < 0 or any(re.search(rf"\b{code}\b", text) for code in self._known):
            return
        if not PLAIN.search(text):
            self.out.faults["unexplained"].append(f"{playbook}: {_last(text)}")


def _last(text: str) -> str:
    return " | ".join(line for line in text.splitlines() if line.strip())[-600:]
