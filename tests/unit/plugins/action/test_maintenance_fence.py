"""Before a fence agent is called: is the last look at the host young enough, and does the playbook live?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.virtops.maintenance.plugins.action import maintenance_fence
from ansible_collections.virtops.maintenance.plugins.action.maintenance_fence import ActionModule

DEAD = {"maintenance_recovered": {"phase": "Unproven", "asked": {"boot": 0.0, "wall": 0.0}}}


def fence(
    monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any], now: float, playbook: Any = None, transport: str = "ssh"
) -> list[str]:
    """Return the modules that it called."""
    called: list[str] = []
    monkeypatch.setattr(ActionBase, "run", lambda *_words: {})
    monkeypatch.setattr(maintenance_fence, "clocks", lambda: {"boot": 0.0, "wall": now})
    monkeypatch.setattr(maintenance_fence, "playbook", playbook or (lambda: (1, "")))
    monkeypatch.setattr(maintenance_fence, "run_module", lambda _self, name, *_words: called.append(name) or {})
    action: Any = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={"host": "host-a"})
    action._connection = SimpleNamespace(transport=transport, set_become_plugin=lambda how: called.append(f"as {how}"))
    try:
        action.run(task_vars=facts)
    except AnsibleActionFail as exc:
        called.append(str(exc))
    return called


@pytest.mark.parametrize(("facts", "now"), [(DEAD, 40.0), ({}, 4000.0), ({"maintenance_recovered": {}}, 4000.0)])
def test_a_host_that_was_just_found_dead_is_switched_off(
    monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any], now: float
) -> None:
    """Or one of which only its user knows why."""
    assert fence(monkeypatch, facts, now) == ["maintenance_fence"]


def test_a_host_that_was_found_dead_long_ago_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    (why,) = fence(monkeypatch, DEAD, 60.0)
    assert "60 s passed" in why and "host-a, which may be in service again" in why


def test_on_the_controller_it_needs_no_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    """An execution environment has none, and a job template may say become for the hosts."""
    assert fence(monkeypatch, {}, 0.0, transport="local") == ["as None", "maintenance_fence"]


def test_a_worker_whose_playbook_was_killed_switches_nothing_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended() -> tuple[int, str]:
        raise AnsibleActionFail("ansible-playbook ended")

    assert fence(monkeypatch, DEAD, 1.0, ended) == ["ansible-playbook ended"]
