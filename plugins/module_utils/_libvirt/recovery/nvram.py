"""The NVRAM of a VM, kept with its definition and put in place on another host. Else the firmware there forgets what it
boots, and which keys it trusts."""

from __future__ import annotations

import base64
import os
import zlib
from html import escape
from typing import Any

from ..blockers.same_files import pool_at
from ..blockers.shared_storage import covering_pool
from ..host.connection import libvirt
from ..host.facts import HostFacts

MOST = 1 << 20  # bytes. What OVMF has is half of it; most of it is empty, and packs to some KiB.
_NO_VOLUME = 50  # VIR_ERR_NO_STORAGE_VOL
_VOLUME = (
    "<volume><name>{}</name><capacity>{}</capacity><target><format type='raw'/>"
    "<permissions><mode>0600</mode></permissions></target></volume>"
)


class NvramInUse(Exception):
    """Another VM there has this file."""


def pack(path: str) -> str:
    """The file of this host as text; empty: it cannot be read, or is not small."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST + 1)
    except OSError:
        return ""
    return base64.b64encode(zlib.compress(data)).decode() if data and len(data) <= MOST else ""


def put(conn: Any, target: HostFacts, uuid: str, path: str, packed: str) -> None:
    """Write the NVRAM file on the target as it was kept (`packed`: by `pack`), through a storage pool. The VM is not
    defined there yet, so it does not run there; a file that is there is from an earlier stay, and is replaced. Raises
    NvramInUse, libvirtError, ValueError."""
    data = zlib.decompress(base64.b64decode(packed))
    for dom in conn.listAllDomains(0):
        if dom.UUIDString() != uuid and f">{escape(path, quote=False)}<" in dom.XMLDesc(0):
            raise NvramInUse(f"its NVRAM {path} belongs to {dom.name()} there")
    folder, name = os.path.split(path)
    with pool_at(conn, folder, covering_pool(target, path)) as pool:
        try:
            pool.storageVolLookupByName(name).delete(0)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != _NO_VOLUME:
                raise
        volume = pool.createXML(_VOLUME.format(escape(name), len(data)), 0)
        stream = conn.newStream(0)
        volume.upload(stream, 0, len(data), 0)
        at = 0
        while at < len(data):
            at += stream.send(data[at : at + (64 << 10)])
        stream.finish()
