"""Several runs at once on one model fleet, interleaved as a plan says, watched by an observer.

Each run is a thread, and exactly one of them works at a time: at every read and write of its
platform the plan may let another one go on, break something, or kill one. Nothing sleeps.
"""

from __future__ import annotations

import threading

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    Limits,
    MigrationSettings,
    Policy,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, SliceEnd
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.faults import Faults, Run, shut
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.observer import (
    Broken,
    Observer,
    describe,
)
from fleetsim.fleet import Fleet
from fleetsim.machines import Domain, Machine
from fleetsim.platform import ModelPlatform

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


class World(Faults, Observer):
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
        self.home = {u: m.name for m in fleet.machines.values() for u, d in m.domains.items() if d.active}
        self.before = {u: (d.persistent, d.autostart) for m in fleet.machines.values() for u, d in m.domains.items()}
        self.asleep = {  # VMs that their owners had paused before
            u for m in fleet.machines.values() for u, d in m.domains.items() if d.state is State.PAUSED
        }
        self.excused: set[str] = set()  # VMs that others stopped
        self.stolen: set[str] = set()  # VMs that others migrated, and lost their autostart
        self.read_at: dict[str, float] = {}  # when a run last read its own node
        self.log: list[str] = []
        self._over = shut()
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
            if outcome.ended is SliceEnd.FINAL:
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


def vm(number: int, node: str, memory: int = 1024, **more) -> Domain:
    """A domain that runs. `may_stop`: a rule of the test allows to stop it."""
    may_stop = more.pop("may_stop", False)
    spec_words = ("declared_strategy", "migratable", "findings", "refused_by", "group", "document", "stopping")
    spec = {k: more.pop(k) for k in spec_words if k in more}
    uuid = f"u{number}"
    return Domain(
        VM(uuid, f"vm{number}", node, memory_mib=memory, labels={"may_stop": "yes"} if may_stop else {}, **spec), **more
    )


def fleet(vms: list[tuple[str, Domain]], capacity: dict[str, int], link: float = 400.0) -> Fleet:
    made = Fleet([Machine(name, mib, link=link) for name, mib in capacity.items()])
    for node, domain in vms:
        made.machines[node].domains[domain.spec.uuid] = domain
    return made
