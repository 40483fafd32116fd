"""Soak, pause and the maintenance window: when the next host of a roll begins, and how it ends well."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import RecordError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import (
    out_together,
    planned,
    rules,
    stages,
    terms,
    words,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import RollRefused
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Fleet, Roll, Stage, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.rules import Answer, Ask
from ansible_collections.virtops.maintenance.plugins.plugin_utils._variable_checks import SHARED

HOSTS = ("a", "b", "c")
FLEET = Fleet(HOSTS)


def clock(minutes: int) -> str:
    return (datetime(2026, 3, 1, 4, tzinfo=UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def new(old: Roll | None = None, dead: bool = False, **more: Any) -> Roll:
    verdict = rules.begin(old, Ask("7f3a", "two" if old else "one", HOSTS, terms.Terms(**more)), dead, FLEET, clock(0))
    assert verdict.roll is not None
    return Roll.from_json(verdict.roll.to_json())


def through(roll: Roll, host: str, began: int, ended: int) -> Roll:
    """That host from its turn to its end."""
    verdict = turn(roll, host, began)
    assert verdict.answer is Answer.GO and verdict.roll is not None
    return stages.with_stage(verdict.roll, host, Stage.DONE, clock(ended))


def turn(roll: Roll, host: str, at: int) -> rules.Verdict:
    return rules.turn(roll, host, FLEET, "", clock(at))


@pytest.mark.parametrize(("text", "seconds"), [("300", 300), ("5m", 300), ("1.5h", 5400), ("0", 0), ("90 s", 90)])
def test_a_duration(text: str, seconds: float) -> None:
    assert terms.duration("soak", text) == seconds


@pytest.mark.parametrize("text", ["", "5 minutes", "-1", "nan", "5d"])
def test_what_is_no_duration_is_told(text: str) -> None:
    with pytest.raises(PolicyError, match=r"maintenance_soak is .*seconds are expected"):
        terms.duration("maintenance_soak", text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("06:00", "2026-03-02T04:00:00Z"),
        ("6:30", "2026-03-01T04:30:00Z"),
        ("2026-03-01T06:15", "2026-03-01T04:15:00Z"),
        ("2026-03-01T06:15:00Z", "2026-03-01T06:15:00Z"),
        ("2026-03-01T06:15+05:00", ""),
        ("", ""),
    ],
)
def test_the_end_of_the_window_is_the_next_one_by_the_clock_of_the_controller(text: str, found: str) -> None:
    """Two hours before UTC, it is 06:00 there."""
    now = datetime(2026, 3, 1, 6, 0, tzinfo=timezone(timedelta(hours=2)))

    def zoned(time: datetime) -> datetime:
        return time.replace(tzinfo=now.tzinfo)

    if text and not found:
        with pytest.raises(PolicyError, match="which is over"):
            terms.until("until", text, now, zoned)
    else:
        assert terms.until("until", text, now, zoned) == found


@pytest.mark.parametrize(
    ("now", "text", "found"),
    [
        ("2026-03-28T22:00+01:00", "06:00", "2026-03-29T04:00:00Z"),
        ("2026-03-28T22:00+01:00", "2026-03-29T06:00", "2026-03-29T04:00:00Z"),
        ("2026-10-24T22:00+02:00", "06:00", "2026-10-25T05:00:00Z"),
        ("2026-10-25T05:30+01:00", "06:00", "2026-10-25T05:00:00Z"),
    ],
)
def test_the_window_ends_by_the_clock_on_the_wall_also_where_the_clocks_are_changed_before(
    now: str, text: str, found: str
) -> None:
    """Berlin: summer time from 2026-03-29T01:00Z to 2026-10-25T01:00Z."""

    def berlin(time: datetime) -> datetime:
        summer = "2026-03-29T02" <= time.isoformat() < "2026-10-25T03"
        return time.replace(tzinfo=timezone(timedelta(hours=2 if summer else 1)))

    assert terms.until("until", text, datetime.fromisoformat(now), berlin) == found


@pytest.mark.parametrize("text", ["25:00", "1350", "tomorrow", "06:00 Uhr"])
def test_what_is_no_time_is_told(text: str) -> None:
    with pytest.raises(PolicyError, match="a time such as 06:00 is expected"):
        terms.until("until", text, datetime(2026, 3, 1, tzinfo=UTC), lambda time: time.replace(tzinfo=UTC))


def test_the_next_host_begins_when_the_soak_is_over() -> None:
    roll = through(new(soak=300.0), "a", 0, 10)
    waits = turn(roll, "b", 14)
    assert (waits.answer, waits.rests) == (Answer.WAIT, True)
    assert waits.message == "b waits: it starts 5 min after a (maintenance_soak)"
    assert turn(roll, "c", 16).answer is Answer.WAIT  # b comes first
    assert turn(roll, "b", 15).answer is Answer.GO


def test_a_clock_that_is_ahead_makes_no_soak_longer_than_it_is() -> None:
    roll = through(new(soak=300.0), "a", 0, 1000)
    waits = rules.turn(roll, "b", FLEET, "", clock(10), rested=299.0)
    begins = rules.turn(roll, "b", FLEET, "", clock(10), rested=300.0)
    assert (waits.answer, begins.answer) == (Answer.WAIT, Answer.GO)


def test_a_clock_that_is_slow_after_the_reboot_makes_no_soak_shorter() -> None:
    """b saw a under way, so it counts its own seconds from when a was done."""
    roll = through(new(soak=300.0), "a", 60, 10)
    waits = rules.turn(roll, "b", FLEET, "", clock(70), rested=299.0, watched=True)
    begins = rules.turn(roll, "b", FLEET, "", clock(70), rested=300.0, watched=True)
    assert (waits.answer, begins.answer) == (Answer.WAIT, Answer.GO)


def test_a_roll_pauses_after_a_host_and_the_same_command_goes_on() -> None:
    roll = through(new(pause_after="a"), "a", 0, 10)
    assert roll.state is State.PAUSED
    assert turn(roll, "b", 11).answer is Answer.CLOSED
    assert rules.end(roll).state is State.PAUSED
    assert words.result(roll) == (
        "roll 7f3a is paused: the roll pauses after a (maintenance_pause_after). Done: a. Left: b, c. No host is "
        "out of service. Run the same command to continue, or end it with the playbook abort."
    )
    again = new(roll, pause_after="a")
    assert (again.state, again.id) == (State.RUNNING, "7f3a")
    again = through(again, "b", 20, 30)
    assert again.state is State.RUNNING
    assert through(again, "c", 30, 40).state is State.ENDED


def test_what_is_under_way_at_a_pause_finishes() -> None:
    roll = new(pause_after="a", max_unavailable="2")
    for host in ("a", "b"):
        verdict = turn(roll, host, 0)
        assert verdict.roll is not None
        roll = verdict.roll
    roll = stages.with_stage(roll, "a", Stage.DONE, clock(5))
    assert (roll.state, turn(roll, "c", 6).answer) == (State.RUNNING, Answer.CLOSED)
    assert stages.with_stage(roll, "b", Stage.DONE, clock(7)).state is State.PAUSED
    assert stages.with_stage(roll, "b", Stage.FAILED, clock(7)).state is State.STOPPED


def test_a_pause_at_no_host_of_the_roll_is_refused() -> None:
    with pytest.raises(RollRefused, match="pause_after is x: one of the hosts of the roll is expected, a, b, c"):
        new(pause_after="x")


def test_a_host_that_would_not_be_through_is_not_begun_and_the_roll_ends_well() -> None:
    """By the plan each takes 60 s, and a took 9 min more: its work and reboot."""
    roll = new(until=clock(30), seconds=dict.fromkeys(HOSTS, 60.0))
    roll = through(roll, "a", 0, 10)
    assert out_together.expected(roll, "b") == 600
    assert turn(roll, "b", 19).answer is Answer.GO
    assert rules.turn(roll, "b", FLEET, "", clock(999), at_controller=clock(19)).answer is Answer.GO
    assert rules.turn(roll, "b", FLEET, "", clock(11), at_controller=clock(20)).answer is Answer.CLOSED
    late = turn(roll, "b", 20)
    assert late.answer is Answer.CLOSED and late.roll is not None
    why = f"b takes about 10 min, and the window ends at {clock(30)} (maintenance_until)"
    assert (late.roll.state, late.roll.paused, late.message) == (State.PAUSED, why, f"b was not started: {why}")
    again = new(late.roll, until=clock(300))
    assert turn(again, "b", 240).answer is Answer.GO


def test_the_night_between_two_commands_is_no_time_that_a_host_takes() -> None:
    roll = new(until=clock(30), seconds=dict.fromkeys(HOSTS, 60.0))
    verdict = turn(roll, "a", 0)
    assert verdict.roll is not None
    next_night = new(verdict.roll, True, until=clock(24 * 60 + 30), seconds=dict.fromkeys(HOSTS, 60.0))
    done = through(next_night, "a", 24 * 60, 24 * 60 + 6)
    assert turn(done, "b", 24 * 60 + 7).answer is Answer.GO


def test_the_soak_is_before_the_host_in_the_window() -> None:
    roll = through(new(until=clock(32), soak=600.0), "a", 0, 10)
    assert turn(roll, "b", 11).answer is Answer.WAIT
    roll = through(new(until=clock(25), soak=600.0), "a", 0, 10)
    assert turn(roll, "b", 11).answer is Answer.CLOSED


def test_after_the_window_nobody_begins_even_where_nothing_is_known() -> None:
    roll = new(until=clock(30))
    assert turn(roll, "a", 29).answer is Answer.GO
    over = turn(roll, "a", 30)
    assert over.answer is Answer.CLOSED and over.roll is not None and over.roll.state is State.PAUSED


def test_the_order_is_the_plans() -> None:
    plan = {"refusal": None, "steps": [{"hosts": ["c"]}, {"hosts": ["b", "d"]}]}
    assert planned.order_of(plan, ["x", "a", "b", "c"]) == ["c", "b", "x", "a"]
    with pytest.raises(PolicyError, match="the plan does not fit: no room"):
        planned.order_of({**plan, "refusal": {"sentence": "no room"}}, ["a"])


def test_the_plan_says_what_each_host_takes() -> None:
    plan = {"steps": [{"hosts": ["a", "b"], "duration": 60}, {"hosts": ["c"], "duration": 5}]}
    assert planned.seconds_of(plan) == {"a": 60.0, "b": 60.0, "c": 5.0}


# What other versions of the collection wrote, and read: no key of it changes or goes.
STORED = {
    "id": "7f3a",
    "run": "one",
    "requester": "ann",
    "reason": "kernel",
    "begun": "2026-03-01T04:00:00Z",
    "hosts": [{"name": "a", "stage": "at work", "since": "2026-03-01T04:01:00Z"}, {"name": "b", "stage": "waiting"}],
    "options": {"maintenance_reboot": "auto"},
    "state": "running",
    "beat": 7,
    "written": "2026-03-01T04:01:00Z",
    "max_unavailable": "20%",
    "max_unavailable_per": {"rack": 2},
    "groups": {"a": {"rack": "r1"}, "b": {"rack": "r1"}},
    "max_failures": 1,
    "count_others": False,
    "run_before": "",
    "soak": 300,
    "pause_after": "b",
    "until": "2026-03-01T06:00:00Z",
    "seconds": {"a": 60, "b": 61.5},
    "paused": "",
    "playbook": "",
    "idle": 3,
    "let_finish": False,
    "schema": 1,
}


def test_a_record_of_another_version_is_read_and_written_with_its_keys() -> None:
    roll = Roll.from_json(json.dumps(STORED))
    assert json.loads(roll.to_json()) == STORED
    least = {key: STORED[key] for key in ("id", "run", "requester", "reason", "begun", "hosts", "state", "schema")}
    assert Roll.from_json(json.dumps(least)).terms == terms.Terms()


@pytest.mark.parametrize(("key", "value"), [("soak", "5m"), ("max_failures", True), ("groups", {"a": "r1"})])
def test_a_term_of_another_kind_is_no_record(key: str, value: object) -> None:
    with pytest.raises(RecordError, match=f"{key} is .*, expected"):
        Roll.from_json(json.dumps({**STORED, key: value}))


def test_a_command_that_carries_on_brings_its_own_terms() -> None:
    """All of them, but for the seconds of a plan that it has not."""
    asked = {**{name: spec["default"] for name, spec in terms.TERMS_SPEC.items()}, "soak": "2m", "max_failures": 3}
    mine = terms.Terms.of({**asked, "seconds": {"b": 5}})
    old = stages.with_stage(Roll.from_json(json.dumps(STORED)), "a", Stage.FAILED, clock(2))
    verdict = rules.begin(rules.end(old), Ask("", "two", ("a", "b"), mine, take_over=True), True, FLEET, clock(3))
    assert verdict.roll is not None and verdict.roll.terms == replace(mine, seconds={"a": 60, "b": 5.0})


@pytest.mark.parametrize(("given", "kept"), [("yes", "True"), (True, "True"), ("false", ""), (False, ""), ("", "")])
def test_vms_that_stay_where_they_are_are_no_option(given: Any, kept: str) -> None:
    """So who says it, and who does not, give the same command."""
    asked = {**{name: spec["default"] for name, spec in terms.TERMS_SPEC.items()}, "options": {terms.MOVE_BACK: given}}
    assert terms.Terms.of(asked).options == ({terms.MOVE_BACK: kept} if kept else {})


def test_each_term_is_a_variable_of_the_playbook() -> None:
    """Where it is left out its default stands once, in Terms."""
    ours = Path(__file__).parents[6]
    task = yaml.safe_load((ours / "playbooks/tasks/roll_begin.yml").read_text("utf-8"))[0]
    request = task["virtops.maintenance.maintenance_roll"]["request"]
    found_elsewhere = {"options", "groups", "seconds"}  # several variables, the inventory, the plan
    for name in set(terms.TERMS_SPEC) - found_elsewhere:
        assert f"maintenance_{name} | default(omit" in request[name] and f"maintenance_{name}" in SHARED
