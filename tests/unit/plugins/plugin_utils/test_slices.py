"""The loop over slices: until it is final, over a connection that fails now and then."""

from __future__ import annotations

import os
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleAuthenticationFailure, AnsibleConnectionFailure

from ansible_collections.virtops.maintenance.plugins.plugin_utils import _controller, _slices
from ansible_collections.virtops.maintenance.plugins.plugin_utils._slices import PAUSES, run_slices
from ansible_collections.virtops.maintenance.plugins.plugin_utils._unanswered import LONGEST, Unanswered

GOOD = {"drained": "Drained", "active": "Active"}


def slice_of(phase: str, ended: str = "final", changed: bool = False) -> dict[str, Any]:
    return {
        "node": "host-a",
        "phase": phase,
        "ended": ended,
        "changed": changed,
        "vms": [],
        "counts": {},
        "findings": [],
    }


class Host:
    """Answers each call with the next of what it was given; an exception is raised."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = list(answers)
        self.calls: list[dict[str, Any]] = []

    def call(self, args: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(dict(args))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self) -> dict[str, Any]:
        return run_slices(self.call, {"state": "drained"}, GOOD, False)


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(_slices.time, "sleep", found.append)
    return found


def test_warnings_of_all_slices_are_told_once_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible shows a task's warnings when it has ended; of a drain that is hours later."""
    shown: list[str] = []
    monkeypatch.setattr(_slices.Display, "display", lambda _self, text, **_more: shown.append(text))
    first = {**slice_of("Draining", "out_of_time"), "warned": ["a"]}
    second = {**slice_of("Draining", "out_of_time"), "warned": ["a", "b"]}
    assert Host(first, second, slice_of("Drained")).run()["warnings"] == ["a", "b"]
    assert [line.split("  ", 1)[1] for line in shown if "WARNING" in line] == ["WARNING: a", "WARNING: b"]
    assert "warnings" not in Host(slice_of("Drained")).run()


def test_slice_after_slice_as_one_run() -> None:
    host = Host(slice_of("Draining", "out_of_time", changed=True), slice_of("Drained"))
    result = host.run()
    assert (result["phase"], result["changed"]) == ("Drained", True)
    assert "failed" not in result
    assert [args.get("begun", False) for args in host.calls] == [False, True]
    assert len({args["run_id"] for args in host.calls}) == 1


def test_another_phase_than_the_wanted_one_fails() -> None:
    found = Host(slice_of("Blocked")).run()
    assert found["failed"] is True
    assert found["msg"].splitlines()[-1].endswith("To return the host to service instead, run the playbook restore.")


