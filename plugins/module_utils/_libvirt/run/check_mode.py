"""Check mode and info: the same decisions on the same observation, and nothing done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..._core.decision.actions import Do
from ..._core.decision.decide import decide
from ..._core.model.observation import Observation
from ..._core.model.record import Intent, NodeRecord
from ..._core.plan.observed import fleet_of, with_learnt
from ..._core.plan.schedule import add_times, predict_times
from ..._core.plan.speeds import LIBVIRT, speeds_of
from ..._core.reasons.reason import Platform
from ..._core.run.check import Checked, check
from ..._core.run.report import of_check, record_row
from ..._core.run.rows import accounted, rows
from ..._playbook import lives
from ..observe.guest_memory import with_touched
from ..store.cordon import by_others
from .service import Request, check_roll, peers_answer, platform_of, with_warnings


def plan(request: Request) -> dict[str, Any]:
    """Decide what a run would do now, and give the module's result; for a drain with the times and totals of add_times.
    Only reads.

    Raises HostUnreachable, RecordError, StoreError, and PeerUnreachable and RollRefused as the run
    does.
    """
    platform = platform_of(request, acts=False)
    beside: list[str] = []
    try:
        if not request.only:
            request = replace(request, of_roll=check_roll(platform, request, beside.append)[1])
        seen = check(platform, request)
        if seen.old is None:
            peers_answer(platform, request, platform.observer.reads)
        found = _reported(seen)
        if request.intent is Intent.DRAINED:
            speeds = speeds_of(request.speeds, LIBVIRT)
            obs = with_learnt(with_touched(seen.obs, request.node), seen.old)
            times = predict_times(seen.decision, obs, request.policy, request.speeds, speeds)
            found.update(add_times(found["vms"], *times))
        return with_warnings(found, beside)
    finally:
        platform.close()


def _reported(seen: Checked) -> dict[str, Any]:
    targets = {a.vm: a.target for a in seen.acts if a.do in (Do.MIGRATE, Do.COLD_DEFINE)}
    found = of_check(seen)
    return replace(
        found,
        vms=[{**row, "target": targets.get(row["uuid"], row["target"])} for row in found.vms],
        cordoned_by_others=by_others(seen.obs.nodes[found.node], seen.old),
    ).to_dict()


def read_host(request: Request) -> dict[str, Any]:
    """The host, its peers, its VMs, and what a drain would do with each. Only reads."""
    platform = platform_of(request, acts=False)
    try:
        seen = check(platform, request)
        reported, obs = _reported(seen), seen.obs
        return {
            "node": request.own.name,
            "boot_id": platform.boot_id,
            "hosts": [_host_row(obs, name) for name in sorted(obs.nodes)],
            "unreachable_hosts": [f"{n.name}: {n.message}" for n in obs.nodes.values() if not n.reachable],
            **accounted(reported["vms"]),
            "findings": reported["findings"],
            "fleet": fleet_of(with_learnt(with_touched(obs, request.own.name), seen.old), request.own.name),
            "documents": [dict(vm.document) for vm in obs.vms.values()],
            "record": record_row(seen.old, Platform.LIBVIRT, lives.has_ended),
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


def migrations(request: Request) -> dict[str, Any]:
    """Migrations under way from this host, and those that are remembered. Only reads.

    Raises HostUnreachable, RecordError, StoreError.
    """
    platform = platform_of(request, acts=False)
    try:
        record = platform.load()
        single_migrations, ended = platform.single_migrations()
        obs = platform.observe(record)
        fresh = NodeRecord(node=request.own.name, run_id="")
        decision = decide(obs, {fresh.node: fresh}, request.policy)
        over = replace(obs, vms={})  # a job of today is none of theirs
        reported = [rows(one, obs) for one in (*single_migrations, *([] if record is None else [record]))]
        reported += [rows(one, over) for one in ended]
        reported.append(rows(decision.records[fresh.node], obs))
        return {
            "node": request.own.name,
            **accounted(_last_of_each(reported), called="migrations"),
            "findings": [],
            "changed": False,
        }
    finally:
        platform.close()


def _last_of_each(reported: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """For each VM the running migration, or the most recent one; by name.

    Of two rows of the same migration the first one stands: it comes from its record.
    """
    found: dict[str, dict[str, Any]] = {}
    for row in (row for vms in reported for row in vms):
        old = found.get(row["uuid"])
        if not row["attempts"] and "progress" not in row:
            continue
        if old is None or _when(row) > _when(old):
            found[row["uuid"]] = row
    return sorted(found.values(), key=lambda row: (row["name"], row["uuid"]))


def _when(row: dict[str, Any]) -> tuple[bool, str]:
    return "progress" in row, row["start"]
