# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Target volumes of a BlockMigration: made before, removed again if it fails.

They are made through the target's storage API in the pool that has the same path. What was
made stands first in a volume of the target's store (made.<vm>.<source>), so that the next
attempt knows a leftover of a killed one from a stranger's file, and never writes over that.

The source keeps its copies, as libvirt does. They stand in its own store before the move
(made.<vm>.<target>), so that the VM can come back: then they are replaced.
"""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .connection import libvirt
from .disk_sight import path_is_shared_fs
from .store import Store, VolumeMissing, VolumeTorn, format_name
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

        Raises DisksError, also when something is there that is not ours; what was made
        until then is removed.
        """
        known = self._known_there()
        ours = [] if known else self._ours()
        files = [disk for disk in disks if not disk.path.startswith("/dev/")]
        pools = [self._pool_for(disk) for disk in files]
        for disk, pool in zip(files, pools):
            if _volume(pool, disk.path) is None:
                continue
            if disk.path not in ours:
                raise DisksError(f"{disk.path} exists on the target, and was not made for this VM")
        if not known:
            self.remove()
        self._store.create(self._note, json.dumps([disk.path for disk in files]).encode())
        try:
            for disk, pool in zip(files, pools):
                pool.createXML(_volume_xml(disk), 0)
        except libvirt.libvirtError as exc:
            self.remove()
            raise DisksError(f"the target's volume cannot be made: {exc}") from exc

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

    def _ours(self) -> list[str]:
        found: list[str] = []
        for note in self._notes():
            try:
                found += [str(path) for path in json.loads(self._store.read(note) or b"[]")]
            except (VolumeMissing, VolumeTorn):
                continue  # torn: its writer died before it made the first volume
        return list(dict.fromkeys(found))

    def _pool_for(self, disk: CopyDisk) -> Any:
        folder = os.path.dirname(disk.path)
        for pool in self._conn.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
            root = ET.fromstring(pool.XMLDesc(0))
            if (root.findtext("target/path") or "").rstrip("/") == folder:
                return pool
        raise DisksError(f"the target has no active storage pool at {folder} for {disk.device}")

    def remove(self) -> None:
        """Remove what we made. Only while the VM does not run on the target."""
        for path in self._ours():
            try:
                self._conn.storageVolLookupByPath(path).delete(0)
            except libvirt.libvirtError as exc:
                if exc.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
                    raise
        self.keep()

    def keep(self) -> None:
        """The VM runs on them now: they are its own."""
        for note in self._notes():
            self._store.delete(note)


def note_copies_left(conn: Any, uuid: str, target_node: str, disks: Sequence[CopyDisk]) -> None:
    """Before a move away, in the source's store: what stays here may be replaced at its return.

    Believed only while the VM does not run here, as every such note.
    """
    name = format_name(MadeName(uuid, target_node))
    store = Store(conn)
    store.delete(name)
    files = [disk.path for disk in disks if not disk.path.startswith("/dev/")]
    store.create(name, json.dumps(files).encode())


def _volume(pool: Any, path: str) -> Any:
    try:
        return pool.storageVolLookupByName(os.path.basename(path))
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
            raise
        return None


def _volume_xml(disk: CopyDisk) -> str:
    root = ET.Element("volume")
    ET.SubElement(root, "name").text = os.path.basename(disk.path)
    ET.SubElement(root, "capacity", unit="bytes").text = str(disk.capacity)
    if disk.format == "raw":  # sparse: the copy fills it
        ET.SubElement(root, "allocation", unit="bytes").text = "0"
    target = ET.SubElement(root, "target")
    ET.SubElement(target, "format", type=disk.format)
    return ET.tostring(root, encoding="unicode")
