# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a disk's data is, as seen from the source and from a target.

Copying a disk that is in truth shared would write it over itself, and sharing one that is in
truth local would start the guest on another disk. So there are three answers: shared,
local, and not known; and "not known" neither moves nor copies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .connection import ERR_NO_SUPPORT, is_lost, libvirt
from .domain_spec import DiskSpec, DomainSpec
from .host_facts import HostFacts

# File systems that libvirt takes as shared (virFileIsSharedFS in src/util/virfile.c), by their
# names in /proc/self/mountinfo.
# fmt: off
SHARED_FS = frozenset((
    "nfs", "nfs4", "gfs", "gfs2", "ocfs2", "afs", "smbfs", "cifs", "smb3", "ceph", "gpfs", "acfs",
    "beegfs", "fuse.glusterfs", "fuse.quobyte",
))
# fmt: on
# File systems that are on this host alone. One in neither list is not known: it may be shared
# although libvirt does not know it (lustre, moosefs, sshfs, virtiofs ...).
# fmt: off
LOCAL_FS = frozenset((
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "reiserfs", "bcachefs",
    "nilfs2", "tmpfs", "ramfs", "overlay", "squashfs", "iso9660", "udf", "vfat", "exfat", "ntfs",
    "ntfs3", "hugetlbfs", "devtmpfs", "rootfs",
))
# fmt: on
NETWORK_POOLS = frozenset(("netfs", "iscsi", "iscsi-direct", "rbd", "gluster", "sheepdog"))
FILE_POOLS = frozenset(("dir", "fs", "netfs"))

# Device names made of a world-wide identity; any other name may be another disk elsewhere.
_WORLD_WIDE = re.compile(
    r"^/dev/(disk/by-id/(?!dm-name-|md-name-)|disk/by-path/ip-|mapper/3[0-9a-f]{16,32}$)"
)
# Names that may belong to a device-mapper device (multipath), which node devices do not list.
_MAPPED = re.compile(r"^/dev/(mapper/|dm-|disk/by-id/(dm-|scsi-|wwn-))")
# virErrorNumber: no pool, no volume of that name or path; no storage driver.
_NOT_THERE = frozenset((49, 50, ERR_NO_SUPPORT))


@dataclass(frozen=True)
class DiskSight:
    """source_shared: on storage that other hosts reach. on_target: the target has that path.

    None: not known. capacity: virtual size in bytes, 0: not known.
    """

    source_shared: bool | None = None
    on_target: bool | None = None
    capacity: int = 0


