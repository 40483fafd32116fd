"""make demo: roll the maintenance over three libvirt hosts with real VMs and real reboots.

First a drain that must not stop anything meets a VM that cannot move: it blocks and says why.
Then the roll, with a policy that allows what it needs: it is killed while the second host is
drained, and the same command carries it on. At the end a separate checker tells
from the guests' raw logs what became of each VM.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo import guests, plays, report, traces
from lab import Lab, LabError, missing
from lab.names import lab_name
from lab.procs import interruptible

# With the time that `make demo` took before, for packages and the virtual environment.
BEGAN = time.monotonic() - (time.time() - float(os.environ.get("MAKE_BEGAN") or time.time()))
PATCH = Path(__file__).with_name("patch.yml")
# Seconds for one play. A hang has to end; with a load of 14 on two cores 300 were not enough.
PATIENCE = 1200.0
# Left out: empty lines, skipped tasks, checks of arguments and of the connection.
NOISE = re.compile(r"^\s*$|^skipping: |^TASK \[.*(Validating arguments|Verify that)")


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGAN:6.1f} s  {text}", flush=True)


class Screen:
    """Shows a playbook's lines. A failed task shows its message once, not its whole result."""

    def __init__(self) -> None:
        self._in_error = False

    def show(self, line: str) -> None:
        head, arrow, result = line.partition(" => {")
        failed = bool(arrow) and head.startswith(("fatal:", "failed:"))
        # Since ansible-core 2.19 the message comes before the result as well.
        self._in_error = not failed and (self._in_error or line.startswith("[ERROR]: Task failed"))
        if self._in_error or NOISE.match(line):
            return
        if failed:
            line = f"{head}\n{_message('{' + result)}"
        for part in re.sub(r" \*{3,}$", "", line).splitlines():
            say(f"| {part}")


def _message(result: str) -> str:
    try:
        return str(json.loads(result).get("msg", ""))
    except ValueError:
        return result


def play(lab: Lab, playbook: str, variables: Mapping[str, Any], kill_in: str = "") -> plays.Ended:
    """`kill_in`: ansible-playbook is killed while the VMs of this host move."""
    begun, screen, middle = (plays.Play(lab, playbook, variables), Screen(), plays.MiddleOfDrain(kill_in))

    def show(line: str) -> None:
        screen.show(line)
        if kill_in and begun.running and middle(line):
            begun.signal_group(signal.SIGKILL)

    return plays.watch(begun, show, PATIENCE)


def blocked_first(lab: Lab) -> tuple[plays.Ended, list[str]]:
    """A drain that may not stop anything. What is wrong with how it went."""
    say("-- drain host-a; nothing allows a stop, so it has to block, and to say why")
    ended = play(lab, "drain", {"maintenance_hosts": "host-a"})
    wrong = []
    blocked = [row["name"] for row in ended.last.get("vms", []) if row["verdict"] == "blocked"]
    if ended.code == 0 or ended.last.get("phase") != "Blocked":
        wrong.append("the first drain did not block")
    elif blocked != ["legacy"] or ended.vm("legacy")["reason"] != "StopNotAllowed":
        wrong.append(f"the first drain blocks by {blocked}, not by legacy with StopNotAllowed")
    found = report.check(lab.paths.raw, {"host-a"})
    say(f"checker: {report.checker.line_of(found['totals'])}")
    if any(found["totals"][key] for key in report.HURT):
        wrong.append("the blocked drain hurt a VM")
    surprised = sorted(report.stopped(found))
    if surprised:
        wrong.append(f"the blocked drain, which may not stop anything, stopped {surprised}")
    return ended, wrong


def roll(lab: Lab) -> tuple[dict[str, plays.Ended], list[str]]:
    """The roll over all hosts, killed in the middle. What is wrong with how it went."""
    say("-- the roll: drain, patch, reboot and restore each host; stops are allowed where needed")
    boots = {host.name: host.boot_id for host in lab.hosts.values()}
    variables = {
        "maintenance_hosts": "all",
        "maintenance_tasks": str(PATCH),
        "maintenance_reason": "demo",
        "drain_allow_stop": True,
        "maintenance_report": str(report.FILE.parent),
        "demo_choices": guests.ON_NOT_MIGRATABLE,
        "drain_on_not_migratable": "{{ demo_choices[inventory_hostname] }}",
    }
    killed = play(lab, "rolling_maintenance", variables, kill_in="host-b")
    wrong = [] if killed.code == -signal.SIGKILL else ["the roll was over before it was killed"]
    say("-- ansible-playbook was killed while host-b was drained; the same command again")
    done = lab.host("host-a").boot_id
    ended = play(lab, "rolling_maintenance", variables)
    wrong += [] if ended.code == 0 else [f"the roll ended with {ended.code}"]
    doc = json.loads((report.FILE.parent / "report.json").read_text(encoding="utf-8"))
    if doc["outcome"] != "done" or not all(host["certificate"] for host in doc["hosts"]):
        wrong.append(f"the report of the roll says {doc['outcome']}, or lacks a certificate")
    if lab.host("host-a").boot_id != done:
        wrong.append("host-a, which was done, was rebooted again")
    for host in lab.hosts.values():
        patch = host.exec("cat /root/patched", check=False).stdout.strip()
        if patch != "patched while Drained":
            wrong.append(f"{host.name} was not patched: {patch!r}")
        if host.boot_id == boots[host.name]:
            wrong.append(f"{host.name} was not rebooted")
    return {"killed roll": killed, "roll": ended}, wrong


