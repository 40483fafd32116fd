"""The verdict table: where is this VM, given what two hosts, the job and the record say?

One table, read from the top; the first row that fits decides. Each row is a test. It holds
also when a run was killed between any two instructions: the record is written before the
act, and where the VM runs is read, never concluded from the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..model.observation import State


class JobStage(str, Enum):
    """The outgoing job on the source."""

    NONE = "none"
    PRECOPY = "precopy"
    POSTCOPY = "postcopy"


class Recorded(str, Enum):
    """How far the last attempt or stop of a VM is, by the record."""

    NOTHING = "nothing"
    INTENDED = "intended"  # written before the call; no outcome known
    HELD = "held"  # the same, and its holder is alive
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    STOPPING = "stopping"
    COLD = "cold"  # a cold migration was begun


class Situation(str, Enum):
    """Where the VM is."""

    HERE = "here"
    STARTING = "starting"
    OUTCOME_LOST = "outcome_lost"
    MOVING = "moving"
    POSTCOPY = "postcopy"
    POSTCOPY_BROKEN = "postcopy_broken"
    POSTCOPY_LOST = "postcopy_lost"
    SWITCHING_OVER = "handing_over"
    ARRIVED = "arrived"
    ARRIVED_LEFTOVER = "arrived_leftover"
    STOPPED_HERE = "stopped_here"
    COLD_DEFINED_TWICE = "cold_defined_twice"
    COLD_ARRIVED = "cold_arrived"
    PAUSED_HERE = "paused_here"
    CRASHED_HERE = "crashed_here"
    CRASHED_THERE = "crashed_there"
    TWICE = "twice"
    NOWHERE = "nowhere"
    UNREADABLE = "unreadable"


S = State
_ANY: frozenset[State] | None = None
_OFF = frozenset({S.ABSENT, S.SHUTOFF})


@dataclass(frozen=True)
class Row:
    """None in a column: any value."""

    name: str
    source: frozenset[State] | None
    target: frozenset[State] | None
    job: frozenset[JobStage] | None
    record: frozenset[Recorded] | None
    situation: Situation


def _row(
    name: str,
    source: frozenset[State] | None,
    target: frozenset[State] | None,
    situation: Situation,
    job: frozenset[JobStage] | None = None,
    record: frozenset[Recorded] | None = None,
) -> Row:
    return Row(name, source, target, job, record, situation)


def _s(*states: State) -> frozenset[State]:
    return frozenset(states)


UNDER_WAY = frozenset({Recorded.INTENDED, Recorded.HELD})
_NO_JOB = frozenset({JobStage.NONE})

ROWS: tuple[Row, ...] = (
    _row("source unreadable", _s(S.UNKNOWN), _ANY, Situation.UNREADABLE),
    # Post-copy: the memory is on both sides. Nothing is touched.
    _row("post-copy broken, and gone from source", _OFF, _s(S.POSTCOPY_FAILED), Situation.POSTCOPY_LOST),
    _row("post-copy broken, and gone from target", _s(S.POSTCOPY_FAILED), _OFF, Situation.POSTCOPY_LOST),
    _row("post-copy broken on source", _s(S.POSTCOPY_FAILED), _ANY, Situation.POSTCOPY_BROKEN),
    _row("post-copy broken on target", _ANY, _s(S.POSTCOPY_FAILED), Situation.POSTCOPY_BROKEN),
    _row("post-copy on source", _s(S.POSTCOPY_SOURCE), _ANY, Situation.POSTCOPY),
    _row("post-copy job", _ANY, _ANY, Situation.POSTCOPY, frozenset({JobStage.POSTCOPY})),
    _row("post-copy seen on target only", _ANY, _s(S.POSTCOPY), Situation.POSTCOPY),
    _row("moves on from another host in post-copy", _OFF, _s(S.POSTCOPY_SOURCE), Situation.POSTCOPY),
    # Pre-copy: the source's job is the truth, whatever the target says.
    _row(
        "pre-copy",
        _s(S.RUNNING, S.PAUSED),
        _s(S.ABSENT, S.SHUTOFF, S.INCOMING, S.UNKNOWN),
        Situation.MOVING,
        frozenset({JobStage.PRECOPY}),
    ),
    _row(
        "switch-over",
        _s(S.RUNNING, S.PAUSED),
        _s(S.RUNNING, S.PAUSED),
        Situation.SWITCHING_OVER,
        frozenset({JobStage.PRECOPY}),
    ),
    _row(
        "hand-over while its holder lives",
        _s(S.RUNNING, S.PAUSED, S.SHUTOFF),
        _s(S.RUNNING, S.PAUSED, S.INCOMING),
        Situation.SWITCHING_OVER,
        _NO_JOB,
        frozenset({Recorded.HELD}),
    ),
    _row("target still incoming", _ANY, _s(S.INCOMING), Situation.SWITCHING_OVER),
    _row("both run", _s(S.RUNNING, S.PAUSED), _s(S.RUNNING), Situation.TWICE),
    _row("paused at source, paused at target", _s(S.RUNNING, S.PAUSED), _s(S.PAUSED), Situation.TWICE),
    # It runs there.
    _row("crashed there", _s(S.ABSENT), _s(S.CRASHED), Situation.CRASHED_THERE),
    _row("arrived", _s(S.ABSENT), _s(S.RUNNING, S.PAUSED), Situation.ARRIVED),
    _row(
        "arrived, definition left on source",
        _s(S.SHUTOFF),
        _s(S.RUNNING, S.PAUSED, S.CRASHED),
        Situation.ARRIVED_LEFTOVER,
    ),
    # It is off.
    _row("cold: defined on both", _s(S.SHUTOFF), _s(S.SHUTOFF), Situation.COLD_DEFINED_TWICE),
    _row("cold: defined there only", _s(S.ABSENT), _s(S.SHUTOFF), Situation.COLD_ARRIVED),
    _row("off here", _s(S.SHUTOFF), _s(S.ABSENT), Situation.STOPPED_HERE),
    _row(
        "stopped by us, unreadable there",
        _s(S.SHUTOFF),
        _s(S.UNKNOWN),
        Situation.STOPPED_HERE,
        record=frozenset({Recorded.STOPPING}),
    ),
    _row("off here, unreadable there", _s(S.SHUTOFF), _s(S.UNKNOWN), Situation.UNREADABLE),
    _row("absent here, unreadable there", _s(S.ABSENT), _s(S.UNKNOWN), Situation.UNREADABLE),
    _row("nowhere", _s(S.ABSENT), _s(S.ABSENT), Situation.NOWHERE),
    # It is here.
    _row("crashed here", _s(S.CRASHED), _ANY, Situation.CRASHED_HERE),
    _row(
        "holder alive, job not yet seen",
        _s(S.RUNNING, S.PAUSED),
        _ANY,
        Situation.STARTING,
        _NO_JOB,
        frozenset({Recorded.HELD}),
    ),
    _row(
        "intended, no job, no holder",
        _s(S.RUNNING),
        _ANY,
        Situation.OUTCOME_LOST,
        _NO_JOB,
        frozenset({Recorded.INTENDED}),
    ),
    _row("runs here", _s(S.RUNNING), _ANY, Situation.HERE),
    # It may have been switched over: nothing is concluded from one side.
    _row(
        "paused after an attempt, unreadable there",
        _s(S.PAUSED),
        _s(S.UNKNOWN),
        Situation.UNREADABLE,
        _NO_JOB,
        frozenset({Recorded.INTENDED}),
    ),
    _row("paused here", _s(S.PAUSED), _ANY, Situation.PAUSED_HERE),
    _row("incoming here", _s(S.INCOMING, S.POSTCOPY), _ANY, Situation.SWITCHING_OVER),
)


def judge(source: State, target: State, job: JobStage, record: Recorded) -> tuple[Situation, str]:
    """The situation of a VM and the name of the row that decided it.

    `target` is the most telling state among the other nodes (see `most_significant`).
    """
    for row in ROWS:
        if (
            (row.source is None or source in row.source)
            and (row.target is None or target in row.target)
            and (row.job is None or job in row.job)
            and (row.record is None or record in row.record)
        ):
            return row.situation, row.name
    return Situation.UNREADABLE, "no row fits"


_SIGNIFICANCE = (
    S.POSTCOPY_FAILED,
    S.POSTCOPY,
    S.RUNNING,
    S.PAUSED,
    S.INCOMING,
    S.CRASHED,
    S.POSTCOPY_SOURCE,
    S.UNKNOWN,
    S.SHUTOFF,
    S.ABSENT,
)


def most_significant(states: tuple[State, ...]) -> State:
    """Pick the state that decides among those on all other nodes. No nodes: absent."""
    for state in _SIGNIFICANCE:
        if state in states:
            return state
    return S.ABSENT