def test_a_restore_names_what_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drain stopped it, its owner undefined it: it stays off, and only the restore sees it."""
    lines: list[str] = []
    monkeypatch.setattr(_slices.Display, "display", lambda _self, text: lines.append(text))
    text = "Someone else undefined or destroyed the VM, or a transient VM ended."
    row = dict.fromkeys(("phase", "target", "mode", "reason", "message", "remedy", "at"), "")
    row |= {"duration": 0.0, "outage_ms": None, "way": "shutdown"}
    gone = {"uuid": "u1", "name": "db", "verdict": "gone", "reason": "VMVanished", "message": text}
    moved = {"uuid": "u2", "name": "web", "verdict": "moved", "at": "host-b"}
    host = Host({**slice_of("Active", changed=True), "vms": [row | gone, row | moved]})
    run_slices(host.call, {"state": "active"}, GOOD, False)
    assert [line[9:] for line in lines] == [f"host-a 2/2  db gone, VMVanished: {text}", "host-a is in service again"]


NEED = {"kind": "hook", "hook": "before", "tasks": "out.yml", "name": "web", "uuid": "u1"}


def test_hooks_that_wait_end_it_as_a_failure_that_says_what_to_do() -> None:
    """Who does not know of hooks must not go on as if the host were empty."""
    answer = {**slice_of("Draining", "needs"), "needs": [NEED], "run_id": "r1"}
    host = Host(answer)
    result = host.run()
    assert result["failed"] is True and result["needs"] == [NEED]
    assert len(host.calls) == 1
    assert result["msg"].splitlines()[:2] == [
        "host-a is Draining, not Drained: hooks wait for an answer.",
        "web: hook before: out.yml",
    ]
    assert "run_id=r1, begun=true, and hooks_done as `needs` is" in result["msg"]


def test_an_answer_is_given_once() -> None:
    """It stands in the record then; the VM may have come back, and wait for its next hook."""
    host = Host(slice_of("Draining", "out_of_time"), slice_of("Drained"))
    args = {"state": "drained", "run_id": "r1", "begun": True, "hooks_done": [NEED]}
    run_slices(host.call, args, GOOD, False)
    assert [call.get("hooks_done") for call in host.calls] == [[NEED], None]
    assert args["hooks_done"] == [NEED]


def test_a_connection_that_comes_back_is_carried_on_with(slept: list[float]) -> None:
    gone = AnsibleConnectionFailure("no route to host")
    host = Host(slice_of("Draining", "out_of_time"), gone, gone, slice_of("Drained"))
    assert host.run()["phase"] == "Drained"
    assert slept == list(PAUSES[:2])
    assert [args.get("begun", False) for args in host.calls] == [False, True, True, True]


def test_a_connection_that_stays_away_is_given_up(slept: list[float]) -> None:
    host = Host(*[AnsibleConnectionFailure("no route to host")] * 9)
    with pytest.raises(AnsibleConnectionFailure):
        host.run()
    assert len(host.calls) == len(PAUSES) + 1
    assert slept == list(PAUSES)


def test_a_wrong_password_is_not_tried_again(slept: list[float]) -> None:
    host = Host(AnsibleAuthenticationFailure("no"))
    with pytest.raises(AnsibleAuthenticationFailure):
        host.run()
    assert slept == []


def test_a_failed_slice_ends_it() -> None:
    host = Host({"failed": True, "msg": "no libvirt"}, slice_of("Drained"))
    assert host.run()["msg"] == "no libvirt"
    assert len(host.calls) == 1


def test_a_failed_slice_does_not_hide_what_the_ones_before_it_changed() -> None:
    failed = {"failed": True, "msg": "no libvirt"}
    assert Host(slice_of("Draining", "out_of_time", changed=True), failed).run()["changed"] is True
    assert Host(slice_of("Draining", "out_of_time"), failed).run()["changed"] is False


def test_check_mode_says_what_would_be_done_and_what_is_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    warned: list[str] = []
    monkeypatch.setattr(_slices.Display, "display", lambda _self, msg, **_kw: said.append(msg))
    monkeypatch.setattr(_slices.Display, "warning", lambda _self, msg, **_kw: warned.append(msg))
    stays = {"verdict": "blocked", "phase": "", "target": "", "at": "host-a"}
    moves = {**stays, "verdict": "pending", "name": "web", "reason": "", "message": "", "remedy": ""}
    stays |= {"name": "old", "reason": "Paused", "message": "It is paused.", "remedy": "Resume it."}
    answer = {
        **slice_of("Draining", changed=True),
        "vms": [moves, stays],
        "planned": [{"do": "cordon", "vm": "", "target": ""}, {"do": "migrate", "vm": "web", "target": "host-b"}],
        "would_stay": ["old"],
        "predicted_duration": 12.4,
    }
    moves |= {"predicted_duration": 8.91, "predicted_pause_ms": 40.0}
    run_slices(Host(answer).call, {"state": "drained"}, GOOD, True)
    assert said == [
        "host-a  would be cordoned",
        "web  would be migrated  -> host-b  about 8.9 s, pause 40 ms",
        "old blocked, Paused: It is paused. Resume it.",
        "host-a  about 12 s in total, without old",
    ]
    assert warned == ["host-a would not become Drained because of old (Paused)."]


def test_check_mode_does_not_warn_of_what_would_go_well(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(_slices.Display, "warning", lambda _self, msg, **_kw: warned.append(msg))
    answer = {**slice_of("Draining", changed=True), "would_stay": [], "planned": []}
    result = run_slices(Host(answer).call, {"state": "drained"}, GOOD, True)
    assert warned == [] and not result.get("failed")


def test_no_slice_begins_after_ansible_playbook_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker lives on. On real processes: tests/kubevirt/test_orphan.py."""
    host = Host(slice_of("Draining", "out_of_time"), slice_of("Drained"))
    monkeypatch.setattr(_controller, "_seen", {os.getpid(): (4711, "4711 99 here")})
    parents = [4711, 1]
    monkeypatch.setattr(_controller.os, "getppid", lambda: parents.pop(0))
    with pytest.raises(AnsibleActionFail, match="same command"):
        host.run()
    assert [call["playbook"] for call in host.calls] == ["4711 99 here"]


def test_what_keeps_it_from_beginning_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has not begun then: the next call is a first one again, with what was handed over."""
    shown: list[str] = []
    monkeypatch.setattr(_slices.Display, "display", lambda _self, text, **_more: shown.append(text))
    waits = {**slice_of("Restoring", "out_of_time"), "waits_for": "It waits for a Lease."}
    host = Host({**waits, "cursor": "c1"}, {**waits, "cursor": "c2"}, slice_of("Drained"))
    host.run()
    assert [line[9:] for line in shown] == ["host-a  Restoring  It waits for a Lease.", "host-a is drained: no VMs"]
    assert [call.get("begun", False) for call in host.calls] == [False, False, False]
    assert [call.get("cursor") for call in host.calls] == [None, "c1", "c2"]


AWAY = {"failed": True, "error": "NoAnswer", "msg": "GET /api/v1/nodes: no answer", "cursor": "left []"}


def test_an_api_that_restarts_is_asked_again_and_it_is_said_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slice that was ended hands over who it was. So is what is asked first."""
    told: list[str] = []
    monkeypatch.setattr(_slices.Display, "display", lambda _self, text, **_more: told.append(text))
    monkeypatch.setattr(_slices, "Unanswered", lambda say: Unanswered(say, sleep=lambda _seconds: None))
    host = Host(slice_of("Draining", "out_of_time"), {**AWAY}, {**AWAY}, slice_of("Drained"))
    result = host.run()
    assert (result["phase"], "failed" in result) == ("Drained", False)
    assert [args.get("cursor") for args in host.calls] == [None, None, "left []", "left []"]
    (said,) = [text for text in told if "The API does not answer" in text]
    assert "/api/v1/nodes" in said
    assert Host({**AWAY}, slice_of("Drained")).run()["phase"] == "Drained"


def test_an_api_that_stays_away_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10000, 20))
    monkeypatch.setattr(
        _slices, "Unanswered", lambda warn: Unanswered(warn, lambda: float(next(clock)), lambda _s: None)
    )
    host = Host(slice_of("Draining", "out_of_time"), *[{**AWAY} for _time in range(20)])
    assert host.run()["failed"] is True
    assert LONGEST / 20 <= len(host.calls) <= LONGEST / 20 + 4
