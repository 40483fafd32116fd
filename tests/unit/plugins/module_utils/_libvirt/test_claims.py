# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Admission by volumes: what of it is given back, and what stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.policy import Limits
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import claims
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import (
    Host,
    HostConfig,
    HostNow,
)

VM = "11111111-2222-3333-4444-555555555555"
OTHER = "21111111-2222-3333-4444-555555555555"


class FakeHost:
    """A host that is nothing but its volumes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.config = HostConfig(name, "x")
        self.capacity_mib = 8192
        self.volumes: set[str] = set()
        self.store = self

    def create(self, name: str, _data: bytes = b"") -> bool:
        made = name not in self.volumes
        self.volumes.add(name)
        return made

    def names(self) -> list[str]:
        return sorted(self.volumes)

    def delete(self, name: str) -> bool:
        self.volumes.discard(name)
        return True

    def read(self, _with_jobs: bool) -> HostNow:
        now = HostNow(self.name, names=self.names())
        Host._read_claims(self, now)  # type: ignore[arg-type]
        return now


@pytest.fixture
def hosts() -> dict[str, FakeHost]:
    return {name: FakeHost(name) for name in "ab"}


def claim(hosts: dict[str, FakeHost], *wanted: Action, limits: Limits | None = None):
    return claims.claim(hosts, "a", "a", wanted, limits or Limits())  # type: ignore[arg-type]


COLD = Action(Do.SHUTDOWN, "a", VM, "web", "b", memory_mib=96)
CLAIM, SLOT = f"resv.{VM}.96.a", f"slot.{VM}.a"


def test_a_vm_that_was_moved_off_starts_on_a_target_that_was_cordoned_meanwhile(hosts) -> None:
    assert claim(hosts, COLD) == {VM: None}
    hosts["b"].volumes.add("cordon")
    assert claim(hosts, replace(COLD, do=Do.COLD_START)) == {VM: None}
    assert CLAIM in hosts["b"].volumes
    assert SLOT in hosts["a"].volumes


def test_a_new_claim_on_a_cordoned_target_is_given_back(hosts) -> None:
    hosts["b"].volumes.add("cordon")
    for do in (Do.SHUTDOWN, Do.COLD_START):
        assert "cordoned" in claim(hosts, replace(COLD, do=do))[VM].message
        assert hosts["b"].volumes == {"cordon"}
        assert not hosts["a"].volumes


def test_a_claim_that_stood_is_not_given_back_when_it_is_refused(hosts) -> None:
    assert claim(hosts, COLD) == {VM: None}
    hosts["b"].volumes.add("cordon")
    assert claim(hosts, replace(COLD, do=Do.COLD_DEFINE))[VM] is not None
    assert {CLAIM} < hosts["b"].volumes
    assert SLOT in hosts["a"].volumes


def test_of_two_that_want_the_last_slot_the_one_that_was_made_goes(hosts) -> None:
    assert claim(hosts, COLD) == {VM: None}
    other = replace(COLD, vm=OTHER, do=Do.MIGRATE)
    answers = claim(hosts, replace(COLD, do=Do.COLD_START), other, limits=Limits(1, 2, 2))
    assert answers[VM] is None
    assert "in flight" in answers[OTHER].message
    assert hosts["b"].volumes == {CLAIM}
    assert hosts["a"].volumes == {SLOT}


def test_a_claim_that_stood_without_its_slot_makes_none_beyond_the_limit(hosts) -> None:
    assert claim(hosts, COLD) == {VM: None}
    hosts["a"].volumes = {f"slot.{OTHER}.b"}
    refused = claim(hosts, replace(COLD, do=Do.COLD_START), limits=Limits(1, 2, 2))
    assert refused[VM] is not None
    assert hosts["a"].volumes == {f"slot.{OTHER}.b"}
    assert hosts["b"].volumes == {CLAIM}
