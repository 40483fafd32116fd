# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks that a migration copies: what was left of an earlier one is replaced, nothing else is.

Against libvirt itself: tests/integration/test_holder.py.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import holder_disks
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder_disks import (
    CopyDisk,
    DisksError,
    TargetVolumes,
    note_copies_left,
    stamp_copies_left,
)

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).with_name("fakes.py"))
assert _spec is not None
assert _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

VM, OTHER = "11111111-2222-3333-4444-555555555555", "22222222-2222-3333-4444-555555555555"
CLOCK = itertools.count(1_700_000_000_123_456_789, 1_000_000_007)


class Volume:
    """A file in a pool. `ctime`: when it was last changed; `base`: what it stands on."""

    def __init__(self, pool: Pool, name: str, ctime: int, base: str = "") -> None:
        self.pool, self._name, self.ctime, self.base = pool, name, ctime, base

    def name(self) -> str:
        return self._name

    def path(self) -> str:
        return f"{self.pool.folder}/{self._name}"

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        if self._name in self.pool.gone:
            raise fakes.LibvirtError(self._name, self.pool.host.binding.VIR_ERR_NO_STORAGE_VOL)
        ctime = f"{self.ctime // 10**9}.{self.ctime % 10**9:09d}"
        below = f"<backingStore><path>{self.base}</path></backingStore>" if self.base else ""
        return (
            f"<volume><name>{self._name}</name><target><timestamps><ctime>{ctime}</ctime>"
            f"</timestamps></target>{below}</volume>"
        )

    def delete(self, _flags: int) -> None:
        if self._name in self.pool.kept:
            raise fakes.LibvirtError("it cannot be deleted")
        del self.pool.volumes[self._name]


class Pool:
    """A directory. `refused`: names that it does not make; `kept`: that it does not delete;
    `gone`: whose file was deleted behind libvirt's back."""

    def __init__(self, host: FakeHost, folder: str) -> None:
        self.host, self.folder = host, folder
        self.volumes: dict[str, Volume] = {}
        self.refused: set[str] = set()
        self.kept: set[str] = set()
        self.gone: set[str] = set()

    def name(self) -> str:
        return "images"

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        return f"<pool><target><path>{self.folder}</path></target></pool>"

    def refresh(self, _flags: int) -> None:
        self.volumes = {n: v for n, v in self.volumes.items() if n not in self.gone}

    def listAllVolumes(self, _flags: int) -> list[Volume]:  # noqa: N802 - libvirt's name
        return list(self.volumes.values())

    def storageVolLookupByName(self, name: str) -> Volume:  # noqa: N802 - libvirt's name
        if name not in self.volumes:
            raise fakes.LibvirtError(name, self.host.binding.VIR_ERR_NO_STORAGE_VOL)
        return self.volumes[name]

    def createXML(self, xml: str, _flags: int) -> Volume:  # noqa: N802 - libvirt's name
        name = re.findall("<name>(.*)</name>", xml)[0]
        if name in self.volumes or name in self.refused:
            raise fakes.LibvirtError(f"{name} already exists")
        return self.put(name)

    def put(self, name: str, **more: Any) -> Volume:
        self.gone.discard(name)
        self.volumes[name] = Volume(self, name, next(CLOCK), **more)
        return self.volumes[name]


class FakeHost:
    """A connection to a host with one pool, its store and its domains (name -> XML)."""

    def __init__(self, binding: Any, folder: str) -> None:
        self.binding = binding
        self.notes: dict[str, bytes] = {}
        self.pool = Pool(self, folder)
        self.domains: dict[str, str] = {}

    def lookupByUUIDString(self, uuid: str) -> None:  # noqa: N802 - libvirt's name
        if uuid not in self.domains:
            raise fakes.LibvirtError(uuid, self.binding.VIR_ERR_NO_DOMAIN)

    def listAllDomains(self, _flags: int) -> list[Any]:  # noqa: N802 - libvirt's name
        return [
            SimpleNamespace(
                name=lambda: "stranger",
                UUIDString=lambda u=uuid: u,
                isActive=lambda: False,
                isPersistent=lambda: True,
                XMLDesc=lambda _flags, x=xml: x,
            )
            for uuid, xml in self.domains.items()
        ]

    def listAllStoragePools(self, _flags: int) -> list[Pool]:  # noqa: N802 - libvirt's name
        return [self.pool]

    def storagePoolLookupByName(self, _name: str) -> Pool:  # noqa: N802 - libvirt's name
        return self.pool

    def storageVolLookupByPath(self, path: str) -> Volume:  # noqa: N802 - libvirt's name
        return self.pool.storageVolLookupByName(os.path.basename(path))


class FakeStore:
    """A store in memory, that of the connection."""

    def __init__(self, conn: FakeHost) -> None:
        self.notes = conn.notes

    def names(self) -> list[str]:
        return sorted(self.notes)

    def read(self, name: str) -> bytes:
        if name not in self.notes:
            raise holder_disks.VolumeMissing(name)
        return self.notes[name]

    def create(self, name: str, data: bytes = b"") -> bool:
        return self.notes.setdefault(name, data) is data

    def delete(self, name: str) -> bool:
        return self.notes.pop(name, None) is not None


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHost:
    binding = fakes.Binding()
    monkeypatch.setattr(holder_disks, "libvirt", binding)
    monkeypatch.setattr(holder_disks, "Store", FakeStore)
    return FakeHost(binding, str(tmp_path))


