"""What happened to the VMs of a host that died, counted from a log. It knows nothing of the product.

The log: (what, host, VM) in their order. `runs` and `ends` are the guests' own; `read as off` is a power state that was
read, or a person's word; `power on` the host's; `last look` one at the host before a start.
"""

from __future__ import annotations

from collections.abc import Iterable

Event = tuple[str, str, str]


def twice(log: Iterable[Event]) -> list[str]:
    """VMs that ran on two hosts at one time."""
    where: dict[str, set[str]] = {}
    found = []
    for what, host, vm in log:
        if what == "runs":
            where.setdefault(vm, set()).add(host)
            if len(where[vm]) > 1:
                found.append(vm)
        elif what == "ends":
            where.get(vm, set()).discard(host)
    return found


def without_proof(log: Iterable[Event], dead: str) -> list[str]:
    """VMs that began to run elsewhere while nothing proved that this host is off: nothing since it was last switched
    on. Who was proven right at the last look, and whose host gets its power in the moment after that, is not meant:
    there the host itself is kept from starting it (`twice`)."""
    proven = at_look = False
    found = []
    for what, host, vm in log:
        if host == dead and what == "read as off":
            proven = True
        elif host == dead and what == "power on":
            proven = False
        elif host == dead and what == "last look":
            at_look = proven
        elif what == "runs" and host != dead and not at_look:
            found.append(vm)
    return found
