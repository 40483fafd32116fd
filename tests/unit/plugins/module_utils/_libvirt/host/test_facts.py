"""What a host offers. The last part runs against libvirt's own test driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.spec import DomainSpec, InterfaceSpec
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import facts as host_facts
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import (
    LOOK_POOL,
    HostFacts,
    PoolFacts,
    SecretFacts,
    compare_cpu,
    parse_pool,
    read_host_facts,
)

CAPABILITIES = """<capabilities><host><uuid>h-1</uuid>
  <cpu><arch>x86_64</arch><model>Skylake-Server</model><pages unit='KiB' size='4'/>
    <pages unit='KiB' size='2048'/><pages unit='KiB' size='1048576'/></cpu>
  <topology><cells num='2'><cell id='0'/><cell id='1'/></cells></topology></host>
  <guest><os_type>hvm</os_type><arch name='x86_64'>
    <machine maxCpus='255'>pc-i440fx-7.2</machine>
    <machine canonical='pc-i440fx-7.2' maxCpus='255'>pc</machine>
    <domain type='qemu'/>
    <domain type='kvm'><machine maxCpus='255'>pc-q35-7.2</machine></domain>
  </arch></guest></capabilities>"""


class FakeError(Exception):
    def get_error_code(self) -> int:
        return int(self.args[1])


class Conn:
    """A libvirt connection. Calls are counted; the names in `missing` are not supported."""

    def __init__(self, *missing: str, compare: Any = 2, host: Any = 1) -> None:
        self.missing = missing
        self.compare = compare
        self.host = host
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            self.calls.append(name)
            if name in self.missing:
                raise FakeError("this function is not supported", 3)
            return self.answer(name, args)

        return call

    def answer(self, name: str, args: tuple[Any, ...]) -> Any:
        if name in ("compareHypervisorCPU", "compareCPU"):
            said = self.host if name == "compareCPU" else self.compare
            if isinstance(said, Exception):
                raise said
            return said
        answers = {
            "getCapabilities": CAPABILITIES,
            "getHostname": "host-b",
            "getURI": "qemu+tls://host-b/system",
            "getLibVersion": 9000000,
            "getVersion": 7002000,
            "getInfo": ["x86_64", 6144, 4, 2000, 2, 1, 2, 1],
            "getCPUMap": (4, [True, True, False, True], 3),
            "getFreePages": {0: {2048: 5, 1048576: 0}, 1: {2048: 7, 1048576: 1}},
            "listAllNetworks": [named("lan", bridgeName=lambda: "virbr0")],
            "listAllInterfaces": [named("br0")],
            "listAllDevices": [
                node_net("net_eth0_42_52_54_00_00_00_01", "eth0.42"),
                node_net("net_brz_x_52_54_00_00_00_02", "brz-x"),
                node_net("net_tapx_52_54_00_00_00_03", "nobody asks its XML"),
            ],
            "listAllSecrets": [
                SimpleNamespace(UUIDString=lambda: "s-1", usageType=lambda: 2, usageID=lambda: "client.libvirt")
            ],
            "listAllStoragePools": [SimpleNamespace(XMLDesc=lambda _flags: POOL)],
            "listAllDomains": [named("web-1", UUIDString=lambda: "u-1")],
        }
        return answers[name]


POOL = """<pool type='netfs'><name>nfs</name><available unit='bytes'>1000</available>
  <source><host name='nas-1'/><dir path='/export'/><format type='auto'/></source>
  <target><path>/srv/nfs/</path></target></pool>"""


def named(name: str, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(name=lambda: name, **more)


def node_net(node: str, device: str) -> SimpleNamespace:
    interface = f"<interface>{device}</interface>"
    xml = f"<device><name>{node}</name><capability type='net'>{interface}</capability></device>"
    return named(node, XMLDesc=lambda _flags: xml)


@pytest.fixture(autouse=True)
def _binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_facts, "libvirt", SimpleNamespace(libvirtError=FakeError))


def test_everything_is_read_with_one_call_of_a_kind() -> None:
    conn = Conn()
    facts = read_host_facts(conn)
    assert len(conn.calls) == len(set(conn.calls))
    assert (facts.hostname, facts.arch, facts.memory_mib) == ("host-b", "x86_64", 6144)
    assert facts.machines == {
        ("qemu", "x86_64"): frozenset({"pc-i440fx-7.2", "pc"}),
        ("kvm", "x86_64"): frozenset({"pc-q35-7.2"}),
    }
    assert facts.networks == {"lan": "virbr0"}
    assert facts.secrets == (SecretFacts("s-1", "ceph", "client.libvirt"),)
    assert facts.huge_pages == {2048: {0: 5, 1: 7}, 1048576: {0: 0, 1: 1}}
    assert (facts.free_pages(2048), facts.free_pages(64)) == (12, 0)
    assert facts.cpus == {0, 1, 3}
    assert facts.nodes == {0, 1}
    assert facts.domains == {"web-1": "u-1"}


@pytest.mark.parametrize(
    ("call", "field"),
    [
        ("listAllInterfaces", "interfaces"),
        ("listAllDevices", "node_nets"),
        ("getFreePages", "huge_pages"),
        ("getCPUMap", "cpus"),
    ],
)
def test_what_a_driver_does_not_have_is_not_known(call: str, field: str) -> None:
    assert getattr(read_host_facts(Conn(call)), field) is None


@pytest.mark.parametrize(
    ("call", "field", "driver"),
    [
        ("listAllNetworks", "networks", "network"),
        ("listAllSecrets", "secrets", "secret"),
        ("listAllStoragePools", "pools", "storage"),
    ],
)
def test_a_libvirt_without_a_driver_has_nothing_of_its_kind(call: str, field: str, driver: str) -> None:
    facts = read_host_facts(Conn(call))
    assert not getattr(facts, field) and getattr(facts, field) is not None
    assert facts.lacking == {driver}
    assert facts.lacks_link(InterfaceSpec("network", network="lan")) == ("network 'lan'" if driver == "network" else "")
    assert facts.has_secret("s-1", "", "") is (driver != "secret")
    # Who may not ask is another matter: there it may be.
    conn = Conn()
    setattr(conn, call, lambda _flags: _raise(FakeError("access denied", 88)))
    assert getattr(read_host_facts(conn), field) is None and read_host_facts(conn).lacking == frozenset()


def test_a_broken_connection_is_not_an_empty_host() -> None:
    conn = Conn()
    conn.listAllNetworks = lambda _flags: _raise(FakeError("client socket is closed", 1))
    with pytest.raises(FakeError):
        read_host_facts(conn)


def _raise(exc: Exception) -> Any:
    raise exc


@pytest.mark.parametrize(
    ("interface", "lacks"),
    [
        (InterfaceSpec("network", network="lan"), ""),
        (InterfaceSpec("bridge", network="lan", bridge="elsewhere"), ""),
        (InterfaceSpec("network", network="dmz"), "network 'dmz'"),
        (InterfaceSpec("bridge", bridge="br0"), ""),
        (InterfaceSpec("bridge", bridge="virbr0"), ""),
        (InterfaceSpec("bridge", bridge="br1"), "bridge 'br1'"),
        (InterfaceSpec("bridge", bridge="brz-x"), ""),
        (InterfaceSpec("bridge", bridge="brz"), "bridge 'brz'"),
        (InterfaceSpec("bridge", bridge="brz_x"), "bridge 'brz_x'"),
        (InterfaceSpec("ethernet", device="tapx"), ""),
        (InterfaceSpec("ethernet", device="tapy"), "network device 'tapy'"),
        (InterfaceSpec("ethernet"), ""),
        (InterfaceSpec("direct", device="eth0.42"), ""),
        (InterfaceSpec("direct", device="eth0"), "host interface 'eth0'"),
        (InterfaceSpec("user"), ""),
    ],
)
def test_what_an_interface_lacks(interface: InterfaceSpec, lacks: str) -> None:
    facts = read_host_facts(Conn())
    if interface.device == "eth0":
        facts = HostFacts(interfaces=frozenset({"br0"}), node_nets=frozenset())
    assert facts.lacks_link(interface) == lacks


def test_what_a_host_provides_is_not_what_a_drain_made_for_a_look() -> None:
    """That pool is gone a moment later: a roll would wait for it after the reboot, and stop."""
    pools = {name: PoolFacts(name, "dir", "/x") for name in ("default", f"{LOOK_POOL}1f")}
    assert HostFacts(pools=pools, networks={"lan": ""}).provides() == ("storage pool default", "network lan")
    assert HostFacts(pools=pools).provides() is None


def test_secrets_by_uuid_or_usage() -> None:
    facts = read_host_facts(Conn())
    assert facts.has_secret("s-1", "", "") is True
    assert facts.has_secret("s-2", "", "") is False
    assert facts.has_secret("", "ceph", "client.libvirt") is True
    assert facts.has_secret("", "iscsi", "client.libvirt") is False
    assert HostFacts().has_secret("s-1", "", "") is None


def test_a_pool() -> None:
    pool = parse_pool(POOL)
    assert (pool.name, pool.type, pool.target, pool.available) == ("nfs", "netfs", "/srv/nfs", 1000)
    assert pool.source == "dir.path=/export host.name=nas-1"


# CPUs

SOURCE = HostFacts(hostname="host-a", hypervisor_version=7002000, cpu_xml="<cpu/>")
TARGET = HostFacts(hostname="host-b", hypervisor_version=7002000)


def cpu(mode: str, kind: str = "kvm") -> DomainSpec:
    return DomainSpec("u", "t", type=kind, arch="x86_64", cpu_mode=mode, cpu_xml=f"<cpu {mode}/>")


@pytest.mark.parametrize(
    ("spec", "conn", "words"),
    [
        (cpu(""), Conn(compare=0), ""),
        (cpu("custom"), Conn(compare=1), ""),
        (cpu("custom"), Conn(compare=2), ""),
        (cpu("custom"), Conn(compare=0), "a feature is missing"),
        (cpu("custom"), Conn(compare=FakeError("required features: avx512f", 91)), "avx512f"),
        (cpu("custom"), Conn(compare=FakeError("Unknown CPU model X", 1)), "Unknown CPU model"),
        (cpu("custom"), Conn("compareHypervisorCPU"), ""),
        (cpu("host-model"), Conn(compare=0), "host-model"),
        (cpu("host-passthrough"), Conn(host=1), ""),
        (cpu("host-passthrough"), Conn(host=2), "different one"),  # more features are another CPU
        (cpu("host-passthrough"), Conn(host=0), "different one"),
        (cpu("maximum"), Conn(host=2), "different one"),
        (cpu("maximum", "qemu"), Conn(host=0), ""),
    ],
)
def test_cpu(spec: DomainSpec, conn: Conn, words: str) -> None:
    found = compare_cpu(conn, spec, SOURCE, TARGET)
    assert [f.reason for f in found] == ([Reason.CPUModelNotLiveMigratable] if words else [])
    assert all(words in f.message and "host-b" in f.message for f in found)


def test_an_emulated_cpu_follows_the_version_of_qemu() -> None:
    other = HostFacts(hostname="host-b", hypervisor_version=8000000)
    assert compare_cpu(Conn(), cpu("maximum", "qemu"), SOURCE, other)
    assert compare_cpu(Conn(), cpu("host-passthrough"), HostFacts(), other)


@pytest.mark.parametrize("mode", ["custom", "host-passthrough"])
@pytest.mark.parametrize("error", [FakeError("cannot acquire state change lock", 68), FakeError("out of memory", 1)])
def test_an_error_that_is_no_answer_is_none(mode: str, error: FakeError) -> None:
    cache: dict[tuple[str, ...], Any] = {}
    with pytest.raises(FakeError):
        compare_cpu(Conn(compare=error, host=error), cpu(mode), SOURCE, TARGET, cache)
    assert cache == {}


def test_equal_cpus_are_compared_once() -> None:
    conn, cache = Conn(compare=0), {}  # type: ignore[var-annotated]
    first = compare_cpu(conn, cpu("custom"), SOURCE, TARGET, cache)
    assert compare_cpu(conn, cpu("custom"), SOURCE, TARGET, cache) == first
    assert conn.calls == ["compareHypervisorCPU"]


# The real binding

SYSTEM_PYTHON = "/usr/bin/python3"
SCRIPT = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
base = "ansible_collections.virtops.maintenance.plugins.module_utils._libvirt."
from importlib import import_module
connection, facts, domain_xml, disks = (
    import_module(base + n) for n in (
    "host.connection", "host.facts", "domain.xml", "blockers.shared_storage"))
conn = connection.open_connection("test:///default")
host = facts.read_host_facts(conn)
domain = conn.listAllDomains(0)[0]
spec = domain_xml.parse_domain(domain.XMLDesc(0))
views = disks.target_views(disks.local_views(spec, host, domain=domain), spec, host, conn)
unreachable = []
for uri in ("qemu+tcp://127.0.0.1:9/system", "qemu:///system?socket=/nonexistent", "nodriver:///"):
    try:
        connection.open_connection(uri, timeout=10)
    except connection.HostUnreachable as exc:
        unreachable.append([exc.uri, exc.hint])
print(json.dumps({"name": host.hostname, "domains": dict(host.domains), "spec": spec.name,
    "networks": dict(host.networks), "secrets": host.secrets, "pools": sorted(host.pools),
    "cpu": len(facts.compare_cpu(conn, spec, host, host)), "unreachable": unreachable}))
"""


def has_binding() -> bool:
    if not Path(SYSTEM_PYTHON).exists():
        return False
    probe = [SYSTEM_PYTHON, "-c", "import libvirt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_binding(), reason=f"{SYSTEM_PYTHON} has no libvirt (python3-libvirt)")
def test_with_the_test_driver() -> None:
    module = sys.modules[host_facts.__name__]
    root = Path(str(module.__file__)).parents[7]
    done = subprocess.run(
        [SYSTEM_PYTHON, "-B", "-c", SCRIPT, str(root)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # libvirt prints its errors unless it is told not to
    seen = json.loads(done.stdout)
    assert seen["domains"] == {"test": "6695eb01-f6a4-8304-79aa-97f2502e193f"}
    assert seen["spec"] == "test"
    assert seen["networks"] == {"default": "virbr0"}
    assert seen["secrets"] == []  # this libvirt has no driver for them
    assert seen["pools"] == ["default-pool"]
    assert seen["cpu"] == 0
    assert len(seen["unreachable"]) == 3
    assert "Nothing listens there" in seen["unreachable"][0][1]
    assert "libvirt's socket" in seen["unreachable"][1][1]
