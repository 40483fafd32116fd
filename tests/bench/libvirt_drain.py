"""Draining a host of 12 guests: our loop against virsh loops, side by side in one run.

Directions alternate and guests are kept. Medians of three rounds. To save time only the xargs width
that was best in the first round is run again: the others have one figure, not a median, and the
output says so. A figure of theirs counts all the same, if it is the best.

A client that has not ended after 120 s is cut; one whose virsh fails has failed. Either is run
once, its time counts nowhere, and what it left is brought over untimed.

xargs runs with 2, 4 and 12 at once; but with 2, 4 and 6 where all guests dirty memory fast (hard).
There the share of the link that each one gets decides whether it converges at all. Where one width
is cut, a wider one, which shares the link thinner still, is not run.

Each figure comes with the processors' time that the machine spent meanwhile, guests and all.

    libvirt_drain.py [SCENARIO ...]    idle idle-one-core hard mixed main (all by default)
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from bench import ping  # noqa: E402
from bench.one_core import one_core  # noqa: E402

from lab.fleet import Lab  # noqa: E402
from lab.guest import GuestSpec  # noqa: E402
from lab.procs import interruptible  # noqa: E402

NAME = "bench"
ONE_CORE = "idle-one-core"
ROUNDS = 3
CUT_SECONDS = 120.0
LINK_MBIT = 400.0
MIB = 1024 * 1024
TIMED_OUT = 124  # of timeout(1); xargs ends with 123 when a command of its failed


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
    """Seconds of each client, one a round; bytes over the link.

    `cut`: not over in time. `failed`: over, but a migration failed. Neither has figures.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    sent: dict[str, list[int]] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    ping_s: float = 0.0

    def out(self, client: str) -> bool:
        """Is it out of the running?"""
        return client in self.cut or client in self.failed

    def put_out(self, client: str, why: list[str]) -> None:
        """`why`: `cut` or `failed`. What it did in earlier rounds counts no more."""
        why.append(client)
        self.seconds.pop(client, None)
        self.sent.pop(client, None)

    def add(self, client: str, seconds: float, sent: int, busy: float) -> None:
        """`busy`: seconds of all processors."""
        self.seconds.setdefault(client, []).append(seconds)
        self.sent.setdefault(client, []).append(sent)
        print(
            f"  {client:<8} {seconds:7.1f} s  {sent / MIB:7.0f} MiB  {busy / seconds:.1f} of "
            f"{os.cpu_count()} processors busy",
            flush=True,
        )

    def median(self, client: str) -> float:
        return statistics.median(self.seconds[client])

    def best_xargs(self) -> tuple[str, float] | None:
        """Name and median of the fastest; None: none came to its end."""
        done = [c for c in self.seconds if c.startswith("xargs")]
        best = min(done, key=self.median, default=None)
        return None if best is None else (best, self.median(best))

    def ratio(self, client: str | None) -> str:
        """The engine's median to that client's; "-": the client has none."""
        if client is None or client not in self.seconds:
            return "-"
        return f"{self.median('engine') / self.median(client):.2f}"