def left_behind(lab: Lab) -> list[str]:
    """What must be as it was before: definitions, autostart; and nothing of ours stays."""
    wrong = [f"left behind: {name}" for name in traces.claims(lab) + traces.marked(lab)]
    wrong += [f"{host.name} is still cordoned" for host in lab.hosts.values() if "cordon" in traces.volumes(host)]
    specs = [spec for specs in guests.guests().values() for spec in specs]
    places = {spec.name: [h for h in lab.hosts.values() if spec.name in traces.defined(h)] for spec in specs}
    for spec in specs:
        hosts = places[spec.name]
        if len(hosts) != 1:
            wrong.append(f"{spec.name} is defined on {[host.name for host in hosts]}")
            continue
        if (spec.name in traces.autostarted(hosts[0])) != spec.autostart:
            wrong.append(f"{spec.name}: autostart is not as before")
        if (spec.name in traces.transient(hosts[0])) == spec.persistent:
            wrong.append(f"{spec.name}: persistence is not as before")
    return wrong


def demo(lab: Lab) -> int:
    names = guests.start(lab)
    lab.wait_ticking(names)
    say(f"{len(names)} VMs run and tick")
    first, wrong = blocked_first(lab)
    rolls, more = roll(lab)
    wrong += more
    try:
        lab.wait_ticking(names)
    except LabError as error:
        say(str(error))
    wrong += left_behind(lab)
    say("the checker reads the logs of all guests")
    found = report.check(lab.paths.raw, set(lab.hosts), say)
    words = report.said({"blocked drain": first, **rolls})
    wrong += report.disagreements(found, words)
    wall = time.monotonic() - BEGAN
    report.write(found, words, wrong=wrong, wall_s=round(wall, 1))
    return verdict(found, wrong, report.last_line(found["totals"], len(lab.hosts), wall))


def verdict(found: Mapping[str, Any], wrong: list[str], last_line: str) -> int:
    """Says it, and returns the exit code."""
    say("-- the checker, from the guests' raw logs alone; the longest time between two ticks of a guest that ran,")
    say("   which is more than the pause that libvirt measures, and has no stop in it")
    for guest in found["guests"]:
        again = ", running again" if guest["running_again"] else ""
        route = " -> ".join(guest["hosts"])
        notes = "; ".join(dict.fromkeys(guest["reasons"] + guest["panics"]))
        say(
            f"{guest['name']:8} {guest['verdict']}{again}  {route}  "
            f"ticks {guest['longest_pause_ms']} ms apart at most  {notes}"
        )
    for text in wrong:
        say(f"WRONG: {text}")
    say(f"every VM: {report.FILE}")
    print(last_line, flush=True)
    return 1 if wrong or any(found["totals"][key] for key in report.HURT) else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the lab up afterwards")
    args = parser.parse_args()
    lacking = missing()
    if lacking:
        print("The demo cannot run on this machine:\n  " + "\n  ".join(lacking), file=sys.stderr)
        return 2
    interruptible()
    name = f"{lab_name()[:24]}-demo"
    try:
        Lab.down(name)
        say("three hosts are brought up: libvirtd, sshd, network, TLS each")
        return demo(Lab.up(name, 3))
    except LabError as error:
        print(f"demo: the lab failed: {error}", file=sys.stderr)
        return 1
    except TimeoutError as error:
        print(f"demo: {error}. Is the machine busy with something else?", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130
    finally:
        # A second Ctrl-C must not leave half a lab.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if args.keep:
            say(f"the lab stays up; end it with: VIRTOPS_LAB={name} make lab-down")
        else:
            Lab.down(name)


if __name__ == "__main__":
    sys.exit(main())
