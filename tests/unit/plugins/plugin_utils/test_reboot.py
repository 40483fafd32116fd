"""A reboot takes minutes, and says meanwhile why the host is not back."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from threading import Event
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action.reboot import ActionModule as Ansibles

from ansible_collections.virtops.maintenance.plugins.action import maintenance_host_reboot
from ansible_collections.virtops.maintenance.plugins.action.maintenance_host_reboot import ActionModule, Told


def failing(exc: Exception) -> Callable[..., None]:
    def tries(**_more: object) -> None:
        raise exc

    return tries


@pytest.mark.parametrize(
    ("exc", "why"),
    [
        (ValueError("boot time has not changed"), "it has not gone down yet"),
        (AnsibleConnectionFailure("Failed to connect: port 22: timed out"), "it does not answer yet"),
        (RuntimeError("Test command failed: \nsudo: not yet\n"), "it answers, and sudo: not yet"),
        (RuntimeError(), "it answers, and RuntimeError"),
    ],
)
def test_now_and_then_a_line_says_why_it_is_not_back(exc: Exception, why: str) -> None:
    lines: list[str] = []
    clock = [0.0]
    told = Told("host-a", lines.append, lambda: clock[0])
    for at in (1.0, 14.0, 16.0, 20.0, 31.5, 40.0):
        clock[0] = at
        with pytest.raises(type(exc)):
            told.tries(failing(exc))
    assert [line.partition(" ")[2] for line in lines] == [
        f"host-a has been rebooting for {at} s: {why}" for at in (16, 32)
    ]


def test_ansible_tries_by_the_method_that_ours_is_called_by() -> None:
    """It is no promise of Ansible's: without it only the lines are missing."""
    assert [*inspect.signature(Ansibles.do_until_success_or_timeout).parameters][:2] == ["self", "action"]
    assert "boot time has not changed" in inspect.getsource(Ansibles.check_boot_time)


@pytest.mark.parametrize(
    ("asked", "sleeps", "reboots"),
    [({"boot": 0.0, "wall": 0.0}, 10.0, True), ({"boot": 0.0, "wall": 0.0}, 60.0, False), ({}, 60.0, True)],
)
def test_a_host_is_not_rebooted_after_its_controller_stood_still(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, float], sleeps: float, reboots: bool
) -> None:
    """Ansible asks the host much before its reboot: that is over when the clock is read."""
    given, clock = [], [0.0]

    def looks_for_shutdown(_self: ActionModule, **_words: object) -> dict[str, object]:
        clock[0] += sleeps
        return {"files": [{"path": "/sbin/shutdown"}]}

    def gives(_self: ActionModule, command: str, **_words: object) -> dict[str, object]:
        given.append(command)
        return {"rc": 0}

    monkeypatch.setattr(ActionModule, "_execute_module", looks_for_shutdown)
    monkeypatch.setattr(ActionModule, "_low_level_execute_command", gives)
    monkeypatch.setattr(maintenance_host_reboot, "clocks", lambda: {"boot": 0.0, "wall": clock[0]})
    monkeypatch.setattr(maintenance_host_reboot, "playbook", lambda: (1, ""))
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={}, action="reboot")
    action._host, action._asked = "host-a", asked
    debian = {"name": "debian", "version": "12", "family": "debian"}
    with nullcontext() if reboots else pytest.raises(AnsibleActionFail, match="60 s passed since it was asked"):
        action.perform_reboot({}, debian)
    assert [command.split()[0] for command in given] == ["/sbin/shutdown"] * reboots


def test_a_worker_whose_playbook_was_killed_reboots_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended() -> tuple[int, str]:
        raise AnsibleActionFail("ansible-playbook ended")

    monkeypatch.setattr(maintenance_host_reboot, "playbook", ended)
    action = ActionModule.__new__(ActionModule)
    action._host, action._asked = "host-a", {}
    with pytest.raises(AnsibleActionFail):
        action.get_shutdown_command_args({})
    with pytest.raises(AnsibleActionFail):
        action.run()


def test_what_ansible_tries_is_tried_as_it_was() -> None:
    action, tried = ActionModule.__new__(ActionModule), []
    action._told = Told("host-a", tried.append, lambda: 0.0)
    action._task = None
    action.do_until_success_or_timeout(
        action=lambda **words: tried.append(words),
        reboot_timeout=600,
        action_desc="",
        distribution="debian",
        action_kwargs={"previous_boot_time": "b"},
    )
    assert tried == [{"distribution": "debian", "previous_boot_time": "b"}]


def test_a_host_that_hangs_after_its_reboot_is_asked_for_its_boot_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its task has no deadline, and a connection that is there may say nothing for ever."""
    action = ActionModule.__new__(ActionModule)
    monkeypatch.setattr(maintenance_host_reboot, "ANSWERS_WITHIN", 0.1)

    def hangs(_command: str) -> dict[str, str]:
        Event().wait(10)  # longer than it may take; bounded, where nothing ends it
        return {"stdout": "the same boot"}

    monkeypatch.setattr(ActionModule, "_low_level_execute_command", lambda _self, command: hangs(command))
    assert action._boot_id() == ""


@pytest.mark.parametrize(("transport", "rebooted"), [("local", False), ("ssh", True)])
def test_a_reboot_that_ansible_refuses_is_none(monkeypatch: pytest.MonkeyPatch, transport: str, rebooted: bool) -> None:
    """Over a local connection one reads the boot of the controller, which is another one."""
    refused = {"failed": True, "rebooted": False, "elapsed": 0, "msg": "would reboot the control node."}
    monkeypatch.setattr(Ansibles, "run", lambda *_given: refused)
    monkeypatch.setattr(ActionModule, "_boot_id", lambda _self: "of the controller")
    monkeypatch.setattr(maintenance_host_reboot, "playbook", lambda: (1, ""))
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={"boot_id": "of the node"})
    action._connection = SimpleNamespace(transport=transport)
    assert action.run(None, {})["rebooted"] is rebooted
