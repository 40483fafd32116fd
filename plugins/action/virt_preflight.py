# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import own_uuid
from ansible_collections.virtops.maintenance.plugins.plugin_utils._given import given
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain_findings
from ansible_collections.virtops.maintenance.plugins.plugin_utils._rules import check_rules

MODULE = "virtops.maintenance.virt_preflight"


class ActionModule(ActionBase):
    """Checks the rules here, says which machine this is, then calls virt_preflight."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        check_rules(self._task.args)
        args = {"controller_uuid": own_uuid(), **given(self._task.args)}
        result = self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars)
        return {**base, **plain_findings(result)}
