"""A host's pool of disk files and its store, in memory, for what is tested without libvirt."""

from __future__ import annotations

import itertools
import os
import re
from types import SimpleNamespace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import Generation, VolumeTorn
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes

CAPACITY = 1 << 30
CLOCK = itertools.count(1_700_000_000_123_456_789, 1_000_000_007)
TORN = "torn"


class Volume:
    """A file in a pool. `ctime`: when it was last changed, `mtime`: its content; `base`: what it
    stands on; `filled`: bytes on the disk."""

    def __init__(self, pool: Pool, name: str, ctime: int, base: str = "", filled: int = 196_608) -> None:
        self.pool, self._name, self.ctime, self.mtime, self.base = pool, name, ctime, ctime, base
        self.filled, self.capacity = filled, CAPACITY

    def name(self) -> str:
        return self._name

    def path(self) -> str:
        return f"{self.pool.folder}/{self._name}"

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        if self._name in self.pool.gone:
            raise fakes.LibvirtError(self._name, self.pool.host.binding.VIR_ERR_NO_STORAGE_VOL)
        ctime, mtime = (f"{time // 10**9}.{time % 10**9:09d}" for time in (self.ctime, self.mtime))
        below = f"<backingStore><path>{self.base}</path></backingStore>" if self.base else ""
        return (
            f"<volume><name>{self._name}</name><target><timestamps><mtime>{mtime}</mtime><ctime>{ctime}</ctime>"
            f"</timestamps></target>{below}</volume>"
        )

    def info(self) -> list[int]:
        return [0, self.capacity, self.filled]

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
    """A connection to a host with one pool, its store and its domains (name -> XML).

    `running`: those that are not off."""

    def __init__(self, binding: Any, folder: str) -> None:
        self.binding = binding
        self.notes: dict[str, str] = {}
        self.noted: list[int] = []  # when each generation of the note was made
        self.whole, self.writes_left, self.torn = 0, -1, False
        self.pool = Pool(self, folder)
        self.domains: dict[str, str] = {}
        self.running: set[str] = set()
        self.snapshots: dict[str, list[Any]] = {}
        self.saved: dict[str, str] = {}
        self.outside: dict[str, Pool] = {}  # directories that are no pools
        self.made: list[str] = []  # of those, what became one for a moment

    def lookupByUUIDString(self, uuid: str) -> Any:  # noqa: N802 - libvirt's name
        if uuid not in self.domains:
            raise fakes.LibvirtError(uuid, self.binding.VIR_ERR_NO_DOMAIN)
        return SimpleNamespace(isActive=lambda: uuid in self.running)

    def listAllDomains(self, _flags: int) -> list[Any]:  # noqa: N802 - libvirt's name
        return [
            SimpleNamespace(
                name=lambda: "stranger",
                UUIDString=lambda u=uuid: u,
                isActive=lambda: False,
                isPersistent=lambda: True,
                listAllSnapshots=lambda _flags, u=uuid: self.snapshots.get(u, []),
                hasManagedSaveImage=lambda _flags, u=uuid: u in self.saved,
                managedSaveGetXMLDesc=lambda _flags, u=uuid: self.saved[u],
                XMLDesc=lambda _flags, x=xml: x,
            )
            for uuid, xml in self.domains.items()
        ]

    def listAllStoragePools(self, _flags: int) -> list[Pool]:  # noqa: N802 - libvirt's name
        return [self.pool]

    def storagePoolCreateXML(self, xml: str, _flags: int) -> Any:  # noqa: N802 - libvirt's name
        folder = re.findall("<path>(.*)</path>", xml)[0]
        if folder not in self.outside:
            text = f"cannot open directory {folder!r}: No such file or directory"
            raise fakes.LibvirtError(text, 38)
        self.made.append(f"+{folder}")
        pool = self.outside[folder]
        pool.destroy = lambda: self.made.append(f"-{folder}")
        return pool

    def storagePoolLookupByName(self, _name: str) -> Pool:  # noqa: N802 - libvirt's name
        return self.pool

    def storageVolLookupByPath(self, path: str) -> Volume:  # noqa: N802 - libvirt's name
        return self.pool.storageVolLookupByName(os.path.basename(path))


class Killed(BaseException):
    """The holder was killed in that moment."""


class FakeStore:
    """A store in memory, that of the connection: prefix -> text. Its writer may be killed."""

    def __init__(self, conn: FakeHost) -> None:
        self.conn, self.notes, self.made = conn, conn.notes, conn.noted

    def write_record(self, prefix: str, text: str) -> None:
        if self.conn.writes_left == 0:
            raise Killed
        self.made.append(next(CLOCK))
        if self.conn.writes_left == 1 and self.conn.torn:
            raise Killed
        self.conn.writes_left -= 1
        self.conn.whole = len(self.made) - 1
        self.notes[prefix] = text

    def read_record(self, prefix: str) -> str | None:
        if self.notes.get(prefix) == TORN:
            raise VolumeTorn(prefix)
        return self.notes.get(prefix)

    def read_generation(self, prefix: str) -> Generation | None:
        text = self.read_record(prefix)
        return None if text is None else Generation(self.conn.whole, text)

    def delete_record(self, prefix: str) -> bool:
        return self.notes.pop(prefix, None) is not None

    def volume(self, name: str) -> Volume:
        return Volume(self.conn.pool, name, self.made[int(name.rpartition(".")[2])])
