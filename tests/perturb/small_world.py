"""make small-world: two hosts, two VMs, one owner, one controller, one kill, one change of mind; each interleaving.

A state is the fleet, the record on it, and what the process of a run remembers. From each state that is reached: the
run makes one step, or is killed before one of the writes of its step; time goes by until something happens; an owner
or a controller acts; a person commands the other thing. Of each state it is proven that the same command, given again,
ends: Drained, restored, or Blocked with a reason that has a remedy, and that after the remedy it is Drained or
restored. Two states are one if they differ in times alone, and these fall in the same steps (`AGES`).

perturb/small_world.py [--states N] [--depth D]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, Slice, SliceEnd
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import start
from fleetsim.fleet import Fleet
from fleetsim.machines import Domain, Fate, Machine
from fleetsim.platform import ModelPlatform
from perturb import others
from perturb.judge import OURS, digest
from perturb.play import Killed, Request, release_left
from perturb.scenarios import POLICY
from perturb.watch import ACTIVE, EXECUTES

AGES = (1.0, 5.0, 15.0, 40.0, 200.0)  # s: older than this, or not yet
OWNER = ("owner_starts", "owner_stops", "owner_deletes", "owner_sets_autostart", "owner_pauses", "owner_migrates")
CONTROLLER = ("cordons", "uncordons", "evicts", "reboots")
AGAIN = 6  # how often a command is given again; from the second time on after the remedy
_TIMES = ("started", "stop_started", "stop_sent", "stop_asked", "waiting_since", "calm_since", "unread_since")
_TIMES += ("refused_since", "ended_at", "detaching_since")
_NOT_STATE = ("wall", "started_wall", "blocked", "off_since", "on_since", "owner_asked", "seconds", "processed", "runs")


class Violation(Exception):
    """What must never be."""


def _fate(_vm: str, _attempt: int) -> Fate:
    return Fate()


def _quiet(*_any: Any) -> None:
    return None


class Calm(ModelPlatform):
    """Reads and writes take a moment. `kill_at`: before which write its process is killed; 0: it lives."""

    kill_at, writes = 0, 0

    def __init__(self, fleet: Fleet, node: str) -> None:
        super().__init__(fleet, node)
        self.hook = self._count

    def _count(self, what: str) -> None:
        self.fleet.advance(self.fleet.clock + 0.005)
        if what.startswith("write"):
            self.writes += 1
            if self.writes == self.kill_at:
                raise Killed


@dataclass
class World:
    """One state. `left`: how often each of these may still act."""

    fleet: Fleet
    intent: str = "drained"
    begun: bool = False
    number: int = 1
    memory: tuple[Any, ...] = (None, None, {})  # what the engine remembers between two steps
    left: dict[str, int] = field(default_factory=lambda: {"owner": 1, "controller": 1, "kill": 1, "person": 1})
    path: tuple[str, ...] = ()

    def copy(self) -> World:
        return pickle.loads(pickle.dumps(self))

    def key(self) -> bytes:
        now = self.fleet.clock
        records = {
            n: _plain(json.loads(m.record), now - m.booted_at) for n, m in self.fleet.machines.items() if m.record
        }
        before, empty, refused = self.memory
        memory = (before, empty is not None, sorted((u, sorted(t)) for u, t in refused.items()))
        moves = [(u, _age(now - m.since), m.remaining > 0) for u, m in sorted(self.fleet.moves.items())]
        text = repr((digest_of(self.fleet), records, memory, moves, self.intent, self.begun, sorted(self.left.items())))
        return hashlib.blake2b(text.encode(), digest_size=12).digest()

    # One step

    def step(self, kill_at: int = 0) -> tuple[Slice | None, int]:
        """(the slice, how many writes it made); None: it was killed."""
        platform = Calm(self.fleet, "a")
        platform.kill_at = kill_at
        request = Request("a", POLICY, Intent(self.intent), f"r{self.number}", begun=self.begun)
        try:
            old = platform.load()
            if old is None and request.intent is Intent.ACTIVE:
                release_left(platform)
                self.end()
                return None, platform.writes
            engine = Engine(platform, POLICY, start(platform, request, old))
            engine._before, engine._empty, engine._refused = self.memory
            outcome = engine.step()
            if outcome.ended is SliceEnd.FINAL:
                engine._save()
        except Killed:
            self.end()
            return None, platform.writes
        self.begun = True
        self.memory = (engine._before, engine._empty, engine._refused)
        if outcome.ended is SliceEnd.FINAL:
            self.end()
        return outcome, platform.writes

    def end(self) -> None:
        self.begun, self.memory = False, (None, None, {})
        self.number = self.number % 3 + 1


def digest_of(fleet: Fleet) -> str:
    return digest(fleet, times=False)


def _age(seconds: float) -> int:
    return sum(seconds > age for age in AGES)


def _plain(value: Any, now: float) -> Any:
    """The record without what differs by itself; times as ages."""
    if isinstance(value, dict):
        found = {}
        for key, one in value.items():
            if key in _TIMES:
                found[key] = _age(now - one) if one else None
            elif key == "tries":
                found[key] = {name: (count, _age(now - when)) for name, (count, when) in one.items()}
            elif key not in _NOT_STATE:
                found[key] = _plain(one, now)
        return found
    return [_plain(one, now) for one in value] if isinstance(value, list) else value


def first() -> World:
    machines = [Machine("a", 16384, link=400.0), Machine("b", 16384, link=400.0)]
    live = VM("u1", "vm1", "a", memory_mib=1024)
    stop = VM("u2", "vm2", "a", memory_mib=1024, declared_strategy="None")
    machines[0].domains = {"u1": Domain(live, autostart=True), "u2": Domain(stop, autostart=True)}
    fleet = Fleet(machines)
    fleet.fate, fleet.on_change = _fate, _quiet
    return World(fleet)


def following(world: World) -> Iterator[World]:
    """All states that may come next."""
    done = world.copy()
    _outcome, writes = done.step()
    yield named(done, "step")
    if world.left["kill"]:
        for at in range(1, writes + 1):
            killed = spent(world, "kill")
            killed.step(at)
            yield named(killed, f"killed before write {at}")
    until = world.fleet.next_event()
    if until < float("inf"):
        later = world.copy()
        later.fleet.advance(until + 0.001)
        yield named(later, "time")
    for who, acts in (("owner", OWNER), ("controller", CONTROLLER)):
        for act in acts if world.left[who] else ():
            for subject in ("a", "b") if act in ("cordons", "uncordons", "reboots") else ("u1", "u2"):
                acted = spent(world, who)
                try:
                    others.act(acted.fleet, act, subject)
                except others.Nothing:
                    continue
                if act == "reboots" and subject == "a":
                    acted.end()
                yield named(acted, f"{act} {subject}")
    if world.left["person"]:
        turned = spent(world, "person")
        turned.end()
        turned.intent = "active" if world.intent == "drained" else "drained"
        yield named(turned, turned.intent)


def spent(world: World, who: str) -> World:
    new = world.copy()
    new.left[who] -= 1
    return new


def named(world: World, what: str) -> World:
    world.path = (*world.path, what)
    return world


# What is proven


def check(world: World) -> None:
    """At this moment."""
    places = [u for m in world.fleet.machines.values() for u, d in m.domains.items() if d.state.value in EXECUTES]
    if len(places) != len(set(places)):
        raise Violation(f"runs twice: {places}")


def ends(world: World, proven: set[bytes]) -> None:
    """The same command again leads to an end. `proven`: states of which that is known."""
    world, path = world.copy(), []
    world.left = dict.fromkeys(world.left, 0)
    said: list[Slice] = []
    for again in range(AGAIN):
        outcome = _to_the_end(world, proven, path)
        if outcome is None or outcome.phase.value in ("Drained", "Active"):
            if outcome is not None:
                _nothing_left(world, outcome)
            break
        said.append(outcome)
        if outcome.phase.value != "Blocked":
            raise Violation(f"ended as {outcome.phase.value}")
        if again:
            follow_remedies(world, outcome)
    else:
        raise Violation(f"Blocked for ever: {[(e.name, e.ending, e.reason) for e in said[-1].record.vms.values()]}")
    proven.update(path)


def _to_the_end(world: World, proven: set[bytes], path: list[bytes]) -> Slice | None:
    """None: the rest is known, or there was nothing to restore."""
    for _step in range(600):
        key = world.key()
        if key in proven:
            return None
        path.append(key)
        outcome, _writes = world.step()
        check(world)
        if outcome is None:
            return None
        if outcome.ended is SliceEnd.FINAL:
            return outcome
        if not outcome.decision.read_again:
            until = min(world.fleet.clock + 4.0, world.fleet.next_event())
            world.fleet.advance(max(until, world.fleet.clock) + 0.001)
    raise Violation("endless")


def _nothing_left(world: World, outcome: Slice) -> None:
    own = world.fleet.machines["a"]
    if outcome.phase.value == "Drained":
        if outcome.certificate is None or any(d.state.value in ACTIVE for d in own.domains.values()):
            raise Violation("false certificate")
    elif own.record is not None or OURS in own.cordons:
        raise Violation("left behind: record or cordon")
    if any(
        owner == "a" and uuid not in world.fleet.moves
        for m in world.fleet.machines.values()
        for uuid, owner in m.claims
    ):
        raise Violation("left behind: claim")


def follow_remedies(world: World, outcome: Slice) -> None:
    """What the remedy of each VM's reason says, as a person would do it."""
    for entry in outcome.record.vms.values():
        if entry.ending not in ("blocked", "lost"):
            continue
        found = entry.finding
        if found is None or not found.to_dict(Platform.LIBVIRT)["remedy"]:
            raise Violation(f"{entry.name} is {entry.ending} without a remedy")
        if found.reason.value == "NoTargetWithCapacity":  # "uncordon a target"
            world.fleet.machines["b"].cordons.discard("a person")
            continue
        domains = [(n, m.domains[entry.uuid]) for n, m in world.fleet.machines.items() if entry.uuid in m.domains]
        for _name, domain in domains:
            if domain.state is State.PAUSED:
                domain.state = State.RUNNING
        if not domains:  # defined again
            spec = replace(first().fleet.machines["a"].domains[entry.uuid].spec)
            world.fleet.machines["a"].domains[entry.uuid] = Domain(spec, autostart=entry.autostart)
        elif not any(domain.active for _name, domain in domains):
            domains[0][1].state = State.RUNNING
            domains[0][1].instance += "r"


