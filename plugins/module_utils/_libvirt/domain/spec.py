"""A domain's definition as far as moving it is concerned. Plain data.

The words are those of libvirt's domain XML (https://libvirt.org/formatdomain.html).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SecretRef:
    """A libvirt secret that something of the domain needs: by UUID, or by usage type and name."""

    owner: str
    uuid: str = ""
    usage_type: str = ""
    usage: str = ""

    @property
    def text(self) -> str:
        return self.uuid or f"{self.usage_type} {self.usage}".strip()


@dataclass(frozen=True)
class SourceSpec:
    """One thing that data is read from. A disk stands on one or several of them.

    type: as a disk's; "unknown": its name is not understood. source: for messages.
    path: on the host, for file and block. hosts, sockets: where a network source is served.
    """

    type: str = "file"
    source: str = ""
    path: str = ""
    format: str = "raw"
    protocol: str = ""
    hosts: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    pool: str = ""
    volume: str = ""


@dataclass(frozen=True)
class DiskSpec:
    """One disk. `dev` names it in libvirt's API (the target's dev attribute).

    type: file, block, network, volume, dir, vhostuser, vhostvdpa, nvme.
    source: the path, pool/volume, or protocol://host/name; for messages.
    path: the path on the host, for file and block (else empty).
    backing: what its image stands on, in order: backing files, data files.
    chain_ends: the definition says that this is all; else the image itself may name more.
    sent: those that the definition names itself, so that every host needs them.
    sliced: it is a part of its file only. snapshots: how many are in its image.
    hosts, sockets: where a network source is served.
    """

    dev: str
    type: str = "file"
    source: str = ""
    path: str = ""
    backing: tuple[SourceSpec, ...] = ()
    chain_ends: bool = False
    sent: tuple[SourceSpec, ...] = ()
    sliced: bool = False
    snapshots: int = 0
    format: str = "raw"
    device: str = "disk"
    bus: str = ""
    read_only: bool = False
    shareable: bool = False
    transient: bool = False
    cache: str = ""
    protocol: str = ""
    hosts: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()
    pool: str = ""
    volume: str = ""
    reservations: bool = False
    encrypted: bool = False
    startup_policy: str = ""

    @property
    def empty(self) -> bool:
        """A drive without a medium."""
        return not self.source

    @property
    def removable(self) -> bool:
        return self.device in ("cdrom", "floppy")

    @property
    def fixed(self) -> bool:
        """Nothing of it is copied: a medium or a read-only disk is on the target already."""
        return self.empty or self.read_only or self.removable

    @property
    def layers(self) -> tuple[SourceSpec, ...]:
        """All that its data is read from, its own image first."""
        own = SourceSpec(
            self.type,
            self.source,
            self.path,
            self.format,
            self.protocol,
            self.hosts,
            self.sockets,
            self.pool,
            self.volume,
        )
        return (own, *self.backing)


NVRAM_TEMPLATE = "NVRAM template"  # needed where there is no NVRAM yet


@dataclass(frozen=True)
class HostFile:
    """A file of the host that is no disk. what: kernel, loader ..., for messages."""

    what: str
    path: str


@dataclass(frozen=True)
class InterfaceSpec:
    """One network interface. `type` as in the XML; `network` is set for live domains too."""

    type: str
    mac: str = ""
    network: str = ""
    portgroup: str = ""
    filter: str = ""
    bridge: str = ""
    device: str = ""  # host device: macvtap (type direct), vdpa, a tap that libvirt does not make
    teaming: str = ""

    @property
    def label(self) -> str:
        return f"interface {self.mac}" if self.mac else f"interface of type {self.type}"


@dataclass(frozen=True)
class HostDeviceSpec:
    """A device of the host in the VM. kind: pci, usb, scsi, scsi_host, mdev, interface, input ...

    teaming: "transient" means that QEMU unplugs it for the migration. network: the libvirt
    network that gave it; empty: it is named itself.
    """

    kind: str
    source: str = ""
    teaming: str = ""
    network: str = ""

    @property
    def unplugged(self) -> bool:
        """Does QEMU unplug this device for a migration? With teaming the guest has a second path meanwhile."""
        return self.teaming == "transient" and self.kind in ("pci", "interface")


@dataclass(frozen=True)
class GraphicsSpec:
    """VNC, SPICE ... Where it listens: addresses as written, libvirt networks. ports: those
    asked for by number."""

    type: str
    addresses: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


@dataclass(frozen=True)
class FilesystemSpec:
    """A host directory in the VM. driver: virtiofs, or path/handle (9p)."""

    driver: str
    source: str = ""
    target: str = ""


@dataclass(frozen=True)
class TpmSpec:
    """backend: emulator, passthrough, external. source: its path (emulator: state, if given)."""

    model: str
    backend: str
    source: str = ""


@dataclass(frozen=True)
class MemoryModule:
    """A memory device. size_mib of the guest; address: it has a slot and a base."""

    model: str
    size_mib: int = 0
    address: bool = True
    source: str = ""


@dataclass(frozen=True)
class HugePages:
    """Huge pages asked for. size_kib 0: the host's default size. nodeset: guest NUMA cells."""

    size_kib: int = 0
    nodeset: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Pinning:
    """Something bound to numbered CPUs or NUMA nodes. where: vcpupin 0, numatune ..."""

    where: str
    cpus: frozenset[int] = frozenset()
    nodes: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Declared:
    """The content of our element in the metadata. Empty strings: not said.

    owner: whose VM it is, in words.
    other: further children, local name -> text.
    """

    eviction_strategy: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    anti_affinity_group: str = ""
    other: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DomainSpec:
    """One domain. Memory in MiB, rounded up; max_memory_mib is the most that it may ever use."""

    uuid: str
    name: str
    type: str = "kvm"
    memory_mib: int = 0
    max_memory_mib: int = 0
    vcpus: int = 1
    machine: str = ""
    arch: str = ""
    emulator: str = ""
    loader: str = ""
    nvram: str = ""
    files: tuple[HostFile, ...] = ()
    cpu_mode: str = ""
    cpu_model: str = ""
    cpu_xml: str = ""
    cpu_migratable: bool = True
    invariant_tsc: bool = False
    tsc_frequency: int = 0
    hyperv_passthrough: bool = False
    launch_security: str = ""
    on_poweroff: str = ""  # empty: libvirt's default, destroy
    boot: tuple[str, ...] = ()  # what it boots from, in order
    disks: tuple[DiskSpec, ...] = ()
    interfaces: tuple[InterfaceSpec, ...] = ()
    host_devices: tuple[HostDeviceSpec, ...] = ()
    filesystems: tuple[FilesystemSpec, ...] = ()
    tpms: tuple[TpmSpec, ...] = ()
    memory_modules: tuple[MemoryModule, ...] = ()
    numa_cells_mib: Mapping[int, int] = field(default_factory=dict)
    shared_memory: tuple[tuple[str, str], ...] = ()  # (name, role) of shmem devices
    huge_pages: tuple[HugePages, ...] = ()
    pinnings: tuple[Pinning, ...] = ()
    secrets: tuple[SecretRef, ...] = ()
    graphics: tuple[GraphicsSpec, ...] = ()
    qemu_extras: tuple[str, ...] = ()  # given to QEMU past libvirt, each in a word
    agent_connected: bool | None = None  # None: not known, it does not run
    declared: Declared = field(default_factory=Declared)

    def disk(self, dev: str) -> DiskSpec:
        """Raises KeyError when there is no such disk."""
        for disk in self.disks:
            if disk.dev == dev:
                return disk
        raise KeyError(dev)
