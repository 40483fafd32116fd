"""How far the migrations of a node are: who waits for a slot, who has one, who is left."""

from __future__ import annotations

import time
from typing import Any

from ..._core.decision.strategy import Way
from ..._core.model.record import Ending, NodeRecord
from ..api.cluster import can_cancel
from ..objects import facts, names
from ..observe.observe import Observer
from ..turns.turns import MigrationProgress
from ..waiting import causes
from ..waiting.slots import holds_slot

Obj = dict[str, Any]


def migration_progress(observer: Observer, record: NodeRecord, wanted: int) -> MigrationProgress:
    """Count the migrations as last observed. `wanted`: how many are about to be requested, which are left to migrate
    even where the record does not say so yet."""
    here = {facts.identity(v): v for v in observer.watches.vmis.items() if not facts.final(v)}
    queued = slots = left = 0
    for uuid in {**here, **record.vms}:
        moving = observer.unfinished(uuid)
        if moving and holds_slot(moving[-1]):
            slots += uuid in here or _leaves(moving[-1], observer.node)
        elif uuid in here:
            entry = record.vms.get(uuid)
            open_ = entry is not None and entry.ending == Ending.NONE.value
            left += open_ and entry is not None and entry.way == Way.MIGRATE.value
            queued += _queued(observer, uuid, here[uuid])
    return MigrationProgress(queued, slots, max(left, wanted + queued))


def _leaves(migration: Obj, node: str) -> bool:
    """Its VM is not on the node any more, and still it holds one of the node's slots."""
    asked = facts.annotations(migration).get(names.EVACUATION)
    return node in (asked, facts.request(migration).get("node"))


def _queued(observer: Observer, uuid: str, vmi: Obj) -> bool:
    """Asked for, and it waits for a slot and for nothing else that is known.

    KubeVirt puts migrations of our own behind all of its own, so they hold up nobody.
    """
    moves = observer.of(uuid)
    known = causes.Known(vmi, moves, time.time(), observer.cluster)
    if known.current is not None and not facts.final(known.current):
        like_others = names.EVACUATION in facts.annotations(known.current)
        return (like_others or not can_cancel(observer.cluster)) and causes.for_slot(known)
    if (moves and facts.phase(moves[-1]) == "Failed") or uuid in observer.not_begun:
        return False  # KubeVirt makes a new one when its pods have ended, and that then waits
    marked = facts.mark(vmi) == observer.node and facts.is_true(vmi, "LiveMigratable")
    external = vmi["spec"].get("evictionStrategy") == "External"
    return observer.just(observer.evicted, uuid) or (marked and not external)
