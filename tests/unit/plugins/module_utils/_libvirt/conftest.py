# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.preflight import check as preflight
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.hosts import Fleet


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setattr(preflight, "own_userfaultfd", lambda: 1)
    return Fleet()
