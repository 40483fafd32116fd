"""What an image says of what it stands on."""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.disk_chains import (
    Header,
    completed,
    parse_header,
    read_header,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.spec import DiskSpec, SourceSpec


def qcow2(backing: str = "", kind: str = "", data: str = "", version: int = 3) -> bytes:
    """The beginning of an image, as QEMU writes it."""
    extensions = b""
    for mark, text in ((0xE2792ACA, kind), (0x44415441, data)):
        if text:
            raw = text.encode()
            extensions += struct.pack(">II", mark, len(raw)) + raw.ljust(-(-len(raw) // 8) * 8, b"\0")
    extensions += struct.pack(">II", 0, 0)
    size = 104 if version > 2 else 72
    place = size + len(extensions) if backing else 0
    head = b"QFI\xfb" + struct.pack(">IQI", version, place, len(backing)) + b"\0" * 52
    if version > 2:
        head += struct.pack(">QQQII", 4 if data else 0, 0, 0, 4, size)
    return head + extensions + backing.encode() + b"\0" * 64


@pytest.mark.parametrize("version", [2, 3])
def test_the_backing_file(version: int) -> None:
    found = parse_header(qcow2("/images/base.qcow2", "qcow2", version=version))
    assert found[:3] == ("/images/base.qcow2", "qcow2", "")
    assert found.version == version


def test_the_data_file() -> None:
    assert parse_header(qcow2(data="a.raw")).data_file == "a.raw"


@pytest.mark.parametrize("data", [b"", b"QFI\xfb", b"raw" * 100, qcow2()])
def test_what_names_nothing(data: bytes) -> None:
    assert parse_header(data)[:4] == Header()[:4]


def test_as_qemu_writes_it(tmp_path: Path) -> None:
    tool = shutil.which("qemu-img")
    if tool is None:
        pytest.skip("qemu-img is not installed; the images above are made by hand")
    base, image = tmp_path / "base.raw", tmp_path / "a.qcow2"
    subprocess.run([tool, "create", "-q", "-f", "raw", base, "1M"], check=True)
    options = ["-b", base, "-F", "raw", image]
    subprocess.run([tool, "create", "-q", "-f", "qcow2", *options], check=True)
    assert parse_header(read_header(str(image))) == Header(str(base), "raw", "", 0, 3, 65536, False)
    data = ["-o", f"data_file={tmp_path / 'd.raw'}", tmp_path / "b.qcow2", "1M"]
    subprocess.run([tool, "create", "-q", "-f", "qcow2", *data], check=True)
    assert parse_header(read_header(str(tmp_path / "b.qcow2"))).data_file.endswith("d.raw")
    lazy = ["-o", "cluster_size=4k,lazy_refcounts=on", tmp_path / "c.qcow2", "1M"]
    subprocess.run([tool, "create", "-q", "-f", "qcow2", *lazy], check=True)
    subprocess.run([tool, "snapshot", "-c", "before", tmp_path / "c.qcow2"], check=True)
    path = str(tmp_path / "c.qcow2")
    assert parse_header(read_header(path)) == Header("", "", "", 1, 3, 4096, True)
    assert completed(disk(path)).snapshots == 1
    assert completed(replace(disk(path), format="raw")).snapshots == 0


def disk(path: str = "/images/a", **more: object) -> DiskSpec:
    return DiskSpec("vda", source=path, path=path, format="qcow2", **more)  # type: ignore[arg-type]


IMAGES = {
    "/images/a": qcow2("b", "qcow2"),
    "/images/b": qcow2("/srv/c.raw", "raw", data="b.data"),
    "/images/loop": qcow2("loop", "qcow2"),
    "/images/raw": qcow2("/etc/shadow", "raw"),
}


def layers(one: DiskSpec, folder: str = "") -> list[str]:
    found = completed(one, folder, lambda path: IMAGES.get(path, b"")).backing
    return [layer.path or layer.source for layer in found]


def test_the_chain_of_a_vm_that_is_off_is_in_its_images() -> None:
    assert layers(disk()) == ["/images/b", "/images/b.data", "/srv/c.raw"]
    volume = DiskSpec("vda", type="volume", format="qcow2", pool="default", volume="a")
    assert layers(volume, "/images") == ["/images/b", "/images/b.data", "/srv/c.raw"]


def test_a_chain_that_the_definition_ends_is_not_searched() -> None:
    assert layers(disk(chain_ends=True)) == []


def test_a_chain_goes_on_where_the_definition_ends() -> None:
    base = SourceSpec(source="/images/b", path="/images/b", format="qcow2")
    assert layers(disk(backing=(base,))) == ["/images/b", "/images/b.data", "/srv/c.raw"]
    ended = disk("/x", backing=(base,), chain_ends=True)
    assert layers(ended) == ["/images/b", "/images/b.data"]


def test_what_is_said_to_be_raw_is_not_looked_into() -> None:
    raw = DiskSpec("vda", source="/images/raw", path="/images/raw", format="raw")
    assert layers(raw) == []


def test_a_chain_without_an_end_ends() -> None:
    assert len(layers(disk("/images/loop"))) == 200


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("/srv/base", SourceSpec("file", "/srv/base", "/srv/base", "qcow2")),
        ("../base", SourceSpec("file", "/base", "/base", "qcow2")),
        ("file:///srv/base", SourceSpec("file", "/srv/base", "/srv/base", "qcow2")),
        ("nbd://127.0.0.2:10809/x", ("127.0.0.2",)),
        ("nbd:127.0.0.2:10809:exportname=x", ("127.0.0.2",)),
        ("nbd+unix:///x?socket=/run/n", "/run/n"),
        ("nbd:unix:/run/n:exportname=x", "/run/n"),
        ("https://[::1]/x", ("::1",)),
        ('json:{"file": {"driver": "file", "filename": "/srv/base"}}', "path /srv/base"),
        ('json:{"driver": "nbd", "server": {"type": "inet", "host": "::1"}}', ("::1",)),
        ('json:{"driver": "nbd", "server": {"type": "unix", "path": "/run/n"}}', "/run/n"),
        ('json:{"driver": "null-co"}', "unknown"),
        ("json:{", "unknown"),
    ],
)
def test_what_a_name_in_an_image_means(name: str, layer: object) -> None:
    images = {"/images/a": qcow2(name, "qcow2")}
    (found,) = completed(disk(), "", lambda path: images.get(path, b"")).backing
    if isinstance(layer, tuple):
        assert found.hosts == layer
    elif layer == "unknown":
        assert found.type == "unknown"
    elif isinstance(layer, str) and layer.startswith("path "):
        assert found.path == layer[5:]
    elif isinstance(layer, str):
        assert found.sockets == (layer,)
    else:
        assert found == layer
