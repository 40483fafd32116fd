"""What a host leaves with its peers, how it comes back from there, and which lock manager it has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    Node,
    Observation,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, RecordError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers import same_files
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.off import nvram_stays
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.same_files import identity
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import HostConfig
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import protected
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.protected import Kept
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import keep, nvram
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import VolumeTorn
from ansible_collections.virtops.maintenance.tests.recover import bed

XML = "<domain type='kvm'><name>web</name><uuid>web</uuid><memory>1</memory></domain>"
LOCAL = Finding(Reason.DisksNotLiveMigratable, "Disk vda is local.")
NO_NET = Finding(Reason.CannotStart, "It has no network lan.")


@pytest.fixture
def quorum_hosts() -> Iterator[list[bed.Host]]:
    world = bed.World()
    with bed.below(world):
        yield [bed.Host(world, HostConfig(name, name)) for name in "bcd"]


def kept(at: str = "t1", **about: Any) -> Kept:
    vm = VM("web", "web", "a", memory_mib=512, cold_refused_by={"c": (NO_NET,)}, **about)
    return Kept("a", at, "boot", ["b", "c"], ["b", "c"], True, "lockd", [vm], {"web": XML}, {"web": {"/shared/web": 1}})


def back(one: Kept) -> VM:
    return Kept.from_json(one.to_json()).vms[0]


def test_it_comes_back_as_it_was_left() -> None:
    known = Kept.from_json(kept(autostart=True).to_json())
    assert (known.host, known.guard, known.lock, known.keepers) == ("a", True, "lockd", ["b", "c"])
    vm = known.vms[0]
    assert (vm.uuid, vm.node, vm.state, vm.memory_mib, vm.autostart) == ("web", "a", State.RUNNING, 512, True)
    assert vm.cold_refused_by == {"c": (NO_NET,)} and not vm.cold_findings
    assert back(kept(cold_findings=(LOCAL,))).cold_findings == (LOCAL,)
    assert back(kept(state=State.SHUTOFF)).state is State.SHUTOFF


def test_one_that_is_transient_or_cannot_be_read_stays() -> None:
    assert back(kept(persistent=False)).cold_findings[0].reason is Reason.TransientDomain
    unread = kept()
    unread.definitions = {"web": "<domain"}
    assert back(unread).cold_findings[0].reason is Reason.MigratableNotKnown
    unread.definitions = {}
    assert back(unread).cold_findings[0].reason is Reason.MigratableNotKnown


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1}', '{"schema": 2, "vms": [], "more": 1}'])
def test_what_is_not_that_is_an_error(text: str) -> None:
    with pytest.raises(RecordError, match="was kept for the host"):
        Kept.from_json(text)


def test_only_what_changed_is_written(quorum_hosts: list[bed.Host]) -> None:
    assert protected.write(kept(), quorum_hosts, acts=False) == ([], [], True)
    assert protected.write(kept(), quorum_hosts) == (["b", "c", "d"], [], True)
    assert protected.write(kept("t2"), quorum_hosts) == (["b", "c", "d"], [], False)
    quorum_hosts[0].world.power.discard("c")
    have, failed, changed = protected.write(kept("t3", autostart=True), quorum_hosts)
    assert (have, changed) == (["b", "d"], True) and failed[0].startswith("c (")


def test_a_copy_whose_writer_was_killed_is_written_anew(
    quorum_hosts: list[bed.Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum_hosts[0], "read_record", Mock(side_effect=VolumeTorn("no generation is whole")))
    assert protected.write(kept(), quorum_hosts) == (["b", "c", "d"], [], True)
    assert quorum_hosts[0].names() == ["protect.a.1"]


def test_the_newest_is_believed_and_two_of_one_time_are_not(quorum_hosts: list[bed.Host]) -> None:
    protected.write(kept("t1"), quorum_hosts)
    protected.write(kept("t2", autostart=True), quorum_hosts[1:2])
    found, unread = protected.read("a", quorum_hosts)
    assert found is not None and found.at == "t2" and not unread
    protected.write(kept("t2", persistent=False), quorum_hosts[2:])
    with pytest.raises(RecordError, match="c and d keep of a differs"):
        protected.read("a", quorum_hosts)
    quorum_hosts[0].world.power -= {"c", "d"}
    found, unread = protected.read("a", quorum_hosts)
    assert found is not None and found.at == "t1" and [one[0] for one in unread] == ["c", "d"]
    assert protected.read("e", quorum_hosts)[0] is None


@pytest.mark.parametrize(
    ("text", "lock"),
    [
        ('lock_manager = "lockd"\n', "lockd"),
        ('user = "root"\n  lock_manager="sanlock"\n', "sanlock"),
        ('#lock_manager = "lockd"\n', ""),
        ('lock_manager = "nop"\n', ""),
        ("", ""),
    ],
)
def test_the_lock_manager_is_the_one_that_is_set(tmp_path: Path, text: str, lock: str) -> None:
    conf = tmp_path / "qemu.conf"
    conf.write_text(text)
    assert keep.lock_manager(str(conf)) == lock
    assert keep.lock_manager(str(tmp_path / "none")) == ""


@pytest.mark.parametrize(
    ("texts", "maintenance"), [([], ""), ([NodeRecord("a", "run", started_wall="t1").to_json()], "t1"), (["{"], "")]
)
def test_it_says_in_which_maintenance_of_its_host_it_ran(
    monkeypatch: pytest.MonkeyPatch, quorum_hosts: list[bed.Host], texts: list[str], maintenance: str
) -> None:
    """By that, a recovery knows whether the record of a drain is of before or after it."""
    world = quorum_hosts[0].world
    world.volumes["a"] = {f"record.{number}": text for number, text in enumerate(texts, 1)}
    seen = Observation({name: Node(name) for name in "abcd"}, {})
    monkeypatch.setattr(keep, "Host", lambda config, *_opener, **_acts: bed.Host(world, config))
    monkeypatch.setattr(keep, "Observer", Mock(return_value=Mock(observe=Mock(return_value=seen))))
    monkeypatch.setattr(keep.arp, "table", dict)
    monkeypatch.setattr(keep.image_locks, "seen", Mock(return_value={}))
    monkeypatch.setattr(keep.guard, "install", Mock(return_value=False))
    monkeypatch.setattr(keep.guard, "installed", Mock(return_value=False))
    peers = [HostConfig(name, name) for name in "bcd"]
    assert keep.protect(HostConfig("a", "a"), peers, None, Policy(), acts=True)["kept_on"] == ["b", "c", "d"]
    found, _unread = protected.read("a", quorum_hosts)
    assert found is not None and found.maintenance == maintenance


def test_what_is_kept_of_a_vm_is_its_next_start_with_its_secrets_and_its_files_that_peers_see(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keep, "libvirt", bed.BINDING)
    asked = []
    domain = SimpleNamespace(isPersistent=lambda: True, XMLDesc=lambda flags: asked.append(flags) or XML)
    source: Any = SimpleNamespace(domain=lambda _uuid: domain, facts=HostFacts())
    volumes = [
        {"kind": kind, "source": source_, "shared": shared, "read_only": read_only}
        for kind, source_, shared, read_only in (
            ("file", "/shared/web", True, False),
            ("file", "/local/web", False, False),
            ("file", "/shared/cd.iso", True, True),
            ("block", "/dev/vg/web", True, False),
        )
    ]
    monkeypatch.setattr(keep.volumes, "identity", len)
    one = Kept("a", "t", "boot", [], [])
    keep._leave(source, VM("web", "web", "a", document={"volumes": volumes}), one)
    assert asked == [bed.BINDING.VIR_DOMAIN_XML_SECURE | bed.BINDING.VIR_DOMAIN_XML_INACTIVE]
    assert (one.definitions, one.files) == ({"web": XML}, {"web": {"/shared/web": 11}})
    assert one.volumes == {"web": {"/dev/vg/web": ["block", ""]}}


def test_a_small_nvram_is_kept_and_put_in_place(tmp_path: Path) -> None:
    """What lies there of an earlier stay is replaced; another VM's is not touched."""
    file = tmp_path / "web_VARS.fd"
    file.write_bytes(b"\xff" * 500_000 + b"boots from vda")
    xml = XML.replace("<memory>", f"<os><type>hvm</type><nvram>{file}</nvram></os><memory>")
    stays = (nvram_stays(str(file)), LOCAL)
    one = Kept("a", "t", "boot", [], [], vms=[VM("web", "web", "a", cold_findings=stays)], definitions={"web": xml})
    assert keep._with_nvram(one.vms[0], one).cold_findings == (LOCAL,)
    path, packed = Kept.from_json(one.to_json()).nvram["web"]
    assert path == str(file) and len(packed) < 4000

    there = Pool({"web_VARS.fd": b"old"})
    target: Any = SimpleNamespace(pools={"nvram": SimpleNamespace(name="nvram", type="dir", target=str(tmp_path))})
    nvram.put(there, target, "web", path, packed)
    assert there.files == {"web_VARS.fd": file.read_bytes()}
    there.domains.append(SimpleNamespace(UUIDString=lambda: "db", name=lambda: "db", XMLDesc=lambda _flags: xml))
    with pytest.raises(nvram.NvramInUse, match=f"its NVRAM {file} belongs to db there"):
        nvram.put(there, target, "web", path, packed)

    file.write_bytes(b"x" * (nvram.MOST + 1))
    for unfit in (str(file), str(tmp_path / "none")):
        assert nvram.pack(unfit) == ""
    assert keep._with_nvram(VM("web", "web", "a", cold_findings=stays), one).cold_findings == stays


