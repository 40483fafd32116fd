"""Where a disk's data is, as seen from the source and from a target.

Copying a disk that is in truth shared would write it over itself, and sharing one that is in
truth local would start the guest on another disk. So there are three answers: shared,
local, and not known; and "not known" neither moves nor copies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..domain.spec import DiskSpec, DomainSpec, SourceSpec
from ..host.connection import ERR_NO_SUPPORT, is_lost, libvirt
from ..host.facts import HostFacts
from ..host.mounts import QEMU_CONF, libvirt_shares, path_is_shared_fs, servers_of
from ..host.own_address import OwnAddress, is_loopback, literal
from .same_content import Compared, compare

NETWORK_POOLS = frozenset(("netfs", "iscsi", "iscsi-direct", "rbd", "gluster", "sheepdog"))
FILE_POOLS = frozenset(("dir", "fs", "netfs"))

# Device names made of a world-wide identity; any other name may be another disk elsewhere.
_WORLD_WIDE = re.compile(r"^/dev/(disk/by-id/(?!dm-name-|md-name-)|disk/by-path/ip-|mapper/3[0-9a-f]{16,32}$)")
# Names that may belong to a device-mapper device (multipath), which node devices do not list.
_MAPPED = re.compile(r"^/dev/(mapper/|dm-|disk/by-id/(dm-|scsi-|wwn-))")
# virErrorNumber: no pool, no volume of that name or path; no storage driver.
_NOT_THERE = frozenset((49, 50, ERR_NO_SUPPORT))


@dataclass(frozen=True)
class DiskView:
    """source_shared: on storage that other hosts reach. on_target: the target has that path.

    None: not known. capacity: virtual size in bytes, 0: not known. In words that follow the
    disk's name: `held`: why its data is to be had on this host alone, copied or not; `doubt`: why
    it is neither shared nor local; `unsafe`: why libvirt here does not migrate it although it is
    shared; `lacks`: what of it the target does not have; `in_the_way`: why it cannot be copied;
    `differs`: why what lies there is not the same, though it is on shared storage; `unshown`: why
    it is not known before the drain looks. `served_at`: the servers that are given by name, which
    every host resolves for itself.
    """

    source_shared: bool | None = None
    on_target: bool | None = None
    capacity: int = 0
    held: str = ""
    doubt: str = ""
    unsafe: str = ""
    lacks: str = ""
    in_the_way: str = ""
    differs: str = ""
    unshown: str = ""
    served_at: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceMounts:
    """The mounts and addresses of this host, and the settings of its libvirt."""

    shared_fs: Callable[[str], bool | None] = path_is_shared_fs
    servers: Callable[[str], Sequence[str]] = servers_of
    own: Callable[[str], bool | None] = field(default_factory=OwnAddress)
    libvirt_shares: Callable[[str], bool] = libvirt_shares


SOURCE_MOUNTS = SourceMounts()  # one: each name is asked for once


def local_views(
    spec: DomainSpec,
    source: HostFacts,
    declared_shared: Sequence[str] = (),
    domain: Any = None,
    mounts: SourceMounts | None = None,
) -> dict[str, DiskView]:
    """The disks as this host (the source) sees them, by target device. Reads local mounts.

    `declared_shared`: paths that the administrator says are shared. `domain`: the libvirt
    domain; given, the sizes of local disks are read (virDomainGetBlockInfo).
    """
    reader = _SourceReader(source, declared_shared, mounts or SOURCE_MOUNTS)
    views = {}
    for disk in spec.disks:
        view = reader.disk(disk)
        if domain is not None and view.source_shared is False and not disk.empty:
            view = replace(view, capacity=_capacity(domain, disk.dev))
        views[disk.dev] = view
    return views


@dataclass(frozen=True)
class _SourceReader:
    """At one host's disks from that host."""

    source: HostFacts
    declared: Sequence[str]
    mounts: SourceMounts

    def disk(self, disk: DiskSpec) -> DiskView:
        if disk.empty:
            return DiskView(True)
        layers = disk.layers
        shared = [self._shared(layer) for layer in layers]
        held = self._held(layers)
        if held:
            return DiskView(False if disk.type == "network" else None, held=held)
        if all(layer is True for layer in shared):
            return DiskView(True, unsafe=self._unsafe(disk), served_at=self._served_at(layers))
        if all(layer is False for layer in shared):
            return DiskView(False)
        # A shared disk on a local one can neither be shared nor be copied over itself.
        return DiskView(None, doubt=_doubt(layers, shared))

    def _shared(self, layer: SourceSpec) -> bool | None:
        if layer.type == "network":
            return True  # where it is served: _held
        if layer.type in ("file", "block"):
            return self._path(layer.path, layer.type)
        if layer.type == "volume":
            pool = (self.source.pools or {}).get(layer.pool)
            if pool is None:
                return None
            if pool.type in FILE_POOLS:
                return self._path(f"{pool.target}/{layer.volume}", "file")
            return True if pool.type in NETWORK_POOLS else None
        return None if layer.type == "unknown" else False

    def _path(self, path: str, kind: str) -> bool | None:
        return _path_shared(path, kind, self.declared, self.mounts.shared_fs)

    def _held(self, layers: Sequence[SourceSpec]) -> str:
        """Which of them is served by this host itself."""
        for place, layer in enumerate(layers):
            text = self._served_here(layer)
            if text:
                return f"stands on {layer.source}, which {text}" if place else text
        return ""

    def _served_here(self, layer: SourceSpec) -> str:
        if layer.sockets:
            return f"is served at the socket {layer.sockets[0]} of its host"
        if layer.type == "network":
            return self._own(layer.hosts)
        path = layer.path
        if layer.type == "volume":
            pool = (self.source.pools or {}).get(layer.pool)
            if pool is None or pool.type not in FILE_POOLS:
                return "" if pool is None else self._own(pool.hosts)
            path = f"{pool.target}/{layer.volume}"
        if not path or path.startswith("/dev/") or _declared(path, self.declared):
            return ""
        return self._own(self.mounts.servers(path))

    def _served_at(self, layers: Sequence[SourceSpec]) -> tuple[str, ...]:
        """The host names of servers from which QEMU itself fetches a layer: nothing shows that another host resolves
        them to the same server. Files on a share are compared by the other host's libvirt."""
        names: list[str] = []
        for layer in layers:
            pool = (self.source.pools or {}).get(layer.pool) if layer.type == "volume" else None
            fetched = layer.type == "network" or (pool is not None and pool.type not in FILE_POOLS)
            hosts = pool.hosts if pool is not None else layer.hosts
            names += [host for host in hosts if fetched and literal(host) is None]
        return tuple(dict.fromkeys(names))

    def _own(self, hosts: Sequence[str]) -> str:
        """Why the data is served by this host itself, or may be; empty: it is not. Of several servers one that is
        elsewhere is enough, but a loopback address never is."""
        for host in hosts:
            if is_loopback(host):
                return f"is served at the address {host} of its host, where others serve other data"
        own = [(host, self.mounts.own(host)) for host in hosts]
        if not own or any(answer is False for _host, answer in own):
            return ""
        host, answer = own[0]
        if answer is None:
            return f"is served at {host}, which does not resolve here: it may be this host"
        return f"is served at {host}, which is this host itself"

    def _unsafe(self, disk: DiskSpec) -> str:
        """libvirt migrates a file only from what it takes itself for shared (virFileIsSharedFS)."""
        path = disk.path if disk.type == "file" else ""
        pool = (self.source.pools or {}).get(disk.pool)
        if disk.type == "volume" and pool is not None and pool.type in FILE_POOLS:
            path = f"{pool.target}/{disk.volume}"
        if not path or path.startswith("/dev/") or disk.read_only or disk.removable:
            return ""
        if self.mounts.shared_fs(path) is True or self.mounts.libvirt_shares(path):
            return ""
        return (
            "is declared as shared, but libvirt considers its file system local to this host and does"
            " not migrate it: name its directory in shared_filesystems of"
            f" {QEMU_CONF} on all hosts (if libvirt knows this setting), or let the VM move"
            " while it is off"
        )


