"""The verdict table, row by row, and as a whole."""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.reconcile import (
    ROWS,
    JobStage,
    Recorded,
    Situation,
    judge,
    most_significant,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State

S = State
NONE, PRE, POST = JobStage.NONE, JobStage.PRECOPY, JobStage.POSTCOPY
NOTHING, INTENDED, HELD = Recorded.NOTHING, Recorded.INTENDED, Recorded.HELD
STOPPING = Recorded.STOPPING

# name of the row -> (source, target, job, record), and what that means
TABLE = {
    "source unreadable": (S.UNKNOWN, S.RUNNING, NONE, NOTHING, Situation.UNREADABLE),
    "post-copy broken, and gone from source": (
        S.SHUTOFF, S.POSTCOPY_FAILED, NONE, INTENDED, Situation.POSTCOPY_LOST),
    "post-copy broken, and gone from target": (
        S.POSTCOPY_FAILED, S.ABSENT, POST, HELD, Situation.POSTCOPY_LOST),
    "post-copy broken on source": (
        S.POSTCOPY_FAILED, S.POSTCOPY, POST, HELD, Situation.POSTCOPY_BROKEN),
    "post-copy broken on target": (
        S.POSTCOPY_SOURCE, S.POSTCOPY_FAILED, POST, HELD, Situation.POSTCOPY_BROKEN),
    "post-copy on source": (S.POSTCOPY_SOURCE, S.POSTCOPY, POST, HELD, Situation.POSTCOPY),
    "post-copy job": (S.PAUSED, S.INCOMING, POST, HELD, Situation.POSTCOPY),
    "post-copy seen on target only": (S.ABSENT, S.POSTCOPY, NONE, INTENDED, Situation.POSTCOPY),
    "moves on from another host in post-copy": (
        S.ABSENT, S.POSTCOPY_SOURCE, NONE, NOTHING, Situation.POSTCOPY),
    "pre-copy": (S.RUNNING, S.INCOMING, PRE, INTENDED, Situation.MOVING),
    "switch-over": (S.PAUSED, S.RUNNING, PRE, HELD, Situation.SWITCHING_OVER),
    "hand-over while its holder lives": (
        S.SHUTOFF, S.RUNNING, NONE, HELD, Situation.SWITCHING_OVER),
    "target still incoming": (S.RUNNING, S.INCOMING, NONE, INTENDED, Situation.SWITCHING_OVER),
    "both run": (S.RUNNING, S.RUNNING, NONE, INTENDED, Situation.TWICE),
    "paused at source, paused at target": (
        S.PAUSED, S.PAUSED, NONE, NOTHING, Situation.TWICE),
    "crashed there": (S.ABSENT, S.CRASHED, NONE, NOTHING, Situation.CRASHED_THERE),
    "arrived": (S.ABSENT, S.RUNNING, NONE, INTENDED, Situation.ARRIVED),
    "arrived, definition left on source": (
        S.SHUTOFF, S.RUNNING, NONE, INTENDED, Situation.ARRIVED_LEFTOVER),
    "cold: defined on both": (
        S.SHUTOFF, S.SHUTOFF, NONE, Recorded.COLD, Situation.COLD_DEFINED_TWICE),
    "cold: defined there only": (
        S.ABSENT, S.SHUTOFF, NONE, Recorded.COLD, Situation.COLD_ARRIVED),
    "off here": (S.SHUTOFF, S.ABSENT, NONE, NOTHING, Situation.STOPPED_HERE),
    "stopped by us, unreadable there": (
        S.SHUTOFF, S.UNKNOWN, NONE, STOPPING, Situation.STOPPED_HERE),
    "off here, unreadable there": (S.SHUTOFF, S.UNKNOWN, NONE, INTENDED, Situation.UNREADABLE),
    "absent here, unreadable there": (
        S.ABSENT, S.UNKNOWN, NONE, Recorded.SUCCEEDED, Situation.UNREADABLE),
    "nowhere": (S.ABSENT, S.ABSENT, NONE, INTENDED, Situation.NOWHERE),
    "crashed here": (S.CRASHED, S.ABSENT, NONE, Recorded.FAILED, Situation.CRASHED_HERE),
    "holder alive, job not yet seen": (S.RUNNING, S.ABSENT, NONE, HELD, Situation.STARTING),
    "intended, no job, no holder": (
        S.RUNNING, S.ABSENT, NONE, INTENDED, Situation.OUTCOME_LOST),
    "runs here": (S.RUNNING, S.ABSENT, NONE, Recorded.FAILED, Situation.HERE),
    "paused after an attempt, unreadable there": (
        S.PAUSED, S.UNKNOWN, NONE, INTENDED, Situation.UNREADABLE),
    "paused here": (S.PAUSED, S.ABSENT, NONE, NOTHING, Situation.PAUSED_HERE),
    "incoming here": (S.INCOMING, S.RUNNING, NONE, NOTHING, Situation.SWITCHING_OVER),
}  # fmt: skip


def test_each_row_has_a_case() -> None:
    assert set(TABLE) == {row.name for row in ROWS}
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("name", TABLE)
def test_row(name: str) -> None:
    source, target, job, record, situation = TABLE[name]
    assert judge(source, target, job, record) == (situation, name)


def test_every_combination_has_a_row() -> None:
    for case in itertools.product(S, S, JobStage, Recorded):
        assert judge(*case)[1] != "no row fits", case


def test_nothing_is_concluded_where_a_host_cannot_be_read() -> None:
    """Neither arrived nor nowhere nor (unless we stopped it) off, while the target is unknown."""
    for source, job, record in itertools.product((S.ABSENT, S.SHUTOFF), (NONE, PRE), Recorded):
        situation = judge(source, S.UNKNOWN, job, record)[0]
        if (source, record) != (S.SHUTOFF, STOPPING):
            assert situation is Situation.UNREADABLE


def test_a_vm_that_runs_here_is_never_accounted_for_elsewhere() -> None:
    gone = {Situation.ARRIVED, Situation.ARRIVED_LEFTOVER, Situation.NOWHERE}
    gone |= {Situation.COLD_ARRIVED, Situation.STOPPED_HERE}
    for target, job, record in itertools.product(S, JobStage, Recorded):
        assert judge(S.RUNNING, target, job, record)[0] not in gone


def test_two_executing_domains_without_a_job_or_holder_are_twice() -> None:
    for record in set(Recorded) - {HELD}:
        assert judge(S.RUNNING, S.RUNNING, NONE, record)[0] is Situation.TWICE


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((), S.ABSENT),
        ((S.ABSENT, S.RUNNING), S.RUNNING),
        ((S.SHUTOFF, S.UNKNOWN), S.UNKNOWN),
        ((S.SHUTOFF, S.ABSENT), S.SHUTOFF),
        ((S.INCOMING, S.RUNNING), S.RUNNING),
        ((S.RUNNING, S.POSTCOPY_FAILED), S.POSTCOPY_FAILED),
    ],
)
def test_most_telling(states: tuple[S, ...], expected: S) -> None:
    assert most_significant(states) is expected


def test_no_message_has_a_state_s_own_name_where_that_is_a_riddle() -> None:
    assert all("_" not in state.words and "copy" not in state.words.replace("(post-copy", "") for state in S)
