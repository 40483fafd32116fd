# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a drain asks for migrations while other nodes are drained too.

KubeVirt gives a free slot to any of the migrations that wait for one. Where several nodes have
asked for all their VMs, chance decides which node goes short, and in the end one is left that may
not use all slots alone. So the slots of the cluster stay full to the end only if the node with
the most VMs left goes first: a drain asks for the next ones when no other node has more.

A drain that is alone asks for all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .._core.reasons import Finding, Reason
from .board import Board
from .client import Client
from .cluster import Cluster
from .lock import Lock

LATER = Finding(
    Reason.WAITING_FOR_SLOT,
    "Its turn comes: enough VMs of its node wait for a slot, or a node with more VMs goes first.",
)
# Seconds after which a node with free places and nothing in the queue asks for one VM, whatever
# the others tell: they may not live any more.
_IDLE = 1.0
# Seconds after which a node with free places no longer believes that its queue is one for slots.
_STALLED = 60.0


@dataclass(frozen=True)
class Course:
    """Of the migrations of a node.

    `wanted`: not asked for yet. `queued`: asked for, without a slot. `slots`: those that have one.
    `since`: seconds since one was asked for.
    """

    wanted: int
    queued: int
    slots: int
    since: float

    @property
    def waiting(self) -> int:
        return self.wanted + self.queued


def room(own: Course, cluster: Cluster, others: Callable[[], Mapping[str, int | None]]) -> int:
    """How many migrations may be asked for now.

    `others`: the nodes that are drained too, and how many of their VMs wait; None: not known, so
    as many as here. It is only called where it matters.
    """
    each = cluster.outbound
    if not own.queued and not own.slots:
        return each + 1  # as many as may begin, and one that has its slot when the first ends
    if own.slots < each and own.since >= _STALLED:
        return own.wanted
    if own.queued:
        return 0
    found = [own.waiting if waiting is None else waiting for waiting in others().values()]
    if sum(min(each, waiting) for waiting in (own.waiting, *found)) <= cluster.cluster:
        return own.wanted
    idle = own.slots < each and own.since >= _IDLE
    return 1 if idle or own.waiting >= max(found) else 0


class Turns:
    """What a drain asks of its own course and of the board."""

    def __init__(self, client: Client, lock: Lock, changed: Callable[[], None]) -> None:
        self._board = Board(client, lock, changed)

    def close(self) -> None:
        self._board.close()

    def room(self, own: Course, cluster: Cluster) -> int:
        """As `room`; and what is left is told to the others, where there are any."""
        found = min(own.wanted, room(own, cluster, self._board.others))
        self._board.tell(own.waiting if found < own.wanted else 0)
        return found


