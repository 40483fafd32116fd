"""The demo's report: the checker's verdict, and beside it what the playbooks said."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lab import checker, rawlog
from lab.names import REPO

from .plays import Ended

FILE = REPO / "build" / "demo" / "checked.json"
# Of what a drain says about a VM, the part that is worth keeping.
WORDS = (
    "strategy",
    "decided_by",
    "way",
    "verdict",
    "source",
    "target",
    "at",
    "method",
    "attempts",
    "duration",
    "outage_ms",
    "reason",
    "message",
)
# A drain that says one of these of a VM says that it stopped it.
STOPPED = frozenset({"stopped", "saved", "cold_moved"})
# Of the collector, without a tick: not much for a guest that ticks seldom, on a busy machine.
SOME_BEATS = 3
HURT = ("lost", "twice", "gap", "paused", "disk_errors", "memory_errors", "unreadable_lines")


def check(raw: Path, drained: set[str], say: Callable[[str], None] = print) -> dict[str, Any]:
    """The checker's report of now: the collector's next heartbeat is waited for.

    So is what becomes of a guest that has not ticked for a while: it ticks again, or is silent. `say`: for whom, every
    half minute.
    """
    said = time.monotonic()
    while True:
        rawlog.wait_for_heartbeat(raw)
        report = checker.check(raw, drained)
        guests = report["guests"]
        slow = [guest["name"] for guest in guests if guest["ticking"] and guest["beats_since"] > SOME_BEATS]
        if not slow:
            return report
        if time.monotonic() - said > 30:
            said = time.monotonic()
            say(f"the checker waits for the next tick of {', '.join(slow)}")


def said(runs: Mapping[str, Ended]) -> dict[str, list[dict[str, Any]]]:
    """VM -> what each drain and restore said of it, in order."""
    out: dict[str, list[dict[str, Any]]] = {}
    for name, run in runs.items():
        for result in run.drains:
            for row in result.get("vms", []):
                words = {key: row.get(key) for key in WORDS}
                phase = result.get("phase")
                out.setdefault(row["name"], []).append({"run": name, "host": result["host"], "host_is": phase, **words})
    return out


def disagreements(report: Mapping[str, Any], words: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """Where the playbooks' word is not what the raw log shows."""
    out = []
    for guest in report["guests"]:
        for row in words.get(guest["name"], []):
            name, target = guest["name"], row["at"]
            if row["verdict"] in ("moved", "cold_moved") and target not in guest["hosts"]:
                out.append(f"{name}: said to be moved to {target}, never ticked there")
        if guest["name"] not in words:
            out.append(f"{guest['name']}: no drain spoke of it")
    seen, announced = stopped(report), announced_stops(words)
    out += [f"{name}: said to be stopped, never stopped" for name in sorted(announced - seen)]
    out += [f"{name}: stopped, and no drain said so" for name in sorted(seen - announced)]
    return out


def stopped(report: Mapping[str, Any]) -> set[str]:
    """VMs that were stopped by the raw log, even if they run again since."""
    return {guest["name"] for guest in report["guests"] if guest["stops"]}


def announced_stops(words: Mapping[str, list[dict[str, Any]]]) -> set[str]:
    """VMs that a drain said it stopped."""
    return {name for name, rows in words.items() if any(r["verdict"] in STOPPED for r in rows)}


def write(report: Mapping[str, Any], words: Mapping[str, list[dict[str, Any]]], **more: Any) -> None:
    """Each VM: the checker's verdict and what was said of it."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    vms = [{**guest, "said": words.get(guest["name"], [])} for guest in report["guests"]]
    text = json.dumps({"totals": report["totals"], **more, "vms": vms}, indent=1)
    FILE.write_text(text + "\n", encoding="utf-8")


def last_line(totals: Mapping[str, int], nodes: int, wall_s: float) -> str:
    """All of it from the checker, but for the number of nodes and the wall time."""
    return f"demo: nodes={nodes} {checker.line_of(dict(totals))} wall_s={wall_s:.0f}"


def upgrade_line(totals: Mapping[str, int], nodes: int, upgraded: int) -> str:
    """`upgraded`: hosts on which a newer hypervisor was read than before."""
    vms, _space, rest = checker.line_of(dict(totals)).partition(" ")
    return f"demo-upgrade: nodes={nodes} {vms} upgraded={upgraded} {rest}"
