"""The record of a roll, read and written by several at once, in memory and by a clock of ours."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import RecordError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.wall import after
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import (
    owner,
    record,
    report,
    rules,
    run,
    stages,
    status,
    table,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.options import ROLL_SPEC, answer_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import RollRefused, RollTakenOver
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Fleet, Roll, Stage, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.rules import Ask
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.terms import Terms

HOSTS = ("a", "b", "c")


class Store:
    """`between`: what somebody else does between a read and the write after it."""

    def __init__(self) -> None:
        self.text = ""
        self.between: list[Callable[[], None]] = []
        self.quorum_hosts: tuple[str, ...] = ()

    def read(self) -> tuple[Roll | None, str]:
        return (Roll.from_json(self.text) if self.text else None), self.text

    def write(self, roll: Roll, seen: str) -> bool:
        while self.between:
            self.between.pop()()
        if seen != self.text:
            return False
        self.text = roll.to_json()
        return True

    def fleet(self) -> Fleet:
        return Fleet(HOSTS, quorum_hosts=self.quorum_hosts)

    @property
    def roll(self) -> Roll:
        return Roll.from_json(self.text)


class Time:
    """`every`: what happens while somebody sleeps."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.every: Callable[[], None] = lambda: None

    def clock(self) -> record.Clock:
        return record.Clock(lambda: self.at, lambda: "2026-01-01T00:00:00Z", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        self.every()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def time() -> Time:
    return Time()


def beat(store: Store) -> None:
    roll, seen = store.read()
    assert roll is not None
    roll.beat += 1
    store.write(roll, seen)


def begin(store: Store, time: Time, runner: str, seconds: float = 200.0) -> dict[str, Any]:
    ask = Ask(id=runner[:2], run=runner, hosts=HOSTS)
    return run.begin(store, ask, time.clock(), time.at + seconds, {})


def admit(store: Store, time: Time, host: str, runner: str, boot_id: str = "boot") -> dict[str, Any]:
    return run.turn(store, host, runner, boot_id, time.clock(), time.at, {}, 60.0)


def test_of_those_that_wait_one_is_the_next(store: Store, time: Time) -> None:
    begin(store, time, "mine")
    admit(store, time, "a", "mine")
    assert [admit(store, time, host, "mine")["is_next"] for host in ("b", "c")] == [True, False]


def test_of_two_that_begin_at_once_one_wins(store: Store, time: Time) -> None:
    store.between.append(lambda: begin(store, time, "other") and None)
    time.every = lambda: beat(store)
    with pytest.raises(RollRefused, match="A roll already exists for this fleet"):
        begin(store, time, "mine")
    assert store.roll.run == "other"


def test_a_record_that_takes_no_write_is_an_error_and_no_endless_loop(store: Store, time: Time) -> None:
    begin(store, time, "mine")
    store.write = lambda *_args: False
    for step in (
        lambda: run.note(store, "a", "mine", stages.Note(Stage.DRAINING), time.clock()),
        lambda: run.abort(store, "other", "", time.clock()),
    ):
        began = time.at
        with pytest.raises(RecordError, match="changed since it was read"):
            step()
        assert 60.0 < time.at - began < 600.0


def test_a_roll_that_nobody_renews_is_carried_on_after_a_minute(store: Store, time: Time) -> None:
    begin(store, time, "dead")
    admit(store, time, "a", "dead")
    began = time.at
    found = begin(store, time, "mine")
    assert owner.LEASE < time.at - began < owner.LEASE + 10
    assert found["order"] == ["a", "b", "c"]
    assert store.roll.run == "mine"
    with pytest.raises(RollTakenOver):
        run.note(store, "a", "dead", stages.Note(Stage.EMPTY), time.clock())


def test_one_that_is_renewed_late_lives(store: Store, time: Time) -> None:
    begin(store, time, "slow")
    began = time.at

    def renew_once() -> None:
        if began + owner.LEASE - 5 < time.at and store.roll.beat == 1:
            run.note(store, "a", "slow", stages.Note(Stage.EMPTY), time.clock())

    time.every = renew_once
    with pytest.raises(RollRefused):
        begin(store, time, "mine")


def test_what_a_killed_playbook_left_on_a_host_does_not_renew_its_roll(store: Store, time: Time) -> None:
    begin(store, time, "dead")
    admit(store, time, "a", "dead")
    before, killed = store.roll.beat, time.at + 8
    clock = replace(time.clock(), heard=lambda: time.at < killed)  # in the middle of its slice
    run.renew(store, "dead", clock, time.at + 60, 0)
    assert killed < time.at < killed + 10
    stages.note_seen(store, "a", "dead", Stage.EMPTY, clock)
    assert store.roll.beat == before
    run.renew(store, "dead", time.clock(), time.at + 60, 0)
    assert store.roll.beat > before


def test_the_watch_goes_on_from_slice_to_slice(store: Store, time: Time) -> None:
    begin(store, time, "dead")
    notes: dict[str, Any] = {}
    slices = 0
    while True:
        ask = Ask(id="m", run="mine", hosts=HOSTS)
        found = run.begin(store, ask, time.clock(), time.at + 20, notes)
        slices += 1
        if found["ended"] == "final":
            break
        notes = found["watch"]
    assert slices in (3, 4)


def test_a_roll_that_stopped_is_carried_on_at_once(store: Store, time: Time) -> None:
    begin(store, time, "first")
    run.end(store, "first", time.clock())
    began = time.at
    begin(store, time, "mine")
    assert time.at == began


@pytest.mark.parametrize("seed", range(100))
def test_never_more_hosts_are_out_than_the_budget(store: Store, time: Time, seed: int) -> None:
    """Workers of one roll ask for turns and end, each between the read and the write of another."""
    pick = random.Random(seed)
    begin(store, time, "mine")
    left = list(HOSTS)

    def disturb() -> None:
        if pick.random() < 0.5:
            step(pick.choice(HOSTS))

    def step(host: str) -> None:
        if host in store.roll.out:
            to_the_end(store, time, host)
        else:
            admit(store, time, host, "mine")

    while left and store.roll.state is State.RUNNING:
        store.between = [disturb]
        step(pick.choice(left))
        assert len(store.roll.out) <= 1
        left = [host for host in HOSTS if store.roll.hosts[host].stage is not Stage.DONE]
    assert store.roll.state is State.ENDED


def test_what_is_done_stays_done(store: Store, time: Time) -> None:
    """A note whose answer was lost is made again; a failure after it is none of the host's."""
    begin(store, time, "mine")
    for host in HOSTS:
        admit(store, time, host, "mine")
        to_the_end(store, time, host)
        for stage in (Stage.DONE, Stage.FAILED):
            run.note(store, host, "mine", stages.Note(stage), time.clock())
    assert store.roll.state is State.ENDED


WAY = [Stage.EMPTY, Stage.AT_WORK, Stage.EMPTY, Stage.REBOOTING, Stage.CHECKING, Stage.RESTORING, Stage.DONE]


def to_the_end(store: Store, time: Time, host: str) -> None:
    """All that a host goes through, from its drain on."""
    for stage in WAY:
        run.note(store, host, "mine", stages.Note(stage), time.clock())


@pytest.mark.parametrize(
    ("stage", "before"),
    [
        (Stage.AT_WORK, Stage.DRAINING),
        (Stage.REBOOTING, Stage.DRAINING),
        (Stage.REBOOTING, Stage.AT_WORK),
        (Stage.CHECKING, Stage.AT_WORK),
        (Stage.CHECKING, Stage.DRAINING),
        (Stage.DONE, Stage.CHECKING),
    ],
)
def test_what_was_not_proven_is_not_noted(store: Store, time: Time, stage: Stage, before: Stage) -> None:
    """No work and no reboot without the certificate of a drain, nothing done without a restore."""
    begin(store, time, "mine")
    admit(store, time, "a", "mine")
    for one in (Stage.EMPTY, before):
        if store.roll.hosts["a"].stage is not before:
            roll = stages.with_stage(store.roll, "a", one, "")
            store.text = roll.to_json()
    if before is Stage.DRAINING:
        store.text = stages.with_stage(store.roll, "a", before, "").to_json()
    with pytest.raises(RollRefused, match=f"a cannot be recorded as {stage.value}: it is {before.value}"):
        run.note(store, "a", "mine", stages.Note(stage), time.clock())
    assert store.roll.hosts["a"].stage is before


def test_the_table_says_what_the_roll_did(store: Store, time: Time) -> None:
    clock = time.clock()
    clock.wall = lambda: f"2026-01-01T00:00:{int(time.at) % 60:02}Z"
    time.at = 0.0
    ask = Ask(id="mi", run="mine", hosts=HOSTS, terms=Terms(seconds={"a": 3.0, "b": 61.0}))
    run.begin(store, ask, clock, 99, {})
    run.turn(store, "a", "mine", "boot", clock, 99, {}, 3600)
    for stage in (Stage.EMPTY, Stage.CHECKING, Stage.RESTORING, Stage.DONE):
        time.at += 4
        # Installed anew in its work, it has nothing to tell any more.
        counts = {"vms": 5, "moved": 3, "cold_moved": 1, "stopped": 1, "outage_ms": 133}
        counts = counts if stage is Stage.EMPTY else {"outage_ms": 21000} if stage is Stage.DONE else {"vms": 0}
        run.note(store, "a", "mine", stages.Note(stage, tally=counts), clock)
    found = run.end(store, "mine", time.clock())
    assert [" ".join(line.split()) for line in found["lines"]] == [
        "host is VMs moved cold stopped off kept outage drained in by plan time",
        "a done 5 3 1 1 0 0 21 s 4 s 3 s 16 s",
        "b not begun - - - - - - - - 1 min 1 s -",
        "c not begun - - - - - - - - - -",
        "roll mi 1 of 3 done 5 3 1 1 0 0 21 s 4 s 1 min 4 s 16 s",
    ]
    both = store.roll
    both.hosts["b"].tally = {"vms": 1, "moved": 1}
    assert table.lines(both)[-1] == "Each host counts the VMs that left it; one that left two hosts counts twice."


def test_the_time_for_which_a_host_lay_is_not_counted(store: Store, time: Time) -> None:
    """It failed before it was empty, and was carried on much later: "is done in 17 min", with a drain of 17 min."""
    clock, at = time.clock(), [0]
    clock.wall = lambda: f"2026-01-01T{at[0] // 3600:02}:{at[0] // 60 % 60:02}:{at[0] % 60:02}Z"
    run.begin(store, Ask(id="mi", run="mine", hosts=("a",)), clock, 99, {})
    run.turn(store, "a", "mine", "boot", clock, 99, {}, 3600)
    at[0] = 8
    run.note(store, "a", "mine", stages.Note(Stage.FAILED, "", "No space"), clock)
    at[0] = 1008
    run.begin(store, Ask(id="n", run="next", hosts=("a",)), clock, 99, {})
    run.turn(store, "a", "next", "boot", clock, 99, {}, 3600)
    for stage in (Stage.EMPTY, Stage.CHECKING, Stage.RESTORING, Stage.DONE):
        at[0] += 4
        run.note(store, "a", "next", stages.Note(stage), clock)
    found = run.end(store, "next", clock)
    assert table.host_is_done(found["roll"], "a") == (
        "a is done in 24 s (not counted: 16 min 40 s until it was resumed) | roll 1/1"
    )
    assert all(" ".join(line.split()).endswith(" 12 s - 24 s") for line in found["lines"][1:3]), found["lines"]
    assert found["lines"][3] == "Not counted, because nobody worked on it until it was resumed: 16 min 40 s of a."
    doc = report.with_roll(report.empty(), found["roll"], clock.wall())
    assert (doc["hosts"][0]["seconds"], doc["totals"]["seconds"]) == (24, 24)


def test_why_a_host_failed_is_told_once(store: Store, time: Time) -> None:
    """The task that notes it says so itself. Hosts that failed alike are named together."""
    clock = time.clock()
    run.begin(
        store, Ask(id="mi", run="mine", hosts=HOSTS, terms=Terms(max_unavailable="3", max_failures=2)), clock, 99, {}
    )
    for host in HOSTS:
        run.turn(store, host, "mine", "boot", clock, 99, {}, 3600)
    for host in ("b", "c"):
        run.note(store, host, "mine", stages.Note(Stage.FAILED, "", 'In the task "Patch": no space'), clock)
    noted = run.note(store, "a", "mine", stages.Note(Stage.FAILED, "", "It was left"), clock)
    said = 'b, c have failed while draining: In the task "Patch": no space. '
    assert said in noted["message"] and "It was left" not in noted["message"]
    ended = run.end(store, "mine", clock)["message"]
    assert said in ended and ended.count("a has failed while draining: It was left.") == 1


def test_a_roll_that_was_aborted_says_how_far_it_was(store: Store, time: Time) -> None:
    """Its own playbook printed no table at its end. One that was taken over leaves that to the other one."""
    clock = time.clock()
    run.begin(store, Ask(id="mi", run="mine", hosts=HOSTS), clock, 99, {})
    run.turn(store, "a", "mine", "boot", clock, 99, {}, 3600)
    run.abort(store, "other", "bob", clock)
    found = run.end(store, "mine", clock)
    assert found["answer"] == "closed" and found["message"].startswith("Roll mi was aborted by bob. This playbook does")
    assert found["lines"][1].split()[:2] == ["a", "draining"] and found["stats"]["result"] == "aborted", found
    assert not found.get("event")
    run.begin(store, Ask(id="mi", run="next", hosts=HOSTS, take_over=True), clock, 99, {})
    with pytest.raises(RollTakenOver):
        run.end(store, "mine", clock)


def test_renewing_leaves_a_record_alone_that_others_write(store: Store, time: Time) -> None:
    begin(store, time, "mine")
    before = store.roll.beat
    run.renew(store, "mine", time.clock(), time.at + 60, 0)
    assert 3 <= store.roll.beat - before <= 5
    time.every = lambda: run.note(store, "a", "mine", stages.Note(Stage.EMPTY), time.clock()) and None
    before = store.roll.beat
    run.renew(store, "mine", time.clock(), time.at + 60, 1)
    assert store.roll.beat - before == 12, "those of the other one"


def test_a_drain_by_others_waits_for_the_proof(store: Store, time: Time) -> None:
    begin(store, time, "roll")
    admit(store, time, "a", "roll")
    owner.check_host(store, "a", "roll", time.clock(), False, True)
    owner.check_host(store, "x", "mine", time.clock(), False, True)
    time.every = lambda: beat(store)
    with pytest.raises(RollRefused, match="a belongs to roll ro"):
        owner.check_host(store, "a", "mine", time.clock(), False, True)
    time.every = lambda: None
    began = time.at
    owner.check_host(store, "a", "mine", time.clock(), False, True)
    assert time.at - began > owner.LEASE


def test_beside_a_roll_that_is_not_over_it_is_said_how_to_go_on(store: Store, time: Time) -> None:
    """A drain of any host, and a restore of one that is out; not the roll's own, and not after its end."""
    told: list[str] = []

    def check(host: str, drains: bool = True, begun: bool = False) -> str:
        told.clear()
        owner.check_host(store, host, "mine", time.clock(), begun, drains, told.append)
        return "".join(told)

    assert check("a") == ""
    begin(store, time, "roll")
    admit(store, time, "a", "roll")
    run.note(store, "a", "roll", stages.Note(Stage.FAILED, "", "No space"), time.clock())
    assert check("b", drains=False) == check("a", begun=True) == ""
    said = check("a", drains=False)
    assert said == check("a") and "has stopped and is not finished (0 of 3 hosts done; a failed at" in said
    assert "a is one of its hosts, but this run is not part of it. To continue the roll, run its command again" in said
    assert "This run is not part of it." in check("x")
    run.abort(store, "end", "", time.clock())
    time.at += owner.LEASE + 1
    assert "lost its playbook" in check("x")
    store.text = rules.aborted(store.roll, Fleet(HOSTS, exist=frozenset())).to_json()
    assert check("x") == ""


def test_a_drain_under_way_stops_when_its_roll_is_taken_over(store: Store, time: Time) -> None:
    begin(store, time, "roll")
    admit(store, time, "a", "roll")
    owner.check_host(store, "a", "roll", time.clock(), True, True)
    ask = Ask(id="n", run="new", hosts=HOSTS, take_over=True)
    run.begin(store, ask, time.clock(), time.at, {})
    with pytest.raises(RollTakenOver):
        owner.check_host(store, "a", "roll", time.clock(), True, True)


def test_a_slice_notes_what_it_saw_and_nothing_else(store: Store, time: Time) -> None:
    begin(store, time, "roll")
    admit(store, time, "a", "roll")
    for host, runner in (("a", "other"), ("x", "roll"), ("b", "roll")):
        stages.note_seen(store, host, runner, Stage.EMPTY, time.clock())
    assert store.roll.in_stage(Stage.EMPTY) == []
    stages.note_seen(store, "a", "roll", Stage.EMPTY, time.clock())
    assert store.roll.in_stage(Stage.EMPTY) == ["a"]
    stages.note_seen(store, "a", "roll", Stage.RESTORING, time.clock())
    assert store.roll.in_stage(Stage.EMPTY) == ["a"], "a restore of a host at work is no restore"


@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 3600.0])
def test_an_abort_restores_no_host_that_is_about_to_go_down(store: Store, time: Time, ahead: float) -> None:
    """What is given back to a host that was just asked to reboot goes down with it. It is noted before its tools are
    asked whether it needs that, and once more right before the reboot. `ahead`: the clock of the host that notes it."""
    begin(store, time, "roll")
    admit(store, time, "a", "roll")
    stages.note_seen(store, "a", "roll", Stage.EMPTY, time.clock())

    def clock(ahead: float) -> record.Clock:
        return record.Clock(lambda: time.at, lambda: after("2026-01-01T00:00:00Z", time.at + ahead), time.sleep)

    for _note in range(2):
        run.note(store, "a", "roll", stages.Note(Stage.REBOOTING, "boot"), clock(ahead))
        time.at += 40.0
    began = time.at
    found = run.abort(store, "abort", "bob", clock(0.0), until=began + 20)
    assert (found["answer"], found["ended"], found["waits_for"]) == ("wait", "out_of_time", ["a"])
    assert found["changed"], "the roll has been stopped"
    assert store.roll.state is State.ABORTING  # nothing else of the roll goes on meanwhile
    found = run.abort(store, "abort", "bob", clock(0.0), until=began + 200, notes=found["watch"])
    assert (found["answer"], found["order"]) == ("go", ["a"])
    assert began + rules.GOES_DOWN <= time.at < began + rules.GOES_DOWN + 10


