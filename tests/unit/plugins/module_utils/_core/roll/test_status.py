"""How far a roll is, as a table and for programs; and what came of an abort."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import status
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import (
    Fleet,
    HostEntry,
    Roll,
    Stage,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.terms import Terms

NOW, READ = "2026-01-01T00:00:00Z", "2026-01-01T00:00:12Z"
RECORD = {
    "intent": "drained",
    "requester": "bob",
    "reason": "disks",
    "started": NOW,
    "blocked": "",
    "stays": [],
    "left": False,
}


def roll(state: State = State.RUNNING, **stages: Stage) -> Roll:
    hosts = {name: HostEntry(name, stage, NOW) for name, stage in stages.items()}
    return Roll("7f", "run", "alice", "kernel", NOW, hosts, state=state, written=NOW)


def vm(name: str, verdict: str = "pending", phase: str = "Pending", **more: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("target", "mode", "at", "reason", "message", "remedy"), "")
    return {"name": name, "uuid": "u", "verdict": verdict, "phase": phase, **empty, **more}


def show(found: Roll | None, fleet: Fleet, infos: dict[str, Any], unreadable: str = "") -> dict[str, Any]:
    raw = None if found is None else found.to_dict()
    hosts = status.rows(found, fleet, NOW)
    return status.report({"roll": raw, "hosts": hosts, "unreadable": unreadable, "read": READ}, infos)


def test_each_host_has_its_stage_and_its_vms_and_says_what_it_waits_for() -> None:
    progress = {"percent": 45, "total_mib": 100.0}
    vms = [
        vm("done", "moved", "Succeeded", at="b"),
        vm("moves", phase="Running", target="b", progress=progress),
        vm("queued", reason="WaitingForSlot", message="All are taken.", remedy="Wait."),
        vm("next"),
        vm("off", "stopped", ""),
        vm("stuck", "blocked", "", reason="StopNotAllowed", message="It is local.", remedy="Do."),
    ]
    fleet = Fleet(("a", "b", "c", "d"))
    running = roll(a=Stage.DRAINING, b=Stage.WAITING, c=Stage.DONE)
    found = show(running, fleet, {"a": {"vms": vms, "record": RECORD}})
    assert found["lines"] == [
        f"roll 7f of alice, kernel: running, begun {NOW}, last updated {NOW} (12 s ago)",
        f"a  draining  since {NOW} (12 s)  VMs: 1 moved away, 1 moving, 2 waiting, 1 stopped, 1 blocked",
        "  moves  migration Running 45 % -> b",
        "  queued  waiting: WaitingForSlot: All are taken. Wait.",
        "  next  waiting: its migration is not requested yet",
        "  off  stopped",
        "  stuck  blocked: StopNotAllowed: It is local. Do.",
        f"b  waiting   since {NOW} (12 s)  waits: 1 host may be out at once, and this one is: a (draining since {NOW})",
        f"c  done      since {NOW} (12 s)",
        "in service: d",
        *found["next"],
    ]
    states = [one["state"] for one in found["hosts"][0]["vms"]]
    assert states == ["left", "moving", "waiting", "waiting", "stopped", "blocked"]
    assert not any("uuid" in one for one in found["hosts"][0]["vms"])
    assert found["hosts"][1]["vms"] is None


def test_a_vm_in_post_copy_is_on_two_hosts_neither_of_which_is_to_be_touched() -> None:
    moves = vm("moves", phase="Running", target="b", mode="PostCopy")
    found = show(roll(a=Stage.DRAINING), Fleet(("a", "b")), {"a": {"vms": [moves], "record": RECORD}})
    assert (
        "  moves  migration Running -> b, in post-copy: its memory is on both hosts, so touch neither" in found["lines"]
    )
    assert found["next"][0] == "Do not reboot or cut off a or b: moves is on both until it has moved (post-copy)."
    assert found["hosts"][0]["vms"][0]["mode"] == "PostCopy"
    arrived = vm("moves", "moved", "Succeeded", target="b", at="b", mode="PostCopy")
    found = show(roll(a=Stage.DRAINING), Fleet(("a", "b")), {"a": {"vms": [arrived], "record": RECORD}})
    assert not any("post-copy" in line for line in found["lines"])


@pytest.mark.parametrize(("until", "said"), [("2026-03-02T05:00:00Z", ""), ("2026-03-01T05:00:00Z", "window ended")])
def test_a_host_that_waits_in_an_open_window_is_not_said_to_be_too_late(until: str, said: str) -> None:
    found = replace(roll(a=Stage.WAITING), terms=Terms(until=until))
    (row,) = status.rows(found, Fleet(("a",)), "2026-03-01T22:00:00Z")
    assert bool(row["message"]) is bool(said) and said in row["message"]


def test_in_a_roll_that_is_stopped_nobody_waits() -> None:
    """It was "waiting since ... (38 min)"."""
    rows = status.rows(roll(State.STOPPED, a=Stage.FAILED, b=Stage.WAITING), Fleet(("a", "b")), NOW)
    assert (rows[0]["since"], rows[1]["since"], rows[1]["message"]) == (NOW, "", "not begun")


def test_a_host_that_cannot_be_reached_is_a_row_that_says_so() -> None:
    infos = {"a": {"unreachable": True, "msg": "Task failed: Failed to connect:\nno route"}}
    found = show(roll(a=Stage.REBOOTING), Fleet(("a",)), infos)
    assert found["lines"][1] == f"a  rebooting  since {NOW} (12 s)  cannot be reached: Failed to connect:"
    assert found["hosts"][0]["error"] and found["hosts"][0]["vms"] is None


def test_what_a_drain_left_on_a_host_that_was_replaced_is_said_though_the_host_is_in_service() -> None:
    left = {"b": "registered again, and shop/db of its drain is off", "gone": "deleted, and shop/web is off"}
    found = show(None, Fleet(("a", "b"), left=left), {})
    assert found["lines"][1:4] == [f"b     -  -  {left['b']}", f"gone  -  -  {left['gone']}", "in service: a"]
    assert not any(row["out"] for row in found["hosts"])


def test_a_drain_of_no_roll_says_who_and_what_to_type() -> None:
    fleet = Fleet(("a", "b"), {"a": "has a drain of its own"})
    found = show(None, fleet, {"a": {"vms": [], "record": RECORD}})
    row = f"a  empty  begun {NOW} (12 s)  drain by bob (disks), not part of a roll; no VMs"
    assert found["lines"][:3] == ["there is no roll", row, "in service: b"]
    assert found["next"] == ["No VM runs on a. To return it to service, run the playbook restore."]
    found = show(None, fleet, {"a": {"vms": [vm("x"), vm("y", "moved", at="b")], "record": RECORD}})
    assert "VMs: 1 waiting, 1 moved away" in found["lines"][1]
    assert found["lines"][1].startswith("a  draining  begun ")
    assert found["next"][0].startswith("To continue the drain of a, run the playbook drain again")


def test_what_a_drain_gave_up_is_told_as_it_recorded_it_and_not_as_the_next_one_would_decide() -> None:
    """It was "draining" of one that had ended Blocked: another run would try it again."""
    fleet = Fleet(("a", "b"), {"a": "has a drain of its own"})
    why = {"uuid": "u", "name": "x", "reason": "AttemptsUsedUp", "message": "3 attempts.", "remedy": "Repair it."}
    record = {**RECORD, "blocked": "2026-01-01T00:00:10Z", "stays": [why]}
    found = show(None, fleet, {"a": {"vms": [vm("x"), vm("y", "moved", uuid="v", at="b")], "record": record}})
    assert found["lines"][1:3] == [
        "a  blocked  since 2026-01-01T00:00:10Z (2 s)  drain by bob (disks), not part of a roll;"
        " VMs: 1 blocked, 1 moved away",
        "  x  blocked: AttemptsUsedUp: 3 attempts. Repair it.",
    ]
    found = show(None, fleet, {"a": {"vms": [vm("x")], "record": {**RECORD, "left": True}}})
    assert ", not part of a roll, whose playbook was interrupted; VMs: 1 waiting" in found["lines"][1]
    for intent, stage in (("drained", "empty"), ("cordoned", "cordoned")):  # it ended well
        vms = [vm("x", "moved", at="b")] if stage == "empty" else []
        found = show(None, fleet, {"a": {"vms": vms, "record": {**RECORD, "intent": intent, "left": True}}})
        assert found["lines"][1].startswith(f"a  {stage}  begun ") and "in the middle" not in found["lines"][1], found
    found = show(None, fleet, {"a": {"vms": [vm("x", "moved", at="b")], "record": record}})
    assert found["lines"][1].startswith("a  empty  begun ")  # its owner has moved it meanwhile


@pytest.mark.parametrize("stage", [Stage.DONE, Stage.WAITING])
def test_after_a_roll_a_single_drain_says_who_as_well(stage: Stage) -> None:
    """A roll that is over leaves its record. What was waiting then waits no more."""
    fleet = Fleet(("a", "b"), {"a": "has a drain of its own"})
    over = roll(State.ABORTED, a=stage, b=Stage.WAITING)
    found = show(over, fleet, {"a": {"vms": [], "record": RECORD}})
    assert f"begun {NOW} (" in found["lines"][1] and "  drain by bob (disks), not part of a roll" in found["lines"][1]
    assert found["lines"][2] == "in service: b"
    assert found["next"][0].startswith("No VM runs on a.")


def test_on_a_host_that_is_given_back_nothing_waits_to_move() -> None:
    info = {"vms": [vm("x")], "record": {**RECORD, "intent": "active"}}
    found = show(roll(State.ABORTING, a=Stage.DRAINING), Fleet(("a",)), {"a": info})
    assert [one["state"] for one in found["hosts"][0]["vms"]] == ["back"]
    assert "run the playbook abort again" in found["next"][0]


def test_an_abort_says_of_each_vm_what_became_of_it() -> None:
    outcomes = [
        {"name": "x", "at": "a", "outcome": "aborted", "message": "migration aborted, runs on a"},
        {"name": "y", "at": "a", "outcome": "aborted", "message": "migration aborted, runs on a"},
        {"name": "z", "at": "b", "outcome": "moved", "message": "left on b"},
    ]
    restores = {
        "a": {"phase": "Active", "outcomes": outcomes},
        "b": {"phase": "Blocked", "msg": "b is Blocked.\nq: CannotStart", "outcomes": []},
        "c": {"unreachable": True, "msg": "no route"},
    }
    before = roll(a=Stage.AT_WORK, b=Stage.EMPTY, c=Stage.REBOOTING).to_dict()
    found = status.aborted(before, ["a", "b", "c"], restores)
    assert found["lines"] == [
        "a  restored: your tasks may still be running there",
        "  x, y: migration aborted, runs on a",
        "  z: left on b",
        "b  not restored: b is Blocked.",
        "  q: CannotStart",
        "c  not restored: no route",
    ]
    assert [host["given_back"] for host in found["hosts"]] == [True, False, False]
    restores["a"] = {"phase": "Active", "closed": ["it is still cordoned, by others"]}
    first = status.aborted(before, ["a"], restores)["lines"][0]
    assert first.startswith("a  restored: it takes no VMs: it is still cordoned, by others; your tasks ")
    assert [(one["host"], one["name"], one["at"]) for one in found["vms"]][2] == ("a", "z", "b")
