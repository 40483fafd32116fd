# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.virtops.maintenance.plugins.action.virt_recovery import ActionModule as Libvirts
from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import own_run


class ActionModule(Libvirts):
    """The same for a node of KubeVirt."""

    module = "kubevirt_recovery"

    def _of_controller(self) -> dict[str, Any]:
        return {"roll_run": own_run()}

    def _of_next(self, result: Mapping[str, Any], waited: float) -> dict[str, Any]:
        return {"watched": {**result["watched"], "seconds": waited}}
