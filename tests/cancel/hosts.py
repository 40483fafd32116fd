"""The lab as the place of a case: its hosts, its guests, what is seen there from outside."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from demo import plays, report, traces
from demo.plays import Command, Ended

from lab import GuestSpec, Host, Lab, LabError

from . import ways
from .case import Bed, Kind, Outcome, carry_on, until

COUNT = 3
# Slow enough that a migration takes about a second, so that some are met.
MBIT = 300
SOURCE = "host-b"  # of a single drain
STAYS = "stays-b"
GUESTS = {
    "host-a": [GuestSpec("live-a", fill_mib=32)],
    SOURCE: [
        GuestSpec("live-b", fill_mib=32),
        GuestSpec("disk-b", fill_mib=16, dirty_mib_s=2, disks=[("shared", 16)]),
        GuestSpec("local-b", fill_mib=16, disks=[("local", 16)], autostart=True),
        GuestSpec("brief-b", fill_mib=32, persistent=False),
        # Shut down by the drain of its host, started again by its restore: the only ones that
        # may stop.
        GuestSpec(STAYS, strategy="None", autostart=True),
    ],
    "host-c": [GuestSpec("stays-c", strategy="None")],
}
SPECS = [spec for specs in GUESTS.values() for spec in specs]
NAMES = sorted(spec.name for spec in SPECS)
MAY_STOP = {spec.name for spec in SPECS if spec.strategy == "None"}
WORKED = "/root/worked"
WORK = f"""---
# What a user would do on an empty host: here, note that.
- name: Work on the host
  ansible.builtin.shell: echo worked >>{WORKED}
  changed_when: true
