"""make demo-upgrade: three libvirt hosts with real VMs go from one release of Debian to the next, host after host.

The roll empties a host, its task file upgrades it, and it is rebooted: what was saved on the old QEMU wakes up on the
new one, and VMs move between the two. In the end all go back to where they were. The separate checker tells
from the guests' raw logs what became of each VM. With `--fails` the upgrade cannot be made on the second host at
first: the roll stops, with one host upgraded, one empty and one not begun. What was wrong is repaired, and the same
command carries it on.
"""

from __future__ import annotations

import argparse
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo import guests, plays, report, traces
from demo.run import left_behind, play, say, verdict
from lab import Host, Lab, LabError
from lab.once import in_a_lab
from lab.release import OWN

TASKS = Path(__file__).with_name("upgrade.yml")
TO = "trixie"
HOSTS = 3


def qemu(host: Host) -> tuple[int, ...]:
    """The hypervisor that the host's libvirt starts now."""
    text = host.virsh("version")
    found = re.search(r"Running hypervisor: QEMU ([\d.]+)", text)
    if found is None:
        raise LabError(f"{host.name} does not say which QEMU it has: {text}")
    return tuple(int(part) for part in found[1].split("."))


def roll(lab: Lab, fails: bool) -> plays.Ended:
    variables: dict[str, Any] = {
        "maintenance_hosts": "all",
        "maintenance_tasks": str(TASKS),
        "maintenance_reason": "upgrade",
        "maintenance_move_back": True,
        "drain_allow_stop": True,
        "demo_release": TO,
        "demo_fails": fails,
        "demo_choices": guests.ON_NOT_MIGRATABLE,
        "drain_on_not_migratable": "{{ demo_choices[inventory_hostname] }}",
    }
    return play(lab, "rolling_maintenance", variables)


def stopped_half_way(lab: Lab, before: dict[str, tuple[int, ...]]) -> list[str]:
    """What is wrong with the fleet after the upgrade failed on the second host."""
    hosts = list(lab.hosts.values())
    new = {host.name for host in hosts if qemu(host) > before[host.name]}
    out = {host.name for host in hosts if "cordon" in traces.volumes(host)}
    empty = {host.name for host in hosts if not traces.running(host)}
    say(f"upgraded: {_listed(new)}; out of service: {_listed(out)}; empty: {_listed(empty)}")
    found = report.check(lab.paths.raw, out)
    say(f"checker: {report.checker.line_of(found['totals'])}")
    wrong = []
    if len(new) != 1 or len(out) != 1 or new & out or not out <= empty:
        wrong.append("the upgrade that failed did not leave one host upgraded, one empty and one not begun")
    if any(found["totals"][key] for key in report.HURT):
        wrong.append("the upgrade that failed hurt a VM")
    return wrong


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def away(lab: Lab, stopped: set[str]) -> list[str]:
    """VMs that did not go back to where they were. Those that were stopped for a move stay where they are."""
    return [
        f"{spec.name} was not moved back to {host}"
        for host, specs in guests.guests().items()
        for spec in specs
        if spec.name not in {*stopped, *traces.defined(lab.host(host))}
    ]


def demo(lab: Lab, fails: bool) -> int:
    names = guests.start(lab)
    lab.wait_ticking(names)
    before = {name: qemu(host) for name, host in lab.hosts.items()}
    say(f"{len(names)} VMs run and tick; the hosts have QEMU " + ", ".join(_dotted(had) for had in before.values()))
    wrong, rolls = [], {}
    if fails:
        say("-- the roll: its tasks upgrade each host, and on the second they fail")
        rolls["failed roll"] = roll(lab, fails=True)
        wrong += [] if rolls["failed roll"].code == 2 else [f"the roll ended with {rolls['failed roll'].code}, not 2"]
        wrong += stopped_half_way(lab, before)
        say("-- it can be made now; the same command again")
    else:
        say("-- the roll: drain, upgrade, reboot and restore each host; then VMs go back to where they were")
    rolls["roll"] = roll(lab, fails=False)
    wrong += [] if rolls["roll"].code == 0 else [f"the roll ended with {rolls['roll'].code}"]
    try:
        lab.wait_ticking(names)
    except LabError as error:
        say(str(error))
    after = {name: qemu(host) for name, host in lab.hosts.items()}
    say("the hosts have QEMU " + ", ".join(_dotted(has) for has in after.values()))
    upgraded = [name for name in lab.hosts if after[name] > before[name]]
    wrong += [f"{name} was not upgraded" for name in lab.hosts if name not in upgraded]
    say("the checker reads the logs of all guests")
    found = report.check(lab.paths.raw, set(), say)
    wrong += left_behind(lab) + away(lab, report.stopped(found))
    words = report.said(rolls)
    wrong += report.disagreements(found, words)
    report.write(found, words, wrong=wrong)
    return verdict(found, wrong, report.upgrade_line(found["totals"], len(lab.hosts), len(upgraded)))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo-upgrade", description=__doc__.splitlines()[0])
    parser.add_argument("--fails", action="store_true", help="on the second host the upgrade fails at first")
    args = parser.parse_args()
    old = {f"host-{letter}": OWN for letter in "abc"}
    return in_a_lab("demo-upgrade", HOSTS, partial(demo, fails=args.fails), old, TO)


if __name__ == "__main__":
    sys.exit(main())
