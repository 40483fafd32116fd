"""A VM counts with all the memory that it may ever have, before its move, during and after."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Node
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers import shared_storage
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import host, observe
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import vm as vm_facts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import Host, HostConfig, HostNow
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.observe import node_of
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import claims
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.names import Reservation, format_name

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).parents[1] / "fakes.py")
if _spec is None or _spec.loader is None:
    raise ImportError("fakes.py is missing")
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

GIB = 1024
UUID = "11111111-2222-3333-4444-55555555555{}".format
RUNNING, PAUSED, SHUTOFF = (1, 1), (3, 11), (5, 1)


class Guest(fakes.Domain):
    """A domain with memory that can be plugged in. Sizes in MiB; `most` 0: none can.

    over_kib: what it has beside whole MiB.
    """

    def __init__(self, binding: Any, uuid: str, now: int, most: int = 0, over_kib: int = 0) -> None:
        super().__init__(binding, [], "b")
        self.uuid, self.now, self.most, self.over_kib = uuid, now, most, over_kib
        self.id, self.stands = 1, RUNNING
        self.asked = 0
        self.answer: Exception | str | None = None
        self.snapshotNum = self.hasManagedSaveImage = lambda _flags: 0
        self.listAllCheckpoints = lambda _flags: []

    def UUIDString(self) -> str:  # noqa: N802 - libvirt's name
        return self.uuid

    def ID(self) -> int:  # noqa: N802 - libvirt's name
        return self.id

    def name(self) -> str:
        return f"vm-{self.uuid[-1]}"

    def stats(self) -> dict[str, int]:
        """As libvirt's list tells it: nothing of what can still be plugged in (seen with 9.0)."""
        state, reason = self.stands
        maximum = self.now * 1024 + self.over_kib
        return {"state.state": state, "state.reason": reason, "balloon.maximum": maximum}

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        most = f"<maxMemory slots='4' unit='MiB'>{self.most}</maxMemory>" if self.most else ""
        return self.answer or (
            f"<domain type='kvm'><name>{self.name()}</name><uuid>{self.uuid}</uuid>{most}"
            f"<memory>{self.now * 1024 + self.over_kib}</memory><devices/></domain>"
        )


class Target:
    """A host with these guests and these volumes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *guests: Guest, memory: int = 0) -> None:
        self.guests = list(guests)
        self.volumes: set[str] = set()
        store = SimpleNamespace(names=lambda: sorted(self.volumes), create=self._create, delete=self.volumes.discard)
        self.conn = SimpleNamespace(
            isAlive=lambda: True,
            close=lambda: None,
            getVersion=lambda: 7002000,
            getCapabilities=lambda: "<capabilities/>",
            getAllDomainStats=lambda _wanted, _flags: [(g, g.stats()) for g in self.guests],
            lookupByUUIDString=lambda uuid: next(g for g in self.guests if g.uuid == uuid),
        )
        monkeypatch.setattr(Host, "store", store)
        self.host = Host(HostConfig("b", "x://b", memory or 999 * GIB), lambda _uri: self.conn)

    def _create(self, name: str, _data: bytes = b"") -> bool:
        made = name not in self.volumes
        self.volumes.add(name)
        return made

    def read(self) -> HostNow:
        now = self.host.read(False)
        assert now.error == ""
        return now

    def node(self) -> Node:
        return node_of(self.host, self.read())

    def counted(self, uuid: str) -> int:
        return self.read().domains[uuid].memory_mib

    def claim(self, uuid: str, memory_mib: int) -> Finding | None:
        wanted = Action(Do.MIGRATE, "a", uuid, "web", "b", memory_mib=memory_mib)
        return claims.Claims({"b": self.host}, "a").claim([wanted], Limits())[uuid]


@pytest.fixture
def binding(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = fakes.Binding()
    for module in (claims, shared_storage, host, observe, vm_facts):
        monkeypatch.setattr(module, "libvirt", made)
    return made


def size_at_its_source(guest: Guest, target: Target) -> int:
    """What its host says before it moves, which becomes the claim."""
    source = Host(HostConfig("a", "x://a"), lambda _uri: target.conn)
    source._facts = HostFacts(pools={}, libvirt_version=9000000)
    now = HostNow("a")
    source._read_domains(now, False)
    return vm_facts.read_vm_facts(source, (), now.domains[guest.uuid], {}).memory_mib


SIZES = [(now, most) for now in (1, 8, 9) for most in (0, 8, 9, 64) if not most or now <= most]


@pytest.mark.parametrize("over_kib", [0, 1, 1023])
@pytest.mark.parametrize(("now", "most"), SIZES)
def test_a_vm_counts_the_same_before_its_move_during_and_after(
    binding: Any, monkeypatch: pytest.MonkeyPatch, now: int, most: int, over_kib: int
) -> None:
    guest = Guest(binding, UUID(0), now * GIB, most * GIB, over_kib)
    target = Target(monkeypatch, guest)
    before = size_at_its_source(guest, target)
    assert before == max(now * GIB + (over_kib > 0), most * GIB)

    target.guests = []
    target.volumes = {format_name(Reservation(guest.uuid, before, "a"))}
    claimed = target.node().committed_mib
    guest.id, guest.stands, target.guests = 7, PAUSED, [guest]
    arriving = target.node().committed_mib
    guest.stands = RUNNING
    arrived = target.node().committed_mib
    target.volumes = set()
    after = target.node().committed_mib
    assert [claimed, arriving, arrived, after] == [before] * 4


def test_a_host_is_not_filled_over_with_what_can_still_be_plugged_in(
    binding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(monkeypatch, Guest(binding, UUID(0), 8 * GIB, 64 * GIB), memory=72 * GIB)
    assert target.node().room_mib == 8 * GIB
    refused = target.claim(UUID(1), 9 * GIB)
    assert refused is not None
    assert f"would hold {73 * GIB} MiB of its {72 * GIB} MiB" in refused.message
    assert target.claim(UUID(1), 8 * GIB) is None


def test_the_definition_is_read_once_a_start(binding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host has hundreds of VMs, and is read every second."""
    guest = Guest(binding, UUID(0), 8 * GIB, 64 * GIB)
    target = Target(monkeypatch, guest)
    for _look in range(3):
        target.node()
        target.claim(UUID(1), GIB)
    assert guest.asked == 1
    guest.id, guest.most = 2, 32 * GIB  # it was started anew, from another definition
    assert [target.counted(guest.uuid) for _look in range(2)] == [32 * GIB] * 2
    assert guest.asked == 2


