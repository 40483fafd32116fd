"""Fleets for the plan's benchmark, made from a seed. docs/benchmarks.md describes them.

Plain data only (MiB, MiB/s): the planner, the bound, FIFO and the replay share nothing else.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

GIB = 1024
LINK_25 = 25e9 / 8 / 2**20
LINK_10 = 10e9 / 8 / 2**20
NEW, OLD = (9, 1, 0), (8, 2, 0)


@dataclass
class Host:
    name: str
    capacity: int
    reserve: int
    link: float
    version: tuple[int, ...]
    in_roll: bool = True

    @property
    def usable(self) -> int:
        return self.capacity - self.reserve


@dataclass
class Guest:
    uuid: str
    host: str
    memory: int
    dirty: float = 0.0
    group: str = ""


@dataclass
class Instance:
    """`caps`: cluster, outbound, inbound. `each`: MiB/s of one migration at most, 0: no limit."""

    hosts: list[Host]
    guests: list[Guest]
    caps: tuple[int, int, int]
    each: int
    max_unavailable: int
    spare: str = "spare"
    links: dict[str, float] = field(default_factory=dict)


def make(hosts: int, guests: int, seed: int, binding: bool = False) -> Instance:
    """`guests` VMs on `hosts` hosts, and one host more that is empty and not in the roll."""
    rng = random.Random(seed)
    made = [
        Host(
            f"host-{n:04d}",
            384 * GIB,
            8 * GIB,
            LINK_10 if rng.random() < 0.15 else LINK_25,
            OLD if rng.random() < 0.3 else NEW,
        )
        for n in range(hosts)
    ]
    used = {host.name: 0 for host in made}
    found: list[Guest] = []
    for n in range(guests):
        memory = min(64, max(1, round(math.exp(rng.gauss(math.log(8), 0.8))))) * GIB
        # Spread as evenly as twenty lots: the emptiest of a few at random.
        room = [rng.choice(made) for _lot in range(4)]
        host = min(room, key=lambda h: used[h.name])
        if used[host.name] + memory > 0.85 * host.usable:
            host = min(made, key=lambda h: used[h.name])
        used[host.name] += memory
        dirty = math.exp(rng.uniform(math.log(20), math.log(300))) if rng.random() < 0.2 else 0.0
        found.append(Guest(f"vm-{n:05d}", host.name, memory, dirty))
    _group(found, rng)
    made.append(Host("spare", 384 * GIB, 8 * GIB, LINK_25, NEW, in_roll=False))
    caps = (5, 2, 2) if binding else (400, 64, 64)
    each = 512 if binding else 0
    instance = Instance(made, found, caps, each, max(1, hosts // 100))
    instance.links = {host.name: host.link for host in made}
    return instance


def _group(guests: list[Guest], rng: random.Random) -> None:
    """A fifth of the VMs are in groups of three to five, each on a host of its own."""
    loose = rng.sample(guests, len(guests) // 5)
    number = 0
    while loose:
        number += 1
        taken: set[str] = set()
        for guest in loose[: rng.randint(3, 5)]:
            if guest.host not in taken:
                guest.group = f"group-{number}"
                taken.add(guest.host)
            loose.remove(guest)
