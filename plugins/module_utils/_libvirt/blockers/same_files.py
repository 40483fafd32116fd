"""Is a directory on shared storage the very same one on the target?

The kind of a file system says that it can be shared, not that the target has this one mounted
there. What shows it is a file that both see alike: its size, and its ctime to the nanosecond, which
nobody can set. A file that is written now has another ctime at each look, and a network file system
may give an old one for a minute, so files are compared that rest. Where none does, the target makes
an empty file (a token) and this host sees it, or does not.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import escape  # as in store/volumes
from typing import Any, NamedTuple

from ..domain.untrusted import parse_xml
from ..host.connection import is_lost, libvirt
from ..host.facts import LOOK_POOL, HostFacts
from ..host.mounts import LOCAL_FS, SHARED_FS, mount_of
from .shared_storage import covering_pool

RESTS = 120.0  # seconds since its last change
MOST = 5  # files that are compared
TOKEN = "virtops-token-"
LOOKS, LOOK_PAUSE = 20, 0.25  # how often, and with how many seconds between, for another one's look to end
_pause = time.sleep
_NO_VOLUME = 50  # VIR_ERR_NO_STORAGE_VOL
_NUMBERED = (LOCAL_FS | SHARED_FS) - {"cifs", "smb3", "smbfs"}


class Shown(NamedTuple):
    """same None: it could not be shown, only for want of a way to look. why: in words that follow
    the name of what lies there."""

    same: bool | None
    why: str = ""


class FileSeen(NamedTuple):
    """size: None: not reported."""

    size: int | None
    ctime: str

    def __str__(self) -> str:
        size = "" if self.size is None else f"{self.size} bytes, "
        return f"{size}changed at {self.ctime}"


@dataclass(frozen=True)
class LocalFiles:
    """This host's files, as the system reports them."""

    real: Callable[[str], str] = os.path.realpath
    now: Callable[[], float] = time.time
    exists: Callable[[str], bool] = os.path.lexists

    def seen(self, path: str) -> tuple[FileSeen, float] | None:
        """A regular file, and when it changed; None: there is none."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        if not os.path.isfile(path):
            return None
        seconds, rest = divmod(found.st_ctime_ns, 10**9)
        return FileSeen(found.st_size, f"{seconds}.{rest:09d}"), found.st_ctime

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except OSError:
            return []


LOCAL = LocalFiles()


def same_file(
    conn: Any, target: HostFacts, path: str, known: MutableMapping[str, Shown], *, acts: bool, local: LocalFiles = LOCAL
) -> Shown:
    """Has the target (`conn`) the file `path` of this host there? `known`: answers of this target,
    by directory. `acts` False: nothing is made to find out.

    Raises libvirtError when the target does not answer.
    """
    real = local.real(path)
    folder = os.path.dirname(real)
    if folder not in known:
        try:
            known[folder] = _Directory(conn, target, folder, acts, local).answer(real)
        except libvirt.libvirtError as exc:
            if is_lost(exc):
                raise
            text = " ".join(str(exc).split())
            why = f"is not known to be the same on {target.name}: {text}"
            return Shown(False if acts else None, why)
    return known[folder]


@dataclass(frozen=True)
class _Directory:
    conn: Any
    target: HostFacts
    folder: str
    acts: bool
    local: LocalFiles

    def answer(self, first: str) -> Shown:
        pool = covering_pool(self.target, f"{self.folder}/x")
        if pool is None and not self.acts:
            why = f"no storage pool of {self.target.name} has {self.folder}: the drain looks there"
            return Shown(None, f"is not known to be the same there: {why}")
        with pool_at(self.conn, self.folder, pool) as opened:
            found = self._compare(opened, first)
            if found.same or not self.acts:
                return found
            return self._token(opened, found)

    def _compare(self, pool: Any, first: str) -> Shown:
        for path in self._resting(first):
            here = self.local.seen(path)
            if here is None:
                continue
            there = _seen_there(pool, os.path.basename(path))
            if there is None:
                return self._differs(f"{path} ({here[0]}) is not there")
            if (there.size is None or there.size == here[0].size) and there.ctime == here[0].ctime:
                return Shown(True)
            return self._differs(f"{path}: here {here[0]}, there {there}")
        why = f"is not known to be the same on {self.target.name}: every file there keeps changing"
        return Shown(None, why)

    def _resting(self, first: str) -> Iterator[str]:
        names = [os.path.basename(first), *self.local.names(self.folder)]
        count = 0
        for name in dict.fromkeys(names):
            path = f"{self.folder}/{name}"
            found = self.local.seen(path)
            if found is None or self.local.now() - found[1] < RESTS or name.startswith(TOKEN):
                continue
            yield path
            count += 1
            if count == MOST:
                return

    def _differs(self, what: str) -> Shown:
        where = f"{self.folder} is another directory on {self.target.name}"
        return Shown(False, f"is not the same there: {where} ({what})")

    def _token(self, pool: Any, found: Shown) -> Shown:
        """Made by the target, seen here: it is one directory, and both can use it."""
        name = TOKEN + uuid.uuid4().hex
        volume = pool.createXML(_volume_xml(name), 0)
        try:
            if self.local.exists(f"{self.folder}/{name}"):
                return Shown(True)
        finally:
            with suppress(libvirt.libvirtError):
                volume.delete(0)
        return found if found.same is False else self._differs("a file created there is not visible here")


def identity(path: str) -> int:
    """The number of a file of this host, which each host has that shares its file system. 0: there is none, or not all
    hosts give it the same (SMB, FUSE, 9p)."""
    kind, _source = mount_of(path)
    try:
        return os.stat(path).st_ino if kind in _NUMBERED else 0
    except OSError:
        return 0


@contextmanager
def pool_at(conn: Any, folder: str, name: str | None) -> Iterator[Any]:
    """The host's pool of that directory; one of ours for the moment, where it has none."""
    if name is None:
        pool = _look_pool(conn, folder)
    else:
        pool = conn.storagePoolLookupByName(name)
        try:
            pool.refresh(0)
        except libvirt.libvirtError as exc:
            if is_lost(exc):
                raise  # else it has what it had
    try:
        yield pool
    finally:
        if name is None:
            with suppress(libvirt.libvirtError):
                pool.destroy()  # it ends; what is in its directory stays


