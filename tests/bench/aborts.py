"""Seconds from the command `abort` until no migration runs, of a roll that lives.

On the simulator or the lab: three hosts, of which two are out, each with VMs whose migrations never
end by themselves. Each round begins the roll, waits until migrations run and then a seeded time,
and gives the command. The time counts from the start of ansible-playbook until the API shows no
unfinished migration and no evacuation mark, or no domain has a job. The simulator runs in real
time, in a process of its own. On the lab the migrations are held; as root.

    aborts.py [--on simulator|lab] [--count 20] [--vms 4] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from bench import ping  # noqa: E402
from demo import plays, traces  # noqa: E402

from kubesim.kinds import NODES, VMIMS  # noqa: E402
from kubesim.process import Process  # noqa: E402
from kubesim.remote import Remote  # noqa: E402
from lab import GuestSpec, Lab  # noqa: E402
from lab.procs import interruptible, wait_for  # noqa: E402

PATIENCE = 180.0
ROLL = {"maintenance_max_unavailable": 2, "maintenance_reboot": False}


class Place(Protocol):
    """Where the roll is. `out`: its hosts. The third one is a target, and no host of it."""

    out: list[str]

    def start(self, name: str, log: Path, **extra: object) -> subprocess.Popen[bytes]:
        """A playbook of the collection, or the one of this path."""

    def moving(self) -> None:
        """Waits until migrations run, which then never end."""

    def over(self) -> None:
        """Waits until none does."""

    def wrong(self) -> list[str]:
        """What is not as before the roll."""

    def tidy(self) -> None:
        """Before the next round."""


class Simulator:
    """One simulated cluster."""

    HOSTS = ("n1", "n2", "n3")
    ROLE = ROOT / "docs" / "kubevirt-clusterrole.yml"

    def __init__(self, directory: Path, remote: Remote, vms: int) -> None:
        self._directory = directory
        self.out = [*self.HOSTS[:2]]
        self._remote = remote
        self._vms = [f"{node}-{number}" for node in self.HOSTS[:2] for number in range(vms)]
        inventory = {"all": {"hosts": {name: {} for name in self.HOSTS}, "vars": {"maintenance_platform": "kubevirt"}}}
        (directory / "hosts.json").write_text(json.dumps(inventory), encoding="utf-8")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PYTHONP"))}
        self._env = {
            **clean,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
            "ANSIBLE_HOME": str(directory / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "K8S_AUTH_KUBECONFIG": str(directory / "kubeconfig-maintenance"),
        }
        migrations = {"parallelMigrationsPerCluster": 5, "parallelOutboundMigrationsPerNode": 2}
        remote.configure(migrations=migrations)
        for name in self.HOSTS:
            remote.add_node(name)
        for name in self._vms:
            remote.add_vm(name, name.partition("-")[0], migrate_seconds="100000")

    @classmethod
    @contextmanager
    def there(cls, directory: Path, vms: int) -> Iterator[Place]:
        with Process(directory, {"maintenance": cls.ROLE}) as server:
            yield cls(directory, Remote(server.kubeconfig()), vms)

    def start(self, name: str, log: Path, **extra: object) -> subprocess.Popen[bytes]:
        tool = str(Path(sys.executable).with_name("ansible-playbook"))
        playbook = name if name.startswith("/") else f"virtops.maintenance.{name}"
        words = [tool, "-i", str(self._directory / "hosts.json"), playbook]
        with open(log, "wb") as stream:
            return subprocess.Popen(
                [*words, "-e", json.dumps(extra)],
                env=self._env,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )

    def moving(self) -> None:
        self._remote.until(lambda: self._running() >= 4, PATIENCE)

    def _running(self) -> int:
        phases = [m.get("status", {}).get("phase") for m in self._remote.all(VMIMS)]
        return phases.count("Running")

    def over(self) -> None:
        self._remote.until(lambda: not self._remote.leftovers(), PATIENCE)

    def wrong(self) -> list[str]:
        moved = [name for name in self._vms if self._remote.node_of(name) != name[:2]]
        cordoned = [node["metadata"]["name"] for node in self._remote.all(NODES) if node["spec"].get("unschedulable")]
        return [*moved, *cordoned, *map(str, self._remote.leftovers())]

    def tidy(self) -> None:
        for migration in self._remote.all(VMIMS):  # history, which would grow from round to round
            path = self._remote.path_of(VMIMS, "default", migration["metadata"]["name"])
            self._remote.request("DELETE", path)


class Hosts:
    """Three hosts of the lab."""

    MBIT = 8  # so slow that no migration ends before it is held

    def __init__(self, lab: Lab, vms: int) -> None:
        self._lab = lab
        self.out = [*lab.hosts][:2]
        self._vms = {host: [f"vm-{host[-1]}{n}" for n in range(vms)] for host in self.out}
        for host, names in self._vms.items():
            for name in names:
                lab.run(host, GuestSpec(name, memory_mib=96, fill_mib=16))
        lab.wait_ticking([name for names in self._vms.values() for name in names])

    @classmethod
    @contextmanager
    def there(cls, _directory: Path, vms: int) -> Iterator[Place]:
        lab = Lab.up("bench", 3)
        try:
            yield cls(lab, vms)
        finally:
            Lab.down("bench")

    def start(self, name: str, log: Path, **extra: object) -> subprocess.Popen[bytes]:
        if name == "rolling_maintenance":
            for host in self.out:
                self._lab.shape(host, self.MBIT)
        play = plays.Play(self._lab, name, {**plays.UNMEASURED, **extra})
        log.symlink_to(play.output)
        return play.process

    def _moves(self, host: str) -> bool:
        return any(self._lab.moves(host, name) for name in self._vms[host])

    def moving(self) -> None:
        """Two move to the third host at once, so it may be that none leaves one of the hosts."""
        if not wait_for(lambda: any(map(self._moves, self.out))):
            raise RuntimeError("nothing moves")
        for host in self.out:
            self._lab.hold(host)
            self._lab.unshape(host)

    def over(self) -> None:
        if not wait_for(lambda: not any(map(self._moves, self.out)), pause=0.1):
            raise RuntimeError("migrations run still")

    def wrong(self) -> list[str]:
        where = {host: traces.running(self._lab.host(host)) for host in self.out}
        gone = [f"{host} runs {names}" for host, names in where.items() if names != self._vms[host]]
        return [*gone, *traces.claims(self._lab), *traces.marked(self._lab)]

    def tidy(self) -> None:
        for host in self.out:
            self._lab.let_go(host)


def printed(place: Place, playbook: Path) -> str:
    """What a playbook that is no roll prints. It runs where the modules of this platform do."""
    log = playbook.with_suffix(".log")
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    place.start(str(playbook), log, **(local if isinstance(place, Simulator) else {})).wait(PATIENCE)
    return log.read_text(encoding="utf-8")


def one(place: Place, directory: Path, number: int, pause: float) -> float:
    """Seconds until no migration runs. Raises RuntimeError for an abort that did not succeed."""
    log = directory / f"abort-{number}.log"
    with ExitStack() as plays_end:
        hosts = ",".join(place.out)
        roll = place.start("rolling_maintenance", directory / f"roll-{number}.log", maintenance_hosts=hosts, **ROLL)
        plays_end.callback(roll.kill)
        place.moving()
        time.sleep(pause)
        begun = time.monotonic()
        abort = place.start("abort", log)
        plays_end.callback(abort.kill)
        place.over()
        found = time.monotonic() - begun
        code, ended = abort.wait(PATIENCE), time.monotonic() - begun
        rolls, wrong = roll.wait(PATIENCE), place.wrong()
    print(
        f"abort {number:3}: no migration runs after {found:5.2f} s, over after {ended:5.2f} s,"
        f" exit {code}, roll's exit {rolls}, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    if code or not rolls or wrong:
        raise RuntimeError(f"{wrong}\n{log.read_text()}")
    place.tidy()
    return found


def p95(found: list[float]) -> float:
    """The smallest measured one that 95 % are not above."""
    return sorted(found)[-(-len(found) * 95 // 100) - 1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-abort", description=__doc__.splitlines()[0])
    parser.add_argument("--on", choices=["simulator", "lab"], default="simulator")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--vms", type=int, default=4, help="on each of the two hosts (4)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--late", type=float, default=20.0, help="seconds into the drain (20)")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, {platform.platform()}, Python {sys.version.split()[0]}")
    interruptible()
    chance = random.Random(args.seed)
    kind = Simulator if args.on == "simulator" else Hosts
    with tempfile.TemporaryDirectory(prefix="bench-abort-") as name:
        directory = Path(name)
        with kind.there(directory, args.vms) as place:
            ping_s = ping.seconds("all", directory, lambda playbook: printed(place, playbook))
            found = [
                one(place, directory, number, chance.uniform(0.0, args.late)) for number in range(1, args.count + 1)
            ]
    print(
        f"bench-abort: on={args.on} aborts={len(found)} median={statistics.median(found):.1f} "
        f"p95={p95(found):.1f} max={max(found):.1f} ping_s={ping_s:.2f} p95_pings={p95(found) / ping_s:.1f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
