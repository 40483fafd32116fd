"""A lab whose host-a has guests and dies; what the playbooks are given; and what the guests' logs say afterwards."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import readme
from demo import plays, report

from lab import GuestSpec, Lab

AGENT = Path(__file__).resolve().parents[1] / "lab" / "fence_lab"
HOST = "host-a"


def guests() -> list[GuestSpec]:
    """Eight on host-a: six that can run elsewhere, one with a local disk, one whose group has a member elsewhere."""
    movable = [GuestSpec(f"web{n}", disks=[("shared", 8)], autostart=True) for n in range(6)]
    return [
        *movable,
        GuestSpec("local", disks=[("local", 8)], autostart=True),
        GuestSpec("batch", disks=[("shared", 8)], group="batch"),
    ]


def start(lab: Lab, specs: list[GuestSpec]) -> list[str]:
    for spec in specs:
        lab.run(HOST, spec)
    names = [spec.name for spec in specs]
    lab.wait_ticking(names)
    return names


def fence(lab: Lab, how: str = "") -> dict[str, Any]:
    """The variable of the host. `how`: what the agent does wrong."""
    options = {"lab": lab.paths.name, "plug": HOST, "how": how, "password": "S3cret-of-the-BMC"}
    patience = 8 if how in ("hangs", "leaves_on") else 60
    return {"maintenance_fence": {"agent": str(AGENT), "options": options, "timeout": patience}}


def typed(number: int) -> list[str]:
    """The options of a command of the page "A host died", as it stands there: the host has the same name here."""
    return shlex.split(readme.typed("docs/dead-host.md")[number])[2:]


def recover(lab: Lab, **variables: Any) -> plays.Ended:
    return plays.run(lab, "recover", variables, *typed(0))


def protect(lab: Lab, **variables: Any) -> None:
    ended = plays.run(lab, "protect", variables, *typed(2))
    if ended.code:
        raise RuntimeError(f"protect ended with {ended.code}: {ended.text[-2000:]}")


def cut_power(lab: Lab, names: list[str], quietly: bool = True) -> None:
    """As a power supply dies. Its guests end with it, which the checker is told. `quietly`: its peers hear nothing."""
    for name in names:
        lab.announce_stop(name, f"{HOST} loses its power")
    if quietly:
        lab.unplug(HOST)
    lab.kill(HOST)


def power_back(lab: Lab) -> None:
    lab.plug(HOST)
    lab.power_on(HOST)


def seen(lab: Lab) -> list[tuple[int, str, str, str, str]]:
    """(stamp in ns, host, vm, stream, text) of the raw log."""
    out = []
    with open(lab.paths.raw / "ticks.log", encoding="ascii", errors="replace") as stream:
        for line in stream:
            words = line.rstrip("\n").split(" ", 5)
            if len(words) == 6:
                out.append((int(words[0]), words[1], words[2], words[3], words[5][1:]))
    return out


def starts(lab: Lab, since: int) -> dict[str, list[tuple[int, str]]]:
    """VM -> (stamp, host) of each QEMU process that came after that moment."""
    found: dict[str, list[tuple[int, str]]] = {}
    for stamp, host, vm, stream, text in seen(lab):
        if stream == "Q" and stamp > since and text == "there":
            found.setdefault(vm, []).append((stamp, host))
    return found


def event(lab: Lab, text: str, host: str = HOST) -> int:
    """When it last happened to the host; 0: never."""
    return max((s for s, h, _vm, k, t in seen(lab) if k == "H" and h == host and t == text), default=0)


def hurt(lab: Lab) -> Mapping[str, int]:
    totals = report.check(lab.paths.raw, set())["totals"]
    return {key: totals[key] for key in ("lost", "twice", "disk_errors", "memory_errors")}
