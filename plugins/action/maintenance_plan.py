# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan import text
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import notifications
from ansible_collections.virtops.maintenance.plugins.plugin_utils._fleet import of_inventory
from ansible_collections.virtops.maintenance.plugins.plugin_utils._given import given
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain, plain_diff
from ansible_collections.virtops.maintenance.plugins.plugin_utils._plan import FAULTS, SPEC, plan_of, write
from ansible_collections.virtops.maintenance.plugins.plugin_utils._rules import check_rules


class ActionModule(ActionBase):
    """Makes the plan here, prints its table, and writes its file."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        check_rules(self._task.args)
        self._task.args = given(self._task.args)
        _result, options = self.validate_argument_spec(SPEC)
        dest = options["dest"]
        if dest and not Path(dest).absolute().parent.is_dir():
            raise AnsibleActionFail(f"dest: there is no directory {Path(dest).absolute().parent} on the controller.")
        try:
            plan = plan_of(options, of_inventory(options["max_unavailable_per"], (task_vars or {}).get("hostvars", {})))
        except FAULTS as exc:
            return {**base, "failed": True, "msg": str(exc), "error": type(exc).__name__}
        try:
            changed = write(plan, dest, bool(self._task.check_mode)) if dest else False
        except (OSError, ValueError) as exc:
            return {**base, "failed": True, "msg": f"dest {dest}: {exc}", "error": type(exc).__name__}
        table = text.table(plan)
        for line in table:
            Display().display(plain(line))
        # Ansible prints what is called warnings by itself, and the table has them.
        found = {key: value for key, value in plan.items() if key != "warnings"}
        found |= {"warnings_of_plan": plan["warnings"], "summary": text.summary(plan), "table": table}
        found["stats"] = notifications.of_plan(plan)
        if self._task.diff:
            found["diff"] = plain_diff(text.diff(options["vms"], plan))
        return {**base, "changed": changed, **found}
