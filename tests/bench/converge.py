"""Are guests that do not converge recognised, and the others left alone? A fleet of seeded guests in memory.

Each guest is migrated twice in a model of QEMU's pre-copy: once with nobody looking, which tells whether it converges
within its completion timeout, and once with the core's deadlines, which may switch it to post-copy. What QEMU measures
is given to them as the holder has it. An oracle that knows the future would switch at once who does not converge.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from ansible_collections.virtops.maintenance.plugins.module_utils._core.link.converge import Look
from ansible_collections.virtops.maintenance.plugins.module_utils._core.link.deadline import DeadlineAction, Deadlines
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Mode
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.job import LARGE, MEASURED_OVER

MIB = 1 << 20
STEP = 0.05  # s of the model
LOOK = 0.2  # s between two looks
PAUSE = 0.3  # s that QEMU allows
RECOGNISED = 20.0  # s with the link
MOST_INTERFERED, MOST_MISSED = 0.02, 0.05
KINDS = ("steady", "bursty", "phases", "growing", "idle")
SETTINGS = MigrationSettings(post_copy=True, on_timeout="post_copy")


@dataclass(frozen=True)
class Guest:
    """MiB and MiB/s. `writes`, `set`: at a second of the migration. `known`: measured before, 0: not. `over`: measured
    over its first ten seconds."""

    kind: str
    size: float
    link: float
    writes: Callable[[float], float]
    set: Callable[[float], float]
    known: float
    over: float = 0.0

    @property
    def most(self) -> float:
        """Seconds that it may take."""
        return SETTINGS.completion_timeout_per_gib * math.ceil(self.size / 1024)


def _behaviour(kind: str, rng: random.Random, size: float, link: float) -> tuple[Callable[[float], float], ...]:
    rate, part = link * math.exp(rng.uniform(math.log(0.05), math.log(3))), size * rng.uniform(0.02, 0.9)
    if kind == "steady":
        return (lambda _t: rate), (lambda _t: part)
    if kind in ("bursty", "phases"):
        on, off = (rng.uniform(2, 20), rng.uniform(1, 10)) if kind == "bursty" else (rng.uniform(20, 90), 40.0)
        fast, slow = link * rng.uniform(0.8, 3), link * rng.uniform(0, 0.3)
        before = rng.uniform(0, on + off)
        return (lambda t: fast if (t + before) % (on + off) < on else slow), (lambda _t: part)
    if kind == "growing":
        before = rng.uniform(0, 120)
        return (lambda _t: rate), (lambda t: size * min(0.9, 0.02 + 0.88 * max(0.0, t + before) / 120))
    fast, ends = link * rng.uniform(1.1, 3), rng.uniform(50, 70)
    return (lambda t: fast if t < ends else 0.02 * link), (lambda _t: part)


def fleet(count: int, seed: int) -> Iterator[Guest]:
    rng = random.Random(seed)
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        size = 2 ** rng.uniform(8, 13)
        link = rng.choice((47.0, 110.0, 500.0, 1100.0))
        writes, part = _behaviour(kind, rng, size, link)
        # As the holder does: measured for a second every few seconds while it waits for the link, and over its first
        # ten seconds. One that does not wait has a second's measurement alone if it is small.
        waits = number % 4 != 0
        looks = (-6.0, -3.0) if waits else (-1.0,) if size >= LARGE else (0.0,)
        known = max(part(t) * (1 - math.exp(-writes(t) / part(t))) for t in looks)
        over = _written(writes, part, MEASURED_OVER) / MEASURED_OVER if waits or size >= LARGE else 0.0
        yield Guest(kind, size, link, writes, part, known, over)


def _written(writes: Callable[[float], float], part: Callable[[float], float], seconds: float) -> float:
    """MiB that differ after so many seconds."""
    dirty = 0.0
    for step in range(round(seconds / STEP)):
        now = step * STEP
        dirty += max(0.0, writes(now) * (1 - dirty / max(part(now), 1.0))) * STEP
    return dirty


def watch(guest: Guest, settings: MigrationSettings = SETTINGS) -> Deadlines:
    """What the holder has of it as it begins."""
    deadlines = Deadlines(settings, int(guest.size * MIB))
    if guest.known:
        deadlines.note_writes(guest.known * MIB, 1.0)
    return deadlines


@dataclass
class End:
    """of the model: did it come to its end in pre-copy, when; what was said and done at which second."""

    converged: bool
    seconds: float
    said: float = math.inf
    acted: float = math.inf


def migrate(guest: Guest, watched: Deadlines | None = None, pause: float = PAUSE) -> End:
    """QEMU's pre-copy: what remains is sent; what is written meanwhile counts when little remains."""
    now, remains, dirty, passes, looked = 0.0, guest.size, 0.0, 1, 0.0
    small = pause * guest.link
    end = End(False, guest.most)
    while now < guest.most:
        now += STEP
        remains -= guest.link * STEP
        part = max(guest.set(now), 1.0)
        dirty += max(0.0, guest.writes(now) * (1 - dirty / part)) * STEP
        if remains <= small:
            left = max(0.0, remains)
            # What was not sent yet is, as of the second pass, of the same set, and may have been written again.
            known = min(1.0, left / part) if passes > 1 else 0.0
            remains, dirty, passes = left + dirty * (1 - known), 0.0, passes + 1
            if remains <= small:
                end.converged, end.seconds = True, now
                return end
        if watched is not None and now - looked >= LOOK:
            looked = now
            if guest.over and now > MEASURED_OVER + 1:
                watched.note_writes(guest.over * MIB, MEASURED_OVER)
            verdict = watched.step(
                now, True, Look(passes, int(remains * MIB), int(now * guest.link * MIB)), Mode.PRE_COPY
            )
            if verdict.action is DeadlineAction.DOWNTIME:
                small = verdict.forecast.allowed * guest.link
            if verdict.forecast.converges is False:
                end.said = min(end.said, now)
            if verdict.action is DeadlineAction.POST_COPY:
                end.acted = end.seconds = now
                return end
    return end


