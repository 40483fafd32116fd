"""What one read of a host of the model's fleet tells of the host itself."""

from __future__ import annotations

from ansible_collections.virtops.maintenance.plugins.module_utils._core.claims import admission
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Node, State

from .fleet import Fleet
from .machines import Machine


def read_node(fleet: Fleet, machine: Machine, ours: str) -> Node:
    """What placement and admission ask of it. `ours`: the owner of the cordons that are ours."""
    active = {u: d.spec.memory_mib for u, d in machine.domains.items() if d.active}
    spoken = admission.committed(machine.claims.values(), active) + machine.other_mib
    groups = dict(machine.other_groups)
    for domain in machine.domains.values():
        if domain.active and domain.spec.group:
            groups[domain.spec.group] = groups.get(domain.spec.group, 0) + 1
    inbound = {c.vm for c in machine.claims.values()} | incoming(machine)
    moves = fleet.moves.values()
    return Node(
        name=machine.name,
        cordoned=bool(machine.cordons),
        our_cordon=ours in machine.cordons,
        capacity_mib=machine.capacity_mib,
        reserve_mib=machine.reserve_mib,
        committed_mib=spoken,
        reserved_mib=spoken - sum(active.values()) - machine.other_mib,
        inbound=len(inbound) + machine.other_inbound,
        inbound_from=frozenset(c.owner for c in machine.claims.values()),
        outbound=sum(1 for m in moves if m.source == machine.name),
        vm_count=len(active) + machine.other_vms,
        group_counts=groups,
        roll_rank=machine.roll_rank,
        roll_done=machine.roll_done,
        expects=machine.expects,
        boot_id=machine.boot_id,
    )


def incoming(machine: Machine) -> set[str]:
    """UUIDs of the VMs that arrive there."""
    arriving = (State.INCOMING, State.POSTCOPY)
    return {u for u, d in machine.domains.items() if d.state in arriving}
