# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several runs at once on one model fleet, interleaved as a plan says, watched by an observer.

Each run is a thread, and exactly one of them works at a time: at every read and write of its
platform the plan may let another one go on, break something, or kill one. Nothing sleeps.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from ansible_collections.virtops.maintenance.plugins.module_utils._core.actions import (
    Action,
    Do,
    NodePhase,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.engine import (
    Ended,
    Engine,
    Slice,
    begin,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.fleet import Fleet
from ansible_collections.virtops.maintenance.plugins.module_utils._core.machines import (
    Domain,
    Fate,
    Machine,
    Move,
    Stage,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model import VM, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model_platform import (
    OURS,
    ModelPlatform,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.policy import (
    Limits,
    MigrationSettings,
    Policy,
)

EXECUTES = frozenset({State.RUNNING, State.POSTCOPY})
STOPS = frozenset({Do.SHUTDOWN, Do.SAVE, Do.FORCE_OFF})

POLICY = Policy(
    limits=Limits(cluster=3, outbound=2, inbound=2),
    migration=MigrationSettings(completion_timeout_per_gib=60, progress_timeout=20),
    max_attempts=2,
    backoff=2.0,
    shutdown_timeout=15.0,
    external_timeout=15.0,
    unknown_timeout=15.0,
    pending_timeout=40.0,
    drain_timeout=200.0,
)
# No run may need longer than this from its last start or the last thing that went wrong.
LONGEST = 200.0 + 2 * (60.0 * 2 + 20.0) + 40.0 + 60.0


class Killed(BaseException):
    """kill -9: nothing of the run goes on."""


class Broken(AssertionError):
    """The observer saw what must never be."""


def _shut() -> threading.Lock:
    """A lock that waits for somebody to release it."""
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass
class Run:
    """One run of one node: what ansible-playbook, killed and started again, amounts to."""

    node: str
    intent: str = "drained"
    name: str = ""
    wake_at: float = 0.0
    dead: bool = False  # killed; its thread has not noticed yet
    finished: bool = False
    superseded: bool = False
    result: Slice | None = None
    lives: int = 1
    born: float = 0.0
    baton: threading.Lock = field(default_factory=_shut)


class World:
    """The fleet, the runs on it, the plan, and the observer."""

    def __init__(self, fleet: Fleet, policy: Policy = POLICY, plan=(), slice_seconds=30.0) -> None:
        self.fleet = fleet
        self.policy = policy
        self.plan = list(plan)[::-1]
        self.gap = self.plan[-1][0] if self.plan else -1
        self.slice_seconds = slice_seconds
        self.runs: list[Run] = []
        self.locks: dict[str, Run | None] = {}
        self.steps = 0
        self.last_fault = fleet.clock
        self.error: BaseException | None = None
        self.drained: dict[str, bool] = {}
        self.stopped: set[str] = set()
        self.names = {u for m in fleet.machines.values() for u in m.domains}
        self.home = {
            u: m.name for m in fleet.machines.values() for u, d in m.domains.items() if d.active
        }
        self.before = {
            u: (d.persistent, d.autostart)
            for m in fleet.machines.values()
            for u, d in m.domains.items()
        }
        self.excused: set[str] = set()  # VMs that others stopped
        self.stolen: set[str] = set()  # VMs that others migrated, and lost their autostart
        self.read_at: dict[str, float] = {}  # when a run last read its own node
        self.log: list[str] = []
        self._over = _shut()
        fleet.on_change = self.check

    # The runs

    def go(self, *runs: Run) -> list[Run]:
        """Let the runs go until each has ended. Raises what one of them raised."""
        self.runs = list(runs)
        for number, run in enumerate(runs):
            run.name = run.name or f"{run.node}{number}"
            run.born = self.fleet.clock
        threads = [threading.Thread(target=self._thread, args=(run,)) for run in runs]
        for thread in threads:
            thread.start()
        self.runs[0].baton.release()
        self._over.acquire()
        for thread in threads:
            thread.join()
        if self.error is not None:
            print(*self.log[-120:], sep="\n")
            raise self.error
        self.check()
        return list(runs)

    def _thread(self, run: Run) -> None:
        run.baton.acquire()
        try:
            while not run.finished and self.error is None:
                try:
                    self._live(run)
                except Killed:
                    run.dead = False
                    run.lives += 1
                    run.born = self.fleet.clock
        except BaseException as exc:
            self.error = self.error or exc
        run.finished = True
        if self.locks.get(run.node) is run:
            self.locks[run.node] = None
        self._pass_on(run)

    def _live(self, run: Run) -> None:
        """One process after another makes slices, until a phase is final."""
        run_id = f"{run.name}-{run.lives}"
        begun = False
        while True:
            machine = self.fleet.machines[run.node]
            while not machine.up or self.locks.get(run.node) not in (None, run):
                self._sleep(run, 1.0)
            self.locks[run.node] = run
            platform = ModelPlatform(self.fleet, run.node, first=len(run.name) + run.lives)
            platform.hook = lambda what: self._hook(run, what)
            platform.sleep = lambda seconds: self._sleep(run, seconds)
            platform.fails = self._watch
            old = platform.load()
            if begun and (old is None or old.run_id != run_id):
                run.superseded = run.finished = True
                self.locks[run.node] = None
                return
            record = begin(old, run.node, run.intent, run_id, platform.now(), platform.own.boot_id)
            engine = Engine(platform, self.policy, record)
            outcome = engine.run(platform.now() + self.slice_seconds, longest_wait=8.0)
            begun = True
            self.locks[run.node] = None
            if outcome.ended is Ended.FINAL:
                run.result, run.finished = outcome, True
                self._said(run, outcome)
                return
            if self.fleet.clock - max(run.born, self.last_fault) > LONGEST * len(self.runs):
                raise Broken(f"{run.name} does not end: {describe(outcome)}")
            self._sleep(run, 0.5)

    # Who works

    def _sleep(self, run: Run, seconds: float) -> None:
        run.wake_at = self.fleet.clock + seconds
        self._switch(run)

    def _switch(self, run: Run, number: int = 0) -> None:
        """Let another run that can work go on; time goes by when none can."""
        waiting = [r for r in self.runs if not r.finished]
        while True:
            ready = [r for r in waiting if r.dead or r.wake_at <= self.fleet.clock]
            if ready:
                break
            wake = min(r.wake_at for r in waiting)
            event = self.fleet.next_event()
            self.fleet.advance(min(wake, event))
            if event <= wake:  # something changed: all look
                for r in waiting:
                    r.wake_at = self.fleet.clock
        at = self.runs.index(run) + 1 + number
        turn = sorted(ready, key=lambda r: (self.runs.index(r) - at) % len(self.runs))
        self._hand(run, turn[0])

    def _hand(self, run: Run, to: Run) -> None:
        if to is not run:
            to.baton.release()
            run.baton.acquire()
        if self.error is not None or run.dead:
            raise Killed

    def _pass_on(self, run: Run) -> None:
        others = [r for r in self.runs if not r.finished]
        if not others:
            self._over.release()
            return
        if self.error is not None:
            others[0].baton.release()
            return
        try:
            ready = [r for r in others if r.dead or r.wake_at <= self.fleet.clock]
            if not ready:
                first = min(others, key=lambda r: r.wake_at)
                self.fleet.advance(first.wake_at)
                ready = [first]
        except BaseException as exc:
            self.error = exc
            ready = others
        ready[0].baton.release()

    def _hook(self, run: Run, what: str) -> None:
        """Before each read and write of a run."""
        if run.dead or self.error is not None:
            raise Killed
        self.steps += 1
        self.log.append(f"{self.fleet.clock:.2f} {run.name}-{run.lives} {what}")
        if self.steps > 60000:
            raise Broken(f"{run.name} turns in circles at {what}")
        run.wake_at = self.fleet.clock
        self.fleet.advance(self.fleet.clock + 0.005)
        while self.gap >= 0:
            if self.gap > 0:
                self.gap -= 1
                break
            _gap, event, arg = self.plan.pop()
            self.gap = self.plan[-1][0] if self.plan else -1
            self.log.append(f"{self.fleet.clock:.2f} {run.name} EVENT {event} {arg}")
            getattr(self, "do_" + event)(run, arg)
            if self.gap == 0 and event == "switch":
                break
        if run.dead:
            raise Killed
        if what == f"read {run.node}":
            self.read_at[run.node] = self.fleet.clock

    # What the plan can do

    def do_switch(self, run: Run, arg: int) -> None:
        run.wake_at = self.fleet.clock
        self._switch(run, arg)

    def do_kill(self, run: Run, arg: int) -> None:
        victim = self.runs[arg % len(self.runs)] if arg else run
        if not victim.finished:
            self._kill(victim)

    def _kill(self, run: Run) -> None:
        run.dead = True
        if self.locks.get(run.node) is run:
            self.locks[run.node] = None

    def do_holder(self, _run: Run, arg: int) -> None:
        """A holder dies: before its job it never begins, later the hypervisor carries on."""
        move = self._pick(list(self.fleet.moves.values()), arg)
        if move is not None:
            move.held = False
            if move.stage is Stage.STARTING:
                del self.fleet.moves[move.vm]

    def do_unreach(self, _run: Run, arg: int) -> None:
        self._fault()
        machine = self._machine(arg)
        machine.reachable = False
        self.fleet.at(self.fleet.clock + 3 + arg % 50, lambda: setattr(machine, "reachable", True))

    def do_crash(self, _run: Run, arg: int) -> None:
        self._fault()
        machine = self._machine(arg)
        for run in self.runs:
            if run.node == machine.name and not run.finished:
                self._kill(run)
        self.fleet.crash(machine.name, 5 + arg % 30)
        self.excused |= self.fleet.killed
        self.check()

    def do_stop(self, _run: Run, arg: int, vanish: bool = False) -> None:
        """A guest ends by itself, or somebody destroys and undefines it."""
        found = [
            (m.name, u)
            for m in self.fleet.machines.values()
            for u, d in m.domains.items()
            if d.state is State.RUNNING
        ]
        place = self._pick(sorted(found), arg)
        if place is not None:
            self.excused.add(place[1])
            self.fleet.power_off(*place, vanish=vanish)
            self.check()

    def do_vanish(self, run: Run, arg: int) -> None:
        self.do_stop(run, arg, vanish=True)

    def do_cordon(self, _run: Run, arg: int) -> None:
        self._machine(arg).cordons.add("a person")

    def uncordon_what_people_cordoned(self) -> None:
        """Where theirs was the only cordon the node takes VMs again, drained or not."""
        for machine in self.fleet.machines.values():
            machine.cordons.discard("a person")
            if not machine.cordons:
                self.drained.pop(machine.name, None)

    def do_steal(self, _run: Run, arg: int) -> None:
        """Somebody migrates a VM without asking us, where there is room for all of ours too."""
        found = sorted(
            (u, m.name)
            for m in self.fleet.machines.values()
            for u, d in m.domains.items()
            if d.state is State.RUNNING and u not in self.fleet.moves
        )
        place = self._pick(found, arg)
        if place is None:
            return
        uuid, source = place
        memory = self.fleet.machines[source].domains[uuid].spec.memory_mib
        for machine in sorted(self.fleet.machines.values(), key=lambda m: m.name):
            spoken = sum(c.memory_mib for c in machine.claims.values()) + self.active(machine)
            free = machine.capacity_mib - machine.reserve_mib - spoken
            if machine.name != source and free >= memory + 4096 and not machine.cordons:
                move = Move(uuid, source, machine.name, 0, MigrationSettings(), Fate())
                move.held = move.ours = move.asked = False
                self.stolen.add(uuid)
                self.fleet.migrate(move)
                return

    def _machine(self, arg: int) -> Machine:
        return self.fleet.machines[sorted(self.fleet.machines)[arg % len(self.fleet.machines)]]

    @staticmethod
    def _pick(found: list, arg: int):
        return found[arg % len(found)] if found else None

    def _fault(self) -> None:
        self.last_fault = self.fleet.clock + 60.0

    def heal(self) -> None:
        """Everything that was broken works again, and nothing breaks any more."""
        self.plan, self.gap = [], -1
        self.fleet.fate = lambda _vm, _attempt: Fate()
        self.fleet.advance(self.fleet.clock + 100.0)
        for machine in self.fleet.machines.values():
            machine.reachable = True
        for move in self.fleet.moves.values():
            move.fate = Fate(post_copy=move.fate.post_copy, heals_after=0.0)
        for machine in self.fleet.machines.values():
            for domain in machine.domains.values():
                if domain.shutdown_takes is None:
                    domain.shutdown_takes = 2.0

    # The observer. It reads the fleet alone, never what a run says.

    @staticmethod
    def active(machine: Machine) -> int:
        return sum(d.spec.memory_mib for d in machine.domains.values() if d.active)

    def where(self, uuid: str) -> list[str]:
        return [
            f"{d.state.value} on {m.name}"
            for m in self.fleet.machines.values()
            for u, d in m.domains.items()
            if u == uuid
        ]

    def _runs(self, move: Move) -> bool:
        domain = self.fleet.machines[move.source].domains.get(move.vm)
        return domain is not None and domain.active

    def _watch(self, action: Action):
        """Before an act is carried out."""
        if action.do is Do.MIGRATE:
            move = self.fleet.moves.get(action.vm)
            if move is not None and move.asked:
                raise Broken(f"a second migration of {action.name}")
        if action.do in STOPS:
            spec = self.fleet.machines[action.node].domains.get(action.vm)
            if spec is not None and not spec.spec.labels.get("may_stop"):
                raise Broken(f"{action.name} is stopped, which nothing allows")
            self.stopped.add(action.vm)

    def check(self) -> None:
        """After every change."""
        fleet, limits = self.fleet, self.policy.limits
        places: dict[str, list[str]] = {}
        for machine in fleet.machines.values():
            for uuid, domain in machine.domains.items():
                if domain.state in EXECUTES:
                    places.setdefault(uuid, []).append(machine.name)
                move = fleet.moves.get(uuid)
                asked = move is not None and move.asked
                if domain.state is State.INCOMING and asked and self.drained.get(machine.name):
                    raise Broken(f"{uuid} comes to {machine.name}, which is drained")
            if self.active(machine) > machine.capacity_mib - machine.reserve_mib:
                raise Broken(f"{machine.name} is over its capacity")
        for uuid, hosts in places.items():
            if len(hosts) > 1:
                raise Broken(f"{uuid} runs on {hosts}")
        # An order for a VM that was stopped meanwhile fails as soon as it begins.
        ours = [m for m in fleet.moves.values() if m.asked and self._runs(m)]
        if len(ours) > limits.cluster:
            raise Broken(f"{len(ours)} migrations in the cluster")
        for name in fleet.machines:
            if sum(1 for m in ours if m.source == name) > limits.outbound:
                raise Broken(f"too many migrations from {name}")
            if sum(1 for m in ours if m.target == name) > limits.inbound:
                raise Broken(f"too many migrations to {name}")
        lost = self.names - self.excused - fleet.killed - self.stopped - set(places)
        for uuid in lost:
            states = [m.domains[uuid].state for m in fleet.machines.values() if uuid in m.domains]
            if uuid in self.home and not any(s.value not in ("shutoff",) for s in states):
                raise Broken(f"{uuid} is lost: {self.where(uuid)}")

    def _said(self, run: Run, outcome: Slice) -> None:
        """A run has ended: is it true what it says?"""
        machine = self.fleet.machines[run.node]
        certified = outcome.certificate is not None
        if certified != (outcome.phase is NodePhase.DRAINED):
            raise Broken(f"{run.node} is {outcome.phase} and certificate={certified}")
        self.drained[run.node] = outcome.phase is NodePhase.DRAINED
        if outcome.phase is NodePhase.DRAINED:
            late = {m.vm for m in self.fleet.moves.values() if self._came_too_late(m)}
            left = [u for u, d in machine.domains.items() if d.active and u not in late]
            moving = [
                m
                for m in self.fleet.moves.values()
                if run.node in (m.source, m.target)
                and (m.asked or m.stage is not Stage.STARTING)
                and m.vm not in late
            ]
            seen = {u for u, node in self.home.items() if node == run.node}
            unsaid = seen - set(outcome.record.vms) - self.excused
            if left or moving or unsaid:
                raise Broken(f"{run.node} is said to be drained: {left} {moving} {unsaid}")
            for uuid in outcome.record.vms:
                runs = any(
                    m.domains[uuid].active
                    for m in self.fleet.machines.values()
                    if uuid in m.domains
                )
                known = uuid in self.stopped | self.excused or uuid not in self.home
                if not runs and not known:
                    raise Broken(f"{uuid} is not accounted for: {self.where(uuid)}")
        if outcome.phase is NodePhase.BLOCKED:
            told = outcome.findings or any(
                e.reason for e in outcome.record.vms.values() if e.ending in ("blocked", "lost")
            )
            skipped = any(e.ending == "skipped" for e in outcome.record.vms.values())
            if not (told or skipped):
                raise Broken(f"{run.node} is blocked without a reason: {describe(outcome)}")

    def _came_too_late(self, move: Move) -> bool:
        """Somebody's migration that began after the last read of its target: who reboots the
        node takes the certificate again, and nobody could know of it before."""
        read_at = self.read_at.get(move.target, 0.0)
        return not move.asked and move.stage is not Stage.STARTING and move.since > read_at

    def nothing_of_ours(self, node: str) -> list[str]:
        """What is left of us on a node whose maintenance is over, and of its VMs."""
        machine = self.fleet.machines[node]
        left = []
        if OURS in machine.cordons:
            left.append("the cordon")
        if machine.record is not None:
            left.append("the record")
        for other in self.fleet.machines.values():
            left += [f"claim {c}" for c in other.claims.values() if c.owner == node]
            left += [f"slot {s}" for s in other.slots if s[1] == node]
        left += [f"mark on {u}" for u, d in machine.domains.items() if d.marked]
        for uuid, home in self.home.items():
            if home == node and uuid not in self.excused | self.fleet.killed:
                places = [
                    (m.name, m.domains[uuid])
                    for m in self.fleet.machines.values()
                    if uuid in m.domains
                ]
                runs = [d for _name, d in places if d.active]
                persistent, autostart = self.before[uuid]
                if len(runs) != 1:
                    left.append(f"{uuid} is {self.where(uuid)}")
                elif runs[0].persistent != persistent:
                    left.append(f"{uuid} persistent={runs[0].persistent}")
                elif persistent and runs[0].autostart != autostart and uuid not in self.stolen:
                    left.append(f"{uuid} autostart={runs[0].autostart}")
        return left


def describe(outcome: Slice) -> str:
    vms = [f"{e.name}:{e.ending or 'pending'}/{e.reason}" for e in outcome.record.vms.values()]
    doing = [f"{a.do.value} {a.name}" for a in outcome.decision.actions]
    found = [f"{f.reason.value} {f.message}" for f in outcome.findings]
    return f"{outcome.phase.value} {vms} {doing} {found}"


def vm(number: int, node: str, memory: int = 1024, **more) -> Domain:
    """A domain that runs. `may_stop`: a rule of the test allows to stop it."""
    may_stop = more.pop("may_stop", False)
    spec_words = ("declared_strategy", "migratable", "findings", "refused_by", "group", "document")
    spec = {k: more.pop(k) for k in spec_words if k in more}
    uuid = f"u{number}"
    return Domain(
        VM(
            uuid,
            f"vm{number}",
            node,
            memory_mib=memory,
            labels={"may_stop": "yes"} if may_stop else {},
            **spec,
        ),
        **more,
    )


def fleet(vms: list[tuple[str, Domain]], capacity: dict[str, int], link: float = 400.0) -> Fleet:
    made = Fleet([Machine(name, mib, link=link) for name, mib in capacity.items()])
    for node, domain in vms:
        made.machines[node].domains[domain.spec.uuid] = domain
    return made
