"""QEMU's own locks on images: are those of another host seen here?

QEMU locks bytes of an image that it opens, and does not start where another QEMU has the image for writing. That keeps
two hosts apart only if the file system carries the locks from one to the other. So each host looks for those of its
peers' running VMs, while these live.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Collection, Iterable

from ..._core.model.record import RecordError
from ..observe.host import Host
from ..records.protected import Kept
from ..store.names import split_generation
from ..store.volumes import VolumeTorn

# block/file-posix.c: a byte of its own for "nobody else may write" (RAW_LOCK_SHARED_BASE + BLK_PERM_WRITE).
_NOBODY_WRITES = 201
_GETLK = 36  # F_OFD_GETLK, which Python names from 3.9 on only where the C library does
_FLOCK = "hhqqi4x"  # struct flock of Linux


def seen(own: Host, running_here: Collection[str]) -> list[str]:
    """Files of its peers' running VMs whose locks this host sees. `running_here`: UUIDs, whose locks are its own."""
    found: set[str] = set()
    for head in {split_generation(name)[0] for name in own.store.names()}:
        if head.startswith("protect.") and head != f"protect.{own.name}":
            kept = _kept(own, head)
            for vm in kept.vms if kept is not None else ():
                if kept is not None and vm.active and vm.uuid not in running_here:
                    found.update(_locked(kept.files.get(vm.uuid, ())))
    return sorted(found)


def _kept(own: Host, volume: str) -> Kept | None:
    """None: it is gone, or cannot be read. Then its host writes it anew, which it could not if each waited for the
    others: all are of another version after an update."""
    try:
        text = own.store.read_record(volume)
        return None if text is None else Kept.from_json(text)
    except (VolumeTorn, RecordError):
        return None


def _locked(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if is_locked(path)]


def is_locked(path: str) -> bool:
    """Does a QEMU of whatever host have it for writing? False: none does, or it is not known."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, _NOBODY_WRITES, 1, 0)
        return bool(struct.unpack(_FLOCK, fcntl.fcntl(file, _GETLK, asked))[0] != fcntl.F_UNLCK)
    except OSError:
        return False
    finally:
        os.close(file)
