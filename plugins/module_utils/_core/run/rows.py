"""A row for each VM of a run, and how many have which verdict. The same on both platforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..model.observation import VM, Job, Observation
from ..model.record import Attempt, Ending, NodeRecord, VMRecord
from ..model.wall import after, parsed
from ..reasons.reason import Finding, Platform

_MIB = 1024 * 1024


@dataclass
class Row:
    """One VM, as every result has it. Sizes in MiB, durations in seconds, pauses in ms, times in UTC."""

    name: str
    uuid: str
    strategy: str
    decided_by: str
    way: str
    verdict: str
    phase: str
    source: str
    target: str
    at: str
    mode: str = ""
    method: str = ""
    attempts: int = 0
    start: str = ""
    end: str = ""
    requested_by: str = ""
    abort_status: str = ""
    processed_mib: float = 0.0
    duration: float = 0.0
    outage_ms: int | None = None
    hooks: dict[str, str] = field(default_factory=dict)


def vm_row(entry: VMRecord, obs: Observation, node: str) -> dict[str, Any]:
    vm: VM | None = obs.vms.get(entry.uuid)
    last = entry.last
    row = Row(
        name=entry.name,
        uuid=entry.uuid,
        strategy=entry.strategy,
        decided_by=entry.decided_by,
        way=entry.stop_way or entry.way,
        verdict=entry.ending or "pending",
        phase=_phase(entry, vm, entry.uuid in obs.sightings),
        source=node,
        target=entry.cold_target or "",
        at=entry.at or (node if vm is not None else ""),
        method=vm.method.value if vm else "",
        attempts=len(entry.attempts),
        outage_ms=_outage(entry),
        hooks=_hooks(entry),
    )
    if last:
        row.target, row.mode, row.method = last.target, last.mode, last.method or row.method
        row.start, row.end, row.requested_by = last.wall, _end(last), last.requester
        row.abort_status = last.abort_status
        row.processed_mib, row.duration = round(last.processed / _MIB, 1), round(last.seconds, 3)
    more: dict[str, Any] = {"steps": list(last.steps)} if last and last.steps else {}
    if vm is not None and vm.job is not None:
        row.target = row.target or vm.job.target
        row.mode = vm.job.mode.value if vm.job.outgoing else row.mode
        more["progress"] = _progress(vm.job)
    finding = entry.finding or (last.finding if last and not last.ok and not _is_past(entry, last) else None)
    return {**vars(row), **more, **finding_fields(finding, obs.platform)}


def _is_past(entry: VMRecord, last: Attempt) -> bool:
    """It is back where it was: why the drain's last attempt failed says nothing of it any more."""
    return entry.ending == Ending.RESTORED.value and not last.abort_requested


def _outage(entry: VMRecord) -> int | None:
    """Milliseconds for which the guest did not run, whether it was migrated or stopped; None: not known, or not over. A
    stop is known to the second."""
    if entry.off_since and entry.on_since:
        return max(0, round((parsed(entry.on_since) - parsed(entry.off_since)).total_seconds() * 1000))
    return entry.last.downtime_ms if entry.ending == Ending.MOVED.value and entry.last else None


def _hooks(entry: VMRecord) -> dict[str, str]:
    files = {"before": entry.hook_before, "after": entry.hook_after}
    return {hook: tasks for hook, tasks in files.items() if tasks}


def _end(last: Attempt) -> str:
    """When the attempt ended, UTC; '': it did not. It is reckoned from its length by the source's boot-time clock,
    since a wall clock may be set meanwhile."""
    if not last.ended or not last.wall:
        return ""
    return after(last.wall, last.ended_at - last.started)


def finding_fields(finding: Finding | None, platform: Platform) -> dict[str, str]:
    """reason, plane, message, remedy; empty texts where nothing is wrong."""
    if finding is None:
        return {"reason": "", "plane": "", "message": "", "remedy": ""}
    return finding.to_dict(platform)


def _phase(entry: VMRecord, vm: VM | None, seen: bool) -> str:
    """`seen`: elsewhere, on its way or there."""
    if entry.ending in (Ending.MOVED.value, Ending.COLD_MOVED.value):
        return "Succeeded"
    if vm is not None and vm.job is not None:
        return vm.job.phase or "Running"
    last = entry.last
    if last is not None and not last.ended:
        if last.work and vm is not None:
            return "Failed"  # the platform's object is over, and the VM is here: why is not told yet
        return "Running" if seen else "Scheduled"
    if last is not None:
        # Over, but not yet seen at its target with everything that belongs to it.
        return "Succeeded" if last.ok else "Failed"
    return "Pending" if entry.ending == "" else ""


def _progress(job: Job) -> dict[str, Any]:
    percent = 0
    if job.total:
        percent = max(0, min(99, int(100 * (job.total - job.remaining) / job.total)))
    eta = job.remaining / job.rate if job.rate else None
    return {
        "percent": percent,
        "processed_mib": round(job.processed / _MIB, 1),
        "total_mib": round(job.total / _MIB, 1),
        "remaining_mib": round(job.remaining / _MIB, 1),
        "rate_mib_s": round(job.rate / _MIB, 1),
        "eta": None if eta is None else round(eta, 1),
    }


def rows(record: NodeRecord, obs: Observation, judged: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """All VMs that the run ever saw, by name. `judged`: as Decision has it; the rows say it too."""
    entries = sorted(record.vms.values(), key=lambda e: (e.name, e.uuid))
    found = [vm_row(entry, obs, record.node) for entry in entries]
    return [{**row, "judged": judged.get(row["uuid"], "")} for row in found] if judged is not None else found


def _count(verdicts: Sequence[str]) -> dict[str, int]:
    found = {ending.value: 0 for ending in Ending if ending.value}
    found["pending"] = 0
    for verdict in verdicts:
        found[verdict] += 1
    found["total"] = len(verdicts)
    return found


def accounted(
    vms: list[dict[str, Any]], certificate: dict[str, Any] | None = None, called: str = "vms"
) -> dict[str, Any]:
    """The keys that every result has: the VMs (under the key `called`), `counts` of their verdicts, `certificate`."""
    tally = _count([row["verdict"] for row in vms])
    return {called: vms, "counts": tally, "certificate": certificate}
