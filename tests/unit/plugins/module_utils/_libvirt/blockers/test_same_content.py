"""A medium of the same path and size may have other content on the target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers import same_content, shared_storage
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.same_content import (
    PART,
    PARTS,
    Compared,
    compare,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.shared_storage import (
    DiskView,
    target_views,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.spec import DiskSpec, DomainSpec
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes

LARGE = PART * PARTS * 4


class Target:
    """Has one file, and reads it through libvirt's streams, in pieces. `why`: why it does not."""

    def __init__(self, data: bytes, why: Exception | None = None) -> None:
        self.data, self.why, self.read = data, why, 0

    def storageVolLookupByPath(self, _path: str) -> Any:  # noqa: N802 - libvirt's name
        return SimpleNamespace(download=self.download, info=lambda: [0, len(self.data), 0])

    def download(self, stream: Any, start: int, length: int, _flags: int) -> None:
        if self.why:
            raise self.why
        stream.left = self.data[start : start + length]
        self.read += length

    def newStream(self, _flags: int) -> Any:  # noqa: N802 - libvirt's name
        stream = SimpleNamespace(left=b"", finish=lambda: None)

        def recv(most: int) -> bytes:
            part, stream.left = stream.left[: min(most, 1000)], stream.left[min(most, 1000) :]
            return part

        stream.recv = recv
        return stream


@pytest.fixture(autouse=True)
def binding(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = fakes.Binding()
    for module in (same_content, shared_storage):
        monkeypatch.setattr(module, "libvirt", made)
    return made


def here(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "tools.iso"
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize(
    ("mine", "theirs", "found"),
    [
        (b"a" * 5000, b"a" * 5000, Compared(True, whole=True)),
        (b"", b"", Compared(True, whole=True)),
        (b"a" * 5000, b"a" * 4000 + b"b" * 1000, Compared(False, 4000)),
        (b"a" * 5000, b"a" * 4000, Compared(False, 4000)),
        (b"a" * LARGE, b"a" * LARGE, Compared(True)),
        (b"a" * LARGE, b"a" * 32768 + b"b" + b"a" * (LARGE - 32769), Compared(False, 32768)),
        (b"a" * LARGE, b"a" * (LARGE - 1) + b"b", Compared(False, LARGE - 1)),
    ],
)
def test_what_is_compared(tmp_path: Path, mine: bytes, theirs: bytes, found: Compared) -> None:
    target = Target(theirs)
    assert compare(target, here(tmp_path, mine)) == found
    assert target.read <= PART * PARTS


def test_what_cannot_be_read_is_not_known(tmp_path: Path, binding: Any) -> None:
    path = here(tmp_path, b"a")
    assert compare(Target(b"a"), str(tmp_path / "gone.iso")) == Compared(None)
    assert compare(Target(b"a"), str(tmp_path)) == Compared(None)
    denied = fakes.LibvirtError("access denied", binding.VIR_ERR_ACCESS_DENIED)
    assert compare(Target(b"a", denied), path) == Compared(None)


@pytest.mark.parametrize(
    ("theirs", "kind", "view"),
    [
        (b"mine", "raw", DiskView(False, True, 4)),
        (
            b"xxxx",
            "raw",
            DiskView(
                *(False, True, 4),
                differs="is read-only and local, and has different content on b, from byte 0 on: eject it",
            ),
        ),
        (
            b"xxxx",
            "qcow2",
            DiskView(
                *(False, True, 4),
                unshown="Disk sda (tools) is read-only and local: it is not known whether what b has there is a copy of"
                " it",
            ),
        ),
    ],
)
def test_a_medium_of_other_content_is_another_one(tmp_path: Path, theirs: bytes, kind: str, view: DiskView) -> None:
    disk = DiskSpec("sda", device="cdrom", type="file", source="tools", path=here(tmp_path, b"mine"), read_only=True)
    spec = DomainSpec("u", "web", disks=(replace(disk, format=kind),))
    seen = target_views({"sda": DiskView(False, None, 4)}, spec, HostFacts(hostname="b"), Target(theirs))
    assert seen["sda"] == view