def disk(host: FakeHost, name: str = "web.qcow2") -> CopyDisk:
    return CopyDisk("vda", f"{host.pool.folder}/{name}", "qcow2", 1 << 20)


def leave(host: FakeHost, name: str = "web.qcow2") -> Volume:
    """The VM has moved from this host to b, and its disk is left here."""
    path = Path(host.pool.folder) / name
    path.write_bytes(b"left")
    note_copies_left(host, VM, "b", [disk(host, name)])
    stamp_copies_left(host, VM, "b")
    volume = host.pool.put(name)
    volume.ctime = path.stat().st_ctime_ns
    return volume


def domain(uuid: str, source: str) -> str:
    return f"<domain><uuid>{uuid}</uuid><devices><disk>{source}</disk></devices></domain>"


def come_back(host: FakeHost) -> None:
    TargetVolumes(host, VM, "b").prepare([disk(host)])


def test_what_was_left_is_replaced_when_the_vm_comes_back(host: FakeHost) -> None:
    left = leave(host)
    come_back(host)
    assert host.pool.volumes["web.qcow2"] is not left
    assert list(host.notes) == [f"made.{VM}.b"]
    TargetVolumes(host, VM, "b").keep()
    assert host.notes == {}


def test_what_was_deleted_behind_libvirts_back_is_no_hindrance(host: FakeHost) -> None:
    leave(host)
    host.pool.put("other.qcow2")
    host.pool.gone = {"web.qcow2"}
    come_back(host)
    host.pool.gone = {"other.qcow2"}
    TargetVolumes(host, VM, "b").remove()
    assert list(host.pool.volumes) == ["other.qcow2"]


def test_a_file_made_anew_on_the_old_path_is_a_strangers(host: FakeHost) -> None:
    leave(host)
    stranger = host.pool.put("web.qcow2")
    with pytest.raises(DisksError, match="changed since"):
        come_back(host)
    assert host.pool.volumes["web.qcow2"] is stranger


@pytest.mark.parametrize(
    "source",
    [
        "<source file='{path}'/>",
        "<source dev='{path}'/>",
        "<source pool='images' volume='web.qcow2'/>",
        "<source file='/other'/><backingStore><source file='{path}'/></backingStore>",
    ],
)
def test_a_file_that_a_domain_names_is_never_replaced(host: FakeHost, source: str) -> None:
    left = leave(host)
    host.domains[OTHER] = domain(OTHER, source.format(path=left.path()))
    with pytest.raises(DisksError, match="the VM stranger uses it"):
        come_back(host)
    assert host.pool.volumes["web.qcow2"] is left


def test_a_file_that_a_volume_stands_on_is_never_replaced(host: FakeHost) -> None:
    left = leave(host)
    host.pool.put("clone.qcow2", base=left.path())
    with pytest.raises(DisksError, match=r"the volume clone\.qcow2 of pool images uses it"):
        come_back(host)
    assert host.pool.volumes["web.qcow2"] is left


@pytest.mark.parametrize("note", [b'["{path}"]', b'{{"{path}": null}}', b"{{}}"])
def test_a_note_without_the_time_of_the_last_change_is_not_believed(
    host: FakeHost, note: bytes
) -> None:
    """As it was written before the move, or by an older version."""
    left = leave(host)
    host.notes[f"made.{VM}.b"] = note.decode().format(path=left.path()).encode()
    with pytest.raises(DisksError):
        come_back(host)
    assert host.pool.volumes["web.qcow2"] is left


def test_only_what_was_made_is_noted_and_removed(host: FakeHost) -> None:
    """The second file is there, and libvirt does not know it: its making is refused."""
    host.pool.refused.add("data.qcow2")
    with pytest.raises(DisksError, match="already exists"):
        TargetVolumes(host, VM, "a").prepare([disk(host), disk(host, "data.qcow2")])
    assert host.pool.volumes == {}
    assert host.notes == {}
    # Even where the removal fails, the note does not claim the stranger's file.
    host.pool.kept.add("web.qcow2")
    with pytest.raises(fakes.LibvirtError):
        TargetVolumes(host, VM, "a").prepare([disk(host), disk(host, "data.qcow2")])
    assert b"web.qcow2" in host.notes[f"made.{VM}.a"]
    assert b"data.qcow2" not in host.notes[f"made.{VM}.a"]


def test_what_a_failed_copy_wrote_to_is_removed_unless_somebody_uses_it(host: FakeHost) -> None:
    volumes = TargetVolumes(host, VM, "a")
    volumes.prepare([disk(host)])
    host.pool.volumes["web.qcow2"].ctime = next(CLOCK)
    host.domains[OTHER] = domain(OTHER, f"<source file='{disk(host).path}'/>")
    volumes.remove()
    assert list(host.pool.volumes) == ["web.qcow2"]
    host.domains = {VM: host.domains[OTHER]}  # its own, and off: a definition that was left
    volumes.remove()
    assert host.pool.volumes == {}
    assert host.notes == {}


def test_the_rest_of_an_attempt_that_was_killed_is_replaced_if_nothing_came(host: FakeHost) -> None:
    TargetVolumes(host, VM, "a").prepare([disk(host)])
    TargetVolumes(host, VM, "a").prepare([disk(host)])
    host.pool.volumes["web.qcow2"].ctime = next(CLOCK)
    with pytest.raises(DisksError, match="changed since"):
        TargetVolumes(host, VM, "a").prepare([disk(host)])