def test_an_abort_ends_a_roll_that_lives_and_what_is_out_is_given_back(store: Store, time: Time) -> None:
    begin(store, time, "roll")
    admit(store, time, "a", "roll")
    found = run.abort(store, "abort", "bob", time.clock())
    assert (found["answer"], found["order"]) == ("go", ["a"])
    for begun in (True, False):
        with pytest.raises(RollTakenOver, match="aborted by bob"):
            owner.check_host(store, "a", "roll", time.clock(), begun, True)
    owner.check_host(store, "a", "abort", time.clock(), False, True)
    assert run.aborted(store, "abort", time.clock())["answer"] == "closed"
    with pytest.raises(RollRefused, match="Run the playbook abort again"):
        begin(store, time, "next")
    run.note(store, "a", "abort", stages.Note(Stage.GIVEN_BACK, tally={"vms": 1, "moved": 1}), time.clock())
    given_back = store.roll.hosts["a"]
    assert (given_back.is_out, bool(given_back.begun), given_back.tally["moved"]) == (False, True, 1)
    assert [line.split()[1] for line in table.lines(store.roll)[1:3]] == ["given", "not"]
    assert run.aborted(store, "abort", time.clock())["answer"] == "done"
    assert run.abort(store, "again", "", time.clock())["order"] == []
    begin(store, time, "next")
    assert store.roll.run == "next"


