"""The holder: a small process on the source host that makes the blocking migration calls.

It outlives the module that started it, so that a drain can be killed at any moment. When it
is killed itself, libvirtd carries the migrations on, and a new holder is told to watch them.
One a host, by a lock on /run/virtops/holder.lock. Everything is imported before it says that
it is ready: the archive from which Ansible runs a module is deleted when the module ends.
"""

from __future__ import annotations

import codecs
import faulthandler
import fcntl
import os
import signal
import socket
import sys
import time
from pathlib import Path

from ..host.connection import libvirt
from .links import Links
from .server import Server
from .supervisor import Supervisor

RUN_DIR = "/run/virtops"
LOG = "/var/log/virtops-holder.log"
LOG_LIMIT = 1 << 20  # bytes; the one before is kept as .1
# Seconds without work and clients until it ends. Longer than Ansible takes from one slice to the
# next, also on a busy machine; a new start in each slice costs more than to wait.
LINGER = 30.0
# Seconds to wait for a holder that is just ending: the end of a Python with threads.
LOCK_FOR = 30.0


class Log:
    """Lines with wall time, for people. Two files of at most LOG_LIMIT."""

    def __init__(self, path: str = LOG) -> None:
        self._path = Path(path)

    def __call__(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
        try:
            if self._path.exists() and self._path.stat().st_size > LOG_LIMIT:
                self._path.replace(f"{self._path}.1")
            with open(self._path, "a", encoding="utf-8", opener=_private) as stream:
                stream.write(f"{stamp} [{os.getpid()}] {' '.join(text.splitlines())}\n")
        except OSError:
            return  # a full disk must not end migrations


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def take_lock(run_dir: str) -> int | None:
    """The descriptor of the lock, which stands while the process lives; None: another's."""
    os.makedirs(run_dir, mode=0o700, exist_ok=True)
    fd = os.open(os.path.join(run_dir, "holder.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + LOCK_FOR
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except OSError:
            if _answers(run_dir) or time.monotonic() > until:
                os.close(fd)
                return None
            time.sleep(0.02)


def _answers(run_dir: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.path.join(run_dir, "holder.sock"))
        except OSError:
            return False
    return True


def listen(run_dir: str) -> socket.socket:
    """Our socket. Only called with the lock in hand, so an old one has no owner."""
    path = os.path.join(run_dir, "holder.sock")
    if os.path.exists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(64)
    return listener


def main(uri: str, run_dir: str = RUN_DIR, log_path: str = LOG, linger: float = LINGER) -> int:
    """Run until there is nothing to do. Says "ready" or "busy" on standard output."""
    log = Log(log_path)
    lock = take_lock(run_dir)
    if lock is None:
        _write_log("busy")
        return 0
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    links = Links(uri)
    links.local().conn.close()  # raises HostUnreachable: the client reads it on standard error
    codecs.lookup("idna")  # sockets need it later, and Python imports it lazily
    server = Server(listen(run_dir), linger)
    supervisor = Supervisor(links, server.publish, log)
    log(f"ready, {uri}, libvirt {libvirt.getVersion()}")
    _write_log("ready")
    _output_to(log_path)
    server.serve(supervisor)
    log("nothing to do any more")
    os.unlink(os.path.join(run_dir, "holder.sock"))
    return 0


def _write_log(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def _output_to(log_path: str) -> None:
    """The client has read its word. From here on nothing of it is held open.

    What libraries say, and the stacks of a crash, go to the log.
    """
    null = os.open(os.devnull, os.O_RDWR)
    try:
        log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:
        log = os.dup(null)  # no log, but the migrations go on
    for source, fd in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, fd)
    os.close(null)
    os.close(log)
    faulthandler.enable(2)
