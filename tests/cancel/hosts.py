"""The lab as the place of a case: its hosts, its guests, what is seen there from outside."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from demo import plays, report, traces
from demo.plays import Command
from kill.case import checked, grown, store
from kill.victims import modules

from lab import GuestSpec, Host, Lab, LabError

from . import ways
from .case import Case, Judgement

COUNT = 3
# Slow enough that a migration takes about a second, so that some are met.
MBIT = 300
GUESTS = {
    "host-a": [GuestSpec("live-a", fill_mib=32)],
    "host-b": [
        GuestSpec("live-b", fill_mib=32, autostart=True),
        GuestSpec("disk-b", fill_mib=16, dirty_mib_s=2, disks=[("shared", 16)]),
        # Shut down by the drain of its host, started again by its restore: the only ones that
        # may stop.
        GuestSpec("stays-b", strategy="None", autostart=True),
    ],
    "host-c": [GuestSpec("stays-c", strategy="None")],
}
SPECS = [spec for specs in GUESTS.values() for spec in specs]
NAMES = sorted(spec.name for spec in SPECS)
MAY_STOP = {spec.name for spec in SPECS if spec.strategy == "None"}
# Events of a stage, at most: lines that the playbook prints, where nobody cancels it.
MOST = {"draining": 45, "empty": 4, "at work": 20, "rebooting": 6, "checking": 20, "restoring": 8}
WORKED = "/root/worked"
WORK = f"""---
# What a user would do on an empty host: here, note that.
- name: Work on the host
  ansible.builtin.shell: echo worked >>{WORKED}
  changed_when: true
"""


class Watcher:
    """Looks at the hosts' cordons and boots from the machine's side until it is ended."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.boots: dict[str, list[str]] = {name: [] for name in lab.hosts}
        self.given_back: set[str] = set()  # rebooted, and the cordon is gone
        self.redone: list[str] = []
        self.most_out = 0
        self._out: set[str] = set()
        self._over = threading.Event()
        for host in lab.hosts.values():
            self._look(host)
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.02):
            for host in self._lab.hosts.values():
                self._look(host)
            self.most_out = max(self.most_out, len(self._out))

    def _look(self, host: Host) -> None:
        name, boot = host.name, host.boot_id
        cordoned = (store(host) / "cordon").exists()
        if boot and boot not in self.boots[name]:
            self.boots[name].append(boot)
            if name in self.given_back:
                self.redone.append(f"{name} was given back and is rebooted again")
        if cordoned and name not in self._out:
            self._out.add(name)
            if name in self.given_back:
                self.redone.append(f"{name} was given back and is cordoned again")
        elif not cordoned and name in self._out:
            self._out.remove(name)
            if len(self.boots[name]) > 1:
                self.given_back.add(name)


