"""Placement: which node takes a VM. For the drain and for the plan alike.

Only uncordoned, reachable nodes with room (memory, and CPU where it is counted), all hard
requirements met: selector, affinity, taints, no older hypervisor, and anti-affinity where the
policy wants it kept. Then: not a node that is still to come in the roll; fewest VMs of the same
anti-affinity group; few taints that only discourage; beside the VMs that it wants to be near; where
releases are mixed, a node whose hypervisor is newer, since the older ones are to be upgraded and would
send it on; of nodes that are still to come an older one, since a newer one could give it to few; and
what the profile says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any

from ..model.constraints import NO_CONSTRAINTS, unsatisfied, untolerated_preferences
from ..model.observation import VM, Node, Observation, amounts
from ..model.policy import Limits, PlacementPolicy, Profile
from ..reasons.reason import Finding, Reason

# A profile's score is the room, times this; the least is best.
_SIGN = {Profile.LOW: -1, Profile.HIGH: 1}
_Key = tuple[int, int, int, int, int, int, str]
# Nodes that are named where none fits, and how many are looked at for that.
_NAMED, _CHECKED = 5, 8
# Of fewer than these only they are sorted, not all nodes.
_FEW = 20
# (to come in the roll, age of the hypervisor, score, name, room in MiB, node)
_Place = tuple[bool, int, int, str, int, Node]


def _left_out(obs: Observation, draining: frozenset[str], to: str) -> str:
    """Which hosts take no VM for now, and why: an operator may have forgotten one."""
    others = [n for n in obs.nodes.values() if n.name not in draining and to in ("", n.name)]
    silent = [n.name for n in others if not n.reachable]
    cordoned = [n.name for n in others if n.reachable and n.cordoned]
    texts = (("Cordoned", cordoned), ("Not readable", silent))
    return " ".join(f"{what}: {_named(sorted(names))}." for what, names in texts if names)


def _named(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


class Placement:
    """Chooses targets for one decide step and books what it gave, so that the next VM of the
    same step sees it. Cost: the nodes are sorted once; then a VM looks at few of them, unless
    most refuse it. `hurries`: nodes whose drain does not wait for the others of its roll any more.
    `allows_older`: may the VM go to an older hypervisor, if all that it needs is known there?"""

    def __init__(
        self,
        obs: Observation,
        draining: frozenset[str],
        limits: Limits,
        to: str = "",
        placement_policy: PlacementPolicy | None = None,
        hurries: AbstractSet[str] = frozenset(),
        allows_older: Callable[[VM], bool] | None = None,
    ) -> None:
        self._limits = limits
        self._hurries = hurries
        self._allows_older = allows_older
        self._placement_policy = placement_policy or PlacementPolicy()
        self._sign = _SIGN[self._placement_policy.profile]
        self._sources = obs.nodes
        self._left_out = _left_out(obs, draining, to)
        self._nodes: list[Node] = [
            n
            for n in obs.nodes.values()
            if n.name not in draining and n.reachable and not n.cordoned and to in ("", n.name)
        ]
        cpu = sum(n.cpu_milli for n in self._nodes if n.cpu_milli)
        memory = sum(n.capacity_mib for n in self._nodes if n.cpu_milli)
        self._mib_per_cpu = memory / cpu if cpu else 0.0
        versions = {n.version for n in self._nodes}
        self._rank = {version: rank for rank, version in enumerate(sorted(versions))}
        self._ours_to = {claim.target for claim in obs.claims.values() if not claim.stuck}
        self._booked: dict[str, int] = {}
        self._booked_cpu: dict[str, int] = {}
        self._booked_more: dict[str, dict[str, int]] = {}
        self._booked_in: dict[str, int] = {}
        self._booked_groups: dict[tuple[str, str], int] = {}
        # Best first, group, needs and what is booked left aside.
        self._order: list[_Place] | None = None
        self._roomiest: list[tuple[int, str, Node]] = []
        self._places: dict[str, tuple[int, str, Node]] = {}
        self._fitting: dict[tuple[Any, ...], frozenset[str]] = {}

    def refusals(self, vm: VM, cold: bool = False) -> tuple[Finding, ...]:
        """Why no node can take the VM, reservations and limits left aside. Empty: one can.

        `cold`: it is moved while it is off.
        """
        for node in self._nodes[:3]:  # mostly one of the first takes it, and nothing is sorted
            room = node.room_mib + node.reserved_mib
            if room < vm.memory_mib or not node.has_cpu(vm.cpu_milli) or node.lacks(vm.takes):
                continue
            if not self.refuses(vm, node, cold):
                return ()
        may = self._may(vm, cold)
        for whole, name, node in self._roomiest_first(may):
            if -whole < vm.memory_mib:
                break
            if name not in may or not node.has_cpu(vm.cpu_milli) or node.lacks(vm.takes):
                continue
            if not self.refuses(vm, node, cold):
                return ()
        return self._explain(vm, cold)

    def _roomiest_first(self, may: AbstractSet[str]) -> list[tuple[int, str, Node]]:
        """(less its room with reservations left aside, name, node): the first that is too small
        ends a search. Of few, or of all."""
        if not self._roomiest:
            self._roomiest = sorted(
                (n.committed_mib - n.reserved_mib - n.capacity_mib + n.reserve_mib, n.name, n) for n in self._nodes
            )
            self._places = {place[1]: place for place in self._roomiest}
        return sorted(self._places[name] for name in may) if len(may) < _FEW else self._roomiest

    def _may(self, vm: VM, cold: bool) -> AbstractSet[str]:
        """Names of the nodes that are worth a closer look (`refuses`): most VMs of a fleet want
        the same, so what they want is compared with each node's labels and taints once."""
        needs, refusing = vm.constraints, _refusing(vm, cold)
        key = (tuple(sorted(needs.selector.items())), needs.affinity, needs.tolerations)
        if key not in self._fitting:
            asks = bool(needs.selector or needs.affinity)
            self._fitting[key] = frozenset(
                [n.name for n in self._nodes if not ((asks or n.taints) and unsatisfied(needs, n.labels, n.taints))]
            )
        return self._fitting[key].difference(refusing) if refusing else self._fitting[key]

    def with_room(self, vm: VM) -> list[str]:
        """The nodes that have room for it now, whatever the inbound limit says."""
        may = self._may(vm, cold=False)
        return [
            name
            for _still_to_drain, _age, _score, name, room, node in self._best_first()
            if room >= vm.memory_mib and name in may and self._fits(vm, node) and not self.refuses(vm, node)
        ]

    def room(self, node: Node) -> int:
        """MiB that are left on it after what was booked in this step."""
        return node.room_mib - self._booked.get(node.name, 0)

    def _fits(self, vm: VM, node: Node) -> bool:
        """Beside what was booked in this step."""
        if vm.takes and node.lacks(vm.takes, self._booked_more.get(node.name)):
            return False
        booked = self._booked_cpu.get(node.name, 0)
        return self.room(node) >= vm.memory_mib and node.has_cpu(vm.cpu_milli, booked)

    def size(self, vm: VM) -> float:
        """How much the VM takes of a node, in MiB: its memory or its CPU, see `weight`."""
        return self.weight(vm.memory_mib, vm.cpu_milli)

    def weight(self, mib: int, cpu_milli: int) -> float:
        """The scarcer of the two, in MiB: CPU for the memory that nodes have beside it."""
        return max(float(mib), cpu_milli * self._mib_per_cpu)

    def taken(self, vm: VM) -> str:
        """The resource that is missing on the nodes that would take the VM: "CPU" if one of them has the memory, else
        "room"."""
        has = self._nodes
        if vm.takes:
            has = [n for n in has if not n.lacks(vm.takes, self._booked_more.get(n.name))]
        memory = any(self.room(n) >= vm.memory_mib and not self.refuses(vm, n) for n in has)
        return "CPU" if memory else "room"

    def refuses(self, vm: VM, node: Node, cold: bool = False) -> tuple[Finding, ...]:
        """Why this node never takes the VM, however much room it has. Empty: it may."""
        refusing = _refusing(vm, cold)
        if refusing.get(node.name):
            return refusing[node.name]
        text, reason = "", Reason.NoTargetWithCapacity
        if node.taints or vm.constraints is not NO_CONSTRAINTS:
            text = unsatisfied(vm.constraints, node.labels, node.taints)
        if not text and not cold:
            text = self._older(vm, node)
            reason = Reason.NewerToOlder if text else reason
        if not text and self._placement_policy.require_anti_affinity and vm.group and self._same(vm, node):
            text = f"runs a VM of the group {vm.group}"
        return (Finding(reason, f"{node.name} {text}."),) if text else ()

    def _older(self, vm: VM, node: Node) -> str:
        """Its state may not be understood by a hypervisor older than the one that it runs on."""
        source = self._sources.get(vm.node)
        if source is None or not source.version or not node.version:
            return ""
        if node.version >= source.version:
            return ""
        text = f"has an older hypervisor ({dotted(node.version)}, not {dotted(source.version)})"
        if self._allows_older is None or not self._allows_older(vm):
            return text
        lacks = vm.compared.get(node.name, "its machine types and CPU were not read")
        return f"{text}, and {lacks}" if lacks else ""

    def _same(self, vm: VM, node: Node) -> int:
        """VMs of its anti-affinity group that are there, or will be after this step."""
        if not vm.group:
            return 0
        booked = self._booked_groups.get((node.name, vm.group), 0)
        return node.group_counts.get(vm.group, 0) + booked

    def _explain(self, vm: VM, cold: bool) -> tuple[Finding, ...]:
        """A VM that every node refuses for the same kind of reason gets that reason."""
        if not self._nodes:
            why = self._left_out or "No other host was given."
            return (Finding(Reason.NoTargetWithCapacity, f"No host can take the VM. {why}"),)
        found: dict[Reason, Finding] = {}
        typed, refusing = set(), _refusing(vm, cold)
        for name in [node.name for node in self._nodes] if refusing else ():
            for finding in refusing.get(name, ()):
                if finding.reason is not Reason.NoTargetWithCapacity:
                    found.setdefault(finding.reason, finding)
                    typed.add(name)
        if len(typed) < len(self._nodes):
            rest = (node for node in self._nodes if node.name not in typed)
            if not cold and all(self._older(vm, node) for node in rest):
                # Room on them would not help.
                some = islice((n for n in self._nodes if n.name not in typed), _NAMED)
                older = "; ".join(f"{node.name} {self._older(vm, node)}" for node in some)
                text = f"{older}. {self._left_out}".rstrip()
                found[Reason.NewerToOlder] = Finding(Reason.NewerToOlder, text)
                return tuple(found.values())
            nodes = self._nodes if vm.takes else []
            lacking = {what: vm.takes[what] for node in nodes for what in node.lacks(vm.takes)}
            needs = _amount(vm, vm.memory_mib, vm.cpu_milli, lacking)
            text = f"The VM needs {needs}: {self._examples(vm, cold, typed)}. {self._left_out}"
            text = text.rstrip()
            found.setdefault(Reason.NoTargetWithCapacity, Finding(Reason.NoTargetWithCapacity, text))
        return tuple(found.values())

    def _examples(self, vm: VM, cold: bool, but: Collection[str]) -> str:
        """Say of some of the nodes why they do not take the VM: those that are only too small first."""
        unfit: list[str] = []
        small: list[str] = []
        for node in islice((n for n in self._nodes if n.name not in but), _CHECKED):
            refused = self.refuses(vm, node, cold)
            if refused:
                unfit.append(refused[0].message.rstrip("."))
            else:
                lacks = node.lacks(vm.takes) if vm.takes else {}
                spare = {what: (node.spare or {}).get(what, 0) for what in lacks}
                small.append(f"{node.name} has room for {_amount(vm, node.room_mib, node.cpu_room, spare)}")
            if len(small) == _NAMED:
                break
        return "; ".join([*small, *unfit][:_NAMED])

    def pick(self, vm: VM, cold: bool = False) -> str | None:
        """A target with room and a free inbound place now, booked for this step; else None."""
        # With HIGH a booked node becomes better than it was sorted, so all are looked at.
        early = self._placement_policy.profile is not Profile.HIGH
        may = self._may(vm, cold)
        planned = self._expecting(vm, may, cold)
        if planned is not None:
            return planned or None
        best: tuple[_Key, str] | None = None
        for place in self._nodes_with(vm.constraints.near) if vm.constraints.near else ():
            best = self._better(best, place, vm, may, cold)
        for place in self._best_first():
            to_come, age, score, name, room, _node = place
            if room < vm.memory_mib or name not in may:
                continue
            if best is not None and early and (to_come, 0, 0, 0, age, score, name) > best[0]:
                break  # nothing that follows can be better
            best = self._better(best, place, vm, may, cold)
        if best is None:
            return None
        self._book(vm, best[1])
        return best[1]

    def _expecting(self, vm: VM, may: AbstractSet[str], cold: bool) -> str | None:
        """The node on which the plan wants it, booked; None: it does not go there.

        "": VMs of its own node are on their way there, or of another one of the roll, which comes to an end, and a
        place is free then. Nobody knows when others leave one, so they are not waited for. A node that is still to be
        drained is nobody's wish: the roll goes in another order than the plan.
        """
        for node in self._nodes:
            if vm.uuid not in node.expects or node.name not in may or _still_to_drain(node):
                continue
            if not self._fits(vm, node) or self.refuses(vm, node, cold):
                return None
            booked = self._booked_in.get(node.name, 0)
            if node.inbound + booked < self._limits.inbound:
                self._book(vm, node.name)
                return node.name
            mates = vm.node not in self._hurries and any(self._in_roll(name) for name in node.inbound_from)
            return "" if booked or mates or node.name in self._ours_to else None
        return None

    def _in_roll(self, name: str) -> bool:
        node = self._sources.get(name)
        return node is not None and bool(_still_to_drain(node))

    def _better(
        self, best: tuple[_Key, str] | None, place: _Place, vm: VM, may: AbstractSet[str], cold: bool
    ) -> tuple[_Key, str] | None:
        *_order, name, room, node = place
        if room < vm.memory_mib or name not in may:
            return best
        if not self._fits(vm, node) or self.refuses(vm, node, cold):
            return best
        if node.inbound + self._booked_in.get(name, 0) >= self._limits.inbound:
            return best
        key = self._key(vm, node)
        return (key, name) if best is None or key < best[0] else best

    def _nodes_with(self, group: str) -> list[_Place]:
        """The nodes that have a VM of the group, or will have after this step."""
        return [
            place
            for place in self._best_first()
            if place[-1].group_counts.get(group) or (place[-3], group) in self._booked_groups
        ]

    def _best_first(self) -> list[_Place]:
        """(to come, age, score, name, room, node) without what is booked, which only takes room."""
        if self._order is None:
            sign, order = self._sign, []
            for node in self._nodes:
                room = node.capacity_mib - node.reserve_mib - node.committed_mib  # room_mib, faster
                to_come = node.roll_rank is not None and not node.roll_done
                order.append((to_come, self._age(node), sign * room, node.name, room, node))
            self._order = sorted(order)
        return self._order

    def _book(self, vm: VM, name: str) -> None:
        self._booked[name] = self._booked.get(name, 0) + vm.memory_mib
        self._booked_cpu[name] = self._booked_cpu.get(name, 0) + vm.cpu_milli
        self._booked_in[name] = self._booked_in.get(name, 0) + 1
        more = self._booked_more.setdefault(name, {}) if vm.takes else {}
        more.update({what: more.get(what, 0) + value for what, value in vm.takes.items()})
        if vm.group:
            group = (name, vm.group)
            self._booked_groups[group] = self._booked_groups.get(group, 0) + 1

    def _key(self, vm: VM, node: Node) -> _Key:
        """Smaller is better. A node still to be drained would mean a second move."""
        near = node.group_counts.get(vm.constraints.near, 0) if vm.constraints.near else 0
        if vm.constraints.near:
            near += self._booked_groups.get((node.name, vm.constraints.near), 0)
        return (
            _still_to_drain(node),
            self._same(vm, node),
            untolerated_preferences(vm.constraints, node.taints) if node.taints else 0,
            -near,
            self._age(node),
            self._score(node, self._booked.get(node.name, 0)),
            node.name,
        )

    def _age(self, node: Node) -> int:
        """Smaller is better. The way to a newer hypervisor is one way: good where the VM stays, and bad where it will
        have to leave again."""
        rank = self._rank[node.version]
        return rank if _still_to_drain(node) else -rank

    def _score(self, node: Node, booked: int) -> int:
        return self._sign * (node.room_mib - booked)


def _refusing(vm: VM, cold: bool) -> Mapping[str, tuple[Finding, ...]]:
    return vm.cold_refused_by if cold and vm.cold_refused_by is not None else vm.refused_by


def _still_to_drain(node: Node) -> int:
    return int(node.roll_rank is not None and not node.roll_done)


def _amount(vm: VM, mib: int, cpu_milli: float, more: Mapping[str, int]) -> str:
    """CPU is told where the VM's is counted. `more`: what else is to be told."""
    text = f"{max(0, mib)} MiB"
    text = f"{text} and {cpus(cpu_milli)}" if vm.cpu_milli and cpu_milli < math.inf else text
    return text + amounts(more)


def cpus(milli: float) -> str:
    """Format thousandths of a CPU."""
    return "1 CPU" if milli == 1000 else f"{max(0.0, milli) / 1000:g} CPUs"


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
