"""The holder's libvirt connections: never two threads on one at the same time.

libvirtd answers five requests of one connection at a time (max_client_requests) and queues
the rest: behind five migrations nothing is heard (seen). And libvirt's client before 10.3
crashes when a second thread, or a keepalive, interrupts a call on the same connection
(CVE-2024-4418; seen with 9.0.0: the holder died of it). So each thread has a connection of
its own to this host, without keepalive, which a local socket does not need; those to peers
are shared one call after another. A keepalive does not end a call that hangs in libvirtd, in storage whose server is
gone or in a QEMU: such a one keeps its connection, and who waits for that gets another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..host.connection import HostUnreachable, is_lost, libvirt, open_connection

NO_KEEPALIVE = (0, 0)
# Seconds for which a call to a peer may hold up the others. libvirt waits 30 s for the lock of a VM, and keepalives
# need 35 s to find that a cable was pulled.
BUSY = 40.0
STORAGE = 300.0  # s for work on a peer's storage: a large pool takes a minute to be read


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


class _Line:
    """A connection to a peer, and the lock of who uses it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.conn: Any = None

    def drop(self) -> None:
        conn, self.conn = self.conn, None
        if conn is not None:
            _close_quietly(conn)


class Links:
    """`uri`: this host's libvirt."""

    def __init__(self, uri: str, opener: Callable[[str], Any] = open_connection) -> None:
        self.uri = uri
        self._opener = opener
        self._lock = threading.Lock()
        self._lines: dict[str, _Line] = {}

    def local(self) -> Local:
        """A connection to this host's libvirt, for the calling thread alone."""
        return Local(self.uri)

    @contextmanager
    def peer(self, uri: str) -> Iterator[Any]:
        """The connection to a peer, for a few short calls, while nobody else uses it.

        Raises HostUnreachable.
        """
        line = self._take(uri)
        try:
            if line.conn is not None and not _alive(line.conn):
                line.drop()
            if line.conn is None:
                line.conn = self._opener(uri)
            with _told(uri):
                yield line.conn
        except HostUnreachable:
            line.drop()
            raise
        finally:
            if self._lines.get(uri) is not line:
                line.drop()
            line.lock.release()

    def _take(self, uri: str) -> _Line:
        """Wait for the peer's connection. From one that has been in use for BUSY seconds all others turn away."""
        while True:
            with self._lock:
                line = self._lines.setdefault(uri, _Line())
            taken = line.lock.acquire(timeout=BUSY)
            with self._lock:
                if self._lines.get(uri) is line:
                    if taken:
                        return line
                    del self._lines[uri]
            if taken:
                line.lock.release()

    def apart(self, uri: str, work: Callable[[Any, Callable[[], bool]], None]) -> None:
        """Do work on a peer that may hang, as storage does whose server is gone: on a connection and in a thread of its
        own. `work` gets the connection, and a function: has it been given up? Then it may change nothing any more.

        Raises what the work raises, and HostUnreachable, also where it has not ended within STORAGE seconds.
        """
        over, failed = threading.Event(), list[Exception]()

        def run() -> None:
            try:
                conn = self._opener(uri)
                try:
                    with _told(uri):
                        work(conn, over.is_set)
                finally:
                    _close_quietly(conn)
            except Exception as exc:  # noqa: BLE001 - handed to who waits
                failed.append(exc)

        thread = threading.Thread(target=run, name=f"storage-{uri}", daemon=True)
        thread.start()
        thread.join(STORAGE)
        if thread.is_alive():
            over.set()
            raise HostUnreachable(uri, f"its storage did not answer within {STORAGE:g} s")
        if failed:
            raise failed[0]


@contextmanager
def _told(uri: str) -> Iterator[None]:
    """Raises HostUnreachable where the connection was lost."""
    try:
        yield
    except libvirt.libvirtError as exc:
        if is_lost(exc):
            raise HostUnreachable(uri, str(exc)) from exc
        raise


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
