"""Runs commands on a fleet in memory, slice by slice, as an action plugin calls its module.

Each read, write and wait of the platform is a point with a number. What stands at that number of the case is done
there: `Case`. What a process does is lost with it; only the fleet stays.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.hooks import (
    pending_rows,
    record_answers,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.restore import leaves_nothing
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Intent,
    NodeRecord,
    Superseded,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.check import check
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, Slice, SliceEnd
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import check_owner, start
from fleetsim.fleet import Fleet
from fleetsim.platform import ModelPlatform
from perturb.judge import digest, plain
from perturb.request import NEVER, Nothing, Point, Request, Run, release_left
from perturb.tasks import Tasks
from perturb.watch import Watch, at_word

SLICES = 400  # of one command: more is without end


class Killed(BaseException):
    """kill -9 of playbook and module."""


class SliceLost(BaseException):
    """The module ended with its host, and the playbook goes on with the next slice."""


class CallFailed(Exception):
    """A call whose failure ends the slice."""


class Endless(Exception):
    """A command that does not end."""


@dataclass(frozen=True)
class Command:
    """One command. `only`: one VM's migration. `check`: in check mode. `intent` active: restore, or abort."""

    intent: str
    node: str = "a"
    only: str = ""
    check: bool = False
    no_stop: bool = False  # its policy allows none


@dataclass(frozen=True)
class Case:
    """What is done at the point `at`. `arg`: of which VM, for how long, as it was where: by kind."""

    kind: str
    at: int
    arg: Any = None
    then: str = ""  # what is commanded after a kill: again, back, forth. After something else: at its next wait
    second: Case | None = None  # another fault, so many points later

    def __str__(self) -> str:
        parts = (self.kind, self.at, self.arg, self.then, self.second and f"and/{self.second}")
        return "/".join(str(part) for part in parts if part not in (None, ""))


