# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import own_uuid
from ansible_collections.virtops.maintenance.plugins.plugin_utils._given import given
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain_findings
from ansible_collections.virtops.maintenance.plugins.plugin_utils._rules import check_rules
from ansible_collections.virtops.maintenance.plugins.plugin_utils._unanswered import Patient


class ActionModule(Patient):
    """Checks the rules here, says which machine this is, then calls kubevirt_preflight."""

    MODULE = "virtops.maintenance.kubevirt_preflight"

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        check_rules(self._task.args)
        return plain_findings(super().run(tmp, task_vars))

    def options(self) -> dict[str, Any]:
        return {"controller_uuid": own_uuid(), **given(self._task.args)}
