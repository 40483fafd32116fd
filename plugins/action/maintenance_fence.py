# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import too_old
from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import clocks, playbook
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain
from ansible_collections.virtops.maintenance.plugins.plugin_utils._module import run_module


class ActionModule(ActionBase):
    """Calls the module, unless the host was found dead so long ago that it may live again. Decides nothing."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        playbook()
        found = (task_vars or {}).get("maintenance_recovered") or {}  # of the playbooks: who calls it alone has none
        why = too_old(str(self._task.args.get("host")), found["asked"], clocks()) if found.get("asked") else ""
        if why:
            raise AnsibleActionFail(plain(why))
        if self._connection.transport == "local":  # the controller's user: there may be no sudo
            self._connection.set_become_plugin(None)
        return {**base, **run_module(self, "maintenance_fence", self._task.args, task_vars)}
