"""Has a medium that both hosts have, each its own file, the same content there?

Small ones are compared whole, of others some parts: with the beginning, where an ISO image says what
it is and when it was made. The target's libvirt reads its file; nothing is written.
"""

from __future__ import annotations

import os
import stat
from typing import Any, BinaryIO, NamedTuple

from ..host.connection import is_lost, libvirt

PART = 64 << 10  # bytes; a message of libvirt's streams carries 256 KiB
PARTS = 16


class Compared(NamedTuple):
    """same None: it could not be read. differs_at: byte. whole: nothing of it was left out."""

    same: bool | None
    differs_at: int = 0
    whole: bool = False


def compare(conn: Any, path: str) -> Compared:
    """The file of this host with that of the same path behind `conn`.

    Raises libvirtError when the connection is lost.
    """
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            return _compare(conn, path, file, found.st_size) if stat.S_ISREG(found.st_mode) else Compared(None)
    except OSError:
        return Compared(None)
    except libvirt.libvirtError as exc:
        if is_lost(exc):
            raise
        return Compared(None)


def _compare(conn: Any, path: str, file: BinaryIO, size: int) -> Compared:
    volume = conn.storageVolLookupByPath(path)
    places = _places(size)
    for start in places:
        file.seek(start)
        here = file.read(PART)
        there = _read(conn, volume, start, len(here))
        if here != there:
            pairs = enumerate(zip(here, there))
            return Compared(False, start + next((n for n, (a, b) in pairs if a != b), len(there)))
    return Compared(True, whole=len(places) * PART >= size)


def _places(size: int) -> list[int]:
    """Where the parts begin: all of a small file, else with the first and the last one."""
    count = -(-size // PART)
    if count <= PARTS:
        return [PART * n for n in range(count)]
    return [(size - PART) * n // (PARTS - 1) for n in range(PARTS)]


def _read(conn: Any, volume: Any, start: int, length: int) -> bytes:
    """Less, where the file ends before."""
    stream = conn.newStream(0)
    volume.download(stream, start, length, 0)
    data = bytearray()
    while len(data) < length:
        part = stream.recv(length - len(data))
        if not part:
            break
        data += part
    stream.finish()
    return bytes(data)
