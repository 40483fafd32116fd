"""The stages of a host: what proves that it may come to one, and what that makes of its roll."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..model.tally import renewed
from . import out_together, words
from .owner import RollRefused, check_run
from .record import Clock, HostEntry, Roll, RollRecord, Stage, State, write

# The stages that a host must come from. What nothing stands here for comes after any.
_AFTER: dict[Stage, frozenset[Stage]] = {
    Stage.AT_WORK: frozenset({Stage.EMPTY}),
    Stage.REBOOTING: frozenset({Stage.EMPTY}),
    Stage.CHECKING: frozenset({Stage.EMPTY, Stage.REBOOTING, Stage.RESTORING}),
    Stage.DONE: frozenset({Stage.RESTORING}),
}
# What a drain and a restore see for themselves: the stage that they note -> the ones before it.
_BEFORE = {Stage.EMPTY: (Stage.DRAINING, Stage.AT_WORK), Stage.RESTORING: (Stage.CHECKING,)}


def check_stage(roll: Roll, host: str, stage: Stage) -> None:
    """Has the host come from where it must? EMPTY is noted by a drain alone, with its certificate,
    and RESTORING by a restore alone. Raises RollRefused.
    """
    entry = roll.hosts.get(host)
    if entry is not None and entry.stage not in (stage, Stage.DONE, *_AFTER.get(stage, Stage)):
        raise RollRefused(words.is_not_proven(entry, stage))


def with_stage(roll: Roll, host: str, stage: Stage, now: str, boot_id: str = "", message: str = "") -> Roll:
    """The roll after this host has come to this stage. Raises RollRefused for a stranger.

    The roll ends with the last host that is done, unless VMs are to go back then. It stops when none is under way any
    more and none may begin: too many failed, or one that waits (WAITING) gets no place. One that comes to WAITING from
    elsewhere was not touched.
    """
    new = copy.deepcopy(roll)
    entry = new.hosts.get(host)
    if entry is None:
        raise RollRefused(words.is_not_of_it(roll, host))
    if entry.stage is Stage.DONE:
        return new
    gets_none = stage is Stage.WAITING and entry.stage is Stage.WAITING
    entry.worked = entry.worked or stage in (Stage.REBOOTING, Stage.CHECKING)
    if stage is Stage.FAILED and entry.stage is not Stage.FAILED:
        entry.failed_in = entry.stage
    if entry.stage is not stage:
        entry.stage, entry.since = stage, now
    entry.begun = "" if stage is Stage.WAITING else entry.begun or (now if entry.is_out else "")
    if stage is Stage.EMPTY and not entry.emptied:
        entry.emptied = now
    if stage is Stage.DONE and host == new.terms.pause_after:
        new.paused = words.pauses_after(host)
    if stage is not Stage.GIVEN_BACK:  # it keeps why it had failed
        entry.message = message
    entry.boot_id = boot_id or entry.boot_id
    if new.state is State.ABORTING:
        return new
    under_way = [e for e in new.hosts.values() if e.is_out and e.stage is not Stage.FAILED]
    if new.is_through:
        new.state = State.ENDED
    elif all(e.stage is Stage.DONE for e in new.hosts.values()):
        return new
    elif not under_way and (gets_none or not new.in_stage(Stage.WAITING) or not may_begin(new)):
        new.state = stopped(new)
    return new


def has_rebooted(entry: HostEntry, boot_id: str) -> bool:
    """Is this another boot (`boot_id`: that of now) than the one in which its reboot was asked for?"""
    return bool(boot_id and entry.boot_id and boot_id != entry.boot_id)


def is_before_its_first(roll: Roll) -> bool:
    """Only before its first host: one that is half done has to be brought to its end, whatever a plan says."""
    return roll.state is State.RUNNING and all(entry.stage is Stage.WAITING for entry in roll.hosts.values())


def left_free(roll: Roll) -> frozenset[str]:
    """Hosts that VMs had better not come to: from there they would have to move again. None before the first host
    is begun, and none when the roll does not go on."""
    if roll.state is not State.RUNNING or is_before_its_first(roll) or len(roll.hosts) < 2:
        return frozenset()
    return frozenset(name for name, entry in roll.hosts.items() if entry.stage is not Stage.DONE)


def may_begin(roll: Roll) -> bool:
    """May further hosts begin, as far as failures and a pause go?"""
    return not roll.paused and len(roll.in_stage(Stage.FAILED)) <= roll.terms.max_failures


def paused(roll: Roll, why: str) -> Roll:
    """No further host begins; those that are under way finish."""
    new = copy.deepcopy(roll)
    new.paused = why
    if all(entry.stage is Stage.FAILED for entry in new.hosts.values() if entry.is_out):
        new.state = stopped(new)
    return new


def stopped(roll: Roll) -> State:
    """The state of a roll that ends before all hosts are done: PAUSED if it was asked to begin no further host, hosts
    are left, none has failed and none is out; else STOPPED."""
    left = roll.in_stage(Stage.WAITING) and not roll.in_stage(Stage.FAILED)
    return State.PAUSED if roll.paused and left and not roll.out else State.STOPPED


class RebootsLater(Exception):
    """A quorum host may not reboot yet. `first`: the hosts that have to be back."""

    def __init__(self, first: list[str]) -> None:
        super().__init__()
        self.first = first


@dataclass(frozen=True)
class Note:
    """A host has come to `stage`. `boot_id`: before its reboot. `tally`: what its drain did; empty: it is not known.
    `moved`: VMs that it moved, and where to. `recovery`: of one that failed, see `reboot`."""

    stage: Stage
    boot_id: str = ""
    message: str = ""
    tally: Mapping[str, int] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
    recovery: Mapping[str, Any] = field(default_factory=dict)


def come_to(store: RollRecord, host: str, run: str, note: Note, clock: Clock, quorum_hosts: Sequence[str] = ()) -> Roll:
    """The roll as it was written with this note of the host, which for one that has rebooted meanwhile says CHECKING
    in the place of REBOOTING. `quorum_hosts`: as Fleet has them. Raises RollTakenOver, RollRefused, RebootsLater."""
    stage = note.stage
    while True:
        found, seen = store.read()
        roll = check_run(found, run, State.STOPPED, State.PAUSED, State.ENDED, State.ABORTING)
        check_stage(roll, host, stage)
        if stage is Stage.REBOOTING and host in roll.hosts and has_rebooted(roll.hosts[host], note.boot_id):
            stage = Stage.CHECKING  # it was asked for by who was killed then, and came after its turn
        first = out_together.reboots_first(roll, host, quorum_hosts) if stage is Stage.REBOOTING else []
        if first:
            raise RebootsLater(first)
        new = with_stage(roll, host, stage, clock.wall(), note.boot_id, note.message)
        entry = new.hosts[host]
        entry.tally = renewed(entry.tally, note.tally)
        _went(new, host, note.moved)
        if write(store, new, seen, clock):
            return new


def note_seen(store: RollRecord, host: str, run: str, stage: Stage, clock: Clock) -> None:
    """A drain or restore has seen this stage of a host of its roll. Elsewhere nothing is done, and nothing by a slice
    whose playbook was killed: the roll would look alive."""
    roll, _seen = store.read()
    if roll is None or roll.run != run or host not in roll.hosts or not clock.heard():
        return
    if roll.hosts[host].stage in _BEFORE[stage]:
        come_to(store, host, run, Note(stage), clock)


# Back to where they were


def _went(roll: Roll, host: str, moved: Mapping[str, str]) -> None:
    """Enter where VMs are now that the drain of this host moved. One that was moved before goes back to its first
    host; it stays entered where it came home by that, for a stage is recorded more than once."""
    for vm, now_on in moved.items() if roll.moves_back else ():
        home = next((entry for entry in roll.hosts.values() if vm in entry.away), roll.hosts[host])
        home.away[vm] = now_on


def homeward(roll: Roll) -> list[dict[str, str]]:
    """VMs that are to go back, with `home` and where they are (`on`); none before all hosts are done."""
    if any(entry.stage is not Stage.DONE for entry in roll.hosts.values()):
        return []
    return [
        {"vm": vm, "on": on, "home": home.name} for home in roll.hosts.values() for vm, on in home.going_back.items()
    ]


def came_back(store: RollRecord, home: str, run: str, vm: str, moved: bool, why: str, clock: Clock) -> Roll:
    """The roll as it was written after an attempt to bring this VM back. `moved`: it is there by this. `why`: it is
    still to go back, and failed for that; else it is done with. Raises RollTakenOver."""
    while True:
        found, seen = store.read()
        new = copy.deepcopy(check_run(found, run, State.STOPPED, State.ENDED))
        entry = new.hosts[home]
        if why:
            entry.message = why
        else:
            entry.away.pop(vm, None)
        if moved:
            entry.tally["back"] = entry.tally.get("back", 0) + 1
        if new.is_through:
            new.state = State.ENDED
        if write(store, new, seen, clock):
            return new
