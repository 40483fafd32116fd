"""Who does not converge is known early, with its numbers; the others are left alone. More: make bench-converge."""

from __future__ import annotations

import math

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.link.converge import Convergence, Look
from ansible_collections.virtops.maintenance.plugins.module_utils._core.link.deadline import DeadlineAction, Deadlines
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Mode
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.tests.bench.converge import (
    KINDS,
    MIB,
    MOST_INTERFERED,
    MOST_MISSED,
    RECOGNISED,
    Guest,
    fleet,
    migrate,
    rates_of,
    watch,
)
from tier import share

FLEETS = share(4, quick=1)


def guest(writes: float, working_set: float, size: float = 512, known: float = 0.0) -> Guest:
    """On a link of 100 MiB/s. MiB and MiB/s."""
    return Guest("", size, 100.0, lambda _t: writes, lambda _t: working_set, known)


def test_of_a_fleet_those_are_recognised_that_do_not_converge_and_the_others_left_alone() -> None:
    guests = [one for seed in range(1, 1 + FLEETS) for one in fleet(50 * len(KINDS), seed)]
    ends = [(one, migrate(one), migrate(one, watch(one))) for one in guests]
    assert 25 * FLEETS < sum(free.converged is False for _one, free, _seen in ends) < 50 * FLEETS
    interfered, missed, _lost = rates_of(ends)
    assert interfered <= MOST_INTERFERED and missed <= MOST_MISSED


@pytest.mark.parametrize(("writes", "working_set"), [(300.0, 200.0), (120.0, 400.0), (60.0, 35.0)])
def test_one_whose_pause_would_be_too_long_for_ever(writes: float, working_set: float) -> None:
    """The last one writes less than the link carries, and comes to its end."""
    one = guest(writes, working_set)
    free, seen = migrate(one), migrate(one, watch(one))
    assert (free.converged, seen.said < RECOGNISED) == ((True, False) if writes < 100 else (False, True))


@pytest.mark.parametrize(("most", "moves"), [(1000, True), (350, False)])
def test_a_longer_pause_is_allowed_where_it_suffices(most: int, moves: bool) -> None:
    """It would pause for 0.6 s. One that does not suffice is not tried before half of the time is over."""
    one = guest(300.0, 60.0)
    assert not migrate(one).converged
    assert migrate(one, watch(one)).said < RECOGNISED
    settings = MigrationSettings(post_copy=True, on_timeout="post_copy", max_downtime_ms=most)
    deadlines = watch(one, settings)
    seen = migrate(one, deadlines)
    assert (seen.converged, seen.said == math.inf) == (moves, moves)
    assert deadlines.steps[0] == f"a pause of {most / 1000:.1f} s allowed after {9 if moves else 75} s"


def test_a_shorter_pause_than_the_hypervisors_holds_from_the_beginning() -> None:
    one = guest(300.0, 20.0)
    assert migrate(one).converged
    settings = MigrationSettings(post_copy=True, on_timeout="post_copy", max_downtime_ms=100)
    deadlines = watch(one, settings)
    assert migrate(one, deadlines, pause=0.1).said < RECOGNISED
    assert [step.partition(" after ")[0] for step in deadlines.steps] == ["post-copy"]


def test_while_auto_converge_slows_a_guest_down_nothing_else_is_done() -> None:
    """Every pass takes 2 s, and makes it slower by 10 %: by 99 % QEMU ends, after 20 s. What it writes then is known
    4 s later, and is waited for for half of the progress timeout."""
    settings = MigrationSettings(post_copy=True, on_timeout="post_copy", auto_converge=True, progress_timeout=60)
    deadlines = Deadlines(settings, 1 << 30)
    for tenth in range(1000):
        now = tenth / 10
        look = Look(1 + int(now / 2), int((2 - now % 2) * 100 * MIB), int(now * 100 * MIB), min(99, 10 * int(now / 2)))
        verdict = deadlines.step(now, True, look, Mode.PRE_COPY)
        if look.throttle < 99 and verdict.action is DeadlineAction.NONE:
            assert verdict.forecast.converges is not False
        if verdict.action is not DeadlineAction.NONE:
            break
    assert deadlines.steps == ["auto-converge up to 99 %", "post-copy after 54 s"], deadlines.steps


def test_what_was_measured_before_is_said_and_nothing_is_done_for_it() -> None:
    """A burst may have been measured: the passes have to show it."""
    one = guest(50.0, 300.0, size=8192, known=200.0)
    seen = migrate(one, watch(one))
    assert seen.said < 10
    assert seen.converged and seen.acted == math.inf


