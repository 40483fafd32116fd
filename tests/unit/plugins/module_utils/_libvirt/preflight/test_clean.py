"""No false alarm: definitions as libvirt has them, through all that reads and judges them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clean_clusters.libvirt import SECRET, Fleet, Guest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.constraints import Taint
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings, Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.check import check, result
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers import (
    shared_storage,
    target_devices,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.same_files import Shown
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import facts as host_facts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import names as host_names
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import (
    HostFacts,
    PoolFacts,
    SecretFacts,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import control_node, host, observe
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import disks as vm_disks
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import vm as vm_facts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import (
    DomainNow,
    Host,
    HostConfig,
    HostNow,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.observe import Observer
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.preflight import check as preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.service import Request

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).parents[1] / "fakes.py")
assert _spec is not None and _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

POLICY = Policy(migration=MigrationSettings(tls=True))
CAPS = "<capabilities><host><secmodel><model>dac</model></secmodel></host></capabilities>"
NOT_THERE = 50  # VIR_ERR_NO_STORAGE_VOL


class Domain(fakes.Domain):
    """Reads only: what writes fails for want of a place to write to."""

    def __init__(self, binding: Any, guest: Guest) -> None:
        autostart = guest.runs and guest.autostart
        super().__init__(binding, [], "a", guest.runs, autostart, guest.declared)
        self.guest = guest
        self.snapshotNum = self.hasManagedSaveImage = lambda _flags: 0
        self.listAllCheckpoints = lambda _flags: []
        self.blockInfo = lambda _dev: (2**20, 2**20, 2**20)
        self.blockJobInfo = lambda _dev, _flags: {}
        self.interfaceAddresses = lambda _source, _flags: {}

    def XMLDesc(self, _flags: int) -> str:  # noqa: N802 - libvirt's name
        return self.guest.xml


class Hosts:
    """a, b and c of a fleet, with connections that answer."""

    def __init__(self, fleet: Fleet, binding: Any) -> None:
        self.fleet, self.binding = fleet, binding
        self.domains = {guest.uuid: Domain(binding, guest) for guest in fleet.guests}
        self.all = [self._host(name, n) for n, name in enumerate("abc")]

    def _host(self, name: str, number: int) -> Host:
        odd = self.fleet.third if name == "c" else ""
        taints = [Taint("dedicated", "db")] if self.fleet.tainted else []
        if odd == "tainted":
            taints.append(Taint("mine"))
        config = HostConfig(
            name,
            f"qemu+tls://{name}/system",
            memory_mib=256 if odd == "full" else 65536,
            shared_paths=("/srv/shared",),
            labels={"zone": "z" if odd == "other labels" else "a"},
            taints=tuple(taints),
        )
        found = Host(config, lambda _uri: self._connection(name))
        found._facts = facts(name, self.fleet.versions[number])
        now = HostNow(name, self._domains() if name == "a" else {}, odd == "cordoned", identity=name)
        found.read = lambda _jobs: now  # type: ignore[method-assign]
        return found

    def _domains(self) -> dict[str, DomainNow]:
        return {
            g.uuid: DomainNow(g.uuid, g.name, State.RUNNING if g.runs else State.SHUTOFF, g.memory_mib)
            for g in self.fleet.guests
        }

    def _connection(self, name: str) -> Any:
        lan = "<network><forward mode='bridge'/><bridge name='br0'/></network>"
        network = SimpleNamespace(XMLDesc=lambda _flags: lan)
        secret = SimpleNamespace(value=lambda _flags: b"x")
        pool = SimpleNamespace(refresh=lambda _flags: 0, storageVolLookupByName=lambda _name: None)
        return SimpleNamespace(
            isAlive=lambda: True,
            getCapabilities=lambda: CAPS,
            lookupByUUIDString=self.domains.__getitem__,
            compareCPU=lambda *_args: 1,
            compareHypervisorCPU=lambda *_args: 2,
            storageVolLookupByPath=self._volume,
            storagePoolLookupByName=lambda _name: pool,
            listAllDevices=lambda _flags: [],
            nodeDeviceLookupByName=lambda _name: object(),
            networkLookupByName=lambda _name: network,
            secretLookupByUUIDString=lambda _uuid: secret,
            secretLookupByUsage=lambda _type, _usage: secret,
            close=lambda: None,
        )

    def _volume(self, path: str) -> None:
        if not path.startswith("/srv/shared/"):
            raise fakes.LibvirtError("no storage vol with matching path", NOT_THERE)

    def look(self) -> dict[str, Any]:
        source, *peers = self.all
        observer = Observer(source, peers, "boot", "b")
        platform: Any = SimpleNamespace(
            load=lambda: None,
            observe=lambda _record: observer.observe(None, 0.0, frozenset(), {}),
            observer=observer,
            source=source,
            hosts={one.name: one for one in self.all},
            quorum_hosts=("b",),
            stale_claims=SimpleNamespace(elsewhere=()),
        )
        try:
            configs = [one.config for one in self.all]
            request = Request(configs[0], configs[1:], POLICY, Intent.DRAINED, "preflight")
            found = preflight.gather(
                platform, request, [preflight.Measured(h.name, 0.1, tls_dir="/etc/pki/qemu") for h in self.all]
            )
            return result(found, check(found, POLICY), {})
        finally:
            observer.close()


def facts(name: str, version: int) -> HostFacts:
    """What VMs use is on each of them; names and devices of their own are there as well."""
    return HostFacts(
        hostname=name,
        libvirt_version=version,
        hypervisor_version=version,
        arch="x86_64",
        cpu_xml="<cpu><arch>x86_64</arch><model>Haswell</model><vendor>Intel</vendor></cpu>",
        machines={("kvm", "x86_64"): frozenset({"pc-q35-7.2", "q35", f"pc-q35-{name}"})},
        networks={"default": "virbr0", "other": ""},
        interfaces=frozenset({"br0"}),
        node_nets=frozenset({"br-x.1", "eth1", "lo"}),
        secrets=(SecretFacts(SECRET, "ceph", "client.libvirt"),),
        huge_pages={2048: {0: 8192}, 1048576: {0: 0}},
        cpus=frozenset(range(16)),
        nodes=frozenset({0}),
        pools={
            "nfs": PoolFacts("nfs", "netfs", "/srv/shared", "filer:/vol", 2**40),
            "images": PoolFacts("images", "dir", "/var/lib/libvirt/images", "", 2**30),
        },
        domains={f"mine-of-{name}": f"99999999-0000-0000-0000-00000000000{ord(name) % 10}"},
    )


@pytest.fixture
def binding(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library's stand-in, everywhere; and nothing of this machine is looked at."""
    found = fakes.Binding()
    readers = (target_devices, shared_storage, host, host_facts, host_names, observe, preflight, control_node, vm_facts)
    for module in readers:
        monkeypatch.setattr(module, "libvirt", found, raising=False)
    for module in (shared_storage, vm_facts):
        monkeypatch.setattr(module, "path_is_shared_fs", lambda _path: False)
    view = shared_storage.SourceMounts(
        shared_fs=lambda path: path.startswith("/srv/shared"), servers=lambda _path: (), own=lambda _name: False
    )
    monkeypatch.setattr(shared_storage, "SOURCE_MOUNTS", view)
    monkeypatch.setattr(vm_disks, "same_file", lambda *_args, **_options: Shown(True))
    monkeypatch.setattr(preflight, "own_userfaultfd", lambda: 1)
    monkeypatch.setattr(control_node, "ssh_client", lambda: "192.0.2.7")
    return found


def test_no_false_alarm_on_200_clean_fleets(binding: Any) -> None:
    for seed in range(200):
        told = Hosts(Fleet(seed), binding).look()
        assert told["findings"] == [], (seed, told["blockers"], told["cautions"])
        assert told["vms_checked"] >= 1


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("type='kvm'", "type='xen'", "MachineTypeMissing"),
        ("<devices>", "<devices><filesystem><source dir='/x'/></filesystem>", "VirtIOFS"),
        ("<devices>", "<devices><interface type='bridge'><source bridge='no'/></interface>", "Int"),
    ],
)
def test_the_same_fleets_with_one_thing_wrong_are_told(binding: Any, old: str, new: str, code: str) -> None:
    """The clean ones are not clean because nothing is looked at."""
    for seed in range(20):
        fleet = Fleet(seed)
        for guest in fleet.guests:
            guest.xml = guest.xml.replace(old, new, 1)
            guest.runs = True
        codes = {row["code"] for row in Hosts(fleet, binding).look()["findings"]}
        assert any(name.startswith(code) for name in codes), (seed, codes)
