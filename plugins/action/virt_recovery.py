# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleAuthenticationFailure, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.looks import CONTROLLER, View
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.told import event, stats
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.own_boot import BOOT_ID
from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import clocks, own_run, own_uuid, playbook
from ansible_collections.virtops.maintenance.plugins.plugin_utils._given import given
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain, stamped
from ansible_collections.virtops.maintenance.plugins.plugin_utils._module import run_module
from ansible_collections.virtops.maintenance.plugins.plugin_utils._recovery import failure, lines, unprotected, warnings
from ansible_collections.virtops.maintenance.plugins.plugin_utils._rules import check_rules
from ansible_collections.virtops.maintenance.plugins.plugin_utils._unanswered import Unanswered, within

MODULE = "virt_recovery"
# Seconds for a word from the host. A connection that ssh keeps (ControlPersist) waits for TCP, a quarter of an hour.
_PATIENCE = 15
# Its boot id, and whether no QEMU runs there: of a host that lets us see all its processes.
_QEMU = "grep -Eqsa '[q]emu-(system|kvm)' /proc/[0-9]*/cmdline"
_ASKED = f"cat {BOOT_ID}; test -r /proc/1/cmdline && ! {_QEMU} && echo idle"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _last_look(args: Mapping[str, Any], now: dict[str, float]) -> dict[str, float]:
    """When a peer looked last, by the controller's clocks; `now`: the module itself looks."""
    looked = [view["asked"] for view in args.get("views") or () if view.get("looked") and "asked" in view]
    return max(looked, key=lambda at: float(at["boot"]), default=now)


class ActionModule(ActionBase):
    """Calls virt_recovery slice by slice and shows what changed. Decides nothing."""

    _supports_check_mode = True
    module = MODULE

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        if self._task.args.get("state") == "seen" and not self._task.args.get("host"):
            return {**base, "view": self._own_connection(), "changed": False}
        if self._task.args.get("state") == "seen":
            return {**base, "view": self._of_peer(task_vars), "changed": False}
        check_rules(self._task.args)
        args = {**self._of_controller(), **given(self._task.args)}
        # What the user gives may be that of an earlier run, which is another one.
        args["run_id"] = f"{args.get('run_id') or int(time.time())}-{secrets.token_hex(3)}"
        shown: set[str] = set()
        changed, begun = False, time.monotonic()
        unanswered, answered = Unanswered(Display().display), False
        while True:
            asked = _last_look(args, clocks())
            result = run_module(self, self.module, {**args, "playbook": playbook()[1]}, task_vars)
            if unanswered.again(result, not answered):
                continue
            answered = True
            changed = changed or bool(result.get("changed"))
            result["changed"] = changed
            for line in lines(result, bool(self._task.check_mode)):
                if line not in shown:
                    Display().display(stamped(plain(line)))
                    shown.add(line)
            for text in warnings(result):
                if text not in shown:
                    Display().warning(plain(text))
                    shown.add(text)
            result.pop("warned", None)
            if result.get("phase") != "Recovering":
                break
            args |= self._of_next(result, time.monotonic() - begun)
        if why := unprotected(result, bool(self._task.check_mode)):
            raise AnsibleActionFail(plain(why))
        result["not_done"], result["asked"] = failure(result), asked
        if "looks" in result:
            result["stats"], result["event"] = stats(result), event(result, result["not_done"])
        return {**base, **result}

    def _of_controller(self) -> dict[str, Any]:
        return {"controller_uuid": own_uuid(), "roll_run": own_run()}

    def _of_next(self, _result: Mapping[str, Any], _waited: float) -> dict[str, Any]:
        """Return the options that the next slice is given. `_result`: of the slice before; `_waited`: seconds since the
        first one."""
        return {}

    def _of_peer(self, task_vars: Any) -> dict[str, Any]:
        """Return the view of a peer. That it cannot look, and why, is a view, too."""
        try:
            result = run_module(self, MODULE, {"controller_uuid": own_uuid(), **self._task.args}, task_vars)
        except AnsibleConnectionFailure as exc:
            result = {"msg": str(exc)}
        if "view" in result:
            return {**result["view"], "asked": clocks()}
        text = plain(" ".join(str(result.get("msg") or "it gave no answer").split()))
        return View(str(self._task.args.get("node")), _now(), text=text, looked=False).to_dict()

    def _own_connection(self) -> dict[str, Any]:
        """Does the host answer to Ansible? A login that is refused is an answer."""
        at, said = _now(), [""]
        try:
            with within(_PATIENCE):
                said = str(self._low_level_execute_command(_ASKED).get("stdout", "")).split() or said
            answers, text = True, "Ansible reaches it"
        except AnsibleAuthenticationFailure:
            answers, text = True, "it refuses Ansible's login"
        except AnsibleConnectionFailure as exc:
            answers, text = False, plain(str(exc))
        except TimeoutError:
            answers, text = False, f"Ansible's connection did not answer within {_PATIENCE} s"
            if hasattr(self._connection, "reset"):
                self._connection.reset()
        return View(CONTROLLER, at, answers, text=text, boot_id=said[0], idle=said[1:] == ["idle"]).to_dict()
