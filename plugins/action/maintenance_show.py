# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain
from ansible_collections.virtops.maintenance.plugins.plugin_utils._outcomes import KINDS, outcome
from ansible_collections.virtops.maintenance.plugins.plugin_utils._plan import write
from ansible_collections.virtops.maintenance.plugins.plugin_utils._report import of_task

_LINES = {"type": "list", "elements": "str", "default": []}
_SPEC = {
    "lines": _LINES,
    "warnings": _LINES,
    "of": {"type": "str", "choices": [*KINDS, "recovery"]},
    "request": {"type": "dict", "default": {}},
    "dest": {"type": "path"},
}


class ActionModule(ActionBase):
    """Prints lines as they are, without JSON around them. Decides nothing."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        _result, args = self.validate_argument_spec(_SPEC)
        check = bool(self._task.check_mode)
        if args["of"] == "recovery":
            of_task(self._templar, task_vars, check).recovery(task_vars["inventory_hostname"], args["request"])
            return {**base, "changed": False}
        found = outcome(args["of"], args["request"], task_vars) if args["of"] else {}
        for line in (*args["lines"], *found.get("lines", ())):
            Display().display(plain(line))
        for line in args["warnings"]:
            Display().warning(plain(line))
        shown = {key: value for key, value in found.items() if key != "ansible_stats"}
        try:
            changed = bool(args["dest"]) and write(shown, args["dest"], check)
        except OSError as exc:
            return {**base, "failed": True, "msg": f"dest {args['dest']}: {exc}"}
        return {**base, **found, "changed": changed}
