"""What a workflow gets of a roll, a plan and drains: small, and the same names whoever leaves them."""

from __future__ import annotations

import json

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import notifications, status
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import HostEntry, Roll, Stage, State

NOW = "2026-01-01T00:00:00Z"


def roll(state: State, **stages: Stage) -> Roll:
    hosts = {name: HostEntry(name, stage, NOW) for name, stage in stages.items()}
    return Roll("7f", "run", "alice", "kernel", NOW, hosts, state=state, written=NOW)


@pytest.mark.parametrize(
    ("state", "stage", "result"),
    [
        (State.ENDED, Stage.DONE, "done"),
        (State.RUNNING, Stage.DRAINING, "running"),
        (State.STOPPED, Stage.FAILED, "failed"),
        (State.STOPPED, Stage.DRAINING, "stopped"),
        (State.PAUSED, Stage.WAITING, "paused"),
        (State.ABORTING, Stage.DRAINING, "aborted"),
    ],
)
def test_a_roll_says_how_it_ended(state: State, stage: Stage, result: str) -> None:
    assert notifications.of_roll(roll(state, a=stage).to_dict())["result"] == result


def test_a_roll_counts_what_went_well_and_names_what_needs_somebody() -> None:
    found = roll(State.STOPPED, a=Stage.DONE, b=Stage.FAILED, c=Stage.EMPTY, d=Stage.WAITING).to_dict()
    assert notifications.of_roll(found) == {
        "roll": "7f",
        "result": "failed",
        "hosts": 4,
        "done": 1,
        "out": ["b", "c"],
        "failed": ["b"],
        "begun": NOW,
        "tally": {"vms": 0, "moved": 0, "cold_moved": 0, "stopped": 0, "off": 0, "kept": 0},
    }


def test_without_a_roll_the_names_are_the_same() -> None:
    some = notifications.of_roll(roll(State.ENDED, a=Stage.DONE).to_dict())
    none, lost = notifications.of_roll(None), notifications.of_roll(None, unreadable=True)
    assert set(none) == set(lost) == set(some)
    assert (none["result"], lost["result"]) == ("none", "unreadable")
    assert status.report({"roll": None, "hosts": [], "unreadable": "n1 is off"}, {})["stats"] == lost


def test_what_an_abort_has_given_back_is_not_out() -> None:
    before = roll(State.ABORTING, a=Stage.DONE, b=Stage.DRAINING, c=Stage.FAILED).to_dict()
    restores = {"b": {"phase": "Active", "outcomes": []}, "c": {"msg": "no answer"}}
    stats = status.aborted(before, ["b", "c"], restores)["stats"]
    assert (stats["result"], stats["hosts"], stats["done"]) == ("aborted", 3, 1)
    assert (stats["out"], stats["failed"]) == (["c"], ["c"])


def test_drains_are_counted_and_a_host_that_was_not_begun_is_named() -> None:
    vms = [{"verdict": "moved", "outage_ms": 9}, {"verdict": "stopped"}, {"verdict": "blocked"}]
    found = notifications.of_drains(["a", "b", "c"], {"a": {"phase": "Drained", "vms": vms[:2]}, "b": {"vms": vms[2:]}})
    tally = {"vms": 3, "moved": 1, "cold_moved": 0, "stopped": 1, "off": 0, "kept": 1, "outage_ms": 9}
    assert found == {"hosts": 3, "drained": 1, "not_drained": ["b", "c"], "tally": tally}


def test_of_a_thousand_hosts_that_are_done_no_name_is_left() -> None:
    hosts = {f"host-{number}": Stage.DONE for number in range(1000)}
    assert len(json.dumps(notifications.of_roll(roll(State.ENDED, **hosts).to_dict()))) < 300
