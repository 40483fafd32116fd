# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Acts through the API are tested in tests/kubevirt. Here: that none was forgotten."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.record import NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.act import (
    NO_COUNTERPART,
    Actor,
)


def test_every_action_of_the_core_is_known_or_has_no_counterpart() -> None:
    nothing: Any = SimpleNamespace(watches=None)
    actor = Actor(nothing, nothing, nothing, lambda: "now")
    assert set(actor._acts) == set(Do) - NO_COUNTERPART
    for do in NO_COUNTERPART:
        found = actor.apply(Action(do, "n1", "u1"), NodeRecord("n1", "run"))
        assert found is not None
        assert "no counterpart" in found.message
