"""When a drain asks for migrations while other nodes are drained too.

KubeVirt gives a free slot to any of the migrations that wait for one. Where several nodes have
asked for all their VMs, chance decides which node goes short, and in the end one is left that may
not use all slots alone. So the slots of the cluster stay full to the end only if the node with
the most VMs left goes first: a drain asks for the next ones when no other node has more.

A drain that is alone asks for all at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..._core.reasons.reason import Finding, Reason
from ..api.cluster import Cluster
from .other_drains import OtherDrains

LATER = Finding(
    Reason.WaitingForSlot,
    "Waiting for a migration slot: this node has reached its share, or a node with more VMs goes first.",
)
# Seconds after which a node with free places and nothing in the queue asks for one VM, whatever
# the others tell: they may not live any more.
_IDLE = 1.0
# Seconds after which one that waits beside free places is looked at. It takes 0.1 s to get a slot.
_STUCK = 2.0


@dataclass(frozen=True)
class MigrationProgress:
    """The progress of a node's migrations.

    `queued`: asked for, without a slot. `slots`: those that have one. `left`: VMs of the node
    that are to be migrated and have no slot, asked for or not.
    """

    queued: int
    slots: int
    left: int


def may_begin(
    wanted: int,
    own: MigrationProgress,
    cluster: Cluster,
    others: Callable[[], Mapping[str, int | None] | None],
    idle: bool,
) -> int:
    """How many of `wanted` migrations may be asked for now.

    `vms_left`: the nodes that are drained too, and how many VMs are left there (None: not reported, so
    as many as here); None: they could not be read. It is only called where it matters. `idle`:
    the node has had free places, and nothing in the queue, for a while.
    """
    if own.queued:
        return 0
    each, reported = cluster.outbound, others()
    if reported is None:
        return 1
    found = [own.left if left is None else left for left in reported.values()]
    if not found or sum(min(each, left) for left in (own.left, *found)) <= cluster.cluster:
        return wanted
    return 1 if idle or own.left >= max(found) else 0


class Turns:
    """Decides, for one slice, how many migrations this node may request beside other drains. `free`:
    when the cluster was last seen to have free slots though VMs of this node wait for one, see
    WaitReader.free."""

    def __init__(self, other_drains: OtherDrains, clock: Callable[[], float] = time.monotonic) -> None:
        self.other_drains = other_drains
        self._clock = clock
        self._free: tuple[bool, float] | None = None  # places are free: is one queued, since when
        self._seen = 0.0

    def may_begin(self, wanted: int, own: MigrationProgress, cluster: Cluster, free: float | None) -> int:
        """See the function. What waits for something else than a slot holds up nobody."""
        places = cluster.outbound - own.slots
        if not own.queued and not own.slots and not self.other_drains.has_readers:
            return places + 1  # as many as may begin, and one that has its slot when the first ends
        lasts = self._lasts(places > 0, own.queued > 0)
        begun = self._clock() - lasts
        # For a moment there is a free slot whenever one was given back.
        if own.queued and lasts and free and free > max(self._seen, begun + _STUCK):
            self._seen = free
            return places
        found = may_begin(wanted, own, cluster, self.other_drains.vms_left, not own.queued and lasts >= _IDLE)
        if found:
            self._free = None
        return found

    def _lasts(self, free: bool, queued: bool) -> float:
        """Seconds for which places have been free, with one in the queue or with none."""
        if not free:
            self._free = None
            return 0.0
        if self._free is None or self._free[0] != queued:
            self._free = (queued, self._clock())
        return self._clock() - self._free[1]
