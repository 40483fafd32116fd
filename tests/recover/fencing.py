"""make test-fencing: a host that is dead, or seems so, and what proves it or does not. Nothing may run twice.

Named cases on a lab of real libvirtd hosts, one after another on the same host-a, with the commands of the page "A host
died"; then seeded tries on the bed, which is the real code above hosts in memory. What was started is read from the
guests' raw logs by the lab's checker, and from the bed's log by `judge`: neither knows the product.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo import plays

from lab import GuestSpec, Lab, LabError, missing
from lab.names import REPO, lab_name
from lab.procs import interruptible
from recover import case, tries

TRIES = 50
GUESTS = ("web0", "web1")


class Cases:
    """`since`: when the lab's guests ran, after which each QEMU process elsewhere is a start."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.count, self.wrong = lab, 0, list[str]()
        self.dead = ""  # when a run found it dead, as printed
        self.since = time.monotonic_ns()

    def case(self, name: str, words: str, starts: bool = False, **variables: Any) -> plays.Ended:
        """One command. `words`: what it has to say. `starts`: whether it may start anything."""
        before = {vm: len(found) for vm, found in case.starts(self.lab, self.since).items()}
        ended = case.recover(self.lab, **variables)
        text = " ".join(ended.text.split())
        begun = [vm for vm, found in case.starts(self.lab, self.since).items() if len(found) > before.get(vm, 0)]
        self.count += 1
        said = words in text
        good = said and (bool(begun) == starts)
        print(
            f"{'ok' if good else 'WRONG'}  {name}: {words if said else text[-900:]}; started: {len(begun)}", flush=True
        )
        if not good:
            self.wrong.append(name)
        found = re.search(r"maintenance_confirm_off=host-a@(\S+Z)", text)
        self.dead = found.group(1) if found else self.dead
        return ended


def on_files(lab: Lab, shared: Path, guests: Mapping[str, str]) -> None:
    """Guests (name -> host) whose disks are files that each host sees: so their peers see them written to."""
    for name, host in guests.items():
        with open(shared / name, "wb") as file:
            file.truncate(8 << 20)
        disk = (
            "<disk type='file' device='disk'><driver name='qemu' type='raw' cache='none'/>"
            f"<source file='{shared}/{name}'/><target dev='vda' bus='virtio'/></disk>"
        )
        lab.run(host, GuestSpec(name, disks=[("given", 8)], devices_xml=disk, autostart=True))
    lab.wait_ticking([*guests])


def in_lab(lab: Lab, shared: Path) -> Cases:
    on_files(lab, shared, dict.fromkeys(GUESTS, case.HOST))
    case.protect(lab, maintenance_shared_paths=[str(shared)])
    cases = Cases(lab)

    def agent(how: str = "") -> dict[str, Any]:
        return case.fence(lab, how)

    lab.unplug(case.HOST)
    cases.case("only cut off from the network", "host-a is cut off, and its guests are alive")
    cases.case(
        "fence says off, and its guests tick", "says that host-a is off, but its guests are alive", **agent("lies")
    )
    cases.case("status is on after off", "its status is still on", **agent("leaves_on"))
    lab.plug(case.HOST)
    cases.case("it is back", "There is nothing to recover", **agent())
    cases.case("an old confirmation", "lives", maintenance_confirm_off=f"host-a@{cases.dead}")
    lab.unplug(case.HOST)
    for name in GUESTS:
        lab.announce_stop(name, "the agent switches its host off")
    cases.case("agent dies after off", "failed at off", **agent("dies"))
    cases.case("not fenced", "Nothing proves that it is off, so nothing was started")
    old, dead = "2026-01-01T00:00:00Z", cases.dead
    cases.case("confirmed for another host", "is about host-b", maintenance_confirm_off=f"host-b@{dead}")
    cases.case("confirmed for another hour", "was found dead at", maintenance_confirm_off=f"host-a@{old}")
    cases.case("wrong password", "Unable to connect/login", **agent("refuses"))
    cases.case("agent hangs", "did not answer status within", **agent("hangs"))
    tasks = lab.paths.logs / "says-on.yml"
    tasks.write_text("- ansible.builtin.set_fact:\n    maintenance_off: 'on'\n", encoding="utf-8")
    cases.case("tasks read on", "maintenance_off is 'on'", maintenance_fence_tasks=str(tasks))
    lab.kill("host-c")
    cases.case("too few peers", "host-c could not look", **agent())
    lab.power_on("host-c")
    cases.case("proven", "runs on host-", starts=True, **agent())
    lab.wait_ticking(list(GUESTS))
    case.power_back(lab)
    cases.case("it comes back with autostart on", "its definition here is removed")
    return cases


def main() -> int:
    lacking = missing()
    if lacking:
        print("The cases cannot run on this machine:\n  " + "\n  ".join(lacking), file=sys.stderr)
        return 2
    name = f"{lab_name()[:24]}-fencing"
    shared = REPO / "build" / f"shared-{name}"
    interruptible()
    try:
        Lab.down(name)
        shutil.rmtree(shared, ignore_errors=True)
        shared.mkdir(parents=True)
        lab = Lab.up(name, 3)
        cases = in_lab(lab, shared)
        proven, begun = case.event(lab, "read as off"), case.starts(lab, cases.since)
        unproven = [vm for vm, found in begun.items() if not proven or any(stamp < proven for stamp, _host in found)]
        hurt = case.hurt(lab)
    except LabError as error:
        print(f"test-fencing: the lab failed: {error}", file=sys.stderr)
        return 1
    finally:
        Lab.down(name)
        shutil.rmtree(shared, ignore_errors=True)
    print(f"lab: cases={cases.count} {' '.join(f'{key}={number}' for key, number in hurt.items())}")
    without, twice = tries.tries(TRIES)
    print(f"tries: on the bed (the real core and libvirt code above hosts in memory), seeds 0 to {TRIES - 1}")
    without, twice = without + len(unproven), twice + hurt["twice"]
    print(f"test-fencing: cases={cases.count} tries={TRIES} started_without_proof={without} twice={twice}", flush=True)
    return 1 if cases.wrong or without or any(hurt.values()) or twice else 0


if __name__ == "__main__":
    sys.exit(main())
