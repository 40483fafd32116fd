"""Reads the raw log: records in the order of their stamps, lines put together again."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple


class Record(NamedTuple):
    stamp: float
    host: str
    vm: str
    stream: str
    whole: bool
    text: str


def read_log(path: Path) -> tuple[list[Record], list[str]]:
    """All records in the order of their stamps, and the lines that are none."""
    records, bad = [], []
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        parts = line.split(" ", 5)
        if len(parts) != 6 or not parts[0].isdigit() or parts[5][:1] not in ("=", "+"):
            bad.append(line)
            continue
        stamp, host, vm, stream, _offset, rest = parts
        records.append(Record(int(stamp) / 1e9, host, vm, stream, rest[0] == "=", rest[1:]))
    records.sort(key=lambda record: record.stamp)
    return records, bad


def read_manifest(path: Path) -> list[str]:
    """Names of all guests that were ever started."""
    if not path.exists():
        return []
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    return list(dict.fromkeys(entry["vm"] for entry in entries if entry["event"] == "start"))


def join_pieces(records: list[Record]) -> list[Record]:
    """Join a line that the collector saw in pieces on one host.

    A piece after which the guest speaks on another host stays a piece: the
    guest moved on in the middle of a line.
    """
    out: list[Record] = []
    piece: Record | None = None
    for record in records:
        if piece is not None and piece.host != record.host:
            out.append(piece)
            piece = None
        line = record if piece is None else record._replace(text=piece.text + record.text)
        piece = None if line.whole else line
        if line.whole:
            out.append(line)
    if piece is not None:
        out.append(piece)
    return sorted(out, key=lambda record: record.stamp)


def processes_end_with_hosts(records: list[Record]) -> list[Record]:
    """Add "gone" for all processes of a host that ended: the census may have missed it."""
    out: list[Record] = []
    there: dict[str, set[str]] = defaultdict(set)
    for record in records:
        out.append(record)
        if record.stream == "Q":
            names = there[record.host]
            (names.add if record.text == "there" else names.discard)(record.vm)
        if record.stream == "H" and re.match("reboot|poweroff|kill|died", record.text):
            out += [record._replace(vm=vm, stream="Q", text="gone") for vm in sorted(there.pop(record.host, set()))]
    return out
