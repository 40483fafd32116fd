# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain


class ActionModule(ActionBase):
    """Prints lines as they are, without JSON around them. Decides nothing."""

    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        base = super().run(tmp, task_vars)
        lines = {"type": "list", "elements": "str", "default": []}
        _result, args = self.validate_argument_spec({"lines": lines, "warnings": lines})
        for line in args["lines"]:
            Display().display(plain(line))
        for line in args["warnings"]:
            Display().warning(plain(line))
        return {**base, "changed": False}
