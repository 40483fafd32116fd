"""Deadlines of a migration: which measure, when, and never an abort in post-copy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virtops.maintenance.plugins.module_utils._core.link.converge import Look
from ansible_collections.virtops.maintenance.plugins.module_utils._core.link.deadline import (
    GIB,
    DeadlineAction,
    Deadlines,
    MemoryPasses,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Mode
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason


def settings(**fields: object) -> MigrationSettings:
    return MigrationSettings(**{"completion_timeout_per_gib": 100, "progress_timeout": 30, **fields})


def first(
    deadlines: Deadlines, until: int, link: bool = True, fall: int = 0, mode: Mode = Mode.PRE_COPY
) -> tuple[int, DeadlineAction, Reason | None]:
    """(second, measure, reason) of the first measure. `fall`: bytes a second."""
    for second in range(until):
        verdict = deadlines.step(float(second), link, Look(1, 10**9 - second * fall, 0), mode)
        if verdict.action is not DeadlineAction.NONE:
            return second, verdict.action, verdict.reason
    return until, DeadlineAction.NONE, None


@pytest.mark.parametrize(
    ("on_timeout", "post_copy", "measure"),
    [
        ("abort", False, DeadlineAction.ABORT),
        ("post_copy", True, DeadlineAction.POST_COPY),
        ("pause", False, DeadlineAction.PAUSE),
    ],
)
def test_completion(on_timeout: str, post_copy: bool, measure: DeadlineAction) -> None:
    deadlines = Deadlines(settings(on_timeout=on_timeout, post_copy=post_copy), 2 * GIB)
    assert first(deadlines, 1000, fall=1) == (200, measure, Reason.CompletionTimeout)


def test_a_part_of_a_gib_counts_whole() -> None:
    assert Deadlines(settings(), 1).completion == 100
    assert Deadlines(settings(), GIB + 1).completion == 200


def test_no_progress() -> None:
    deadlines = Deadlines(settings(), GIB)
    assert first(deadlines, 1000) == (30, DeadlineAction.ABORT, Reason.ProgressTimeout)


def test_waiting_for_the_link_is_neither_late_nor_stuck() -> None:
    deadlines = Deadlines(settings(), GIB)
    assert first(deadlines, 5000, link=False)[1] is DeadlineAction.NONE


def test_a_paused_one_gets_its_time_and_is_then_aborted() -> None:
    deadlines = Deadlines(settings(on_timeout="pause"), GIB)
    assert first(deadlines, 1000)[1:] == (DeadlineAction.PAUSE, Reason.ProgressTimeout)
    again = [deadlines.step(31.0 + s, True, Look(1, 10**9, 0), Mode.PAUSED).action for s in range(60)]
    assert again.index(DeadlineAction.ABORT) >= 29
    assert DeadlineAction.PAUSE not in again


def test_passes_that_get_smaller_are_progress_and_others_are_not() -> None:
    passes = MemoryPasses()
    assert passes.made_progress(1, 1000)
    assert passes.made_progress(1, 10)
    assert passes.made_progress(2, 500), "less than the first pass"
    assert passes.made_progress(2, 400)
    assert not passes.made_progress(3, 490), "as much as before"
    assert not passes.made_progress(3, 5), "the end of a pass that is no progress"
    assert passes.made_progress(4, 300)


def test_memory_after_the_disks_is_a_new_beginning() -> None:
    passes = MemoryPasses()
    assert passes.made_progress(0, 100)
    assert passes.made_progress(1, 5000)


@given(
    st.lists(st.tuples(st.floats(0, 50), st.booleans(), st.integers(0, 9), st.integers(0, 10**12)), max_size=60),
    st.sampled_from(["abort", "post_copy", "pause"]),
)
def test_never_a_measure_in_post_copy(looks: list[tuple[float, bool, int, int]], on_timeout: str) -> None:
    deadlines = Deadlines(settings(on_timeout=on_timeout, post_copy=True), GIB)
    now = 0.0
    for passed, link, iteration, remaining in looks:
        now += passed
        verdict = deadlines.step(now, link, Look(iteration, remaining, 0), Mode.POST_COPY)
        assert verdict.action is DeadlineAction.NONE
