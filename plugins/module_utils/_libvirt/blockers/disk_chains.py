"""Read from an image itself which files it depends on.

libvirt lists the chain of a running domain. That of one that is off ends where its definition
ends, and a data file is unknown to libvirt before 10.10: both stand in the image's header
(QEMU's docs/interop/qcow2.txt), which this host can read. Disks that are not files are left
as libvirt reports them.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from ..domain.spec import DiskSpec, SourceSpec
from ..domain.untrusted import load_json

HEADER = 65536  # more than a header and the name of a backing file need
DEEPEST = 200  # as many images below each other as libvirt follows
_MAGIC = b"QFI\xfb"
_DATA_FILE_BIT = 1 << 2
_LAZY_BIT = 1
_END, _BACKING_FORMAT, _DATA_FILE = 0, 0xE2792ACA, 0x44415441
_URI = re.compile(r"^(?P<protocol>[a-z0-9]+)(\+[a-z]+)?:(//(?P<host>\[[^]]*\]|[^/:?]*))?")
_NBD = re.compile(r"^nbd:(?!unix:)(\[[^]]*\]|[^/:]+):")  # without slashes, an older way

ReadHeader = Callable[[str], bytes]


class Header(NamedTuple):
    """The header of a qcow2 image: its backing file, that one's format, its data file.

    snapshots: how many are in it (qemu-img snapshot -l). version: 2 or 3, 0: no qcow2 image. cluster:
    bytes. lazy: its reference counts are updated late.
    """

    backing: str = ""
    backing_format: str = ""
    data_file: str = ""
    snapshots: int = 0
    version: int = 0
    cluster: int = 0
    lazy: bool = False


NOT_READ = Header()


def read_header(path: str) -> bytes:
    """The beginning of a file; empty: it cannot be read here."""
    try:
        with open(path, "rb") as stream:
            return stream.read(HEADER)
    except OSError:
        return b""


def parse_header(data: bytes) -> Header:
    """Nothing of it where that is no qcow2 image. Pure."""
    if len(data) < 72 or data[:4] != _MAGIC:
        return NOT_READ
    version, offset, size, cluster_bits = struct.unpack_from(">IQII", data, 4)
    (snapshots,) = struct.unpack_from(">I", data, 60)
    backing = _text(data[offset : offset + size]) if offset > 0 else ""
    incompatible, compatible = struct.unpack_from(">QQ", data, 72) if version > 2 and len(data) > 104 else (0, 0)
    place = struct.unpack_from(">I", data, 100)[0] if version > 2 and len(data) > 104 else 72
    kind, data_file = "", ""
    while place + 8 <= len(data):
        mark, length = struct.unpack_from(">II", data, place)
        if mark == _END:
            break
        value = _text(data[place + 8 : place + 8 + length])
        kind = value if mark == _BACKING_FORMAT else kind
        data_file = value if mark == _DATA_FILE and incompatible & _DATA_FILE_BIT else data_file
        place += 8 + (length + 7) // 8 * 8
    lazy = bool(compatible & _LAZY_BIT)
    return Header(backing, kind, data_file, snapshots, version, 1 << min(cluster_bits, 21), lazy)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def completed(disk: DiskSpec, folder: str = "", read: ReadHeader = read_header) -> DiskSpec:
    """The disk with all that it stands on. `folder`: of its pool, if it is a volume of files."""
    path = disk.path or (f"{folder}/{disk.volume}" if folder and disk.volume else "")
    own = SourceSpec(type="file", path=path, format=disk.format)
    layers = [own, *disk.backing]
    found: list[SourceSpec] = list(disk.backing)
    for layer in layers:
        data = _header(layer, read).data_file
        if data and not any(other.path == data for other in found):
            found.append(_source(data, layer.path, "raw"))
    last = layers[-1]
    while not disk.chain_ends and len(found) < DEEPEST:
        header = _header(last, read)
        if not header.backing:
            break
        last = _source(header.backing, last.path, header.backing_format)
        found.append(last)
        data = _header(last, read).data_file
        if data:
            found.append(_source(data, last.path, "raw"))
    return replace(disk, backing=tuple(found), snapshots=_header(own, read).snapshots)


def _header(layer: SourceSpec, read: ReadHeader) -> Header:
    """Read the header of an image file on this host. NOT_READ for one that is declared raw, since it may contain
    anything, and for one that is no file."""
    if not layer.path or layer.format == "raw":
        return NOT_READ
    return parse_header(read(layer.path))


def _source(name: str, image: str, kind: str) -> SourceSpec:
    """Parse the name of a backing or data file in an image: a path, relative to the image's folder, an address, or
    options (json:)."""
    if name.startswith("json:"):
        return _options(name[len("json:") :], image, kind)
    found = _URI.match(name)
    if found and not name.startswith("/") and found["protocol"] != "file":
        old = _NBD.match(name)
        host = old.group(1) if old else found["host"] or ""
        return SourceSpec(
            type="network",
            source=name,
            protocol=found["protocol"],
            hosts=(host.strip("[]"),) if host else (),
            sockets=_socket(name),
        )
    plain = re.sub("^file:(//)?", "", name)
    path = os.path.normpath(os.path.join(os.path.dirname(os.path.realpath(image)), plain))
    return SourceSpec(type="file", source=path, path=path, format=kind or "probed")


def _socket(name: str) -> tuple[str, ...]:
    found = re.search(r"[?&]socket=([^&]+)|^nbd:unix:([^:]+)", name)
    return (found.group(1) or found.group(2),) if found else ()


def _options(text: str, image: str, kind: str) -> SourceSpec:
    """QEMU's options as JSON: the file, or the server, somewhere in them."""
    try:
        flat = dict(_flat(load_json(text)))
    except ValueError:
        return SourceSpec(type="unknown", source=f"json:{text}")
    named = [value for key, value in flat.items() if key.rpartition(".")[2] == "filename"]
    if named:
        return _source(named[0], image, str(flat.get("driver") or kind))
    hosts = [value for key, value in flat.items() if key.rpartition(".")[2] == "host"]
    paths = [value for key, value in flat.items() if key.endswith(("server.path", ".socket"))]
    if not hosts and not paths:
        return SourceSpec(type="unknown", source=f"json:{text}")
    return SourceSpec(type="network", source=f"json:{text}", hosts=tuple(hosts), sockets=tuple(paths))


def _flat(value: Any, key: str = "") -> Any:
    """(dotted key, text) of everything in it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{key}.{name}".strip("."))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _flat(inner, f"{key}.{place}")
    else:
        yield key, str(value)
