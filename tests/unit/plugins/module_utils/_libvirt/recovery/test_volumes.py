"""Which volume each disk is, and that another host has another one of that name by now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts, PoolFacts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import volumes
from ansible_collections.virtops.maintenance.tests.recover import bed
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes

BLOCK = "/dev/disk/by-id/wwn-0x1"
POOLS = {
    "san": PoolFacts("san", "iscsi", "/dev/disk/by-path", "host.name=nas device.path=iqn.x"),
    "nfs": PoolFacts("nfs", "netfs", "/shared", "host.name=nas"),
}
FACTS = HostFacts(hostname="c", pools=POOLS)


class Target:
    """A host: its connection, pool and volume are itself."""

    name = "c"

    def __init__(self, facts: HostFacts = FACTS, has: bool = True) -> None:
        self.facts, self.conn, self.has = facts, self, has

    def storagePoolLookupByName(self, _name: str) -> Target:  # noqa: N802 - libvirt's name
        return self

    def refresh(self, _flags: int) -> None:
        return

    def storageVolLookupByName(self, name: str) -> str:  # noqa: N802 - libvirt's name
        if not self.has:
            raise fakes.LibvirtError("no volume", 50)
        return name


@pytest.fixture(autouse=True)
def devices(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    says = {BLOCK: "naa.1"}
    monkeypatch.setattr(volumes, "libvirt", bed.BINDING)
    monkeypatch.setattr(volumes, "identity", len)
    monkeypatch.setattr(volumes, "_of_device", lambda path: says.get(path, ""))
    monkeypatch.setattr(volumes, "path_on_target", lambda conn, _facts, _path: conn.has)
    return says


def disk(kind: str, source: str, **other: Any) -> dict[str, Any]:
    return {"kind": kind, "source": source, "shared": True, "read_only": False, **other}


def test_each_volume_that_others_reach_has_what_it_is_known_by() -> None:
    found = volumes.of_vm(
        [
            disk("file", "/shared/web"),
            disk("file", "/local/web", shared=False),
            disk("file", "/shared/cd.iso", read_only=True),
            disk("volume", "nfs/data"),
            disk("volume", "san/lun-1"),
            disk("block", BLOCK),
            disk("network", "rbd://mon/pool/web"),
        ],
        FACTS,
    )
    assert found == (
        {"/shared/web": 11, "/shared/data": 12},
        {
            "san/lun-1": ["volume", "iscsi host.name=nas device.path=iqn.x"],
            BLOCK: ["block", "naa.1"],
            "rbd://mon/pool/web": ["network", ""],
        },
    )


@pytest.mark.parametrize(
    ("source", "kind", "kept", "target", "words"),
    [
        ("san/lun-1", "volume", "iscsi host.name=nas device.path=iqn.x", Target(), ""),
        ("san/lun-1", "volume", "iscsi host.name=old", Target(), "is on iscsi host.name=nas"),
        ("san/lun-1", "volume", "", Target(HostFacts(pools={})), "c has no pool san now."),
        ("san/lun-1", "volume", "", Target(has=False), "c does not have san/lun-1 now."),
        (BLOCK, "block", "naa.1", Target(), ""),
        (BLOCK, "block", "naa.2", Target(), "is a different device here than it was there (naa.1, not naa.2)"),
        (BLOCK, "block", "naa.1", Target(has=False), f"c does not have {BLOCK} now."),
        ("rbd://mon/pool/web", "network", "", Target(has=False), ""),
    ],
)
def test_another_volume_of_that_name_is_seen(source: str, kind: str, kept: str, target: Any, words: str) -> None:
    told = volumes.differs(source, kind, kept, FACTS, target)
    assert words in told and bool(words) == bool(told)


def test_a_device_says_itself_which_one_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for said, text in (("sda/device/wwid", "naa.5\n"), ("dm-0/dm/uuid", "mpath-36\n")):
        (tmp_path / said).parent.mkdir(parents=True)
        (tmp_path / said).write_text(text)
    names = ("sda", "dm-0", "sdb")
    assert [volumes._of_device(f"/dev/{name}", str(tmp_path)) for name in names] == ["naa.5", "mpath-36", ""]