@pytest.mark.parametrize(
    ("notes", "waits"), [({}, True), ({"alone_for": rules.LEFT_AFTER + 1}, False), ({"unreadable_since": 1.0}, False)]
)
def test_a_host_that_reboots_may_be_one_that_keeps_the_record(
    store: Store, time: Time, notes: dict[str, float], waits: bool
) -> None:
    """Whoever waits for its turn waits on, as long as somebody works that may end it."""
    begin(store, time, "mine")
    away = [1, 1, 1]

    def step() -> dict[str, Any]:
        if away:
            away.pop()
            raise owner.RollUnreadable("too few answer.")
        return admit(store, time, "a", "mine")

    if waits:
        found = run.patiently(step, time.clock(), time.at, notes, 100.0)
        assert (found["ended"], found["message"]) == (*("out_of_time", "too few answer. Trying again."),)
        found = run.patiently(step, time.clock(), time.at + 60, found["watch"], 100.0)
        assert found["answer"] == "go"
    else:
        with pytest.raises(owner.RollUnreadable):
            run.patiently(step, time.clock(), time.at + 60, notes, 100.0)


@pytest.mark.parametrize(("boot_id", "stage"), [("1", Stage.REBOOTING), ("", Stage.REBOOTING), ("2", Stage.CHECKING)])
def test_a_host_that_went_down_after_its_turn_is_not_rebooted_again(
    store: Store, time: Time, boot_id: str, stage: Stage
) -> None:
    """Its reboot was asked for by a playbook that was killed then; the drain of the next one waited until it was up."""
    begin(store, time, "mine")
    admit(store, time, "a", "mine")
    for note in (stages.Note(Stage.EMPTY), stages.Note(Stage.REBOOTING, "1")):
        run.note(store, "a", "mine", note, time.clock())
    admit(store, time, "a", "mine", boot_id="1")
    run.note(store, "a", "mine", stages.Note(Stage.EMPTY), time.clock())
    run.note(store, "a", "mine", stages.Note(Stage.REBOOTING, boot_id), time.clock())
    assert store.roll.hosts["a"].stage is stage


