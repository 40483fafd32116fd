"""Claims: how runs that know nothing of each other never fill a target too far. Pure.

The protocol, the same for each claim: create it (exclusively), read the target afresh, keep
it or withdraw it. Every claim counts, also one that came later: so of two that race for the
last place at most one stays, and perhaps none, which tries again. First the claim on the
target, then the slot; given back in the other order: a slot never stands without its claim, so
one that does is nobody's any more.
A cordon is written before claims are read, a claim before the cordon is read: one of the two
sees the other.

Slots are counted by a few hosts, the quorum. A slot is taken on each of them that answers, and
counts if that is a majority of them; whoever asks counts what stands on any of those that it
asked, and reads when all of its slots are made. Two majorities share a host, so the last of
the drains that race has seen all others. A host that was away while a slot was taken is one of
the minority, whenever it comes back.

A claim that stood already is not a new one: another call made it, and only that is at stake
now what this call made. Refused again, it stays, until the record says that it is not needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ..decision.actions import Do
from ..model.columns import count
from ..model.observation import Reservation
from ..model.policy import Limits
from ..reasons.reason import Finding, Reason

QUORUM = 3


def quorum_hosts(nodes: Iterable[str]) -> tuple[str, ...]:
    """The hosts that count the slots and have the record of a roll: the first ones by name."""
    return tuple(sorted(nodes)[:QUORUM])


def are_majority(answering: Collection[str], of: Collection[str]) -> bool:
    return 2 * len(set(answering).intersection(of)) > len(of)


def committed(claims: Iterable[Reservation], active: Mapping[str, int]) -> int:
    """MiB that are spoken for: active VMs and claims, a VM that is both counted once."""
    memory = dict(active)
    for claim in claims:
        memory[claim.vm] = max(claim.memory_mib, memory.get(claim.vm, 0))
    return sum(memory.values())


def settled(what: Do, stood: bool) -> bool:
    """The definition came under this claim: so the target cannot have been certified since, and
    a cordon that it got meanwhile does not matter. It is off, and runs there or nowhere."""
    return stood and what is Do.COLD_START


def may_keep_claim(
    mine: Reservation,
    claims: Collection[Reservation],
    active: Mapping[str, int],
    incoming: Collection[str],
    capacity_mib: int,
    limits: Limits,
    cordoned: bool,
) -> Finding | None:
    """May `mine` stay? None: yes; else why it is withdrawn. All of it read after `mine` was made.

    `claims`: all on the target, `mine` among them. `active`: UUID -> maximum memory of what is
    active on the target. `incoming`: UUIDs that arrive there. `capacity_mib`: less its reserve.
    """
    if mine not in claims:
        return Finding(Reason.NoTargetWithCapacity, f"The reservation on {mine.target} was removed.")
    if cordoned:
        return Finding(Reason.NoTargetWithCapacity, f"{mine.target} has since been cordoned.")
    total = committed(claims, active)
    if total > capacity_mib:
        text = f"{mine.target} would hold {total} MiB of its {capacity_mib} MiB."
        return Finding(Reason.NoTargetWithCapacity, text)
    inbound = len({c.vm for c in claims}.union(incoming))
    if inbound > limits.inbound:
        text = f"{mine.target} already receives {count(limits.inbound, 'migration')}."
        return Finding(Reason.WaitingForSlot, text)
    return None


def may_keep_slot(slots: Collection[str], limits: Limits) -> Finding | None:
    """May the slot stay that was just made? `slots`: VMs that have one on any of a majority of
    the quorum, mine among them."""
    if len(slots) > limits.cluster:
        verb = "is" if limits.cluster == 1 else "are"
        text = f"{count(limits.cluster, 'migration')} {verb} in flight in the cluster already."
        return Finding(Reason.WaitingForSlot, text)
    return None
