"""The storage pool of a host in which drains and rolls keep their records."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from contextlib import suppress
from html import escape  # xml.sax would bring urllib and http along
from typing import Any

from ..domain.untrusted import parse_xml
from ..host.connection import ERR_NO_SUPPORT, libvirt

POOL = "virtops"
POOL_PATH = "/var/lib/libvirt/virtops"
# A reader may meet a writer half-way: how often and how long it looks again (seconds).
RETRIES, PAUSE = 20, 0.05

_POOL_XML = (
    "<pool type='dir'><name>{name}</name><target><path>{path}</path>"
    "<permissions><mode>0700</mode></permissions></target></pool>"
)


class StoreError(Exception):
    """A volume of the store is not as it should be. The text names it."""


class RecordPool:
    """The pool of one host. libvirt's errors pass through as they are.

    Looking makes nothing: where there is neither a pool nor its directory, there are no volumes.

    `conn`: an open virConnect. `path`: where a missing pool is made. `acts` False: it is only
    looked at, and a pool that is off is not started, but an error.
    """

    def __init__(
        self,
        conn: Any,
        pool: str = POOL,
        path: str = POOL_PATH,
        sleep: Callable[[float], None] = time.sleep,
        acts: bool = True,
    ) -> None:
        self._acts = acts
        self._conn = conn
        self._name = pool
        self._path = path
        self._sleep = sleep
        self._handle: Any = None

    def ensure(self) -> None:
        """Define, start and autostart the pool where that is missing. Safe against others."""
        if not self._acts:
            raise StoreError(f"the storage pool {self._name} is opened read-only")
        for left in reversed(range(RETRIES)):
            try:
                self._handle = self._ensure_once()
                return
            except libvirt.libvirtError:
                # Another one did a step between our look and ours: look again.
                if not left:
                    raise
                self._sleep(PAUSE)

    def made(self) -> Any:
        """The pool, made where that is missing."""
        if self._handle is None:
            self.ensure()
        return self._handle

    def _ensure_once(self) -> Any:
        pool = self._looked_up() or self._define()
        if not pool.isActive():
            pool.create(libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)
        if not pool.autostart():
            pool.setAutostart(1)
        return self._closed(pool)

    def _looked_up(self) -> Any:
        """None: there is none. Raises StoreError where libvirt can have none."""
        try:
            return self._conn.storagePoolLookupByName(self._name)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() == ERR_NO_SUPPORT:
                raise StoreError(
                    "its libvirt has no storage driver, so it cannot keep records. On Debian 13 that is a separate"
                    " package: libvirt-daemon-driver-storage"
                ) from exc
            if exc.get_error_code() != libvirt.VIR_ERR_NO_STORAGE_POOL:
                raise
            return None

    def _closed(self, pool: Any) -> Any:
        """The pool. Raises StoreError when any user of its host may put files into it, and so
        records of his own: it was made by somebody else. libvirt read the mode at its start."""
        mode = parse_xml(pool.XMLDesc(0)).findtext("target/permissions/mode") or "0"
        if int(mode, 8) & stat.S_IWOTH:
            raise StoreError(
                f"the directory of the storage pool {self._name} is writable by every user (mode {mode}),"
                f" so its contents cannot be trusted. Check what is in it, then: chmod"
                f" 0700 on its path, virsh pool-refresh {self._name}"
            )
        return pool

    def found(self) -> Any:
        """The pool; None if there is none. One that is off is started: it may hold a record."""
        if self._handle is None:
            pool = self._looked_up()
            if pool is None and not (self._acts and self._left_behind()):
                return None
            if self._acts:
                self.ensure()
            elif pool.isActive():
                self._handle = self._closed(pool)
            else:
                raise StoreError(
                    f"the storage pool {self._name} is not active, so its contents are not known. A run"
                    f" starts it, but this only reads: virsh pool-start {self._name}"
                )
        return self._handle

    def _left_behind(self) -> bool:
        """Has somebody undefined the pool, whose directory is still there, with a record in it, it may be?

        Then it is a pool again. It is not built, so nothing is made where the directory is gone, too.
        """
        try:
            pool = self._define()
        except libvirt.libvirtError:
            return True  # another run has just made it, or `ensure` meets the same error
        try:
            pool.create(0)
        except libvirt.libvirtError:
            # Refused, too, while another run makes the pool. One that is active stays.
            with suppress(libvirt.libvirtError):
                pool.undefine()
            return False
        return True

    def _define(self) -> Any:
        return self._conn.storagePoolDefineXML(_POOL_XML.format(name=escape(self._name), path=escape(self._path)), 0)