def test_hosts_that_keep_the_record_do_not_reboot_so_that_too_few_of_them_answer(store: Store, time: Time) -> None:
    """Nothing could be recorded meanwhile, and no abort. It is asked with the write, so two at once make no two."""
    store.quorum_hosts = HOSTS
    ask = Ask(id="mi", run="mine", hosts=HOSTS, terms=Terms(max_unavailable="3"))
    run.begin(store, ask, time.clock(), time.at, {})
    for host in HOSTS:
        admit(store, time, host, "mine")
        run.note(store, host, "mine", stages.Note(Stage.EMPTY), time.clock())

    def reboots(host: str, notes: dict[str, Any], more: float = 0.0) -> Any:
        what = stages.Note(Stage.REBOOTING, "boot")
        return run.note(store, host, "mine", what, time.clock(), time.at + more, notes, 900.0)

    store.between.append(lambda: reboots("b", {}) and None)
    found = reboots("a", {})
    assert (found["ended"], found["waits_for"]) == ("out_of_time", ["b"])
    assert found["message"].startswith("a waits to reboot until b has rebooted: ")
    time.every = lambda: run.note(store, "b", "mine", stages.Note(Stage.CHECKING), time.clock()) and None
    assert reboots("a", found["watch"], 60.0)["ended"] == "final"
    time.every = lambda: None
    found = reboots("c", {})
    assert found["waits_for"] == ["a"]
    time.at += 901.0
    assert reboots("c", found["watch"])["ended"] == "final"


