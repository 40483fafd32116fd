"""The link scheduler, on the model of a link: quick, fair, and never over a limit."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.virtops.maintenance.plugins.module_utils._core.link.rules import (
    MAX_STARTED,
    LinkJob,
    most_started,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.link.scheduler import OPEN_MIB, LinkScheduler
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.link.link_model import (
    MIB,
    Guest,
    Link,
    fixed_width,
    run,
)

EXAMPLES = int(os.environ.get("VIRTOPS_EXAMPLES", "40"))
SLOW = 47 * MIB  # 400 Mbit/s


def idle() -> list[Guest]:
    return [Guest(f"g{i}", 60 * MIB, 30 * MIB) for i in range(12)]


def hard() -> list[Guest]:
    return [Guest(f"g{i}", 168 * MIB, 88 * MIB, 12 * MIB, 16 * MIB) for i in range(12)]


def mixed() -> list[Guest]:
    big = Guest("big", 672 * MIB, 350 * MIB, 20 * MIB, 20 * MIB)
    return [big, *(Guest(f"g{i}", 200 * MIB, 56 * MIB) for i in range(11))]


def ours(guests: list[Guest], capacity: float, per_job: float = 1e12) -> tuple[float, Link]:
    link = Link(guests, capacity, per_job)
    return run(link, LinkScheduler().step, LinkJob), link


def test_idle_guests_go_all_at_once() -> None:
    wide = fixed_width(Link(idle(), 500 * MIB), 12)
    assert ours(idle(), 500 * MIB)[0] <= 1.1 * wide


def test_no_more_at_once_than_the_processors_serve() -> None:
    crowd = {f"g{i:02}": LinkJob(size=96 * MIB) for i in range(20)}
    widths = [len(LinkScheduler(most_started(cpus)).step(0.0, crowd)) for cpus in (1, 2, 4, 64)]
    assert widths == [4, 4, 8, MAX_STARTED]


def test_writing_guests_go_nearly_one_at_a_time() -> None:
    two = fixed_width(Link(hard(), SLOW), 2)
    assert fixed_width(Link(hard(), SLOW), 6, until=2 * two) >= 2 * two, "the model is too kind"
    took, link = ours(hard(), SLOW)
    assert took <= 0.95 * two
    assert took <= link.bytes / SLOW + 4.0


def test_one_big_writer_among_small_ones() -> None:
    best = min(fixed_width(Link(mixed(), SLOW), width) for width in (1, 2, 4, 12))
    assert ours(mixed(), SLOW)[0] <= 1.03 * best


def test_more_lanes_where_one_does_not_fill_the_link() -> None:
    def guests() -> list[Guest]:
        return [Guest(f"g{i}", 2000 * MIB, 0, 10 * MIB, 100 * MIB) for i in range(12)]

    four = fixed_width(Link(guests(), 1000 * MIB, 300 * MIB), 4)
    assert ours(guests(), 1000 * MIB, 300 * MIB)[0] <= 1.15 * four


def test_a_limit_per_migration_widens_at_once() -> None:
    guests = [Guest(f"g{i}", 200 * MIB, cap_mib=20) for i in range(12)]
    took, _link = ours(guests, 200 * MIB)
    assert took <= 12 * 200 / 200 + 7.0


def test_one_that_never_converges_lets_the_others_pass() -> None:
    guests = [Guest("wild", 200 * MIB, 0, 90 * MIB, 150 * MIB)]
    guests += [Guest(f"g{i}", 200 * MIB) for i in range(6)]
    link = Link(guests, SLOW)
    run(link, LinkScheduler().step, LinkJob, until=80)
    assert link.guests["wild"].state == "flow"
    assert link.guests["wild"].limit == OPEN_MIB, "alone it has the link again"
    assert all(link.guests[f"g{i}"].state == "done" for i in range(6))


def test_priority_comes_first() -> None:
    guests = [Guest(f"g{i}", 300 * MIB, priority=i) for i in range(6)]
    _took, link = ours(guests, SLOW)
    ends = [link.guests[f"g{i}"].done_at for i in range(6)]
    assert ends[5] == min(ends)
    assert ends[0] == max(ends)


def test_no_more_are_started_than_libvirt_can_answer_for() -> None:
    guests = [Guest(f"g{i:02}", 30 * MIB) for i in range(40)]
    most = 0

    def watch(link: Link) -> None:
        nonlocal most
        most = max(most, sum(g.state not in ("new", "done") for g in link.guests.values()))

    link = Link(guests, SLOW)
    run(link, LinkScheduler().step, LinkJob, watch=watch)
    assert most <= MAX_STARTED
    assert not link.active()


def test_disk_copies_wait_for_the_link_before_they_start() -> None:
    """Theirs is a bandwidth that cannot be changed. One is tried beside, no more."""
    guests = [Guest("a", 600 * MIB)]
    guests += [Guest(f"d{i}", 300 * MIB, adjustable=False) for i in range(4)]
    scheduler = LinkScheduler()
    link = Link(guests[:1], SLOW)
    run(link, scheduler.step, LinkJob, until=2.0)
    link.guests.update({guest.name: guest for guest in guests[1:]})
    run(link, scheduler.step, LinkJob, until=8.0)
    begun = [guest.name for guest in guests[1:] if guest.limit is not None]
    assert len(begun) <= 1
    run(link, scheduler.step, LinkJob)
    assert not link.active()
    assert link.now < (600 + 4 * 300) / 47 + 5.0


def test_what_is_gone_is_forgotten_and_may_come_again() -> None:
    scheduler = LinkScheduler()
    assert scheduler.step(0.0, {"a": LinkJob(size=MIB)}) == {"a": OPEN_MIB}
    assert scheduler.step(1.0, {}) == {}
    assert not scheduler.is_open("a")
    assert scheduler.step(2.0, {"a": LinkJob(size=MIB)}) == {"a": OPEN_MIB}


GUEST = st.builds(
    lambda wire, zero, dirty, part, setup, cap, priority, target: (
        wire,
        zero,
        dirty,
        part,
        setup,
        cap,
        priority,
        target,
    ),
    st.integers(10, 600),
    st.integers(0, 300),
    st.integers(0, 25),
    st.floats(0.0, 0.5),
    st.floats(0.2, 3.0),
    st.sampled_from([0, 0, 0, 1, 10, 50]),
    st.integers(-2, 2),
    st.sampled_from("bc"),
)


@settings(max_examples=max(8, EXAMPLES // 5))
@given(st.lists(GUEST, min_size=1, max_size=16), st.integers(60, 400))
def test_everyone_arrives_within_its_limit(rows: list[tuple], capacity: int) -> None:
    """Nobody starves, no limit is passed, the link is used."""
    guests = [
        Guest(
            f"g{i:02}",
            wire * MIB,
            zero * MIB,
            min(dirty, (cap or 1000) * 0.4) * MIB,
            part * wire * MIB,
            setup,
            0.7,
            cap,
            priority,
            target,
        )
        for i, (wire, zero, dirty, part, setup, cap, priority, target) in enumerate(rows)
    ]
    scheduler = LinkScheduler()

    def watch(link: Link) -> None:
        for guest in link.active():
            if guest.limit is not None:
                assert 1 <= guest.limit <= (guest.cap_mib or OPEN_MIB)

    link = Link(guests, capacity * MIB)
    took = run(link, scheduler.step, LinkJob, until=3000, watch=watch)
    assert not link.active(), f"not through after {took:.0f} s"


STAMPS = st.lists(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.builds(
            LinkJob,
            stamp=st.floats(0, 100),
            size=st.integers(0, 1 << 40),
            started=st.booleans(),
            processed=st.integers(0, 1 << 40),
            remaining=st.integers(0, 1 << 40),
            dirty_rate=st.integers(0, 1 << 36),
            iteration=st.integers(0, 50),
            adjustable=st.booleans(),
            sticky=st.booleans(),
        ),
    ),
    max_size=30,
)


@settings(max_examples=EXAMPLES)
@given(STAMPS)
def test_whatever_the_numbers_say_it_answers_sensibly(looks: list[dict[str, LinkJob]]) -> None:
    """Statistics may be late, jump, go backwards. Somebody always has the link."""
    scheduler = LinkScheduler()
    begun: set[str] = set()
    for place, jobs in enumerate(looks):
        begun &= set(jobs)
        changes = scheduler.step(place * 0.3, jobs)
        begun |= set(changes) | {uuid for uuid, job in jobs.items() if job.started}
        assert set(changes) <= set(jobs)
        assert all(1 <= mib <= OPEN_MIB for mib in changes.values())
        fixed = any(uuid in begun and not job.adjustable for uuid, job in jobs.items())
        assert not jobs or fixed or any(scheduler.is_open(uuid) for uuid in jobs)
