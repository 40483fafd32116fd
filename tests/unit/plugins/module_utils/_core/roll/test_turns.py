"""Which turns a host gets and which it does not, and what of a roll stays as it was.

Found by changing each condition of the rules: these changes no other test had noticed.
"""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import out_together, rules, run, stages
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import RollRefused
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import (
    Clock,
    Fleet,
    Roll,
    Stage,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.rules import Answer, Ask, Step
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.roll.asking import ask

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
FLEET = Fleet(("a", "b", "c", "d"))


def begun(old: Roll | None, asked: Ask) -> Roll:
    found = rules.begin(old, asked, False, FLEET, NOW).roll
    assert found is not None
    return found


def new(**more: object) -> Roll:
    return begun(None, ask(**more))


def at(roll: Roll, **found: Stage) -> Roll:
    for host, stage in found.items():
        roll = stages.with_stage(roll, host, stage, NOW)
    return roll


FAILED_A = at(new(max_failures=1), a=Stage.DRAINING)
FAILED_A = at(FAILED_A, a=Stage.FAILED)
PAUSED = stages.paused(new(), "it is noon")


@pytest.mark.parametrize(
    ("roll", "host", "answer", "word"),
    [
        (new(), "x", Answer.CLOSED, "x"),
        (rules.end(new()), "a", Answer.CLOSED, "stopped"),
        (PAUSED, "a", Answer.CLOSED, "noon"),
        (FAILED_A, "a", Answer.CLOSED, "failed"),
        (at(new(), a=Stage.DONE), "a", Answer.DONE, "done"),
        # b would be the second one out, and nobody works on a any more.
        (FAILED_A, "b", Answer.CLOSED, "nobody is working on"),
    ],
)
def test_who_gets_no_turn_is_told_why(roll: Roll, host: str, answer: Answer, word: str) -> None:
    verdict = rules.turn(roll, host, FLEET, "", NOW)
    assert verdict.answer is answer
    assert word in verdict.message


@pytest.mark.parametrize(("stage", "again"), [(Stage.AT_WORK, True), (Stage.CHECKING, False)])
def test_a_host_that_is_not_drained_again_stays_where_it_is(stage: Stage, again: bool) -> None:
    verdict = rules.turn(at(new(), a=stage), "a", FLEET, "", LATER)
    assert (verdict.answer, Step.DRAIN in verdict.steps) == (Answer.GO, again)
    assert (None if verdict.roll is None else verdict.roll.hosts["a"].stage) == (Stage.DRAINING if again else None)


def test_without_a_boot_id_of_before_no_reboot_is_proven() -> None:
    """It was killed before that was noted: then the reboot has not been asked for."""
    entry = at(new(), a=Stage.REBOOTING).hosts["a"]
    assert entry.boot_id == "" and Step.REBOOT in rules.steps(entry, "some boot")


def test_the_same_playbook_asks_again_and_changes_nothing() -> None:
    """It asks each quorum host."""
    verdict = rules.begin(at(new(), a=Stage.AT_WORK), ask(), False, FLEET, NOW)
    assert (verdict.answer, verdict.roll) == (Answer.GO, None)


def test_who_carries_a_roll_on_is_named_and_who_says_nothing_changes_no_name() -> None:
    old = rules.end(new(requester="ann", reason="kernel"))
    roll = begun(old, ask("two"))
    assert (roll.requester, roll.reason, roll.run_before) == ("ann", "kernel", "one")
    roll = begun(old, ask("two", requester="bob", reason="firmware"))
    assert (roll.requester, roll.reason) == ("bob", "firmware")


@pytest.mark.parametrize(("done", "again"), [(True, ""), (False, "a")])
def test_a_roll_pauses_at_a_host_once(done: bool, again: str) -> None:
    old = new(pause_after="a")
    old = rules.end(at(old, a=Stage.DONE) if done else old)
    assert begun(old, ask("two", pause_after="a")).terms.pause_after == again


def test_a_take_over_has_the_hosts_that_it_names_and_those_that_are_half_done() -> None:
    old = rules.end(at(new(), b=Stage.AT_WORK))
    roll = begun(old, ask("two", ("d",), take_over=True))
    assert {name: entry.stage for name, entry in roll.hosts.items()} == {"b": Stage.AT_WORK, "d": Stage.WAITING}


def test_the_end_of_a_playbook_stops_only_what_runs() -> None:
    assert rules.end(new()).state is State.STOPPED
    assert rules.end(at(new(), a=Stage.DONE, b=Stage.DONE, c=Stage.DONE)).state is State.ENDED
    for roll in (PAUSED, rules.abort(new(), "two", "", NOW)):
        assert rules.end(roll).state is roll.state


def test_hosts_that_come_back_in_an_abort_do_not_end_the_roll() -> None:
    """Its end is the abort's: there may be more that is out."""
    roll = rules.abort(at(new(), a=Stage.AT_WORK), "two", "", NOW)
    assert at(roll, a=Stage.DONE, b=Stage.DONE, c=Stage.DONE).state is State.ABORTING


def test_a_roll_stops_when_the_last_host_fails_and_pauses_when_none_is_under_way() -> None:
    roll = at(new(max_failures=1), a=Stage.DONE, b=Stage.DONE, c=Stage.DRAINING)
    assert at(roll, c=Stage.FAILED).state is State.STOPPED
    assert stages.paused(at(new(), a=Stage.DRAINING), "it is noon").state is State.RUNNING
    assert PAUSED.state is State.PAUSED


def test_when_and_where_stay_those_of_the_first_time() -> None:
    roll = at(new(), a=Stage.DRAINING)
    roll = stages.with_stage(at(roll, a=Stage.EMPTY), "a", Stage.EMPTY, LATER)
    assert (roll.hosts["a"].begun, roll.hosts["a"].emptied, roll.hosts["a"].since) == (NOW, NOW, NOW)
    roll = stages.with_stage(stages.with_stage(roll, "a", Stage.AT_WORK, LATER), "a", Stage.EMPTY, LATER)
    assert (roll.hosts["a"].emptied, roll.hosts["a"].since) == (NOW, LATER)
    roll = at(roll, a=Stage.FAILED)
    assert at(roll, a=Stage.FAILED).hosts["a"].failed_in is Stage.EMPTY
    assert roll.hosts["b"].begun == "", "nothing was done with it"


def test_a_host_that_is_none_of_the_roll_has_no_stage() -> None:
    with pytest.raises(RollRefused):
        at(new(), x=Stage.DRAINING)


def test_a_target_that_failed_is_not_waited_for() -> None:
    roll = at(new(max_unavailable="2", max_failures=1), a=Stage.DRAINING)
    assert [*out_together.coming_back(roll, "b", ["a"])] == ["a"]
    assert out_together.coming_back(at(roll, a=Stage.FAILED), "b", ["a"]) == {}


def test_a_drain_outside_of_any_roll_notes_nothing() -> None:
    class Nothing:
        def read(self) -> tuple[None, str]:
            return None, ""

    clock = Clock(lambda: 0.0, lambda: NOW, lambda _seconds: None)
    stages.note_seen(Nothing(), "a", "one", Stage.EMPTY, clock)  # type: ignore[arg-type]
    assert run.without_record()["answer"] == Answer.GO.value
