"""The holder's libvirt connections: never two threads on one at the same time.

libvirtd answers five requests of one connection at a time (max_client_requests) and queues
the rest: behind five migrations nothing is heard (seen). And libvirt's client before 10.3
crashes when a second thread, or a keepalive, interrupts a call on the same connection
(CVE-2024-4418; seen with 9.0.0: the holder died of it). So each thread has a connection of
its own to this host, without keepalive, which a local socket does not need; those to peers
are shared one call after another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..host.connection import HostUnreachable, is_lost, libvirt, open_connection

NO_KEEPALIVE = (0, 0)


def _open_local(uri: str) -> Any:
    return open_connection(uri, keepalive=NO_KEEPALIVE)


class Local:
    """One thread's connection to this host. Opened when needed, and again when it was lost."""

    def __init__(self, uri: str, opener: Callable[[str], Any] = _open_local) -> None:
        self._uri = uri
        self._opener = opener
        self._conn: Any = None

    @property
    def conn(self) -> Any:
        """The connection. Raises HostUnreachable."""
        if self._conn is not None and not _alive(self._conn):
            self.close()
        if self._conn is None:
            self._conn = self._opener(self._uri)
        return self._conn

    def close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            _close_quietly(conn)


class Links:
    """`uri`: this host's libvirt."""

    def __init__(self, uri: str, opener: Callable[[str], Any] = open_connection) -> None:
        self.uri = uri
        self._opener = opener
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._peers: dict[str, Any] = {}

    def local(self) -> Local:
        """A connection to this host's libvirt, for the calling thread alone."""
        return Local(self.uri)

    @contextmanager
    def peer(self, uri: str) -> Iterator[Any]:
        """The connection to a peer, for a few short calls, while nobody else uses it.

        Raises HostUnreachable.
        """
        with self._lock:
            lock = self._locks.setdefault(uri, threading.Lock())
        with lock:
            conn = self._peers.get(uri)
            if conn is not None and not _alive(conn):
                self._drop(uri)
                conn = None
            if conn is None:
                conn = self._peers[uri] = self._opener(uri)
            try:
                yield conn
            except libvirt.libvirtError as exc:
                if is_lost(exc):
                    self._drop(uri)
                    raise HostUnreachable(uri, str(exc)) from exc
                raise

    def _drop(self, uri: str) -> None:
        conn = self._peers.pop(uri, None)
        if conn is not None:
            _close_quietly(conn)


def _alive(conn: Any) -> bool:
    try:
        return bool(conn.isAlive())
    except libvirt.libvirtError:
        return False


def _close_quietly(conn: Any) -> None:
    try:
        conn.close()
    except libvirt.libvirtError:
        return
