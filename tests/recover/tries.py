"""Seeded tries on the bed (see bed): a host dies or is cut off, commands are given, and things go wrong at any moment.

tries.py [COUNT [FIRST]]     prints each try that went wrong, with its seed
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import RecordError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import RollUnreadable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable
from recover import bed, judge

# How its agent is, most often as it should be; see bed.agent.
AGENTS = ("", "", "", "lies", "hangs", "dies", "leaves_on")
REFUSED = (PolicyError, RecordError, RollUnreadable, HostUnreachable)


class Try:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = bed.World("bcde"[: self.rng.randint(2, 4)], guarded=self.rng.random() < 0.7)
        self.found_dead, self.lived = "", False  # when a run found it dead, and whether one saw it alive since
        self.deep = 0  # runs within runs
        for number in range(self.rng.randint(1, 4)):
            self.world.vm(f"vm{number}", autostart=self.rng.random() < 0.6, active=self.rng.random() < 0.9)

    def run(self) -> list[judge.Event]:
        world, rng = self.world, self.rng
        with bed.below(world):
            world.protect()
            if rng.random() < 0.6:
                world.cut_power()
            else:
                world.net.discard(bed.DEAD)
            for _command in range(rng.randint(2, 5)):
                for _trouble in range(rng.randint(0, 2)):
                    world.moments[world.moment + rng.randint(1, 40)] = self.trouble()
                self.command()
                if rng.random() < 0.3:
                    with suppress(bed.Killed):
                        self.trouble()()
            world.moments.clear()
            for name in world.names:  # all is repaired, and the command given until it is done
                world.power_on(name)
                world.net.add(name)
            for _again in range(3):
                self.command()
            self.by_hand()
        return world.log

    def command(self) -> None:
        rng, about = self.rng, dict[str, Any]()
        way = rng.choice(("agent", "agent", "nothing", "person"))
        if way == "agent":
            about["agent"] = bed.agent(self.world, rng.choice(AGENTS))
        if way == "person" and self.found_dead:
            if rng.random() < 0.5:
                self.world.cut_power()  # he saw to it; else he may be mistaken
            if not self.lived:  # else his word is an old one, from the history of a shell
                self.world.log.append(("read as off", bed.DEAD, "a person"))
            about["confirm"] = f"{rng.choice((bed.DEAD, bed.DEAD, 'b'))}@{self.found_dead}"
        if rng.random() < 0.4:
            about["seconds"] = 0.0
        if not set(self.world.names[1:]) & self.world.net:
            return  # nobody is there to be asked
        with suppress(bed.Killed, *REFUSED):
            result = bed.recover(self.world, by=rng.choice(self.world.names[1:]), **about)
            if result["found_dead"] not in ("", self.found_dead):
                self.found_dead, self.lived = result["found_dead"], False
            self.lived = self.lived or result["phase"] in ("Alive", "Returned", "Stopped")

    def trouble(self) -> Callable[[], object]:
        world, rng = self.world, self.rng
        peer = rng.choice(world.names[1:])
        return rng.choice(
            (
                self.killed,
                world.power_on,
                lambda: world.net.add(bed.DEAD),
                self.cut_off,
                self.other_run,
                self.by_hand,
                lambda: world.net.symmetric_difference_update({peer}),
                lambda: world.faults.update({(peer, "start"): rng.choice(("lost", "no memory", ""))}),
            )
        )

    def cut_off(self) -> None:
        """Not one that was switched on in the middle of a command, which nobody could see: for that see test_fleet."""
        events = [event for event in self.world.log if event[1] == bed.DEAD and event[0] in ("power on", "last look")]
        if not events or events[-1][0] != "power on":
            self.world.net.discard(bed.DEAD)

    def killed(self) -> None:
        raise bed.Killed

    def other_run(self) -> None:
        if self.deep < 2:
            self.deep += 1
            with suppress(bed.Killed):
                self.command()
            self.deep -= 1

    def by_hand(self) -> None:
        """A person on the host starts what is defined there, if its guard lets him."""
        world = self.world
        for name, dom in list(world.domains[bed.DEAD].items()) if bed.DEAD in world.power and world.guarded else ():
            if not dom.active and world.ask_guard(name):
                dom.run()


def tries(count: int, first: int = 0) -> tuple[int, int]:
    """(VMs started without a proof, VMs that ran twice)"""
    unproven = double = 0
    for seed in range(first, first + count):
        log = Try(seed).run()
        without, twice = judge.without_proof(log, bed.DEAD), judge.twice(log)
        if without or twice:
            print(f"WRONG: try {seed}: without a proof {without}, twice {twice}")
        unproven, double = unproven + len(without), double + len(twice)
    return unproven, double


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]]
    without, twice = tries(*(words or [50]))
    print(f"started_without_proof={without} twice={twice}")
