"""The hosts and the guests of a run: which host is off, which one dies, which are drained.

host-a is off from the start: one of the three hosts that count the fleet's slots. With two of
those gone nothing may begin to migrate, so the host that dies is none of them. That is host-d: it
is drained itself and target of another drain at that moment, and its link is so narrow that what
writes much never ends to migrate.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lab import GuestSpec, Lab

OFF, DIES = "host-a", "host-d"
DEAD = (OFF, DIES)
MBIT = 24.0
# More than three MiB/s, what 24 Mbit/s carry, over and over.
WRITES = {"dirty_mib_s": 8, "dirty_region_mib": 32}
# Network of the guest that can only go to host-d, and, when that is dead, to the fullest host.
PAIR, ELSEWHERE = "pair", "host-f"


@dataclass(frozen=True)
class Scene:
    """`first` is drained while host-d dies, `then` begin after that. `guests`: (host, guest)."""

    hosts: int
    first: str
    then: Sequence[str]
    guests: Sequence[tuple[str, GuestSpec]]

    @property
    def drained(self) -> list[str]:
        return [self.first, *self.then]

    @property
    def homes(self) -> dict[str, str]:
        """Guest -> the host that it runs on at first."""
        return {spec.name: host for host, spec in self.guests}

    @property
    def doomed(self) -> dict[str, str]:
        """Those that die with their host."""
        return {name: host for name, host in self.homes.items() if host in DEAD}


# Migrates to host-d when that dies.
STUCK = ("host-b", GuestSpec("stuck", memory_mib=160, networks=[PAIR], **WRITES))
# Migrates from host-d when that dies.
LEAVING = (DIES, GuestSpec("leaving", memory_mib=256, **WRITES))
# Off with its host before anything begins.
OLD = (OFF, GuestSpec("old"))
# So much memory that host-d is chosen before its host.
BIG = (ELSEWHERE, GuestSpec("big", memory_mib=1024))

LARGE = Scene(
    24,
    "host-b",
    ("host-c", "host-e"),
    (
        OLD,
        LEAVING,
        STUCK,
        BIG,
        (DIES, GuestSpec("staying", fill_mib=32)),
        ("host-b", GuestSpec("shared-b", disks=[("shared", 16)], dirty_mib_s=1)),
        ("host-c", GuestSpec("local-c", disks=[("local", 16)], autostart=True)),
        ("host-c", GuestSpec("idle-c")),
        ("host-e", GuestSpec("shared-e", disks=[("shared", 16)])),
        ("host-e", GuestSpec("fleeting-e", persistent=False)),
        ("host-x", GuestSpec("bystander", disks=[("shared", 16)])),
    ),
)
SMALL = Scene(
    6, "host-b", ("host-c",), (LEAVING, STUCK, BIG, ("host-c", GuestSpec("shared-c", disks=[("shared", 16)])))
)


def start(lab: Lab, scene: Scene) -> None:
    """All guests run and tick, then the first host is switched off."""
    for host in dict.fromkeys((STUCK[0], DIES, ELSEWHERE)):
        lab.host(host).add_network(PAIR)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: lab.run(*one), scene.guests))
    lab.wait_ticking(list(scene.homes))
    lab.shape(DIES, MBIT)
    lab.kill(OFF)
