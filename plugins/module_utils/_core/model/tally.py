"""The one count of what became of VMs: table, report, JUnit, set_stats, textfile, events and lines have it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .record import Ending

# Each verdict counts once, so that the figures of a host add up to its VMs.
_COUNTS = {
    "moved": (Ending.MOVED.value,),
    "cold_moved": (Ending.COLD_MOVED.value,),
    "stopped": (Ending.STOPPED.value, Ending.SAVED.value),
    "off": (Ending.OFF.value, Ending.GONE.value),
    "kept": ("pending", Ending.BLOCKED.value, Ending.LOST.value, Ending.SKIPPED.value, Ending.RESTORED.value),
}
COUNTED = tuple(_COUNTS)
Tally = dict[str, int]


def tally(vms: Iterable[Mapping[str, Any]]) -> Tally:
    """Count the rows that a drain returns: `vms` in all, and of them `moved` (live), `cold_moved`, `stopped` (or
    saved), `off` (were off, or gone), `kept` (on the host). `outage_ms`: the longest; missing if none is known."""
    rows = list(vms)
    verdicts = [row["verdict"] for row in rows]
    found = {name: sum(verdicts.count(one) for one in of) for name, of in _COUNTS.items()}
    outages = [int(row["outage_ms"]) for row in rows if row.get("outage_ms") is not None]
    return {"vms": len(rows), **found, **({"outage_ms": max(outages)} if outages else {})}


def undone(restored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a restore, with what the drain before it had made of each VM. `restored`: its result."""
    started = {one["name"] for one in restored.get("outcomes") or () if one["outcome"] == "started"}
    rows = [dict(row) for row in restored.get("vms") or ()]
    for row in rows:
        if row["name"] in started and row["verdict"] == Ending.RESTORED.value:
            row["verdict"] = Ending.STOPPED.value
    return rows


def together(tallies: Iterable[Mapping[str, int]]) -> Tally:
    """Add up the tallies of several hosts; `outage_ms` is the longest of all."""
    known = list(tallies)
    found = {name: sum(one.get(name, 0) for one in known) for name in ("vms", *COUNTED)}
    outages = [one["outage_ms"] for one in known if "outage_ms" in one]
    return {**found, **({"outage_ms": max(outages)} if outages else {})}


def renewed(known: Mapping[str, int], new: Mapping[str, int]) -> Tally:
    """After the work the drain is asked again. A host that was installed anew in it knows of no VM any more."""
    found = {**known, **new} if new.get("vms", 0) >= known.get("vms", 0) or "vms" not in new else dict(known)
    outages = [one["outage_ms"] for one in (known, new) if "outage_ms" in one]
    return {**found, **({"outage_ms": max(outages)} if outages else {})}


def words(counted: Mapping[str, int]) -> str:
    """Say in words which numbers are above 0: "7 moved, 1 moved cold, 2 stopped"; empty: none is."""
    names = {name: name for name in COUNTED} | {"cold_moved": "moved cold", "off": "off before"}
    return ", ".join(f"{counted[name]} {names[name]}" for name in COUNTED if counted.get(name))


__all__ = ["COUNTED", "Tally", "renewed", "tally", "together", "undone", "words"]
