"""Read what a host offers to a VM that comes to it: once, through libvirt alone.

About ten calls, none of them per domain, so it is cheap through a remote URI as well.
Where a driver is not there (no nodedev, no secrets ...) the fact is None: not known.
"""

from __future__ import annotations

import functools
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from ..._core.reasons.reason import Finding, Reason
from ..domain.spec import DomainSpec, InterfaceSpec
from ..domain.untrusted import parse_xml
from .connection import ERR_CONFIG_UNSUPPORTED, ERR_INTERNAL, ERR_NO_SUPPORT, is_lost, libvirt

# A pool that a drain of any host makes here for the time of a look (blockers/same_files.py)
LOOK_POOL = "virtops-look-"
# virSecretUsageType, libvirt's include/libvirt/libvirt-secret.h
_USAGE_TYPES = {1: "volume", 2: "ceph", 3: "iscsi", 4: "tls", 5: "vtpm"}
# virConnectListAll*Flags and virCPUCompareResult
_ACTIVE = 2
_CAP_NET = 16
_INCOMPATIBLE, _IDENTICAL = 0, 1
_FAIL_INCOMPATIBLE = 1
_NODE_NET = re.compile(r"net_([A-Za-z0-9]+)_(?:[0-9a-f]{2}_){5}[0-9a-f]{2}")
# Errors that answer the question for a CPU; of an internal one only its text tells.
_ERR_INVALID_ARG, _ERR_XML, _ERR_UNSUPPORTED, _ERR_CPU_INCOMPATIBLE = 8, 27, 84, 91
_CPU_ANSWERS = frozenset({_ERR_INVALID_ARG, _ERR_XML, ERR_CONFIG_UNSUPPORTED, _ERR_CPU_INCOMPATIBLE})


@dataclass(frozen=True)
class PoolFacts:
    """An active storage pool. `source`: what it stands on (host, directory, name), as text.

    Two pools of a network type with the same source hold the same volumes. hosts: who serves it.
    available: bytes.
    """

    name: str
    type: str
    target: str = ""
    source: str = ""
    available: int = 0
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class SecretFacts:
    uuid: str
    usage_type: str = ""
    usage: str = ""


@dataclass(frozen=True)
class HostFacts:
    """A host. None in a field: its libvirt did not say.

    machines: (domain type, arch) -> machine types and their aliases.
    emulators: paths of those that libvirt found by itself.
    networks: active networks -> bridge ("" when it has none).
    interfaces: network devices of the host, bridges too. node_nets: those that are node devices.
    huge_pages: page size in KiB -> NUMA node -> free pages.
    cpus: numbers of the CPUs online. nodes: numbers of the NUMA nodes.
    cpu_xml: the host's CPU, as capabilities have it. Versions: major*10^6 + minor*10^3 + release.
    pools: the active ones. domains: name -> UUID, inactive ones too.
    lacking: the drivers that its libvirt does not have, of which there is nothing, then.
    """

    hostname: str = ""
    uri: str = ""
    libvirt_version: int = 0
    hypervisor_version: int = 0
    arch: str = ""
    cpu_xml: str = ""
    memory_mib: int = 0
    machines: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    emulators: frozenset[str] | None = None
    networks: Mapping[str, str] | None = None
    interfaces: frozenset[str] | None = None
    node_nets: frozenset[str] | None = None
    secrets: tuple[SecretFacts, ...] | None = None
    huge_pages: Mapping[int, Mapping[int, int]] | None = None
    cpus: frozenset[int] | None = None
    nodes: frozenset[int] | None = None
    pools: Mapping[str, PoolFacts] | None = None
    domains: Mapping[str, str] = field(default_factory=dict)
    lacking: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The host's name in messages."""
        return self.hostname or self.uri or "the target"

    def provides(self) -> tuple[str, ...] | None:
        """The active storage pools and networks, in words: VMs need them, and a reboot may not bring them back. None:
        libvirt did not say."""
        if self.pools is None or self.networks is None:
            return None
        pools = [f"storage pool {name}" for name in self.pools if not name.startswith(LOOK_POOL)]
        return (*pools, *(f"network {name}" for name in self.networks))

    def has_bridge(self, name: str) -> bool | None:
        """Is there a network device of this name? None: not known."""
        if self.interfaces is None and self.node_nets is None:
            return None
        known = (self.interfaces or (), self.node_nets or (), (self.networks or {}).values())
        return any(name in names for names in known)

    def lacks_link(self, interface: InterfaceSpec) -> str:
        """Return what the interface is attached to and this host lacks; empty: nothing, or unknown."""
        if interface.network:
            if self.networks is not None and interface.network not in self.networks:
                return f"network {interface.network!r}"
            return ""
        if interface.type == "bridge" and self.has_bridge(interface.bridge) is False:
            return f"bridge {interface.bridge!r}"
        if interface.type == "direct" and self.has_bridge(interface.device) is False:
            return f"host interface {interface.device!r}"
        # A tap that libvirt is not to make must be there (target managed='no').
        tap = interface.type == "ethernet" and interface.device
        if tap and self.has_bridge(interface.device) is False:
            return f"network device {interface.device!r}"
        return ""

    def why_none(self, kind: str) -> str:
        """The end of a message that the host lacks a network or secret (`kind`): it has no driver for it; else
        empty."""
        return f": its libvirt has no {kind} driver" if kind in self.lacking else ""

    def has_secret(self, uuid: str, usage_type: str, usage: str) -> bool | None:
        if self.secrets is None:
            return None
        if uuid:
            return any(secret.uuid == uuid for secret in self.secrets)
        return any((s.usage_type, s.usage) == (usage_type, usage) for s in self.secrets)

    def free_pages(self, size_kib: int) -> int | None:
        """Free huge pages of this size on all NUMA nodes."""
        if self.huge_pages is None:
            return None
        return sum(self.huge_pages.get(size_kib, {}).values())


