"""make bench-slice: what one slice of a drain takes in a large fleet.

On the lab: 60 libvirtd, a host with 20 VMs; none, one and three of its peers are off. Ansible
calls the module as ever, through an interpreter that measures the module's process
(measured_python.py). "look" is check mode: one read and one decision. "first" is the slice that
begins a drain, "slice" one that goes on with it. Two VMs that take long migrate all the while, so
that nothing ends; after some slices the playbook is killed, and a restore follows. Medians.

On the model: one observe and one decide for a host with 20 VMs among 1,000 (slice_model.py).

    slices.py [--hosts N] [--dead N,N,N] [--rounds N] [--model-only]    report in build/slices/
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from bench import measured_python, slice_model  # noqa: E402
from demo import plays, traces  # noqa: E402

from lab import GuestSpec, Lab, LabError, missing  # noqa: E402
from lab.names import lab_name  # noqa: E402
from lab.procs import interruptible, wait_for  # noqa: E402

OUT = ROOT / "build" / "slices"
SOURCE = "host-a"
VMS = 20
SLICE_SECONDS = 2
SLICES = 6  # of one drain, after the first
INTERPRETER = "/usr/local/sbin/measured-python"
WHAT = ("seconds", "cpu_s", "mb", "connections")

Row = dict[str, Any]


def guests(lab: Lab) -> None:
    """Two that take long to migrate, and others that are no more than a process."""
    host = lab.host(SOURCE)
    long = [GuestSpec(f"long-{n}", memory_mib=256, fill_mib=128, tick_ms=500) for n in (1, 2)]
    for spec in long:
        lab.run(SOURCE, spec)
    for number in range(VMS - len(long)):
        spec = GuestSpec(f"vm-{number:02}", memory_mib=32)
        # Without a kernel the BIOS finds nothing to start, and waits.
        xml = re.sub(r"<(kernel|initrd|cmdline)>.*?</\1>", "", lab.xml(spec))
        host.virsh("define", "/dev/stdin", stdin=xml)
        host.virsh("start", spec.name)
    lab.wait_ticking([spec.name for spec in long])


def install(lab: Lab) -> None:
    path = lab.paths.host(lab.host(SOURCE).name) / "local-sbin" / Path(INTERPRETER).name
    text = Path(measured_python.__file__).read_text(encoding="utf-8")
    path.write_text("#!/usr/bin/python3 -I\n" + text, encoding="utf-8")
    path.chmod(0o755)


def book(lab: Lab, state: str) -> str:
    """A playbook that calls the module and nothing else."""
    task = {
        "virtops.maintenance.virt_drain": {
            "state": state,
            "node": SOURCE,
            "memory": lab.host(SOURCE).memory_mib,
            "peers": "{{ groups['all'] | virtops.maintenance.peers(hostvars, node_name) }}",
            "slice": SLICE_SECONDS,
            "migration": {"bandwidth": 1},
        },
        "vars": {"ansible_python_interpreter": INTERPRETER, "node_name": SOURCE},
    }
    path = OUT / f"{state}.yml"
    play = {"hosts": SOURCE, "gather_facts": False, "tasks": [task]}
    path.write_text(json.dumps([play]), encoding="utf-8")
    return str(path)


def call(lab: Lab, state: str, *words: str) -> tuple[list[Row], str]:
    """What each of its slices took, and how it ended. After enough of them it is killed."""
    notes = lab.paths.host(SOURCE) / "root" / Path(measured_python.FILE).name
    notes.unlink(missing_ok=True)
    play = plays.Play(lab, book(lab, state), {}, *words)

    def rows() -> list[Row]:
        text = notes.read_text(encoding="ascii") if notes.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    try:
        wait_for(lambda: not play.running or len(rows()) > SLICES, 600, pause=0.1)
        if play.running:
            return rows()[: SLICES + 1], "goes on"
    finally:
        if play.running:
            play.kill()
    ended = play.wait(1)
    last = ended.last
    how = last.get("phase") or last.get("error") or last.get("msg") or ended.text[-300:]
    return rows(), " ".join(str(how).split())


def middle(rows: list[Row]) -> Row:
    return {what: statistics.median(row[what] for row in rows) for what in WHAT} if rows else {}


def measure(lab: Lab, dead: int, rounds: int) -> list[Row]:
    """The rows of the table with so many peers off."""
    looks, firsts, others = [], [], []
    for _round in range(rounds):
        rows, look_is = call(lab, "drained", "--check")
        looks += rows
        rows, drain_is = call(lab, "drained")
        firsts += rows[:1]
        others += rows[1:]
        call(lab, "active")
        here = len(traces.running(lab.host(SOURCE)))
        if here != VMS:
            raise LabError(f"{here} of {VMS} VMs are on {SOURCE} after the restore")
    found = []
    for kind, rows, how in (("look", looks, look_is), ("first", firsts, drain_is), ("slice", others, drain_is)):
        found.append({"dead": dead, "kind": kind, "calls": len(rows), "ended": how, **middle(rows)})
        print(line_of(found[-1]), flush=True)
    return found


def line_of(row: Row) -> str:
    head = f"{row['dead']} off, {row['kind']:5} ({row['calls']} calls, {row['ended'][:60]})"
    if not row["calls"]:
        return f"{head}: none"
    return (
        f"{head}: {row['seconds']:.2f} s, {row['cpu_s']:.2f} s of CPU, {row['mb']:.0f} MB, "
        f"{row['connections']:.0f} connections"
    )


def on_lab(args: argparse.Namespace) -> list[Row]:
    name = f"{lab_name()[:24]}-slices"
    Lab.down(name)
    found: list[Row] = []
    try:
        lab = Lab.up(name, args.hosts)
        install(lab)
        guests(lab)
        load = os.getloadavg()[0]
        print(f"{args.hosts} hosts, {VMS} VMs on {SOURCE}; load before it {load:.1f}", flush=True)
        off = 0
        for dead in args.dead:
            for host in reversed(list(lab.hosts)[args.hosts - dead : args.hosts - off]):
                lab.kill(host)
            off = dead
            found += measure(lab, dead, args.rounds)
    finally:
        Lab.down(name)
    return found


def on_model(dead: list[int]) -> list[Row]:
    """Each in a process of its own, for its peak."""
    found = []
    for number in dead:
        done = subprocess.run(
            [sys.executable, slice_model.__file__, str(number)], check=True, capture_output=True, text=True
        )
        row = json.loads(done.stdout)
        print(
            f"{number} off of {row['hosts']} on the model: observe {row['observe_s']:.3f} s, "
            f"decide {row['decide_s']:.3f} s, {row['mb']:.1f} MB",
            flush=True,
        )
        found.append(row)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-slice", description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=60)
    parser.add_argument("--dead", default="0,1,3", help="how many peers are off, one by one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model-only", action="store_true")
    args = parser.parse_args()
    args.dead = sorted(int(number) for number in args.dead.split(","))
    interruptible()
    OUT.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    model = on_model(args.dead)
    lacking = [] if args.model_only else missing()
    if lacking:
        print("The lab cannot run on this machine:\n  " + "\n  ".join(lacking))
        return 2
    rows = [] if args.model_only else on_lab(args)
    report = {"model": model, "lab": rows, "wall_s": round(time.monotonic() - began)}
    (OUT / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(last_line(args.hosts, rows, model))
    return 0


def last_line(hosts: int, rows: list[Row], model: list[Row]) -> str:
    """Of the fewest dead; all else is in the table."""
    words = [
        f"{row['kind']}_{what}={row[what]:.{1 if what in ('seconds', 'cpu_s') else 0}f}"
        for row in rows[:3]
        for what in WHAT
        if what in row
    ]
    first = model[0]
    words += [f"model_s={first['observe_s'] + first['decide_s']:.2f}", f"model_mb={first['mb']:.0f}"]
    return f"bench-slice: hosts={hosts} " + " ".join(words)


if __name__ == "__main__":
    sys.exit(main())