def scenarios() -> list[Scenario]:
    def many(count: int, **spec: object) -> list[GuestSpec]:
        return [GuestSpec(name=f"g{i:02}", **spec) for i in range(count)]  # type: ignore[arg-type]

    big = GuestSpec(name="big", memory_mib=1024, fill_mib=580, dirty_mib_s=20, dirty_region_mib=20)
    dirtying = [GuestSpec(name=f"d{i}", memory_mib=256, fill_mib=112, dirty_mib_s=4) for i in range(3)]
    return [
        Scenario("idle", many(12, memory_mib=96, fill_mib=16), (2, 4, 12), True, None),
        Scenario(ONE_CORE, many(12, memory_mib=96, fill_mib=16), (1, 2, 4), False, None),
        Scenario(
            "hard",
            many(12, memory_mib=256, fill_mib=72, dirty_mib_s=12, dirty_region_mib=24),
            (2, 4, 6),
            False,
            LINK_MBIT,
        ),
        Scenario("mixed", [big, *many(11, memory_mib=256, fill_mib=128)], (2, 4, 12), False, LINK_MBIT),
        Scenario("main", [*dirtying, *many(9, memory_mib=256, fill_mib=128)], (2, 4, 12), True, LINK_MBIT),
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
        self.lab.wait_ticking([g.name for g in self.scenario.guests])
        self.shape(self.scenario.mbit)

    def shape(self, mbit: float | None) -> None:
        """Both links; None takes the limit away."""
        for host in (self.here, self.there):
            if mbit:
                self.lab.shape(host, mbit)
            else:
                self.lab.unshape(host)

    def clean(self) -> None:
        for guest in self.scenario.guests:
            self.lab.remove_guest(guest.name)

    def _sent(self) -> int:
        text = self.lab.host(self.here).exec("cat /sys/class/net/eth0/statistics/tx_bytes").stdout
        return int(text)

    @staticmethod
    def _busy() -> float:
        """Seconds of all processors since the machine's start, see proc_stat(5)."""
        user, nice, system, _idle, _iowait, irq, softirq, *_rest = map(
            int, Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
        )
        return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")

    def settle(self) -> None:
        """Until every guest has filled its memory and ticks where it is."""
        self.lab.wait_ticking([g.name for g in self.scenario.guests])

    def timed(self, client: str, act: Callable[[], float]) -> None:
        self.settle()
        before, busy = self._sent(), self._busy()
        seconds = act()
        if not self.figures.out(client):
            self.figures.add(client, seconds, self._sent() - before, self._busy() - busy)
        self.here, self.there = self.there, self.here

    def engine(self) -> float:
        command = ["/usr/bin/python3", str(ROOT / "tests/bench/engine.py"),
                   str(ROOT / "build/collections"), self.here, self.there, "12,12,12"]  # fmt: skip
        done = self.lab.host(self.here).exec(command, timeout=900)
        result = json.loads(done.stdout.strip().splitlines()[-1])
        if result["phase"] != "Drained":
            raise SystemExit(f"bench-libvirt: the engine ended {result['phase']}: {done.stdout}")
        again = f", {result['attempts']} attempts" if result["attempts"] > len(self.scenario.guests) else ""
        known = [pause for pause in result["pauses"] if pause is not None]
        unknown = "" if len(known) == len(result["pauses"]) else ", some not known"
        print(f"  engine: longest pause {max(known)} ms{unknown}{again}", flush=True)
        return float(result["seconds"])

    def virsh(self, client: str, width: int) -> Callable[[], float]:
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
                self._out(client, done.returncode, done.stderr)
            return seconds

        return act

    def _out(self, client: str, code: int, text: str) -> None:
        """It is out: end what the client left behind, then bring the rest over, not timed."""
        if code == TIMED_OUT:
            self.figures.put_out(client, self.figures.cut)
            print(f"  {client:<8} cut: not over after {CUT_SECONDS:.0f} s", flush=True)
        else:
            self.figures.put_out(client, self.figures.failed)
            print(f"  {client:<8} FAILED with {code}: {text.strip()[:400]}", flush=True)
        host = self.lab.host(self.here)
        host.exec("pkill -x virsh; true", check=False)
        for name in host.virsh("list", "--name").split():
            host.virsh("domjobabort", name, check=False)
        deadline = time.monotonic() + 60
        while (
            "Outgoing"
            in host.exec("for d in $(virsh -q list --name); do virsh domjobinfo $d; done", check=False).stdout
            and time.monotonic() < deadline
        ):
            time.sleep(0.5)
        self.shape(None)
        self.engine()
        self.shape(self.scenario.mbit)

    def run(self) -> Figures:
        print(f"{self.scenario.name}: {len(self.scenario.guests)} guests", flush=True)
        self.prepare()
        widths = list(self.scenario.widths)
        for number in range(ROUNDS):
            self.timed("engine", self.engine)
            if self.scenario.serial:
                self.loop()
            self.xargs(widths)
            if number == 0:
                widths = self.best(widths)
            else:
                widths = [w for w in widths if not self.figures.out(f"xargs-P{w}")]
            if self.scenario.name == "main":
                self.timed("playbook", self.playbook)
        if self.scenario.name == "main":
            with tempfile.TemporaryDirectory() as folder:
                self.figures.ping_s = ping.seconds("all", Path(folder), lambda playbook: self.play(str(playbook)))
        self.clean()
        return self.figures

    def loop(self) -> None:
        """One migration after another, unless that came to no end before."""
        if not self.figures.out("loop"):
            self.timed("loop", self.virsh("loop", 1))

    def xargs(self, widths: list[int]) -> None:
        """Each of the widths, the narrow ones first."""
        for width in widths:
            narrower = [w for w in self.scenario.widths if w < width]
            cut = [w for w in narrower if f"xargs-P{w}" in self.figures.cut]
            if cut:
                print(f"  xargs-P{width} is not run: xargs-P{cut[0]} was cut", flush=True)
            else:
                self.timed(f"xargs-P{width}", self.virsh(f"xargs-P{width}", width))

    def best(self, widths: list[int]) -> list[int]:
        """The one that gets its other rounds; it is said of which there is one figure."""
        best = self.figures.best_xargs()
        for width in widths:
            client = f"xargs-P{width}"
            if best is not None and client in self.figures.seconds and client != best[0]:
                print(f"  {client} is not run again: {best[0]} was as quick or quicker", flush=True)
        return [w for w in widths if best is not None and f"xargs-P{w}" == best[0]]

    def playbook(self) -> float:
        """Wall time of the playbook for the same drain. The cordon is taken away after it."""
        extra = {
            "maintenance_hosts": self.here,
            "maintenance_fleet": [self.here, self.there],
            "drain_limits": {"cluster": 12, "outbound": 12, "inbound": 12},
        }

        def play(name: str) -> float:
            begun = time.monotonic()
            print(self.play(name, "-e", json.dumps(extra)), end="", flush=True)
            return time.monotonic() - begun

        seconds = play("virtops.maintenance.drain")
        play("virtops.maintenance.restore")
        return seconds

    def play(self, name: str, *words: str) -> str:
        """What a playbook prints."""
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build/collections"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        command = ["ansible-playbook", "-i", str(self.lab.paths.state / "inventory.yml"), name, *words]
        done = subprocess.run(command, check=True, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        return done.stdout


def line(name: str, figures: Figures) -> str:
    for client, seconds in figures.seconds.items():
        kind = f"median of {len(seconds)}" if len(seconds) > 1 else "one figure"
        print(f"  {client:<8} {figures.median(client):7.1f} s  ({kind})")
    best = figures.best_xargs()
    print(f"  best xargs: {best[0] if best else 'none came to its end'}")
    ratio = f"engine_vs_best_xargs={figures.ratio(best[0] if best else None)}"
    serial = f"engine_vs_serial={figures.ratio('loop')}"
    if figures.failed:
        ratio += f" failed={','.join(figures.failed)}"
    if name == "idle":
        return f"bench-libvirt-idle: {serial} {ratio}"
    if name == ONE_CORE:
        return f"bench-libvirt-{name}: {ratio}"
    if name == "hard":
        widths = [c.removeprefix("xargs-") for c in figures.seconds if c.startswith("xargs")]
        return f"bench-libvirt-hard: {ratio} xargs_converged={','.join(widths) or 'none'}"
    if name == "mixed":
        return f"bench-libvirt-mixed: {ratio}"
    fewest = min(min(sent) for sent in figures.sent.values())
    engine = figures.median("engine")
    link = fewest / (LINK_MBIT * 1e6 / 8)
    overhead = ping.multiple("playbook_overhead_s", figures.median("playbook") - engine, figures.ping_s)
    return f"bench-libvirt: {serial} {ratio} engine_vs_link={engine / link:.2f} {overhead}"


def run(chosen: list[Scenario]) -> list[str]:
    """Their last lines, of a lab of their own."""
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
    return lines


def main() -> int:
    wanted = sys.argv[1:]
    chosen = [s for s in scenarios() if not wanted or s.name in wanted]
    interruptible()
    lines = run(several) if (several := [s for s in chosen if s.name != ONE_CORE]) else []
    if any(s.name == ONE_CORE for s in chosen):
        with one_core():
            lines += run([s for s in chosen if s.name == ONE_CORE])
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
