# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import planned, words
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.host import Act, Asked, acts, ranked
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Stage
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.terms import reboot_mode
from ansible_collections.virtops.maintenance.plugins.plugin_utils._given import given
from ansible_collections.virtops.maintenance.plugins.plugin_utils._host import carry_out
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import in_roll, plain
from ansible_collections.virtops.maintenance.plugins.plugin_utils._report import of_task
from ansible_collections.virtops.maintenance.plugins.plugin_utils._roll import begun
from ansible_collections.virtops.maintenance.plugins.plugin_utils._unanswered import within

_SPEC: dict[str, Any] = {
    "state": {
        "type": "str",
        "choices": [
            *("looked", "reached", "out", "empty", "reboots", "healthy", "back", "home"),
            *("drained", "active", "moved", "checked"),
        ],
        "required": True,
    },
    "platform": {"type": "str", "choices": ["libvirt", "kubevirt"], "default": "libvirt"},
    "roll_host": {"type": "str", "default": ""},
    "preflight": {"type": "dict", "default": {}},
    "drain": {"type": "dict", "default": {}},
    "restore": {"type": "dict", "default": {}},
    "move": {"type": "dict", "default": {}},
    "steps": {"type": "list", "elements": "str", "default": []},
    "turn": {"type": "dict", "default": {}},
    "work": {"type": "bool", "default": False},
    "checks": {"type": "bool", "default": False},
    "reboot": {"type": "raw"},
    "hooks_were_run": {"type": "bool", "default": False},
    "lost": {"type": "bool", "default": False},
    "fail_on": {"type": "str", "choices": ["blockers", "node_blockers", "nothing"], "default": "node_blockers"},
    "healthy_within": {"type": "int", "default": 0},
    "shown": {"type": "list", "elements": "str", "default": []},
    "moves": {"type": "list", "elements": "dict", "default": []},
}
_ACTIONS = {
    "roll": "maintenance_roll",
    "preflight": "{}_preflight",
    "drain": "{}_drain",
    "restore": "{}_drain",
    "move": "{}_migration",
}
# Of these each line says how far the roll is.
_PATIENCE = 60  # seconds for a host that says nothing
_LONG = ("drain", "restore", "move")
# Of a failure in a roll these are left out.
_DETAILS = ("vms", "pods", "counts", "certificate", "findings", "needs", "diff", "outcomes", "roll")


class ActionModule(ActionBase):
    """Calls the actions of the platform one after the other. Decides nothing."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        args = given(self._task.args)
        own = {name: args.pop(name) for name in _SPEC if name in args}
        self._task.args = own
        _result, options = self.validate_argument_spec(_SPEC)
        # What is left says how the API is reached.
        self._reach, self._options, self._vars = args, options, task_vars
        if options["state"] == "reached":
            if reboot_mode(options["reboot"]) == "never":
                return {**base, "skipped": True}
            return {**base, "changed": False, "unreached": planned.unreached(options["roll_host"], self._unreached())}
        asked = self._asked(options)
        found = carry_out(acts(asked), self._act, self._display.display, asked.host)
        if asked.needs_own_connection:
            # The look went over the connection that the reboot takes, so there is one.
            found["unreached"] = planned.unreached(asked.host, self._own_connection())
        if found.get("failed") and asked.in_roll:
            # Ansible prints a failure as JSON: in words is enough, and the report has the rest.
            found = {key: value for key, value in found.items() if key not in _DETAILS}
        return {**base, **found}

    def _own_connection(self) -> str:
        """Why it is none for a reboot of another machine, or empty."""
        return planned.LOCAL if self._connection.transport == "local" else ""

    def _unreached(self) -> str:
        """Why a reboot could not reach it, or empty. Needs a shell there and no Python, as the reboot does."""
        if self._own_connection():
            return self._own_connection()
        try:
            with within(_PATIENCE):
                self._low_level_execute_command("true", sudoable=False)
        except (AnsibleConnectionFailure, TimeoutError) as exc:
            return (plain(str(exc)).strip().splitlines() or [f"it sent nothing for {_PATIENCE} s"])[0]
        return ""

    def _asked(self, options: Mapping[str, Any]) -> Asked:
        asked = {key: value for key, value in options.items() if key in Asked.__dataclass_fields__}
        host = options["roll_host"] if options["state"] != "checked" else options["preflight"]["node"]
        asked["reboot"] = reboot_mode(options["reboot"])
        if options["state"] == "out":
            roll = begun(self._vars["hostvars"], self._vars["ansible_play_hosts_all"])
            entries = (roll.get("roll") or {}).get("hosts", ())
            asked["rebooting"] = any(one["name"] == host and one["stage"] == Stage.REBOOTING.value for one in entries)
            asked["planned"] = roll.get("targets", {}).get(host, {})
        return Asked(**asked, host=host, check=bool(self._task.check_mode), now=time.monotonic)

    def _act(self, act: Act) -> dict[str, Any]:
        """Run the action of that kind in the place of this one."""
        kind, kubevirt = act.kind, self._options["platform"] == "kubevirt"
        name = _ACTIONS[kind].format("kubevirt" if kubevirt else "virt")
        task = self._task.copy()
        if kind == "roll":
            request = {key: value for key, value in act.options.items() if key != "state"}
            task.args = {**self._reach, "state": act.options["state"], "request": request}
        else:
            task.args = {**(self._reach if kubevirt else {}), **self._options[kind], **act.options}
        if act.turn is not None and kind != "roll" and "peers" in task.args:
            task.args["peers"] = ranked(task.args["peers"], act.turn)
        action = self._shared_loader_obj.action_loader.get(
            f"virtops.maintenance.{name}",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        if act.turn is not None and kind != "roll":
            action.position = functools.partial(in_roll, act.turn)  # until when it takes passes meanwhile
        try:
            found = dict(action.run(task_vars=self._vars))
        except AnsibleConnectionFailure as exc:
            if act.turn is None:
                raise
            # A failure, which the playbook of the roll can record.
            return {"failed": True, "msg": words.is_lost(self._options["roll_host"], str(exc))}
        if act.turn is not None and kind in _LONG:
            report = of_task(self._templar, self._vars, bool(self._task.check_mode))
            told = {"drain": report.drain, "restore": report.restore, "move": report.moved_back}
            told[kind](act.options["target"] if kind == "move" else self._options["roll_host"], found)
        return found
