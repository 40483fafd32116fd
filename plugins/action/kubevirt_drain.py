# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.promise import is_due, with_preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.unsupported import lines
from ansible_collections.virtops.maintenance.plugins.plugin_utils._called import Drains

# Options of the drain that a preflight does not have.
NOT_OF_A_PREFLIGHT = {
    *("state", "lock_namespace", "abort", "hooks_done", "roll_run", "cursor", "speeds", "playbook"),
    *(*options.RUN_SPEC, *options.SLICE_SPEC, *options.STOP_SPEC, *options.RUN_LIMITS_SPEC),
}


class ActionModule(Drains):
    MODULE = "kubevirt_drain"

    def options(self) -> dict[str, Any]:
        # The cursor: each slice hands one to the next.
        return {**super().options(), "cursor": ""}

    def call(self, args: dict[str, Any]) -> dict[str, Any]:
        found = super().call(args)
        if self._task.check_mode and is_due(found, str(args.get("state") or "drained")):
            found = self._beside(found, args)
        unmet = lines(found.get("vms") or ())
        return {**found, "warnings": [*(found.get("warnings") or ()), *unmet]} if unmet else found

    def _beside(self, found: dict[str, Any], args: dict[str, Any]) -> dict[str, Any]:
        """Return the result of check mode, with what a preflight finds in the way."""
        asked = {key: value for key, value in args.items() if key not in NOT_OF_A_PREFLIGHT}
        seen = self.execute("kubevirt_preflight", asked)
        if "findings" not in seen:
            return seen
        return with_preflight(found, seen["findings"], Platform.KUBEVIRT)
