# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seconds from the command `abort` until no migration runs, of a roll that lives, on the simulator.

Three nodes, of which two are out, each with VMs whose migrations never end by themselves. Each
round begins the roll, waits until migrations run and then a seeded time, and gives the command. The
time counts from the start of ansible-playbook until the API shows no unfinished migration and no
evacuation mark. The simulator runs in real time, in a process of its own.

    aborts.py [--count 20] [--vms 4] [--seed 1]
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
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from kubesim.kinds import NODES, VMIMS  # noqa: E402
from kubesim.process import Process  # noqa: E402
from kubesim.remote import Remote  # noqa: E402

HOSTS = ("n1", "n2", "n3")
OUT = HOSTS[:2]
ROLE = ROOT / "docs" / "kubevirt-clusterrole.yml"
PATIENCE = 180.0


class Bench:
    """One simulated cluster. `late`: seconds after which migrations run, at most."""

    def __init__(self, directory: Path, remote: Remote, vms: int, late: float) -> None:
        self._directory = directory
        self._remote = remote
        self._vms = [f"{node}-{number}" for node in OUT for number in range(vms)]
        self._late = late
        inventory = {
            "all": {
                "hosts": {name: {} for name in HOSTS},
                "vars": {"maintenance_platform": "kubevirt"},
            }
        }
        (directory / "hosts.json").write_text(json.dumps(inventory), encoding="utf-8")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PYTHONP"))}
        self._env = {
            **clean,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
            "ANSIBLE_HOME": str(directory / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "K8S_AUTH_KUBECONFIG": str(directory / "kubeconfig-maintenance"),
        }

    def begin(self) -> None:
        migrations = {"parallelMigrationsPerCluster": 5, "parallelOutboundMigrationsPerNode": 2}
        self._remote.configure(migrations=migrations)
        for name in HOSTS:
            self._remote.add_node(name)
        for name in self._vms:
            self._remote.add_vm(name, name.partition("-")[0], migrate_seconds="100000")

    def round(self, number: int, chance: random.Random) -> float:
        """Seconds until no migration runs. Raises RuntimeError for an abort that did not succeed"""
        roll = self._start(
            "rolling_maintenance",
            maintenance_hosts=",".join(HOSTS),
            maintenance_max_unavailable=2,
            maintenance_reboot=False,
        )
        self._remote.until(lambda: self._running() >= len(OUT) * 2, PATIENCE)
        time.sleep(chance.uniform(0.0, self._late))
        log = self._directory / f"abort-{number}.log"
        begun = time.monotonic()
        abort = self._start("abort", log)
        self._remote.until(lambda: not self._remote.leftovers(), PATIENCE)
        found = time.monotonic() - begun
        code, ended = abort.wait(PATIENCE), time.monotonic() - begun
        rolls = roll.wait(PATIENCE)
        moved = [name for name in self._vms if self._remote.node_of(name) != name[:2]]
        cordoned = [
            node["metadata"]["name"]
            for node in self._remote.all(NODES)
            if node["spec"].get("unschedulable")
        ]
        again = self._remote.leftovers()
        print(
            f"abort {number:3}: no migration runs after {found:5.2f} s, over after {ended:5.2f} s,"
            f" exit {code}, roll's exit {rolls}",
            flush=True,
        )
        if code or not rolls or moved or cordoned or again:
            raise RuntimeError(f"{moved} {cordoned} {again}\n{log.read_text()}")
        for migration in self._remote.all(VMIMS):  # history, which would grow from round to round
            self._remote.request(
                "DELETE",
                self._remote.path_of(VMIMS, "default", migration["metadata"]["name"]),
            )
        return found

    def _running(self) -> int:
        phases = [m.get("status", {}).get("phase") for m in self._remote.all(VMIMS)]
        return phases.count("Running")

    def _start(
        self, name: str, log: Path | None = None, **extra: object
    ) -> subprocess.Popen[bytes]:
        tool = str(Path(sys.executable).with_name("ansible-playbook"))
        words = [tool, "-i", str(self._directory / "hosts.json"), f"virtops.maintenance.{name}"]
        with open(log or self._directory / f"{name}.log", "wb") as stream:
            return subprocess.Popen(
                [*words, "-e", json.dumps(extra)],
                env=self._env,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )


def p95(found: list[float]) -> float:
    """The smallest measured one that 95 % are not above."""
    return sorted(found)[-(-len(found) * 95 // 100) - 1]


def rounds(bench: Bench, count: int, seed: int) -> list[float]:
    chance = random.Random(seed)

    return [bench.round(number, chance) for number in range(1, count + 1)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-abort", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--vms", type=int, default=4, help="on each of the two nodes (4)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--late", type=float, default=20.0, help="seconds into the drain (20)")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, {platform.platform()}, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory(prefix="bench-abort-") as name:
        directory = Path(name)
        with Process(directory, {"maintenance": ROLE}) as server:
            bench = Bench(directory, Remote(server.kubeconfig()), args.vms, args.late)
            bench.begin()
            found = rounds(bench, args.count, args.seed)
    print(
        f"bench-abort: aborts={len(found)} median={statistics.median(found):.1f} "
        f"p95={p95(found):.1f} max={max(found):.1f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
