"""Result form of what only this platform adds to a drain's parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..._core.decision import hooks
from ..._core.decision.actions import NodePhase
from ..._core.model.observation import Observation
from ..._core.model.record import Ending, NodeRecord
from ..._core.reasons.reason import Platform, Reason
from ..._core.run import report
from ..._core.run.engine import Slice, SliceEnd
from ..._core.run.start import Request
from ..objects import facts
from ..pods.evict import PodsResult
from ..records.node_record import Instance
from . import unsupported

_OTHERS = (Reason.RestartedByOthers.value, Reason.VMCrashed.value, Reason.Irrecoverable.value)
# Of what the drain stopped and what did not start elsewhere.
_STAYS_OFF = {
    Reason.TargetUnschedulable.value: "stays off until a node takes it, the restore at the latest",
    Reason.TargetPodNotReady.value: "was stopped, and has not started elsewhere",
}


def vm_rows(rows: Sequence[Mapping[str, Any]], known: Mapping[str, Instance]) -> list[dict[str, Any]]:
    """The rows of all VMs that the run ever saw, with what only KubeVirt has."""
    found = []
    for row in rows:
        one = known.get(row["uuid"], Instance("", "", ""))
        own = {"handed_off": one.handed_off, "settings": one.settings, "nudges": one.nudges}
        found.append({**row, **own, "unmet_settings": unsupported.rows(one)})
    return found


def warnings(record: NodeRecord, node: Mapping[str, Any] | None) -> list[str]:
    """Return a sentence for each thing that others did to the VMs of the run or to the node's cordon."""
    gone = [
        entry
        for entry in record.vms.values()
        if entry.ending == Ending.GONE.value or (entry.ending and entry.reason in _OTHERS)
    ]
    found = [f"{entry.name}: {reported.text(Platform.KUBEVIRT)}" for entry in gone if (reported := entry.finding)]
    off = [entry for entry in record.vms.values() if entry.ending == Ending.STOPPED.value]
    found += [
        f"{entry.name} {_STAYS_OFF[entry.reason]}: {entry.message}" for entry in off if entry.reason in _STAYS_OFF
    ]
    if node and facts.cordoned_again(dict(node)):
        # Without a number: what is told of the second time is the same sentence, and so it is told once.
        found.append(
            f"{record.node}: someone else uncordoned it during the maintenance; it was cordoned again "
            "each time. To stop the maintenance, restore the node."
        )
    return found


def nudges(vms: Sequence[Mapping[str, Any]]) -> int:
    """How often KubeVirt had to be woken for them."""
    return sum(vm["nudges"] for vm in vms)


def needs(outcome: Slice, known: Mapping[str, Instance]) -> list[dict[str, str]]:
    """A row for each hook that has to be answered: those of hooks.pending_rows, with the VM's plain name, and its
    namespace beside it."""
    found = hooks.pending_rows(outcome.decision, outcome.record)
    for need in found:
        one = known.get(need["uuid"])
        if one is not None:
            need.update(name=one.name, namespace=one.namespace)
    return found


def result(
    outcome: Slice,
    request: Request,
    other_pods: PodsResult,
    known: Mapping[str, Instance],
    gone: list[str],
    changed: bool,
    closed: Sequence[str] = (),
) -> dict[str, Any]:
    """The slice in result form, the same keys as on libvirt, and the other pods. `closed`: as report.Report has it."""
    found = report.of_slice(outcome, request)
    ended, phase, certificate = found.ended, found.phase, found.certificate
    emptied = phase in (NodePhase.EMPTY, NodePhase.DRAINED)
    if emptied and other_pods.phase is not NodePhase.EMPTY:
        phase, certificate = other_pods.phase, None
        ended = SliceEnd.FINAL if phase is NodePhase.BLOCKED else SliceEnd.OUT_OF_TIME
    vms = vm_rows(found.vms, known)
    return replace(
        found,
        ended=ended,
        phase=phase,
        changed=changed,
        vms=vms,
        certificate={**certificate, "pods": gone} if certificate else None,
        needs=needs(outcome, known),
        findings=(*outcome.findings, *other_pods.findings),
        cordoned_by_others=by_others(outcome.observation, request.node),
        closed=closed,
    ).to_dict(nudges=nudges(vms), pods=other_pods.rows)


def by_others(obs: Observation, node: str) -> bool:
    """Is the node cordoned, and not by us?"""
    return obs.nodes[node].cordoned and not obs.nodes[node].our_cordon
