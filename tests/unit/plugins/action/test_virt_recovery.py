"""The views that an action makes: of Ansible's own connection, and of a peer that looks or cannot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure

from ansible_collections.virtops.maintenance.plugins.action import kubevirt_recovery, virt_recovery
from ansible_collections.virtops.maintenance.plugins.action.virt_recovery import ActionModule, _last_look
from ansible_collections.virtops.maintenance.plugins.plugin_utils import _unanswered

SEEN = {"by": "host-b", "at": "t", "answers": False, "libvirt": False, "guests": [], "text": "tried", "looked": True}


def action(monkeypatch: pytest.MonkeyPatch, came: Any) -> Any:
    """One whose module, and whose connection, end so."""

    def ends(*_words: Any, **_more: Any) -> Any:
        if isinstance(came, Exception):
            raise came
        return came

    made: Any = ActionModule.__new__(ActionModule)
    made._task = SimpleNamespace(args={"state": "seen", "host": "host-a", "node": "host-b"})
    made._connection = SimpleNamespace(reset=lambda: None)
    monkeypatch.setattr(virt_recovery, "own_uuid", lambda: "")
    monkeypatch.setattr(made, "_execute_module", ends, raising=False)
    monkeypatch.setattr(made, "_low_level_execute_command", ends, raising=False)
    return made


@pytest.mark.parametrize(
    ("came", "text"),
    [
        ({"failed": True, "msg": "Python's libvirt binding\nis missing"}, "Python's libvirt binding is missing"),
        ({"unreachable": True, "msg": "no route to host"}, "no route to host"),
        (AnsibleConnectionFailure("no route to host"), "no route to host"),
        ({}, "it gave no answer"),
    ],
)
def test_a_peer_that_cannot_look_is_a_view_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, came: Any, text: str
) -> None:
    view = action(monkeypatch, came)._of_peer({})
    assert (view["by"], view["looked"], view["answers"]) == ("host-b", False, False)
    assert text in view["text"]


def test_what_a_peer_saw_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    view = action(monkeypatch, {"view": SEEN})._of_peer({})
    assert view.pop("asked")["boot"] > 0 and view == SEEN


@pytest.mark.parametrize(("views", "last"), [([3.0, 5.0, 4.0], 5.0), ([], 9.0), ([3.0, None], 3.0)])
def test_a_host_was_looked_at_when_the_last_peer_did(views: list[float | None], last: float) -> None:
    """One that could not look saw nothing; where no peer looks, as with KubeVirt, the module does."""
    given = [{**SEEN, "looked": at is not None, "asked": {"boot": at or 8.0}} for at in views]
    assert _last_look({"views": given}, {"boot": 9.0}) == {"boot": last}


@pytest.mark.parametrize(
    ("came", "answers", "text"),
    [
        ({"stdout": "b1\nidle\n"}, True, "Ansible reaches it"),
        ({"stdout": "b1\n"}, True, "Ansible reaches it"),
        ({}, True, "Ansible reaches it"),
        (AnsibleAuthenticationFailure("denied"), True, "it refuses Ansible's login"),
        (AnsibleConnectionFailure("no route to host"), False, "no route to host"),
        (TimeoutError(), False, "did not answer within"),
    ],
)
def test_what_ansible_s_own_connection_says(
    monkeypatch: pytest.MonkeyPatch, came: Any, answers: bool, text: str
) -> None:
    view = action(monkeypatch, came)._own_connection()
    assert (view["by"], view["answers"]) == ("controller", answers) and text in view["text"]
    said = came.get("stdout", "") if isinstance(came, dict) else ""
    assert (view["boot_id"], view["idle"]) == ("b1" if said else "", "idle" in said)


def test_an_api_that_does_not_answer_is_asked_again_as_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node that died may be one of the control plane's: its API comes back on another one."""
    asked: list[dict[str, Any]] = []
    away = {"failed": True, "error": "NoAnswer", "msg": "no answer"}
    goes_on = {"phase": "Recovering", "run_id": "r", "watched": {"lease": 5.0}}
    answers = iter([away, goes_on, away, away, {"phase": "Recovered", "run_id": "r"}])

    def module(_action: Any, _name: str, args: Any, _vars: Any) -> dict[str, Any]:
        asked.append(dict(args))
        return {"host": "n1", "message": "", "vms": [], **next(answers)}

    made: Any = kubevirt_recovery.ActionModule.__new__(kubevirt_recovery.ActionModule)
    made._task = SimpleNamespace(args={"node": "n1", "run_id": "4711"}, check_mode=False)
    monkeypatch.setattr(virt_recovery.ActionBase, "run", lambda *_words: {})
    for name in ("own_run", "playbook"):
        monkeypatch.setattr(virt_recovery, name, lambda: ("", ""))
    monkeypatch.setattr(kubevirt_recovery, "own_run", lambda: "")
    monkeypatch.setattr(virt_recovery, "run_module", module)
    monkeypatch.setattr(_unanswered, "PAUSE", 0.0)
    result = made.run(None, {})
    assert result["phase"] == "Recovered" and len(asked) == 5
    assert len({args["run_id"] for args in asked[:2]}) == 1
    assert [args.get("watched", {}).get("lease") for args in asked] == [None, None, 5.0, 5.0, 5.0]
    assert 0 < asked[2]["watched"]["seconds"] < 60
    # Another run with the same id is another run: what that one proved proves nothing now.
    assert asked[0]["run_id"].startswith("4711-") and len(asked[0]["run_id"]) > len("4711-")
