"""Rules are checked on the controller, before a host is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    MigrationSettings,
    PolicyError,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.expression import JMESPathMissing
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.rules import compile_rules
from ansible_collections.virtops.maintenance.plugins.plugin_utils._task_file import why_not


def check_rules(args: Mapping[str, Any]) -> None:
    """Raises AnsibleActionFail. The host checks again: without jmespath here, only the host does.

    A rule builds on the task's own migration settings, which the host knows exactly; here they
    are taken as allowing what a rule may ask for.
    """
    try:
        compile_rules(args.get("rules"), MigrationSettings(post_copy=True))
    except JMESPathMissing:
        return
    except PolicyError as exc:
        raise AnsibleActionFail(str(exc)) from exc


def check_hooks(args: Mapping[str, Any], loader: DataLoader) -> None:
    """Raises AnsibleActionFail for a hook whose task file cannot be run, before anything is done.

    Called after check_rules. What that could not look at for want of jmespath, the host refuses.
    """
    rules = args.get("rules") or []
    for number, rule in enumerate(rules if isinstance(rules, (list, tuple)) else []):
        hooks = rule.get("hooks") if isinstance(rule, Mapping) else None
        for hook, path in hooks.items() if isinstance(hooks, Mapping) else ():
            fault = why_not(path, loader) if isinstance(path, str) else ""
            if fault:
                where = f"rules[{number}] ({rule.get('name')}), hooks.{hook}"
                raise AnsibleActionFail(f"{where}: {fault}. Nothing was done.")
