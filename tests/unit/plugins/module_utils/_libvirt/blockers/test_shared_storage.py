"""Where a disk's data is: shared, local, or not known."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers import shared_storage
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.shared_storage import (
    DiskView,
    SourceMounts,
    covering_pool,
    local_views,
    path_on_target,
    target_views,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.spec import (
    DiskSpec,
    DomainSpec,
    SourceSpec,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts, PoolFacts


def spec(*disks: DiskSpec) -> DomainSpec:
    return DomainSpec(uuid="u", name="t", disks=disks)


SOURCE = HostFacts(
    pools={
        "nfs": PoolFacts("nfs", "netfs", "/srv/nfs"),
        "default": PoolFacts("default", "dir", "/images"),
        "vg0": PoolFacts("vg0", "logical", "/dev/vg0"),
        "san": PoolFacts("san", "iscsi", "/dev/disk/by-path", hosts=("nas-1",)),
        "own": PoolFacts("own", "iscsi", "/dev/disk/by-path", hosts=("host-a",)),
    }
)
FILE_SYSTEMS = {"/images": False, "/srv": True, "/odd": None, "/declared": None}


def fake_fs(path: str) -> bool | None:
    return FILE_SYSTEMS["/" + path.split("/")[1]]


VIEW = SourceMounts(
    shared_fs=fake_fs,
    servers=lambda path: ("host-a",) if path.startswith("/srv/own") else ("nas-1",),
    own={"nas-1": False, "nas-2": False, "host-a": True, "10.0.0.1": True, "gone": None}.get,
    libvirt_shares=lambda path: path.startswith("/declared/known"),
)


def file_disk(path: str, *backing: str) -> DiskSpec:
    below = tuple(SourceSpec(source=base, path=base) for base in backing)
    return DiskSpec("vda", source=path, path=path, backing=below)


def net(*hosts: str, socket: str = "", below: str = "") -> DiskSpec:
    disk = file_disk("", below) if below else file_disk("")
    sockets = (socket,) if socket else ()
    return replace(disk, type="network", source="nbd://x", hosts=hosts, sockets=sockets)


def volume(pool: str, name: str = "a", below: str = "") -> DiskSpec:
    disk = file_disk("", below) if below else file_disk("")
    return replace(disk, type="volume", source=f"{pool}/{name}", pool=pool, volume=name)


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
        (net("nas-1"), True),
        (net("nas-1", below="/srv/base"), True),
        (net("nas-1", below="/images/base"), None),  # the VM would read another base
        (net("nas-1", below="/odd/base"), None),
        (volume("nfs"), True),
        (volume("nfs", below="/images/base"), None),
        (volume("san"), True),
        (volume("san", below="/images/base"), None),
        (volume("default"), False),
        (volume("default", below="/images/base"), False),
        (volume("vg0"), None),
        (volume("gone"), None),
        (DiskSpec("vda", type="vhostuser", source="/tmp/s"), False),
    ],
)
def test_as_the_source_sees_it(disk: DiskSpec, shared: bool | None) -> None:
    view = local_views(spec(disk), SOURCE, ("/declared/",), mounts=VIEW)["vda"]
    assert (view.source_shared, view.held) == (shared, "")


@pytest.mark.parametrize(
    ("disk", "names"),
    [
        (net("nas-1", "10.0.0.9", "nas-2"), ("nas-1", "nas-2")),
        (net("10.0.0.9"), ()),  # an address leads everywhere to the same server
        (volume("san"), ("nas-1",)),
        (volume("nfs"), ()),  # its files are compared on both hosts
        (net("nas-1", below="/images/base"), ()),  # it stays
    ],
)
def test_a_server_that_is_given_by_name_may_be_another_one_elsewhere(disk: DiskSpec, names: tuple[str, ...]) -> None:
    assert local_views(spec(disk), SOURCE, mounts=VIEW)["vda"].served_at == names


@pytest.mark.parametrize(
    ("disk", "names"),
    [
        (net("127.0.0.2"), "127.0.0.2"),
        (net("::ffff:127.0.0.3"), "::ffff:127.0.0.3"),
        (net("localhost.localdomain"), "localhost.localdomain"),
        (net("0.0.0.0"), "0.0.0.0"),
        (net("10.0.0.1"), "10.0.0.1, which is this host itself"),
        (net("host-a"), "host-a, which is this host itself"),
        (net("gone"), "does not resolve"),
        (net("nas-1", "localhost"), "localhost"),  # there it is another one
        (net(socket="/run/nbd.sock"), "/run/nbd.sock"),
        (file_disk("/srv/own/a"), "host-a"),  # NFS that this host serves to itself
        (volume("own"), "host-a"),
    ],
)
def test_what_this_host_serves_to_itself_is_not_shared(disk: DiskSpec, names: str) -> None:
    view = local_views(spec(disk), SOURCE, ("/declared/",), mounts=VIEW)["vda"]
    assert names in view.held
    assert not view.source_shared
    below = SourceSpec(disk.type, "the base", disk.path, hosts=disk.hosts, sockets=disk.sockets, pool=disk.pool)
    over = replace(net("nas-1"), backing=(below,))
    view = local_views(spec(over), SOURCE, (), mounts=VIEW)["vda"]
    assert "stands on the base, which" in view.held
    assert names in view.held


@pytest.mark.parametrize("disk", [net("host-a", "nas-1"), net("gone", "nas-2"), net("nas-1", "nas-2")])
def test_one_of_several_servers_that_is_elsewhere_is_enough(disk: DiskSpec) -> None:
    view = local_views(spec(disk), SOURCE, (), mounts=VIEW)["vda"]
    assert (view.source_shared, view.held) == (True, "")


@pytest.mark.parametrize(
    ("disk", "names"),
    [
        (net("nas-1", below="/images/base"), "/images/base, which is on this host alone"),
        (file_disk("/srv/a", "/srv/b", "/odd/c"), "/odd/c, which may be on this host alone"),
        (file_disk("/images/a", "/srv/base"), "/srv/base"),
        (replace(net("nas-1"), backing=(SourceSpec("unknown", "json:{}"),)), "json:{}"),
    ],
)
def test_the_layer_that_keeps_it_is_named(disk: DiskSpec, names: str) -> None:
    assert names in local_views(spec(disk), SOURCE, (), mounts=VIEW)["vda"].doubt


@pytest.mark.parametrize(
    ("disk", "unsafe"),
    [
        (file_disk("/declared/a"), True),
        (file_disk("/declared/known/a"), False),
        (file_disk("/srv/a"), False),
        (replace(file_disk("/declared/a"), read_only=True), False),
        (file_disk("/dev/declared/a"), False),
        (replace(file_disk("/dev/declared/a"), type="block"), False),
    ],
)
def test_a_file_that_only_the_administrator_knows_as_shared(disk: DiskSpec, unsafe: bool) -> None:
    declared = ("/declared", "/dev/declared")
    files = {**FILE_SYSTEMS, "/declared": False}
    view = replace(VIEW, shared_fs=lambda path: files["/" + path.split("/")[1]])
    view = local_views(spec(disk), SOURCE, declared, mounts=view)["vda"]
    assert view.source_shared is True
    assert ("shared_filesystems" in view.unsafe) is unsafe


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
            refresh=self._refresh, storageVolLookupByName=lambda vol: self.storageVolLookupByPath(f"{name}/{vol}")
        )

    def _refresh(self, _flags: int) -> None:
        self.refreshed += 1
        self.known |= self.unnoticed

    def listAllDevices(self, _flags: int) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(XMLDesc=lambda _flags: self.nodes)]


@pytest.fixture(autouse=True)
def _binding(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(libvirtError=FakeError, VIR_CONNECT_LIST_NODE_DEVICES_CAP_STORAGE=256)
    monkeypatch.setattr(shared_storage, "libvirt", fake)


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
    seen = target_views({"vda": DiskView(True)}, spec(disk), TARGET, conn)
    assert seen["vda"] == DiskView(True, False, lacks="stands on /images/base, which is not on")
    seen = target_views({"vda": DiskView(False, None, 7)}, spec(disk), TARGET, conn)
    assert seen["vda"] == DiskView(False, True, 7)


def test_a_copied_disk_needs_what_its_definition_names() -> None:
    conn = Target({"/images/a"})
    disk = file_disk("/images/a", "/images/base")
    disk = replace(disk, sent=disk.backing)
    seen = target_views({"vda": DiskView(False)}, spec(disk), TARGET, conn)["vda"]
    assert seen.lacks == "stands on /images/base, which is not on"
    conn.known.add("/images/base")
    assert target_views({"vda": DiskView(False)}, spec(disk), TARGET, conn)["vda"].lacks == ""


def test_a_network_disk_needs_its_base_too() -> None:
    disk = net("nas-1", below="/images/base")
    seen = target_views({"vda": DiskView(True)}, spec(disk), TARGET, Target(set()))["vda"]
    assert (seen.on_target, seen.lacks) == (False, "stands on /images/base, which is not on")


@pytest.mark.parametrize(("size", "there"), [(7, True), (8, False)])
def test_a_read_only_file_of_another_size_is_another_one(size: int, there: bool) -> None:
    conn = Target({"/images/a"})
    conn.storageVolLookupByPath = lambda _path: SimpleNamespace(info=lambda: [0, size, 0])  # type: ignore[method-assign]
    disk = replace(file_disk("/images/a"), read_only=True)
    seen = target_views({"vda": DiskView(False, None, 7)}, spec(disk), TARGET, conn)
    assert seen["vda"].on_target is there


@pytest.mark.parametrize(
    ("pool", "volume", "there", "refreshed"),
    [("default", "a", True, 0), ("default", "new", True, 1), ("default", "b", False, 1), ("other", "a", False, 0)],
)
def test_a_volume_of_a_pool(pool: str, volume: str, there: bool, refreshed: int) -> None:
    """A pool on shared storage has not noticed what another host made in it since."""
    disk = DiskSpec("vda", type="volume", source="x", pool=pool, volume=volume)
    conn = Target({"default/a"}, {"default/new"})
    assert target_views({}, spec(disk), TARGET, conn)["vda"].on_target is there
    assert conn.refreshed == refreshed


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
