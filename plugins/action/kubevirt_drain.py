# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.promise import is_due, with_preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.unsupported import lines
from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import own_run, own_uuid
from ansible_collections.virtops.maintenance.plugins.plugin_utils._given import given
from ansible_collections.virtops.maintenance.plugins.plugin_utils._rules import check_hooks, check_rules
from ansible_collections.virtops.maintenance.plugins.plugin_utils._slices import run_slices

MODULE = "virtops.maintenance.kubevirt_drain"
PREFLIGHT = "virtops.maintenance.kubevirt_preflight"
# Options of the drain that a preflight does not have.
NOT_OF_A_PREFLIGHT = {
    *("state", "lock_namespace", "abort", "hooks_done", "roll_run", "cursor", "speeds", "playbook"),
    *("run_id", "requester", "reason", "slice", "begun", "force_stop", "shutdown_timeout", "limits", "max_attempts"),
    *("backoff", "external_timeout", "unknown_timeout", "pending_timeout", "drain_timeout"),
}
GOOD = {"drained": "Drained", "cordoned": "Cordoned", "active": "Active"}


class ActionModule(ActionBase):
    """Calls kubevirt_drain slice by slice and shows what changed. Decides nothing."""

    _supports_check_mode = True
    position = None  # says where the host is in its roll; set by who runs this action in a roll

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        check_rules(self._task.args)
        check_hooks(self._task.args, self._loader)

        def call(args: dict[str, Any]) -> dict[str, Any]:
            found = self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars)
            if self._task.check_mode and is_due(found, str(args.get("state") or "drained")):
                found = self._beside(found, args, task_vars)
            unmet = lines(found.get("vms") or ())
            return {**found, "warnings": [*(found.get("warnings") or ()), *unmet]} if unmet else found

        # The cursor: each slice hands one to the next.
        args = {"controller_uuid": own_uuid(), "roll_run": own_run(), **given(self._task.args), "cursor": ""}
        result = run_slices(call, args, GOOD, bool(self._task.check_mode), self.position)
        return {**base, **result}

    def _beside(self, found: dict[str, Any], args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        """What check mode has found, with what a preflight finds in the way."""
        asked = {key: value for key, value in args.items() if key not in NOT_OF_A_PREFLIGHT}
        seen = self._execute_module(module_name=PREFLIGHT, module_args=asked, task_vars=task_vars)
        if "findings" not in seen:
            return dict(seen)
        return with_preflight(found, seen["findings"], Platform.KUBEVIRT)