def test_the_status_names_each_host_and_what_to_type(store: Store, time: Time) -> None:
    now = "2026-01-01T00:00:00Z"
    assert run.read(store, now)["message"].splitlines() == ["there is no roll", "in service: a, b, c"]
    begin(store, time, "roll")
    admit(store, time, "a", "roll")
    run.note(store, "a", "roll", stages.Note(Stage.FAILED, "", "No space"), time.clock())
    lines = run.read(store, now)["message"].splitlines()
    assert lines[0].startswith("roll ro: stopped, begun 2026-01-01T00:00:00Z")
    assert lines[1] == "a  failed   since 2026-01-01T00:00:00Z (0 s)  while draining: No space"
    assert lines[2].split() == ["b", "waiting", "-", "not", "begun"]
    assert "same command again" in lines[-1]


@pytest.mark.parametrize(
    ("read", "said", "result"),
    [("00:00:12", "its playbook is running", "running"), ("00:02:12", "has not updated the record for", "stopped")],
)
def test_the_status_says_whether_its_playbook_lives(
    store: Store, time: Time, read: str, said: str, result: str
) -> None:
    begin(store, time, "roll")
    found = run.read(store, f"2026-01-01T{read}Z")
    first, *_rest, last = found["message"].splitlines()
    assert said in last and f": {result}, begun" in first
    assert status.report(found, {})["stats"]["result"] == result
    killed = run.read(store, f"2026-01-01T{read}Z", lambda process: process == store.roll.playbook)
    assert killed["message"].splitlines()[-1].startswith("Its playbook was killed.")
    assert status.report(killed, {})["stats"]["result"] == "stopped"


