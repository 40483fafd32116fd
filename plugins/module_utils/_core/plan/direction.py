"""Which moves of a plan an upgrade would prevent, and what is said of them. Pure.

The plan knows the versions of now, and not what the work on a host does. So it counts on no upgrade,
and what it does to VMs has to stay possible if there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..decision.placement import dotted
from ..model.observation import VM
from .model import RollRequest
from .placed import Placed
from .trial import Fleet

_NAMED = 5


def one_way(fleet: Fleet, placed: Placed) -> bool:
    """Does it leave a host whose work is over for one whose work is not? If that work is an upgrade, the target is
    older by then."""
    source, target = fleet.nodes[placed.vm.node], fleet.nodes[placed.target]
    return bool(source.version) and source.roll_done and not target.roll_done


def swap_warning(placed: Placed) -> str:
    source = placed.vm.node
    return (
        f"{placed.vm.name} has to make room on {source} once the work there is over, and moves to {placed.target}: that"
        f" is not possible if the work makes the hypervisor of {source} newer. Move it before the roll begins."
    )


def back_warnings(request: RollRequest, fleet: Fleet, migrated: Collection[str]) -> Iterable[str]:
    """VMs that are to go back from a host that is newer now than the one from which they came. `fleet`: as the last
    step leaves it."""
    found: dict[tuple[str, str], list[VM]] = {}
    for name in fleet.names():
        for vm in fleet.on(name):
            if vm.uuid in migrated:
                found.setdefault((name, request.vms[vm.uuid].node), []).append(vm)
    for (away, home), vms in found.items():
        newer, older = request.nodes[away].version, request.nodes[home].version
        if older and older < newer:
            names = sorted(vm.name for vm in vms)
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            yield (
                f"{', '.join(names[:_NAMED])}{more} can go back from {away} ({dotted(newer)}) to {home} only if the"
                f" work makes its hypervisor ({dotted(older)}) as new."
            )
