from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.preflight import check as preflight
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.hosts import Fleet


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setattr(preflight, "own_userfaultfd", lambda: 1)
    return Fleet()