@dataclass
class Play:
    """A fleet, what was commanded, and what came of it."""

    fleet: Fleet
    policy: Policy
    case: Case | None = None
    tick: Callable[[Play], None] | None = None  # others, at each point: owners that act
    recording: bool = False
    points: list[Point] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0
    slices: int = 0
    runs: int = 0
    dead: bool = False
    writes_in_check: list[str] = field(default_factory=list)
    copies: dict[int, Fleet] = field(default_factory=dict)
    keep: Container[int] = ()  # numbers of points of which a copy is kept
    second: Case | None = None  # of the case, as long as it has not come
    struck: list[tuple[Case, int]] = field(default_factory=list)  # which fault was played at which point
    struck_in: int = 0  # the number of the command in which the case's fault was played
    arg: Any = None  # of the fault that is played now
    lost_answer: bool = False
    failing: float | None = None  # until when calls fail, by the clock
    failing_what: str = ""
    read_at: dict[str, int] = field(default_factory=dict)
    reads_since_act: Counter[str] = field(default_factory=Counter)  # of each host, since the last act of its run
    seen: dict[str, list[str]] = field(default_factory=dict)  # what moved when a host was read
    refuses: Callable[[Action], Finding | None] = lambda _action: None
    blur: Callable[[Observation], None] | None = None  # takes from a look what it cannot read
    last: dict[str, Any] = field(default_factory=dict)
    wish: Any = None  # of an owner
    cut: int = 0  # the point at which the scenario itself kills a command
    seconds: float = 4.0  # of a slice
    started: set[str] = field(default_factory=set)  # by a host that booted
    later: tuple[int, str, Iterator[str]] | None = None  # from which point on which host's run does the rest of what
    carried: bool = False  # as on KubeVirt: the next slice is handed the record, which is seldom written
    tasks: Tasks = field(default_factory=Tasks)  # of hooks
    late: set[str] = field(default_factory=set)  # whose guests act when nobody waits any more

    def __post_init__(self) -> None:
        self.watch = Watch(self.fleet, self.policy)
        domains = [entry for machine in self.fleet.machines.values() for entry in machine.domains.items()]
        self.late = {uuid for uuid, d in domains if (d.shutdown_takes or 0.0) > self.policy.shutdown_timeout}
        self.tasks.watch = self.watch

    # Points

    def hook(self, platform: Perturbed, what: str) -> None:
        """Before each read, write and wait."""
        if self.dead:
            raise Killed
        platform.see(self.fleet)
        self.fleet.advance(self.fleet.clock + 0.005)
        if self.tick is not None:
            self.tick(self)
        self.watch.look()
        self.count += 1
        if self.recording:
            about = digest(self.fleet), self.slices, bool(self.fleet.moves), platform.command.intent == "active"
            self.points.append(Point(what, self.fleet.clock, *about))
        if self.count in self.keep:
            self.copies[self.count] = copy.deepcopy(self.fleet)
        if self.later is not None and self.count >= self.later[0]:
            self.rest_of_it()
        words = what.split()
        if words[0] == "write" and words[1] not in ("record", "claim", "slot"):
            self.reads_since_act[platform.node] = 0
        self.reads_since_act[platform.node] += what == f"read {platform.node}"
        if what == f"read {platform.node}":
            self.read_at[what] = self.count
            self.seen[what] = [m.vm for m in self.fleet.moves.values() if m.stage.value != "starting"]
        if self.count == self.cut or (words[0] == "wait" and self._changes_mind()):
            raise Killed
        self.watch.no_stop = platform.command.no_stop and (self.watch.no_stop or words[0] == "wait")
        if platform.checking and what.startswith("write"):
            self.writes_in_check.append(what)
        if self.case is not None and self.count == self.case.at:
            self.struck_in = self.runs
            self._strike(self.case, platform, what)
        elif self.second is not None and self.count >= self.case.at + self.second.at:
            second, self.second = self.second, None
            with suppress(Nothing):
                self._strike(second, platform, what)
        self.tasks.look(platform.node, words)
        self.watch.act(words)
        if platform.slow and what == f"read {platform.node}":
            self.pass_events(platform.slow)
        self._fail(platform, what)

    @property
    def cases(self) -> list[Case]:  # whose faults were played
        return [case for case, _at in self.struck]

    def _strike(self, case: Case, platform: Perturbed, what: str) -> None:
        self.arg = case.arg
        self.struck.append((case, self.count))
        try:
            FAULTS[case.kind](self, platform, what)
        except Nothing:
            self.struck.pop()
            raise

    def _changes_mind(self) -> bool:
        """Is the command given up here, after its fault, for a restore?"""
        return self.case is not None and self.case.then in ("back", "forth") and self.struck_in == self.runs

    def _fail(self, platform: Perturbed, what: str) -> None:
        if self.failing is None:
            return
        if self.fleet.clock > self.failing:
            self.failing = None
        elif what in ("read record", "write record") and self.failing_what in ("all", what):
            raise CallFailed(f"{what}: connection refused")

    def pass_events(self, count: int) -> None:
        for _number in range(count):
            if (until := self.fleet.next_event()) < self.fleet.clock + 1000.0:
                self.fleet.advance(until + 0.001)

    def aside(self, command: Command) -> None:
        """Another command, to its end, before this one goes on."""
        self.watch.others_at = command.node
        self.command(command, f"aside {command.intent}")
        self.watch.others_at = ""

    def rest_of_it(self) -> None:
        """Another host's run, which stood in the middle of something, goes on with it."""
        if self.later is not None:
            (_count, self.watch.others_at, rest), self.later = self.later, None
            list(rest)
            self.watch.look()
            self.watch.others_at = ""

    # Commands

    def command(self, command: Command, name: str = "") -> dict[str, Any]:
        """Until it is final, killed, or failed. `name`: the run's."""
        self.runs += 1
        self.watch.certified.discard(command.node)
        name = name or f"run{self.runs}"
        try:
            found = self._slices(command, name)
        except Killed:
            self.dead = False
            found = {"phase": "Killed"}
        except CallFailed as exc:
            found = {"phase": "Failed", "error": str(exc)}
        except Superseded as exc:
            found = {"phase": "Superseded", "error": str(exc)}
        self.rest_of_it()
        found["intent"], found["node"] = command.intent, command.node
        found["at_word"] = [*at_word(self.fleet, found), *self.tasks.at_word(found)]
        if found["phase"] == "Drained" and not command.check:
            self.watch.certified.add(command.node)
        self.results.append(found)
        return found

    def _reads(self, node: str) -> dict[str, Any]:
        what = f"read {node}"
        since = self.reads_since_act[node]
        return {"read_at": self.read_at.get(what, 0), "reads_since_act": since, "seen": self.seen.get(what, [])}

    def _slices(self, command: Command, name: str) -> dict[str, Any]:
        run = Run(name)
        for _number in range(SLICES):
            self.slices += 1
            with suppress(SliceLost):
                if (found := self._slice(command, run)) is not None:
                    return found
        raise Endless(f"{command} does not end: {self.last}")

    def _slice(self, command: Command, run: Run) -> dict[str, Any] | None:
        """None: another one follows."""
        platform = Perturbed(self, command, run.answers)
        intent, policy = Intent(command.intent), replace(self.policy, allow_stop=False)
        policy = policy if command.no_stop else self.policy
        request = Request(command.node, policy, intent, run.name, begun=run.begun, only=command.only)
        if command.check:
            seen = check(platform, request)
            wrote = self.writes_in_check
            return {"phase": seen.phase.value, "vms": {}, "findings": [], "checked": True, "wrote": wrote}
        # A lease sees to it that a record is handed on only where nobody else has written it.
        handed = run.record is not None and platform.own.record == run.saved[0]
        old = run.record if handed else platform.load()
        check_owner(old, request)
        if old is None and request.intent is Intent.ACTIVE and (run.begun or not command.only):
            release_left(platform)
            return {"phase": NodePhase.ACTIVE.value, "vms": {}, "findings": []}
        record = start(platform, request, old)
        record_answers(record, run.answers)
        engine = Engine(platform, policy, record)
        if self.carried:
            saved = run.saved if handed else NEVER
            engine = Engine(platform, policy, record, 60.0, saved=saved, carried=True)
        outcome = engine.run(platform.now() + self.seconds, longest_wait=1.0)
        run.begun, run.answers, run.saved = True, [], engine.saved
        needs = pending_rows(outcome.decision, outcome.record)
        run.record = outcome.record if self.carried and not needs else None
        if outcome.ended is SliceEnd.FINAL:
            found = plain(outcome) | self._reads(outcome.record.node)
            if command.only:
                platform.end_of_one(outcome)
            return found
        self.tasks.ask(needs)
        for need in needs:
            platform.hook(f"task {need['hook']} {need['uuid']}")
            self.tasks.run(need)
        platform.hook("wait for the next slice")
        run.answers, self.last = needs, plain(outcome)
        return None


