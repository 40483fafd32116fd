"""The record of a roll. It is stored on the platform, where every controller can read it.

It is written before the act and compared when it is written, so of two writers one wins, and a run
may be killed at any instruction. JSON with a schema version; something unreadable or newer is an
error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Protocol

from ..model.record import RecordError, check, known
from .terms import MOVE_BACK, Terms

SCHEMA = 1


class Stage(str, Enum):
    """How far a host is."""

    WAITING = "waiting"
    DRAINING = "draining"
    EMPTY = "empty"
    AT_WORK = "at work"
    REBOOTING = "rebooting"
    CHECKING = "checking"
    RESTORING = "restoring"
    DONE = "done"
    FAILED = "failed"
    GIVEN_BACK = "given back"


# Not out of service for the roll: not begun, or back, also by an abort.
AT_REST = frozenset({Stage.WAITING, Stage.DONE, Stage.GIVEN_BACK})


class State(str, Enum):
    """How the roll as a whole is. STOPPED: a host failed, or its playbook ended before all were
    done. PAUSED: it was asked to begin no further host, and all that it began are done. REFUSED: it
    cannot be done, and was not begun."""

    RUNNING = "running"
    STOPPED = "stopped"
    PAUSED = "paused"
    ABORTING = "aborting"
    ABORTED = "aborted"
    ENDED = "ended"
    REFUSED = "refused"


OVER = frozenset({State.ABORTED, State.ENDED, State.REFUSED})
# Seconds in which a note has to be written; a reboot of another quorum host may fall into them.
NOTE_PATIENCE = 120.0
# Of writes in a row that somebody else was quicker with; and the seconds after each: some three minutes in all.
_MOST_LOST, _LOST_PAUSE, _LONGEST_PAUSE = 100, 0.1, 2.0


@dataclass
class HostEntry:
    """One host of a roll. `begun`, `emptied`, `since`: UTC, when it was first taken out, first empty, and
    when this stage began. `boot_id`: before its reboot.

    `failed_in`: the stage in which it failed, and `message` why. `worked`: the user's tasks came to
    their end, and the host was empty after them. `tally`: what became of its VMs, as
    model.tally counts them; `back`: VMs of its own that went back to it. `away`: VMs of its own that
    the roll moved, and where it brought them. `carried_on`: another command went on with it. `idle`: seconds for which
    nobody worked on it until then, and `idle_draining` of these before it was empty.
    """

    name: str
    stage: Stage = Stage.WAITING
    since: str = ""
    boot_id: str = ""
    failed_in: Stage | None = None
    message: str = ""
    worked: bool = False
    begun: str = ""
    emptied: str = ""
    tally: dict[str, int] = field(default_factory=dict)
    away: dict[str, str] = field(default_factory=dict)
    carried_on: bool = False
    idle: int = 0
    idle_draining: int = 0

    @property
    def going_back(self) -> dict[str, str]:
        """The VMs that are still to go back to this host, and where they are: those that moved away, without the ones
        that another drain has brought home."""
        return {vm: on for vm, on in self.away.items() if on != self.name}

    @property
    def is_out(self) -> bool:
        """Not one that failed before anything was done with it, such as a node that is no longer there."""
        return self.stage not in AT_REST and self.failed_in is not Stage.WAITING


@dataclass
class Roll:
    """One roll. `run`: of the ansible-playbook that carries it on; it changes with a resume.
    `run_before`: whose roll it was until then, which may not know it yet; '': nobody's.

    `beat` grows with each write: a roll whose beat grows is alive. `terms`: of the command; their keys are stored
    beside the others. `paused`: why no further host begins though none failed. `playbook`: the process of `run`, as
    _playbook/lives has it; '': not known. `idle`: seconds for which no command worked on it. `let_finish`: its abort
    lets migrations end that run.
    """

    id: str
    run: str
    requester: str
    reason: str
    begun: str
    hosts: dict[str, HostEntry]
    terms: Terms = field(default_factory=Terms)
    state: State = State.RUNNING
    beat: int = 0
    written: str = ""
    run_before: str = ""
    paused: str = ""
    playbook: str = ""
    idle: int = 0
    let_finish: bool = False

    @property
    def moves_back(self) -> bool:
        return self.terms.options.get(MOVE_BACK) == str(True)

    @property
    def is_through(self) -> bool:
        """All hosts are done, and no VM is to go back any more."""
        entries = self.hosts.values()
        return all(entry.stage is Stage.DONE and not entry.going_back for entry in entries)

    def position(self, host: str) -> str:
        """Which of its hosts this one is, counted as they were begun: "2/7" is the second of seven."""
        begun = [name for name, entry in self.hosts.items() if entry.stage is not Stage.WAITING and name != host]
        return f"{len(begun) + 1}/{len(self.hosts)}"

    def in_stage(self, *stages: Stage) -> list[str]:
        """Names of the hosts that are in one of these stages, in the order of the roll."""
        return [entry.name for entry in self.hosts.values() if entry.stage in stages]

    @property
    def out(self) -> list[str]:
        return [entry.name for entry in self.hosts.values() if entry.is_out]

    def to_dict(self) -> dict[str, Any]:
        hosts = [
            {
                key: value.value if isinstance(value, Stage) else value
                for key, value in vars(entry).items()
                if value or key in ("name", "stage")
            }
            for entry in self.hosts.values()
        ]
        found = {**vars(self), **vars(self.terms), "state": self.state.value, "hosts": hosts}
        del found["terms"]
        return found

    def to_json(self) -> str:
        return json.dumps({**self.to_dict(), "schema": SCHEMA}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Roll:
        """Raises RecordError when the text is no roll, or of a newer schema."""
        try:
            raw = json.loads(text)
            if raw.pop("schema") != SCHEMA:
                raise RecordError(
                    "the record of the roll was written by a newer version of the collection: use that one"
                )
            entries = [_entry(host) for host in raw.pop("hosts")]
            state = State(raw.pop("state"))
            terms = Terms(**{one.name: raw.pop(one.name) for one in fields(Terms) if one.name in raw})
            roll = known(cls, {**raw, "state": state, "terms": terms, "hosts": {one.name: one for one in entries}})
            check(roll, terms, *entries)
        except RecursionError:
            raise RecordError("the record of the roll is not readable: nested too deeply") from None
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise RecordError(f"the record of the roll is not readable: {exc}") from exc
        return roll


def _entry(raw: Mapping[str, Any]) -> HostEntry:
    entry = known(HostEntry, raw)
    entry.stage = Stage(entry.stage)
    entry.failed_in = Stage(entry.failed_in) if entry.failed_in else None
    return entry


# Why a host is out of which a drain that is no roll's has the record.
OWN_DRAIN = "has a drain of its own"


@dataclass(frozen=True)
class Fleet:
    """All hosts that may be out, and those that are: name -> why. `busy`: of these, somebody is at
    work who will end, a drain or restore for example. `silent`: of these, it does not answer or is not ready now,
    and that is all. `labels`: of the hosts, where the platform has them. `exist`: all
    that there are, also those that run no VMs; None: the platform does not know. `left`: hosts, out or not, that were
    replaced or removed while they were drained, and what is left of it. `elsewhere`: a roll that is not over, whose
    record is on hosts (`kept_on`) where by this inventory none belongs. `quorum_hosts`: those that have the record, of
    which most have to answer; none where an API server has it."""

    hosts: Sequence[str]
    out: Mapping[str, str] = field(default_factory=dict)
    busy: frozenset[str] = frozenset()
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    exist: frozenset[str] | None = None
    left: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Roll | None = None
    kept_on: Sequence[str] = ()
    quorum_hosts: Sequence[str] = ()
    silent: frozenset[str] = frozenset()

    def gone(self, hosts: Sequence[str]) -> list[str]:
        """The hosts that were removed: nobody can bring them back."""
        return [] if self.exist is None else [name for name in hosts if name not in self.exist]


@dataclass
class Clock:
    """`now`: seconds of a clock that all slices on this machine share. `wall`: UTC, for people.
    `heard`: does anybody still wait for what this slice answers? `ended`: is it known of this process that it ended?
    `lost`: writes of the record in a row before which somebody else wrote it."""

    now: Callable[[], float]
    wall: Callable[[], str]
    sleep: Callable[[float], None]
    heard: Callable[[], bool] = lambda: True
    ended: Callable[[str], bool] = lambda _process: False
    lost: int = 0


class RollRecord(Protocol):
    """Where a platform keeps the record."""

    def read(self) -> tuple[Roll | None, Any]:
        """The record, and what `write` has to know to see whether somebody else wrote since.

        Both raise RollUnreadable.
        """

    def write(self, roll: Roll, seen: Any) -> bool:
        """False: somebody else wrote since, and this one did not."""


class RollStore(RollRecord, Protocol):
    """The record and its hosts, as the roll's own steps need both."""

    def fleet(self) -> Fleet:
        """Which hosts there are, and which of them are out."""


def write(store: RollRecord, roll: Roll, seen: Any, clock: Clock) -> bool:
    """False: somebody else wrote since, so the record is to be read again. Raises RecordError when that does not end:
    then it is no other writer that refuses it."""
    roll.beat += 1
    roll.written = clock.wall()
    if store.write(roll, seen):
        clock.lost = 0
        return True
    clock.lost += 1
    if clock.lost >= _MOST_LOST:
        raise RecordError(
            f"The record of the roll {roll.id} was refused {clock.lost} times, each time as changed since it was read. "
            "Nothing was written. Look for what else writes or guards it, then run the same command again."
        )
    clock.sleep(min(_LOST_PAUSE * clock.lost, _LONGEST_PAUSE))
    return False