Ends = list[tuple[Guest, End, End]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--guests", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 13)), help="one fleet each")
    given = parser.parse_args()
    with ProcessPoolExecutor() as pool:
        fleets = list(pool.map(_line_of, given.seeds, [given.guests] * len(given.seeds)))
    for seed, (lines, _rates) in zip(given.seeds, fleets, strict=True):
        print(*[f"seed {seed}: {text}" for text in lines], sep="\n")
    interfered, missed, lost = (max(rates[place] for _lines, rates in fleets) for place in range(3))
    print(
        f"bench-converge: guests={given.guests} interfered={interfered:.3f} missed={missed:.3f}"
        f" lost_vs_oracle={lost:.0f}s worst of seeds={len(given.seeds)}"
    )
    return 0 if interfered <= MOST_INTERFERED and missed <= MOST_MISSED else 1


def _line_of(seed: int, guests: int) -> tuple[list[str], tuple[float, float, float]]:
    """Of one fleet: a line for each kind of guest and for all, and what the last one says."""
    told: dict[str, Ends] = {kind: [] for kind in KINDS}
    for guest in fleet(guests, seed):
        told[guest.kind].append((guest, migrate(guest), migrate(guest, watch(guest))))
    every = [one for ends in told.values() for one in ends]
    return [line(name, ends) for name, ends in (*told.items(), ("all", every))], rates_of(every)


def rates_of(ends: Ends) -> tuple[float, float, float]:
    """Interfered with, missed, seconds lost."""
    would = [(free, seen) for _guest, free, seen in ends if free.converged]
    never = [seen for _guest, free, seen in ends if not free.converged]
    interfered = sum(seen.acted < free.seconds for free, seen in would) / max(1, len(would))
    missed = sum(seen.said > RECOGNISED for seen in never) / max(1, len(never))
    return interfered, missed, sum(seen.seconds for seen in never) / max(1, len(never))


def line(name: str, ends: Ends) -> str:
    interfered, missed, lost = rates_of(ends)
    would = [(free, seen) for _guest, free, seen in ends if free.converged]
    doubted = sum(seen.said < free.seconds for free, seen in would) / max(1, len(would))
    return (
        f"{name:<8} converge={len(would)} never={len(ends) - len(would)} interfered={interfered:.3f}"
        f" missed={missed:.3f} lost_vs_oracle={lost:.0f}s doubted={doubted:.3f}"
    )


if __name__ == "__main__":
    sys.exit(main())
