"""Find what uses a file on a host: a file in use must not be replaced.

A use is a domain, on or off, whose disk it is, or stands on it however deep; what a snapshot or a
saved state of a domain names; a volume of any pool that stands on it. libvirt reports what an image
stands on for volumes of a pool only, so the directory of an image outside of all pools becomes one
for the moment. What is not known is a use.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from ..blockers.same_files import pool_at
from ..domain.untrusted import parse_xml
from ..host.connection import ERR_NO_SUPPORT, is_lost, libvirt

DEEPEST = 200  # as many images below each other as libvirt follows


def user_of(conn: Any, path: str, moving: str = "", acts: bool = True) -> str:
    """Return what uses the file on that host, in words; empty: nothing.

    `moving`: UUID of a VM that counts only while it runs there. `acts` False: no pool is made, and
    what only that would tell is left out.
    """
    images: dict[str, str] = {}  # of domains -> whose
    for dom in conn.listAllDomains(0):
        if dom.UUIDString() == moving and not dom.isActive():
            continue
        if _reads(conn, dom, path, images):
            return f"the VM {dom.name()}"
    bases: dict[str, str] = {}  # of the volumes of all pools
    for pool in conn.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
        for other in pool.listAllVolumes(0):
            base = _base_of(other)
            if base == path:
                return f"the volume {other.name()} of pool {pool.name()}"
            if base is not None:
                bases[other.path()] = base
    with _Chains(conn, bases, acts) as chains:
        found = ((name, chains.lead_to(path, image)) for image, name in images.items())
        return next((f"the VM {name}, {text}," for name, text in found if text), "")


def _reads(conn: Any, dom: Any, path: str, images: dict[str, str]) -> bool:
    """Does the domain name the file? Its other images are added to `images`."""
    try:
        for source in _sources(dom):
            if _names(conn, source, path):
                return True
            image = source.get("file") or ""
            if image.startswith("/"):
                images.setdefault(image, dom.name())
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise
    return False


class _Chains:
    """The backing files of images. `bases`: known ones, image -> what is below it, empty: nothing."""

    def __init__(self, conn: Any, bases: dict[str, str], acts: bool) -> None:
        self._conn = conn
        self._bases = bases
        self._acts = acts
        self._pools: dict[str, Any] = {}
        self._open = ExitStack()

    def __enter__(self) -> _Chains:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._open.close()

    def lead_to(self, path: str, image: str) -> str:
        """How the image stands on the file, in words; empty: it does not."""
        first = image
        for _depth in range(DEEPEST):
            try:
                below = self._below(image)
            except libvirt.libvirtError as exc:
                if is_lost(exc):
                    raise
                if "No such file or directory" in str(exc):
                    return ""  # no directory, no image
                why = " ".join(str(exc).split())
                return f"whose {first} is backed by something that cannot be read ({image}: {why})"
            if below == path:
                return f"whose {first} is backed by it"
            if not below.startswith("/"):
                return ""
            image = below
        return ""

    def _below(self, image: str) -> str:
        if image not in self._bases:
            self._bases[image] = self._read(image)
        return self._bases[image]

    def _read(self, image: str) -> str:
        folder = os.path.dirname(image)
        if not self._acts or folder == "/dev" or folder.startswith("/dev/"):
            return ""
        if folder not in self._pools:
            self._pools[folder] = self._open.enter_context(pool_at(self._conn, folder, None))
        try:
            volume = self._pools[folder].storageVolLookupByName(os.path.basename(image))
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
                raise
            return ""  # no file, nothing below it
        return _base_of(volume) or ""


def _base_of(volume: Any) -> str | None:
    """Empty: it stands on nothing. None: its file is gone."""
    try:
        return parse_xml(volume.XMLDesc(0)).findtext("backingStore/path") or ""
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_VOL:
            raise
        return None


def _sources(dom: Any) -> Iterator[ET.Element]:
    """The sources of its disks and what they stand on, as it runs, as it is defined, as its
    snapshots are, and as it was when it was saved."""
    for xml in _definitions(dom):
        for disk in parse_xml(xml).iter("disk"):
            yield from disk.iter("source")


def _definitions(dom: Any) -> Iterator[str]:
    yield dom.XMLDesc(0)
    if dom.isActive() and dom.isPersistent():
        yield dom.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    try:
        for snapshot in dom.listAllSnapshots(0):
            yield snapshot.getXMLDesc(0)
        if dom.isPersistent() and dom.hasManagedSaveImage(0):
            yield dom.managedSaveGetXMLDesc(0)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != ERR_NO_SUPPORT:
            raise


def _names(conn: Any, source: ET.Element, path: str) -> bool:
    if path in (source.get("file"), source.get("dev")):
        return True
    pool, volume = source.get("pool"), source.get("volume")
    if not pool or volume != os.path.basename(path):
        return False
    try:
        return conn.storagePoolLookupByName(pool).storageVolLookupByName(volume).path() == path
    except libvirt.libvirtError:
        return True  # of that name, and where it is, is not known
