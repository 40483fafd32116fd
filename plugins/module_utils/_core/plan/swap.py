# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Swap moves: a VM is moved out of the way of one that fits nowhere else. Pure.

Only where nothing else makes a host fit. The smallest VM that makes enough room goes, to a host
that takes it by the drain's own decision for one VM.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.observation import VM, Node
from .placed import Placed
from .trial import Fleet, Trial, try_one, try_step

MOST_SWAPS = 4  # for one step


def swaps(fleet: Fleet, host: str) -> Trial | None:
    """A step for `host` with moves that make room first; None: none does."""
    model = fleet.copy()
    before: list[Placed] = []
    for _turn in range(MOST_SWAPS):
        trial = try_step(model, [host])
        if trial.fits:
            trial.before = before
            return trial
        moved = _make_room(model, host, trial)
        if moved is None:
            return None
        model.move(moved)
        before.append(moved)
    trial = try_step(model, [host])
    trial.before = before
    return trial if trial.fits else None


def _make_room(model: Fleet, host: str, trial: Trial) -> Placed | None:
    """For the largest VM that has no place: the smallest VM that is in its way, moved."""
    placement = model.placement([host])
    vm, _finding = max(trial.unplaced, key=lambda m: (placement.size(m[0]), m[0].uuid))
    best: tuple[int, str, Placed] | None = None
    for node in model.nodes.values():
        if node.name == host or not node.reachable or node.cordoned or placement.refuses(vm, node):
            continue
        found = _out_of_the_way(model, vm, node, host)
        if found is not None:
            key = (found.vm.memory_mib, found.vm.uuid)
            if best is None or key < best[:2]:
                best = (*key, found)
    return None if best is None else replace(best[2], swap_for=vm.name)


def _out_of_the_way(model: Fleet, vm: VM, node: Node, host: str) -> Placed | None:
    missing = vm.memory_mib - node.room_mib
    cpu = vm.cpu_milli - node.cpu_room if vm.cpu_milli else 0
    if missing <= 0 and cpu <= 0:
        return None  # there is room: others took it first, in the same step
    for other in sorted(model.on(node.name), key=lambda v: (v.memory_mib, v.uuid)):
        if other.active and other.memory_mib >= missing and other.cpu_milli >= cpu:
            placed = try_one(model, other, [host])
            if placed is not None:
                return placed
    return None
