"""A VM's facts as they are read from libvirt: what reaches the core."""

from __future__ import annotations

import importlib.util
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers import shared_storage
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.same_files import Shown
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.metadata import NAMESPACE
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.network_xml import parse_network
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import facts as host_facts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import names
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import HostFacts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import disks, host
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import vm as vm_facts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import (
    DomainNow,
    Host,
    HostConfig,
    HostNow,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.vm import VMFacts, read_vm_facts

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).parents[1] / "fakes.py")
assert _spec is not None
assert _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

SAME = Shown(True)
UUID = "11111111-2222-3333-4444-555555555555"
XML = f"""<domain type='kvm'><name>web</name><uuid>{UUID}</uuid><memory unit='MiB'>96</memory>
  <os><type arch='x86_64' machine='q35'>hvm</type><nvram>/nvram/web.fd</nvram></os>
  <devices><filesystem type='mount'><source dir='/srv'/><target dir='s'/></filesystem>
  </devices></domain>"""


def read(monkeypatch: pytest.MonkeyPatch, shared: tuple[str, ...], checkpoints: Any, says: str = "") -> VM:
    facts = facts_of(monkeypatch, shared, checkpoints, says)
    return facts.to_vm(State.RUNNING, None, facts.findings, facts.migratable)


def facts_of(
    monkeypatch: pytest.MonkeyPatch,
    shared: tuple[str, ...] = (),
    checkpoints: Any = (),
    says: str = "",
    peers: tuple[Host, ...] = (),
    cpu: tuple[str, str] = ("", ""),
    pending: str = "",
    same: Shown = SAME,
    live: str = "",
) -> VMFacts:
    """`cpu`: as it runs, and as it is defined. `pending`, `live`: devices, likewise."""
    binding = fakes.Binding()
    for module in (shared_storage, host, vm_facts):
        monkeypatch.setattr(module, "libvirt", binding)
    monkeypatch.setattr(shared_storage, "path_is_shared_fs", lambda _path: False)
    monkeypatch.setattr(disks, "same_file", lambda *_args, **_options: same)
    domain = fakes.Domain(binding, [], "host-a")
    element = f"<metadata><vm xmlns='{NAMESPACE}'>{says}</vm></metadata></domain>"
    xml = XML.replace("</domain>", element)
    more = (f"<devices>{live}", f"<devices>{pending}")
    domain.XMLDesc = lambda flags: xml.replace("<devices>", cpu[bool(flags)] + more[bool(flags)])
    domain.snapshotNum = lambda _flags: 0
    domain.blockJobInfo = lambda _dev, _flags: {}
    domain.hasManagedSaveImage = lambda _flags: 0
    if checkpoints == "unsupported":
        checkpoints = fakes.LibvirtError("no support", binding.VIR_ERR_NO_SUPPORT)

    def listed(_flags: int) -> Any:
        if isinstance(checkpoints, Exception):
            raise checkpoints
        return checkpoints

    domain.listAllCheckpoints = listed
    conn = SimpleNamespace(isAlive=lambda: True, lookupByUUIDString=lambda _uuid: domain)
    source = Host(HostConfig("host-a", "x", shared_paths=shared), lambda _uri: conn)
    source._facts = HostFacts(pools={}, libvirt_version=9000000, hypervisor_version=10000008)
    reads = {peer.name: HostNow(peer.name) for peer in peers}
    return read_vm_facts(source, peers, DomainNow(UUID, "web", State.RUNNING, 96), reads)


def test_why_it_cannot_be_moved_while_off_nor_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    vm = read(monkeypatch, (), ["nightly"])
    cold = [finding.reason for finding in vm.cold_findings]
    assert cold == [Reason.CheckpointsPresent, Reason.DisksNotLiveMigratable]
    assert [finding.reason for finding in vm.findings] == [Reason.VirtIOFSNotLiveMigratable, Reason.CheckpointsPresent]
    assert [finding.reason for finding in vm.save_findings] == [Reason.VirtIOFSNotLiveMigratable]


def test_what_is_declared_as_shared_can_be_moved_while_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, ("/nvram",), "unsupported").cold_findings == ()


def test_an_error_of_reading_the_checkpoints_is_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(fakes.LibvirtError, match="lock"):
        read(monkeypatch, (), fakes.LibvirtError("lock", 7))


def test_what_it_asks_of_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    says = (
        "<nodeSelector>disk=ssd, zone=a</nodeSelector><affinity>rack In r1|r2</affinity>"
        "<tolerations>dedicated=db:NoSchedule</tolerations><near>web</near>"
    )
    needs = read(monkeypatch, (), [], says).constraints
    assert needs.selector == {"disk": "ssd", "zone": "a"}
    assert str(needs.affinity[0]) == "rack In (r1, r2)"
    assert needs.tolerations[0].key == "dedicated"
    assert needs.near == "web"