def read_host_facts(conn: Any) -> HostFacts:
    """Read a host through its connection. Raises libvirtError when the connection is broken."""
    text = _or_none(conn.getCapabilities)
    caps = parse_xml(text) if text else ET.Element("capabilities")
    arch = caps.findtext("host/cpu/arch") or ""
    cpu = caps.find("host/cpu")
    cells = _cells(caps)
    pages = [int(e.get("size", "0")) for e in caps.findall("host/cpu/pages")]
    lacking: set[str] = set()
    networks = _of_driver("network", lambda: conn.listAllNetworks(_ACTIVE), lacking)
    # Not only the active ones: a bridge counts as active when a guest is plugged into it.
    interfaces = _or_none(lambda: conn.listAllInterfaces(0))
    node_nets = _or_none(lambda: conn.listAllDevices(_CAP_NET))
    pools = _of_driver("storage", lambda: conn.listAllStoragePools(_ACTIVE), lacking)
    secrets = _of_driver("secret", lambda: conn.listAllSecrets(0), lacking)
    cpu_map = _or_none(conn.getCPUMap)
    info = conn.getInfo()
    return HostFacts(
        hostname=conn.getHostname(),
        uri=conn.getURI(),
        libvirt_version=conn.getLibVersion(),
        hypervisor_version=_or_none(conn.getVersion) or 0,
        arch=arch,
        cpu_xml="" if cpu is None else ET.tostring(cpu, encoding="unicode").strip(),
        memory_mib=int(info[1]),
        machines=_machines(caps),
        networks=None if networks is None else {n.name(): _bridge(n) for n in networks},
        emulators=frozenset(_texts(caps, "guest//emulator")) or None,
        interfaces=None if interfaces is None else frozenset(i.name() for i in interfaces),
        node_nets=None if node_nets is None else frozenset(map(_device_name, node_nets)),
        secrets=None if secrets is None else _secrets(secrets),
        huge_pages=_huge_pages(conn, pages, cells),
        cpus=None if cpu_map is None else _online(cpu_map),
        nodes=cells or None,
        pools=None if pools is None else _pools(pools),
        domains={d.name(): d.UUIDString() for d in conn.listAllDomains(0)},
        lacking=frozenset(lacking),
    )


