# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.virtops.maintenance.plugins.plugin_utils._given import given
from ansible_collections.virtops.maintenance.plugins.plugin_utils._host import HostOfRoll, checked, shown
from ansible_collections.virtops.maintenance.plugins.plugin_utils._report import of_task

_SPEC: dict[str, Any] = {
    "state": {
        "type": "str",
        "choices": ["out", "empty", "healthy", "back", "drained", "active", "checked"],
        "required": True,
    },
    "platform": {"type": "str", "choices": ["libvirt", "kubevirt"], "default": "libvirt"},
    "roll_host": {"type": "str", "default": ""},
    "preflight": {"type": "dict", "default": {}},
    "drain": {"type": "dict", "default": {}},
    "restore": {"type": "dict", "default": {}},
    "steps": {"type": "list", "elements": "str", "default": []},
    "turn": {"type": "dict", "default": {}},
    "work": {"type": "bool", "default": False},
    "checks": {"type": "bool", "default": False},
    "reboot": {"type": "str", "choices": ["always", "never", "auto"], "default": "never"},
    "hooks_were_run": {"type": "bool", "default": False},
    "lost": {"type": "bool", "default": False},
    "fail_on": {"type": "str", "choices": ["blockers", "node_blockers", "nothing"], "default": "node_blockers"},
    "retries": {"type": "int", "default": 0},
    "reach_for": {"type": "int", "default": 0},
}
_ACTIONS = {"roll": "maintenance_roll", "preflight": "{}_preflight", "drain": "{}_drain", "restore": "{}_drain"}
# Options of the record of a roll, which have their defaults from the play.
_ROLL = ("node", "uri", "peers", "slots_on")
# Of a failure in a roll these are left out.
_DETAILS = ("vms", "pods", "counts", "certificate", "findings", "needs", "diff", "outcomes", "roll")
# In a roll these have to end in the failure of the host, which its playbook records.
_OF_A_ROLL = ("out", "empty", "healthy", "back")


class ActionModule(ActionBase):
    """Calls the actions of the platform one after the other. Decides nothing."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        args = given(self._task.args)
        own = {name: args.pop(name) for name in _SPEC if name in args}
        self._task.args = own
        _result, options = self.validate_argument_spec(_SPEC)
        # What is left says how the API and the record are reached.
        self._reach, self._options, self._vars = args, options, task_vars
        found = self._carry_out(options)
        if found.get("failed") and options["state"] in _OF_A_ROLL:
            # Ansible prints a failure as JSON: in words is enough, and the report has the rest.
            found = {key: value for key, value in found.items() if key not in _DETAILS}
        return {**base, **found}

    def _carry_out(self, options: Mapping[str, Any]) -> dict[str, Any]:
        state, node = options["state"], options["roll_host"]
        if state in ("drained", "active"):
            return self._act("drain" if state == "drained" else "restore", {})
        if state == "checked":
            return checked(self._act, options["preflight"]["node"], options["fail_on"], options["retries"])
        show = shown(self._display.display, node)
        self._host = host = HostOfRoll(
            self._act, show, node, bool(self._task.check_mode), options["turn"], options["checks"]
        )
        if state == "out":
            wanted = {"work": options["work"], "reboot": options["reboot"] != "never"}
            return self._asked(host.out(wanted, options["fail_on"], options["reach_for"]))
        if options["lost"]:
            return {"failed": True, "msg": self._is_lost("it does not answer")}
        if state == "empty":
            return self._asked(host.empty(options["steps"], hooks=not options["hooks_were_run"]))
        return (host.healthy if state == "healthy" else host.back)(options["retries"])

    def _asked(self, found: dict[str, Any]) -> dict[str, Any]:
        """Whether a reboot is needed the host is asked by the playbook, on its own connection."""
        auto = {"reboot": "reboot_if_needed"} if self._options["reboot"] == "auto" else {}
        return {**found, "next": [auto.get(one, one) for one in found.get("next", ())]}

    def _is_lost(self, why: str) -> str:
        return f"{self._options['roll_host']} cannot be reached: {why}"

    def _act(self, kind: str, more: Mapping[str, Any]) -> dict[str, Any]:
        """Run the action of that kind in the place of this one."""
        platform = self._options["platform"]
        kubevirt = platform == "kubevirt"
        name = _ACTIONS[kind].format("kubevirt" if kubevirt else "virt")
        task = self._task.copy()
        if kind == "roll":
            task.args = {"platform": platform, **self._reach, **more}
        else:
            reach = {key: value for key, value in self._reach.items() if key not in _ROLL} if kubevirt else {}
            task.args = {**reach, **self._options[kind], **more}
        in_roll = self._options["state"] in _OF_A_ROLL
        if in_roll and kind != "roll" and "peers" in task.args:
            task.args["peers"] = self._host.ranked(task.args["peers"])
        action = self._shared_loader_obj.action_loader.get(
            f"virtops.maintenance.{name}",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        if in_roll and kind in ("drain", "restore"):
            action.position = self._host.position
        try:
            found = dict(action.run(task_vars=self._vars))
        except AnsibleConnectionFailure as exc:
            if not in_roll:
                raise
            return {"failed": True, "msg": self._is_lost(str(exc))}
        if in_roll and kind in ("drain", "restore"):
            report = of_task(self._templar, self._vars, bool(self._task.check_mode))
            (report.drain if kind == "drain" else report.restore)(self._options["roll_host"], found)
        return found