class Pool:
    """A target with one pool: it is connection, pool, volume and stream."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.domains, self._name = files, list[Any](), ""

    def __getattr__(self, name: str) -> Any:
        return lambda *_args: self  # storagePoolLookupByName, newStream, refresh, upload, finish

    def listAllDomains(self, _flags: int) -> list[Any]:  # noqa: N802 - libvirt's name
        return self.domains

    def storageVolLookupByName(self, name: str) -> Pool:  # noqa: N802 - libvirt's name
        self._name = name
        return self

    def delete(self, _flags: int) -> None:
        del self.files[self._name]

    def createXML(self, xml: str, _flags: int) -> Pool:  # noqa: N802 - libvirt's name
        self._name = xml.partition("<name>")[2].partition("</name>")[0]
        self.files[self._name] = b""
        return self

    def send(self, data: bytes) -> int:
        self.files[self._name] += data
        return len(data)


def test_the_number_of_a_file_is_what_hosts_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, copy = tmp_path / "web.img", tmp_path / "copy.img"
    file.write_bytes(b"data")
    copy.write_bytes(b"data")
    monkeypatch.setattr(same_files, "mount_of", lambda _path: ("nfs4", "nas:/export"))
    assert identity(str(file)) == file.stat().st_ino != identity(str(copy))
    assert identity(str(tmp_path / "none")) == 0
    monkeypatch.setattr(same_files, "mount_of", lambda _path: ("fuse.sshfs", "nas:/export"))
    assert identity(str(file)) == 0
