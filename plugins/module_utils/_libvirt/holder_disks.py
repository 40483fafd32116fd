# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Target volumes of a BlockMigration: made before, removed again if it fails.

They are made through the target's storage API in the pool that has the same path. What was
made stands in a volume of the target's store (made.<vm>.<source>), so that the next attempt
knows a leftover of a killed one from a stranger's file, and never writes over that.

The source keeps its copies, as libvirt does. They stand in its own store
(made.<vm>.<target>), so that the VM can come back: then they are replaced.

A path says little: a file may have been deleted since, and another VM's disk made there. So a
note has the time at which each file was last changed (ctime), and is believed only while that
is the same, and no domain and no other volume there uses the file. What cannot be told from a
stranger's file is left, and the VM is told to stay.
"""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .connection import libvirt
from .disk_sight import path_is_shared_fs
from .store import Store, StoreError, VolumeMissing, VolumeTorn, format_name
from .store_names import MadeName, parse_name


class DisksError(Exception):
    """The target volumes cannot be prepared. The text says which and why."""


@dataclass(frozen=True)
class CopyDisk:
    """A disk to copy. `capacity`: the guest-visible size in bytes."""

    device: str
    path: str
    format: str
    capacity: int


def disks_to_copy(dom: Any, devices: Sequence[str] | None) -> list[CopyDisk]:
    """The named disks, or (None) all writable ones with storage of this host only."""
    root = ET.fromstring(dom.XMLDesc(0))
    found = [disk for disk in root.iterfind("devices/disk") if _is_copied(disk, devices)]
    disks = []
    for disk in found:
        device = _attr(disk, "target", "dev")
        path = _attr(disk, "source", "file") or _attr(disk, "source", "dev")
        if not path:
            raise DisksError(f"disk {device} has no path on this host, so it cannot be copied")
        capacity = int(dom.blockInfo(device)[0])
        disks.append(CopyDisk(device, path, _attr(disk, "driver", "type") or "raw", capacity))
    missing = set(devices or ()) - {disk.device for disk in disks}
    if missing:
        raise DisksError(f"no such disk: {', '.join(sorted(missing))}")
    return disks


def _attr(disk: ET.Element, child: str, name: str) -> str:
    element = disk.find(child)
    return "" if element is None else element.get(name, "")


def _is_copied(disk: ET.Element, devices: Sequence[str] | None) -> bool:
    if devices is not None:
        return _attr(disk, "target", "dev") in devices
    if disk.find("readonly") is not None or disk.find("shareable") is not None:
        return False
    if disk.get("device", "disk") not in ("disk", "lun"):
        return False
    if disk.get("type") == "block":
        return True
    path = _attr(disk, "source", "file")
    if disk.get("type") != "file" or not path:
        return False
    shared = path_is_shared_fs(path)
    if shared is None:
        raise DisksError(f"it is not known whether {path} is on shared storage")
    return not shared


class TargetVolumes:
    """The volumes that one attempt makes on its target."""

    def __init__(self, conn: Any, uuid: str, source_node: str) -> None:
        self._conn = conn
        self._store = Store(conn)
        self._uuid = uuid
        self._note = format_name(MadeName(uuid, source_node))

    def prepare(self, disks: Sequence[CopyDisk]) -> None:
        """Make a volume of the same path, size and format for each disk that is a file.

        Raises DisksError, also when something is there that is not surely ours; what was made
        until then is removed.
        """
        known = self._known_there()
        stamps = {} if known else self._stamps()
        files = [disk for disk in disks if not disk.path.startswith("/dev/")]
        pools = [self._pool_for(disk) for disk in files]
        there = [_there(pool, disk.path) for disk, pool in zip(files, pools)]
        old = [(disk.path, volume) for disk, volume in zip(files, there) if volume is not None]
        for path, volume in old:
            self._check_ours(path, volume, stamps)
        for _path, volume in old:
            volume.delete(0)
        if not known:
            self.keep()
        made: list[tuple[str, Any]] = []
        try:
            for disk, pool in zip(files, pools):
                made.append((disk.path, pool.createXML(_volume_xml(disk), 0)))
                # Each as soon as it is there, and never before: what is refused is a stranger's.
                _write_note(self._store, self._note, {p: stamp_of(v) for p, v in made})
        except (libvirt.libvirtError, StoreError) as exc:
            for _path, volume in made:
                volume.delete(0)
            self._store.delete(self._note)
            raise DisksError(f"the target's volume cannot be made: {exc}") from exc

    def _check_ours(self, path: str, volume: Any, stamps: Stamps) -> None:
        """Raises DisksError unless it is surely the file that was noted, and nobody uses it."""
        user = user_of(self._conn, path)
        if user:
            raise DisksError(f"{path} exists on the target, and {user} uses it")
        if path not in stamps:
            raise DisksError(f"{path} exists on the target, and was not made for this VM")
        if stamps[path] is None or stamp_of(volume) != stamps[path]:
            raise DisksError(
                f"{path} exists on the target. A copy of this VM's disk was left there, and this"
                " file was changed since, or it is not known when that one was changed: if it is"
                f" that copy, delete it there (virsh vol-delete {path})"
            )

    def _known_there(self) -> bool:
        """Is the VM defined on the target? Then what is there is in use, whatever a note says."""
        try:
            self._conn.lookupByUUIDString(self._uuid)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
            return False
        return True

    def _notes(self) -> list[str]:
        """Notes about this VM, whoever wrote them."""
        parsed = {name: parse_name(name) for name in self._store.names()}
        return [n for n, p in parsed.items() if isinstance(p, MadeName) and p.vm == self._uuid]

    def _stamps(self) -> Stamps:
        """What all notes say together. Where two speak of a path, one that has a stamp."""
        found: Stamps = {}
        for note in self._notes():
            for path, stamp in _read_note(self._store, note).items():
                found[path] = stamp if stamp is not None else found.get(path)
        return found

    def _pool_for(self, disk: CopyDisk) -> Any:
        folder = os.path.dirname(disk.path)
        for pool in self._conn.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
            root = ET.fromstring(pool.XMLDesc(0))
            if (root.findtext("target/path") or "").rstrip("/") == folder:
                return pool
        raise DisksError(f"the target has no active storage pool at {folder} for {disk.device}")

    def remove(self) -> None:
        """The attempt failed just now: remove what it made. What somebody uses stays, noted.

        No stamp is asked for: the copy has changed the files, and until now they were in its use.
        """
        used = False
        for path in _read_note(self._store, self._note):
            try:
                volume = self._conn.storageVolLookupByPath(path)
            except libvirt.libvirtError as exc:
                if exc.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
                    raise
                continue
            if user_of(self._conn, path, self._uuid):
                used = True
            else:
                volume.delete(0)
        if not used:
            self.keep()

    def keep(self) -> None:
        """The VM runs on them now, or they are gone: nothing of it is left to be replaced."""
        for note in self._notes():
            self._store.delete(note)


# Notes: path -> when the file was last changed (ns); None: not known, so never believed

Stamps = dict[str, Optional[int]]


def _write_note(store: Store, name: str, stamps: Stamps) -> None:
    store.delete(name)
    store.create(name, json.dumps(stamps).encode())


def _read_note(store: Store, name: str) -> Stamps:
    try:
        raw = json.loads(store.read(name) or b"{}")
    except (VolumeMissing, VolumeTorn):
        return {}  # torn: its writer died
    if isinstance(raw, list):  # as it was before there were stamps
        return {str(path): None for path in raw}
    return {str(path): None if stamp is None else int(stamp) for path, stamp in raw.items()}


def stamp_of(volume: Any) -> int | None:
    """The ctime of the volume's file in ns. libvirt reads it afresh for each XMLDesc."""
    text = ET.fromstring(volume.XMLDesc(0)).findtext("target/timestamps/ctime") or ""
    seconds, _dot, rest = text.partition(".")
    if not seconds.isdigit() or (rest and not rest.isdigit()):
        return None
    return int(seconds) * 10**9 + int(rest.ljust(9, "0")[:9])