"""


class Rolls(Bed):
    """A lab that is up, with all guests at home. A thread looks at cordons and boots from the machine's side."""

    def __init__(self, lab: Lab) -> None:
        work = lab.paths.logs / "worked.yml"
        work.write_text(WORK, encoding="utf-8")
        super().__init__(lab.paths.logs, [*lab.hosts], work)
        self.folders = [lab.paths.raw, lab.paths.logs]
        self.variables |= plays.UNMEASURED
        self.lab = lab
        for host in lab.hosts.values():
            host.exec(f"rm -f {WORKED}")
        self._last = self._roll().get("id")
        self._before = guests(lab)
        self._over = threading.Event()
        self._watch()
        self._watcher = threading.Thread(target=self._watch_on, name="watcher", daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        for host in self.lab.hosts.values():
            self.outs.look(host.name, host.boot_id, (store(host) / "cordon").exists())

    def _watch_on(self) -> None:
        while not self._over.wait(0.02):
            self._watch()

    def close(self) -> None:
        self._over.set()
        self._watcher.join()

    def argv(self, playbook: str, variables: Mapping[str, Any]) -> list[str]:
        return plays.command(self.lab, playbook, variables)

    def environment(self, folder: Path) -> Mapping[str, str]:
        return plays.environment(folder / plays.RESULTS)

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

    def events(self, first: Command) -> int:
        """Lines that it has printed."""
        return first.output.read_bytes().count(b"\n")

    def foreign(self) -> list[str]:
        """Modules at work on the hosts."""
        hosts = self.lab.hosts.values()
        return [f"a module on {host.name}, process {pid}" for host in hosts for pid in ways.modules(host)]

    def after(self, _playbook: str, _ended: Ended, out: Outcome) -> None:
        if (state := self._roll().get("state")) not in ("ended", "aborted"):
            out.faults["leftovers"].append(f"the record of the roll says {state}")

    def worked(self) -> Collection[str]:
        return [name for name, host in self.lab.hosts.items() if not host.exec(f"test -e {WORKED}", False).returncode]

    def look(self, out: Outcome) -> None:
        self.close()
        lab, faults = self.lab, out.faults
        silent = {name for name in NAMES if not ticks(lab, name)}
        self._after = after = guests(lab)
        where = {name: [host.name for host in traces.up(lab) if name in traces.running(host)] for name in NAMES}
        out.excused += sorted(panicked := silent & grown(self._before, after, "panics"))
        faults["lost"] += checked(after)
        faults["lost"] += [f"{name} does not run" for name, hosts in where.items() if not hosts]
        faults["lost"] += [f"{name} is silent" for name in sorted(silent - panicked)]
        faults["twice"] += [f"{guest['name']} ran twice" for guest in after["guests"] if guest["verdict"] == "twice"]
        faults["twice"] += [f"{n} runs on {hosts}" for n, hosts in where.items() if len(hosts) > 1]
        faults["leftovers"] += leftovers(lab)


class Drains(Rolls):
    """Of a single host. An event is a hundredth of a second."""

    playbook = "drain"

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.variables |= {"maintenance_hosts": SOURCE}
        self._source = lab.host(SOURCE)

    def stages(self) -> list[str]:
        return ["draining"] if (store(self._source) / "cordon").exists() else [""]

    def events(self, _first: Command) -> int:
        return int(time.monotonic() * 100)

    def end(self, way: str, run: Command) -> bool:
        met = ways.kill(way, run, self._source)
        run.wait()
        return met

    def seen(self) -> str:
        here = traces.running(self._source)
        done = len([*store(self._source).glob("outcome.*")])
        return f"{len(here)} of {len(GUESTS[SOURCE])} VMs still on {SOURCE}, {done} outcomes"

    def span(self) -> float:
        """Seconds from cordon to end of a drain that nobody disturbs, which has to be well."""
        run, out = self.start("drain", self.variables), Outcome()
        until(lambda: self.stages() == ["draining"], run)
        began = time.monotonic()
        ended = plays.watch(run)
        seconds = time.monotonic() - began
        self.after("drain", ended, out)
        carry_on(self, "restore", out)
        if ended.code or out.lines():
            raise LabError("\n".join(["a drain that nobody disturbed failed:", *out.lines(), ended.text[-1500:]]))
        return seconds

    def after(self, playbook: str, ended: Ended, out: Outcome) -> None:
        """All guests but the one that stays are elsewhere; that one is off until the restore."""
        if playbook == "drain":
            out.wrong += [] if ended.last.get("certificate") else ["drained, and no certificate"]
            left = traces.claims(self.lab) + traces.marked(self.lab)
            out.faults["leftovers"] += [f"after drain {name} is claimed or marked" for name in left]
        source, here = self._source, [STAYS] if playbook == "restore" else []
        others = [host for host in self.lab.hosts.values() if host is not source]

        def elsewhere(ask: Any) -> list[str]:
            return sorted(name for host in others for name in ask(host))

        moved = [spec for spec in SPECS if spec.name != STAYS]
        places = {
            f"defined on {SOURCE}": (traces.defined(source), [STAYS]),
            f"running on {SOURCE}": (traces.running(source), here),
            f"with autostart on {SOURCE}": (traces.autostarted(source), here),
            "running elsewhere": (elsewhere(traces.running), sorted(spec.name for spec in moved)),
            "with autostart elsewhere": (elsewhere(traces.autostarted), [s.name for s in moved if s.autostart]),
            "transient elsewhere": (elsewhere(traces.transient), [s.name for s in moved if not s.persistent]),
        }
        out.wrong += [
            f"after {playbook} {what}: {found}, not {wanted}"
            for what, (found, wanted) in places.items()
            if found != wanted
        ]

    def look(self, out: Outcome) -> None:
        super().look(out)
        stopped = grown(self._before, self._after, "stops")
        out.wrong += [] if stopped == {STAYS} else [f"stopped were {sorted(stopped)}, not {STAYS} alone"]


def store(host: Host) -> Path:
    """The folder of the host's store, seen from the machine: looking costs no call."""
    return host.paths.host(host.name) / "var-lib" / "libvirt" / "virtops"


def guests(lab: Lab) -> dict[str, Any]:
    """What the checker says of the guests of a case. A lab that is shared has had others."""
    found = report.check(lab.paths.raw, set())
    return {**found, "guests": [guest for guest in found["guests"] if guest["name"] in NAMES]}


def checked(found: Mapping[str, Any]) -> list[str]:
    """What is wrong by the checker's report, but for who ran twice. A panic is excused, nothing else is."""
    unread = found["totals"]["unreadable_lines"]
    wrong = [f"{unread} lines of the raw log cannot be read"] if unread else []
    for guest in found["guests"]:
        name, verdict = guest["name"], guest["verdict"]
        if verdict not in ("live", "panic", "stopped", "twice"):
            wrong.append(f"{name}: {verdict}: {guest['reasons']}")
        # But for its removal by `settle`.
        stops = [why for why in guest["stops"] if why != f"announced: {report.checker.REMOVED}"]
        if stops and name not in MAY_STOP:
            wrong.append(f"{name}: stopped, though it may not: {stops}")
        wrong += [f"{name}: {text}" for text in guest["disk_errors"] + guest["memory_errors"]]
    return wrong


def grown(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> set[str]:
    """Guests that have more of it after than before."""
    had = {guest["name"]: len(guest[key]) for guest in before["guests"]}
    return {g["name"] for g in after["guests"] if len(g[key]) > had.get(g["name"], 0)}


def leftovers(lab: Lab) -> list[str]:
    up = traces.up(lab)
    # A note of copied disks stays as long as the copies do: the VM may come back.
    found = [f"{host.name}: {name}" for host in up for name in traces.volumes(host) if not name.startswith("made.")]
    found += [f"{name} is marked" for name in traces.marked(lab)]
    found += [
        f"{host.name}: a job of {name} has not ended"
        for host in up
        for name in traces.running(host)
        if "None" not in host.virsh("domjobinfo", name, check=False)
    ]
    started = {name for host in up for name in traces.autostarted(host)}
    wanted = {spec.name for spec in SPECS if spec.autostart}
    return found + ([f"autostart have {sorted(started)}, not {sorted(wanted)}"] if started != wanted else [])


def ticks(lab: Lab, name: str) -> bool:
    try:
        lab.wait_ticking([name], 60)
    except LabError:
        return False
    return True


def settle(lab: Lab) -> None:
    """Each guest that is not at home, or silent, is made anew there."""
    for home, specs in GUESTS.items():
        lab.shape(home, MBIT)
        for spec in specs:
            here = [name for name, host in lab.hosts.items() if spec.name in traces.running(host)]
            if here == [home] and ticks(lab, spec.name):
                continue
            if any(spec.name in traces.defined(host) for host in lab.hosts.values()):
                lab.remove_guest(spec.name)
            lab.run(home, spec)
    lab.wait_ticking(NAMES)


@contextmanager
def place(lab: Lab, kind: type[Rolls] = Rolls) -> Iterator[Any]:
    settle(lab)
    made = kind(lab)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def bed(kind: type[Rolls], name: str, fresh: bool) -> Iterator[Any]:
    """`fresh`: with a new lab; what went wrong before is not to be seen again."""
    if fresh:
        Lab.down(name)
    with place(Lab.up(name, COUNT), kind) as made:
        yield made


LINES = {"draining": 45, "empty": 4, "at work": 20, "rebooting": 6, "checking": 20, "restoring": 8}
ROLLS = Kind("lab", partial(bed, Rolls), LINES, "lines", "--platform lab")


def drains(span: float) -> Kind:
    """`span`: seconds of one that nobody disturbs. One case of ten is in its first three seconds."""
    return Kind(
        "drain",
        partial(bed, Drains),
        {"draining": int(90 * span), "": 300},
        "hundredths of a second",
        f"--span {span:.1f}",
        ways=ways.VICTIMS,
        then=("restore",),
        hosts=(0,),
        stages=("draining",) * 9 + ("",),
    )
