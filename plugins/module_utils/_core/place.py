# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Placement: which node takes a VM. For the drain and for the plan alike.

Only uncordoned, reachable nodes with room, all hard requirements met: selector, affinity, taints,
no older hypervisor, and anti-affinity where the policy wants it kept. Then: not a node that is
still to come in the roll; fewest VMs of the same anti-affinity group; few taints that only
discourage; beside the VMs that it wants to be near; and what the profile says.
"""

from __future__ import annotations

from .model import VM, Node, Observation
from .needs import NO_NEEDS, disliked, unmet
from .policy import Limits, Placing, Profile
from .reasons import Finding, Reason

# A profile's score is the room, times this; the least is best.
_SIGN = {Profile.LOW: -1, Profile.HIGH: 1, Profile.NO_SCORING: 0}
_Key = tuple[int, int, int, int, int, str]


class Placement:
    """Chooses targets for one decide step and books what it gave, so that the next VM of the
    same step sees it. Cost: the nodes are sorted once; then a VM looks at few of them, unless
    most refuse it."""

    def __init__(
        self,
        obs: Observation,
        draining: frozenset[str],
        limits: Limits,
        to: str = "",
        placing: Placing | None = None,
    ) -> None:
        self._limits = limits
        self._placing = placing or Placing()
        self._sign = _SIGN[self._placing.profile]
        self._sources = obs.nodes
        self._nodes: list[Node] = [
            n
            for n in obs.nodes.values()
            if n.name not in draining and n.reachable and not n.cordoned and to in ("", n.name)
        ]
        self._booked: dict[str, int] = {}
        self._booked_in: dict[str, int] = {}
        self._booked_groups: dict[tuple[str, str], int] = {}
        # Best first, group, needs and what is booked left aside.
        self._order: list[tuple[bool, int, str, Node]] | None = None

    def refusals(self, vm: VM, cold: bool = False) -> tuple[Finding, ...]:
        """Why no node can take the VM, reservations and limits left aside. Empty: one can.

        `cold`: it is moved while it is off.
        """
        for node in self._nodes:
            if node.room_mib + node.reserved_mib >= vm.memory_mib and not self.refuses(
                vm, node, cold
            ):
                return ()
        return self._explain(vm, cold)

    def has_room(self, vm: VM) -> bool:
        """Has a node room for it now, whatever the inbound limit says?"""
        return any(self.room(n) >= vm.memory_mib and not self.refuses(vm, n) for n in self._nodes)

    def room(self, node: Node) -> int:
        """MiB that are left on it after what was booked in this step."""
        return node.room_mib - self._booked.get(node.name, 0)

    def refuses(self, vm: VM, node: Node, cold: bool = False) -> tuple[Finding, ...]:
        """Why this node never takes the VM, however much room it has. Empty: it may."""
        refusing = vm.refused_by
        if cold and vm.cold_refused_by is not None:
            refusing = vm.cold_refused_by
        if refusing.get(node.name):
            return refusing[node.name]
        text = ""
        if node.taints or vm.needs is not NO_NEEDS:
            text = unmet(vm.needs, node.labels, node.taints)
        if not text and not cold:
            text = self._older(vm, node)
        if not text and self._placing.apart and vm.group and self._same(vm, node):
            text = f"runs a VM of the group {vm.group}"
        return (Finding(Reason.NO_TARGET, f"{node.name} {text}."),) if text else ()

    def _older(self, vm: VM, node: Node) -> str:
        """Its state is not understood by a hypervisor older than the one that it runs on."""
        source = self._sources.get(vm.node)
        if source is None or not source.version or not node.version:
            return ""
        if node.version >= source.version:
            return ""
        return f"has an older hypervisor ({_dotted(node.version)}, not {_dotted(source.version)})"

    def _same(self, vm: VM, node: Node) -> int:
        """VMs of its anti-affinity group that are there, or will be after this step."""
        if not vm.group:
            return 0
        booked = self._booked_groups.get((node.name, vm.group), 0)
        return node.group_counts.get(vm.group, 0) + booked

    def _explain(self, vm: VM, cold: bool) -> tuple[Finding, ...]:
        """A VM that every node refuses for the same kind of reason gets that reason."""
        if not self._nodes:
            return (Finding(Reason.NO_TARGET, "No other host is uncordoned and reachable."),)
        found: dict[Reason, Finding] = {}
        unfit: list[str] = []
        small: list[str] = []
        for node in self._nodes:
            refused = self.refuses(vm, node, cold)
            if not refused:
                small.append(f"{node.name} has room for {max(0, node.room_mib)} MiB")
            for finding in refused:
                if finding.reason is Reason.NO_TARGET:
                    unfit.append(finding.message.rstrip("."))
                else:
                    found.setdefault(finding.reason, finding)
        if small or unfit or not found:
            text = f"The VM needs {vm.memory_mib} MiB: " + "; ".join([*small, *unfit][:5]) + "."
            found.setdefault(Reason.NO_TARGET, Finding(Reason.NO_TARGET, text))
        return tuple(found.values())

    def pick(self, vm: VM, cold: bool = False) -> str | None:
        """A target with room and a free inbound place now, booked for this step; else None."""
        if self._order is None:
            sign = self._sign
            self._order = sorted(
                (
                    n.roll_rank is not None and not n.roll_done,
                    sign * (n.capacity_mib - n.reserve_mib - n.committed_mib),  # room_mib, faster
                    n.name,
                    n,
                )
                for n in self._nodes
            )
        # With HIGH a booked node becomes better than it was sorted, so all are looked at.
        early = self._placing.profile is not Profile.HIGH
        nearest = -(1 << 30) if vm.needs.near else 0
        best: tuple[_Key, Node] | None = None
        for to_come, score, name, node in self._order:
            if best is not None and early and (to_come, 0, 0, nearest, score, name) > best[0]:
                break  # nothing that follows can be better
            if self.room(node) < vm.memory_mib or self.refuses(vm, node, cold):
                continue
            if node.inbound + self._booked_in.get(node.name, 0) >= self._limits.inbound:
                continue
            key = self._key(vm, node)
            if best is None or key < best[0]:
                best = (key, node)
        if best is None:
            return None
        name = best[1].name
        self._booked[name] = self._booked.get(name, 0) + vm.memory_mib
        self._booked_in[name] = self._booked_in.get(name, 0) + 1
        if vm.group:
            group = (name, vm.group)
            self._booked_groups[group] = self._booked_groups.get(group, 0) + 1
        return name

    def _key(self, vm: VM, node: Node) -> _Key:
        """Smaller is better. A node still to be drained would mean a second move."""
        near = node.group_counts.get(vm.needs.near, 0) if vm.needs.near else 0
        if vm.needs.near:
            near += self._booked_groups.get((node.name, vm.needs.near), 0)
        return (
            _to_come(node),
            self._same(vm, node),
            disliked(vm.needs, node.taints) if node.taints else 0,
            -near,
            self._score(node, self._booked.get(node.name, 0)),
            node.name,
        )

    def _score(self, node: Node, booked: int) -> int:
        return self._sign * (node.room_mib - booked)


def _to_come(node: Node) -> int:
    return int(node.roll_rank is not None and not node.roll_done)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
