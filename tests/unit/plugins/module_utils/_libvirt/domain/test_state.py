"""From libvirt's numbers to the core's words."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Mode, State
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain import state as ds


@pytest.mark.parametrize(
    ("state", "reason", "incoming", "expected"),
    [
        (ds.RUNNING, 1, True, State.RUNNING),
        (ds.RUNNING, ds.RUNNING_POSTCOPY, True, State.POSTCOPY),
        (ds.RUNNING, ds.RUNNING_POSTCOPY_FAILED, True, State.POSTCOPY_FAILED),
        (ds.PAUSED, ds.PAUSED_MIGRATION, True, State.INCOMING),
        (ds.PAUSED, ds.PAUSED_MIGRATION, False, State.PAUSED),
        (ds.PAUSED, ds.PAUSED_STARTING_UP, True, State.INCOMING),
        (ds.PAUSED, 1, True, State.PAUSED),
        (ds.PAUSED, ds.PAUSED_POSTCOPY, False, State.POSTCOPY_SOURCE),
        (ds.PAUSED, ds.PAUSED_POSTCOPY_FAILED, False, State.POSTCOPY_FAILED),
        (ds.SHUTDOWN, 0, True, State.RUNNING),
        (ds.SHUTOFF, 1, True, State.SHUTOFF),
        (ds.CRASHED, 1, True, State.CRASHED),
        (ds.PMSUSPENDED, 0, True, State.PAUSED),
        (0, 0, True, State.SHUTOFF),
    ],
)
def test_state(state: int, reason: int, incoming: bool, expected: State) -> None:
    assert ds.to_state(state, reason, incoming) is expected


def test_outgoing_job_is_read_with_units() -> None:
    stats = {
        "type": ds.JOB_UNBOUNDED,
        "operation": ds.OPERATION_MIGRATION_OUT,
        "time_elapsed": 1500,
        "data_processed": 10,
        "data_total": 30,
        "data_remaining": 20,
        "memory_bps": 7,
        "memory_dirty_rate": 2,
        "memory_page_size": 4096,
    }
    job = ds.to_job(stats, State.RUNNING)
    assert job is not None
    assert (job.outgoing, job.mode, job.elapsed) == (True, Mode.PRE_COPY, 1.5)
    assert (job.processed, job.total, job.remaining, job.rate) == (10, 30, 20, 7)
    assert job.dirty_rate == 8192


def test_post_copy_is_told_by_the_state() -> None:
    stats = {"type": ds.JOB_UNBOUNDED, "operation": ds.OPERATION_MIGRATION_OUT}
    job = ds.to_job(stats, State.POSTCOPY_SOURCE)
    assert job is not None
    assert job.mode is Mode.POST_COPY


@pytest.mark.parametrize("stats", [{}, {"type": 0}, {"type": 3}, {"type": 2, "operation": ds.OPERATION_MIGRATION_IN}])
def test_no_outgoing_job(stats: dict[str, int]) -> None:
    assert ds.to_job(stats, State.RUNNING) is None


def test_another_job_is_not_a_migration() -> None:
    job = ds.to_job({"type": 2, "operation": 8}, State.RUNNING)
    assert job is not None
    assert not job.outgoing
    assert not job.saving


def test_a_save_is_told_from_other_jobs() -> None:
    job = ds.to_job({"type": 2, "operation": ds.OPERATION_SAVE}, State.PAUSED)
    assert job is not None
    assert (job.outgoing, job.saving) == (False, True)


def test_a_crash_is_told_from_a_stop() -> None:
    assert [r for r in range(9) if ds.is_crashed(ds.SHUTOFF, r)] == [3, 6, 8]
    assert not ds.is_crashed(ds.RUNNING, 3)


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        (ds.PAUSED, ds.PAUSED_USER, "suspended"),
        (ds.PAUSED, ds.PAUSED_IOERROR, "I/O error"),
        (ds.PAUSED, ds.PAUSED_MIGRATION, ""),
        (ds.PMSUSPENDED, 0, "sleeps"),
        (ds.RUNNING, ds.PAUSED_IOERROR, ""),
    ],
)
def test_what_paused_it_is_said(state: int, reason: int, words: str) -> None:
    told = ds.paused_by(state, reason)
    assert words in told and bool(words) is bool(told)
