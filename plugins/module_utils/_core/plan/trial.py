"""One step of a roll, tried: `decide` on the fleet as it would be then. Pure.

Limits say when a VM moves, not whether, so they are left aside here; the timeline obeys them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ..decision.actions import Do
from ..decision.decide import decide
from ..decision.placement import Placement
from ..decision.strategy import Way, allows_older
from ..model.observation import VM, Node, Observation
from ..model.policy import Limits
from ..model.record import Ending, Intent, NodeRecord
from ..reasons.reason import Finding, Reason
from ..run.start import begin
from .model import Budget, RollRequest
from .placed import Placed, placed_by, placed_one, transfer_of
from .transfers import converges, width

_NO_LIMITS = Limits(10**9, 10**9, 10**9)
OFF = "off"
# Why a VM cannot leave, whatever room there is elsewhere.
NOT_FOR_ROOM = (Reason.NodeUnreadable, Reason.DisruptionBudget)


@dataclass
class Trial:
    """The answer for the hosts of one step. `before`: VMs that make room first.

    second: VMs that land on a host that is still to come, and so move twice. unplaced: VMs that
    cannot leave, each with the reason. over_budget: hosts that would break a budget.
    """

    hosts: list[str]
    placed: list[Placed]
    unplaced: list[tuple[VM, Finding]]
    second: int
    blocking_hosts: set[str]
    over_budget: set[str] = field(default_factory=set)
    before: list[Placed] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        return not self.unplaced

    @property
    def for_room(self) -> bool:
        """Is it for want of a place that it does not fit, and not because of a budget or a silent host?"""
        return not any(finding.reason in NOT_FOR_ROOM for _vm, finding in self.unplaced)

    @property
    def clean(self) -> bool:
        return not self.unplaced and not self.second and not self.blocking_hosts


class Fleet:
    """The fleet as the steps before leave it."""

    def __init__(self, request: RollRequest) -> None:
        self.request = request
        ranks = {name: rank for rank, name in enumerate(request.todo)}
        self.nodes: dict[str, Node] = {
            name: replace(_own(node), roll_rank=ranks.get(name), roll_done=False)
            for name, node in request.nodes.items()
        }
        self._vms: dict[str, dict[str, VM]] = {name: {} for name in self.nodes}
        for vm in request.vms.values():
            self._vms[vm.node][vm.uuid] = vm

    def on(self, host: str) -> list[VM]:
        return list(self._vms[host].values())

    def names(self) -> Iterable[str]:
        return self.nodes

    def observe(self, hosts: Sequence[str]) -> Observation:
        """The observation that a drain of these hosts would have."""
        vms = {uuid: vm for host in hosts for uuid, vm in self._vms[host].items()}
        return Observation(nodes=self.nodes, vms=vms, platform=self.request.platform)

    def placement(self, out: Sequence[str]) -> Placement:
        """The placement of that drain, to be asked why it refuses."""
        policy = self.request.policy
        allows = partial(allows_older, policy=policy)
        where = self.observe([])
        return Placement(where, frozenset(out), _NO_LIMITS, "", policy.placement_policy, allows_older=allows)

    def copy(self) -> Fleet:
        other = Fleet.__new__(Fleet)
        other.request = self.request
        other.nodes = {name: _own(node) for name, node in self.nodes.items()}
        other._vms = {host: dict(vms) for host, vms in self._vms.items()}
        return other

    def move(self, placed: Placed) -> None:
        """It is at its target now. What is only stopped is started again where it was."""
        if not placed.moves:
            return
        vm = placed.vm
        del self._vms[vm.node][vm.uuid]
        self._vms[placed.target][vm.uuid] = replace(vm, node=placed.target)
        if vm.active:
            self._count(self.nodes[vm.node], vm, -1)
            self._count(self.nodes[placed.target], vm, 1)

    @staticmethod
    def _count(node: Node, vm: VM, sign: int) -> None:
        node.committed_mib += sign * vm.memory_mib
        node.committed_cpu_milli += sign * vm.cpu_milli
        node.vm_count += sign
        if vm.takes and node.spare is not None:
            node.spare = {**node.spare, **{what: node.spare.get(what, 0) - sign * n for what, n in vm.takes.items()}}
        if vm.group:
            node.group_counts[vm.group] = node.group_counts.get(vm.group, 0) + sign

    def apply(self, trial: Trial) -> None:
        for placed in [*trial.before, *trial.placed]:
            self.move(placed)

    def done(self, hosts: Iterable[str]) -> None:
        """Their work is over: they take VMs again, and rather than those that are to come."""
        for host in hosts:
            self.nodes[host].roll_done = True

    def spare(self, out: Sequence[str]) -> tuple[int, int, str, int | None]:
        """(room on all other hosts, the most on one of them, which; CPU on all, if counted)."""
        left = [n for n in self.nodes.values() if n.name not in out and n.reachable and not n.cordoned]
        rooms = [(max(0, n.room_mib), n.name) for n in left]
        cpu = [int(max(0, n.cpu_room)) for n in left if n.cpu_milli is not None]
        most, where = max(rooms, key=lambda r: (r[0], r[1]), default=(0, ""))
        return sum(room for room, _name in rooms), most, where, sum(cpu) if cpu else None


def _own(node: Node) -> Node:
    return replace(node, group_counts=dict(node.group_counts))


def _record(host: str, intent: Intent, only: str = "") -> NodeRecord:
    return begin(None, host, intent.value, "plan", 0.0, "", only=only)


def try_step(fleet: Fleet, hosts: Sequence[str]) -> Trial:
    """Try the drain of these hosts at once: a place for each VM as the drain would decide it, and for those that their
    owners move."""
    trial, owned = _try(fleet, hosts)
    if owned:
        trial = _with_owners(fleet, trial, owned)
    for placed in trial.placed:
        if placed.moves and _is_to_come(fleet, placed.target, hosts):
            trial.second += 1
            trial.blocking_hosts.add(placed.vm.node)
    trial.over_budget = _over_budget(fleet, trial)
    trial.blocking_hosts |= trial.over_budget
    return trial


def _try(fleet: Fleet, hosts: Sequence[str]) -> tuple[Trial, list[Placed]]:
    """(what `decide` answers, the VMs that it leaves to their owners)"""
    policy = replace(fleet.request.policy, limits=_NO_LIMITS, in_turn=False)
    records = {host: _record(host, Intent.DRAINED) for host in hosts}
    obs = fleet.observe(hosts)
    decision = decide(obs, records, policy)
    trial = Trial(list(hosts), [], [], 0, set())
    trial.placed += placed_by(decision, obs)
    acts = {placed.vm.uuid for placed in trial.placed}
    owned: list[Placed] = []
    for placed in list(trial.placed):
        _check_convergence(trial, fleet, placed)
        _check_budgets(trial, fleet, placed)
    for host, record in decision.records.items():
        owned += _left(trial, fleet, record, acts)
        for finding in decision.node_findings.get(host, ()):
            # Of one that can be read it is said that it is not cordoned yet, and the like.
            if not fleet.nodes[host].reachable:
                _unreadable(trial, host, finding)
    return trial, owned


def _with_owners(fleet: Fleet, trial: Trial, owned: Sequence[Placed]) -> Trial:
    """Where an owner moves a VM is the owner's to say: here it is kept a place that fits it.

    First in what the others leave. The largest may have to come first: then the other way round.
    """
    after = fleet.copy()
    after.apply(trial)
    places, without = _places(after, trial.hosts, owned)
    if without:
        ahead, left = _places(fleet, trial.hosts, owned)
        kept = fleet.copy()
        for placed in ahead:
            kept.move(placed)
        other = trial if left else _try(kept, trial.hosts)[0]
        if other.fits and not left:
            trial, places, without = other, ahead, []
    trial.placed += places
    trial.unplaced += without
    trial.blocking_hosts |= {vm.node for vm, _finding in without}
    return trial


def _places(fleet: Fleet, out: Sequence[str], owned: Sequence[Placed]) -> tuple[list[Placed], list[tuple[VM, Finding]]]:
    """(with a target each, those without one)"""
    placement = fleet.placement(out)
    places: list[Placed] = []
    without: list[tuple[VM, Finding]] = []
    for one in sorted(owned, key=lambda p: (-placement.size(p.vm), p.vm.name)):
        vm = one.vm  # its owner may move it while it is off as well
        target = placement.pick(vm) or placement.pick(vm, cold=True)
        if target is None:
            why = placement.refusals(vm)
            text = why[0].message if why else "Other VMs of this step take all the room."
            without.append((vm, Finding(Reason.NoTargetWithCapacity, f"For its owner to move it: {text}")))
        else:
            places.append(replace(one, target=target))
    return places, without


def _left(trial: Trial, fleet: Fleet, record: NodeRecord, acts: set[str]) -> list[Placed]:
    """VMs for which there is nothing to do, or nothing that can be done; given are those that
    their owners move."""
    owned = []
    for vm in fleet.on(record.node):
        if vm.uuid in acts or vm.uuid not in record.vms:  # of a silent host no VM is decided on
            continue
        entry = record.vms[vm.uuid]
        if entry.ending == Ending.OFF.value:
            trial.placed.append(Placed(vm, OFF, "", "it is off and stays where it is"))
            continue
        if entry.way == Way.EXTERNAL.value:
            why = f"{entry.strategy}, {entry.decided_by}; its owner moves it"
            owned.append(Placed(vm, Way.EXTERNAL.value, "", why))
            continue
        reason = Reason(entry.reason) if entry.reason else Reason.NoTargetWithCapacity
        trial.unplaced.append((vm, Finding(reason, entry.message)))
        trial.blocking_hosts.add(record.node)
    return owned


def _check_convergence(trial: Trial, fleet: Fleet, placed: Placed) -> None:
    """One that writes faster than the link carries would be tried in vain, and block."""
    request = fleet.request
    if placed.way != Way.MIGRATE.value or placed.vm.uuid not in request.dirty:
        return
    transfer = transfer_of(request, placed)
    if converges(transfer, request.speeds):
        return
    text = (
        f"It writes {transfer.dirty:.0f} MiB/s, and the link to {placed.target} carries "
        f"{width(transfer, request.speeds):.0f} MiB/s."
    )
    trial.unplaced.append((placed.vm, Finding(Reason.CompletionTimeout, text)))
    trial.blocking_hosts.add(placed.vm.node)


def _check_budgets(trial: Trial, fleet: Fleet, placed: Placed) -> None:
    """One whose stop no budget ever allows would be asked for in vain, and block."""
    for budget in fleet.request.budgets:
        if placed.stops and budget.never and placed.vm.uuid in budget.vms:
            text = f"{budget.name} can never allow an eviction: {budget.never}."
            trial.unplaced.append((placed.vm, Finding(Reason.DisruptionBudget, text)))
            trial.blocking_hosts.add(placed.vm.node)
            return


def _unreadable(trial: Trial, host: str, finding: Finding) -> None:
    """Nothing is known of its VMs: it stands for one that cannot leave."""
    trial.unplaced.append((VM("", host, host), finding))
    trial.blocking_hosts.add(host)


def _is_to_come(fleet: Fleet, target: str, hosts: Sequence[str]) -> bool:
    node = fleet.nodes[target]
    return node.roll_rank is not None and not node.roll_done and target not in hosts


def _over_budget(fleet: Fleet, trial: Trial) -> set[str]:
    """Hosts whose VMs would break a budget, alone or together with hosts before them.

    A host that did alone from the first can be emptied in no step. Where the plan's own moves brought them
    together, or stops keep to it one after the other, the plan warns.
    """
    over: set[str] = set()
    stopped = {placed.vm.uuid for placed in trial.placed if placed.stops}
    for budget in fleet.request.budgets:
        counted = budget.vms & stopped if budget.stops_only else budget.vms
        used = 0
        for host in trial.hosts:
            here = [vm for vm in fleet.on(host) if vm.uuid in counted and vm.active]
            used += len(here)
            if len(here) > budget.at_once and not budget.stops_only and _began_together(fleet, budget, host):
                trial.unplaced += [(vm, _at_once(budget, here)) for vm in here[:1]]
                over.add(host)
            elif used > budget.at_once and host != trial.hosts[0]:
                over.add(host)
    return over


def _began_together(fleet: Fleet, budget: Budget, host: str) -> bool:
    vms = fleet.request.vms
    return sum(vms[uuid].node == host and vms[uuid].active for uuid in budget.vms) > budget.at_once


def _at_once(budget: Budget, here: Sequence[VM]) -> Finding:
    names = ", ".join(sorted(vm.name for vm in here))
    text = f"The budget {budget.name} lets {budget.at_once} of its VMs go in one step, and {names} are all on it"
    return Finding(Reason.DisruptionBudget, f"{text}.")


def try_one(fleet: Fleet, vm: VM, out: Sequence[str]) -> Placed | None:
    """Move one VM by itself, as virt_migration would, while `out` take no VMs."""
    policy = replace(fleet.request.policy, limits=_NO_LIMITS, in_turn=False)
    nodes = {name: replace(node, cordoned=True) if name in out else node for name, node in fleet.nodes.items()}
    obs = Observation(nodes=nodes, vms={vm.uuid: vm}, platform=fleet.request.platform)
    record = _record(vm.node, Intent.MIGRATED, vm.uuid)
    decision = decide(obs, {vm.node: record}, policy)
    for action in decision.actions:
        if action.do is Do.MIGRATE:
            return placed_one(decision, vm, action)
    return None
