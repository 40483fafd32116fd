# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The holder's libvirt connections.

libvirtd answers five requests of one connection at a time (max_client_requests) and queues
the rest: behind five migrations nothing is heard (seen). So each migration has a connection
of its own, and questions are spread over a few others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .connection import libvirt, open_connection

QUERY_CONNECTIONS = 4


class Links:
    """Connections to this host and its peers. `uri`: this host's."""

    def __init__(self, uri: str, opener: Callable[[str], Any] = open_connection) -> None:
        self.uri = uri
        self._opener = opener
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._shared: dict[str, Any] = {}

    def own(self) -> Any:
        """A new connection to this host, for the caller alone. Raises HostUnreachable."""
        return self._opener(self.uri)

    def query(self, number: int) -> Any:
        """A connection to this host for short questions. Raises HostUnreachable."""
        return self._get(f"query {number % QUERY_CONNECTIONS}", self.uri)

    def peer(self, uri: str) -> Any:
        """The connection to a peer for short questions. Raises HostUnreachable."""
        return self._get(uri, uri)

    def _get(self, key: str, uri: str) -> Any:
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            conn = self._shared.get(key)
            if conn is not None and _alive(conn):
                return conn
            self._shared.pop(key, None)
            conn = self._shared[key] = self._opener(uri)
            return conn


def _alive(conn: Any) -> bool:
    try:
        return bool(conn.isAlive())
    except libvirt.libvirtError:
        return False


def close_quietly(conn: Any) -> None:
    """Close a connection that may be broken."""
    try:
        conn.close()
    except libvirt.libvirtError:
        return
