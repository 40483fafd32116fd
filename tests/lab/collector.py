"""The collector: stamps every line of every guest, on one clock, into one log.

    python3 -m lab.collector STATE

Runs outside the hosts. It is woken by inotify, waits a few milliseconds so
that a burst of single characters costs one look, and reads what is new. All
that it reads in one round has one stamp, taken before: it may lose the processor
between two files, and what it reads then is no later for that. Four
times a second it also notes which QEMU processes and saved images are there:
that is evidence that does not come from libvirt.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import sys
import time
from pathlib import Path

from . import procs, rawlog
from .names import Paths

IN_MODIFY, IN_CREATE = 0x2, 0x100
GATHER_SECONDS = 0.003  # so the stamps are right to about this
UNFINISHED_SECONDS = 0.2  # a piece of a line is written down after this
CENSUS_SECONDS = 0.25
HEARTBEAT_SECONDS = 1.0

_libc = ctypes.CDLL(None, use_errno=True)


class Tail:
    """One log file of one guest on one host."""

    def __init__(self, path: Path, host: str, offset: int) -> None:
        self.path = path
        self.host = host
        name = path.name.removesuffix(".log")
        self.stream = "K" if name.endswith(".console") else "S"
        self.vm = name.removesuffix(".console")
        self.offset = offset  # how far the raw log knows the file
        self.inode = 0
        self.rest = b""  # read, but not yet a whole line
        self.rest_stamp = 0
        self.fd = -1

    def _open(self) -> bool:
        """Follow the path: the file may have been replaced or cut."""
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            return False
        if self.fd >= 0 and now.st_ino != self.inode:
            os.close(self.fd)
            self.fd = -1
            self.offset, self.rest = 0, b""
        if self.fd < 0:
            self.fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            self.inode = now.st_ino
        if now.st_size < self.offset + len(self.rest):
            self.offset, self.rest = 0, b""
        return True

    def read(self, stamp: int) -> list[bytes]:
        """Records for all whole lines that are new."""
        if not self._open():
            return []
        data = os.pread(self.fd, 1 << 20, self.offset + len(self.rest))
        if not data:
            return []
        *lines, rest = (self.rest + data).split(b"\n")
        out = []
        for line in lines:
            self.offset += len(line) + 1
            out.append(self._record(line, "=", stamp))
        if rest != self.rest:
            self.rest, self.rest_stamp = rest, stamp
        return out

    def unfinished(self, now: int) -> list[bytes]:
        """A record for a piece of a line whose rest does not come."""
        if not self.rest or now - self.rest_stamp < UNFINISHED_SECONDS * 1e9:
            return []
        self.offset += len(self.rest)
        out = [self._record(self.rest, "+", self.rest_stamp)]
        self.rest = b""
        return out

    def _record(self, line: bytes, flag: str, stamp: int) -> bytes:
        text = line.decode("latin-1").rstrip("\r")
        return rawlog.record(self.host, self.vm, self.stream, text, self.offset, flag, stamp)


class Census:
    """Which QEMU processes and saved images there are, and what changed."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.known: dict[str, tuple[str, str] | None] = {}
        self.there: set[tuple[str, str, str]] = set()

    def _networks(self) -> dict[str, str]:
        """Network namespace -> host; a QEMU is a host's by the namespace it is in."""
        out = {}
        for record in self.paths.records.glob("*.supervisor"):
            pid = procs.alive(record)
            try:
                out[os.readlink(f"/proc/{pid}/ns/net")] = record.stem
            except OSError:
                continue
        return out

    def _guest_of(self, pid: str, networks: dict[str, str]) -> tuple[str, str] | None:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            host = networks.get(os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            return None
        if host is None or b"qemu-system" not in command[0]:
            return None
        found = re.search(rb"\0guest=([^,\0]+)", b"\0" + b"\0".join(command))
        return (host, found[1].decode()) if found else None

    def changes(self) -> list[bytes]:
        networks = self._networks()
        pids = {entry for entry in os.listdir("/proc") if entry.isdigit()}
        # A process that has just been forked is not QEMU yet: look again while young.
        for pid in pids:
            if self.known.get(pid) is None:
                age_known = pid in self.known
                guest = self._guest_of(pid, networks) if not age_known or self._young(pid) else None
                self.known[pid] = guest
        self.known = {pid: guest for pid, guest in self.known.items() if pid in pids}
        now = {
            ("Q", *guest)
            for pid, guest in self.known.items()
            if guest is not None and procs.start_time(int(pid)) is not None
        }
        for folder in self.paths.state.glob("hosts/*/var-lib/libvirt/qemu/save"):
            host = folder.relative_to(self.paths.state).parts[1]
            now |= {("V", host, file.stem) for file in folder.glob("*.save")}
        out = [rawlog.record(host, vm, stream, "there") for stream, host, vm in sorted(now - self.there)]
        out += [rawlog.record(host, vm, stream, "gone") for stream, host, vm in sorted(self.there - now)]
        self.there = now
        return out

    @staticmethod
    def _young(pid: str) -> bool:
        try:
            return time.time() - os.stat(f"/proc/{pid}").st_mtime < 5
        except OSError:
            return False


class Collector:
    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.log = paths.raw / "ticks.log"
        self.tails: dict[Path, Tail] = {}
        self.watched: dict[int, Path] = {}
        self.notify = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.census = Census(paths)
        self.offsets = self._offsets()

    def _offsets(self) -> dict[tuple[str, str, str], int]:
        """How far an earlier collector came, as the log itself says."""
        out: dict[tuple[str, str, str], int] = {}
        if self.log.exists():
            with open(self.log, encoding="ascii") as handle:
                for line in handle:
                    _stamp, host, vm, stream, offset, _rest = line.split(" ", 5)
                    if stream in "SK":
                        out[host, vm, stream] = int(offset)
        return out

    def _watch(self) -> None:
        for folder in self.paths.raw.glob("serial/*"):
            if folder not in self.watched.values():
                number = _libc.inotify_add_watch(
                    self.notify, str(folder).encode(), ctypes.c_uint32(IN_MODIFY | IN_CREATE)
                )
                self.watched[number] = folder

    def _tail(self, path: Path) -> Tail:
        if path not in self.tails:
            tail = Tail(path, path.parent.name, 0)
            tail.offset = self.offsets.get((tail.host, tail.vm, tail.stream), 0)
            self.tails[path] = tail
        return self.tails[path]

    def _changed(self) -> set[Path]:
        """Files named by the waiting inotify events."""
        out: set[Path] = set()
        try:
            data = os.read(self.notify, 1 << 16)
        except BlockingIOError:
            return out
        at = 0
        while at < len(data):
            watch = int.from_bytes(data[at : at + 4], "little", signed=True)
            length = int.from_bytes(data[at + 12 : at + 16], "little")
            name = data[at + 16 : at + 16 + length].rstrip(b"\0").decode()
            if name.endswith(".log") and watch in self.watched:
                out.add(self.watched[watch] / name)
            at += 16 + length
        return out

    def serve(self) -> None:
        self._write([rawlog.record("-", "-", "C", "start")])
        wait = select.poll()
        wait.register(self.notify, select.POLLIN)
        census = beat = 0.0
        while True:
            wait.poll(int(CENSUS_SECONDS * 1000))
            time.sleep(GATHER_SECONDS)
            stamp = time.monotonic_ns()
            now = stamp / 1e9
            out = []
            if now >= beat:
                # Before the reading: what stood in a file when it was stamped comes after it.
                beat = now + HEARTBEAT_SECONDS
                out.append(rawlog.record("-", "-", "C", "alive", stamp=stamp))
            out += [line for path in self._changed() for line in self._tail(path).read(stamp)]
            if now >= census:
                census = now + CENSUS_SECONDS
                out += self._slow(stamp)
            self._write(out)

    def _slow(self, stamp: int) -> list[bytes]:
        """What need not be seen at once; also all files, should an event be lost."""
        self._watch()
        out = []
        for path in self.paths.raw.glob("serial/*/*.log"):
            out += self._tail(path).read(stamp)
        for tail in self.tails.values():
            out += tail.unfinished(stamp)
        return out + self.census.changes()

    def _write(self, records: list[bytes]) -> None:
        if records:
            rawlog.append(self.paths.raw, b"".join(records))


if __name__ == "__main__":
    Collector(Paths(Path(sys.argv[1]))).serve()
