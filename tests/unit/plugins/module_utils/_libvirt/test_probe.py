# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The probe: the pause that a guest is allowed is asked for once, while memory flows."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model import Mode
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import holder_probe
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder_probe import (
    Probe,
    Sample,
)

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).with_name("fakes.py"))
assert _spec is not None
assert _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)


class FakeDomain:
    def __init__(self) -> None:
        self.asked: list[int] = []
        self.refuses = False

    def migrateSetMaxDowntime(self, milliseconds: int, _flags: int) -> None:  # noqa: N802
        if self.refuses:
            raise fakes.LibvirtError("domain is not being migrated")
        self.asked.append(milliseconds)


@pytest.fixture
def dom(monkeypatch: pytest.MonkeyPatch) -> FakeDomain:
    monkeypatch.setattr(holder_probe, "libvirt", fakes.Binding())
    return FakeDomain()


def probe_of(dom: FakeDomain, milliseconds: int) -> Probe:
    local: Any = None
    probe = Probe(local, "u", lambda: None, max_downtime_ms=milliseconds)
    probe._dom = dom
    return probe


def test_the_pause_is_asked_for_once_and_only_while_memory_flows(dom: FakeDomain) -> None:
    probe = probe_of(dom, 800)
    probe._act()
    assert dom.asked == []
    probe.sample = Sample(processed=1)
    probe._act()
    probe._act()
    assert dom.asked == [800]


def test_nothing_is_asked_by_default_nor_in_post_copy(dom: FakeDomain) -> None:
    for milliseconds, mode in ((0, Mode.PRE_COPY), (800, Mode.POST_COPY)):
        probe = probe_of(dom, milliseconds)
        probe.mode, probe.sample = mode, Sample(processed=1)
        probe._act()
    assert dom.asked == []


def test_a_refusal_is_kept_and_does_no_harm(dom: FakeDomain) -> None:
    dom.refuses = True
    probe = probe_of(dom, 800)
    probe.sample = Sample(processed=1)
    probe._act()
    assert "not being migrated" in probe.message
