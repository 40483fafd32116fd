"""After the roll: VMs go back to where they were. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..decision.strategy import Way
from .model import PlannedMove, RollRequest
from .placed import Placed
from .schedule import times
from .trial import Fleet

WHY = "maintenance_move_back"


def way_back(request: RollRequest, fleet: Fleet, migrated: Collection[str]) -> tuple[tuple[PlannedMove, ...], float]:
    """The moves, and how long they take. `fleet`: as the last step leaves it. `migrated`: VMs (UUIDs) that only moved
    while they ran. Each host gets its VMs one after the other, all hosts at the same time."""
    here = [vm for name in fleet.names() for vm in fleet.on(name) if vm.uuid in migrated]
    away = [vm for vm in here if vm.node != request.vms[vm.uuid].node]
    placed = [Placed(vm, Way.MIGRATE.value, request.vms[vm.uuid].node, WHY) for vm in away]
    limits = replace(request.policy.limits, inbound=1)
    rows, seconds = times(replace(request, policy=replace(request.policy, limits=limits)), placed)
    rows = [replace(row, order=order) for order, row in enumerate(rows, 1)]
    return tuple(rows), seconds + (request.speeds.overhead if rows else 0.0)
