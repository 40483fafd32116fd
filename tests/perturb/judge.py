"""What is wrong with the end of a run. It reads the fleet and the result as data, and knows nothing of how
the product comes to them.

No assertion is written for a scenario: the end is compared with that of the run that nothing disturbed. What differs
needs a reason code in the result, of that VM or of the node; or it is what the other hand wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Slice
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.rows import rows
from fleetsim.fleet import Fleet
from perturb.watch import ACTIVE, Watch

OURS = "virtops.maintenance"

_NEVER_THEIRS = {"claim", "slot", "mark"}

Facts = dict[str, Any]


def facts(fleet: Fleet) -> Facts:
    """The fleet, without what differs from one run to the next by itself: times, names of runs, instances."""
    found: Facts = {}
    for name, machine in sorted(fleet.machines.items()):
        for uuid, domain in machine.domains.items():
            found[f"vm {uuid} {name} state"] = domain.state.value
            found[f"vm {uuid} {name} persistence"] = domain.persistent
            found[f"vm {uuid} {name} autostart"] = domain.autostart
            found[f"vm {uuid} {name} saved"] = domain.managed_save
            if domain.marked:
                found[f"vm {uuid} {name} mark"] = True
        for uuid, owner in machine.claims:
            if owner in fleet.machines:
                found[f"vm {uuid} claim on {name} of {owner}"] = True
        for uuid, owner in sorted(machine.slots):
            if owner in fleet.machines:
                found[f"vm {uuid} slot on {name} of {owner}"] = True
        if machine.cordons:
            found[f"node {name} cordons"] = tuple(sorted(machine.cordons))
        if machine.record is not None:
            found[f"node {name} record"] = True
    for uuid, move in fleet.moves.items():
        found[f"vm {uuid} migrates"] = (move.source, move.target)
    return found


def digest(fleet: Fleet, times: bool = True) -> str:
    """Two moments with the same digest are the same to who looks: with stages of jobs, without their bytes."""
    more = {u: (m.stage.value, m.held, m.ours, m.attempt, m.run_id) for u, m in fleet.moves.items()}
    outcomes = {n: sorted(map(str, m.outcomes)) for n, m in fleet.machines.items()}
    flags = {n: (m.up, m.reachable, m.boot) for n, m in fleet.machines.items()}
    due = [(u, d.save_begins, d.save_ends, d.off_at) for m in fleet.machines.values() for u, d in m.domains.items()]
    saves = due if times else [(u, *(t is not None for t in more)) for u, *more in due]
    return repr((facts(fleet), more, outcomes, flags, saves))


def state_in(state: str, uuid: str, name: str) -> str:
    """The state of a VM on a host in a digest; empty: it is not there."""
    _before, found, rest = state.partition(f"'vm {uuid} {name} state': '")
    return rest.partition("'")[0] if found else ""


def plain(outcome: Slice) -> dict[str, Any]:
    """The result as data."""
    attempts = {u: [a.reason for a in e.attempts if a.reason] for u, e in outcome.record.vms.items()}
    vms = {row["uuid"]: {**row, "tried": attempts[row["uuid"]]} for row in rows(outcome.record, outcome.observation)}
    return {
        "phase": outcome.phase.value,
        "certificate": outcome.certificate is not None,
        "vms": vms,
        "findings": [finding.to_dict(Platform.LIBVIRT) for finding in outcome.findings],
    }


@dataclass(frozen=True)
class Wrong:
    """One thing that is wrong. `kind`: a word of the last line."""

    kind: str
    text: str


def reasons_of(results: list[dict[str, Any]]) -> tuple[dict[str, set[str]], set[str]]:
    """The codes that the last command on each host gives: of VMs, and of the host."""
    vms: dict[str, set[str]] = {}
    node: set[str] = set()
    for result in {result["node"]: result for result in results}.values():
        for uuid, row in result.get("vms", {}).items():
            codes = {row["reason"]} - {""}
            if codes:
                vms.setdefault(uuid, set()).update(codes)
        node.update(finding["reason"] for finding in result.get("findings", ()))
        if result.get("error"):
            node.add(result["error"])
    return vms, node


def differences(want: Facts, got: Facts) -> list[str]:
    """Keys that differ."""
    return [key for key in sorted({*want, *got}) if want.get(key) != got.get(key)]


def explained(key: str, results: list[dict[str, Any]], wanted_by_others: Mapping[str, set[str]]) -> bool:
    """Does a reason explain that this differs, or is it what somebody else did?"""
    kind, subject, *rest = key.split()
    vms, node = reasons_of(results)
    what = " ".join(rest)
    if kind == "vm":
        theirs = wanted_by_others.get(subject, set()) if not set(rest) & _NEVER_THEIRS else set()
        if vms.get(subject) or "all" in theirs or any(word in what for word in theirs):
            return True
        # A run that has not come to its end may say for all of them why, or with another VM that waits for this one.
        others = [row["message"] for row in results[-1].get("vms", {}).values() if row["reason"]]
        named = any(f"vm{subject.removeprefix('u')}:" in text for text in others)
        return (bool(node) or named) and results[-1]["phase"] in ("Blocked", "Failed", "Superseded")
    return bool(node) or bool(vms) or bool(wanted_by_others.get(subject))


def judge(
    want: Facts,
    fleet: Fleet,
    watch: Watch,
    results: list[dict[str, Any]],
    by_others: Mapping[str, set[str]],
    excused: set[str],
) -> list[Wrong]:
    """`want`: the end of the undisturbed run. `by_others`: VM or node -> what of it others changed. `excused`: VMs
    that others stopped, deleted, or that a reboot ended."""
    got, last = facts(fleet), results[-1]
    found = [Wrong("twice", uuid) for uuid in sorted(watch.twice)]
    found += [
        Wrong("differences_unexplained", f"{key}: {want.get(key)} -> {got.get(key)}")
        for key in differences(want, got)
        if not explained(key, results, by_others)
    ]
    found += [Wrong("out_of_order", text) for text in sorted(watch.out_of_order)]
    said = reasons_of(results)[0]
    found += [Wrong("out_of_order", text) for uuid, text in watch.unfinished.items() if uuid not in said]
    watch.unfinished.clear()  # what is said of it later, is of later
    found += [Wrong("left_behind", text) for result in results for text in result.get("at_word", ())]
    found += lost(fleet, watch, results, excused)
    found += _false_certificates(fleet, results)
    if last["phase"] in ("Drained", "Active", "Migrated", "Blocked") and not last.get("checked"):
        found += _left_behind(fleet, last)
    skipped = any(row["verdict"] == "skipped" for row in last.get("vms", {}).values())
    blocked = last["phase"] in ("Blocked", "Failed") and not last.get("checked")
    if blocked and not any(reasons_of(results)) and not skipped:
        found.append(Wrong("endless", f"{last['phase']} without a reason"))
    return found


def lost(fleet: Fleet, watch: Watch, results: list[dict[str, Any]], excused: set[str]) -> list[Wrong]:
    """It is nowhere and nothing is written down of it; or it ran, runs no more, and no reason says why."""
    found = []
    said, _node = reasons_of(results)
    rows = {u: (row["verdict"], r["intent"]) for r in results for u, row in r.get("vms", {}).items()}
    every = [(u, row) for result in results for u, row in result.get("vms", {}).items() if row["verdict"] == "gone"]
    gone = {u for u, row in every if row["reason"]}  # whoever asks later, hears no more of it
    known = (said.keys() | gone) - {u for u, _row in every if u in watch.by_us}  # that was us, whatever is said
    for uuid in sorted(set(watch.names) - excused):
        domains = [m.domains[uuid] for m in fleet.machines.values() if uuid in m.domains]
        kept = any(uuid in m.definitions for m in fleet.machines.values())
        if not domains and not kept:
            found.append(Wrong("lost", f"{uuid} is defined nowhere"))
        runs = any(domain.state.value in ACTIVE for domain in domains)
        stopped = rows.get(uuid) in (("stopped", "drained"), ("saved", "drained"))
        if uuid in watch.was_active and not runs and not stopped and uuid not in known:
            found.append(Wrong("lost", f"{uuid} does not run, and nothing says why"))
    return found


def _false_certificates(fleet: Fleet, results: list[dict[str, Any]]) -> list[Wrong]:
    last = results[-1]
    found = [Wrong("differences_unexplained", f"in check mode: {what}") for what in last.get("wrote", ())]
    if last["phase"] != "Drained" or last.get("checked"):
        return found
    node = last["node"]
    if not last["certificate"]:
        found.append(Wrong("false_certificates", "Drained without a certificate"))
    if last["reads_since_act"] < 2:
        found.append(Wrong("false_certificates", "Drained without two reads after the last act"))
    there = fleet.machines[node].domains
    for uuid, domain in there.items():
        if domain.state.value in ACTIVE and uuid not in last.get("came_later", ()):
            found.append(Wrong("false_certificates", f"{uuid} is {domain.state.value} on {node}"))
    for uuid, move in fleet.moves.items():
        seen = node == move.source or uuid in last.get("seen", ())
        if node in (move.source, move.target) and seen and uuid not in last.get("came_later", ()):
            found.append(Wrong("false_certificates", f"{uuid} migrates from {move.source} to {move.target}"))
    return found


def _left_behind(fleet: Fleet, last: dict[str, Any]) -> list[Wrong]:
    """Claims and slots of this node, and marks, of what is not under way; after a restore also record and cordon."""
    node, found = last["node"], []
    said = {uuid for uuid, row in last.get("vms", {}).items() if row["reason"]}
    if last["phase"] == "Blocked" and last["findings"]:  # for all of them
        said.update(uuid for machine in fleet.machines.values() for uuid in machine.domains)
    for name, machine in fleet.machines.items():
        left = {("claim", *key) for key in machine.claims} | {("slot", *key) for key in machine.slots}
        for what, uuid, owner in sorted(left):
            if owner == node and uuid not in fleet.moves and uuid not in said:
                found.append(Wrong("left_behind", f"{what} of {uuid} on {name}"))
        for uuid, domain in machine.domains.items():
            if domain.marked and uuid not in said:
                found.append(Wrong("left_behind", f"mark of {uuid} on {name}"))
    if last["phase"] == "Active" and last["intent"] == "active":
        machine = fleet.machines[node]
        if machine.record is not None:
            found.append(Wrong("left_behind", "record"))
        if OURS in machine.cordons:
            found.append(Wrong("left_behind", "cordon"))
        found += [Wrong("left_behind", f"mark of {u}") for u, d in machine.domains.items() if d.marked]
    return found