def note_copies_left(conn: Any, uuid: str, target_node: str, disks: Sequence[CopyDisk]) -> None:
    """Before a move away, in the source's store: which files will stay here. Not believed yet."""
    files = [disk.path for disk in disks if not disk.path.startswith("/dev/")]
    name = format_name(MadeName(uuid, target_node))
    _write_note(Store(conn), name, dict.fromkeys(files))


def stamp_copies_left(conn: Any, uuid: str, target_node: str) -> None:
    """The VM has moved away: from now on nobody changes the files that stay here.

    They may be replaced at its return, as long as nobody has.
    """
    name, store = format_name(MadeName(uuid, target_node)), Store(conn)
    stamps: Stamps = {}
    for path in _read_note(store, name):
        try:
            stamps[path] = os.stat(path).st_ctime_ns
        except OSError:
            continue  # nothing is left of it
    _write_note(store, name, stamps)


# Who uses a file


def user_of(conn: Any, path: str, moving: str = "") -> str:
    """A domain or volume of that host that uses the file, in words; empty: none.

    `moving`: UUID of a VM that counts only while it runs there.
    """
    for dom in conn.listAllDomains(0):
        if dom.UUIDString() == moving and not dom.isActive():
            continue
        try:
            if any(_names(conn, source, path) for source in _sources(dom)):
                return f"the VM {dom.name()}"
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
    for pool in conn.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
        for other in pool.listAllVolumes(0):
            if _base_of(other) == path:
                return f"the volume {other.name()} of pool {pool.name()}"
    return ""