def test_a_record_that_too_few_have_is_said_and_the_hosts_are_listed(store: Store) -> None:
    def unreadable() -> Any:
        raise owner.RollUnreadable("a majority must answer. b: no route to host")

    store.read = unreadable  # type: ignore[method-assign]
    store.fleet = lambda: Fleet(HOSTS, {"b": "does not answer"})  # type: ignore[method-assign]
    found = run.read(store, "2026-01-01T00:00:00Z")
    assert found["unreadable"] == "a majority must answer. b: no route to host"
    lines = found["message"].splitlines()
    assert lines[:3] == [found["unreadable"], "b  -  -  does not answer", "in service: a, c"]
    assert "Repair the connection" in lines[3]


def test_waiting_for_others_has_an_end(store: Store, time: Time) -> None:
    begin(store, time, "mine")
    busy = Fleet((*HOSTS, "x"), {"x": "has a drain of its own"}, frozenset({"x"}))
    store.fleet = lambda: busy  # type: ignore[method-assign]
    notes: dict[str, Any] = {}
    for _slice in range(9):
        found = run.turn(store, "a", "mine", "", time.clock(), time.at + 20, notes, 60.0)
        if found["ended"] == "final":
            break
        notes = found["watch"]
    assert found["answer"] == "closed"
    assert store.roll.state is State.STOPPED