class Bed:
    """A lab that is up, with all guests at home."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.folders = [lab.paths.raw, lab.paths.logs]
        work = lab.paths.logs / "worked.yml"
        work.write_text(WORK, encoding="utf-8")
        self.roll = {
            **plays.UNMEASURED,
            "maintenance_hosts": ",".join(lab.hosts),
            "maintenance_tasks": str(work),
            "drain_allow_stop": True,
        }
        for host in lab.hosts.values():
            host.exec(f"rm -f {WORKED}")
        self._last = self._roll().get("id")
        self._before = guests(lab)
        self._watcher = Watcher(lab)
        self._first: Command | None = None
        self._runs = 0

    def start(self, playbook: str, way: str, mark: str, variables: Mapping[str, Any]) -> Command:
        self._runs += 1
        folder = self.lab.paths.logs / f"cancel-{mark}-{self._runs}"
        argv = plays.command(self.lab, playbook, variables)
        run = ways.start(way, mark, argv, plays.environment(folder / "results.jsonl"), folder)
        self._first = self._first or run
        return run

    def stages(self) -> list[str]:
        """By the newest record of a roll that any host has: only to choose the moment."""
        found = self._roll()
        if found.get("id") == self._last:  # of the case before
            return []
        return [host["stage"] for host in found.get("hosts", [])]

    def _roll(self) -> dict[str, Any]:
        paths = [path for host in self.lab.hosts.values() for path in store(host).glob("roll.*")]
        for path in sorted(paths, key=lambda path: int(path.suffix[1:]), reverse=True):
            with contextlib.suppress(OSError, ValueError):  # written, or removed, just now
                text = path.read_text(encoding="utf-8", errors="replace")
                found: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
                return found
        return {}

    def events(self) -> int:
        """Lines that the first command has printed."""
        return self._first.output.read_bytes().count(b"\n") if self._first else 0

    def most_out(self) -> int:
        return self._watcher.most_out

    def foreign(self) -> list[str]:
        """Modules at work on the hosts."""
        return [f"a module on {host.name}, process {pid}" for host in self.lab.hosts.values() for pid in modules(host)]

    def close(self) -> None:
        self._watcher.end()

    def judge(self, case: Case, judgement: Judgement) -> None:
        lab, faults = self.lab, judgement.faults
        self.close()
        seen = self._watcher
        silent = [name for name in NAMES if not ticks(lab, name)]
        after = guests(lab)
        where = {name: [host.name for host in traces.up(lab) if name in traces.running(host)] for name in NAMES}
        panicked = grown(self._before, after, "panics")
        twice = [guest["name"] for guest in after["guests"] if guest["verdict"] == "twice"]
        faults["lost"] += [text for text in checked(after, MAY_STOP) if "twice" not in text]
        faults["lost"] += [f"{name} does not run" for name, hosts in where.items() if not hosts]
        faults["lost"] += [f"{name} is silent" for name in silent if name not in panicked]
        faults["twice"] += [f"{name} ran twice" for name in twice]
        faults["twice"] += [f"{n} runs on {hosts}" for n, hosts in where.items() if len(hosts) > 1]
        faults["leftovers"] += leftovers(lab, self._roll())
        faults["rebooted_twice"] += [
            f"{name} was rebooted {len(boots) - 1} times" for name, boots in seen.boots.items() if len(boots) > 2
        ]
        faults["redone"] += seen.redone
        if seen.most_out > 1:
            judgement.wrong.append(f"{seen.most_out} hosts were out at once")
        if case.then == "again":
            judgement.wrong += [
                f"{name} was not rebooted, or not worked on"
                for name, host in lab.hosts.items()
                if len(seen.boots[name]) < 2 or host.exec(f"test -e {WORKED}", False).returncode
            ]


def guests(lab: Lab) -> dict[str, Any]:
    """What the checker says of the guests of a case. A lab that is shared has had others."""
    found = report.check(lab.paths.raw, set())
    return {**found, "guests": [guest for guest in found["guests"] if guest["name"] in NAMES]}


def leftovers(lab: Lab, roll: dict[str, Any]) -> list[str]:
    # A note of copied disks stays as long as the copies do: the VM may come back.
    found = [
        f"{host.name}: {name}"
        for host in traces.up(lab)
        for name in traces.volumes(host)
        if not name.startswith("made.")
    ]
    found += [f"{name} is marked" for name in traces.marked(lab)]
    found += [
        f"{host.name}: a job of {name} has not ended"
        for host in traces.up(lab)
        for name in traces.running(host)
        if "None" not in host.virsh("domjobinfo", name, check=False)
    ]
    if roll.get("state") not in ("ended", "aborted"):
        found.append(f"the record of the roll says {roll.get('state')}")
    started = {name for host in traces.up(lab) for name in traces.autostarted(host)}
    wanted = {spec.name for spec in SPECS if spec.autostart}
    if started != wanted:
        found.append(f"autostart have {sorted(started)}, not {sorted(wanted)}")
    return found


def ticks(lab: Lab, name: str) -> bool:
    try:
        lab.wait_ticking([name], 60)
    except LabError:
        return False
    return True


def settle(lab: Lab) -> None:
    """Each guest that is not at home, or silent, is made anew there."""
    for home, specs in GUESTS.items():
        for spec in specs:
            here = [name for name, host in lab.hosts.items() if spec.name in traces.running(host)]
            if here == [home] and ticks(lab, spec.name):
                continue
            if any(spec.name in traces.defined(host) for host in lab.hosts.values()):
                lab.remove_guest(spec.name)
            lab.run(home, spec)
    lab.wait_ticking(NAMES)


@contextmanager
def place(lab: Lab) -> Iterator[Bed]:
    for host in lab.hosts:
        lab.shape(host, MBIT)
    settle(lab)
    made = Bed(lab)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def bed(name: str, fresh: bool) -> Iterator[Bed]:
    """`fresh`: with a new lab; what went wrong before is not to be seen again."""
    if fresh:
        Lab.down(name)
    with place(Lab.up(name, COUNT)) as made:
        yield made


__all__ = ["COUNT", "MOST", "Bed", "bed", "place"]
