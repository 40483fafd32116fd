"""Which migrations hold a slot within KubeVirt's limits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..._core.reasons.reason import Finding
from ..objects import facts

Obj = dict[str, Any]
# A preparation of more than this is stuck, and so is a migration whose guest's node is gone.
_STUCK = 120.0
_NOT_RUNNING = frozenset({"", "Pending", "WaitingForSync", "Synchronizing"})


@dataclass(frozen=True)
class Holder:
    """A migration that holds a slot. `since`: when it entered its phase. `source`: may be empty.
    `silent`: that it has ended, and virt-controller does not take that up."""

    vm: str
    phase: str
    since: str
    source: str = ""
    stuck: bool = False
    silent: Finding | None = None

    def text(self) -> str:
        source = f" from {self.source}" if self.source else ""
        note = ", stuck?" if self.stuck else ""
        return f"{self.vm} ({self.phase} since {self.since}{source}{note})"


def holds_slot(migration: Obj, has_pod: bool = False) -> bool:
    """Does KubeVirt count it within its limits?"""
    return not facts.final(migration) and (facts.phase(migration) not in _NOT_RUNNING or has_pod)


def holders(migrations: Iterable[Obj], now: float, source: str = "", vmi: Obj | None = None) -> list[Holder]:
    """The migrations that hold a slot. `vmi`: their common VMI, if it was read."""
    found = []
    for migration in migrations:
        if not holds_slot(migration):
            continue
        name, since = str(migration["spec"].get("vmiName")), facts.entered(migration)
        late = now - facts.seconds(since) > _STUCK
        stuck = late and facts.phase(migration) in facts.PREPARING
        space = migration["metadata"]["namespace"]
        silent = facts.not_followed(vmi, migration, now) if vmi is not None else None
        found.append(Holder(f"{space}/{name}", facts.phase(migration), since, source, stuck, silent))
    return found


def last_end(migrations: Iterable[Obj]) -> float:
    """When the last of those that have ended gave its slot back, in seconds since the epoch; 0: none has."""
    return max((facts.seconds(facts.ended(m)) for m in migrations if facts.final(m)), default=0.0)


def source_of(vmi: Obj | None, migration: Obj) -> str:
    """The node whose outbound slot it takes."""
    if vmi is None:
        return ""
    state = facts.state_of(vmi, migration)
    return str(state.get("sourceNode") or facts.status(vmi).get("nodeName") or "")


def with_sources(migrations: Iterable[Obj], find: Callable[[str, str], Obj | None], now: float) -> list[Holder]:
    """Like `holders`, with the nodes that the VMs leave. `find`: a VMI by namespace and name."""
    found = []
    for migration in (m for m in migrations if holds_slot(m)):
        vmi = find(migration["metadata"]["namespace"], str(migration["spec"].get("vmiName")))
        found += holders([migration], now, source_of(vmi, migration), vmi)
    return found
