# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode and info: the same decisions on the same observation, and nothing done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from .._core.actions import Decision, Do, NodePhase
from .._core.decide import decide
from .._core.engine import Ended, begin
from .._core.model import Observation
from .._core.picture import diff, foreseen, picture
from .._core.plan_input import fleet_of
from .._core.plan_rows import add_times, foresee
from .._core.plan_speeds import LIBVIRT, speeds_of
from .._core.policy import Limits
from .._core.record import Intent, NodeRecord
from .._core.report import counts, rows
from .cordon import by_others
from .guest_memory import with_touched
from .platform import LibvirtPlatform
from .service import Request

# Limits say when a VM moves, not whether: for a plan they are left aside.
_NO_LIMITS = Limits(10**6, 10**6, 10**6)


def plan(request: Request) -> dict[str, Any]:
    """What a run would do now, per VM. Only reads.

    Raises HostUnreachable, RecordError, StoreError.
    """
    platform = LibvirtPlatform(
        request.own, request.peers, request.slots_on, request.only, acts=False
    )
    try:
        found, decision, obs, _old = _plan(platform, request)
        if request.intent is Intent.DRAINED:
            speeds = speeds_of(request.speeds, LIBVIRT)
            seen = with_touched(obs, request.own.name)
            times = foresee(decision, seen, request.policy, request.speeds, speeds)
            found.update(add_times(found["vms"], *times))
        return found
    finally:
        platform.close()


class _Planned(NamedTuple):
    """What is told, and what it was decided on."""

    told: dict[str, Any]
    decision: Decision
    obs: Observation
    old: NodeRecord | None


def _plan(platform: LibvirtPlatform, request: Request) -> _Planned:
    old = platform.load()
    record = begin(
        old,
        request.own.name,
        request.intent.value,
        request.run_id,
        platform.now(),
        platform.boot_id,
        request.requester,
        request.reason,
        platform.wall(),
        request.only,
        request.to,
    )
    obs = platform.observe(record)
    policy = replace(request.policy, limits=_NO_LIMITS, waits_for_hooks=False)
    decision = decide(obs, {record.node: record}, policy)
    planned = decision.records[record.node]
    acts = [a for a in decision.actions if a.do not in (Do.FORGET, Do.WATCH)]
    if old is None and request.intent is Intent.ACTIVE:
        acts = []
    targets = {a.vm: a.target for a in acts if a.do in (Do.MIGRATE, Do.COLD_DEFINE)}
    vms = rows(planned, obs)
    before = picture(obs, planned)
    for row in vms:
        row["target"] = targets.get(row["uuid"], row["target"])
    told = {
        "ended": Ended.FINAL.value,
        "phase": _phase(decision.phases[record.node]),
        "node": record.node,
        "run_id": record.run_id,
        "changed": bool(acts),
        "vms": vms,
        "needs": [],
        "counts": counts(planned),
        "certificate": None,
        "findings": [f.to_dict() for f in decision.node_findings.get(record.node, ())],
        "cordoned_by_others": by_others(obs.nodes[record.node], old),
        "diff": diff(before, foreseen(before, acts)),
        "planned": [{"do": a.do.value, "vm": a.name, "target": a.target} for a in acts],
    }
    return _Planned(told, decision, obs, old)


def _phase(phase: NodePhase) -> str:
    """A single look gives no certificate."""
    return NodePhase.EMPTY.value if phase is NodePhase.DRAINED else phase.value


def look(request: Request) -> dict[str, Any]:
    """The host, its peers, its VMs, and what a drain would do with each. Only reads."""
    platform = LibvirtPlatform(request.own, request.peers, request.slots_on, acts=False)
    try:
        told, _decision, obs, old = _plan(platform, request)
        return {
            "node": request.own.name,
            "boot_id": platform.boot_id,
            "hosts": [_host_row(obs, name) for name in sorted(obs.nodes)],
            "unreachable_hosts": [
                f"{n.name}: {n.message}" for n in obs.nodes.values() if not n.reachable
            ],
            "vms": told["vms"],
            "fleet": fleet_of(with_touched(obs, request.own.name), request.own.name),
            "documents": [dict(vm.document) for vm in obs.vms.values()],
            "record": None if old is None else _record_row(old),
            "changed": False,
        }
    finally:
        platform.close()


def _host_row(obs: Observation, name: str) -> dict[str, Any]:
    node = obs.nodes[name]
    return {
        "name": name,
        "reachable": node.reachable,
        "cordoned": node.cordoned,
        "memory_mib": node.capacity_mib,
        "committed_mib": node.committed_mib,
        "reserved_mib": node.reserved_mib,
        "room_mib": node.room_mib,
        "vms": node.vm_count,
        "inbound": node.inbound,
        "message": node.message,
    }


def _record_row(record: NodeRecord) -> dict[str, Any]:
    return {
        "run_id": record.run_id,
        "intent": record.intent,
        "requester": record.requester,
        "reason": record.reason,
        "started": record.started_wall,
        "cordoned_by_us": record.cordoned_by_us,
        "runs": list(record.runs),
    }


def migrations(request: Request) -> dict[str, Any]:
    """Migrations under way from this host, and those that its record remembers. Only reads."""
    platform = LibvirtPlatform(request.own, request.peers, request.slots_on, acts=False)
    try:
        record = platform.load()
        obs = platform.observe(record)
        found = rows(record, obs) if record is not None else []
        known = {row["uuid"] for row in found}
        fresh = NodeRecord(node=request.own.name, run_id="")
        decision = decide(obs, {fresh.node: fresh}, request.policy)
        for row in rows(decision.records[fresh.node], obs):
            if row["uuid"] not in known and "progress" in row:
                found.append(row)
        return {
            "node": request.own.name,
            "migrations": [r for r in found if r["attempts"] or "progress" in r],
            "changed": False,
        }
    finally:
        platform.close()
