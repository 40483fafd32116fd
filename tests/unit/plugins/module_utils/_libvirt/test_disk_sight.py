# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a disk's data is: shared, local, or not known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import disk_sight
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.disk_sight import (
    DiskSight,
    covering_pool,
    local_sights,
    path_is_shared_fs,
    path_on_target,
    target_sights,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain_spec import (
    DiskSpec,
    DomainSpec,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host_facts import (
    HostFacts,
    PoolFacts,
)

MOUNTS = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:40 / /srv/nfs rw - nfs4 nas-1:/export rw
31 30 0:41 / /srv/nfs/deep rw - tmpfs none rw
32 22 0:42 / /srv/with\\040space rw shared:2 master:1 - ceph ceph-1:/ rw
33 22 0:43 / /srv/gluster rw - fuse.glusterfs g:/v rw
34 22 0:44 / /srv/sshfs rw - fuse.sshfs h:/ rw
35 22 0:45 / /srv/over rw - ext4 /dev/x rw
36 35 0:46 / /srv/over rw - nfs nas:/y rw
"""


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("/var/lib/libvirt/images/a.qcow2", False),
        ("/srv/nfs/a.qcow2", True),
        ("/srv/nfs", True),
        ("/srv/nfs-local/a.qcow2", False),  # not below /srv/nfs
        ("/srv/nfs/deep/a.qcow2", False),
        ("/srv/nfs/not/there/yet/a.qcow2", True),
        ("/srv/with space/a.qcow2", True),
        ("/srv/gluster/a.qcow2", True),
        ("/srv/sshfs/a.qcow2", None),
        ("/srv/over/a.qcow2", True),  # the later mount lies on top
    ],
)
def test_file_system(path: str, shared: bool | None) -> None:
    assert path_is_shared_fs(path, MOUNTS) is shared


def test_links_are_resolved(tmp_path: Any) -> None:
    (tmp_path / "link").symlink_to("/srv/nfs")
    assert path_is_shared_fs(str(tmp_path / "link" / "a.qcow2"), MOUNTS) is True


def test_this_machine_has_a_file_system() -> None:
    assert path_is_shared_fs("/proc/self/status") is None  # proc: neither list


def spec(*disks: DiskSpec) -> DomainSpec:
    return DomainSpec(uuid="u", name="t", disks=disks)


SOURCE = HostFacts(
    pools={
        "nfs": PoolFacts("nfs", "netfs", "/srv/nfs"),
        "default": PoolFacts("default", "dir", "/images"),
        "vg0": PoolFacts("vg0", "logical", "/dev/vg0"),
    }
)
FILE_SYSTEMS = {"/images": False, "/srv": True, "/odd": None}


def fake_fs(path: str) -> bool | None:
    return FILE_SYSTEMS["/" + path.split("/")[1]]


def file_disk(path: str, *backing: str) -> DiskSpec:
    return DiskSpec("vda", source=path, path=path, backing=backing)


def block_disk(path: str) -> DiskSpec:
    return DiskSpec("vda", type="block", source=path, path=path)


@pytest.mark.parametrize(
    ("disk", "shared"),
    [
        (DiskSpec("vda", device="cdrom"), True),
        (file_disk("/images/a"), False),
        (file_disk("/srv/a"), True),
        (file_disk("/odd/a"), None),
        (file_disk("/srv/a", "/srv/base"), True),
        (file_disk("/images/a", "/images/base"), False),
        (file_disk("/srv/a", "/images/base"), None),  # neither to be shared nor to be copied
        (file_disk("/images/a", "/srv/base"), None),
        (file_disk("/declared/a"), True),
        (file_disk("/declared/a", "/images/base"), None),
        (file_disk("/dev/vg0/a"), None),
        (block_disk("/dev/vg0/a"), None),
        (block_disk("/dev/sda"), None),
        (block_disk("/dev/mapper/vg0-a"), None),
        (block_disk("/dev/disk/by-id/dm-name-vg0-a"), None),
        (block_disk("/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"), True),
        (block_disk("/dev/disk/by-path/ip-10.0.0.1:3260-iscsi-iqn.x-lun-1"), True),
        (block_disk("/dev/mapper/3600508b400105e210000900000490000"), True),
        (DiskSpec("vda", type="network", source="rbd://c/x"), True),
        (DiskSpec("vda", type="network", source="nbd://localhost/x", bound_to_host="x"), False),
        (DiskSpec("vda", type="volume", source="nfs/a", pool="nfs", volume="a"), True),
        (DiskSpec("vda", type="volume", source="default/a", pool="default", volume="a"), False),
        (DiskSpec("vda", type="volume", source="vg0/a", pool="vg0", volume="a"), None),
        (DiskSpec("vda", type="volume", source="gone/a", pool="gone", volume="a"), None),
        (DiskSpec("vda", type="vhostuser", source="/tmp/s"), False),
    ],
)
def test_as_the_source_sees_it(disk: DiskSpec, shared: bool | None) -> None:
    sights = local_sights(spec(disk), SOURCE, ("/declared/",), shared_fs=fake_fs)
    assert sights == {"vda": DiskSight(shared)}


class FakeError(Exception):
    def get_error_code(self) -> int:
        return int(self.args[1])


class Target:
    """A target with volumes, some of which its pool has not noticed yet, and device nodes."""

    def __init__(self, known: set[str], unnoticed: set[str] = frozenset(), nodes: str = "") -> None:  # type: ignore[assignment]
        self.known, self.unnoticed, self.nodes = set(known), set(unnoticed), nodes
        self.refreshed = 0

    def storageVolLookupByPath(self, path: str) -> object:  # noqa: N802 - libvirt's name
        if path in self.known:
            return object()
        raise FakeError("no storage vol", 50)

    def storagePoolLookupByName(self, name: str) -> Any:  # noqa: N802
        return SimpleNamespace(
            refresh=self._refresh,
            storageVolLookupByName=lambda vol: self.storageVolLookupByPath(f"{name}/{vol}"),
        )

    def _refresh(self, _flags: int) -> None:
        self.refreshed += 1
        self.known |= self.unnoticed

    def listAllDevices(self, _flags: int) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(XMLDesc=lambda _flags: self.nodes)]


@pytest.fixture(autouse=True)
def _binding(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(libvirtError=FakeError, VIR_CONNECT_LIST_NODE_DEVICES_CAP_STORAGE=256)
    monkeypatch.setattr(disk_sight, "libvirt", fake)


TARGET = HostFacts(pools={"default": PoolFacts("default", "dir", "/images")})


@pytest.mark.parametrize(
    ("path", "there", "refreshed"),
    [
        ("/images/a", True, 0),
        ("/images/new", True, 1),
        ("/images/none", False, 1),
        ("/srv/a", None, 0),  # no pool covers it
        ("/images/deep/a", None, 0),
        ("/dev/disk/by-id/nvme-x", True, 0),
        ("/dev/disk/by-id/nvme-y", False, 0),
        ("/dev/mapper/mpatha", None, 0),
    ],
)
def test_as_the_target_sees_it(path: str, there: bool | None, refreshed: int) -> None:
    nodes = "<devnode type='link'>/dev/disk/by-id/nvme-x</devnode>"
    conn = Target({"/images/a"}, {"/images/new"}, nodes)
    assert path_on_target(conn, TARGET, path) is there
    assert conn.refreshed == refreshed


def test_all_layers_of_a_shared_disk_must_be_there() -> None:
    conn = Target({"/images/a"})
    disk = file_disk("/images/a", "/images/base")
    seen = target_sights({"vda": DiskSight(True)}, spec(disk), TARGET, conn)
    assert seen["vda"] == DiskSight(True, False)
    seen = target_sights({"vda": DiskSight(False, None, 7)}, spec(disk), TARGET, conn)
    assert seen["vda"] == DiskSight(False, True, 7)


@pytest.mark.parametrize(
    ("pool", "volume", "there"),
    [("default", "a", True), ("default", "b", False), ("other", "a", False)],
)
def test_a_volume_of_a_pool(pool: str, volume: str, there: bool) -> None:
    disk = DiskSpec("vda", type="volume", source="x", pool=pool, volume=volume)
    seen = target_sights({}, spec(disk), TARGET, Target({"default/a"}))
    assert seen["vda"].on_target is there


def test_a_broken_connection_is_not_a_missing_volume() -> None:
    conn = Target(set())
    conn.storageVolLookupByPath = lambda _path: _raise(FakeError("client socket is closed", 1))  # type: ignore[method-assign]
    with pytest.raises(FakeError):
        path_on_target(conn, TARGET, "/images/a")


def _raise(exc: Exception) -> Any:
    raise exc


def test_the_pool_that_covers_a_path() -> None:
    assert covering_pool(TARGET, "/images/a") == "default"
    assert covering_pool(TARGET, "/images/deep/a") is None
    assert covering_pool(HostFacts(), "/images/a") is None
