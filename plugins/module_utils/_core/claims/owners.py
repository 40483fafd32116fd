"""Is the owner of a claim dead? What proves it, for claims that others made. Pure.

The owner of a claim is the drain of another host: its slices, and its holder, which makes the
call. It is taken for dead when for DEAD_AFTER seconds of the clock of who watches

- that host was read, and no job of the VM runs there;
- nothing of the VM arrives at the target;
- its holder, which leaves a new mark every few seconds while it has work, has left none;
- and the host's record does not say that the VM is half-way between the two, switched off.

None of this proves that the owner does not come back: it may have been stopped, or slow. So a
claim is taken away like this: remove it, then read the owner's mark again; if that is a new one,
put the claim back. And the holder begins like this: leave a new mark, then see whether the claim
still stands; if it does not, do not migrate. One of the two sees the other. What is left is a
holder that is stopped for all of DEAD_AFTER between its look and its call.

A claim has an id of its own, so none is removed in place of another that was made meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from ..model.observation import State
from ..model.record import Ending, VMRecord

# Seconds. A holder of a busy host leaves its marks late, as libvirtd has to write each of them; one
# that leaves none for thirty intervals is not slow. The price: the claim of a dead drain keeps its
# room for a minute. A live one that is called dead would lose its room on the target.
DEAD_AFTER = 60.0
HEARTBEAT_INTERVAL = 2.0  # seconds between two marks of a holder that has work

_COMES = frozenset({State.INCOMING, State.POSTCOPY, State.POSTCOPY_FAILED, State.UNKNOWN})
_GOES = _COMES | {State.POSTCOPY_SOURCE}


class ClaimState(str, Enum):
    """The state of a claim that another host made."""

    IN_USE = "in_use"
    QUIET = "quiet"  # nothing uses it, and not for long yet
    OWNER_DEAD = "left"  # its owner is dead
    HALF_MOVED = "half_moved"  # its owner is dead, and the VM is off between two hosts
    UNREADABLE = "unreadable"  # the owner's host, or its record: nothing can be told
    WITHOUT_ID = "nameless"  # of an older version, without an id


@dataclass(frozen=True)
class OwnerState:
    """One look at what a claim depends on. `mark`: what the owner's holder last left.

    `here`, `there`: the VM on the owner's host and on the target. `job`: on the owner's host.
    """

    read: bool
    mark: str = ""
    here: State = State.ABSENT
    job: bool = False
    there: State = State.ABSENT

    @property
    def is_idle(self) -> bool:
        """Nothing of the VM is under way."""
        return self.read and not (self.job or self.here in _GOES or self.there in _COMES)


class OwnerWatch:
    """Since when each claim looks the same, by the clock of who watches.

    `notes`: of earlier slices, as `notes` of this one will be. Without them it begins anew.
    """

    def __init__(self, notes: dict[str, tuple[float, str]] | None = None) -> None:
        self.notes = dict(notes or {})

    def quiet_for(self, key: str, owner: OwnerState, now: float) -> float:
        """Seconds for which nothing was seen of the owner of the claim `key`."""
        if not owner.is_idle:
            self.notes.pop(key, None)
            return 0.0
        seen = f"{owner.mark} {owner.here.value} {owner.there.value}"
        since, before = self.notes.get(key, (now, seen))
        if before != seen or since > now:
            since = now
        self.notes[key] = (since, seen)
        return now - since

    def keep_only(self, keys: Collection[str]) -> None:
        """Claims that are gone need no note."""
        self.notes = {key: note for key, note in self.notes.items() if key in keys}


def claim_state(owner: OwnerState, has_id: bool, quiet_for: float) -> ClaimState:
    """Judge a claim by what was seen. For one that is OWNER_DEAD, check the record next: see `is_half_moved`."""
    if not owner.read:
        return ClaimState.UNREADABLE
    if not owner.is_idle:
        return ClaimState.IN_USE
    if quiet_for < DEAD_AFTER:
        return ClaimState.QUIET
    return ClaimState.OWNER_DEAD if has_id else ClaimState.WITHOUT_ID


def is_half_moved(owner: OwnerState, target: str, entries: Iterable[VMRecord]) -> bool:
    """Does the VM need its place while it is off? `entries`: those of the owner's records.

    Its definition may be on the target alone. Who carries the record on starts it there.
    """
    known = list(entries)
    if any(e.cold_target == target and e.ending != Ending.COLD_MOVED.value for e in known):
        return True
    return not known and owner.there is State.SHUTOFF and owner.here is State.ABSENT


def owner_returned(before: OwnerState, after: OwnerState) -> bool:
    """Was the owner seen again since? Then its claim is put back."""
    return not after.is_idle or after.mark != before.mark
