"""After the roll VMs go back to where they were: what is remembered, what is done, what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import run, table
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.host import Act, Asked, acts
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import RollTakenOver
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import (
    Clock,
    Fleet,
    HostEntry,
    Roll,
    Stage,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.stages import Note
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.terms import MOVE_BACK, Terms

NOW = "2026-01-01T00:00:00Z"
CLOCK = Clock(lambda: 0.0, lambda: NOW, lambda _seconds: None)
MOVES = [{"vm": "u1", "on": "b", "home": "a"}, {"vm": "u2", "on": "b", "home": "a"}]


class Store:
    """One reader and writer, in memory."""

    def __init__(self, move_back: bool = True, hosts: str = "ab", state: State = State.RUNNING) -> None:
        entries = {name: HostEntry(name, Stage.DRAINING, NOW) for name in hosts}
        options = {MOVE_BACK: "True"} if move_back else {}
        self.text = Roll("r1", "me", "", "", NOW, entries, Terms(options=options), state).to_json()

    def read(self) -> tuple[Roll | None, str]:
        return Roll.from_json(self.text), self.text

    def write(self, roll: Roll, seen: str) -> bool:
        assert seen == self.text
        self.text = roll.to_json()
        return True

    def fleet(self) -> Fleet:
        return Fleet(())

    @property
    def roll(self) -> Roll:
        return Roll.from_json(self.text)

    def empty(self, host: str, **moved: str) -> None:
        self.note(host, Stage.EMPTY, moved)

    def note(self, host: str, stage: Stage, moved: dict[str, str] | None = None) -> None:
        run.note(self, host, "me", Note(stage, moved=moved or {}), CLOCK)

    def done(self, *hosts: str) -> None:
        for host in hosts or self.roll.hosts:
            self.note(host, Stage.RESTORING)
            self.note(host, Stage.DONE)

    def came_back(self, home: str, vm: str, moved: bool = True, why: str = "") -> State:
        run.came_back(self, home, "me", vm, moved, why, CLOCK)
        return self.roll.state


def homeward(store: Store, *hosts: str) -> Any:
    return run.homeward(store, "me", hosts or ("a", "b"))["moves"]


def test_the_roll_ends_when_the_last_vm_is_back() -> None:
    store = Store()
    store.empty("a", u1="b", u2="b")
    store.done("a")
    assert homeward(store) == {}  # b is still to come
    store.done("b")
    assert store.roll.state is State.RUNNING
    assert homeward(store) == {"a": [{"on": "b", "moves": MOVES}]}
    assert store.came_back("a", "u1") is State.RUNNING
    assert store.came_back("a", "u2") is State.ENDED
    assert homeward(store) == {}
    assert table.lines(store.roll)[-1] == "back where they were: 2 of 2 VMs"


def test_one_that_moved_twice_goes_back_to_where_it_was_first() -> None:
    store = Store(hosts="abc")
    store.empty("a", u1="b", u2="b")
    store.empty("b", u1="c", u2="a", u3="a")
    store.done()
    assert homeward(store, "a", "b", "c") == {
        "a": [{"on": "c", "moves": [{"vm": "u1", "on": "c", "home": "a"}]}],
        "b": [{"on": "a", "moves": [{"vm": "u3", "on": "a", "home": "b"}]}],
    }


def test_one_that_a_later_drain_brought_home_stays_there() -> None:
    store = Store(hosts="ab")
    store.empty("a", u1="b")
    store.done("a")
    store.empty("b", u1="a")
    store.empty("b", u1="a")  # after the user's tasks, again
    store.done("b")
    assert store.roll.state is State.ENDED
    assert homeward(store) == {}


def test_who_did_not_ask_for_it_keeps_vms_where_they_are() -> None:
    store = Store(move_back=False)
    store.empty("a", u1="b")
    store.done()
    assert store.roll.state is State.ENDED and not store.roll.hosts["a"].away


def test_one_that_cannot_go_back_is_named_and_the_same_command_tries_again() -> None:
    store = Store()
    store.empty("a", u1="b", u2="b")
    store.done()
    store.came_back("a", "u1", why="web-1 is not back on a: NoTarget: full", moved=False)
    store.came_back("a", "u2")
    found = run.end(store, "me", CLOCK)
    assert (found["answer"], store.roll.state) == ("closed", State.STOPPED)
    assert "some VMs are not back where they were: 1 of a. web-1 is not back on a: NoTarget: full." in found["message"]
    assert found["stats"]["result"] == "failed" and found["stats"]["done"] == 2
    assert "same command" in found["message"] and found["lines"][-1] == "back where they were: 1 of 2 VMs"
    assert [move["vm"] for move in homeward(store)["a"][0]["moves"]] == ["u1"]


def test_one_that_somebody_else_moved_is_done_with_and_not_counted() -> None:
    store = Store()
    store.empty("a", u1="b")
    store.done()
    assert store.came_back("a", "u1", moved=False) is State.ENDED
    assert "back" not in store.roll.hosts["a"].tally


def test_after_an_abort_no_further_one_goes_back() -> None:
    store = Store()
    store.empty("a", u1="b", u2="b")
    store.done()
    run.abort(store, "other", "", CLOCK)
    with pytest.raises(RollTakenOver):
        store.came_back("a", "u1")
    run.aborted(store, "other", CLOCK)
    assert store.roll.state is State.ABORTED


def test_vms_of_a_host_that_is_not_in_the_play_are_moved_by_the_first() -> None:
    store = Store()
    store.empty("a", u1="b")
    store.done()
    assert [*homeward(store, "b", "c")] == ["b"]


def test_a_pause_after_the_last_host_is_no_end_while_vms_are_away() -> None:
    store = Store()
    roll = store.roll
    roll.terms = replace(roll.terms, pause_after="b")
    store.text = roll.to_json()
    store.empty("a", u1="b")
    store.done()
    assert run.end(store, "me", CLOCK)["answer"] == "closed" and store.roll.state is State.STOPPED


ROWS = [
    {"verdict": "moved", "way": "migrate", "at": "b", "uuid": "u1", "name": "shop/web-1"},
    {"verdict": "cold_moved", "way": "cold_migrate", "at": "b", "uuid": "u2", "name": "shop/web-2"},
    {"verdict": "moved", "way": "external", "at": "b", "uuid": "u3", "name": "shop/web-3"},
    {"verdict": "stopped", "way": "shutdown", "at": "a", "uuid": "u4", "name": "shop/web-4"},
]


def test_only_what_was_migrated_is_remembered() -> None:
    assert table.moved(ROWS, by_name=False) == {"u1": "b"}
    assert table.moved(ROWS, by_name=True) == {"shop/web-1/u1": "b"}


# What is done with each


def play(asked: Asked, *answers: dict[str, Any]) -> tuple[list[Act], list[str], dict[str, Any]]:
    """(the acts, what was shown, the result)."""
    course, left, done, shown = acts(asked), list(answers), [], []
    found: dict[str, Any] | None = None
    while True:
        try:
            act = next(course) if found is None else course.send(found)
        except StopIteration as end:
            assert not left
            return done, shown, end.value
        if act.kind == "show":
            shown += act.options["lines"]
            found = {}
        else:
            done.append(act)
            found = left.pop(0)


def back(name: str, at: str = "a", **more: Any) -> dict[str, Any]:
    return {"changed": True, "phase": "Migrated", "vm": name, "vms": [{"at": at, "reason": "", "message": ""}], **more}


def blocked(name: str) -> dict[str, Any]:
    row = {"at": "b", "reason": "NoTarget", "message": "a is full."}
    return {"failed": True, "msg": f"VM {name} is Blocked", "vm": name, "vms": [row]}


def home(**more: Any) -> Asked:
    return Asked("home", "", **{"moves": MOVES, **more})


def test_they_move_one_after_the_other_and_each_is_written_down() -> None:
    done, shown, result = play(home(), back("web-1"), {}, back("web-2"), {})
    assert [act.kind for act in done] == ["move", "roll", "move", "roll"]
    assert done[0].options == {"name": "u1", "target": "a"} and done[2].turn == {"position": "back 2/2"}
    assert done[1].options == {"state": "came_back", "roll_host": "a", "vm": "u1", "is_back": True, "why": ""}
    assert (shown, result) == ([], {"changed": True})


def test_on_kubevirt_they_have_a_name_and_a_node() -> None:
    moves = [{"vm": "shop/web-1/u1", "on": "n2", "home": "n1"}]
    done, _shown, _result = play(home(platform="kubevirt", moves=moves), back("shop/web-1", "n1"), {})
    assert done[0].options == {"namespace": "shop", "name": "web-1", "uid": "u1", "node": "n2", "target": "n1"}
    assert done[1].options["vm"] == "shop/web-1/u1"


def test_a_new_vm_of_the_same_name_is_left_where_it_is_and_said_by_its_name() -> None:
    moves = [{"vm": "shop/web-1/u1", "on": "n2", "home": "n1"}]
    why = "VM shop/web-1 is a different VM now"
    other = {"failed": True, "error": "VMNotHere", "msg": why}
    done, shown, result = play(home(platform="kubevirt", moves=moves), other, {})
    assert (done[1].options["is_back"], done[1].options["why"]) == (False, "")
    assert shown == [f"shop/web-1 was not moved back to n1: {why}"] and not result.get("failed")


def test_one_that_cannot_is_written_down_and_the_next_one_moves() -> None:
    done, shown, result = play(home(), blocked("web-1"), {}, back("web-2"), {})
    assert done[1].options["why"] == "web-1 is not back on a: NoTarget: a is full"
    assert done[3].options["is_back"] and not result.get("failed")
    assert shown == []  # its own line said so


@pytest.mark.parametrize(
    "found",
    [
        {"failed": True, "error": "VMNotHere", "msg": "u1 is on c, not on b: run the module on c"},
        back("u1", "c", changed=False),
        {"failed": True, "msg": "Blocked", "vms": [{"at": "b", "reason": "", "message": "on c", "verdict": "off"}]},
    ],
)
def test_what_somebody_else_moved_is_left_there_and_said(found: dict[str, Any]) -> None:
    done, shown, _result = play(home(moves=MOVES[:1]), found, {})
    assert (done[1].options["is_back"], done[1].options["why"]) == (False, "")
    assert len(shown) == 1 and shown[0].startswith("u1 was not moved back to a: ") and shown[0].rpartition(" to a: ")[2]


def test_a_host_that_cannot_be_reached_is_said_and_tried_again_by_the_same_command() -> None:
    done, shown, _result = play(home(moves=MOVES[:1]), {"failed": True, "msg": "b cannot be reached: no route"}, {})
    assert done[1].options["why"] == shown[0] == "u1 is not back on a: b cannot be reached: no route"


def test_where_the_roll_was_aborted_no_further_one_moves() -> None:
    over = {"failed": True, "msg": "Roll r1 was aborted", "error": "RollTakenOver"}
    done, _shown, result = play(home(), back("web-1"), over)
    assert len(done) == 2 and result["failed"] and result["changed"]