def _look_pool(conn: Any, folder: str) -> Any:
    """Make it. libvirt has one pool for a directory: the look of another drain is waited for, and where that was
    killed, its pool is taken over."""
    for left in reversed(range(LOOKS)):
        try:
            return conn.storagePoolCreateXML(_pool_xml(LOOK_POOL + uuid.uuid4().hex, folder), 0)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_OPERATION_FAILED:
                raise
            theirs = _looks_at(conn, folder)
            if not left and theirs:
                theirs[0].refresh(0)
                return theirs[0]
            if not left or not (theirs or left == LOOKS - 1):  # it may have ended since
                raise
        _pause(LOOK_PAUSE)
    raise AssertionError


def _looks_at(conn: Any, folder: str) -> list[Any]:
    """Pools of other looks at this directory."""
    found = []
    for pool in conn.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
        with suppress(libvirt.libvirtError):  # it has ended
            there = parse_xml(pool.XMLDesc(0)).findtext("target/path") or ""
            found += [pool] if pool.name().startswith(LOOK_POOL) and there.rstrip("/") == folder else []
    return found


def _seen_there(pool: Any, name: str) -> FileSeen | None:
    try:
        root = parse_xml(pool.storageVolLookupByName(name).XMLDesc(0))
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != _NO_VOLUME:
            raise
        return None
    size = root.findtext("physical") or ""
    ctime = root.findtext("target/timestamps/ctime") or ""
    return FileSeen(int(size) if size.isdigit() else None, ctime)


def _pool_xml(name: str, folder: str) -> str:
    where = f"<target><path>{escape(folder)}</path></target>"
    return f"<pool type='dir'><name>{name}</name>{where}</pool>"


def _volume_xml(name: str) -> str:
    return (
        f"<volume><name>{name}</name><capacity>0</capacity><allocation>0</allocation>"
        "<target><format type='raw'/><permissions><mode>0600</mode></permissions></target></volume>"
    )