def path_is_shared_fs(path: str, mountinfo: str | None = None) -> bool | None:
    """Is the path on a shared file system? None: on one that is in neither list.

    Follows virFileIsSharedFS: symbolic links are resolved, and where the path is not there, the
    nearest directory above decides. Reads /proc/self/mountinfo (proc(5)) unless it is given.
    """
    if mountinfo is None:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
            mountinfo = stream.read()
    real = os.path.realpath(path)
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        fields, _dash, rest = line.partition(" - ")
        words, tail = fields.split(" "), rest.split(" ")
        if len(words) < 5 or not tail[0]:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), words[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        # Later lines are mounted over earlier ones.
        if inside and len(point) >= best:
            best, kind = len(point), tail[0]
    if kind in SHARED_FS:
        return True
    return False if kind in LOCAL_FS else None


def local_sights(
    spec: DomainSpec,
    source: HostFacts,
    declared_shared: Sequence[str] = (),
    domain: Any = None,
    shared_fs: Callable[[str], bool | None] = path_is_shared_fs,
) -> dict[str, DiskSight]:
    """The disks as this host (the source) sees them, by target device. Reads local mounts.

    `declared_shared`: paths that the administrator says are shared. `domain`: the libvirt
    domain; given, the sizes of local disks are read (virDomainGetBlockInfo).
    """
    sights = {}
    for disk in spec.disks:
        shared = _shared_here(disk, source, declared_shared, shared_fs)
        capacity = 0
        if domain is not None and shared is False and not disk.empty:
            capacity = _capacity(domain, disk.dev)
        sights[disk.dev] = DiskSight(shared, None, capacity)
    return sights


def _shared_here(
    disk: DiskSpec,
    source: HostFacts,
    declared: Sequence[str],
    shared_fs: Callable[[str], bool | None],
) -> bool | None:
    if disk.empty:
        return True
    if disk.type == "network":
        return not disk.bound_to_host
    if disk.type in ("file", "block"):
        layers = [_path_shared(p, disk.type, declared, shared_fs) for p in _layers(disk)]
        if all(layer is True for layer in layers):
            return True
        # A shared disk on a local one can neither be shared nor be copied over itself.
        return False if all(layer is False for layer in layers) else None
    if disk.type == "volume":
        pool = (source.pools or {}).get(disk.pool)
        if pool is None:
            return None
        if pool.type in NETWORK_POOLS:
            return True
        if pool.type in FILE_POOLS:
            return _path_shared(f"{pool.target}/{disk.volume}", "file", declared, shared_fs)
        return None
    return False


def path_shared(path: str, declared: Sequence[str]) -> bool | None:
    """Is a file or directory of this host on storage that other hosts reach? None: not known."""
    return _path_shared(path, "file", declared, path_is_shared_fs)


def _layers(disk: DiskSpec) -> list[str]:
    return [path for path in (disk.path, *disk.backing) if path]


def _path_shared(
    path: str,
    kind: str,
    declared: Sequence[str],
    shared_fs: Callable[[str], bool | None],
) -> bool | None:
    if any(path == d or path.startswith(d.rstrip("/") + "/") for d in declared):
        return True
    if kind == "block" or path.startswith("/dev/"):
        return True if _WORLD_WIDE.match(path) else None
    return shared_fs(path)


def _capacity(domain: Any, dev: str) -> int:
    try:
        return int(domain.blockInfo(dev)[0])
    except libvirt.libvirtError as exc:
        if is_lost(exc):
            raise
        return 0


def target_sights(
    sights: Mapping[str, DiskSight], spec: DomainSpec, target: HostFacts, conn: Any
) -> dict[str, DiskSight]:
    """The same with on_target filled in. One or two calls for each disk with a path."""
    seen = {}
    for disk in spec.disks:
        sight = sights.get(disk.dev, DiskSight())
        on_target: bool | None = None
        if disk.type == "volume":
            on_target = _volume_there(conn, target, disk.pool, disk.volume)
        elif disk.path:
            layers = _layers(disk) if sight.source_shared else [disk.path]
            answers = [path_on_target(conn, target, path) for path in layers]
            on_target = False if False in answers else (None if None in answers else True)
        seen[disk.dev] = replace(sight, on_target=on_target)
    return seen


def path_on_target(conn: Any, target: HostFacts, path: str) -> bool | None:
    """Does the target have this path? True or False where libvirt can tell, else None.

    A volume that was made behind libvirt's back is found only after a refresh of its pool
    (virStoragePoolRefresh), so before the answer "no" the pool is refreshed once.
    """
    if _volume_by_path(conn, path):
        return True
    if path.startswith("/dev/"):
        return _node_device(conn, path)
    pool = covering_pool(target, path)
    if pool is None:
        return None
    try:
        conn.storagePoolLookupByName(pool).refresh(0)
    except libvirt.libvirtError as exc:
        if is_lost(exc):
            raise
        return None
    return _volume_by_path(conn, path)


def covering_pool(target: HostFacts, path: str) -> str | None:
    """The target's active pool whose directory has this path; None: there is none."""
    folder = os.path.dirname(path)
    for pool in (target.pools or {}).values():
        if pool.type in FILE_POOLS and pool.target == folder:
            return pool.name
    return None


def _volume_by_path(conn: Any, path: str) -> bool:
    try:
        conn.storageVolLookupByPath(path)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() not in _NOT_THERE:
            raise  # no answer, which is not "no"
        return False
    return True


def _volume_there(conn: Any, target: HostFacts, pool: str, volume: str) -> bool | None:
    if target.pools is None:
        return None
    if pool not in target.pools:
        return False
    try:
        conn.storagePoolLookupByName(pool).storageVolLookupByName(volume)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() not in _NOT_THERE:
            raise
        return False
    return True


def _node_device(conn: Any, path: str) -> bool | None:
    """A device node by any of its names, among the target's storage devices."""
    try:
        devices = conn.listAllDevices(libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_STORAGE)
        if any(f">{path}<" in device.XMLDesc(0) for device in devices):
            return True
    except libvirt.libvirtError as exc:
        if is_lost(exc):
            raise
        return None
    return None if _MAPPED.match(path) else False
