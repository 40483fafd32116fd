"""A lab of three libvirt hosts as the place of a case, judged by the guests' raw logs, /proc and virsh on the hosts.

A lab for each case: nothing that an earlier one broke is seen again. The clock of moments is a tenth of a second.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cancel.hosts import MBIT, WORK
from cancel.program import sockets
from demo import plays, report, traces

from chaos.case import Ground, Outcome, Place
from chaos.hosts_acts import ACTS
from lab import GuestSpec, Lab
from lab.collector import Census
from lab.names import lab_name
from lab.procs import run, start_time

COUNT = 3
GUESTS = {
    "host-a": [
        GuestSpec("live-a", fill_mib=32),
        GuestSpec("disk-a", dirty_mib_s=2, disks=[("shared", 16)], autostart=True),
        GuestSpec("files-a", disks=[("local", 16)]),
        GuestSpec("stays-a", strategy="None", autostart=True),  # shut down by a drain, started again by a restore
        GuestSpec("brief-a", fill_mib=32, persistent=False),
    ],
    "host-b": [GuestSpec("live-b", fill_mib=32, autostart=True), GuestSpec("stays-b", strategy="None")],
    "host-c": [GuestSpec("disk-c", fill_mib=32, disks=[("shared", 16)])],
}
# As docs/operating.md has it, so that a host which is cut off is given up; and no longer waits than a bed needs.
PATIENCE = {
    "ansible_ssh_extra_args": "-o ServerAliveInterval=5 -o ServerAliveCountMax=4",
    "drain_allow_stop": True,
    "drain_unknown_timeout": 20,
    "drain_shutdown_timeout": 30,
    "drain_pending_timeout": 60,
}


def name() -> str:
    return f"{lab_name()[:24]}-chaos"


class Fleet(Ground):
    """`gone`: may be off. `moved`: somebody else gave it its place. `cut`: its disk was out of reach for long."""

    nodes = tuple(GUESTS)

    def __init__(self, lab: Lab, directory: Path) -> None:
        super().__init__(directory)
        self.lab = lab
        self.moved: set[str] = set()
        self.cut: set[str] = set()
        self.unnamed: set[str] = set()  # somebody ended it on a host that is maintained: a result has to say so
        self.specs = {spec.name: spec for specs in GUESTS.values() for spec in specs}
        work = directory / "work.yml"
        work.write_text(WORK, encoding="utf-8")
        self.roll = {"maintenance_hosts": ",".join(self.nodes), "maintenance_tasks": str(work)}

    def fill(self) -> None:
        made = str(self.lab.paths.image / "clock.so")
        run(["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", made, str(Path(__file__).with_name("clock.c"))])

        def home(host: str) -> None:
            self.lab.shape(host, MBIT)
            for spec in GUESTS[host]:
                self.lab.run(host, spec)

        with ThreadPoolExecutor(COUNT) as pool:
            list(pool.map(home, GUESTS))
        self.lab.wait_ticking(self.specs)

    def argv(self, playbook: str, variables: Mapping[str, Any]) -> list[str]:
        return plays.command(self.lab, playbook, {**plays.UNMEASURED, **PATIENCE, **variables})

    def environment(self, folder: Path) -> Mapping[str, str]:
        return plays.environment(folder / "results.jsonl")

    def events(self) -> int:
        return int(time.monotonic() * 10)

    def settle(self) -> None:
        for host in self.lab.hosts.values():
            host.wait_ready()

    def processes(self) -> list[tuple[str, str, int]]:
        """(host, guest, pid) of each QEMU, by /proc."""
        census = Census(self.lab.paths)
        census.changes()
        found = [(*guest, int(pid)) for pid, guest in census.known.items() if guest]
        return sorted(row for row in found if start_time(row[2]) is not None)

    def there(self, node: str) -> list[str]:
        return [guest for host, guest, _pid in self.processes() if host == node and guest not in self.moved]

    # The judgement

    def judge(self, out: Outcome) -> None:
        faults, lab = out.faults, self.lab
        where: dict[str, list[str]] = {guest: [] for guest in self.specs}
        for host in lab.hosts.values():
            for guest in traces.running(host):
                where.setdefault(guest, []).append(host.name)
        for guest in report.check(lab.paths.raw, set())["guests"]:
            self._guest(guest, faults)
        faults["twice"] += [f"{guest} runs on {hosts}" for guest, hosts in where.items() if len(hosts) > 1]
        off = {guest for guest, hosts in where.items() if not hosts}
        faults["lost"] += [f"{guest} does not run at the end" for guest in sorted(off - self.gone)]
        said = self._said()
        faults["unexplained"] += [
            f"{guest} is off, and no result says why" for guest in sorted(off & self.unnamed - set(said))
        ]
        faults["left_behind"] += self._left(said)

    def _guest(self, guest: Mapping[str, Any], faults: dict[str, list[str]]) -> None:
        found, verdict = guest["name"], guest["verdict"]
        why = f"{found}: {verdict}: {guest['reasons']}"
        may_stop = found in self.gone or found not in self.specs or self.specs[found].strategy == "None"
        if verdict == "twice":
            faults["twice"].append(why)
        elif verdict in ("lost", "gap", "paused", "stopped") and not may_stop:
            faults["lost"].append(why)
        if found not in self.cut:
            faults["lost"] += [f"{found}: {text}" for text in guest["disk_errors"] + guest["memory_errors"]]

    def _said(self) -> dict[str, set[str]]:
        """VM -> the reasons that results of the product's give for it; "off": it was so before they came to it."""
        said: dict[str, set[str]] = {}
        for path in self.directory.glob("run-*/results.jsonl"):
            for line in path.read_text(encoding="utf-8").splitlines():
                for row in json.loads(line).get("vms", []):
                    if row.get("reason") or row["verdict"] == "off":
                        said.setdefault(row["name"], set()).add(row.get("reason") or "off")
        return said

    def _left(self, said: Mapping[str, set[str]]) -> list[str]:
        # A note of copied disks stays as long as the copies do: the VM may come back.
        found = [
            f"{host.name}: {volume}"
            for host in self.lab.hosts.values()
            for volume in traces.volumes(host)
            if not volume.startswith("made.")
        ]
        found += [f"{guest} is marked" for guest in traces.marked(self.lab)]
        defined: dict[str, list[str]] = {}
        started = set()
        for host in self.lab.hosts.values():
            started |= set(traces.autostarted(host))
            for guest in traces.defined(host):
                defined.setdefault(guest, []).append(host.name)
        found += [
            f"{guest} is defined on {hosts}"
            for guest, hosts in defined.items()
            if len(hosts) > 1 and guest not in self.moved and "DefinitionLeft" not in said.get(guest, ())
        ]
        wanted = {spec.name for spec in self.specs.values() if spec.autostart}
        differ = (started ^ wanted) - self.moved - (self.gone - set(defined))
        return found + [f"autostart of {guest} is {guest in started}" for guest in sorted(differ)]


@contextmanager
def bed(directory: Path) -> Iterator[Fleet]:
    Lab.down(name())
    lab = Lab.up(name(), COUNT)
    made = Fleet(lab, directory)
    try:
        made.fill()
        yield made
    finally:
        made.end()
        for folder in (lab.paths.raw, lab.paths.logs):
            shutil.copytree(folder, directory / folder.name, symlinks=True, ignore=sockets)


PLACE = Place("lab", ACTS, ("drain", "restore", "drain", "roll"), {"drain": 120, "restore": 60, "roll": 600}, bed)
