"""The report of a roll: one document that grows with what its actions return. Pure.

It is complete at any time, so that a roll that fails, is aborted or is killed has one too. Its keys are documented in
docs/report.md; a change of their meaning changes SCHEMA.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ..model.tally import tally, together, undone
from . import table
from .record import Stage, State

SCHEMA = 1
KIND = "virtops.maintenance roll report"
Doc = dict[str, Any]
# Of a VM in the result of a drain what is kept.
_VM = (
    *("name", "uuid", "verdict", "source", "target", "at", "mode", "method", "attempts", "start", "end"),
    *("duration", "outage_ms", "processed_mib", "steps", "reason", "plane", "message", "remedy", "judged"),
)
# Verdicts that leave a drain undone.
_LEFT = frozenset({"blocked", "lost", "pending"})
_FAILED = frozenset({Stage.FAILED.value})


def empty() -> Doc:
    return {"schema": SCHEMA, "kind": KIND, "roll": None, "outcome": "", "why": "", "totals": {}, "hosts": []}


def with_roll(doc: Doc, roll: Mapping[str, Any], now: str) -> Doc:
    """`roll`: its record, in result form. `now`: UTC. Another roll begins a new report."""
    same = doc.get("schema") == SCHEMA and (doc.get("roll") or {}).get("id") == roll["id"]
    new = copy.deepcopy(doc) if same else empty()
    new["why"] = roll.get("paused", "")
    kept = ("id", "state", "requester", "reason", "begun", "max_unavailable", "max_unavailable_per", "max_failures")
    new["roll"] = {**{key: roll[key] for key in kept}, "idle": roll.get("idle", 0)}
    before = {host["name"]: host for host in new["hosts"]}
    new["hosts"] = [_host(before.get(entry["name"]), entry) for entry in table.in_order(roll["hosts"])]
    return _counted(new, now)


def _host(old: Mapping[str, Any] | None, entry: Mapping[str, Any]) -> Doc:
    host: Doc = {"vms": [], "certificate": None, "certified": "", "findings": [], "stages": [], **(old or {})}
    since = entry.get("since", "")
    begun = entry.get("begun", "")
    stages = list(host["stages"])
    last = stages[-1] if stages else {}
    if entry["stage"] != Stage.WAITING.value and (last.get("stage"), last.get("since")) != (entry["stage"], since):
        stages.append({"stage": entry["stage"], "since": since})
    ended = since if Stage(entry["stage"]) in table.ENDED else ""
    message = entry.get("message", "")
    return {
        **host,
        "name": entry["name"],
        "stage": entry["stage"],
        "begun": begun,
        "ended": ended,
        "seconds": table.seconds(begun, ended, entry.get("idle", 0)),
        "idle": entry.get("idle", 0),
        "message": message,
        "failed_in": entry.get("failed_in"),
        "stages": stages,
        "tally": dict(entry.get("tally") or {}),
    }


def with_drain(doc: Doc, name: str, result: Mapping[str, Any], foreseen: Sequence[Mapping[str, Any]], now: str) -> Doc:
    """`result`: of a drain of this host. `foreseen`: what a plan said of its VMs, as plan_actual returns it."""
    new = copy.deepcopy(doc)
    host = _of(new, name)
    if host is None or "vms" not in result:
        return doc
    planned = {row["name"]: row for row in foreseen}
    now_known = {row["name"] for row in result["vms"]}
    # A host that was installed anew in its work is asked again, and knows of no VM any more.
    before = [vm for vm in host["vms"] if vm["name"] not in now_known and vm["verdict"] not in _LEFT]
    host["vms"] = before + [_vm(row, planned.get(row["name"])) for row in result["vms"]]
    if result.get("certificate"):
        host["certificate"], host["certified"] = result["certificate"], now
    host["findings"] = [dict(finding) for finding in result.get("findings") or ()]
    host["phase"] = result.get("phase", "")
    return _counted(new, now)


def with_restore(doc: Doc, name: str, result: Mapping[str, Any], now: str) -> Doc:
    """`result`: of the restore of this host: what became of each of its VMs there. What an abort gives back says there
    too how far its drain came, which was cut off and told nothing itself."""
    new = copy.deepcopy(doc)
    host = _of(new, name)
    if host is None:
        return doc
    outcomes = {row["name"]: row for row in result.get("outcomes") or ()}
    outages = {row["name"]: row.get("outage_ms") for row in result.get("vms") or ()}
    known = {vm["name"]: vm for vm in host["vms"] if vm["verdict"] != "pending"}
    if host["stage"] == Stage.GIVEN_BACK.value:
        rows = {row["name"]: _vm(row, None) for row in undone(result)}
        host["vms"] = list({**rows, **known}.values())
    for vm in host["vms"]:
        if vm["name"] in outcomes:
            vm["after"] = outcomes[vm["name"]]["message"]
        if outages.get(vm["name"]) is not None:
            vm["outage_ms"] = outages[vm["name"]]
    return _counted(new, now)


def with_moved_back(doc: Doc, home: str, result: Mapping[str, Any], now: str) -> Doc:
    """`result`: of the migration of a VM back to this host, where it was before the roll."""
    new = copy.deepcopy(doc)
    host = _of(new, home)
    if host is None:
        return doc
    for row in result.get("vms") or ():
        back = row["verdict"] == "moved" and row.get("at") == home
        took = f" in {row['duration']:.1f} s" if row.get("duration") else ""
        text = f"back on {home}{took}" if back else f"not moved back to {home}: {row.get('reason') or row['verdict']}"
        for vm in host["vms"]:
            vm["after"] = text if vm["name"] == row["name"] else vm["after"]
    return _counted(new, now)


def _of(doc: Doc, name: str) -> Doc | None:
    found: list[Doc] = [host for host in doc["hosts"] if host["name"] == name]
    return found[0] if found else None


def _vm(row: Mapping[str, Any], planned: Mapping[str, Any] | None) -> Doc:
    """`predicted`: target and seconds that the plan said; None where there was none."""
    vm = {key: row.get(key) for key in _VM}
    vm["after"] = ""
    vm["predicted"] = None
    if planned and planned.get("predicted_verdict"):
        vm["predicted"] = {"target": planned.get("predicted_target"), "seconds": planned.get("predicted_duration")}
    return vm


def _counted(doc: Doc, now: str) -> Doc:
    hosts: list[Doc] = doc["hosts"]
    vms = [vm for host in hosts for vm in host["vms"]]
    for host in hosts:  # a report that did not see the drain has what the record says
        back = {key: number for key, number in host["tally"].items() if key == "back"}
        host["tally"] = {**tally(host["vms"]), **back} if host["vms"] else host["tally"]
    state = doc["roll"]["state"]
    ends = [host["ended"] or host["begun"] for host in hosts]
    over = state != State.RUNNING.value
    doc["written"] = now
    doc["outcome"] = outcome(state, hosts)
    doc["totals"] = {
        "hosts": len(hosts),
        "done": sum(host["stage"] == Stage.DONE.value for host in hosts),
        "failed": sum(host["stage"] in _FAILED for host in hosts),
        **together(host["tally"] for host in hosts),
        "retries": sum(max(0, (vm["attempts"] or 0) - 1) for vm in vms),
        "seconds": table.seconds(doc["roll"]["begun"], max(ends, default="") if over else now, doc["roll"]["idle"]),
    }
    return doc


def outcome(state: str, hosts: Sequence[Mapping[str, Any]]) -> str:
    """done, failed, paused, stopped (hosts or VMs are left, none failed), aborted, refused, or running.

    Of a host that is done a message says which VM is not back.
    """
    if state == State.ENDED.value:
        return "done"
    if state in (State.ABORTING.value, State.ABORTED.value):
        return "aborted"
    if any(host["stage"] in _FAILED or (host["stage"] == Stage.DONE.value and host.get("message")) for host in hosts):
        return "failed"
    return state if state in (State.RUNNING.value, State.PAUSED.value, State.REFUSED.value) else "stopped"
