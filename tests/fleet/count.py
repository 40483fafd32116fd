"""The count: every number of the last line, from the raw log alone. Nothing of the product in it.

hosts      hosts that were ever up
dead       hosts that went down without being asked, and did not come up again
drained    hosts of which a drain was said to be over (exit code 0) after a guest had ticked
           there, and on which nothing ticked and no QEMU ran from then until their restore
lost       guests that ended and should not have: by the checker, without those that died with
           a host
twice      guests that ran twice at once, by the checker
leftovers  volumes in the stores and marks in definitions, on hosts that live, after the restores

A guest died with its host if the checker calls it lost for one reason alone, that its last boot
ticks no more; its last tick was on a host that went down, and not so long before that the judge
calls it silent; and its process was there until then. It is listed. Whoever vanished earlier, or
on another host, is lost.

Two kinds of volumes are no leftovers. What names a dead host belongs to it: its claims and the
copies of its record stand for what nobody can read now. `made.*` stands as long as the copied
disk does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import checker
from lab.checker.judge import SILENT_BEATS
from lab.checker.records import Record, processes_end_with_hosts, read_log

from .evidence import BEGINS, FILE, OVER, RESTORED

KEPT = "made."
TICK = re.compile(r"T [0-9a-f]+ \d+ ;")
# What follows on what, for a host that counts as drained.
NEXT = {("ticked", BEGINS), (BEGINS, OVER), (OVER, RESTORED)}
OTHER_HURT = ("gap", "paused", "disk_errors", "memory_errors", "unreadable_lines")


@dataclass
class Count:
    """The numbers, and what they are made of."""

    hosts: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    drained: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    of_the_dead: list[str] = field(default_factory=list)
    died_with_host: dict[str, str] = field(default_factory=dict)
    hurt: list[str] = field(default_factory=list)
    panicked: list[str] = field(default_factory=list)

    def line(self, wall_s: float) -> str:
        keys = ("hosts", "dead", "drained", "lost", "twice", "leftovers")
        numbers = " ".join(f"{key}={len(getattr(self, key))}" for key in keys)
        return f"test-fleet: {numbers} wall_s={wall_s:.0f}"

    def wrong(self, hosts: int, dead: Iterable[str], drained: Iterable[str], doomed: Mapping[str, str]) -> list[str]:
        """Where a number, or what it is made of, is not as it has to be."""
        out = [f"lost: {text}" for text in self.lost] + [f"twice: {text}" for text in self.twice]
        out += [f"left behind: {text}" for text in self.leftovers] + self.hurt
        for what, have, want in (
            ("hosts", len(self.hosts), hosts),
            ("dead", self.dead, sorted(dead)),
            ("drained", self.drained, sorted(drained)),
            ("died with their hosts", self.died_with_host, dict(doomed)),
        ):
            out += [f"{what}: {have}, not {want}"] if have != want else []
        return out


def count(raw: Path) -> Count:
    """Of the raw log of a lab, and what `evidence` added to it."""
    records, _bad = read_log(raw / "ticks.log")
    records = processes_end_with_hosts(records)
    ends = _deaths(records)
    out = Count(
        hosts=sorted({r.host for r in records if r.stream == "H" and r.text.startswith("up ")}),
        dead=sorted(ends),
        drained=_drained(records),
    )
    report = checker.check(raw, set())
    for guest in report["guests"]:
        _judge(out, guest, records, ends)
    out.hurt += [f"{key}={report['totals'][key]}" for key in OTHER_HURT if report["totals"][key]]
    _left(out, raw / FILE)
    return out


def _deaths(records: list[Record]) -> dict[str, float]:
    """Hosts that are down at the end, and since when."""
    ends: dict[str, float] = {}
    for record in records:
        if record.stream == "H" and record.text.startswith("up "):
            ends.pop(record.host, None)
        elif record.stream == "H" and re.match("kill|died", record.text):
            ends.setdefault(record.host, record.stamp)
    return ends


def _drained(records: list[Record]) -> list[str]:
    """Hosts that were emptied, and stayed empty until their restore."""
    state: dict[str, str] = {}
    there: dict[str, set[str]] = {}
    for record in records:
        host, was = record.host, state.get(record.host)
        if record.stream == "S" and TICK.match(record.text):
            state[host] = "ticked" if was in (None, OVER) else was
        elif record.stream == "Q" and record.text == "there":
            there.setdefault(host, set()).add(record.vm)
            if was == OVER:
                state[host] = "ticked"
        elif record.stream == "Q":
            there.setdefault(host, set()).discard(record.vm)
        elif record.stream == "H" and (was, record.text) in NEXT:
            # The census is a quarter of a second old: what is gone is seen by the restore at last.
            state[host] = "ticked" if record.text == RESTORED and there.get(host) else record.text
    return sorted(host for host, word in state.items() if word == RESTORED)


def _judge(out: Count, guest: Mapping[str, Any], records: list[Record], ends: Mapping[str, float]) -> None:
    name, verdict = guest["name"], guest["verdict"]
    if verdict == "twice":
        out.twice.append(f"{name}: {guest['reasons']}")
    elif verdict == "lost":
        host = _died_with(guest, records, ends)
        if host:
            out.died_with_host[name] = host
        else:
            out.lost.append(f"{name}: {guest['reasons']}")
    elif verdict in ("stopped", "blocked"):
        out.hurt.append(f"{name}: {verdict}: {guest['reasons']}")
    if guest["stops"] and verdict != "stopped":
        out.hurt.append(f"{name} was stopped: {guest['stops']}")
    if guest["panics"]:
        out.panicked.append(f"{name}: {guest['panics'][0]}")


def _died_with(guest: Mapping[str, Any], records: list[Record], ends: Mapping[str, float]) -> str | None:
    """The host with which the guest died; None if it was lost otherwise."""
    if guest["ticks"] == 0 or len(guest["reasons"]) != 1 or guest["panics"]:
        return None
    host = guest["hosts"][-1]
    mine = [r for r in records if r.vm == guest["name"]]
    last = max(r.stamp for r in mine if r.stream == "S" and r.host == host)
    end = ends.get(host)
    if end is None or sum(last < beat < end for beat in _beats(records)) >= SILENT_BEATS:
        return None
    # The end is written down before it comes: what is gone by then has not gone with the host.
    gone = [r.stamp for r in mine if (r.stream, r.host, r.text) == ("Q", host, "gone")]
    return host if gone and gone[-1] >= end else None


def _beats(records: list[Record]) -> list[float]:
    """When the collector looked. Where it does not get to run, nothing else may either."""
    return [r.stamp for r in records if (r.stream, r.text) == ("C", "alive")]


def _left(out: Count, path: Path) -> None:
    """What stood at the last survey of each host that lives."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    last = {row["host"]: row for row in rows if row["host"] not in out.dead}
    missing = set(out.hosts) - set(out.dead) - set(last)
    out.hurt += [f"nobody saw what is left on {host}" for host in sorted(missing)]
    for host, row in last.items():
        out.leftovers += [f"{host}:{path}" for path in row["marked"]]
        for name in row["store"]:
            if set(name.split(".")) & set(out.dead):
                out.of_the_dead.append(f"{host}:{name}")
            elif not name.startswith(KEPT):
                out.leftovers.append(f"{host}:{name}")
