"""A disk as a guest leaves it, made outside: what guest/init.c writes and reads back.

A guest that starts on it takes it for its own. For half a minute it then reads what was there
before, so that it says at once when its disk becomes another one.
"""

from __future__ import annotations

import struct
from pathlib import Path

PAGE = 4096
RING = 64
_MASK = (1 << 64) - 1


def ring(disk_id: int, last: int = 1000, size_mib: int = 1) -> bytes:
    """The disk after its write number `last`, which is at least RING."""
    data = bytearray(size_mib << 20)
    for number in range(last - RING + 1, last + 1):
        _put(data, disk_id, 1 + number % RING, number)
    _put(data, disk_id, 0, last)
    return bytes(data)


def _put(data: bytearray, disk_id: int, slot: int, number: int) -> None:
    boot = 1
    total = _mix(disk_id ^ _mix(number ^ _mix(slot ^ _mix(boot))))
    block = b"VOPSDISK" + struct.pack("<5Q", disk_id, number, slot, boot, total)
    data[slot * PAGE : slot * PAGE + len(block)] = block


def _mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


def said(raw: Path, host: str, guest: str, disk: str) -> list[str]:
    """What the guest said of a disk while it ran on the host: "old ...", "ok 12", "err foreign"."""
    log = raw / "serial" / host / f"{guest}.log"
    if not log.exists():
        return []
    words = [line.split() for line in log.read_text(errors="replace").splitlines()]
    return [" ".join(w[3:]) for w in words if len(w) > 3 and w[0] == "D" and w[2] == disk]
