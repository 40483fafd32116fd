"""Target volumes of a BlockMigration: made before, removed again if it fails.

They are made through the target's storage API in the pool that has the same path. What was
made is noted in the target's store, so that the next attempt knows the leftover of one that was
killed or cut off from a stranger's file, and never writes over that. See store/copied_disks.py.

The source keeps its copies, as libvirt does. They are noted in its own store, so that the VM
can come back: then they are replaced, if nothing there uses them (uses.py). What
cannot be distinguished from a stranger's file is left, and the VM is told to stay.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..blockers.disk_chains import NOT_READ, Header, parse_header, read_header
from ..domain.untrusted import parse_xml
from ..host.connection import libvirt
from ..host.facts import LOOK_POOL
from ..host.mounts import path_is_shared_fs
from ..store import copied_disks
from ..store.volumes import Store, StoreError
from .uses import user_of

_RUNS, _DEFINED = "runs", "defined"


class DisksError(Exception):
    """The target volumes cannot be prepared. The text says which and why."""


@dataclass(frozen=True)
class CopyDisk:
    """A disk to copy. `capacity`: the guest-visible size in bytes. `image`: what its file says of itself."""

    device: str
    path: str
    format: str
    capacity: int
    image: Header = NOT_READ

    @property
    def is_file(self) -> bool:
        return not self.path.startswith("/dev/")


def disks_to_copy(dom: Any, devices: Sequence[str] | None) -> list[CopyDisk]:
    """The named disks, or (None) all writable ones with storage of this host only."""
    root = parse_xml(dom.XMLDesc(0))
    found = [disk for disk in root.iterfind("devices/disk") if _is_copied(disk, devices)]
    disks = []
    for disk in found:
        device = _attr(disk, "target", "dev")
        path = _attr(disk, "source", "file") or _attr(disk, "source", "dev") or _in_pool(dom, disk)
        if not path:
            raise DisksError(f"disk {device} has no path on this host, so it cannot be copied")
        capacity = int(dom.blockInfo(device)[0])
        kind = _attr(disk, "driver", "type") or "raw"
        image = parse_header(read_header(path)) if kind == "qcow2" else NOT_READ
        disks.append(CopyDisk(device, path, kind, capacity, image))
    missing = set(devices or ()) - {disk.device for disk in disks}
    if missing:
        raise DisksError(f"no such disk: {', '.join(sorted(missing))}")
    return disks


def _in_pool(dom: Any, disk: ET.Element) -> str:
    """The path of a disk that is named by its pool and its volume; empty: it is not."""
    pool, volume = _attr(disk, "source", "pool"), _attr(disk, "source", "volume")
    if not pool or not volume:
        return ""
    conn = dom.connect()
    return str(conn.storagePoolLookupByName(pool).storageVolLookupByName(volume).path())


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

    def __init__(
        self,
        conn: Any,
        uuid: str,
        store: Store | None = None,
        acts: bool = True,
        given_up: Callable[[], bool] = lambda: False,
    ) -> None:
        """`acts` False: nothing is made there to find out who uses a file. `given_up`: does nobody wait any more?"""
        self._acts, self._given_up = acts, given_up
        self._conn = conn
        self._store = store or Store(conn)
        self._uuid = uuid

    def prepare(self, disks: Sequence[CopyDisk]) -> None:
        """Make a volume of the same path, size and format for each disk that is a file.

        Raises DisksError, also when something is there that is not surely ours; what was made
        until then is removed.
        """
        files = [disk for disk in disks if disk.is_file]
        pools = [self._pool_for(disk) for disk in files]
        self._clear(files, pools)
        self._check_awaited()
        # Noted before they are made, so that what a killed holder made is known as well.
        notes: copied_disks.Notes = {disk.path: copied_disks.NEW for disk in files}
        copied_disks.write(self._store, self._uuid, notes)
        made: list[tuple[str, Any]] = []
        try:
            for disk, pool in zip(files, pools):
                self._check_awaited()
                made.append((disk.path, pool.createXML(_volume_xml(disk), 0)))
                self._check_awaited()
                notes[disk.path] = copied_disks.half_copy(made[-1][1])
                copied_disks.write(self._store, self._uuid, notes)
        except (libvirt.libvirtError, StoreError) as exc:
            self._check_awaited()
            # First the note: what libvirt refused to make is a stranger's.
            notes = {path: copied_disks.half_copy(volume) for path, volume in made}
            copied_disks.write(self._store, self._uuid, notes)
            for _path, volume in made:
                volume.delete(0)
            self.keep()
            raise DisksError(f"the target's volume cannot be created: {exc}") from exc

    def in_the_way(self, disk: CopyDisk) -> str:
        """Why a volume for this disk will not be made, in words; empty: it will. Only reads.

        Not what is there while the VM arrives: then its own attempt has made the file.
        """
        state = self._known_there()
        if state == _RUNS:
            return ""
        volume = _there(self._pool_for(disk), disk.path)
        if volume is None:
            return ""
        notes = {} if state else copied_disks.read(self._store, self._uuid)
        try:
            self._check_ours(disk, volume, notes)
        except DisksError as exc:
            return str(exc)
        return ""

    def _clear(self, files: Sequence[CopyDisk], pools: Sequence[Any]) -> None:
        """Delete what earlier attempts left, or nothing at all. Raises DisksError."""
        notes = {} if self._known_there() else copied_disks.read(self._store, self._uuid)
        there = [_there(pool, disk.path) for disk, pool in zip(files, pools)]
        old = [(disk, volume) for disk, volume in zip(files, there) if volume is not None]
        for disk, volume in old:
            self._check_ours(disk, volume, notes)
        for _disk, volume in old:
            self._check_awaited()
            volume.delete(0)

    def _check_ours(self, disk: CopyDisk, volume: Any, notes: copied_disks.Notes) -> None:
        """Raises DisksError unless it is surely the file that was noted, and nobody uses it."""
        path = disk.path
        user = user_of(self._conn, path, acts=self._acts)
        if user:
            raise DisksError(f"{path} exists on the target, and {user} uses it")
        if path not in notes:
            raise DisksError(f"{path} exists on the target, but was not created for this VM")
        if notes[path] == copied_disks.NEW:
            if not copied_disks.just_made(self._store, self._uuid, volume, disk.capacity):
                raise DisksError(f"{path} exists on the target, and may be another VM's disk")
        elif copied_disks.is_half(notes[path]):
            if not copied_disks.is_unfinished(self._store, self._uuid, volume, notes[path]):
                raise DisksError(f"{path} exists on the target. {_not_proven(path)}")
        elif not isinstance(notes[path], int) or copied_disks.stamp_of(volume) != notes[path]:
            raise DisksError(
                f"{path} exists on the target. A copy of this VM's disk was left there, but this"
                " file was changed since, or it is not known when the copy was changed: if it is that copy, delete it"
                f" there (virsh vol-delete {path})"
            )

    def _check_awaited(self) -> None:
        """Before each change. Who hung in a call and was given up may find here what a later attempt has made."""
        if self._given_up():
            raise DisksError("nobody waits for it any more")

    def _known_there(self) -> str:
        """Is the VM defined on the target? Then what is there is in use, whatever a note says."""
        try:
            dom = self._conn.lookupByUUIDString(self._uuid)
            return _RUNS if dom.isActive() else _DEFINED
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
            return ""

    def _pool_at(self, folder: str) -> Any:
        for pool in self._conn.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
            if pool.name().startswith(LOOK_POOL):
                continue  # it ends in a moment
            root = parse_xml(pool.XMLDesc(0))
            if (root.findtext("target/path") or "").rstrip("/") == folder:
                return pool
        return None

    def _pool_for(self, disk: CopyDisk) -> Any:
        folder = os.path.dirname(disk.path)
        pool = self._pool_at(folder)
        if pool is not None:
            return pool
        raise DisksError(f"the target has no active storage pool at {folder} for {disk.device}")

    def remove(self, runs: bool) -> None:
        """The attempt failed just now: remove what it made. What somebody uses stays, noted.

        `runs`: the VM runs at its source. One that is off there, and is defined here, may have run here until it
        ended: then its last writes are in these files. One that runs there may be defined here as well: libvirt
        writes the definition before the guest runs, and leaves it if that fails.
        No times are compared: the copy has changed the files, and until now they were in its use.
        """
        if runs or not self._known_there():
            self._remove(lambda _volume, _value: True)

    def remove_unfinished(self) -> list[str]:
        """The same of an attempt that ended some time ago: only what is surely its half copy.

        What was left, a sentence each.
        """
        return self._remove(lambda volume, value: copied_disks.is_unfinished(self._store, self._uuid, volume, value))

    def _remove(self, ours: Callable[[Any, object], bool]) -> list[str]:
        notes = copied_disks.read(self._store, self._uuid)
        left, stays = {}, []
        for path, value in notes.items():
            if not copied_disks.is_half(value):
                left[path] = value  # not of a file that such an attempt made
                continue
            pool = self._pool_at(os.path.dirname(path))
            volume = None if pool is None else _there(pool, path)
            if pool is None:
                left[path] = value  # its storage is not there now
            elif volume is None:
                continue
            elif not ours(volume, value):
                left[path] = value
                stays.append(_not_proven(path))
            elif user_of(self._conn, path, self._uuid):
                left[path] = value
            else:
                self._check_awaited()
                volume.delete(0)
        self._check_awaited()
        if left != notes:
            copied_disks.write(self._store, self._uuid, left)
        return stays

    def go_on(self) -> None:
        """A sign that the copy goes on."""
        copied_disks.goes_on(self._store, self._uuid)

    def keep(self) -> None:
        """The VM runs on them now, or they are gone: nothing of it is left to be replaced."""
        copied_disks.forget(self._store, self._uuid)

    def finish(self) -> None:
        """`keep`, some time later: what else is noted meanwhile stays."""
        notes = copied_disks.read(self._store, self._uuid)
        left = {path: value for path, value in notes.items() if not copied_disks.is_half(value)}
        if left != notes:
            copied_disks.write(self._store, self._uuid, left)


def _not_proven(path: str) -> str:
    return (
        f"A copy of this VM's disk was started there and never finished, but {path} was changed since: if it is that"
        f" copy, delete it there (virsh vol-delete {path})."
    )


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
    if disk.format == "qcow2":
        _keep_layout(target, disk.image)
    return ET.tostring(root, encoding="unicode")


def _keep_layout(target: ET.Element, image: Header) -> None:
    """The image as its owner made it. libvirt's default is version 2, which has no place for the
    bitmaps of incremental backups. One that could not be read becomes a version 3."""
    ET.SubElement(target, "compat").text = "0.10" if image.version == 2 else "1.1"
    if image.cluster:
        ET.SubElement(target, "clusterSize", unit="bytes").text = str(image.cluster)
    if image.lazy:
        ET.SubElement(ET.SubElement(target, "features"), "lazy_refcounts")