def _doubt(layers: Sequence[SourceSpec], shared: Sequence[bool | None]) -> str:
    """Which layer it is, where the disk has several."""
    if len(layers) == 1:
        return ""
    wrong = next(n for n, answer in enumerate(shared) if answer is not True)
    if wrong == 0:
        return f"stands on {layers[1].source}, and one of the two is shared while the other is local"
    kind = "is on this host alone" if shared[wrong] is False else "may be on this host alone"
    return f"stands on {layers[wrong].source}, which {kind}: on another host the VM would read different data there"


def path_shared(path: str, declared: Sequence[str]) -> bool | None:
    """Is a file or directory of this host on storage that other hosts reach? None: not known."""
    return _path_shared(path, "file", declared, path_is_shared_fs)


def _declared(path: str, declared: Sequence[str]) -> bool:
    return any(path == d or path.startswith(d.rstrip("/") + "/") for d in declared)


def _path_shared(path: str, kind: str, declared: Sequence[str], shared_fs: Callable[[str], bool | None]) -> bool | None:
    if _declared(path, declared):
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


def target_views(views: Mapping[str, DiskView], spec: DomainSpec, target: HostFacts, conn: Any) -> dict[str, DiskView]:
    """The same with on_target filled in. One or two calls for each layer with a path."""
    seen = {}
    for disk in spec.disks:
        view = views.get(disk.dev, DiskView())
        there = [_layer_there(conn, target, layer) for layer in disk.layers]
        if disk.empty:
            seen[disk.dev] = view
        elif view.source_shared is not True and not disk.fixed:
            # It is copied, or nothing: below it the target needs what the definition names.
            sent = [_layer_there(conn, target, layer) for layer in disk.sent]
            seen[disk.dev] = replace(view, on_target=there[0], lacks=_lacks(disk.sent, sent))
        else:
            reported = there[1:] if disk.type == "network" else there
            on_target = False if False in reported else (None if None in reported or not reported else True)
            view = replace(view, on_target=on_target, lacks=_lacks(disk.backing, there[1:]))
            if on_target and view.source_shared is False:
                view = _local_medium(conn, disk, view, target)
            seen[disk.dev] = view
    return seen


