"""The raw log: what was seen, one record a line, stamped with CLOCK_MONOTONIC.

    <nanoseconds> <host> <vm> <stream> <offset> <flag><text>

stream  S a line the guest wrote (serial), K the guest's kernel console,
        Q a QEMU process came or went, V a saved image came or went,
        H a host event (vm is "-"), A something announced by who runs the lab,
        C the collector itself (start, and a heartbeat every second)
offset  S and K: bytes of the guest's log file read so far; else 0
flag    "=" a whole line, "+" a piece of one whose rest had not come

Every record is one append of one write, so several processes may write. The
manifest (manifest.jsonl) says which guests were ever defined or started.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from . import procs
from .names import LabError


def record(
    host: str, vm: str, stream: str, text: str, offset: int = 0, flag: str = "=", stamp: int | None = None
) -> bytes:
    """One line of the log."""
    stamp = time.monotonic_ns() if stamp is None else stamp
    clean = text.encode("unicode_escape").decode("ascii")
    return f"{stamp} {host} {vm} {stream} {offset} {flag}{clean}\n".encode("ascii")


def append(raw: Path, data: bytes) -> None:
    """Append to the log in one write."""
    fd = os.open(raw / "ticks.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def host_event(raw: Path, host: str, text: str) -> None:
    append(raw, record(host, "-", "H", text))


def announce(raw: Path, vm: str, text: str) -> None:
    append(raw, record("-", vm, "A", text))


def wait_for_heartbeat(raw: Path) -> None:
    """Wait until the collector has looked at everything once more, from now on."""
    now = time.monotonic_ns()

    def beat() -> bool:
        with open(raw / "ticks.log", "rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - 65536))
            lines = stream.read().split(b"\n")[1:-1]
        return any(line.endswith(b" - - C 0 =alive") and int(line.split(b" ", 1)[0]) > now for line in lines)

    if not procs.wait_for(beat):
        raise LabError("the collector has no heartbeat any more")


def manifest(raw: Path, **entry: Any) -> None:
    line = json.dumps({"stamp": time.monotonic_ns(), **entry}, sort_keys=True) + "\n"
    fd = os.open(raw / "manifest.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)
