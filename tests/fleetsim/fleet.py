"""A fleet of hosts on a virtual clock: what happens to VMs, links and hosts as time goes by.

The ground truth of the model. It does what hypervisors do and enforces nothing of ours: it
fills a host too far or starts a VM twice when it is told to, so that a test can see it.
MiB, MiB/s, seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    Job,
    Mode,
    Outcome,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason

from .machines import Domain, Fate, Machine, Move, Stage

MIB = 1024 * 1024
_SETTLED = 1e-6


class Fleet:
    """All hosts, all migrations, one clock.

    `start_delay`, `switch_time`, `abort_takes`: how long a migration takes to begin, to switch over, and to end.
    """

    def __init__(self, machines: list[Machine], start_delay: float = 0.2) -> None:
        self.machines = {m.name: m for m in machines}
        self.clock = 1000.0
        self.moves: dict[str, Move] = {}
        self.start_delay = start_delay
        self.switch_time = 0.1
        self.abort_takes = 0.0
        self.fate: Callable[[str, int], Fate] = lambda _vm, _attempt: Fate()
        self.killed: set[str] = set()  # VMs that ended by what happens, not by what we do
        self.on_change: Callable[[], None] = lambda: None
        self._later: list[tuple[float, Callable[[], None]]] = []

    # Time

    def at(self, time: float, what: Callable[[], None]) -> None:
        """Do `what` when the clock gets to `time`."""
        self._later.append((time, what))

    def advance(self, until: float) -> None:
        """Let time go by, and all that falls due with it."""
        while True:
            time = min(until, self.next_event())
            self._copy(max(0.0, time - self.clock))
            self.clock = max(self.clock, time)
            if not self._fire() and self.clock >= until:
                return

    def next_event(self) -> float:
        """When something happens by itself next."""
        times = [time for time, _what in self._later]
        rates = self._rates()
        for move in self.moves.values():
            times.append(self._due(move, rates[move.vm]))
        for machine in self.machines.values():
            for domain in machine.domains.values():
                times += [t for t in (domain.off_at, domain.save_begins, domain.save_ends) if t]
        return min(times, default=float("inf"))

    def _rates(self) -> dict[str, float]:
        """MiB/s of each migration: a link is shared evenly."""
        out: dict[str, int] = {}
        into: dict[str, int] = {}
        copying = [m for m in self.moves.values() if m.stage in (Stage.PRECOPY, Stage.POSTCOPY)]
        for move in copying:
            out[move.source] = out.get(move.source, 0) + 1
            into[move.target] = into.get(move.target, 0) + 1
        rates = dict.fromkeys(self.moves, 0.0)
        for move in copying:
            if move.fate.hang:
                continue
            source, target = self.machines[move.source], self.machines[move.target]
            rate = min(source.link / out[move.source], target.link / into[move.target])
            if move.settings.bandwidth_mib and move.stage is Stage.PRECOPY:
                rate = min(rate, move.settings.bandwidth_mib)
            rates[move.vm] = rate
        return rates

    def _speed(self, move: Move, rate: float) -> float:
        """How fast what remains becomes less."""
        if move.stage is Stage.POSTCOPY:
            return rate
        return max(0.0, rate - self._domain(move).dirty)

    def _domain(self, move: Move) -> Domain:
        return self.machines[move.source].domains[move.vm]

    def _stop_at(self, move: Move) -> float:
        """What remains when the next thing happens to it."""
        if move.stage is Stage.PRECOPY and move.fate.fail_at is not None:
            return move.total * (1 - move.fate.fail_at)
        if move.stage is Stage.PRECOPY and move.fate.post_copy:
            return move.total / 2
        if move.stage is Stage.POSTCOPY and move.fate.breaks:
            return move.total / 4
        return 0.0

    def _due(self, move: Move, rate: float) -> float:
        if move.stage is Stage.STARTING:
            return move.since + self.start_delay
        if move.stage is Stage.SWITCHING:
            return move.since + self.switch_time
        if move.stage is Stage.BROKEN:
            heals = move.fate.heals_after
            return float("inf") if heals is None else move.since + heals
        due = float("inf")
        speed = self._speed(move, rate)
        if speed > 0:
            due = self.clock + max(0.0, move.remaining - self._stop_at(move)) / speed
        return min(due, self._deadline(move))

    def _deadline(self, move: Move) -> float:
        """The holder's, in pre-copy only."""
        if not move.held or move.stage is not Stage.PRECOPY:
            return float("inf")
        limit = move.settings.completion_timeout_per_gib * max(1.0, move.total / 1024)
        if move.fate.hang:
            limit = min(limit, move.settings.progress_timeout)
        return move.since + limit

    def _copy(self, seconds: float) -> None:
        if seconds > 0 and self.moves:
            rates = self._rates()
            for move in self.moves.values():
                if move.stage in (Stage.PRECOPY, Stage.POSTCOPY):
                    done = self._speed(move, rates[move.vm]) * seconds
                    move.remaining = max(0.0, move.remaining - done)

    def _fire(self) -> bool:
        """Everything that is due now. False: nothing was."""
        fired = False
        for entry in sorted((e for e in self._later if e[0] <= self.clock), key=lambda e: e[0]):
            self._later.remove(entry)
            entry[1]()
            fired = True
        for machine in self.machines.values():
            for uuid, domain in list(machine.domains.items()):
                if domain.save_begins is not None and domain.save_begins <= self.clock:
                    self._begin_save(machine, uuid, domain)
                    fired = True
                elif domain.save_ends is not None and domain.save_ends <= self.clock:
                    self._end_save(machine, uuid, domain)
                    fired = True
                elif domain.off_at is not None and domain.off_at <= self.clock:
                    self.power_off(machine.name, uuid)
                    fired = True
        rates = self._rates()
        for move in list(self.moves.values()):
            if self._due(move, rates[move.vm]) <= self.clock + _SETTLED:
                self._next_stage(move)
                fired = True
        if fired:
            self.on_change()
        return fired

    # Migrations

    def _next_stage(self, move: Move) -> None:
        if move.stage is Stage.STARTING:
            self._start(move)
        elif move.stage is Stage.SWITCHING and not move.fate.left_paused:
            self._complete(move)
        elif move.stage is Stage.BROKEN:
            self._enter(move, Stage.POSTCOPY)
            move.fate = replace(move.fate, breaks=False)
        elif move.remaining - self._stop_at(move) > _SETTLED:
            self._timed_out(move)
        elif move.stage is Stage.POSTCOPY:
            if move.fate.breaks:
                self._enter(move, Stage.BROKEN)
            else:
                self._complete(move)
        elif move.fate.fail_at is not None or move.stage is Stage.SWITCHING:
            move.suspended = move.deaf = move.fate.left_paused
            self.fail(move, Finding(Reason.MigrationFailed, "the model says so"))
        elif move.fate.post_copy:
            self._enter(move, Stage.POSTCOPY)
        else:
            self._enter(move, Stage.SWITCHING)

    def _timed_out(self, move: Move) -> None:
        """The holder's deadline: it does what the VM's policy says."""
        if move.settings.on_timeout == "post_copy":
            move.fate = replace(move.fate, hang=False)
            self._enter(move, Stage.POSTCOPY)
        elif move.settings.on_timeout == "pause" and not move.fate.hang:
            self._enter(move, Stage.SWITCHING)
        else:
            reason = Reason.ProgressTimeout if move.fate.hang else Reason.CompletionTimeout
            self.fail(move, Finding(reason))

    def _enter(self, move: Move, stage: Stage) -> None:
        move.stage, move.since = stage, self.clock
        here = self.machines[move.source].domains[move.vm]
        there = self.machines[move.target].domains[move.vm]
        if stage is Stage.POSTCOPY:
            move.mode = Mode.POST_COPY
            here.state, there.state = State.POSTCOPY_SOURCE, State.POSTCOPY
        elif stage is Stage.BROKEN:
            here.state = there.state = State.POSTCOPY_FAILED
        elif stage is Stage.SWITCHING:
            here.state = State.PAUSED

    def _start(self, move: Move) -> None:
        """The hypervisor's own checks, and no more than those."""
        source, target = self.machines[move.source], self.machines[move.target]
        here, there = source.domains.get(move.vm), target.domains.get(move.vm)
        if here is None or here.state is not State.RUNNING:
            self._end(move, Finding(Reason.MigrationFailed, "the domain is not running"))
            return
        if not target.up or not target.reachable or (there is not None and there.active):
            self._end(move, Finding(Reason.MigrationFailed, f"{move.target} does not take it"))
            return
        if move.target in move.fate.refused_by:
            self._end(move, Finding(move.fate.refusal, f"refused for {move.target}"))
            return
        move.stage, move.since = Stage.PRECOPY, self.clock
        move.total = move.remaining = float(max(1, here.spec.memory_mib))
        arriving = replace(here, state=State.INCOMING, persistent=False, autostart=False)
        arriving.save_begins = None
        if there is not None:
            arriving.persistent, arriving.autostart = True, there.autostart
        target.domains[move.vm] = arriving

    def _complete(self, move: Move) -> None:
        source, target = self.machines[move.source], self.machines[move.target]
        here, there = source.domains[move.vm], target.domains[move.vm]
        there.state, there.persistent, there.off_at, there.asked_at = State.RUNNING, here.persistent, None, None
        if move.fate.leftover and here.persistent:
            source.domains[move.vm] = replace(here, state=State.SHUTOFF, autostart=False, off_at=None)
        else:
            del source.domains[move.vm]
        self._end(move, None)

    def fail(self, move: Move, finding: Finding) -> None:
        """It ends in pre-copy: the VM runs on at its source."""
        here = self.machines[move.source].domains.get(move.vm)
        resumed = not move.suspended or (move.held and move.ours and not move.deaf)
        if here is not None and here.state is State.PAUSED and resumed:
            here.state = State.RUNNING
        there = self.machines[move.target].domains.get(move.vm)
        if there is not None and there.state is State.INCOMING:
            if there.persistent:
                there.state = State.SHUTOFF
            else:
                del self.machines[move.target].domains[move.vm]
        self._end(move, finding)

    def _end(self, move: Move, finding: Finding | None) -> None:
        del self.moves[move.vm]
        if not (move.held and move.ours):
            return
        self.machines[move.source].outcomes[move.vm, move.attempt, move.run_id] = Outcome(
            vm=move.vm,
            attempt=move.attempt,
            ok=finding is None,
            finding=finding,
            target=move.target,
            mode=move.mode,
            processed=int(move.total * MIB),
            seconds=self.clock - move.since,
            paused=move.suspended and move.deaf and finding is not None,
            at=move.target if finding is None else move.source,
        )

    def job(self, uuid: str, node: str) -> Job | None:
        """The outgoing job of a VM, as its source tells it."""
        domain = self.machines[node].domains.get(uuid)
        if domain is not None and domain.save_ends is not None:
            return Job(outgoing=False, saving=True)
        if domain is not None and domain.save_begins is not None:
            return Job(outgoing=False, queued=True)
        move = self.moves.get(uuid)
        if move is None or move.source != node or move.stage is Stage.STARTING:
            return None
        return Job(
            mode=move.mode,
            elapsed=self.clock - move.since,
            processed=int((move.total - move.remaining) * MIB),
            total=int(move.total * MIB),
            remaining=int(move.remaining * MIB),
            rate=int(self._rates()[uuid] * MIB),
            dirty_rate=int(self._domain(move).dirty * MIB),
        )

    def migrate(self, move: Move) -> bool:
        """False: it has a migration already."""
        if move.vm in self.moves:
            return False
        move.since = self.clock
        self.moves[move.vm] = move
        return True

    def abort(self, uuid: str) -> bool:
        """True: it ends, if it does not arrive before. False: it is too far for that."""
        move = self.moves.get(uuid)
        if move is None:
            return True
        if move.stage not in (Stage.STARTING, Stage.PRECOPY):
            return False
        if self.abort_takes:
            self.at(self.clock + self.abort_takes, partial(self._aborted, move))
        else:
            self._aborted(move)
        return True

    def _aborted(self, move: Move) -> None:
        if self.moves.get(move.vm) is move and move.stage in (Stage.STARTING, Stage.PRECOPY):
            self.fail(move, Finding(Reason.AbortRequested))

    # What happens to VMs and hosts

    def save(self, node: str, uuid: str) -> None:
        """It waits its turn, then stands still while its memory goes to disk; then it is off."""
        machine = self.machines[node]
        domain = machine.domains[uuid]
        machine.stop_errors.pop(uuid, None)
        if domain.save_ends is None and domain.save_begins is None:
            domain.save_begins = self.clock + domain.save_waits
            if not domain.save_waits:
                self._begin_save(machine, uuid, domain)

    def _begin_save(self, machine: Machine, uuid: str, domain: Domain) -> None:
        domain.save_begins = None
        if domain.state is not State.RUNNING or uuid in self.moves:
            return
        domain.state, domain.save_ends = State.PAUSED, self.clock + domain.save_takes
        if not domain.save_takes:
            self._end_save(machine, uuid, domain)

    def _end_save(self, machine: Machine, uuid: str, domain: Domain) -> None:
        domain.save_ends = None
        if domain.save_fails:
            domain.state = State.RUNNING
            machine.stop_errors[uuid] = Finding(Reason.StopFailed, "save: the disk is full")
            return
        domain.managed_save = True
        self.power_off(machine.name, uuid)

    def power_off(self, node: str, uuid: str, vanish: bool = False) -> None:
        """The VM stops on this host; a transient one is gone, and so is one that vanishes."""
        machine = self.machines[node]
        move = self.moves.get(uuid)
        if move is not None and move.source == node:
            if move.stage in (Stage.POSTCOPY, Stage.BROKEN):
                return  # it executes on the other side
            self.fail(move, Finding(Reason.MigrationFailed, "the domain stopped"))
        domain = machine.domains[uuid]
        domain.off_at = domain.save_begins = domain.save_ends = domain.asked_at = None
        if domain.persistent and not vanish:
            domain.state = State.SHUTOFF
        else:
            del machine.domains[uuid]

    def crash(self, node: str, down_for: float) -> None:
        """The host loses power: everything on it ends. It boots after that time."""
        machine = self.machines[node]
        if not machine.up:
            return
        machine.up = False
        for move in [m for m in self.moves.values() if node in (m.source, m.target)]:
            self._crash_move(move, node)
        for uuid, domain in list(machine.domains.items()):
            if domain.active:
                self.killed.add(uuid)
                self.power_off(node, uuid)
        self.at(self.clock + down_for, lambda: self._boot(machine))

    def _crash_move(self, move: Move, node: str) -> None:
        if move.stage in (Stage.POSTCOPY, Stage.BROKEN):
            self.killed.add(move.vm)  # half of its memory is gone
            other = move.target if node == move.source else move.source
            del self.moves[move.vm]
            for name in (node, other):
                self.power_off(name, move.vm)
            return
        if node == move.source:
            move.held = False
        self.fail(move, Finding(Reason.MigrationFailed, f"{node} is gone"))

    def _boot(self, machine: Machine) -> None:
        machine.up, machine.booted_at = True, self.clock
        machine.boot += 1
        for domain in machine.domains.values():
            if domain.autostart and domain.persistent:
                domain.state = State.RUNNING