def test_what_cannot_be_understood_keeps_it_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    vm = read(monkeypatch, (), [], "<affinity>rack Near r1</affinity>")
    assert (vm.migratable, vm.known) == (None, False)
    assert "rack Near r1" in vm.findings[0].message


@pytest.mark.parametrize("active", [True, False])
def test_whether_it_starts_with_its_host_is_known_all_the_same_of_one_that_is_off(active: bool) -> None:
    dom = fakes.Domain(fakes.Binding(), [], "host-a", active=active, autostart=True)
    state = State.RUNNING if active else State.SHUTOFF
    conn = SimpleNamespace(isAlive=lambda: True, lookupByUUIDString=lambda _uuid: dom)
    source = Host(HostConfig("host-a", "x"), lambda _uri: conn)
    facts = vm_facts.unreadable(source, DomainNow(UUID, "web", state, 96), "no XML")
    assert (facts.known, facts.autostart) == (False, not active)


def peer(name: str, answers: Any) -> Host:
    """A peer that can be read. `answers`: what it says to a question about a CPU."""

    def compare(*_args: Any) -> int:
        if isinstance(answers, Exception):
            raise answers
        return int(answers)

    conn = SimpleNamespace(isAlive=lambda: True, compareHypervisorCPU=compare)
    host = Host(HostConfig(name, "y"), lambda _uri: conn)
    host._facts = HostFacts(hostname=name)
    return host


def test_a_peer_that_breaks_at_the_question_has_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm_facts, "target_views", lambda *_args: {})
    monkeypatch.setattr(host_facts, "libvirt", fakes.Binding())
    cpu = "<cpu mode='custom'><model>m</model></cpu>"
    peers = (
        peer("takes", 2),
        peer("refuses", fakes.LibvirtError("required features: avx", 91)),
        peer("hangs", fakes.LibvirtError("cannot acquire state change lock", 68)),
        peer("breaks", fakes.LibvirtError("client socket is closed", 1)),
    )
    found = facts_of(monkeypatch, peers=peers, cpu=(cpu, cpu))
    assert found.asked == {"takes", "refuses"}
    why = {name: findings[0].reason for name, findings in found.refused_by.items()}
    unreachable = Reason.PeerUnreachable
    assert why == {"refuses": Reason.CPUModelNotLiveMigratable, "hangs": unreachable, "breaks": unreachable}


def test_of_a_peer_that_is_older_it_is_read_what_it_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm_facts, "target_views", lambda *_args: {})
    peers = [peer(name, 2) for name in ("older", "same", "newer")]
    for one, version in zip(peers, (7002000, 10000008, 10001000), strict=True):
        one._facts = HostFacts(hostname=one.name, hypervisor_version=version)
    assert facts_of(monkeypatch, peers=peers).compared == {"older": "its machine types are not known"}


@pytest.mark.parametrize(
    ("live", "defined", "refuses"),
    [
        ("<cpu mode='host-passthrough'/>", "<cpu mode='host-passthrough'/>", False),
        ("<cpu mode='custom'><model>m</model></cpu>", "<cpu mode='host-model'/>", False),
        ("<cpu mode='custom'><model>qemu64</model></cpu>", "", False),
        ("<cpu mode='custom'><model>m</model></cpu>", "<cpu><model>m</model></cpu>", True),
        ("<cpu mode='custom'><model>m</model></cpu>", "<cpu mode='custom'><model>m</model></cpu>", True),
    ],
)
def test_off_it_takes_the_cpu_that_it_finds(
    monkeypatch: pytest.MonkeyPatch, live: str, defined: str, refuses: bool
) -> None:
    """What hinders a running guest only does not keep one that is started anew."""
    monkeypatch.setattr(vm_facts, "target_views", lambda *_args: {})
    monkeypatch.setattr(host_facts, "libvirt", fakes.Binding())
    found = facts_of(monkeypatch, peers=(peer("b", 0),), cpu=(live, defined))
    assert found.refused_by["b"][0].reason is Reason.CPUModelNotLiveMigratable
    assert bool(found.cold_refused_by) is refuses


LOCAL = "<disk type='file' device='disk'><driver type='raw'/><source file='/i/data'/><target dev='vdb'/></disk>"
DMZ = "<interface type='network'><source network='dmz'/></interface>"


