# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Draining a host of 12 guests: our loop against virsh loops, side by side in one run.

Directions alternate and guests are kept. Medians of three rounds. A peer that has not ended
after 120 s is cut, once, and out of the running. After the first round only the xargs widths
within five percent of the best one go on; the others keep their one figure.

    libvirt_drain.py [SCENARIO ...]    idle hard mixed main (all by default)
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from lab.fleet import Lab  # noqa: E402
from lab.guest import GuestSpec  # noqa: E402

NAME = "bench"
ROUNDS = 3
CUT_SECONDS = 120.0
LINK_MBIT = 400.0
MIB = 1024 * 1024
NEAR_BEST = 1.05


@dataclass
class Scenario:
    """`widths`: of xargs. `serial`: with the loop. `mbit`: None is not shaped."""

    name: str
    guests: list[GuestSpec]
    widths: tuple[int, ...]
    serial: bool
    mbit: float | None


@dataclass
class Figures:
    """Seconds of each client, one a round; bytes over the link; those that were cut."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    sent: dict[str, list[int]] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)

    def add(self, client: str, seconds: float, sent: int) -> None:
        self.seconds.setdefault(client, []).append(seconds)
        self.sent.setdefault(client, []).append(sent)
        print(f"  {client:<8} {seconds:7.1f} s  {sent / MIB:7.0f} MiB", flush=True)

    def median(self, client: str) -> float:
        return statistics.median(self.seconds[client])

    def best_xargs(self) -> tuple[str, float]:
        done = [c for c in self.seconds if c.startswith("xargs") and c not in self.cut]
        best = min(done, key=self.median)
        return best, self.median(best)


def scenarios() -> list[Scenario]:
    def many(count: int, **spec: object) -> list[GuestSpec]:
        return [GuestSpec(name=f"g{i:02}", **spec) for i in range(count)]  # type: ignore[arg-type]

    big = GuestSpec(name="big", memory_mib=1024, fill_mib=580, dirty_mib_s=20, dirty_region_mib=20)
    dirtying = [
        GuestSpec(name=f"d{i}", memory_mib=256, fill_mib=112, dirty_mib_s=4) for i in range(3)
    ]
    return [
        Scenario("idle", many(12, memory_mib=96, fill_mib=16), (2, 4, 12), True, None),
        Scenario(
            "hard",
            many(12, memory_mib=256, fill_mib=72, dirty_mib_s=12, dirty_region_mib=24),
            (2, 4, 6),
            False,
            LINK_MBIT,
        ),
        Scenario(
            "mixed", [big, *many(11, memory_mib=256, fill_mib=128)], (2, 4, 12), False, LINK_MBIT
        ),
        Scenario(
            "main", [*dirtying, *many(9, memory_mib=256, fill_mib=128)], (2, 4, 12), True, LINK_MBIT
        ),
    ]


class Bench:
    """One scenario on two hosts."""

    def __init__(self, lab: Lab, scenario: Scenario) -> None:
        self.lab = lab
        self.scenario = scenario
        self.here, self.there = "host-a", "host-b"
        self.figures = Figures()

    def prepare(self) -> None:
        for guest in self.scenario.guests:
            self.lab.run(self.here, guest)
        self.lab.wait_ticking([g.name for g in self.scenario.guests], 180)
        for host in (self.here, self.there):
            if self.scenario.mbit:
                self.lab.shape(host, self.scenario.mbit)
            else:
                self.lab.unshape(host)

    def clean(self) -> None:
        for guest in self.scenario.guests:
            self.lab.remove_guest(guest.name)

    def _sent(self) -> int:
        text = self.lab.host(self.here).exec("cat /sys/class/net/eth0/statistics/tx_bytes").stdout
        return int(text)

    def settle(self) -> None:
        """Until every guest has filled its memory and ticks where it is."""
        self.lab.wait_ticking([g.name for g in self.scenario.guests], 120)

    def timed(self, client: str, act: Callable[[], float]) -> None:
        self.settle()
        before = self._sent()
        seconds = act()
        self.figures.add(client, seconds, self._sent() - before)
        self.here, self.there = self.there, self.here

    def engine(self) -> float:
        command = ["/usr/bin/python3", str(ROOT / "tests/bench/engine.py"),
                   str(ROOT / "build/collections"), self.here, self.there, "12"]  # fmt: skip
        done = self.lab.host(self.here).exec(command, timeout=900)
        result = json.loads(done.stdout.strip().splitlines()[-1])
        if result["phase"] != "Drained":
            raise SystemExit(f"bench-libvirt: the engine ended {result['phase']}: {done.stdout}")
        return float(result["seconds"])

    def virsh(self, width: int) -> Callable[[], float]:
        """A loop (width 1) or xargs -P. The wall time of the whole command on the host."""
        migrate = (
            "virsh -q -c qemu:///system migrate --live --p2p --persistent --undefinesource "
            f"--domain {{}} --desturi qemu+tls://{self.there}/system"
        )
        listing = "virsh -q -c qemu:///system list --name | grep ."

        def act() -> float:
            begun = time.monotonic()
            command = f"{listing} | timeout {CUT_SECONDS:.0f} xargs -P {width} -I{{}} {migrate}"
            done = self.lab.host(self.here).exec(command, check=False, timeout=300)
            seconds = time.monotonic() - begun
            if done.returncode != 0:
                self._after_cut(f"xargs-P{width}", done.stderr)
            return seconds

        return act

    def _after_cut(self, client: str, text: str) -> None:
        """End what the client left behind, then bring the rest over, not timed."""
        self.figures.cut.append(client)
        print(f"  {client} did not end in {CUT_SECONDS:.0f} s: {text.strip()[:160]}", flush=True)
        host = self.lab.host(self.here)
        host.exec("pkill -x virsh; true", check=False)
        for name in host.virsh("list", "--name").split():
            host.virsh("domjobabort", name, check=False)
        deadline = time.monotonic() + 60
        while (
            "Outgoing"
            in host.exec(
                "for d in $(virsh -q list --name); do virsh domjobinfo $d; done", check=False
            ).stdout
            and time.monotonic() < deadline
        ):
            time.sleep(0.5)
        self.engine()

    def run(self) -> Figures:
        print(f"{self.scenario.name}: {len(self.scenario.guests)} guests", flush=True)
        self.prepare()
        widths = list(self.scenario.widths)
        for number in range(ROUNDS):
            self.timed("engine", self.engine)
            if self.scenario.serial:
                self.timed("loop", self.virsh(1))
            for width in widths:
                self.timed(f"xargs-P{width}", self.virsh(width))
            if number == 0:
                best = self.figures.best_xargs()[1]
                widths = [
                    w
                    for w in widths
                    if f"xargs-P{w}" not in self.figures.cut
                    and self.figures.median(f"xargs-P{w}") <= best * NEAR_BEST
                ]
        if self.scenario.name == "main":
            self.playbook()
        self.clean()
        return self.figures

    def playbook(self) -> None:
        """Wall time of the playbook for the same drain."""
        self.settle()
        begun = time.monotonic()
        inventory = self.lab.paths.state / "inventory.yml"

        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build/collections"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        command = ["ansible-playbook", "-i", str(inventory), "virtops.maintenance.drain", "-e"]
        limits = {"cluster": 12, "outbound": 12, "inbound": 12}
        extra = {
            "maintenance_hosts": self.here,
            "maintenance_fleet": [self.here, self.there],
            "drain_limits": limits,
        }
        subprocess.run([*command, json.dumps(extra)], check=True, env=environment, cwd=ROOT)
        self.figures.add("playbook", time.monotonic() - begun, 0)


def line(name: str, figures: Figures) -> str:
    engine = figures.median("engine")
    best_name, best = figures.best_xargs()
    print(f"  best xargs: {best_name} {best:.1f} s, engine {engine:.1f} s (medians)")
    ratio = f"engine_vs_best_xargs={engine / best:.2f}"
    if name == "idle":
        return f"bench-libvirt-idle: engine_vs_serial={engine / figures.median('loop'):.2f} {ratio}"
    if name == "hard":
        widths = [c for c in figures.seconds if c.startswith("xargs")]
        converged = ",".join(c.removeprefix("xargs-") for c in widths if c not in figures.cut)
        return f"bench-libvirt-hard: {ratio} xargs_converged={converged}"
    if name == "mixed":
        return f"bench-libvirt-mixed: {ratio}"
    fewest = min(min(sent) for client, sent in figures.sent.items() if client != "playbook")
    link = fewest / (LINK_MBIT * 1e6 / 8)
    overhead = figures.median("playbook") - engine
    serial = engine / figures.median("loop")
    return (
        f"bench-libvirt: engine_vs_serial={serial:.2f} {ratio} "
        f"engine_vs_link={engine / link:.2f} playbook_overhead_s={overhead:.1f}"
    )


def main() -> int:
    wanted = sys.argv[1:]
    chosen = [s for s in scenarios() if not wanted or s.name in wanted]
    memory = {"host-a": 20000, "host-b": 20000}
    Lab.down(NAME)
    lab = Lab.up(NAME, hosts=2, memory=memory)
    lines = []
    try:
        for scenario in chosen:
            begun = time.monotonic()
            figures = Bench(lab, scenario).run()
            lines.append(line(scenario.name, figures))
            print(f"  {lines[-1]}  ({time.monotonic() - begun:.0f} s)", flush=True)
    finally:
        Lab.down(NAME)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
