# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode and info: they only look."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import plan
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import HostConfig
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.service import Request


class Opened(Exception):
    """A platform was opened."""


@pytest.mark.parametrize("function", ["plan", "look", "migrations"])
def test_the_platform_is_opened_for_looking(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_args: Any, **more: Any) -> None:
        raise Opened(more["acts"])

    monkeypatch.setattr(plan, "LibvirtPlatform", opened)
    request = Request(HostConfig("host-a", "x"), [], Policy(), Intent.DRAINED, "run-1")
    with pytest.raises(Opened, match="False"):
        getattr(plan, function)(request)
