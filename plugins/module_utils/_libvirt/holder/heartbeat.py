"""The holder's mark: a volume in its host's store, a new one every few seconds while it has
migrations. Peers see by it that the owner of a claim lives (see the core's owners).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ..._core.claims.owners import HEARTBEAT_INTERVAL
from ..host.connection import LibvirtProblem, libvirt
from ..store.names import alive_name, is_alive
from ..store.volumes import Store, StoreError
from .links import Links


class Heartbeat:
    """`has_work`: are there migrations that wait for their turn, or run?"""

    def __init__(self, links: Links, has_work: Callable[[], bool], log: Callable[[str], None]) -> None:
        self._links = links
        self._has_work = has_work
        self._log = log
        self._lock = threading.Lock()
        self._last = 0
        self._stands = True  # one that a holder before this one left

    def keep_on(self) -> None:
        """Renew the sign of life while there is work, and withdraw it when there is none. For a thread of its own: it
        never returns."""
        local = self._links.local()
        while True:
            try:
                if self._has_work():
                    self.renew(local.conn)
            except (libvirt.libvirtError, LibvirtProblem, StoreError) as exc:
                self._log(f"the mark could not be renewed: {exc}")
            self.withdraw(local)
            time.sleep(HEARTBEAT_INTERVAL)

    def renew(self, conn: Any) -> None:
        """Leave a new one; it differs from all before it, also those of another holder."""
        with self._lock:
            now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)
            self._last = max(self._last + 1, now)
            new, store = alive_name(self._last), Store(conn)
            # First of all: a migration may begin and end between two looks of `keep_on`.
            self._stands = True
            store.create(new)
            delete_heartbeats(store, new)

    def withdraw(self, local: Any) -> None:
        """If there is no work any more. Tried again by `keep_on` until it has worked."""
        with self._lock:
            if self._has_work() or not self._stands:
                return
            try:
                delete_heartbeats(Store(local.conn))
                self._stands = False
            except (libvirt.libvirtError, LibvirtProblem, StoreError) as exc:
                self._log(f"the mark could not be withdrawn: {exc}")


def delete_heartbeats(store: Store, but: str = "") -> None:
    """All but one."""
    for name in store.names():
        if is_alive(name) and name != but:
            store.delete(name)
