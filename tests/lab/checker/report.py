"""Every guest of a raw log and the totals; as text for people, or all of it as JSON."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from .judge import Judge
from .records import Record, processes_end_with_hosts, read_log, read_manifest

VERDICTS = ("live", "stopped", "blocked", "lost", "twice", "gap", "panic", "paused")


def check(raw: Path, drained: set[str]) -> dict:
    """The report: totals, and every guest."""
    records, bad = read_log(raw / "ticks.log")
    records = processes_end_with_hosts(records)
    end = records[-1].stamp if records else 0.0
    by_guest: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_guest[record.vm].append(record)
    spoke = [record.vm for record in records if record.stream == "S"]
    wanted = dict.fromkeys([*read_manifest(raw / "manifest.jsonl"), *spoke])
    beats = [r.stamp for r in records if (r.stream, r.text) == ("C", "alive")]
    guests = [Judge(name, by_guest.get(name, []), drained, end, beats).judge() for name in wanted]
    totals: dict[str, int] = {"vms": len(guests)}
    for verdict in VERDICTS:
        totals[verdict] = sum(guest.verdict == verdict for guest in guests)
    totals["disk_errors"] = sum(bool(guest.disk_errors) for guest in guests)
    totals["memory_errors"] = sum(bool(guest.memory_errors) for guest in guests)
    totals["panics"] = sum(bool(guest.panics) for guest in guests)
    totals["running_again"] = sum(guest.running_again for guest in guests)
    totals["longest_pause_ms"] = max((guest.longest_pause_ms for guest in guests), default=0)
    totals["unreadable_lines"] = len(bad)
    return {"totals": totals, "guests": [asdict(guest) for guest in guests]}


def line_of(totals: dict[str, int]) -> str:
    """The totals in one line; what is rare only when there is something to say."""
    first = ("vms", "live", "stopped", "blocked", "lost", "twice", "disk_errors", "memory_errors", "longest_pause_ms")
    rest = [key for key in ("gap", "panic", "paused", "panics", "unreadable_lines") if totals[key]]
    return " ".join(f"{key}={totals[key]}" for key in (*first, *rest))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="checker", description="Tells from the raw log alone what became of every guest."
    )
    parser.add_argument("raw", type=Path, help="the folder with ticks.log")
    parser.add_argument("--json", action="store_true", help="the whole report")
    parser.add_argument("--drained", default="", help="hosts that were drained, by comma")
    args = parser.parse_args(argv)
    if not (args.raw / "ticks.log").exists():
        parser.error(f"no ticks.log in {args.raw}")
    report = check(args.raw, {host for host in args.drained.split(",") if host})
    totals = report["totals"]
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        for guest in report["guests"]:
            damage = guest["disk_errors"][:1] + guest["memory_errors"][:1] + guest["panics"][:1]
            if damage or guest["verdict"] not in ("live", "stopped", "blocked"):
                notes = dict.fromkeys([*guest["reasons"], *damage])
                print(f"{guest['name']}: {guest['verdict']}: {'; '.join(notes)}")
        print("check: " + line_of(totals))
    bad = ("lost", "twice", "gap", "paused", "disk_errors", "memory_errors", "unreadable_lines")
    return 1 if any(totals[key] for key in bad) else 0