def _base_of(volume: Any) -> str | None:
    try:
        return ET.fromstring(volume.XMLDesc(0)).findtext("backingStore/path")
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
            raise
        return None  # its file is gone


def _sources(dom: Any) -> Iterator[ET.Element]:
    """The sources of its disks and what they stand on, as it runs and as it is defined."""
    kinds = [0]
    if dom.isActive() and dom.isPersistent():
        kinds.append(libvirt.VIR_DOMAIN_XML_INACTIVE)
    for kind in kinds:
        for disk in ET.fromstring(dom.XMLDesc(kind)).iterfind("devices/disk"):
            yield from disk.iter("source")


def _names(conn: Any, source: ET.Element, path: str) -> bool:
    if path in (source.get("file"), source.get("dev")):
        return True
    pool, volume = source.get("pool"), source.get("volume")
    if not pool or volume != os.path.basename(path):
        return False
    try:
        return conn.storagePoolLookupByName(pool).storageVolLookupByName(volume).path() == path
    except libvirt.libvirtError:
        return True  # of that name, and where it is cannot be told


def _volume(pool: Any, path: str) -> Any:
    try:
        return pool.storageVolLookupByName(os.path.basename(path))
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
            raise
        return None


def _there(pool: Any, path: str) -> Any:
    """The volume, if its file is there still: one may be deleted behind libvirt's back."""
    if _volume(pool, path) is None:
        return None
    pool.refresh(0)
    return _volume(pool, path)


def _volume_xml(disk: CopyDisk) -> str:
    root = ET.Element("volume")
    ET.SubElement(root, "name").text = os.path.basename(disk.path)
    ET.SubElement(root, "capacity", unit="bytes").text = str(disk.capacity)
    if disk.format == "raw":  # sparse: the copy fills it
        ET.SubElement(root, "allocation", unit="bytes").text = "0"
    target = ET.SubElement(root, "target")
    ET.SubElement(target, "format", type=disk.format)
    return ET.tostring(root, encoding="unicode")
