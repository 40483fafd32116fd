# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import reboot
from ansible_collections.virtops.maintenance.plugins.plugin_utils._given import given
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain
from ansible_collections.virtops.maintenance.plugins.plugin_utils._module import run_module


class ActionModule(ActionBase):
    """Calls maintenance_reboot_info and prints its line. Decides nothing."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        args = given(self._task.args)
        try:
            result = run_module(self, "maintenance_reboot_info", args, task_vars)
        except AnsibleConnectionFailure as exc:
            return {**base, **asdict(reboot.need_of_lost(str(args.get("node")))), "unreachable": True, "msg": str(exc)}
        line = plain(str(result.get("message") or ""))
        if line:
            Display().display(line) if result.get("known") else Display().warning(line)
        return {**base, **result}
