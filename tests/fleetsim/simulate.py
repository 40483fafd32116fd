"""simulate: the drain, run on a model. For tests and for who tries out a change of the core.

The same loop and the same decisions as on real hosts; only the platform is the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Optional

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    Node,
    Observation,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent, NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Platform
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, Slice
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin

from .fleet import MIB, Fleet
from .machines import Domain, Fate, Machine, Move, Stage
from .platform import OURS, ModelPlatform

DEFAULT_LINK = 110.0  # MiB/s: a link of 1 Gbit/s


_Times = dict[str, tuple[Optional[float], Optional[float]]]


@dataclass(frozen=True)
class Predicted:
    """What would become of one VM. Times in seconds from now; None: it does not begin."""

    uuid: str
    name: str
    way: str
    verdict: str
    target: str
    start: float | None
    end: float | None
    attempts: int
    finding: Finding | None

    def to_dict(self) -> dict[str, Any]:
        row = asdict(self)
        del row["finding"]
        empty = {"reason": "", "plane": "", "message": "", "remedy": ""}
        return {**row, **(self.finding.to_dict(Platform.LIBVIRT) if self.finding else empty)}


@dataclass(frozen=True)
class Forecast:
    """What would become of the node, and when."""

    node: str
    phase: NodePhase
    duration: float
    vms: tuple[Predicted, ...]
    findings: tuple[Finding, ...]


def simulate(
    obs: Observation,
    policy: Policy,
    node: str,
    record: NodeRecord | None = None,
    link: float = DEFAULT_LINK,
    dirty: Mapping[str, float] | None = None,
) -> Forecast:
    """Drain `node` of the observed fleet on the model.

    `record`: what stands about it already. `link`: MiB/s of each host. `dirty`: UUID -> MiB/s.
    A migration is taken to succeed: failures are not foreseen, only refusals are.
    """
    platform = ModelPlatform(build(obs, node, policy, link, dirty or {}), node)
    start = platform.now()
    own = platform.own
    run = begin(record, node, Intent.DRAINED.value, "simulated", start, own.boot_id)
    for entry in run.vms.values():
        entry.attempts = [a for a in entry.attempts if not a.ended or a.ok]
    limit = start + policy.drain_timeout + policy.pending_timeout + policy.shutdown_timeout
    times: _Times = {}
    engine = Engine(platform, replace(policy, in_turn=False), run)
    while True:
        outcome = engine.step()
        _note_times(outcome, times, platform.now() - start)
        if outcome.decision.final or platform.now() >= limit:
            return _forecast(outcome, times, platform.now() - start)
        if not outcome.decision.actions:
            platform.wait(policy.backoff or 1.0)


def _note_times(outcome: Slice, times: _Times, now: float) -> None:
    """When each VM was first acted on, and when its verdict last came."""
    for action in outcome.actions_done:
        if action.vm:
            times.setdefault(action.vm, (now, None))
    for uuid, (start, end) in times.items():
        entry = outcome.record.vms.get(uuid)
        if entry is not None and not entry.ending:
            times[uuid] = (start, None)
        elif end is None:
            times[uuid] = (start, now)


def _forecast(outcome: Slice, times: _Times, duration: float) -> Forecast:
    rows = []
    for uuid, entry in sorted(outcome.record.vms.items(), key=lambda e: (e[1].name, e[0])):
        last, (start, end) = entry.last, times.get(uuid, (None, None))
        rows.append(
            Predicted(
                uuid=uuid,
                name=entry.name,
                way=entry.stop_way or entry.way,
                verdict=entry.ending or "pending",
                target=last.target if last else entry.cold_target,
                start=start,
                end=end,
                attempts=len(entry.attempts),
                finding=entry.finding,
            )
        )
    return Forecast(outcome.record.node, outcome.phase, duration, tuple(rows), tuple(outcome.findings))


def build(obs: Observation, node: str, policy: Policy, link: float, dirty: Mapping[str, float]) -> Fleet:
    """A fleet as it was observed: the VMs of `node` one by one, all others as sums."""
    fleet = Fleet([_machine(n, link) for n in obs.nodes.values()])
    fleet.clock = max(1.0, obs.now)
    own = fleet.machines[node]
    own.other_mib = own.other_vms = own.other_inbound = 0
    for vm in obs.vms.values():
        if vm.node != node:
            continue
        own.domains[vm.uuid] = Domain(
            vm,
            vm.state,
            vm.persistent,
            vm.autostart,
            vm.marked,
            vm.managed_save,
            dirty.get(vm.uuid, vm.job.dirty_rate / MIB if vm.job else 0.0),
        )
        _under_way(fleet, obs, vm.uuid, policy)
    for uuid, seen in obs.sightings.items():
        for sighting in seen:
            domains = fleet.machines[sighting.node].domains
            spec = obs.vms.get(uuid)
            if spec is not None and uuid not in domains and sighting.state.value != "absent":
                domains[uuid] = Domain(spec, sighting.state, sighting.persistent)
    for claim in [*obs.claims.values(), *obs.inbound]:
        machine = fleet.machines[claim.target]
        machine.claims[claim.vm, claim.owner] = claim
        machine.other_mib -= claim.memory_mib if claim.target != node else 0
    fleet.machines[min(fleet.machines)].slots = {
        (f"slot {n}", "") for n in range(obs.cluster_in_flight - len(obs.claims))
    } | {(c.vm, c.owner) for c in obs.claims.values()}
    return fleet


def _machine(node: Node, link: float) -> Machine:
    return Machine(
        name=node.name,
        capacity_mib=node.capacity_mib,
        reserve_mib=node.reserve_mib,
        link=link,
        reachable=node.reachable,
        up=node.reachable,
        other_mib=node.committed_mib,
        other_vms=node.vm_count,
        other_groups=dict(node.group_counts),
        cordons={OURS if node.our_cordon else "others"} if node.cordoned else set(),
        roll_rank=node.roll_rank,
        roll_done=node.roll_done,
    )


def _under_way(fleet: Fleet, obs: Observation, uuid: str, policy: Policy) -> None:
    """A migration that is observed goes on on the model."""
    vm = obs.vms[uuid]
    seen = obs.sightings.get(uuid, [])
    if vm.job is None or not vm.job.outgoing or not seen:
        return
    move = Move(uuid, vm.node, seen[0].node, 1, policy.migration, Fate(), Stage.PRECOPY)
    move.total = max(1.0, vm.job.total / MIB or vm.memory_mib)
    move.remaining = min(move.total, vm.job.remaining / MIB or move.total)
    move.since = fleet.clock
    move.mode = vm.job.mode
    there = fleet.machines[move.target].domains
    there.setdefault(uuid, Domain(vm, State.INCOMING, persistent=False))
    if move.mode.value == "PostCopy":
        move.stage = Stage.POSTCOPY
    fleet.moves[uuid] = move
