# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import own_uuid
from ansible_collections.virtops.maintenance.plugins.plugin_utils._given import given
from ansible_collections.virtops.maintenance.plugins.plugin_utils._rules import check_rules
from ansible_collections.virtops.maintenance.plugins.plugin_utils._slices import run_slices

MODULE = "virtops.maintenance.virt_migration"
GOOD = {"migrated": "Migrated", "aborted": "Active"}


class ActionModule(ActionBase):
    """Calls virt_migration slice by slice and shows what changed. Decides nothing."""

    _supports_check_mode = True
    position = None  # says which VM of those it is that a roll moves back; set by who runs this action in a roll

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        check_rules(self._task.args)

        def call(args: dict[str, Any]) -> dict[str, Any]:
            return self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars)

        args = {"controller_uuid": own_uuid(), **given(self._task.args)}
        result = run_slices(call, args, GOOD, bool(self._task.check_mode), self.position)
        return {**base, **result}