@pytest.mark.parametrize(("seconds", "answer"), [(0.0, "go"), (100.0, "go"), (10000.0, "closed")])
def test_a_host_that_is_silent_for_a_moment_does_not_end_the_roll(
    store: Store, time: Time, seconds: float, answer: str
) -> None:
    """One look has shown it, in whichever slice. One that stays silent is waited for as long as SILENT_FOR."""
    begin(store, time, "mine")
    began = time.at
    mute, well = Fleet((*HOSTS, "x"), {"x": "does not answer"}, silent=frozenset({"x"})), Fleet((*HOSTS, "x"))
    store.fleet = lambda: mute if time.at <= began + seconds else well  # type: ignore[method-assign]
    notes: dict[str, Any] = {}
    said = ""
    while True:
        found = run.turn(store, "a", "mine", "boot", time.clock(), time.at + 20, notes, 3600.0)
        if found["ended"] == "final":
            break
        notes, said = found["watch"], found["message"]
    assert found["answer"] == answer
    assert seconds < 20 or said == "a waits: 1 host may be out at once, and this one is: x (does not answer)"
    assert time.at - began < rules.SILENT_FOR + 10
    assert answer != "closed" or time.at - began > rules.SILENT_FOR


@pytest.mark.parametrize("host_says", ["2025-12-31T22:00:00Z", "2026-01-01T02:00:00Z"])
@pytest.mark.parametrize(("seconds", "answer"), [(30.0, "go"), (90.0, "closed")])
def test_the_window_ends_by_the_clock_of_the_controller(
    store: Store, time: Time, host_says: str, seconds: float, answer: str
) -> None:
    """That of the host which waits is wrong. The seconds of its wait it counts by itself."""
    ask = Ask(id="mi", run="mine", hosts=HOSTS, terms=Terms(until="2026-01-01T00:01:00Z"))
    run.begin(store, ask, time.clock(), time.at, {})
    began = time.at
    busy = Fleet((*HOSTS, "x"), {"x": "has a drain of its own"}, frozenset({"x"}))
    store.fleet = lambda: busy if time.at < began + seconds else Fleet(HOSTS)  # type: ignore[method-assign]
    asked = {name: spec.get("default") for name, spec in ROLL_SPEC.items()}
    asked |= {"state": "admitted", "roll_run": "mine", "roll_host": "a", "now": "2026-01-01T00:00:00Z", "slice": 200}
    here = record.Clock(lambda: time.at, lambda: host_says, time.sleep)
    found = answer_of(asked, store, here, lambda: "boot")
    assert found["answer"] == answer
    assert (store.roll.state is State.PAUSED) is (answer == "closed")


