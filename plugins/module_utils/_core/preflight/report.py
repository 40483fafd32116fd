"""The preflights of several hosts as one table for people, and as rows for programs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..model.columns import columns
from ..reasons.reason import Severity
from .check import line

Row = dict[str, Any]


def report(results: Mapping[str, Mapping[str, Any]], fail_on: str) -> Row:
    """`results`: by host, what the module has returned of it.

    A host that could not be checked is blocked, whatever `fail_on` is. `lines` is the table.
    """
    hosts = [_host(name, result, fail_on) for name, result in results.items()]
    findings = _merged(results)
    blocked = [host["name"] for host in hosts if host["state"] != "ready"]
    message = _message(len(hosts), blocked)
    return {
        "hosts": hosts,
        "findings": findings,
        "blocked": blocked,
        "ready": bool(hosts) and not blocked,
        "message": message,
        "lines": [*_host_lines(hosts), *_finding_lines(findings, hosts), message],
    }


def _host(name: str, result: Mapping[str, Any], fail_on: str) -> Row:
    """`state`: ready, blocked, or unknown: then `error` says why."""
    found = {"name": name, "vms_checked": None, "blockers": 0, "warnings": 0, "error": ""}
    if "findings" not in result:
        why = str(result.get("msg") or "no answer").strip().splitlines()[0]
        cut = "cannot be reached: " if result.get("unreachable") else ""
        return {**found, "state": "unknown", "error": cut + why}
    stops = fail_on != "nothing" and bool(result[fail_on])
    return {
        **found,
        "state": "blocked" if stops else "ready",
        "vms_checked": result["vms_checked"],
        "blockers": len(result["blockers"]),
        "warnings": len(result["cautions"]),
    }


def _merged(results: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Each finding once, with all hosts on which it was found: blockers first."""
    found: dict[tuple[str, ...], Row] = {}
    for name, result in results.items():
        for row in result.get("findings") or ():
            key = tuple(str(row[part]) for part in ("severity", "code", "subject", "message"))
            merged = found.setdefault(key, {**row, "nodes": []})
            merged.pop("node", None)
            merged["nodes"].append(name)
    rows = list(found.values())
    is_blocker = [row["severity"] == Severity.BLOCKER.value for row in rows]
    first = [row for row, blocks in zip(rows, is_blocker) if blocks]
    return first + [row for row, blocks in zip(rows, is_blocker) if not blocks]


def _message(count: int, blocked: Sequence[str]) -> str:
    if not count:
        return "No host was checked."
    if blocked:
        are = "is" if len(blocked) == 1 else "are"
        return f"{len(blocked)} of {_count(count, 'host')} {are} not ready: {', '.join(blocked)}"
    return "The host is ready" if count == 1 else f"All {count} hosts are ready"


def _host_lines(hosts: Sequence[Row]) -> list[str]:
    return columns([(host["name"], host["state"], _vms(host), _about(host)) for host in hosts], (2,))


def _vms(host: Row) -> str:
    return "-" if host["vms_checked"] is None else _count(host["vms_checked"], "VM")


def _about(host: Row) -> str:
    counts = [_count(host[key], key[:-1]) for key in ("blockers", "warnings") if host[key]]
    return host["error"] or ", ".join(counts)


def _finding_lines(findings: Sequence[Row], hosts: Sequence[Row]) -> list[str]:
    """A line for each finding, with its hosts; "all" where it was found on every host that was checked."""
    checked = [host["name"] for host in hosts if not host["error"]]
    rows = []
    for row in findings:
        everywhere = len(checked) > 1 and row["nodes"] == checked
        rows.append(("all" if everywhere else ", ".join(row["nodes"]), line(row)))
    return columns(rows)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
