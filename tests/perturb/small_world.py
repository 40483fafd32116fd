"""make small-world: two hosts, two VMs, one owner, one controller, one kill, one change of mind; each interleaving.

From each state that is reached (`small_state`): the run makes one step, or is killed before one of the writes of its
step, with the holder or without; time goes by; an owner or a controller acts; a person commands the other thing. Of
each state it is proven that the same command, given again, ends: Drained, restored, or Blocked with a reason that has
a remedy, and that after the remedy it is Drained or restored.

What makes it quick, and why nothing is lost by it:

- What may come next depends on the state of fleet, record and run alone, and not on who may still act. So that is
  played once for each such state, and the states that are counted (with who may still act) are walked as a graph.
- A run that comes to a state of which the same is proven is not played on. `Proofs` (in small_proof) knows how many
  commands the proof of that state took; it counts only if these, with the ones given before, are not more than `AGAIN`.
  The remedy is followed from the second command of that proof on: a person who follows it later than this run would.
- A state is counted when its own proof is done, not when it is first seen.

perturb/small_world.py [--states N] [--minutes M] [--processes P]
"""

from __future__ import annotations

import argparse
import multiprocessing
import pickle
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from fleetsim.fleet import Fleet
from perturb import others
from perturb.request import Nothing
from perturb.small_proof import WAIT, Proofs, Violation, check
from perturb.small_state import KINDS, World, first

WHO = ("owner", "controller", "kill", "person")  # each acts once
ALWAYS, EVERYBODY = "always", (1 << len(WHO)) - 1
OWNER = tuple(kind for kind in others.ON_VMS if kind.startswith("owner_"))
CONTROLLER = ("cordons", "uncordons", "evicts", "reboots")


# What may come next


def acts(world: World, who: str) -> Iterator[tuple[str, World]]:
    """What an owner, a controller or a person may do now."""
    for act in OWNER if who == "owner" else CONTROLLER if who == "controller" else ():
        for subject in ("a", "b") if act in ("cordons", "uncordons", "reboots") else ("u1", "u2"):
            acted = world.copy()
            try:
                others.act(acted.fleet, act, subject)
            except Nothing:
                continue
            if act == "reboots" and subject == "a":
                acted.end()
            yield f"{act} {subject}", acted
    if who == "person":
        turned = world.copy()
        turned.end()
        turned.intent = "active" if world.intent == "drained" else "drained"
        yield turned.intent, turned


def kills(world: World, fleets: Iterable[Fleet]) -> Iterator[tuple[str, World]]:
    """`fleets`: as they were before each write of the step."""
    for at, fleet in enumerate(fleets, 1):
        killed = world.copy(fleet)
        killed.end()
        yield f"killed before write {at}", killed
        if any(move.held and move.ours for move in fleet.moves.values()):
            with_holder = killed.copy()
            for move in [m for m in with_holder.fleet.moves.values() if m.held and m.ours]:
                move.held = False
                if move.stage.value == "starting":
                    del with_holder.fleet.moves[move.vm]
            yield f"killed with its holder before write {at}", with_holder


# All of them


@dataclass
class Next:
    """What may come after a state. `moves`: who acts -> (what, the state then). `new`: states seen for the first time
    by this process."""

    moves: dict[str, list[tuple[str, bytes]]]
    new: dict[bytes, bytes]
    wrong: str = ""


class Worker:
    """Plays. Each process has one, with proofs of its own."""

    def __init__(self) -> None:
        self.proofs, self.seen = Proofs(), set[bytes]()

    def __call__(self, task: tuple[bytes, tuple[str, ...]]) -> Next:
        world: World = pickle.loads(zlib.decompress(task[0]))
        wanted, found = task[1], Next({who: [] for who in task[1]}, {})
        fleets: list[Fleet] | None = [] if "kill" in wanted else None
        done = world.copy()
        try:
            if ALWAYS in wanted:
                check(world)
            if ALWAYS in wanted or "kill" in wanted:
                outcome = done.step(fleets)
                self._note(found, ALWAYS, "step", done)
            if ALWAYS in wanted:
                self.proofs.ends(world, (done.copy(), outcome))
        except Violation as exc:
            found.wrong = str(exc)
        except Exception as exc:  # whatever the product raises
            found.wrong = f"raised {exc!r}"
        if ALWAYS in wanted:
            later = world.copy()
            later.wait(WAIT)
            self._note(found, ALWAYS, "time", later)
        for what, killed in kills(world, fleets or ()):
            self._note(found, "kill", what, killed)
        for who in wanted:
            for what, acted in acts(world, who):
                self._note(found, who, what, acted)
        return found

    def _note(self, found: Next, who: str, what: str, world: World) -> None:
        if who not in found.moves:
            return
        key = world.key()
        found.moves[who].append((what, key))
        if key not in self.seen:
            self.seen.add(key)
            found.new[key] = packed(world)


def packed(world: World) -> bytes:
    return zlib.compress(pickle.dumps(world, 5), 1)  # a million of them have to fit into memory


_worker: Worker | None = None


def _work(task: tuple[bytes, tuple[str, ...]]) -> Next:
    global _worker
    _worker = _worker or Worker()
    return _worker(task)