@pytest.mark.parametrize(
    ("second", "ten", "known"),
    [
        (10.0, 60.0, True),  # bursts, and the second fell into a pause
        (10.0, 40.0, False),  # so they are, and leave it time
        (60.0, 60.0, False),  # steadily less than the link carries
        (80.0, 10.0, True),  # 100 MiB over and over, of which a second wrote most
        (80.0, 40.0, False),  # the more time, the more memory
        (20.0, 2.5, False),  # 25 MiB over and over: they go within the pause
        (None, 60.0, False),  # nothing to compare it with
    ],
)
def test_a_second_and_ten_seconds_tell_of_bursts_and_of_what_is_written_over_and_over(
    second: float | None, ten: float, known: bool
) -> None:
    """MiB/s; the link carries 100. One measurement for a second alone would say nothing of any of them."""
    converges = Convergence()
    if second is not None:
        converges.note_writes(second * MIB)
    looks = [Look(1, (8000 - 100 * had) * MIB, 100 * had * MIB) for had in range(12)]
    assert {converges.look(float(had), look, 1000.0).converges for had, look in enumerate(looks)} == {None}
    converges.note_writes(ten * MIB, 10.0)
    found = converges.look(12.0, Look(1, 6800 * MIB, 1200 * MIB), 1000.0)
    assert (found.converges is False, found.pause > 0.3) == (known, known)


def test_post_copy_comes_long_before_the_completion_timeout() -> None:
    one = guest(300.0, 200.0, size=4000)
    seen = migrate(one, watch(one))
    assert seen.said < seen.acted < one.most / 3


def never_ending(on_timeout: str) -> tuple[float, DeadlineAction, Reason | None, str]:
    """The first measure about a guest whose passes stay as they are: 200 MiB in 2 s."""
    settings = MigrationSettings(on_timeout=on_timeout, completion_timeout_per_gib=100, progress_timeout=120)
    deadlines = Deadlines(settings, 1 << 30)
    for tenth in range(10_000):
        now = tenth / 10
        remaining = int((2 - now % 2) * 100 * MIB)
        verdict = deadlines.step(now, True, Look(1 + int(now / 2), remaining, int(now * 100 * MIB)), Mode.PRE_COPY)
        if verdict.action is not DeadlineAction.NONE:
            return now, verdict.action, verdict.reason, verdict.message
    raise AssertionError("nothing was done")


def test_an_abort_helps_nobody_and_has_its_time_and_its_cause() -> None:
    when, action, reason, text = never_ending("abort")
    assert (when, action, reason) == (100.0, DeadlineAction.ABORT, Reason.NotConverging)
    assert text == "writes 100 MiB/s, the link carries 100 MiB/s: it would pause for 2.0 s, 0.3 s are allowed"


def test_what_is_written_while_others_have_the_link_says_nothing() -> None:
    """Each pass of 100 MiB takes a second with the link and nine without: 10 MiB/s are written, and it would end."""
    deadlines = Deadlines(MigrationSettings(), 1 << 30)
    said = set()
    for tenth in range(1200):
        turn, now = divmod(tenth, 100)
        sent = min(now, 10) * 10
        look = Look(2 + turn, (100 - sent) * MIB, (turn * 100 + sent) * MIB)
        said.add(deadlines.step(tenth / 10, now <= 10, look, Mode.PRE_COPY).forecast.converges)
    assert said == {None}


def test_what_was_known_before_others_had_the_link_is_the_cause_that_is_told() -> None:
    """Its time is over before its passes tell anything again."""
    deadlines = Deadlines(MigrationSettings(completion_timeout_per_gib=40), 1 << 30)
    verdict = None
    for tenth in range(1000):
        now = tenth / 10
        had = now if now < 39 else max(39.0, now - 30)
        look = Look(1 + int(had / 2), int((2 - had % 2) * 100 * MIB), int(had * 100 * MIB))
        verdict = deadlines.step(now, not 39 <= now < 69, look, Mode.PRE_COPY)
        if verdict.action is not DeadlineAction.NONE:
            break
    assert verdict is not None and verdict.reason is Reason.NotConverging, verdict


def test_what_a_guest_wrote_before_it_was_slowed_down_says_nothing() -> None:
    """Three passes of 2 s at the last throttle but one; then it is at the last, and its passes tell anew."""
    deadlines, said = Deadlines(MigrationSettings(auto_converge=True), 1 << 30), set()
    for tenth in range(90):
        now = tenth / 10
        look = Look(2 + int(now / 2), int((2 - now % 2) * 100 * MIB), int(now * 100 * MIB), 99 if now >= 8 else 89)
        said.add(deadlines.step(now, True, look, Mode.PRE_COPY).forecast.converges)
    assert said == {None}


def test_one_that_fits_into_its_pause_is_no_trouble() -> None:
    """QEMU may take a pass more; its passes do not shrink, and need not."""
    converges = Convergence()
    found = [converges.look(0.25 * n, Look(2 + n, 25 * MIB, n * 25 * MIB), 1000.0) for n in range(60)]
    assert False not in {one.converges for one in found} and found[-1].pause == pytest.approx(0.25)


def test_a_pass_of_which_nothing_was_left_is_no_trouble() -> None:
    """A look may come when all of a pass is sent. What fails here would end the deadlines of all the others, too."""
    converges = Convergence()
    sizes = (512, 0, 0, 0, 64, 0, 64, 64)
    found = [converges.look(3.0 * n, Look(1 + n, mib * MIB, n * 100 * MIB), 1000.0) for n, mib in enumerate(sizes)]
    assert False not in {one.converges for one in found[:4]}


def test_disks_are_copied_first_and_say_nothing() -> None:
    converges = Convergence()
    found = [converges.look(float(s), Look(0, 10**9, s * 10**8), 1000.0) for s in range(60)]
    assert {one.converges for one in found} == {None}
