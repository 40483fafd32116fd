"""A file in the way of a disk that is to be copied: known before anything is done."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.shared_storage import DiskView
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.spec import DiskSpec, DomainSpec
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import disks as holder_disks
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import uses
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.disks import CopyDisk, TargetVolumes
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts, PoolFacts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import disks
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import vm as vm_facts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import HostNow
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store import copied_disks
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.names import Reservation
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.pools import (
    CAPACITY,
    FakeHost,
    FakeStore,
)

VM = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHost:
    binding = fakes.Binding()
    for module in (disks, holder_disks, uses, vm_facts):
        monkeypatch.setattr(module, "libvirt", binding)
    monkeypatch.setattr(holder_disks, "Store", FakeStore)
    monkeypatch.setattr(copied_disks, "Store", FakeStore)
    return FakeHost(binding, str(tmp_path))


def copy(host: FakeHost) -> CopyDisk:
    return CopyDisk("vda", f"{host.pool.folder}/web.qcow2", "qcow2", CAPACITY)


def in_the_way(host: FakeHost) -> str:
    there = {name: vol for name, vol in host.pool.volumes.items() if name not in host.pool.gone}
    before = dict(host.notes), there
    found = TargetVolumes(host, VM).in_the_way(copy(host))
    assert (host.notes, host.pool.volumes) == before
    return found


def test_where_there_is_no_file_nothing_is_in_the_way(host: FakeHost) -> None:
    assert in_the_way(host) == ""


def test_a_strangers_file(host: FakeHost) -> None:
    host.pool.put("web.qcow2")
    assert "was not created for this VM" in in_the_way(host)


def test_a_file_that_was_deleted_behind_libvirts_back(host: FakeHost) -> None:
    host.pool.put("web.qcow2")
    host.pool.gone = {"web.qcow2"}
    assert in_the_way(host) == ""


def test_what_an_earlier_attempt_made(host: FakeHost) -> None:
    TargetVolumes(host, VM).prepare([copy(host)])
    assert in_the_way(host) == ""
    host.pool.put("web.qcow2").mtime += 60 * 10**9  # another one since
    assert "was changed since" in in_the_way(host)


def test_the_file_of_a_vm_that_arrives_is_its_own(host: FakeHost) -> None:
    host.pool.put("web.qcow2")
    host.domains[VM] = f"<domain><disk><source file='{copy(host).path}'/></disk></domain>"
    host.running.add(VM)
    assert in_the_way(host) == ""
    host.running.clear()  # defined there, and off: it is in use
    assert "exists on the target" in in_the_way(host)


# What the peers are asked


def peer(host: FakeHost) -> Any:
    facts = HostFacts(hostname="host-b", pools={"images": PoolFacts("images", "dir", host.pool.folder, "", 1 << 40)})
    return SimpleNamespace(conn=host, store=FakeStore(host), acts=True, facts=facts, cpu_cache={}, lookups=None)


def refused(host: FakeHost, disk: DiskSpec, still: bool = True, arrives: bool = False) -> str:
    spec = DomainSpec(uuid=VM, name="web", type="kvm", disks=(disk,))
    source = SimpleNamespace(facts=peer(host).facts, lookups=None)
    views = {"vda": DiskView(False, None, CAPACITY)}
    asking = vm_facts._Question(source, spec, vm_facts.Runtime(), views, True, still)  # type: ignore[arg-type]
    claim = Reservation(VM, 96, "host-a")
    now = HostNow("host-b", reservations=[claim] if arrives else [])
    live, _cold = vm_facts._refusal(asking, peer(host), now)
    return " ".join(finding.message for finding in live)


@pytest.fixture(params=["file", "volume"])
def disk(request: pytest.FixtureRequest, host: FakeHost) -> DiskSpec:
    host.pool.put("web.qcow2")
    if request.param == "file":
        path = copy(host).path
        return DiskSpec("vda", source=path, path=path, format="qcow2")
    named = {"pool": "images", "volume": "web.qcow2"}
    return DiskSpec("vda", type="volume", source="images/web.qcow2", format="qcow2", **named)


def test_a_file_in_the_way_refuses_the_target(host: FakeHost, disk: DiskSpec) -> None:
    assert "cannot be copied: " in refused(host, disk)
    assert "was not created for this VM" in refused(host, disk)


def test_while_it_moves_files_there_are_no_reason(host: FakeHost, disk: DiskSpec) -> None:
    assert refused(host, disk, still=False) == ""
    assert refused(host, disk, arrives=True) == ""
