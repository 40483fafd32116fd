"""The fleet of a roll, its record, and what is true of them at each point."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import owner, record
from fleetsim.fleet import Fleet
from fleetsim.platform import OURS
from perturb.judge import digest
from perturb.play import Case, Killed
from perturb.scenarios import POLICY
from perturb.watch import Watch

RENEWED = 10.0  # s: the process beside a playbook writes when nobody has for so long


class Who(Protocol):
    """A playbook."""

    run: str
    lives: bool
    over: bool


class Lost(owner.RollUnreadable):
    """It was written, and the answer did not come."""


@dataclass
class World:
    """A fleet, the record of its roll, and who works on it. `wrong`: what must never be, at the moment it was."""

    fleet: Fleet
    most_out: int = 1
    case: Case | None = None
    acts: dict[str, Callable[[World, Who, str], None]] = field(default_factory=dict)
    text: str = ""
    written: float = 0.0
    count: int = 0
    points: list[tuple[str, str]] = field(default_factory=list)  # what, and how all was then
    playbooks: list[Who] = field(default_factory=list)
    worked: dict[tuple[str, str], int] = field(default_factory=dict)  # roll, host -> its boot then
    anew: bool = False  # an abort has given hosts back, and the roll goes on with them from the start
    fails: tuple[str, str] = ("", "")  # the playbook, and the host on which a task of its user fails
    wrong: dict[str, None] = field(default_factory=dict)
    lose_answer: str = ""  # of the next write: what is told of it
    silent_until: float = 0.0
    silent_host: tuple[str, float] = ("", 0.0)  # and until when it does not answer
    arg: object = None  # of the fault that is played now
    second: Case | None = None  # another one, so many points later
    not_ready: bool = False  # the preflight finds a blocker on each host
    ids: set[str] = field(default_factory=set)  # of rolls that were begun
    _read: tuple[str, bytes] = ("", b"")

    def __post_init__(self) -> None:
        self.watch = Watch(self.fleet, POLICY)
        self.was_on = {uuid for machine in self.fleet.machines.values() for uuid in machine.domains}

    @property
    def roll(self) -> record.Roll | None:
        """A copy, as whoever reads has one."""
        if not self.text:
            return None
        if self._read[0] != self.text:
            self._read = self.text, pickle.dumps(record.Roll.from_json(self.text))
        return pickle.loads(self._read[1])

    @property
    def roll_id(self) -> str:
        return self.roll.id if self.roll is not None else ""

    def at(self, what: str, who: Who) -> None:
        """A point."""
        if not who.lives:
            raise Killed
        self.pass_time(0.005)
        self.count += 1
        if self.case is None:
            self.points.append((what, self._state()))
        if self.case is not None and self.count == self.case.at:
            self.arg = self.case.arg
            self.acts[self.case.kind](self, who, what)
        if self.second is not None and self.case is not None and self.count >= self.case.at + self.second.at:
            second, self.second = self.second, None
            self.arg = second.arg
            self.acts[second.kind](self, who, what)
        if not who.lives:
            raise Killed

    def _state(self) -> str:
        roll = self.roll
        stages_now = {name: entry.stage.value for name, entry in roll.hosts.items()} if roll is not None else {}
        return repr((roll and roll.state, stages_now, digest(self.fleet)))

    def pass_time(self, seconds: float) -> None:
        until = self.fleet.clock + seconds
        while self.fleet.clock < until:
            self.fleet.advance(min(until, self.fleet.clock + 5.0))
            self._renew()
            self.look()

    def _renew(self) -> None:
        """As the process beside the playbook does it, which lives and ends with it."""
        if self.fleet.clock - self.written < RENEWED:
            return
        roll, open_ones = self.roll, (record.State.RUNNING, record.State.ABORTING)
        runs = {playbook.run for playbook in self.playbooks if playbook.lives and not playbook.over}
        if roll is not None and roll.run in runs and roll.state in open_ones:
            self.touch()

    def touch(self) -> None:
        """The record is written by somebody else, and nothing else of it changes."""
        roll = self.roll
        if roll is not None:
            roll.beat += 1
            self.text, self.written = roll.to_json(), self.fleet.clock

    def look(self) -> None:
        self.watch.look()
        out = [name for name, machine in self.fleet.machines.items() if OURS in machine.cordons or not machine.up]
        if len(out) > self.most_out:
            self.say(f"{len(out)} hosts are out at once, of {self.most_out}")
        for name, machine in self.fleet.machines.items():
            if machine.boot > 1 + max(1, len(self.ids)) + self.anew:  # asked for twice before it goes down is once
                self.say(f"{name} is rebooted twice")
        ours = [name for name, machine in self.fleet.machines.items() if OURS in machine.cordons]
        roll = self.roll if ours else None
        for name in ours:
            if roll is not None and roll.state is record.State.RUNNING and name in roll.in_stage(record.Stage.WAITING):
                self.say(f"{name} is being drained, and waits by the record")

    def say(self, text: str) -> None:
        self.wrong[text] = None

    def work_on(self, name: str) -> None:
        """What was interrupted is begun anew."""
        self.worked[self.roll_id, name] = self.fleet.machines[name].boot

    def act_on(self, what: str, name: str) -> None:
        """The user's tasks run there, or it reboots: is it empty, and does the record say so?"""
        machine, roll = self.fleet.machines[name], self.roll
        if any(domain.active for domain in machine.domains.values()):
            self.say(f"{what} on {name}, which has VMs")
        stage = roll.hosts[name].stage.value if roll is not None and name in roll.hosts else "no roll"
        if stage not in ("at work", "rebooting"):
            self.say(f"{what} on {name}, which is {stage} by the record")


class Store:
    """The record, as one playbook reaches it."""

    def __init__(self, world: World, who: Who) -> None:
        self._world, self._who = world, who

    def _reach(self, what: str) -> None:
        self._world.at(what, self._who)
        if self._world.fleet.clock < self._world.silent_until:
            raise owner.RollUnreadable("nobody answers")

    def read(self) -> tuple[record.Roll | None, str]:
        self._reach("read roll")
        return self._world.roll, self._world.text

    def write(self, roll: record.Roll, seen: str) -> bool:
        self._reach("write roll")
        world = self._world
        if seen != world.text:
            return False
        world.text, world.written = roll.to_json(), world.fleet.clock
        world.ids.add(roll.id)
        told, world.lose_answer = world.lose_answer, ""
        if told == "nothing":
            raise Lost("the connection broke")
        return told != "changed"

    def fleet(self) -> record.Fleet:
        self._reach("read fleet")
        machines = self._world.fleet.machines
        out = {name: "is cordoned" for name, machine in machines.items() if machine.cordons}
        name, until = self._world.silent_host
        silent = {name for name, machine in machines.items() if not machine.up}
        silent |= {name} if self._world.fleet.clock < until else set()
        out |= dict.fromkeys(silent, "does not answer")
        return record.Fleet(sorted(machines), out, silent=frozenset(silent))
