"""Disks that a migration copies: what was left of an earlier one is replaced, nothing else is.

Against libvirt itself: tests/integration/test_holder.py.
"""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers import same_files
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.disk_chains import Header
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import disks as holder_disks
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import uses
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.disks import (
    CopyDisk,
    DisksError,
    TargetVolumes,
    _volume_xml,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store import copied_disks
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.copied_disks import (
    note_copies_left,
    stamp_copies_left,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.pools import (
    CAPACITY,
    CLOCK,
    TORN,
    FakeHost,
    FakeStore,
    Killed,
    Pool,
    Volume,
)

VM, OTHER = "11111111-2222-3333-4444-555555555555", "22222222-2222-3333-4444-555555555555"
NOTE = f"made.{VM}"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHost:
    binding = fakes.Binding()
    for module in (holder_disks, uses, same_files):
        monkeypatch.setattr(module, "libvirt", binding)
    monkeypatch.setattr(holder_disks, "Store", FakeStore)
    monkeypatch.setattr(copied_disks, "Store", FakeStore)
    return FakeHost(binding, str(tmp_path))


def disk(host: FakeHost, name: str = "web.qcow2") -> CopyDisk:
    return CopyDisk("vda", f"{host.pool.folder}/{name}", "qcow2", CAPACITY)


def leave(host: FakeHost, name: str = "web.qcow2") -> Volume:
    """The VM has moved from this host to b, and its disk is left here."""
    path = Path(host.pool.folder) / name
    path.write_bytes(b"running")
    note_copies_left(host, VM, [str(path)])
    path.write_bytes(b"left")
    stamp_copies_left(host, VM)
    volume = host.pool.put(name)
    volume.ctime = path.stat().st_ctime_ns
    return volume


def domain(uuid: str, source: str) -> str:
    return f"<domain><uuid>{uuid}</uuid><devices><disk>{source}</disk></devices></domain>"


def come_back(host: FakeHost) -> None:
    TargetVolumes(host, VM).prepare([disk(host)])


def test_what_was_left_is_replaced_when_the_vm_comes_back(host: FakeHost) -> None:
    left = leave(host)
    come_back(host)
    assert host.pool.volumes["web.qcow2"] is not left
    assert list(host.notes) == [NOTE]
    TargetVolumes(host, VM).keep()
    assert host.notes == {}


def test_what_was_deleted_behind_libvirts_back_is_no_hindrance(host: FakeHost) -> None:
    leave(host)
    host.pool.put("other.qcow2")
    host.pool.gone = {"web.qcow2"}
    come_back(host)
    host.pool.gone = {"other.qcow2"}
    TargetVolumes(host, VM).remove(runs=True)
    assert "web.qcow2" not in host.pool.volumes


def test_a_file_made_anew_on_the_old_path_is_a_strangers(host: FakeHost) -> None:
    leave(host)
    stranger = host.pool.put("web.qcow2")
    with pytest.raises(DisksError, match="changed since"):
        come_back(host)
    assert host.pool.volumes["web.qcow2"] is stranger


@pytest.mark.parametrize(
    "source",
    [
        "<source file='{path}'/>",
        "<source dev='{path}'/>",
        "<source pool='images' volume='web.qcow2'/>",
        "<source file='/other'/><backingStore><source file='{path}'/></backingStore>",
    ],
)
def test_a_file_that_a_domain_names_is_never_replaced(host: FakeHost, source: str) -> None:
    left = leave(host)
    host.domains[OTHER] = domain(OTHER, source.format(path=left.path()))
    with pytest.raises(DisksError, match="the VM stranger uses it"):
        come_back(host)
    assert host.pool.volumes["web.qcow2"] is left


def overlay(path: str) -> str:
    return f"<domain><devices><disk><source file='{path}'/></disk></devices></domain>"


@pytest.mark.parametrize("deep", [False, True], ids=["on it", "on what stands on it"])
def test_what_a_domain_that_is_off_stands_on_outside_all_pools_is_not_replaced(host: FakeHost, deep: bool) -> None:
    """A clone that its owner made of the copy: its overlay is in no pool, its definition names no
    base."""
    left = leave(host)
    elsewhere = host.outside["/srv/clones"] = Pool(host, "/srv/clones")
    elsewhere.put("mid.qcow2", base=left.path())
    elsewhere.put("clone.qcow2", base="/srv/clones/mid.qcow2" if deep else left.path())
    host.domains[OTHER] = overlay("/srv/clones/clone.qcow2")
    with pytest.raises(DisksError, match=r"whose /srv/clones/clone\.qcow2 is backed by it, uses it"):
        TargetVolumes(host, VM).prepare([disk(host)])
    assert host.pool.volumes["web.qcow2"] is left
    assert host.made == ["+/srv/clones", "-/srv/clones"]


def test_beforehand_no_pool_is_made_for_that(host: FakeHost) -> None:
    left = leave(host)
    elsewhere = host.outside["/srv/clones"] = Pool(host, "/srv/clones")
    elsewhere.put("clone.qcow2", base=left.path())
    host.domains[OTHER] = overlay("/srv/clones/clone.qcow2")
    assert TargetVolumes(host, VM, acts=False).in_the_way(disk(host)) == ""
    assert host.made == []


def test_what_cannot_be_read_may_stand_on_it(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(host)
    host.domains[OTHER] = overlay("/srv/clones/clone.qcow2")

    def refuse(_xml: str, _flags: int) -> None:
        raise fakes.LibvirtError("access denied")

    monkeypatch.setattr(host, "storagePoolCreateXML", refuse)
    with pytest.raises(DisksError, match="is backed by something that cannot be read"):
        TargetVolumes(host, VM).prepare([disk(host)])


def test_a_domain_whose_images_are_gone_uses_nothing(host: FakeHost) -> None:
    left = leave(host)
    host.domains[OTHER] = overlay("/gone/clone.qcow2")
    TargetVolumes(host, VM).prepare([disk(host)])
    assert host.pool.volumes["web.qcow2"] is not left


@pytest.mark.parametrize("kind", ["snapshot", "saved"])
def test_what_a_snapshot_or_a_saved_state_names_is_not_replaced(host: FakeHost, kind: str) -> None:
    left = leave(host)
    host.domains[OTHER] = overlay("/gone/now.qcow2")
    if kind == "saved":
        host.saved[OTHER] = overlay(left.path())
    else:
        text = f"<domainsnapshot>{overlay(left.path())}</domainsnapshot>"
        host.snapshots[OTHER] = [SimpleNamespace(getXMLDesc=lambda _flags: text)]
    with pytest.raises(DisksError, match="the VM stranger uses it"):
        TargetVolumes(host, VM).prepare([disk(host)])


def test_a_file_that_a_volume_stands_on_is_never_replaced(host: FakeHost) -> None:
    left = leave(host)
    host.pool.put("clone.qcow2", base=left.path())
    with pytest.raises(DisksError, match=r"the volume clone\.qcow2 of pool images uses it"):
        come_back(host)
    assert host.pool.volumes["web.qcow2"] is left


@pytest.mark.parametrize(
    "note", ['{{"{path}": null}}', '{{"{path}": "mark 1234"}}', '{{"{path}": "new"}}', "{{}}", TORN]
)
def test_a_note_without_the_time_of_the_last_change_is_not_believed(host: FakeHost, note: bytes) -> None:
    """As it was written before the move, or as it was not written whole."""
    left = leave(host)
    left.filled = 2 << 20
    host.notes[NOTE] = note.format(path=left.path())
    with pytest.raises(DisksError):
        come_back(host)
    assert host.pool.volumes["web.qcow2"] is left


def test_only_what_was_made_is_noted_and_removed(host: FakeHost) -> None:
    """The second file is there, and libvirt does not know it: its making is refused."""
    host.pool.refused.add("data.qcow2")
    with pytest.raises(DisksError, match="already exists"):
        TargetVolumes(host, VM).prepare([disk(host), disk(host, "data.qcow2")])
    assert host.pool.volumes == {}
    assert host.notes == {}
    # Even where the removal fails, the note does not claim the stranger's file.
    host.pool.kept.add("web.qcow2")
    with pytest.raises(fakes.LibvirtError):
        TargetVolumes(host, VM).prepare([disk(host), disk(host, "data.qcow2")])
    assert "web.qcow2" in host.notes[NOTE]
    assert "data.qcow2" not in host.notes[NOTE]


def test_what_a_failed_copy_wrote_to_is_removed_unless_somebody_uses_it(host: FakeHost) -> None:
    volumes = TargetVolumes(host, VM)
    volumes.prepare([disk(host)])
    host.pool.volumes["web.qcow2"].ctime = next(CLOCK)
    host.domains[OTHER] = domain(OTHER, f"<source file='{disk(host).path}'/>")
    volumes.remove(runs=True)
    assert list(host.pool.volumes) == ["web.qcow2"]
    host.domains = {VM: host.domains[OTHER]}  # its own, and off: a definition that was left
    volumes.remove(runs=True)
    assert host.pool.volumes == {}
    assert host.notes == {}


@pytest.mark.parametrize("known", [True, False])
def test_the_disk_of_a_vm_that_may_have_run_here_until_it_ended_stays(host: FakeHost, known: bool) -> None:
    """It was switched over, and its source's libvirtd died before it undefined it. Then the guest went off here."""
    volumes = TargetVolumes(host, VM)
    volumes.prepare([disk(host)])
    if known:
        host.domains[VM] = domain(VM, f"<source file='{disk(host).path}'/>")
    volumes.remove(runs=False)
    assert list(host.pool.volumes) == (["web.qcow2"] if known else [])
    assert list(host.notes) == ([NOTE] if known else [])


@pytest.mark.parametrize("what", ["replace", "make", "made", "clean up", "remove"])
def test_who_was_given_up_in_a_call_that_hung_touches_nothing_any_more(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """What stands under these names by then may be what a later attempt made."""
    given_up: list[bool] = []
    late = TargetVolumes(host, VM, given_up=lambda: bool(given_up))
    if what == "replace":
        leave(host)
    elif what == "remove":
        late.prepare([disk(host)])
    made, hangs = Pool.createXML, "createXML" if what in ("made", "clean up") else "listAllVolumes"

    def hung(*args: Any) -> Any:
        given_up.append(True)
        found = made(*args) if hangs == "createXML" else []
        if what == "clean up":
            raise fakes.LibvirtError("end of file while reading data")
        return found

    if what == "make":
        monkeypatch.setattr(TargetVolumes, "_pool_for", lambda *_args: given_up.append(True) or host.pool)
    else:
        monkeypatch.setattr(Pool, hangs, hung)
    before = dict(host.pool.volumes), dict(host.notes)
    with pytest.raises(DisksError, match="nobody waits for it any more"):
        late.remove(runs=True) if what == "remove" else late.prepare([disk(host)])
    if hangs == "createXML":
        assert list(host.pool.volumes) == ["web.qcow2"] and copied_disks.NEW in host.notes[NOTE]
    else:
        assert (host.pool.volumes, host.notes) == before


def half_copied(host: FakeHost) -> Volume:
    """An attempt copied, gave a sign, wrote on, and everything died: holder, host, libvirtd."""
    TargetVolumes(host, VM).prepare([disk(host)])
    half = host.pool.volumes["web.qcow2"]
    TargetVolumes(host, VM).go_on()
    half.mtime = half.ctime = next(CLOCK)
    return half


def test_half_a_copy_is_replaced_by_the_next_attempt(host: FakeHost) -> None:
    half = half_copied(host)
    half.ctime += 3600 * 10**9  # libvirtd came back after an hour, and gave it to its owner
    assert TargetVolumes(host, VM).in_the_way(disk(host)) == ""
    come_back(host)
    assert host.pool.volumes["web.qcow2"] is not half


def test_a_sign_tells_how_long_the_copy_went_on(host: FakeHost) -> None:
    TargetVolumes(host, VM).prepare([disk(host)])
    half = host.pool.volumes["web.qcow2"]
    for _minute in range(60):
        next(CLOCK)
    half.mtime = next(CLOCK)
    assert TargetVolumes(host, VM).in_the_way(disk(host)) != ""
    TargetVolumes(host, VM).go_on()
    assert TargetVolumes(host, VM).in_the_way(disk(host)) == ""


def test_half_a_copy_is_removed_by_whoever_looks(host: FakeHost) -> None:
    half_copied(host)
    assert TargetVolumes(host, VM).remove_unfinished() == []
    assert (host.pool.volumes, host.notes) == ({}, {})


@pytest.mark.parametrize(
    "strange",
    [{"mtime": 1_600_000_000 * 10**9}, {"mtime": 2_000_000_000 * 10**9}, {"capacity": 1 << 20}],
    ids=["older", "written later", "of another size"],
)
def test_what_is_not_surely_that_half_copy_stays(host: FakeHost, strange: dict[str, int]) -> None:
    there = half_copied(host)
    for name, value in strange.items():
        setattr(there, name, value)
    with pytest.raises(DisksError, match="was started there and never finished"):
        come_back(host)
    (told,) = TargetVolumes(host, VM).remove_unfinished()
    assert there.path() in told
    assert host.pool.volumes["web.qcow2"] is there
    assert host.notes


def test_half_a_copy_that_somebody_took_into_use_stays(host: FakeHost) -> None:
    half = half_copied(host)
    host.domains[OTHER] = domain(OTHER, f"<source file='{half.path()}'/>")
    TargetVolumes(host, VM).remove_unfinished()
    assert host.pool.volumes["web.qcow2"] is half
    with pytest.raises(DisksError, match="the VM stranger uses it"):
        come_back(host)


def test_half_a_copy_on_storage_that_is_not_there_now_is_not_forgotten(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_copied(host)
    with monkeypatch.context() as away:
        away.setattr(host, "listAllStoragePools", lambda _flags: [])
        TargetVolumes(host, VM).remove_unfinished()
    TargetVolumes(host, VM).remove_unfinished()
    assert (host.pool.volumes, host.notes) == ({}, {})


def test_of_a_copy_that_ended_well_nothing_is_half(host: FakeHost) -> None:
    half = half_copied(host)
    TargetVolumes(host, VM).finish()
    assert host.notes == {}
    TargetVolumes(host, VM).go_on()  # a sign that came late
    assert TargetVolumes(host, VM).remove_unfinished() == []
    assert host.pool.volumes["web.qcow2"] is half
    leave(host)
    before = dict(host.notes)
    TargetVolumes(host, VM).finish()
    assert host.notes == before


def killed_as_it_made_a_volume(host: FakeHost, torn: bool = False) -> Volume:
    """The holder noted it, made it, and died before (torn: while) it noted that it is made."""
    host.writes_left, host.torn = (2, True) if torn else (1, False)
    with pytest.raises(Killed):
        TargetVolumes(host, VM).prepare([disk(host)])
    host.writes_left, host.torn = -1, False
    return host.pool.volumes["web.qcow2"]


@pytest.mark.parametrize("torn", [False, True])
def test_what_a_holder_made_that_was_killed_before_it_noted_it_is_replaced(host: FakeHost, torn: bool) -> None:
    first = killed_as_it_made_a_volume(host, torn)
    TargetVolumes(host, VM).prepare([disk(host)])
    assert host.pool.volumes["web.qcow2"] is not first


@pytest.mark.parametrize(
    "strange",
    [{"ctime": 1_600_000_000 * 10**9}, {"ctime": 2_000_000_000 * 10**9}, {"filled": 2 << 20}, {"capacity": 1 << 20}],
    ids=["older", "later", "filled", "of another size"],
)
def test_a_file_that_may_be_anothers_is_not_taken_for_one_just_made(host: FakeHost, strange: dict[str, int]) -> None:
    there = killed_as_it_made_a_volume(host)
    for name, value in strange.items():
        setattr(there, name, value)
    with pytest.raises(DisksError, match="may be another VM's disk"):
        TargetVolumes(host, VM).prepare([disk(host)])
    assert host.pool.volumes["web.qcow2"] is there


def test_a_disk_so_small_that_it_may_be_full_is_not_taken_for_one_just_made(host: FakeHost) -> None:
    small = CopyDisk("vda", disk(host).path, "raw", 1 << 20)
    killed_as_it_made_a_volume(host).capacity = small.capacity
    with pytest.raises(DisksError, match="may be another VM's disk"):
        TargetVolumes(host, VM).prepare([small])


def test_an_attempt_that_failed_removes_only_what_it_is_noted_to_have_made(host: FakeHost) -> None:
    there = killed_as_it_made_a_volume(host)
    TargetVolumes(host, VM).remove(runs=True)
    assert host.pool.volumes["web.qcow2"] is there


def moving(host: FakeHost) -> Path:
    """The VM moves away, and the time of its file is not noted yet."""
    path = Path(host.pool.folder) / "web.qcow2"
    path.write_bytes(b"running")
    note_copies_left(host, VM, [str(path)])
    return path


def test_a_file_that_is_another_one_by_now_gets_no_time(host: FakeHost) -> None:
    """The holder died before it noted the time. Meanwhile somebody made another disk there.

    It has the inode number of the one that was deleted, as file systems give it out again.
    """
    path = moving(host)
    path.unlink()
    path.write_bytes(b"a stranger's")
    stamp_copies_left(host, VM)
    assert host.notes == {}


def test_a_file_that_is_not_to_be_seen_for_now_gets_its_time_later(host: FakeHost) -> None:
    path = moving(host)
    away = path.rename(path.with_name("not-mounted"))
    stamp_copies_left(host, VM)
    away.rename(path)
    stamp_copies_left(host, VM)
    assert json.loads(host.notes[NOTE]) == {str(path): path.stat().st_ctime_ns}


@pytest.mark.parametrize("watched", [True, False])
def test_a_file_that_cannot_be_marked_needs_a_holder_that_lives(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(copied_disks.os, "setxattr", refuse)
    path = moving(host)
    stamp_copies_left(host, VM, watched=watched)
    noted = path.stat().st_ctime_ns if watched else None
    assert json.loads(host.notes[NOTE]) == {str(path): noted}


def test_a_time_that_stands_is_not_taken_anew(host: FakeHost) -> None:
    """Else whatever was done to the file since would be forgotten."""
    leave(host)
    before = dict(host.notes)
    os.utime(Path(host.pool.folder) / "web.qcow2")
    stamp_copies_left(host, VM)
    assert host.notes == before


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        (Header(), {"compat": "1.1", "clusterSize": None, "features/lazy_refcounts": None}),
        (Header(version=2, cluster=65536), {"compat": "0.10", "clusterSize": "65536"}),
        (Header(version=3, cluster=4096, lazy=True), {"compat": "1.1", "clusterSize": "4096"}),
    ],
)
def test_a_copied_image_keeps_its_layout(image: Header, wanted: dict[str, str | None]) -> None:
    """libvirt makes version 2 by itself, to which no backup adds its bitmaps."""
    root = ET.fromstring(_volume_xml(CopyDisk("vda", "/images/a", "qcow2", CAPACITY, image)))
    assert {key: root.findtext(f"target/{key}") for key in wanted} == wanted
    assert (root.find("target/features/lazy_refcounts") is not None) == image.lazy
    raw = ET.fromstring(_volume_xml(CopyDisk("vda", "/images/a", "raw", CAPACITY, image)))
    assert raw.find("target/compat") is None
