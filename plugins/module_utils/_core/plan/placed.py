"""The place that `decide` has found for one VM: where it goes, by whose word, and its transfer. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..decision.actions import Action, Decision, Do
from ..decision.strategy import Way
from ..model.observation import VM, Observation
from ..model.policy import MigrationSettings
from ..model.record import VMRecord
from .model import RollRequest
from .transfers import Transfer

_ACTS = {
    Do.MIGRATE: Way.MIGRATE.value,
    Do.SHUTDOWN: Way.SHUTDOWN.value,
    Do.SAVE: Way.SAVE.value,
    Do.COLD_DEFINE: Way.COLD_MIGRATE.value,
}
_STOPS = frozenset({Way.SHUTDOWN.value, Way.SAVE.value, Way.COLD_MIGRATE.value})


@dataclass(frozen=True)
class Placed:
    """The answer of `decide` for one VM. Of one that its owner moves, `target` is a place that is
    kept for it."""

    vm: VM
    way: str
    target: str
    why: str
    priority: int = 0
    settings: MigrationSettings | None = None
    reason: str = ""
    swap_for: str = ""

    @property
    def moves(self) -> bool:
        return self.target != ""

    @property
    def stops(self) -> bool:
        return self.way in _STOPS


def size_of(request: RollRequest, vm: VM) -> float:
    """MiB that its migration sends if nothing is written meanwhile. An inactive VM sends none."""
    if not vm.active:
        return 0.0
    return request.sizes.get(vm.uuid, float(vm.memory_mib))


def transfer_of(request: RollRequest, placed: Placed) -> Transfer:
    """Its migration, as the model of the links has it."""
    return Transfer(
        placed.vm.uuid,
        placed.vm.node,
        placed.target,
        size_of(request, placed.vm),
        request.dirty.get(placed.vm.uuid, 0.0),
        placed.priority,
        placed.settings or request.policy.migration,
        request.hot.get(placed.vm.uuid, float("inf")),
    )


def placed_by(decision: Decision, obs: Observation) -> list[Placed]:
    """The VMs that are acted on, in the order in which they would be started."""
    acts = {a.vm: a for a in decision.actions if a.do in _ACTS}
    return [placed_one(decision, obs.vms[a.vm], a) for a in acts.values() if a.vm in obs.vms]


def placed_one(decision: Decision, vm: VM, action: Action) -> Placed:
    entry = decision.records[action.node].vms[vm.uuid]
    way = _ACTS[action.do]
    if action.do is Do.SHUTDOWN and action.target:
        way = Way.COLD_MIGRATE.value
    return Placed(vm, way, action.target, _why(entry), action.priority, action.settings, entry.reason)


def _why(entry: VMRecord) -> str:
    """Who decided it, and what prevents a migration."""
    text = f"{entry.strategy}, {entry.decided_by}" if entry.strategy else ""
    hooks = ["before"] * bool(entry.hook_before) + ["after"] * bool(entry.hook_after)
    reported = f"hooks {' and '.join(hooks)}" if hooks else ""
    return "; ".join(part for part in (text, reported, entry.message or entry.reason) if part)
