"""A whole roll on the fleet in memory: the plan's order, each host drained and given back by the engine.

When a host begins, the rules of the roll say. Nothing is done on an empty host, and reads cost no
time, so what is measured is the engine's own order and choice of targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.plan_fleets import NEW, Instance, make

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.model import Plan
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import rules, stages
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.planned import targets
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Fleet as Budget
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import HostEntry, Roll, Stage
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.terms import Terms
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, SliceEnd
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from fleetsim.fleet import Fleet
from fleetsim.machines import Domain, Machine
from fleetsim.platform import ModelPlatform

# Seconds on the model's clock between two looks, at most: mostly something happens before.
LOOK = 10.0
SEED = 20260121
# The rules look at no clock: there is no window and no soak.
NOW = "2026-01-01T00:00:00Z"


@dataclass
class Rolled:
    """`seconds`: of the roll, on the model's clock. `left`: hosts that were not emptied."""

    seconds: float
    moves: int
    left: list[str]


def instance(hosts: int, guests: int, out: int) -> Instance:
    """Of one version: the model has no hypervisors that refuse the way back."""
    made = make(hosts, guests, SEED, binding=True)
    made.max_unavailable = out
    for host in made.hosts:
        host.version = NEW
    return made


def roll(made: Instance, plan: Plan, policy: Policy) -> Rolled:
    order = [host for step in plan.steps for host in step.hosts]
    fleet = _fleet(made, plan, order)
    began, out = fleet.clock, dict[str, _OneHost]()
    hosts = {name: HostEntry(name) for name in order}
    record = Roll("", "", "", "", NOW, hosts, terms=Terms(max_unavailable=str(made.max_unavailable)))
    moved: set[tuple[str, str, int]] = set()
    left: list[str] = []
    needs = {host: {*found.values()} for host, found in targets(plan.to_dict()).items()}
    while not record.is_through:
        for name in record.in_stage(Stage.WAITING):
            verdict = rules.turn(record, name, Budget(order), "", NOW, targets=sorted(needs.get(name, ())))
            if verdict.answer is rules.Answer.GO and verdict.roll:
                record, out[name] = verdict.roll, _OneHost(fleet, name, policy)
        acted = False
        for name, one in list(out.items()):
            acted = one.step() or acted
            moved |= {(move.vm, move.source, move.attempt) for move in fleet.moves.values()}
            if one.over:
                left += [name] if one.failed else []
                fleet.machines[name].roll_done = True
                record = stages.with_stage(record, name, Stage.DONE, NOW)
                del out[name]
                acted = True
        if not acted:
            fleet.advance(min(fleet.next_event(), fleet.clock + LOOK))
    return Rolled(fleet.clock - began, len(moved), left)


class _OneHost:
    """Emptied, and then given back."""

    def __init__(self, fleet: Fleet, name: str, policy: Policy) -> None:
        self._policy = policy
        self._platform = ModelPlatform(fleet, name)
        self._platform.hook = lambda _what: None
        self._engine = self._begin(Intent.DRAINED)
        self._drains = True
        self.over = self.failed = False

    def step(self) -> bool:
        """Has it done anything, or is it to look again at once?"""
        outcome = self._engine.step()
        if outcome.ended is not SliceEnd.FINAL:
            return bool(outcome.decision.read_again) or self._acted()
        self.failed = self.failed or (self._drains and outcome.phase is not NodePhase.DRAINED)
        if self._drains:
            self._drains, self._engine = False, self._begin(Intent.ACTIVE)
        else:
            self.over = True
        return True

    def _acted(self) -> bool:
        acted = bool(self._engine.done)
        self._engine.done.clear()
        return acted

    def _begin(self, intent: Intent) -> Engine:
        platform = self._platform
        record = begin(platform.load(), platform.node, intent.value, "bench", platform.now(), platform.own.boot_id)
        return Engine(platform, self._policy, record)


def _fleet(made: Instance, plan: Plan, order: Sequence[str]) -> Fleet:
    machines = {
        host.name: Machine(host.name, host.capacity, host.reserve, made.links[host.name]) for host in made.hosts
    }
    for rank, name in enumerate(order):
        machines[name].roll_rank = rank
    for guest in made.guests:
        vm = VM(guest.uuid, guest.uuid, guest.host, memory_mib=guest.memory, group=guest.group or None)
        machines[guest.host].domains[guest.uuid] = Domain(vm, dirty=guest.dirty)
    for move in (move for step in plan.steps for move in step.moves):
        machines[move.target].expects |= {move.vm}
    return Fleet([*machines.values()])
