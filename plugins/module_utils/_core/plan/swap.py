"""Swap moves: a VM is moved out of the way of one that fits nowhere else. Pure.

Only where nothing else makes a host fit. The smallest VM that makes enough room goes, or as few as
do together, each to a host that takes it by the drain's own decision for one VM. What an upgrade would
prevent comes last.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.observation import VM, Node
from .direction import one_way
from .placed import Placed
from .trial import Fleet, Trial, try_one, try_step

MOST_SWAPS = 6  # for one step


def swaps(fleet: Fleet, host: str) -> Trial | None:
    """A step for `host` with moves that make room first; None: none does."""
    model = fleet.copy()
    before: list[Placed] = []
    while True:
        trial = try_step(model, [host])
        if trial.fits:
            trial.before = before
            return trial
        moved = _make_room(model, host, trial) if trial.for_room else []
        if not moved or len(before) + len(moved) > MOST_SWAPS:
            return None
        for one in moved:
            model.move(one)
        before += moved


def _make_room(model: Fleet, host: str, trial: Trial) -> list[Placed]:
    """Make room for the largest VM that has no place: move the fewest and smallest VMs in its way."""
    placement = model.placement([host])
    vm, _finding = max(trial.unplaced, key=lambda m: (placement.size(m[0]), m[0].uuid))
    best: list[Placed] = []
    for node in model.nodes.values():
        if node.name == host or not node.reachable or node.cordoned or placement.refuses(vm, node):
            continue
        found = _out_of_the_way(model, vm, node, host)
        if found and (not best or _cost(model, found) < _cost(model, best)):
            best = found
    return [replace(one, swap_for=vm.name) for one in best]


def _cost(model: Fleet, moved: list[Placed]) -> tuple[int, int, int, str]:
    against = sum(one_way(model, one) for one in moved)
    return against, len(moved), sum(one.vm.memory_mib for one in moved), moved[0].vm.uuid


def _out_of_the_way(model: Fleet, vm: VM, node: Node, host: str) -> list[Placed]:
    """One VM of the node that makes enough room, the smallest; or else several, the largest first."""
    missing = vm.memory_mib - node.room_mib
    cpu = vm.cpu_milli - node.cpu_room if vm.cpu_milli else 0
    more = node.lacks(vm.takes)
    if missing <= 0 and cpu <= 0 and not more:
        return []  # there is room: others took it first, in the same step
    if node.capacity_mib - node.reserve_mib < vm.memory_mib:
        return []  # nor would there be if it were empty
    there = sorted((v for v in model.on(node.name) if v.active), key=lambda v: (v.memory_mib, v.uuid))
    for other in there:
        more_too = all(other.takes.get(what, 0) >= value for what, value in more.items())
        if other.memory_mib >= missing and other.cpu_milli >= cpu and more_too:
            placed = try_one(model, other, [host])
            if placed is not None:
                return [placed]
    return _several(model, there, vm, node, host)


def _several(model: Fleet, there: list[VM], vm: VM, node: Node, host: str) -> list[Placed]:
    after = model.copy()
    moved: list[Placed] = []
    for other in reversed(there):
        if len(moved) == MOST_SWAPS:
            break
        placed = try_one(after, other, [host])
        if placed is None:
            continue
        after.move(placed)
        moved.append(placed)
        free = after.nodes[node.name]
        if free.room_mib >= vm.memory_mib and free.has_cpu(vm.cpu_milli) and not free.lacks(vm.takes):
            return moved
    return []
