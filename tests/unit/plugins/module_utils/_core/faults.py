"""What the plan of a model world can do: kill, break, steal."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Slice
from fleetsim.fleet import Fleet
from fleetsim.machines import Fate, Machine, Move, Stage


def shut() -> threading.Lock:
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
    baton: threading.Lock = field(default_factory=shut)


class Faults:
    """Events of a plan; `World` has the runs and the fleet."""

    fleet: Fleet
    runs: list[Run]

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

    def do_pause(self, _run: Run, arg: int) -> None:
        """A holder suspends a VM, that it converges, and dies; perhaps the migration fails then.
        Whoever watches it from then on resumes the VM, or cannot."""
        found = [m for m in self.fleet.moves.values() if m.stage is Stage.PRECOPY and m.held and m.ours and m.asked]
        move = self._pick(found, arg)
        if move is not None:
            move.suspended, move.held, move.deaf = True, False, bool(arg % 2)
            self.fleet.machines[move.source].domains[move.vm].state = State.PAUSED
            if arg % 3 == 0:
                self.fleet.fail(move, Finding(Reason.MigrationFailed))

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
            (m.name, u) for m in self.fleet.machines.values() for u, d in m.domains.items() if d.state is State.RUNNING
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

    def do_single(self, run: Run, arg: int) -> None:
        """As `do_steal`, by the holder: the run of one VM has a record and a claim of its own."""
        self.do_steal(run, arg, held=True)

    def do_steal(self, _run: Run, arg: int, held: bool = False) -> None:
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
                move = Move(uuid, source, machine.name, 1, MigrationSettings(), Fate(), asked=False)
                move.held = move.ours = held
                move.run_id = "single" if held else ""
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