def test_a_disk_that_is_only_defined_keeps_it_here_running_or_off(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = facts_of(monkeypatch, ("/nvram",), pending=LOCAL)
    said = [(f.reason, f.message) for f in facts.findings if f.reason is not Reason.VirtIOFSNotLiveMigratable]
    assert [reason for reason, _text in said] == [Reason.PendingChanges]
    assert "Disk vdb (/i/data) is local" in said[0][1]
    assert [finding.reason for finding in facts.cold_findings] == [Reason.DisksNotLiveMigratable]
    assert facts.next_start == (
        "Its configuration for the next start differs from the running one: disk vdb (/i/data)."
    )


def test_what_runs_as_it_is_defined_has_nothing_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    assert facts_of(monkeypatch).next_start == ""


def test_a_network_that_is_only_defined_is_asked_of_each_target(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (host_facts, names):
        monkeypatch.setattr(module, "libvirt", fakes.Binding())
    monkeypatch.setattr(
        names.Names, "network", lambda _self, name: parse_network(f"<network><name>{name}</name></network>")
    )
    having, lacking = peer("b", 1), peer("c", 1)
    having._facts = HostFacts(hostname="b", networks={"dmz": ""})
    lacking._facts = HostFacts(hostname="c", networks={"lan": ""})
    found = facts_of(monkeypatch, peers=(having, lacking), pending=DMZ)
    assert set(found.refused_by) == set(found.cold_refused_by) == {"c"}
    (live,), (cold,) = found.refused_by["c"], found.cold_refused_by["c"]
    assert (live.reason, cold.reason) == (Reason.PendingChanges, Reason.InterfaceNotLiveMigratable)
    assert "'dmz'" in live.message and "'dmz'" in cold.message


def test_a_medium_that_is_only_defined_keeps_nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, and that is all: most have one left from their installation."""
    monkeypatch.setattr(shared_storage, "_volume_by_path", lambda _conn, _path: False)
    iso = LOCAL.replace("'disk'", "'cdrom'")
    found = facts_of(monkeypatch, ("/nvram",), peers=(peer("b", 1),), pending=iso)
    reasons = {finding.reason for finding in (*found.findings, *found.refused_by.get("b", ()))}
    assert Reason.PendingChanges not in reasons
    assert "/i/data" in found.next_start


@pytest.mark.parametrize("runs", [True, False], ids=["runs on it", "starts on it next"])
def test_the_servers_that_its_disks_name(monkeypatch: pytest.MonkeyPatch, runs: bool) -> None:
    mounts = shared_storage.SourceMounts(own=lambda _name: False)
    monkeypatch.setattr(shared_storage, "SOURCE_MOUNTS", mounts)
    nbd = "<disk type='network'><source protocol='nbd' name='d'><host name='nas-1'/></source><target dev='vdb'/></disk>"
    assert facts_of(monkeypatch, pending=nbd, live=nbd if runs else "").served_at == ("nas-1",)


SHARED = LOCAL.replace("/i/data", "/mnt/data")


@pytest.mark.parametrize("runs", [True, False], ids=["runs on it", "starts on it next"])
def test_shared_storage_that_is_another_one_there_refuses_the_target(
    monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    """Whatever the kind of its file system says, and whoever declared it."""
    monkeypatch.setattr(shared_storage, "_volume_by_path", lambda _conn, _path: True)
    found = facts_of(
        monkeypatch,
        ("/mnt", "/nvram"),
        peers=(peer("b", 1),),
        pending=SHARED,
        same=Shown(False, "is not the same there: ..."),
        live=SHARED if runs else "",
    )
    cold = [finding.message for finding in found.cold_refused_by["b"]]
    assert any("Disk vdb (/mnt/data) is not the same there" in text for text in cold)
    assert any("NVRAM /nvram/web.fd is not the same there" in text for text in cold)
    live = [finding.message for finding in found.refused_by["b"]]
    assert any("Disk vdb (/mnt/data) is not the same there" in text for text in live)


def test_what_cannot_be_shown_beforehand_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_storage, "_volume_by_path", lambda _conn, _path: True)
    found = facts_of(
        monkeypatch,
        ("/mnt", "/nvram"),
        peers=(peer("b", 1),),
        pending=SHARED,
        same=Shown(None, "is not known to be the same there"),
        live=SHARED,
    )
    assert not found.cold_refused_by
    assert found.unshown == ("Disk vdb (/mnt/data) is not known to be the same there",)


def test_a_peer_whose_storage_hangs_holds_up_no_other_and_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """libvirtd answers keepalives there, so nothing else would ever end it."""
    monkeypatch.setattr(vm_facts, "ASKED_FOR", 0.2)
    asked: list[str] = []
    hangs = threading.Event()

    def refusal(_asking: Any, peer: Host, _now: HostNow) -> Any:
        asked.append(peer.name)
        if peer.name == "host-b":
            hangs.wait(5)
        return (), ()

    monkeypatch.setattr(vm_facts, "_refusal", refusal)
    peers = [Host(HostConfig(name, "x"), lambda _uri: None) for name in ("host-b", "host-c")]
    for peer in peers:
        peer._facts = HostFacts(pools={}, libvirt_version=9000000, hypervisor_version=10000008)
    for _vm in range(2):
        found = facts_of(monkeypatch, peers=tuple(peers))
        assert (set(found.refused_by), found.asked) == ({"host-b"}, {"host-c"})
        assert "no answer about web within 0.2 s" in found.refused_by["host-b"][0].message
    hangs.set()
    assert asked == ["host-b", "host-c", "host-c"]