def test_another_connection_may_be_to_a_host_that_was_rebooted(binding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ids begin at one again."""
    guest = Guest(binding, UUID(0), 8 * GIB, 64 * GIB)
    target = Target(monkeypatch, guest)
    target.counted(guest.uuid)
    target.host.close()
    guest.most = 32 * GIB
    assert target.counted(guest.uuid) == 32 * GIB


def test_one_that_is_off_is_not_asked(binding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest(binding, UUID(0), 8 * GIB, 64 * GIB)
    guest.id, guest.stands = -1, SHUTOFF
    target = Target(monkeypatch, guest)
    assert target.node().committed_mib == 0
    assert guest.asked == 0


def test_what_is_plugged_in_counts_where_the_rest_cannot_be_read(binding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host stays readable; it is asked again at the next look."""
    guest = Guest(binding, UUID(0), 8 * GIB, 64 * GIB)
    target = Target(monkeypatch, guest)
    left = fakes.LibvirtError("no domain", binding.VIR_ERR_NO_DOMAIN)
    busy = fakes.LibvirtError("busy", binding.VIR_ERR_OPERATION_TIMEOUT)
    odd = "<domain><maxMemory unit='parsec'>1</maxMemory></domain>"
    for guest.answer in (left, busy, odd, "<domain"):
        assert target.counted(guest.uuid) == 8 * GIB
    guest.answer = None
    assert target.counted(guest.uuid) == 64 * GIB


def test_a_connection_that_breaks_meanwhile_is_the_hosts(binding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest(binding, UUID(0), 8 * GIB, 64 * GIB)
    target = Target(monkeypatch, guest)
    guest.answer = fakes.LibvirtError("cannot recv data: Connection reset by peer", 38)
    assert "Connection reset" in target.host.read(False).error


def test_the_ports_of_its_graphics_are_read_with_it(binding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a start, in the same definition: a port cannot change meanwhile."""
    guest = Guest(binding, UUID(0), GIB)
    xml = guest.XMLDesc(0)
    guest.answer = xml.replace("<devices/>", "<devices><graphics type='vnc' port='5951'/></devices>")
    guest.asked = 0
    target = Target(monkeypatch, guest)
    assert [target.read().domains[UUID(0)].ports for _time in range(2)] == [{5951}, {5951}]
    assert guest.asked == 1
    guest.id, guest.answer = 8, xml
    assert target.read().domains[UUID(0)].ports == frozenset()