def _spent(who: str) -> int:
    return 0 if who == ALWAYS else 1 << WHO.index(who)


class Small:
    """The graph. A core is a state without who may still act, by number; a state is a core and a set of those."""

    def __init__(self, play: Callable[[list[Any]], Iterable[Next]]) -> None:
        self._play = play
        self._numbers: dict[bytes, int] = {}
        self._packed: list[bytes] = []
        self._parents: list[tuple[int, str, int]] = []  # from which, by what, how deep
        self._moves: list[dict[str, tuple[int, ...]]] = []
        self._seen: set[int] = set()
        self.states = self.depth = self.cores = 0
        self.wrong: list[tuple[tuple[str, ...], str]] = []

    def begin(self, worlds: Iterable[World]) -> list[int]:
        cores = [self._number(world.key(), packed(world), -1, "+".join(world.kinds)) for world in worlds]
        self._seen.update(states := [core << len(WHO) | EVERYBODY for core in cores])
        return states

    def _number(self, key: bytes, text: bytes | None, parent: int, what: str) -> int:
        number = self._numbers.setdefault(key, len(self._packed))
        if number == len(self._packed):
            assert text is not None
            depth = self._parents[parent][2] + 1 if parent >= 0 else 0
            self._packed.append(text)
            self._parents.append((parent, sys.intern(what), depth))
            self._moves.append({})
        return number

    def path(self, core: int) -> tuple[str, ...]:
        found: list[str] = []
        while core >= 0:
            core, what, _depth = self._parents[core]
            found.append(what)
        return tuple(reversed(found))

    def alone(self, states: list[int]) -> list[int]:
        """These, and all that comes of them by itself and was not seen before. They are proven, and counted."""
        found: list[int] = []
        while states:
            following = self._walk(states, (ALWAYS,))
            self.states += len(states)
            found += states
            states = following
        return found

    def acted(self, states: list[int]) -> list[int]:
        """What comes of them by an act and was not seen before."""
        return self._walk(states, WHO)

    def _walk(self, states: list[int], by: tuple[str, ...]) -> list[int]:
        wanted: dict[int, list[str]] = {}
        for state in states:
            core = state >> len(WHO)
            acting = [who for who in by if not _spent(who) & ~state and who not in self._moves[core]]
            if acting and acting != wanted.get(core):
                wanted[core] = [who for who in by if who in acting or who in wanted.get(core, ())]
        tasks = [(self._packed[core], tuple(who)) for core, who in wanted.items()]
        for core, found in zip(wanted, self._play(tasks)):  # noqa: B905  (also on PyPy)
            for who, moves in found.moves.items():
                numbers = {self._number(key, found.new.get(key), core, what) for what, key in moves}
                self._moves[core][who] = tuple(numbers)
            if ALWAYS in found.moves:
                self.cores += 1
                self.depth = max(self.depth, self._parents[core][2])
            if found.wrong:
                self.wrong.append((self.path(core), found.wrong))
            if len(self._moves[core]) > len(WHO):
                self._packed[core] = b""
        return [
            new
            for state in states
            for who in by
            if not _spent(who) & ~state
            for new in self._new(state & EVERYBODY & ~_spent(who), self._moves[state >> len(WHO)][who])
        ]

    def _new(self, left: int, numbers: tuple[int, ...]) -> Iterator[int]:
        for number in numbers:
            new = number << len(WHO) | left
            if new not in self._seen:
                self._seen.add(new)
                yield new


def explore(
    states: int, minutes: float = 1e9, processes: int = 1, tell: Callable[[str], None] = lambda _text: None
) -> Small:
    """First all that comes by itself, then all with one act, with two, ...; each of these breadth first. Until so many
    states are proven, or so much time is over, or it is interrupted."""
    began = time.monotonic()
    pool = multiprocessing.get_context("fork").Pool(processes) if processes > 1 else None
    worker = Worker()
    small = Small((lambda tasks: pool.imap(_work, tasks, 8)) if pool else (lambda tasks: map(worker, tasks)))
    level, acts_done = small.alone(small.begin(first(*kinds) for kinds in combinations(KINDS, 2))), 0
    try:
        while level and small.states < states:
            following: list[int] = []
            for at in range(0, len(level), 20):
                following += small.alone(small.acted(level[at : at + 20]))
                spent = time.monotonic() - began
                more = f"{acts_done + 1} acts, at {at} of {len(level)}"
                tell(f"{spent:.0f} s: {last_line(small)} cores={small.cores} ({more})")
                if small.states >= states or spent > minutes * 60:
                    return small
            level, acts_done = following, acts_done + 1
    except KeyboardInterrupt:
        tell("stopped")
    finally:
        if pool is not None:
            pool.terminate()
    return small


def last_line(small: Small) -> str:
    return f"small-world: states={small.states} depth={small.depth} violations={len(small.wrong)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    small = explore(options.states, options.minutes, options.processes, lambda text: print(text, flush=True))
    found: dict[str, list[tuple[str, ...]]] = {}
    for path, text in small.wrong:
        found.setdefault(text, []).append(path)
    for text, paths in found.items():
        print(f"{text}\n    {len(paths)} times, as {'; '.join(paths[0])}")
    print(f"{small.cores} states of fleet, record and run")
    print(last_line(small))
    return 1 if small.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
