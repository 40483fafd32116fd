"""Preflight: from facts to blockers and warnings. Pure.

The way of each VM is chosen by the drain's own `choose`, so that what is said beforehand is what
is done. What policy already has an answer to (a stop that is allowed, say) is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..decision.placement import Placement
from ..decision.strategy import allows_older, choose
from ..model.policy import Policy
from ..model.record import Intent, NodeRecord
from ..reasons.reason import TABLE, About, Preflight, Reason, Row, Severity
from .cluster import cluster_findings, node_findings
from .facts import Facts, VMSeen
from .found import Found
from .vm import inactive_findings, vm_findings

_ORDER = {Severity.BLOCKER: 0, Severity.WARNING: 1}
_ABOUT = {About.CLUSTER: 0, About.NODE: 1, About.VM: 2, About.POD: 3}
# One of these that stays does not keep the others.
_SINGLE = frozenset({About.VM.value, About.POD.value})


def check(facts: Facts, policy: Policy) -> list[Found]:
    """Everything that stands in the way of draining `facts.node` under this policy."""
    draining = frozenset({facts.node})
    how, allows = policy.placement_policy, partial(allows_older, policy=policy)
    placement = Placement(facts.observation, draining, policy.limits, placement_policy=how, allows_older=allows)
    found = list(cluster_findings(facts))
    choices = {}
    for uuid, vm in facts.observation.vms.items():
        if vm.node != facts.node:
            continue
        seen = facts.vms.get(uuid, VMSeen())
        if not vm.active:
            found += inactive_findings(vm, policy.move_inactive)
            continue
        # Without any target that is said once, of the node.
        refusals = placement.refusals(vm) if facts.targets else ()
        choices[uuid] = choose(vm, policy, refusals)
        found += vm_findings(facts, vm, seen, choices[uuid])
    found += node_findings(facts, choices)
    return found


def record_text(record: NodeRecord | None) -> str:
    """A maintenance that is recorded on a node, in words."""
    if record is None:
        return ""
    who = f" by {record.requester}" if record.requester else ""
    asked = "drain" if record.intent == Intent.DRAINED.value else "restore"
    return f"The {asked} {record.run_id}{who}, begun {record.started_wall}, has not finished."


def severity_of(found: Found, wanted: Mapping[Reason, Severity]) -> Severity:
    """The user's severity, or the table's; a warning for what the drain can overcome."""
    if found.reason in wanted:
        return wanted[found.reason]
    return Severity.WARNING if found.soft else _beforehand(TABLE[found.reason]).severity


def _beforehand(row: Row) -> Preflight:
    """A reason of the drain for which there is no check of its own: of a VM, and it blocks."""
    return row.preflight or Preflight()


# The result


def rows(facts: Facts, found: Sequence[Found], wanted: Mapping[Reason, Severity]) -> list[dict[str, Any]]:
    """The findings as rows of the result, each once: blockers first, then by what they are about (cluster, node, VMs,
    pods). `wanted`: the user's severities."""
    reported: dict[tuple[str, str, str], dict[str, Any]] = {}
    for one in found:
        severity = severity_of(one, wanted)
        if severity is Severity.IGNORE:
            continue
        row = _row(facts, one, severity)
        reported.setdefault((row["code"], row["subject"], row["message"]), row)
    return sorted(
        reported.values(),
        key=lambda r: (_ORDER[Severity(r["severity"])], _ABOUT[About(r["about"])], r["code"], r["subject"]),
    )


def _row(facts: Facts, found: Found, severity: Severity) -> dict[str, Any]:
    row = TABLE[found.reason]
    words = row.words_beforehand(facts.platform)
    parts = (found.decided_by, row.decides(facts.platform))
    return {
        "code": found.reason.value,
        "severity": severity.value,
        "about": (found.about or _beforehand(row).about).value,
        "plane": row.plane.value,
        "node": facts.node,
        "subject": found.subject,
        "sentence": words.sentence,
        "message": found.message,
        "remedy": words.remedy,
        "decided_by": "; ".join(part for part in parts if part),
    }


def line(row: Mapping[str, Any]) -> str:
    """One finding as one line for people."""
    what = row["message"] or row["sentence"]
    return f"{row['severity'].upper()} {row['code']} {row['subject']}: {what} -> {row['remedy']}"


def result(facts: Facts, found: Sequence[Found], wanted: Mapping[Reason, Severity]) -> dict[str, Any]:
    """The result of a preflight module: `findings` as rows, and the same as lines for people."""
    listed = rows(facts, found, wanted)
    blockers = [row for row in listed if row["severity"] == Severity.BLOCKER.value]
    return {
        "node": facts.node,
        "findings": listed,
        "blockers": [line(row) for row in blockers],
        "cautions": [line(row) for row in listed if row not in blockers],
        "node_blockers": [line(r) for r in blockers if r["about"] not in _SINGLE],
        "vms_checked": len(list(_here(facts))),
        "changed": False,
    }


def _here(facts: Facts) -> Iterator[str]:
    return (u for u, vm in facts.observation.vms.items() if vm.node == facts.node)