def _or_none(call: Callable[[], Any]) -> Any:
    """The call's answer; None when this libvirt does not have it."""
    try:
        return call()
    except libvirt.libvirtError as exc:
        if is_lost(exc):
            raise
        return None


def _of_driver(driver: str, call: Callable[[], Any], lacking: set[str]) -> Any:
    """Ask a driver of libvirt by `call`; [] where this libvirt lacks the driver (a package of its own on Debian 13),
    which is noted in `lacking`. None: it did not say. Not for devices of the host, which are there without a driver
    that lists them."""
    try:
        return call()
    except libvirt.libvirtError as exc:
        if is_lost(exc):
            raise
        if exc.get_error_code() != ERR_NO_SUPPORT:
            return None
        lacking.add(driver)
        return []


def _bridge(network: Any) -> str:
    try:
        return str(network.bridgeName())
    except libvirt.libvirtError:
        return ""  # it has none: a pool of devices, macvtap; or it ended just now


def _device_name(device: Any) -> str:
    """The name of a network device, from its node device. That is called net_<device>_<mac>, with an
    underscore for all that is neither letter nor digit (libvirt, src/node_device/node_device_udev.c):
    br-x is br_x there, and br is where br_x begins. Then its XML tells; mostly it need not be asked.
    """
    name = str(device.name())
    plain = _NODE_NET.fullmatch(name)
    if plain:
        return plain.group(1)
    xml = _or_none(functools.partial(device.XMLDesc, 0))
    return (parse_xml(xml).findtext("capability/interface") or "") if xml else ""


def _texts(root: ET.Element, path: str) -> Iterator[str]:
    return ((element.text or "").strip() for element in root.findall(path))


def _secrets(found: list[Any]) -> tuple[SecretFacts, ...]:
    # UUID and usage come with the list: no call for each.
    return tuple(SecretFacts(s.UUIDString(), _USAGE_TYPES.get(s.usageType(), ""), s.usageID() or "") for s in found)


def _pools(pools: list[Any]) -> dict[str, PoolFacts]:
    facts = {}
    for pool in pools:
        xml = _or_none(functools.partial(pool.XMLDesc, 0))
        if xml is not None:
            fact = parse_pool(xml)
            if not fact.name.startswith(LOOK_POOL):  # another one's, and gone in a moment
                facts[fact.name] = fact
    return facts


def parse_pool(xml: str) -> PoolFacts:
    """Parse libvirt's storage pool XML (https://libvirt.org/formatstorage.html)."""
    root = parse_xml(xml)
    source = root.find("source")
    parts = []
    if source is not None:
        for element in source.iter():
            if element.tag in ("host", "dir", "device", "name", "adapter"):
                parts += [f"{element.tag}.{k}={v}" for k, v in sorted(element.attrib.items())]
                parts += [f"{element.tag}={element.text.strip()}"] if element.text else []
    return PoolFacts(
        name=root.findtext("name") or "",
        type=root.get("type", ""),
        target=(root.findtext("target/path") or "").rstrip("/"),
        source=" ".join(sorted(part for part in parts if not part.endswith("="))),
        available=int(root.findtext("available") or 0),
        hosts=tuple(host.get("name", "") for host in root.findall("source/host[@name]")),
    )


def _cells(caps: ET.Element) -> frozenset[int]:
    return frozenset(int(e.get("id", "0")) for e in caps.findall("host/topology/cells/cell"))


def _online(cpu_map: tuple[int, list[bool], int]) -> frozenset[int]:
    return frozenset(number for number, online in enumerate(cpu_map[1]) if online)


def _huge_pages(conn: Any, sizes: list[int], cells: frozenset[int]) -> dict[int, dict[int, int]] | None:
    """Pages larger than the usual one: size -> node -> free."""
    huge = sorted(sizes)[1:]
    if not sizes:
        return None
    facts: dict[int, dict[int, int]] = {size: {} for size in huge}
    if not huge:
        return facts
    first, count = (min(cells), max(cells) - min(cells) + 1) if cells else (0, 1)
    answer = _or_none(lambda: conn.getFreePages(huge, first, count))
    if answer is None:
        return None
    for node, free in answer.items():
        for size, number in free.items():
            facts[int(size)][int(node)] = int(number)
    return facts