class Perturbed(ModelPlatform):
    """One slice's platform. Between two points it may read of another fleet: as it was."""

    def __init__(self, play: Play, command: Command, answers: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(play.fleet, command.node)
        self._play, self._answers = play, answers
        self._stale: Fleet | None = None
        self.slow = 0  # events that happen in the middle of this look
        self.command, self.checking = command, command.check
        self.hook = lambda what: play.hook(self, what)
        self.fails = self._refuses
        self._do = {do: self._answering(act) for do, act in self._do.items()}

    def _refuses(self, action: Action) -> Finding | None:
        return self._play.refuses(action)  # of the time when it is asked

    def _answering(self, act: Callable[[Action], Finding | None]) -> Callable[[Action], Finding | None]:
        def done(action: Action) -> Finding | None:
            found = act(action)
            if self._play.lost_answer:
                self._play.lost_answer = False
                return Finding(Reason.PeerUnreachable, "the connection broke")
            return found

        return done

    def see(self, fleet: Fleet, all_of_it: bool = False) -> None:
        """From now on this fleet is read; not the real one: until the next point, or all of an observation."""
        if self._stale is not None and not all_of_it:
            return
        self._stale = fleet if all_of_it else None
        self.fleet = self._claims._fleet = fleet

    def see_all(self) -> None:
        self._stale = None
        self.see(self._play.fleet)

    def end_of_one(self, outcome: Slice) -> None:
        """As the service does: the migration of one VM leaves no record, unless something is to be undone."""
        if leaves_nothing(outcome.record, outcome.observation):
            self._forget(Action(Do.FORGET, self.node))

    def wait(self, seconds: float, gather: float = 0.0) -> None:
        self.see_all()
        self.hook("wait")
        super().wait(seconds, gather)

    def observe(self, record: NodeRecord | None) -> Observation:
        order = self._order
        try:
            found = super().observe(record)
        finally:
            self.see_all()
            self._order, self.slow = order, 0
        if any(case.kind.startswith("stale") for case in self._play.cases):
            # Where reads can be late, as those of watches, an outcome does not tell where the VM is by then.
            found.outcomes = {key: replace(outcome, at="") for key, outcome in found.outcomes.items()}
        if self._play.blur is not None:
            self._play.blur(found)
        return found

    def save(self, record: NodeRecord) -> None:
        super().save(record)
        self._play.tasks.written(self._answers)
        self._answers = ()
        if self._play.lost_answer:
            self._play.lost_answer = False
            if not (record.blocked and self._play.late):  # with it the word is lost that its guest may still go off
                raise CallFailed("write record: the connection broke")


# What is done at the point of a case

FAULTS: dict[str, Callable[[Play, Perturbed, str], None]] = {}


def fault(kind: str) -> Callable[[Any], Any]:
    def known(act: Any) -> Any:
        FAULTS[kind] = act
        return act

    return known


@fault("kill")
def _kill(play: Play, platform: Perturbed, what: str) -> None:
    raise Killed


@fault("kill_holder")
def _kill_holder(play: Play, platform: Perturbed, what: str) -> None:
    """The holder of this node dies too: what has no job yet never begins, the rest goes on unwatched."""
    for move in [m for m in play.fleet.moves.values() if m.source == platform.node and m.ours]:
        move.held = False
        if move.stage.value == "starting":
            del play.fleet.moves[move.vm]
    raise Killed


@fault("lost_answer")
def _lost_answer(play: Play, platform: Perturbed, what: str) -> None:
    play.lost_answer = True