def test_each_silent_host_has_its_own_time(store: Store, time: Time) -> None:
    """x is dead for long, and a while it reboots: both say nothing of a that is slow for a moment when it is done."""
    ask = Ask(id="mi", run="mine", hosts=HOSTS, terms=Terms(max_unavailable="2"))
    run.begin(store, ask, time.clock(), time.at, {})
    admit(store, time, "a", "mine")
    began = time.at

    def fleet() -> Fleet:
        mute = ("x", "a") if time.at - began < 320 else ("x",)
        return Fleet((*HOSTS, "x"), dict.fromkeys(mute, "does not answer"), silent=frozenset(mute))

    def every() -> None:
        if time.at - began >= 300:
            time.every = lambda: None
            to_the_end(store, time, "a")

    store.fleet, time.every = fleet, every  # type: ignore[method-assign]
    found = run.turn(store, "b", "mine", "boot", time.clock(), time.at + 1000, {}, 3600.0)
    assert found["answer"] == "go" and 320 <= time.at - began < 330


def test_who_rests_counts_its_own_seconds_from_slice_to_slice(store: Store, time: Time) -> None:
    """The wall clock of this test stands still, as that of a host may be an hour ahead."""
    ask = Ask(id="mi", run="mine", hosts=HOSTS, terms=Terms(soak=100.0))
    run.begin(store, ask, time.clock(), time.at, {})
    admit(store, time, "a", "mine")
    to_the_end(store, time, "a")
    began = time.at
    notes: dict[str, Any] = {}
    while True:
        found = run.turn(store, "b", "mine", "boot", time.clock(), time.at + 20, notes, 60.0)
        if found["ended"] == "final":
            break
        notes = found["watch"]
    assert found["answer"] == "go"
    assert 100 <= time.at - began < 130


def test_a_roll_is_planned_before_its_first_host_alone(store: Store, time: Time) -> None:
    assert begin(store, time, "mine")["to_plan"] is True
    order, seconds = ["c", "a", "b"], {"c": 10.0, "a": 20.0, "b": 30.0}
    found = run.plan(store, "mine", order, seconds, (), time.clock())
    assert found["order"] == order
    assert store.roll.terms.seconds == seconds
    admit(store, time, "c", "mine")
    run.end(store, "mine", time.clock())
    assert begin(store, time, "other")["to_plan"] is False


def test_a_roll_that_cannot_be_done_is_over_and_holds_up_no_other(store: Store, time: Time) -> None:
    begin(store, time, "mine")
    for _time in range(2):  # by each quorum host
        found = run.plan(store, "mine", (), {}, ["b is not ready", "it does not fit"], time.clock())
        assert found["answer"] == "closed"
        assert "- b is not ready\n- it does not fit\nNothing was changed" in found["message"]
        assert (found["stats"]["result"], found["stats"]["done"], found["stats"]["out"]) == ("refused", 0, [])
    assert store.roll.state is State.REFUSED
    assert "It was refused: b is not ready; it does not fit" in run.read(store, "2026-01-01T00:00:00Z")["message"]
    with pytest.raises(RollTakenOver, match="was refused"):
        run.renew(store, "mine", time.clock(), time.at + 60, 0)
    assert begin(store, time, "other")["answer"] == "go"


def test_hosts_that_are_out_keep_their_place_before_the_plans(store: Store, time: Time) -> None:
    begin(store, time, "mine")
    store.fleet = lambda: Fleet(HOSTS, {"b": "cordoned"})  # type: ignore[method-assign]
    assert run.plan(store, "mine", ["c", "a", "b"], {}, (), time.clock())["order"] == ["b", "c", "a"]


def test_who_pauses_after_a_host_keeps_the_order(store: Store, time: Time) -> None:
    ask = Ask(id="mi", run="mine", hosts=HOSTS, terms=Terms(pause_after="a"))
    run.begin(store, ask, time.clock(), time.at + 200, {})
    assert run.plan(store, "mine", ["c", "a", "b"], {}, (), time.clock())["order"] == [*HOSTS]
