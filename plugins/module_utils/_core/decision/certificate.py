"""The certificate: the only ground on which "Drained" is said.

Two full reads in a row, the second one after the last action: no active VM on the node, no
reservation for it, no job; and every VM that the run ever saw accounted for.
An empty node is also what a crash leaves: so emptiness alone is not enough.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..model.observation import ACTIVE_STATES, ARRIVING, Observation, State
from ..model.record import Ending, NodeRecord, VMRecord
from .unread_hosts import may_have, unread_hosts

ACCOUNTED = frozenset({Ending.MOVED, Ending.STOPPED, Ending.SAVED, Ending.COLD_MOVED, Ending.OFF, Ending.GONE})


# What a VM that was moved has to be there: as it was here.
_FINE = {True: frozenset({State.RUNNING, State.PAUSED, State.POSTCOPY}), False: ACTIVE_STATES | {State.SHUTOFF}}


@dataclass(frozen=True)
class Certificate:
    """The proof that a node is empty. `first_read`, `second_read`: when it was read, in seconds of the node's boot-time
    clock.

    `vms`: UUID of each VM that the run ever saw -> where it is. `unread`: hosts that did not answer at one of the
    reads -> why none of the VMs is there.
    """

    node: str
    boot_id: str
    run_id: str
    first_read: float
    second_read: float
    vms: dict[str, str]
    unread: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def certify(first: Observation | None, second: Observation, record: NodeRecord) -> Certificate | None:
    """A certificate, or None when anything is missing. Takes no one's word but the reads'."""
    if first is None or first is second:
        return None
    for obs in (first, second):
        if problems(obs, record):
            return None
    node = second.nodes[record.node]
    if first.nodes[record.node].boot_id != node.boot_id:
        return None
    return Certificate(
        node=record.node,
        boot_id=node.boot_id,
        run_id=record.run_id,
        first_read=first.now,
        second_read=second.now,
        vms={uuid: _account(entry) for uuid, entry in sorted(record.vms.items())},
        unread=_not_there(record.node, first, second),
    )


def _not_there(node: str, *reads: Observation) -> dict[str, str]:
    """`problems` has found no VM that may be on one of them."""
    silent = {name: obs.nodes[name].message for obs in reads for name in unread_hosts(obs, node)}
    proof = "No VM of this maintenance was sent there, and each was found elsewhere or stopped."
    return {name: f"Not read: {why or 'no answer'}. {proof}" for name, why in silent.items()}


def problems(obs: Observation, record: NodeRecord) -> list[str]:
    """Everything that speaks against "drained" in one read. Empty: nothing does."""
    node = obs.nodes.get(record.node)
    if node is None or not node.reachable or not obs.full:
        return ["not every host was read"]
    found = [] if node.cordoned else [not_cordoned(record.node)]
    found += [
        f"{vm.name} is {vm.state.words} on {record.node}"
        for vm in obs.vms.values()
        if vm.node == record.node and (vm.active or vm.job is not None)
    ]
    found += [
        f"{vm.name} is off, and autostarts with {record.node}"
        for vm in obs.vms.values()
        if vm.node == record.node and not vm.active and vm.autostart
    ]
    found += [f"{r.vm} from {r.owner} is arriving" for r in obs.inbound if r.target == record.node]
    found += [f"{c.vm} still holds a reservation on {c.target}" for c in obs.claims.values()]
    found += [_held(obs, uuid, record) for uuid in sorted({*obs.held, *obs.held_by})]
    found += volumes_that_stay(obs)
    here = {vm.uuid: vm for vm in obs.vms.values() if vm.node == record.node}
    found += [f"{uuid} is not in the record" for uuid in sorted(set(here) - set(record.vms))]
    for uuid, entry in record.vms.items():
        if not _accounted(obs, uuid, entry):
            found.append(_not_accounted(obs, uuid, entry))
        hosts = may_have(obs, record.node, entry, here.get(uuid))
        if hosts:
            found.append(f"{entry.name} may be on {', '.join(hosts)}, which does not answer")
    return found


def not_cordoned(node: str) -> str:
    return f"{node} is not cordoned"


def _held(obs: Observation, uuid: str, record: NodeRecord) -> str:
    entry = record.vms.get(uuid)
    name = entry.name if entry is not None else uuid
    if uuid in obs.held_by:
        return f"{name} {_ended(entry)}, and its {obs.held_by[uuid]} has not ended"
    return f"a migration of {name} is being carried out"


def _ended(entry: VMRecord | None) -> str:
    off = entry is not None and entry.ending in (Ending.STOPPED.value, Ending.OFF.value, Ending.GONE.value)
    return "has ended" if off else "has left"


def volumes_that_stay(obs: Observation) -> list[str]:
    """Select the `problems` that are a volume of a pod that has left."""
    return [f"{volume} is still attached" for volume in obs.attached]


def pods_that_stay(obs: Observation, record: NodeRecord) -> list[str]:
    """Select the `problems` that are a pod whose VM runs elsewhere, or has ended."""
    return [_held(obs, uuid, record) for uuid in sorted(obs.held_by)]


def moving_on(obs: Observation, record: NodeRecord) -> list[str]:
    """Select the `problems` that end by themselves: the VM was moved, and is migrating again."""
    return [
        _not_accounted(obs, uuid, entry)
        for uuid, entry in record.vms.items()
        if not _accounted(obs, uuid, entry) and _moves_on(obs, uuid, entry)
    ]


def _moves_on(obs: Observation, uuid: str, entry: VMRecord) -> bool:
    arriving = (s.state in ARRIVING for s in obs.sightings.get(uuid, []))
    return entry.ending == Ending.MOVED.value and any(arriving)


def _not_accounted(obs: Observation, uuid: str, entry: VMRecord) -> str:
    if _moves_on(obs, uuid, entry):
        return f"{entry.name} is migrating again from {entry.at}"
    return f"{entry.name} is not accounted for ({entry.ending or 'pending'})"


def _accounted(obs: Observation, uuid: str, entry: VMRecord) -> bool:
    if Ending(entry.ending) not in ACCOUNTED:
        return False
    sightings = obs.sightings.get(uuid, [])
    if entry.ending in (Ending.MOVED.value, Ending.COLD_MOVED.value):
        active = {s.node for s in sightings if s.state in ACTIVE_STATES}
        there = {s.node for s in sightings if s.state in _FINE[entry.was_active]}
        return entry.at in there and active <= {entry.at}
    # Off here since before, or stopped by others: where they run it now is theirs to say.
    if entry.ending == Ending.GONE.value or not entry.was_active:
        return True
    return not any(s.state in ACTIVE_STATES and s.unplaced is None for s in sightings)


def _account(entry: VMRecord) -> str:
    places = {
        Ending.MOVED: f"moved to {entry.at}",
        Ending.COLD_MOVED: f"moved while off to {entry.at}",
        Ending.STOPPED: f"stopped: {entry.decided_by}",
        Ending.SAVED: f"saved: {entry.decided_by}",
        Ending.OFF: "was off before",
        Ending.GONE: f"stopped by others: {entry.reason}",
    }
    return places[Ending(entry.ending)]