def _layer_there(conn: Any, target: HostFacts, layer: SourceSpec) -> bool | None:
    if layer.type == "volume":
        return _volume_there(conn, target, layer.pool, layer.volume)
    if layer.path:
        return path_on_target(conn, target, layer.path)
    return True if layer.type == "network" else None


def _lacks(layers: Sequence[SourceSpec], there: Sequence[bool | None]) -> str:
    missing = [layer.source for layer, answer in zip(layers, there) if answer is False]
    return f"stands on {missing[0]}, which is not on" if missing else ""


def _local_medium(conn: Any, disk: DiskSpec, view: DiskView, target: HostFacts) -> DiskView:
    """Both hosts have a file of that name, each its own."""
    if _other_size(conn, disk, view):
        return replace(view, on_target=False, lacks="has another size on")
    # Two images of one content may be laid out in two ways.
    found = compare(conn, disk.path) if disk.path and disk.format == "raw" else Compared(None)
    if found.same is False:
        where = f"has different content on {target.name}, from byte {found.differs_at} on"
        return replace(view, differs=f"is read-only and local, and {where}{': eject it' if disk.removable else ''}")
    if found.whole:
        return view
    text = f"Disk {disk.dev} ({disk.source}) is read-only and local: it is not known whether what {target.name} has"
    return replace(view, unshown=f"{text} there is a copy of it")


def _other_size(conn: Any, disk: DiskSpec, view: DiskView) -> bool:
    """A read-only file of the same name that cannot be the same one."""
    if not disk.path or not view.capacity:
        return False
    try:
        volume = conn.storageVolLookupByPath(disk.path)
        return bool(volume.info()[1] != view.capacity)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() not in _NOT_THERE:
            raise
        return False


def path_on_target(conn: Any, target: HostFacts, path: str) -> bool | None:
    """Does the target have this path? True or False where libvirt knows, else None.

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
    for refresh in (False, True):  # as path_on_target
        try:
            opened = conn.storagePoolLookupByName(pool)
            if refresh:
                opened.refresh(0)
            opened.storageVolLookupByName(volume)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() not in _NOT_THERE and (is_lost(exc) or not refresh):
                raise
            continue
        return True
    return False


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