def _machines(caps: ET.Element) -> dict[tuple[str, str], frozenset[str]]:
    """Machine types by (domain type, arch); a domain type may have a list of its own."""
    machines: dict[tuple[str, str], frozenset[str]] = {}
    for arch in caps.findall("guest/arch"):
        name = arch.get("name", "")
        for domain in arch.findall("domain"):
            own = domain.findall("machine") or arch.findall("machine")
            texts = frozenset((m.text or "").strip() for m in own)
            key = (domain.get("type", ""), name)
            machines[key] = machines.get(key, frozenset()) | texts
    return machines


def compare_cpu(
    conn: Any,
    spec: DomainSpec,
    source: HostFacts,
    target: HostFacts,
    cache: MutableMapping[tuple[str, ...], tuple[Finding, ...]] | None = None,
) -> list[Finding]:
    """Can the target (`conn`) run the VM's CPU? Asks libvirt's own comparison.

    `spec` of the live XML, where host-model is already the CPU that the guest sees.
    `cache`: one mapping a target; equal CPUs are then compared once. CPUs that show the guest
    the whole host (host-passthrough, maximum with KVM) must find the same CPU on the target:
    libvirt calls anything else unsafe (docs/formatdomain.html, CPU model).

    Raises libvirtError when the target does not answer.
    """
    if spec.cpu_mode not in ("custom", "host-model", "host-passthrough", "maximum"):
        return []
    key = (spec.type, spec.arch, spec.machine, spec.cpu_xml, source.cpu_xml)
    if cache is not None and key in cache:
        return list(cache[key])
    findings = tuple(_compare_cpu(conn, spec, source, target))
    if cache is not None:
        cache[key] = findings
    return list(findings)


def _compare_cpu(conn: Any, spec: DomainSpec, source: HostFacts, target: HostFacts) -> list[Finding]:
    label = spec.cpu_model or spec.cpu_mode
    try:
        if spec.cpu_mode in ("host-passthrough", "maximum"):
            return _compare_whole_host(conn, spec, source, target)
        result = conn.compareHypervisorCPU(None, spec.arch or None, None, spec.type, spec.cpu_xml, _FAIL_INCOMPATIBLE)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() in (ERR_NO_SUPPORT, _ERR_UNSUPPORTED):
            return []  # not every driver compares; libvirt checks again when it migrates
        if not _answers(exc):
            raise
        text = " ".join(str(exc).split())
        return [Finding(Reason.CPUModelNotLiveMigratable, f"CPU {label} cannot run on {target.name}: {text}.")]
    if result == _INCOMPATIBLE:
        text = f"CPU {label} cannot run on {target.name}: a feature is missing there."
        return [Finding(Reason.CPUModelNotLiveMigratable, text)]
    return []


def _answers(exc: Any) -> bool:
    """Does this libvirtError say that the CPU cannot run there? Else it was not compared: the
    connection broke, a lock was not to be had ..."""
    code = exc.get_error_code()
    unknown = code == ERR_INTERNAL and "unknown cpu" in str(exc).lower()
    return code in _CPU_ANSWERS or unknown


def _compare_whole_host(conn: Any, spec: DomainSpec, source: HostFacts, target: HostFacts) -> list[Finding]:
    if spec.type != "kvm":
        # Emulated: what the guest sees depends on QEMU's version, not on the host's CPU.
        if source.hypervisor_version == target.hypervisor_version:
            return []
        text = f"CPU mode {spec.cpu_mode}: QEMU on {target.name} has a different version."
        return [Finding(Reason.CPUModelNotLiveMigratable, text)]
    if not source.cpu_xml:
        text = f"CPU mode {spec.cpu_mode}: the CPU of {source.name} is not known."
        return [Finding(Reason.CPUModelNotLiveMigratable, text)]
    if conn.compareCPU(source.cpu_xml, 0) == _IDENTICAL:
        return []
    text = f"CPU mode {spec.cpu_mode} shows the guest the CPU of {source.name}, but {target.name} has a different one."
    return [Finding(Reason.CPUModelNotLiveMigratable, text)]
