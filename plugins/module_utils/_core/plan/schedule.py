"""When each VM of a wave moves, for how long, and how long it is paused. Pure.

For a step of a roll, and for a single drain in check mode: both come from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..decision.actions import Decision
from ..decision.strategy import Way
from ..model.observation import Observation
from ..model.policy import Policy
from .model import PlannedMove, RollRequest
from .observed import measured, sent_mib
from .placed import Placed, placed_by, transfer_of
from .transfers import Speeds, Timeline, Transfer, pause_ms

STOP_SECONDS = 10.0  # what a guest takes to shut down, as a guess
_STOPS = frozenset({Way.SHUTDOWN.value, Way.SAVE.value, Way.COLD_MIGRATE.value})


def times(request: RollRequest, placed: Sequence[Placed]) -> tuple[list[PlannedMove], float]:
    """The rows of VMs that go together, in their order, and how long they take."""
    policy, speeds = request.policy, request.speeds
    transfers = {p.vm.uuid: transfer_of(request, p) for p in placed if p.way == Way.MIGRATE.value}
    seconds = Timeline(list(transfers.values()), speeds, policy.limits).run()
    rows = []
    for p in placed:
        transfer = transfers.get(p.vm.uuid)
        pause = pause_ms(transfer, speeds.pause) if transfer is not None else None
        rows.append(_row(p, transfer, pause, policy.shutdown_timeout))
        if transfer is None and p.way in _STOPS:
            seconds = max(seconds, min(policy.shutdown_timeout, STOP_SECONDS))
    return rows, seconds


def _row(placed: Placed, transfer: Transfer | None, pause: float | None, longest: float) -> PlannedMove:
    start = duration = None
    sent = 0.0
    if transfer is not None:
        start, duration = transfer.start, transfer.end - transfer.start
        sent = transfer.sent
    elif placed.way in _STOPS:
        start, duration = 0.0, min(longest, STOP_SECONDS)
        if placed.way == Way.COLD_MIGRATE.value:
            pause = 1000 * duration
    return PlannedMove(
        vm=placed.vm.uuid,
        name=placed.vm.name,
        way="swap" if placed.swap_for else placed.way,
        why=placed.why,
        source=placed.vm.node,
        target=placed.target,
        order=0,
        memory_mib=placed.vm.memory_mib,
        start=start,
        duration=duration,
        pause_ms=pause,
        sent_mib=sent,
        reason=placed.reason,
        swap_for=placed.swap_for,
    )


def predict_times(
    decision: Decision, obs: Observation, policy: Policy, known: Mapping[str, Any], speeds: Speeds
) -> tuple[dict[str, PlannedMove], float]:
    """The times of one drain: UUID -> row, and seconds of all of it.

    `decision`: what `decide` answered without limits; they hold here. `known`: the option
    `speeds` of the modules, of which `speeds` is a part. Raises PolicyError naming what is wrong.
    """
    vms = obs.vms.values()
    request = RollRequest(
        nodes=obs.nodes,
        vms=obs.vms,
        todo=(),
        policy=policy,
        speeds=speeds,
        dirty=_known(obs, "dirty_rates", "dirty_rate", known),
        sizes={vm.uuid: float(sent_mib(vm)) for vm in vms if vm.resident_mib},
        hot=_known(obs, "working_sets", "working_set_mib", known),
    )
    rows, seconds = times(request, placed_by(decision, obs))
    return {row.vm: row for row in rows}, seconds + (request.speeds.overhead if rows else 0.0)


def _known(obs: Observation, option: str, key: str, known: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for uuid, vm in obs.vms.items():
        value = measured({"name": vm.name, "document": vm.document}, option, key, known)
        if value:
            found[uuid] = value
    return found


def add_times(rows: Sequence[dict[str, Any]], found: Mapping[str, PlannedMove], seconds: float) -> dict[str, Any]:
    """Enter what is foreseen into a drain's rows; gives the sum of it."""
    for row in rows:
        move = found.get(row["uuid"])
        known = move is not None and move.duration is not None
        row["predicted_start"] = round(move.start or 0.0, 1) if move and known else None
        row["predicted_duration"] = round(move.duration or 0.0, 1) if move and known else None
        row["predicted_pause_ms"] = move.pause_ms if move else None
    blocked = [row["name"] for row in rows if row["verdict"] in ("blocked", "skipped", "lost")]
    # As long as its owner takes, say.
    unknown = [row["name"] for row in rows if row["verdict"] == "pending" and row["predicted_duration"] is None]
    return {"predicted_duration": round(seconds, 1), "would_stay": blocked, "predicted_without": unknown}
