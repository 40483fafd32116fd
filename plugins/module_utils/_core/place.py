# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Placement: which node takes a VM.

Only uncordoned, reachable nodes with room, all hard requirements met. Then: not a node that
is next in the roll if another fits; fewest VMs of the same anti-affinity group; most room.
"""

from __future__ import annotations

from .model import VM, Node, Observation
from .policy import Limits
from .reasons import Finding, Reason


class Placement:
    """Chooses targets for one decide step and books what it gave, so that the next VM of the
    same step sees it. Cost: the nodes are sorted once; then a VM looks at few of them, unless
    most refuse it."""

    def __init__(
        self, obs: Observation, draining: frozenset[str], limits: Limits, to: str = ""
    ) -> None:
        self._limits = limits
        self._nodes: list[Node] = [
            n
            for n in obs.nodes.values()
            if n.name not in draining and n.reachable and not n.cordoned and to in ("", n.name)
        ]
        self._booked: dict[str, int] = {}
        self._booked_in: dict[str, int] = {}
        self._booked_groups: dict[tuple[str, str], int] = {}
        # Best first, group and what is booked left aside: (still to be drained, -room, name).
        self._order: list[tuple[bool, int, str, Node]] | None = None

    def refusals(self, vm: VM) -> tuple[Finding, ...]:
        """Why no node can take the VM, reservations and limits left aside. Empty: one can."""
        for node in self._nodes:
            if node.room_mib + node.reserved_mib >= vm.memory_mib and (
                node.name not in vm.refused_by
            ):
                return ()
        return self._explain(vm)

    def has_room(self, vm: VM) -> bool:
        """Has a node room for it now, whatever the inbound limit says?"""
        return any(
            n.room_mib - self._booked.get(n.name, 0) >= vm.memory_mib
            and n.name not in vm.refused_by
            for n in self._nodes
        )

    def _explain(self, vm: VM) -> tuple[Finding, ...]:
        """A VM that every node refuses for the same kind of reason gets that reason."""
        if not self._nodes:
            return (Finding(Reason.NO_TARGET, "No other host is uncordoned and reachable."),)
        found: dict[Reason, Finding] = {}
        small: list[str] = []
        for node in self._nodes:
            refused = vm.refused_by.get(node.name)
            if refused:
                for finding in refused:
                    found.setdefault(finding.reason, finding)
            else:
                small.append(f"{node.name} has room for {max(0, node.room_mib)} MiB")
        if small or not found:
            text = f"The VM needs {vm.memory_mib} MiB: " + "; ".join(small[:5]) + "."
            found.setdefault(Reason.NO_TARGET, Finding(Reason.NO_TARGET, text))
        return tuple(found.values())

    def pick(self, vm: VM) -> str | None:
        """A target with room and a free inbound place now, booked for this step; else None."""
        if self._order is None:
            self._order = sorted(
                (n.roll_rank is not None and not n.roll_done, -n.room_mib, n.name, n)
                for n in self._nodes
            )
        best: tuple[tuple[int, int, int, str], Node] | None = None
        for to_come, less_room, name, node in self._order:
            if best is not None and (to_come, 0, less_room, name) > best[0]:
                break  # nothing that follows can be better
            room = node.room_mib - self._booked.get(node.name, 0)
            if room < vm.memory_mib or node.name in vm.refused_by:
                continue
            if node.inbound + self._booked_in.get(node.name, 0) >= self._limits.inbound:
                continue
            key = self._key(vm, node, room)
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

    def _key(self, vm: VM, node: Node, room: int) -> tuple[int, int, int, str]:
        """Smaller is better. A node still to be drained would mean a second move."""
        to_come = node.roll_rank is not None and not node.roll_done
        same = 0
        if vm.group:
            same = node.group_counts.get(vm.group, 0)
            same += self._booked_groups.get((node.name, vm.group), 0)
        return (1 if to_come else 0, same, -room, node.name)
