"""The acts of one host of a roll: their order, where they end, and what comes next."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import words
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.host import Act, Asked, acts, ranked

ALL = ["drain", "work", "reboot", "check", "restore"]
WHEN = "2026-03-01T21:03:00Z"
TURN = {"position": "2/3", "ready": WHEN, "to_come": ["b", "c"], "targets": {}}
HOSTS = [{"name": "a", "stage": "done"}, {"name": "b", "stage": "draining"}, {"name": "c", "stage": "waiting"}]
GO = {"answer": "go", "changed": True, "steps": ALL, "position": "2/3", "ready": WHEN, "roll": {"hosts": HOSTS}}
READY = {"findings": [], "blockers": [], "cautions": [], "node_blockers": []}
BLOCKER = "BLOCKER NodeNotReady b: it is not -> wait"
NOT_READY = {**READY, "node_blockers": [BLOCKER], "blockers": [BLOCKER]}
DRAINED = {"phase": "Drained", "changed": True, "ended": "final", "vms": []}
FAILED = {"failed": True, "msg": "no"}
GONE = {"unreachable": True, "msg": "no route"}
ASKED = {"boot": 1.0, "wall": 2.0}
NOTED = {"answer": "go", "asked": ASKED}


def play(asked: Asked, *answers: dict[str, Any]) -> tuple[list[str], dict[str, Any], list[Act]]:
    """(the acts in words, the result, the acts). Each act gets the next answer, what is shown gets none."""
    said, done = [], []
    # Nothing takes time but the pauses between the acts.
    course, left = acts(replace(asked, now=lambda: sum(act.after for act in done))), list(answers)
    found: dict[str, Any] | None = None
    while True:
        try:
            act = next(course) if found is None else course.send(found)
        except StopIteration as end:
            assert not left, f"never asked for: {left}"
            return said, end.value, done
        done.append(act)
        said.append(str(act.options.get("stage") or act.options.get("state") or act.kind))
        found = {} if act.kind == "show" else dict(left.pop(0))


def out(**more: Any) -> Asked:
    return Asked("out", "b", **{"work": True, "reboot": "always", "healthy_within": 900, **more})


@pytest.mark.parametrize(
    ("more", "steps", "stage", "following", "left"),
    [
        ({}, ALL, "at work", ["work"], ["reboot", "check", "restore"]),
        ({"work": False}, ALL, "rebooting", ["reboot"], ["check", "restore"]),
        ({"work": False, "checks": True}, ALL, "rebooting", ["reboot", "checks"], ["check", "restore"]),
        ({"work": False, "reboot": "auto"}, ALL, "rebooting", ["reboot_if_needed"], ["check", "restore"]),
        ({"work": False, "reboot": "never"}, ALL, "checking", [], ["check", "restore"]),
        ({"checks": True}, ["drain", "reboot", "check", "restore"], "rebooting", ["reboot", "checks"], None),
    ],
)
def test_it_is_drained_on_its_turn_and_what_comes_next_is_said(
    more: dict[str, Any], steps: list[str], stage: str, following: list[str], left: list[str] | None
) -> None:
    said, result, done = play(out(**more), {**GO, "steps": steps}, READY, DRAINED, NOTED)
    assert said == ["admitted", "preflight", "show", "drain", stage]
    assert result["next"] == following and result["turn"] == {**TURN, "stage": stage, "asked": ASKED}
    assert result["steps"] == (left or ["check", "restore"])
    assert done[3].turn == TURN
    assert result["left_as"].startswith("it is empty")


def test_one_that_has_rebooted_since_its_turn_is_not_rebooted() -> None:
    """The record says so with the note."""
    noted = {**NOTED, "roll": {"hosts": [{"name": "b", "stage": "checking", "boot_id": "b-1"}]}}
    go = {**GO, "steps": ["drain", "reboot", "check", "restore"]}
    _said, result, _done = play(out(checks=True), go, READY, DRAINED, noted)
    assert (result["next"], result["turn"]["stage"]) == (["checks"], "checking")


@pytest.mark.parametrize(
    ("stage", "following", "line"),
    [
        ("rebooting", ["reboot"], "reboots; it is waited for, for 900 s at most (maintenance_reboot_timeout)"),
        ("checking", [], "is not rebooted: it has rebooted since the roll recorded that it would"),
    ],
)
def test_right_before_its_reboot_the_roll_is_asked_again(stage: str, following: list[str], line: str) -> None:
    noted = {**NOTED, "roll": {"hosts": [{"name": "b", "stage": stage, "boot_id": "b-1"}]}}
    said, result, done = play(Asked("reboots", "b", turn=TURN, healthy_within=900), noted)
    assert said == ["rebooting", "show"] and done[1].options["lines"] == [line]
    assert result["next"] == following and result["turn"] == {**TURN, "boot_id": "b-1", "asked": ASKED}


def test_one_that_was_taken_over_meanwhile_is_not_rebooted() -> None:
    said, result, _done = play(Asked("reboots", "b", turn=TURN), {**FAILED, "error": "RollTakenOver"})
    assert said == ["rebooting"] and result["failed"] and "next" not in result


@pytest.mark.parametrize("noted", [NOTED, FAILED])
def test_before_the_checks_of_the_user_the_roll_is_asked_again(noted: dict[str, Any]) -> None:
    """That the host is healthy may have been waited for, for a quarter of an hour."""
    asked = Asked("healthy", "b", turn=TURN, healthy_within=900)
    said, result, _done = play(asked, NOTED, NOT_READY, READY, noted)
    assert said == ["checking", "preflight", "show", "preflight", "checking"]
    assert result.get("failed", False) is (noted is FAILED)
    assert noted is FAILED or result["turn"]["asked"] == ASKED


def test_how_a_host_is_left_whose_drain_failed_is_told_by_what_its_vms_came_to() -> None:
    vms = [{"verdict": "moved"}, {"verdict": "moved"}, {"verdict": "blocked"}]
    left = words.left_as({"phase": "Blocked", "changed": True, "vms": vms})
    assert left == "of its VMs 2 moved, 1 kept; it stays cordoned"


@pytest.mark.parametrize("turn", [FAILED, GONE])
def test_without_its_turn_nothing_is_done(turn: dict[str, Any]) -> None:
    said, result, _done = play(out(), turn)
    assert said == ["admitted"]
    assert result["msg"] == turn["msg"] and result["next"] == []
    assert result["left_as"] == "nothing was changed"


def test_it_waits_for_the_hosts_to_which_the_plan_sends_its_vms() -> None:
    planned = {"u": "c", "v": "a", "w": "c"}
    _said, _result, done = play(out(planned=planned), {**GO, "answer": "closed", "steps": []})
    assert done[0].options["targets"] == ["a", "c"]


@pytest.mark.parametrize("answer", ["closed", "done"])
def test_what_is_closed_or_done_is_left_alone(answer: str) -> None:
    said, result, _done = play(out(), {**GO, "answer": answer, "steps": []})
    assert (said, result["answer"], result["next"]) == (["admitted"], answer, [])


@pytest.mark.parametrize(("checks", "following"), [(False, []), (True, ["checks"])])
def test_one_that_was_drained_before_is_only_brought_back(checks: bool, following: list[str]) -> None:
    said, result, _done = play(out(checks=checks), {**GO, "steps": ["check", "restore"]})
    assert said == ["admitted"]
    assert result["next"] == following and "as the run before left it" in result["left_as"]


@pytest.mark.parametrize(
    ("fail_on", "found", "goes_on"),
    [
        ("node_blockers", NOT_READY, False),
        ("blockers", NOT_READY, False),
        ("nothing", NOT_READY, True),
        ("node_blockers", {**READY, "blockers": ["vm NotMigratable: no"]}, True),
        ("blockers", {**READY, "blockers": ["vm NotMigratable: no"]}, False),
        ("nothing", FAILED, False),  # nothing was found since nothing was read
    ],
)
def test_one_that_is_not_ready_is_not_drained(fail_on: str, found: dict[str, Any], goes_on: bool) -> None:
    said, result, done = play(out(fail_on=fail_on), GO, found, *([DRAINED, NOTED] if goes_on else []))
    assert ("drain" in said) is goes_on
    assert result.get("failed", False) is not goes_on
    assert done[2].options["lines"] == found.get("blockers", [])
    assert goes_on or (result["msg"].startswith("b is not ready: ") and result["left_as"] == "nothing was changed")


def test_more_than_one_blocker_is_said_by_its_code() -> None:
    found = {**READY, "node_blockers": ["b NodeNotReady no", "b HostSilent no", "b HostSilent yes"]}
    _said, result, _done = play(out(), GO, found)
    assert result["msg"] == "b is not ready. See the findings above: NodeNotReady, HostSilent"


@pytest.mark.parametrize("drained", [FAILED, GONE])
def test_a_drain_that_failed_is_not_noted(drained: dict[str, Any]) -> None:
    rows = [{"verdict": "moved", "outage_ms": None}, {"verdict": "blocked"}]
    said, result, _done = play(out(), GO, READY, {**drained, "vms": rows})
    assert said == ["admitted", "preflight", "show", "drain"]
    assert (result["tally"]["vms"], result["tally"]["kept"]) == (2, 1), "for who records that it has failed"
    assert result["msg"] == drained["msg"]
    assert result["next"] == []  # of the step before: the playbook does not go on


def test_hooks_that_are_due_come_first_and_once() -> None:
    needs = {"failed": True, "msg": "hooks", "ended": "needs", "phase": "Draining"}
    _said, result, _done = play(out(), GO, READY, needs)
    assert (result["failed"], result["next"], result["steps"]) == (False, ["hooks"], ALL)
    said, result, _done = play(Asked("empty", "b", steps=ALL, turn=TURN, hooks_were_run=True), needs)
    assert said == ["drain"] and result["failed"]


def test_after_the_work_it_is_drained_again() -> None:
    asked = Asked("empty", "b", steps=["reboot", "check", "restore"], turn=TURN, reboot="always")
    said, result, _done = play(asked, DRAINED, NOTED)
    assert said == ["drain", "rebooting"] and result["next"] == ["reboot"]


def test_what_cannot_be_noted_is_not_done() -> None:
    _said, result, _done = play(Asked("empty", "b", steps=ALL), DRAINED, {**FAILED, "error": "RollRefused"})
    assert (result["failed"], result["msg"], result["error"]) == (True, "no", "RollRefused")
    assert "next" not in result


@pytest.mark.parametrize("state", ["out", "empty", "back"])
def test_of_a_roll_that_was_aborted_no_host_says_so(state: str) -> None:
    """Its end does, once for all hosts. Nothing follows on the host."""
    said, result, _done = play(Asked(state, "b", steps=ALL, checks=True), {**FAILED, "error": "RollTakenOver"})
    assert len(said) == 1 and result == {"changed": False, "answer": "closed", "next": []}


def test_what_is_not_to_be_followed_by_the_users_checks_fails() -> None:
    _said, result, _done = play(Asked("healthy", "b"), {**FAILED, "error": "RollTakenOver"})
    assert result["failed"]


def test_it_comes_back_when_it_is_healthy() -> None:
    asked = Asked("back", "b", turn=TURN, healthy_within=4)
    noted = {"roll": {"hosts": HOSTS}, "event": {"event": "done"}}
    said, result, done = play(asked, NOTED, NOT_READY, GONE, READY, {"phase": "Active"}, noted)
    assert said == ["checking", "preflight", "show", "preflight", "preflight", "restore", "done", "show"]
    assert [act.after for act in done if act.kind == "preflight"] == [0, 2, 2]
    assert result == {"phase": "Active", "event": {"event": "done"}, "left_as": "it is in service again"}
    assert done[-1].options["lines"] == ["b is done | roll 1/3"]
    closed = {"phase": "Active", "closed": ["it is still cordoned, by others"]}
    _said, result, done = play(asked, NOTED, READY, closed, noted)
    told = "restored, but it takes no VMs: it is still cordoned, by others"
    assert result["left_as"] == f"it is {told}"
    assert done[-1].options["lines"] == [f"b is done, {told} | roll 1/3"]


def test_hooks_of_its_restore_come_before_it_is_done_and_once() -> None:
    needs = {"failed": True, "msg": "hooks", "ended": "needs", "phase": "Restoring"}
    said, result, _done = play(Asked("back", "b", turn=TURN), NOTED, READY, needs)
    assert said == ["checking", "preflight", "restore"]
    assert (result["failed"], result["next"]) == (True, ["hooks_back"])  # the playbook goes on there by its rescue
    again = Asked("back", "b", turn=TURN, hooks_were_run=True)
    said, _result, _done = play(again, {"phase": "Active"}, NOTED)
    assert said == ["restore", "done"]
    said, result, _done = play(again, needs)
    assert said == ["restore"] and result["failed"]


def test_a_restore_that_failed_is_not_said_to_have_left_the_host_empty() -> None:
    _said, result, _done = play(Asked("back", "b", turn=TURN), NOTED, READY, FAILED)
    assert "it may be in service again" in result["left_as"] and "stays cordoned" not in result["left_as"]


def test_one_that_was_left_in_its_reboot_is_waited_for_and_asked_what_is_left() -> None:
    asked = out(work=False, rebooting=True, healthy_within=10)
    rebooted = {**GO, "steps": ["drain", "check", "restore"]}
    said, result, done = play(asked, {**GO, "begins": False}, NOT_READY, READY, rebooted, DRAINED, NOTED)
    assert said == ["admitted", "preflight", "show", "preflight", "show", "admitted", "drain", "checking"]
    assert result["next"] == [], "it has rebooted"
    assert done[0].options["reach_for"] == 10


@pytest.mark.parametrize("begins", [True, False])
def test_one_that_is_not_ready_takes_no_place_if_nothing_was_done_with_it(begins: bool) -> None:
    said, result, _done = play(out(), {**GO, "begins": begins}, NOT_READY, *([NOTED] if begins else []))
    assert said == ["admitted", "preflight", "show", *(["waiting"] if begins else [])]
    assert result["failed"] and result["msg"].startswith("b is not ready: ")


def test_what_its_drain_wrote_down_is_not_written_again() -> None:
    asked = Asked("back", "b", turn={**TURN, "stage": "checking"})
    said, _result, _done = play(asked, READY, {"phase": "Active"}, NOTED)
    assert said == ["preflight", "restore", "done"]


def test_one_that_stays_ill_gets_nothing_back() -> None:
    said, result, done = play(Asked("back", "b", healthy_within=2), NOTED, NOT_READY, NOT_READY)
    assert said == ["checking", "preflight", "show", "preflight", "show"]
    assert result["failed"] and result["msg"] == f"b is not ready: {BLOCKER}"
    assert done[-1].options["lines"] == NOT_READY["node_blockers"]


def test_a_host_that_waits_says_for_what_every_fifteen_seconds() -> None:
    asked = Asked("healthy", "b", healthy_within=60)
    said, _result, done = play(asked, NOTED, *[GONE] * 3, *[NOT_READY] * 20, READY, NOTED)
    lines = [line for act in done if act.kind == "show" for line in act.options["lines"]]
    assert [line.partition(": ")[2] for line in lines] == ["no route", "NodeNotReady", "NodeNotReady"]
    assert lines[0] == "b is not healthy yet, waiting 60 s at most: no route"
    shown = [number for number, what in enumerate(said) if what == "show"]
    assert min(later - one for one, later in pairwise(shown)) * 2 > 15


def test_the_users_checks_were_the_gate() -> None:
    said, _result, _done = play(Asked("healthy", "b"), NOTED, READY, NOTED)
    assert said == ["checking", "preflight", "checking"]
    said, _result, _done = play(Asked("back", "b", checks=True), {"phase": "Active"}, NOTED)
    assert said == ["restore", "done"]


@pytest.mark.parametrize("state", ["healthy", "back"])
def test_a_check_that_may_not_begin_is_the_end(state: str) -> None:
    said, result, _done = play(Asked(state, "b"), FAILED)
    assert said == ["checking"] and result == FAILED


@pytest.mark.parametrize(
    ("restored", "message"),
    [(FAILED, "no"), (GONE, "no route"), ({"phase": "Restoring"}, "the restore did not finish")],
)
def test_done_is_what_was_restored(restored: dict[str, Any], message: str) -> None:
    said, result, _done = play(Asked("back", "b", checks=True), restored)
    assert said == ["restore"] and result["msg"] == message


def test_check_mode_restores_nothing_and_goes_on() -> None:
    said, result, _done = play(Asked("back", "b", check=True, checks=True), {"phase": "Drained"}, NOTED)
    assert said == ["restore", "done"] and not result.get("failed")


def test_a_done_that_is_refused_is_a_failure() -> None:
    _said, result, _done = play(Asked("back", "b", checks=True), {"phase": "Active"}, FAILED)
    assert result == {"phase": "Active", "left_as": "it is in service again", **FAILED}


@pytest.mark.parametrize("state", ["empty", "healthy", "back"])
def test_of_one_that_is_lost_nothing_is_done(state: str) -> None:
    said, result, _done = play(Asked(state, "b", lost=True))
    assert said == [] and result["msg"].startswith("b cannot be reached: it does not answer. If it does not come back")
    assert result["msg"].endswith("ansible-playbook virtops.maintenance.recover -e maintenance_hosts=b")


@pytest.mark.parametrize(("state", "kind"), [("drained", "drain"), ("active", "restore"), ("moved", "move")])
def test_outside_of_a_roll_it_is_one_act(state: str, kind: str) -> None:
    said, result, done = play(Asked(state, "b", lost=True), DRAINED)
    assert (said, result, done[0].turn) == ([kind], DRAINED, None)


@pytest.mark.parametrize(("fail_on", "ready"), [("blockers", False), ("nothing", True)])
def test_outside_of_a_roll_a_check_is_only_made_again(fail_on: str, ready: bool) -> None:
    said, result, done = play(Asked("checked", "b", fail_on=fail_on, healthy_within=2), NOT_READY, NOT_READY)
    assert said == ["preflight", "show", "preflight"] and done[0].turn is None
    assert (result["not_ready"] == "") is ready


def test_hosts_that_are_to_come_get_vms_last() -> None:
    peers = ranked([{"name": "a"}, {"name": "c"}], TURN)
    assert peers == [{"name": "a", "roll_rank": None, "expects": []}, {"name": "c", "roll_rank": 1, "expects": []}]


def test_a_peer_knows_what_the_plan_wants_there() -> None:
    peers = ranked([{"name": "a"}, {"name": "c"}], {**TURN, "targets": {"one": "c", "two": "x", "three": "c"}})
    assert [(peer["name"], peer["expects"]) for peer in peers] == [("a", []), ("c", ["one", "three"])]


@pytest.mark.parametrize(("begins", "said"), [(True, 2), (False, 1)])
def test_of_a_host_that_the_roll_goes_on_with_it_is_no_news_that_it_is_drained(begins: bool, said: int) -> None:
    seen = {
        **READY,
        "cautions": ["b WARNING MaintenanceUnderWay node b: Run 1", "b WARNING InboundMigration node b: x"],
    }
    _said, _result, done = play(out(), {**GO, "begins": begins}, seen, FAILED)
    assert len(done[2].options["lines"]) == said


def test_before_the_roll_it_is_only_looked_at_and_what_was_shown_is_not_shown_again() -> None:
    found = {**NOT_READY, "cautions": ["b OldVersion: it is"], "fleet": {"host": {"name": "b"}, "vms": []}}
    said, looked, done = play(Asked("looked", "b"), found)
    assert said == ["preflight", "show"] and not looked.get("failed")
    assert looked["lines"] == done[1].options["lines"] == [*NOT_READY["blockers"], "b OldVersion: it is"]
    assert looked["not_ready"] and looked["fleet"] == found["fleet"]
    new = {**READY, "cautions": ["b OldVersion: it is still", "b LowMemory: it is"]}
    _said, _result, done = play(out(shown=looked["lines"]), {**GO, "steps": ALL}, new, FAILED)
    assert done[2].options["lines"] == ["b LowMemory: it is"]


def test_one_that_is_lost_before_the_roll_is_not_ready() -> None:
    _said, looked, _done = play(Asked("looked", "b"), FAILED)
    assert (looked["not_ready"], looked["lines"]) == ("b is not ready: no", [])
