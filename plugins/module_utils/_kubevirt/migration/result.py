"""Result form of one VM's migration: the keys of virt_migration, and KubeVirt's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.reasons.reason import Finding, Platform, Reason
from ..._core.run.diff import diff
from ..._core.run.rows import Row, accounted, finding_fields
from ..objects import facts
from ..objects.requesters import asked_by
from .decide import Do, Phase, Step
from .model import MigrationRequest, RequestNote, View, WantedState

Obj = dict[str, Any]
# Of one VM's migration, where the remedy of a drain is another.
_REMEDIES = {
    Reason.MigrationFailed: "See the message and the log of virt-launcher on both nodes.",
    Reason.VMCrashed: "See kubectl describe vmi, and the log of virt-launcher.",
    Reason.VMVanished: "See kubectl get vm and its events; start it if it should run.",
    Reason.StoppedByItself: "Start it if it should run.",
    Reason.AbortRequested: "Migrate it again when it may move.",
    Reason.DeadlineExceeded: "Migrate it again to continue, or raise migration_timeout.",
}
_VERDICTS = {Phase.MIGRATED: "moved", Phase.ACTIVE: "restored", Phase.BLOCKED: "blocked"}


def finding_of(finding: Finding | None) -> dict[str, str]:
    """The fields that a row of the result has for a finding, with this module's own remedy where it has one."""
    found = finding_fields(finding, Platform.KUBEVIRT)
    return found if finding is None else {**found, "remedy": _REMEDIES.get(finding.reason, found["remedy"])}


def result(request: MigrationRequest, view: View, asked: RequestNote | None, step: Step, first: str) -> dict[str, Any]:
    """The slice in result form. `first`: the node on which the slice found it."""
    final = step.do is Do.DONE
    work = step.migration or (view.by_uid(asked.work) if asked and asked.work else None)
    row = _row(request, view, asked, step, work)
    verdict = row["verdict"]
    source = asked.source if asked is not None else first
    refused = request.want is WantedState.ABORTED and verdict == "moved"
    return {
        "ended": "final" if final else "out_of_time",
        "phase": step.phase.value,
        "vm": request.vm,
        "node": source or request.node,
        "run_id": request.run_id,
        **accounted([row]),
        "findings": [finding_of(step.finding)] if refused else [],
        "diff": _diff(request, source, view.node),
    }


def _row(
    request: MigrationRequest, view: View, asked: RequestNote | None, step: Step, work: Obj | None
) -> dict[str, Any]:
    vmi = view.vmi
    state = facts.state_of(vmi, work) if vmi is not None and work is not None else {}
    target = str(state.get("targetNode") or request.target)
    moved = step.do is Do.DONE and step.phase is Phase.MIGRATED
    row = Row(
        name=request.vm,
        uuid=facts.identity(vmi) if vmi is not None else "",
        strategy=str(vmi["spec"].get("evictionStrategy") or "") if vmi is not None else "",
        decided_by=f"{request.want.value} was requested",
        way="migrate" if request.want is WantedState.MIGRATED else "abort",
        verdict=_VERDICTS.get(step.phase, "pending") if step.do is Do.DONE else "pending",
        phase=_phase(work, moved),
        source=asked.source if asked is not None else view.node,
        target=view.node if moved else target,
        at=view.node,
        mode=str(state.get("mode") or ""),
        method=facts.method(vmi).value if vmi is not None else "",
        attempts=asked.attempt if asked is not None else 0,
        abort_status=_abort_status(work, state),
    )
    if work is not None:
        row.start, row.end = work["metadata"]["creationTimestamp"], str(state.get("endTimestamp") or "")
        row.requested_by, row.duration = asked_by(vmi, work), facts.took(work, vmi)
    own = {"handed_off": facts.handed_off(vmi, work), "policy": str(state.get("migrationPolicyName") or "")}
    own["migration"] = work["metadata"]["name"] if work is not None else ""
    return {**vars(row), **own, **finding_of(step.finding)}


def _phase(work: Obj | None, moved: bool) -> str:
    """KubeVirt's word; Succeeded once the guest has moved, even if the object stays open."""
    if moved:
        return "Succeeded"
    return (facts.phase(work) or "Pending") if work is not None else "Pending"


def _abort_status(work: Obj | None, state: Mapping[str, Any]) -> str:
    if state.get("abortStatus"):
        return str(state["abortStatus"])
    if work is None or not (facts.deleted(work) or facts.is_true(work, "migrationAbortRequested")):
        return ""
    if not facts.final(work):
        return "Aborting"
    return "Succeeded" if facts.phase(work) == "Failed" else "Failed"


def _diff(request: MigrationRequest, before: str, after: str) -> dict[str, str]:
    name = f"VM {request.vm}"
    return diff({name: _place(before)}, {name: _place(after)})


def _place(node: str) -> str:
    return f"running on {node}" if node else "not running"


def predicted_fields(request: MigrationRequest, view: View, step: Step) -> dict[str, Any]:
    """The keys that check mode adds to the result: `planned`, `changed`, `ended`, and `diff` where something would be
    done."""
    planned = []
    vm, target = request.vm, request.target
    if step.do is Do.CREATE:
        planned.append({"do": "migrate", "vm": vm, "target": target})
    elif step.do is Do.SIGN or (step.do is Do.WAIT and step.migration is not None):
        planned.append({"do": "adopt", "vm": vm, "target": ""})
    if request.want is WantedState.ABORTED and step.do in (Do.CANCEL, Do.DELETE):
        if step.do is Do.CANCEL:
            planned.append({"do": "cancel", "vm": vm, "target": ""})
        if view.moving:
            planned.append({"do": "abort", "vm": vm, "target": ""})
    moves = any(act["do"] in ("migrate", "adopt") for act in planned)
    after = f"running on {target}" if target else "running on another node"
    found: dict[str, Any] = {"planned": planned, "changed": bool(planned), "ended": "final"}
    if moves:
        name = f"VM {vm}"
        found["diff"] = diff({name: _place(view.node)}, {name: after})
    elif planned:
        name = f"migration of VM {vm}"
        found["diff"] = diff({name: "under way"}, {name: "none"})
    return found
