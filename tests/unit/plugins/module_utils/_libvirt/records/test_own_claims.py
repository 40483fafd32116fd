"""A restore of a host whose record was removed by hand: its own claims go if nothing uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Job, State
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import claims, stale_claims
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.claims import Claims
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.records import (
    test_stale_claims as others,
)

VM, CLAIM, SLOT, WHO = others.VM, others.CLAIM, others.SLOT, others.WHO


class World(others.World):
    """a is restored. Its claim is on b, its slots on the quorum hosts a, b and c."""

    def restore(self, held: frozenset[str] = frozenset(), acts: bool = True) -> list[str]:
        """What it says."""
        hosts: Any = self.hosts
        left = self.new("a", acts)
        reads = {name: host.read(True) for name, host in self.hosts.items()}
        left.release_own(reads, held, Claims(hosts, "a").release)
        return left.reported


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for module in (stale_claims, claims):
        monkeypatch.setattr(module, "libvirt", fakes.Binding())
    return World(tmp_path)


def test_what_nothing_uses_goes_at_once_with_its_slots(world: World) -> None:
    assert world.restore() == [
        f"Removed the reservation on b for {WHO}: a has no record of it, and nothing is under way for the VM."
    ]
    assert not world.stands
    assert world.slots == ""


def test_claims_of_others_are_not_its_own(world: World) -> None:
    world.hosts["b"].volumes = {CLAIM.replace(".a", ".c"): b""}
    assert world.restore() == []
    assert len(world.hosts["b"].volumes) == 1


IN_USE: dict[str, Callable[[World], object]] = {
    "its job runs": lambda w: w.hosts["a"].vm(State.RUNNING, Job(outgoing=True)),
    "it leaves by post-copy": lambda w: w.hosts["a"].vm(State.POSTCOPY_SOURCE),
    "it arrives": lambda w: w.hosts["b"].vm(State.INCOMING),
    "a migration of its own has a record": lambda w: w.hosts["a"].volumes.update({f"single.{VM}.record.1": b""}),
}


@pytest.mark.parametrize("why", IN_USE)
def test_what_is_in_use_stays(world: World, why: str) -> None:
    IN_USE[why](world)
    assert world.restore() == []
    assert world.stands
    assert world.slots == "abc"


def test_what_the_holder_works_on_stays(world: World) -> None:
    assert world.restore(held=frozenset({VM})) == []
    assert world.stands


@pytest.mark.parametrize("host", ["a", "b"])
def test_a_vm_that_could_not_be_read_may_be_under_way(world: World, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    read = world.hosts[host].read

    def in_part(what: Any) -> Any:
        now = read(what)
        now.unread[VM] = "its job cannot be read"
        return now

    monkeypatch.setattr(world.hosts[host], "read", in_part)
    assert world.restore() == []
    assert world.stands


def test_a_host_that_cannot_be_read_proves_nothing(world: World) -> None:
    world.hosts["a"].up = False
    assert world.restore() == []
    world.hosts["a"].up, world.hosts["b"].up = True, False
    assert world.restore() == []
    assert world.stands


def test_a_vm_that_is_off_between_two_hosts_keeps_its_place(world: World) -> None:
    """Its only definition is there."""
    world.hosts["a"].domains.clear()
    world.hosts["b"].vm(State.SHUTOFF)
    (said,) = world.restore()
    assert said == (
        f"The reservation on b for {WHO} stays: the VM is off, only b has its definition, and a has no"
        " record of it. Start it on b (virsh start), then restore a again."
    )
    assert world.stands
    world.hosts["b"].vm(State.RUNNING)
    assert world.restore()[0].startswith("Removed")


def test_whoever_only_looks_removes_nothing(world: World) -> None:
    assert world.restore(acts=False) == []
    assert world.stands


def test_one_that_cannot_be_removed_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_name: str) -> bool:
        raise HostUnreachable("b", "connection reset")

    monkeypatch.setattr(world.hosts["b"], "delete", refuse)
    (said,) = world.restore()
    assert said == (f"The reservation on b for {WHO} stays: b: connection reset. Restore a again.")
