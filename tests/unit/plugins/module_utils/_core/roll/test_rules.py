"""Who may begin a roll, carry it on, take a turn, or touch a host of it."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import RecordError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import (
    out_together,
    owner,
    rules,
    stages,
    words,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import RollRefused, RollTakenOver
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import (
    Fleet,
    HostEntry,
    Roll,
    Stage,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.rules import Answer, Step
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.roll.asking import ask

NOW = "2026-01-01T00:00:00Z"
HOSTS = ("a", "b", "c")
FLEET = Fleet(HOSTS)
ALL = tuple(Step)


def new(fleet: Fleet = FLEET, **more: object) -> Roll:
    roll = rules.begin(None, ask(**more), False, fleet, NOW).roll
    assert roll is not None
    return roll


def at(roll: Roll, **found: Stage) -> Roll:
    for host, stage in found.items():
        roll = stages.with_stage(roll, host, stage, NOW)
    return roll


def turn(roll: Roll, host: str, fleet: Fleet = FLEET, boot: str = "") -> rules.Verdict:
    return rules.turn(roll, host, fleet, boot, NOW)


def test_a_second_roll_is_refused_until_the_first_is_proven_dead() -> None:
    old = at(new(), a=Stage.DRAINING)
    verdict = rules.begin(old, ask("two"), False, FLEET, NOW)
    assert (verdict.answer, verdict.roll) == (Answer.WATCH, None)
    for word in ("7f3a", "a draining since", "abort", "maintenance_take_over", "Nothing was done"):
        assert word in verdict.message
    dead = rules.begin(old, ask("two"), True, FLEET, NOW)
    assert dead.answer is Answer.GO
    assert dead.roll is not None and dead.roll.run == "two"


def test_a_take_over_needs_no_proof() -> None:
    verdict = rules.begin(new(), ask("two", take_over=True), False, FLEET, NOW)
    assert verdict.answer is Answer.GO


def test_a_roll_that_ended_well_is_over() -> None:
    old = at(new(), a=Stage.DONE, b=Stage.DONE, c=Stage.DONE)
    assert old.state is State.ENDED
    verdict = rules.begin(old, ask("two"), False, FLEET, NOW)
    assert verdict.roll is not None
    assert verdict.roll.in_stage(Stage.WAITING) == list(HOSTS)


def test_another_command_does_not_carry_on_what_is_unfinished() -> None:
    old = rules.end(at(new(), a=Stage.DONE))
    with pytest.raises(RollRefused, match="its hosts are a, b, c, not b"):
        rules.begin(old, ask("two", ("b",)), False, FLEET, NOW)
    with pytest.raises(RollRefused, match="its reboot is '', not 'no'"):
        rules.begin(old, ask("two", options={"reboot": "no"}), False, FLEET, NOW)


def test_a_host_that_was_given_back_begins_anew_and_does_all_its_steps() -> None:
    """Also when its second drain is cut off. It had been at work and in its reboot."""
    old = stages.with_stage(at(new(), a=Stage.AT_WORK), "a", Stage.REBOOTING, NOW, "before")
    old = at(rules.abort(old, "abort", "bob", NOW), a=Stage.GIVEN_BACK)
    for run in ("two", "three"):
        old = rules.begin(old, ask(run, take_over=True), True, FLEET, NOW).roll or old
        verdict = turn(old, "a", boot="after")
        assert (verdict.answer, verdict.steps) == (Answer.GO, ALL)
        old = verdict.roll or old


def test_a_take_over_with_other_hosts_keeps_those_that_are_half_done() -> None:
    old = rules.end(at(new(), a=Stage.DONE, b=Stage.AT_WORK))
    verdict = rules.begin(old, ask("two", ("c",), take_over=True), False, FLEET, NOW)
    assert verdict.roll is not None
    assert rules.order(verdict.roll) == ["b", "c"]


def test_a_take_over_leaves_out_what_is_no_longer_there() -> None:
    old = rules.end(at(new(), a=Stage.DONE, b=Stage.AT_WORK))
    there = Fleet(HOSTS, exist=frozenset("ac"))
    verdict = rules.begin(old, ask("two", ("c",), take_over=True), False, there, NOW)
    assert verdict.roll is not None
    assert rules.order(verdict.roll) == ["c"]


@pytest.mark.parametrize(("exist", "state"), [(None, State.ABORTING), ("abc", State.ABORTING), ("ac", State.ABORTED)])
def test_an_abort_is_over_when_what_is_out_is_gone(exist: str | None, state: State) -> None:
    roll = rules.abort(at(new(), a=Stage.DONE, b=Stage.DRAINING), "two", "", NOW)
    there = Fleet(HOSTS, exist=None if exist is None else frozenset(exist))
    assert rules.aborted(roll, there).state is state


def test_a_host_that_failed_before_anything_was_done_with_it_is_not_out() -> None:
    roll = at(new(), a=Stage.DONE)
    roll = stages.with_stage(roll, "b", Stage.FAILED, NOW, "", "There is no node b")
    assert roll.out == [] and roll.state is State.STOPPED
    said = words.result(roll)
    assert "Out: none" in said and "b has failed while waiting: There is no node b" in said
    assert rules.aborted(rules.abort(roll, "two", "", NOW), FLEET).state is State.ABORTED
    roll.paused = "the window ends"
    assert stages.stopped(roll) is State.STOPPED


def test_one_that_was_not_ready_leaves_its_place_to_the_next() -> None:
    roll = rules.begin(None, ask("one", max_failures=1), False, FLEET, NOW).roll
    assert roll is not None
    begun = rules.turn(roll, "a", FLEET, "", NOW).roll
    assert begun is not None
    untouched = stages.with_stage(begun, "a", Stage.WAITING, NOW)
    assert untouched.state is State.RUNNING
    failed = stages.with_stage(untouched, "a", Stage.FAILED, NOW, "", "a is not ready")
    assert (failed.state, failed.out) == (State.RUNNING, [])
    assert rules.turn(failed, "b", FLEET, "", NOW).answer is Answer.GO


@pytest.mark.parametrize(("boot", "reboots"), [("old", True), ("new", False), ("", True)])
def test_a_reboot_is_not_repeated_after_the_drain_was_asked_for_again(boot: str, reboots: bool) -> None:
    """Carried on while the host still said its old boot id."""
    left = rules.steps(HostEntry("a", Stage.DRAINING, NOW, "old", worked=True), boot)
    assert (Step.REBOOT in left, Step.WORK in left, Step.DRAIN in left) == (reboots, False, True)


def test_half_done_hosts_come_first_and_done_ones_not_at_all() -> None:
    old = rules.end(at(new(), a=Stage.DONE, c=Stage.REBOOTING))
    roll = rules.begin(old, ask("two"), False, FLEET, NOW).roll
    assert roll is not None
    assert rules.order(roll) == ["c", "b"]
    assert turn(roll, "a").answer is Answer.DONE
    assert turn(roll, "b").answer is Answer.WAIT


@pytest.mark.parametrize(
    ("stage", "boot", "steps"),
    [
        (Stage.DRAINING, "", ALL),
        (Stage.EMPTY, "", ALL),
        (Stage.AT_WORK, "", ALL),
        (Stage.REBOOTING, "old", (Step.DRAIN, Step.REBOOT, Step.CHECK, Step.RESTORE)),
        (Stage.REBOOTING, "new", (Step.CHECK, Step.RESTORE)),
        (Stage.CHECKING, "new", (Step.CHECK, Step.RESTORE)),
        (Stage.RESTORING, "new", (Step.CHECK, Step.RESTORE)),
    ],
)
@pytest.mark.parametrize("failed", [False, True])
def test_what_is_left_of_a_host(stage: Stage, boot: str, steps: tuple[Step, ...], failed: bool) -> None:
    """Work that ended is not done again, and no host is rebooted twice."""
    roll = stages.with_stage(new(), "a", stage, NOW, "old")
    if failed:
        roll = stages.with_stage(roll, "a", Stage.FAILED, NOW, "", "No space")
    roll = rules.begin(rules.end(roll), ask("two"), False, FLEET, NOW).roll or roll
    verdict = turn(roll, "a", boot=boot)
    assert (verdict.answer, verdict.steps) == (Answer.GO, steps)


def test_hosts_begin_in_their_order_and_as_the_budget_allows() -> None:
    roll = new(max_unavailable="2")
    assert turn(roll, "c").answer is Answer.WAIT
    for host in ("a", "b"):
        verdict = turn(roll, host)
        assert (verdict.answer, verdict.steps) == (Answer.GO, ALL)
        roll = verdict.roll or roll
    assert roll.in_stage(Stage.DRAINING) == ["a", "b"]
    verdict = turn(roll, "c")
    assert verdict.answer is Answer.WAIT
    assert "2 hosts may be out at once, and these are: a (draining since" in verdict.message
    assert turn(at(roll, b=Stage.DONE), "c").answer is Answer.GO


@pytest.mark.parametrize(
    ("most", "hosts", "found"), [("1", 9, 1), ("3", 9, 3), ("25%", 9, 2), ("5%", 9, 1), ("100%", 9, 9)]
)
def test_a_share_is_rounded_down_and_at_least_one(most: str, hosts: int, found: int) -> None:
    assert out_together.budget(most, hosts) == found


def test_hosts_that_others_have_taken_out_count() -> None:
    busy = Fleet((*HOSTS, "x"), {"x": "has a drain of its own"}, frozenset({"x"}))
    verdict = turn(new(), "a", busy)
    assert (verdict.answer, verdict.for_others) == (Answer.WAIT, True)
    assert "x (has a drain of its own)" in verdict.message
    assert rules.turn(new(), "a", busy, "", NOW, in_vain=True).answer is Answer.CLOSED
    assert turn(new(count_others=False), "a", busy).answer is Answer.GO


def test_nobody_waits_for_a_host_that_nobody_works_on() -> None:
    verdict = turn(new(), "a", Fleet((*HOSTS, "x"), {"x": "does not answer"}))
    assert verdict.answer is Answer.CLOSED
    assert "maintenance_max_unavailable" in verdict.message
    assert "maintenance_count_others=false" in verdict.message
    assert verdict.roll is not None and verdict.roll.state is State.STOPPED
    for_now = turn(new(), "a", Fleet((*HOSTS, "x"), {"x": "does not answer"}, silent=frozenset({"x"})))
    assert (for_now.answer, for_now.for_others) == (Answer.WAIT, True)


def test_a_host_that_is_out_already_comes_first_and_needs_no_further_place() -> None:
    fleet = Fleet(HOSTS, {"b": "cordoned by others"})
    roll = new(fleet)
    assert rules.order(roll) == ["b", "a", "c"]
    assert turn(roll, "a", fleet).answer is Answer.WAIT
    assert turn(roll, "b", fleet).answer is Answer.GO
    # It is done and still out: somebody else has to put it back.
    assert turn(at(roll, b=Stage.DONE), "a", fleet).answer is Answer.CLOSED


def test_after_a_failure_no_further_host_begins_and_the_others_finish() -> None:
    roll = at(new(max_unavailable="2"), a=Stage.DRAINING, b=Stage.AT_WORK)
    roll = stages.with_stage(roll, "a", Stage.FAILED, NOW, "", "No space")
    assert turn(roll, "c").answer is Answer.CLOSED
    assert roll.state is State.RUNNING, "b is still at work"
    roll = at(roll, b=Stage.DONE)
    assert roll.state is State.STOPPED
    assert "Done: b. Out: a. Not begun: c. a has failed while draining: No space." in (rules.words.result(roll))


def test_more_failures_may_be_allowed() -> None:
    roll = at(new(max_unavailable="2", max_failures=1), a=Stage.DRAINING)
    roll = stages.with_stage(roll, "a", Stage.FAILED, NOW, "", "No space")
    assert turn(roll, "b").answer is Answer.GO


def test_a_host_that_was_left_without_an_error_is_found_by_the_one_that_waits() -> None:
    roll = at(new(), a=Stage.AT_WORK)
    assert turn(roll, "b").answer is Answer.WAIT
    verdict = rules.turn(roll, "b", FLEET, "", NOW, left=True)
    assert verdict.answer is Answer.CLOSED
    assert verdict.roll is not None
    assert verdict.roll.hosts["a"].stage is Stage.FAILED
    assert "left unfinished" in verdict.roll.hosts["a"].message


def test_a_playbook_whose_roll_was_taken_over_does_nothing_more() -> None:
    roll = rules.begin(new(), ask("two", take_over=True), False, FLEET, NOW).roll
    with pytest.raises(RollTakenOver, match="taken over"):
        owner.check_run(roll, "one")
    with pytest.raises(RollTakenOver, match="removed"):
        owner.check_run(None, "one")
    assert roll is not None
    assert owner.check_run(roll, "two") is roll


@pytest.mark.parametrize(
    ("stage", "back"), [(Stage.WAITING, False), (Stage.AT_WORK, False), (Stage.FAILED, False), (Stage.DONE, True)]
)
def test_nobody_else_touches_a_host_of_a_roll_that_lives(stage: Stage, back: bool) -> None:
    """Least of all to drain it beside the one that the roll is at: it may be done already."""
    roll = at(new(max_failures=1), b=Stage.DRAINING, a=stage)
    assert "a belongs to roll 7f3a" in owner.refusal(roll, "a", "two", True)
    assert (owner.refusal(roll, "a", "two", False) == "") is back
    for drains in (True, False):
        assert owner.refusal(roll, "a", "one", drains) == ""
        assert owner.refusal(roll, "x", "two", drains) == ""
        assert owner.refusal(rules.end(roll), "a", "two", drains) == "", "a stopped roll works on nothing"


def test_the_record_is_read_as_it_was_written() -> None:
    roll = at(new(options={"tasks": "x.yml"}), a=Stage.REBOOTING)
    roll = stages.with_stage(roll, "a", Stage.FAILED, NOW, "boot", "it did not come back")
    assert Roll.from_json(roll.to_json()) == roll


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema":2}',
        new().to_json().replace('"waiting"', '"somewhere"'),
        new().to_json().replace('"beat":0', '"beat":"0"'),
        new().to_json().replace('"name":"a"', '"name":1'),
        new().to_json().replace('"beat":0', '"beat":0,"surprise":1'),
    ],
)
def test_what_is_no_record_is_an_error(text: str) -> None:
    with pytest.raises(RecordError):
        Roll.from_json(text)