def explore(states: int, depth: int) -> tuple[int, int, list[tuple[tuple[str, ...], str]]]:
    """(how many states, how deep, what is violated and how it was reached). Breadth first."""
    start_world = first()
    seen, proven = {start_world.key()}, set()
    queue, deepest, wrong = deque([start_world]), 0, []
    while queue and len(seen) < states:
        world = queue.popleft()
        if len(world.path) >= depth:
            continue
        for new in following(world):
            key = new.key()
            if key in seen:
                continue
            seen.add(key)
            deepest = max(deepest, len(new.path))
            try:
                check(new)
                ends(new, proven)
            except Violation as exc:
                wrong.append((new.path, str(exc)))
            queue.append(new)
    return len(seen), deepest, wrong


def last_line(states: int, depth: int, wrong: int) -> str:
    return f"small-world: states={states} depth={depth} violations={wrong}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=1_000_000)
    parser.add_argument("--depth", type=int, default=1000)
    options = parser.parse_args()
    began = time.monotonic()
    states, depth, wrong = explore(options.states, options.depth)
    found: dict[str, list[tuple[str, ...]]] = {}
    for path, text in wrong:
        found.setdefault(text, []).append(path)
    for text, paths in found.items():
        print(f"{text}\n    {len(paths)} times, as {'; '.join(paths[0])}")
    print(f"{time.monotonic() - began:.0f} s")
    print(last_line(states, depth, len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
