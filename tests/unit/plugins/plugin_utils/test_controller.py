# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which machine the controller is, and who is told."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase

from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import own_uuid

ACTIONS = "ansible_collections.virtops.maintenance.plugins.action"


def test_what_the_firmware_tells_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "uuid").write_text("ABC-1\n")
    assert own_uuid(str(tmp_path / "uuid")) == "ABC-1"
    assert own_uuid(str(tmp_path / "none")) == ""


@pytest.mark.parametrize("given", [{}, {"controller_uuid": "other"}])
@pytest.mark.parametrize(
    "name", ["virt_drain", "virt_migration", "virt_preflight", "virt_host_info", "kubevirt_drain", "kubevirt_preflight"]
)
def test_whatever_stops_a_vm_or_says_so_is_told_which_one_it_must_not(
    name: str, given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(f"{ACTIONS}.{name}")
    told: list[dict[str, Any]] = []

    def call(*_args: Any, **more: Any) -> dict[str, Any]:
        told.append(more["module_args"])
        return {"ended": "final", "phase": "Drained", "node": "a", "vms": []}

    monkeypatch.setattr(module, "own_uuid", lambda: "ours")
    monkeypatch.setattr(ActionBase, "run", lambda *_args, **_more: {})
    monkeypatch.setattr(module.ActionModule, "_execute_module", call)
    plugin = module.ActionModule.__new__(module.ActionModule)
    plugin._task = SimpleNamespace(args=dict(given), check_mode=False)
    plugin._loader = None
    plugin.run()
    assert told[0]["controller_uuid"] == given.get("controller_uuid", "ours")
