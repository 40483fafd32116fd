"""Rules are checked before a host is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader

from ansible_collections.virtops.maintenance.plugins.action import (
    kubevirt_drain,
    virt_drain,
    virt_host_info,
    virt_migration,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._policy import expression
from ansible_collections.virtops.maintenance.plugins.plugin_utils._rules import check_hooks, check_rules

WRONG = {"rules": [{"name": "big", "when": "memori_mib > `5`"}]}
PLUGINS = (virt_drain, virt_host_info, virt_migration)


class Task:
    """As much of a task as an action plugin looks at."""

    async_val = False
    check_mode = False
    diff = False

    def __init__(self, args: dict[str, Any]) -> None:
        self.args = args


def action(plugin: Any, args: dict[str, Any], calls: list[Any]) -> Any:
    """The action plugin, without the connection that it would need to get to a host."""
    made = object.__new__(plugin.ActionModule)
    made._task = Task(args)
    made._loader = DataLoader()

    def execute(**kwargs: Any) -> dict[str, Any]:
        calls.append(kwargs)
        return {"failed": True, "msg": "reached the host"}

    made._execute_module = execute
    return made


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_wrong_rule_never_gets_to_a_host(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda *_args: {})
    calls: list[Any] = []
    with pytest.raises(AnsibleActionFail, match=r"rules\[0\] \(big\), when: .*memory_mib"):
        action(plugin, WRONG, calls).run()
    assert calls == []
    right = {"rules": [{"name": "big", "when": "memory_mib > `5`"}]}
    assert action(plugin, right, calls).run()["msg"] == "reached the host"
    assert len(calls) == 1


def test_a_rule_may_build_on_the_settings_of_the_task() -> None:
    migration = {"on_timeout": "post_copy"}
    check_rules({"migration": {"post_copy": True}, "rules": [{"name": "a", "migration": migration}]})


def test_without_the_library_here_the_host_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expression, "jmespath", None)
    check_rules(WRONG)
    check_rules({})


@pytest.mark.parametrize("plugin", [virt_drain, kubevirt_drain])
def test_a_hook_without_its_file_never_gets_to_a_host(
    plugin: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda *_args: {})
    monkeypatch.chdir(tmp_path)
    hooks = {"before": "out.yml", "after": str(tmp_path / "back.yml")}
    args = {"node": "n1", "rules": [{"name": "web", "hooks": hooks}]}
    (tmp_path / "out.yml").touch()
    calls: list[Any] = []
    text = rf"rules\[0\] \(web\), hooks\.after: there is no file {tmp_path}/back\.yml"
    with pytest.raises(AnsibleActionFail, match=text):
        action(plugin, args, calls).run()
    assert calls == []
    (tmp_path / "back.yml").touch()
    assert action(plugin, args, calls).run()["msg"] == "reached the host"


@pytest.mark.parametrize("rules", [None, [], "text", [5], [{"hooks": "x"}], [{"hooks": {"a": 5}}]])
def test_what_is_no_hook_is_left_to_the_check_of_rules(rules: Any) -> None:
    check_hooks({"rules": rules}, DataLoader())
