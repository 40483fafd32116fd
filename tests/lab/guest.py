"""What a guest is made of, and its domain XML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from . import names
from .hostfiles import GUEST_IMAGE, SERIAL
from .storage import PORT

NAMESPACE = "https://virtops.example/xmlns/maintenance/1"
POOL = "/var/lib/libvirt/images"
AGENT = "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"
# The tick of a guest of whom it matters that it is there, not how long it stood still. It takes
# less than half as much of a core as one that ticks every 40 ms: twenty of those leave no core.
SELDOM = 1000


@dataclass
class GuestSpec:
    """A guest. Everything but the name has a default.

    disks       ("shared" | "local" | "given", MiB) each: NBD outside the hosts, a qcow2
                file in the host's pool "default", or one that devices_xml describes
    networks    names of libvirt networks; every host has "lan"
    strategy, labels, group   go into the metadata, in the collection's namespace
    cpu_xml, devices_xml, extra_xml, os_xml   raw XML: instead of <cpu>, inside <devices>,
                at the end of <domain>, and inside <os>
    metadata_xml   raw XML inside <metadata>
    tick_ms     between two ticks; SELDOM where nobody looks at them
    disk_ms     between two writes to a disk; after 64 of them all that it had is written anew
    agent       a guest agent, that answers nothing and dies when it is asked anything
    flip_tick   the tick at which it damages its own memory; 0: never
    """

    name: str
    memory_mib: int = 96
    fill_mib: int = 16
    dirty_mib_s: float = 0
    dirty_region_mib: int | None = None
    disks: Sequence[tuple[str, int]] = ()
    networks: Sequence[str] = ()
    strategy: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    group: str | None = None
    persistent: bool = True
    autostart: bool = False
    noacpi: bool = False
    cpu: str = "qemu64"
    machine: str = "pc"
    tick_ms: int = 40
    disk_ms: int = 500
    flip_tick: int = 0
    agent: bool = False
    max_memory_mib: int | None = None
    uuid: str | None = None
    cpu_xml: str | None = None
    devices_xml: str = ""
    metadata_xml: str = ""
    extra_xml: str = ""
    os_xml: str = ""

    @property
    def region_mib(self) -> int:
        """The rewritten region: given, or one second of rewriting, and never under 16."""
        if self.dirty_region_mib is not None:
            return self.dirty_region_mib
        return max(16, round(self.dirty_mib_s)) if self.dirty_mib_s else 0

    def disk_name(self, place: int) -> str:
        return f"{self.name}-vd{chr(ord('a') + place)}"

    def local_path(self, place: int) -> str:
        return f"{POOL}/{self.disk_name(place)}.qcow2"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def cmdline(self) -> str:
        words = [
            # The kernel speaks on the second line, so that it never cuts a tick in two.
            "console=ttyS1",
            "quiet",
            "panic=0",
            "no_timer_check",
            "tsc=reliable",
            # Less work at the start, which is slow without KVM.
            "mitigations=off",
            "init_on_alloc=0",
            "cryptomgr.notests=1",
            "apparmor=0",
            "nowatchdog",
            "rcupdate.rcu_cpu_stall_suppress=1",
            "8250.nr_uarts=2",
            f"lab.tick={self.tick_ms}",
            f"lab.fill={self.fill_mib}",
            f"lab.dirty={round(self.dirty_mib_s)}",
            f"lab.region={self.region_mib}",
            f"lab.disks={len(self.disks)}",
            f"lab.disk={self.disk_ms}",
        ]
        words += ["lab.noacpi"] if self.noacpi else []
        words += [f"lab.flip={self.flip_tick}"] if self.flip_tick else []
        words += ["lab.agent"] if self.agent else []
        return " ".join(words)


def domain_xml(spec: GuestSpec, number: int) -> str:
    """The domain XML for any host of lab `number`."""
    cpu = spec.cpu_xml or (
        f"<cpu mode='custom' match='exact'><model fallback='forbid'>{escape(spec.cpu)}</model></cpu>"
    )
    most = spec.max_memory_mib or spec.memory_mib
    devices = [_disk(spec, place, number) for place in range(len(spec.disks))]
    devices += [
        f"<interface type='network'><source network={quoteattr(name)}/><model type='virtio'/></interface>"
        for name in spec.networks
    ]
    devices += [_serial(spec.name, 0, ""), _serial(spec.name, 1, ".console")]
    devices += [AGENT] if spec.agent else []
    uuid = f"<uuid>{spec.uuid}</uuid>" if spec.uuid else ""
    return f"""<domain type='qemu'>
  <name>{escape(spec.name)}</name>{uuid}
  <metadata>{_metadata(spec)}{spec.metadata_xml}</metadata>
  <memory unit='MiB'>{most}</memory>
  <currentMemory unit='MiB'>{spec.memory_mib}</currentMemory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='{spec.machine}'>hvm</type>{spec.os_xml}
    <kernel>{GUEST_IMAGE}/vmlinuz</kernel>
    <initrd>{GUEST_IMAGE}/initrd</initrd>
    <cmdline>{escape(spec.cmdline())}</cmdline>
  </os>
  <features><acpi/></features>
  {cpu}
  <clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    {"".join(devices)}{spec.devices_xml}
    <memballoon model='{"virtio" if spec.max_memory_mib else "none"}'/>
  </devices>
  {spec.extra_xml}
</domain>
"""


def _serial(name: str, port: int, end: str) -> str:
    # append: a target's QEMU truncates the log of another otherwise.
    path = quoteattr(f"{SERIAL}/{name}{end}.log")
    return f"<serial type='pty'><log file={path} append='on'/><target port='{port}'/></serial>"


def _disk(spec: GuestSpec, place: int, number: int) -> str:
    kind, _size = spec.disks[place]
    target = f"<target dev='vd{chr(ord('a') + place)}' bus='virtio'/>"
    if kind == "shared":
        return (
            "<disk type='network' device='disk'>"
            "<driver name='qemu' type='raw' cache='none'/>"
            f"<source protocol='nbd' name={quoteattr(spec.disk_name(place))}>"
            f"<host name='{names.gateway(number)}' port='{PORT}'/><reconnect delay='30'/>"
            f"</source>{target}</disk>"
        )
    if kind == "local":
        return (
            "<disk type='file' device='disk'>"
            "<driver name='qemu' type='qcow2' cache='none'/>"
            f"<source file={quoteattr(spec.local_path(place))}/>{target}</disk>"
        )
    if kind == "given":
        return ""
    raise names.LabError(f"{spec.name}: a disk is shared, local or given, not {kind!r}")


def _metadata(spec: GuestSpec) -> str:
    inner = ""
    if spec.strategy is not None:
        inner += f"<virtops:evictionStrategy>{escape(spec.strategy)}</virtops:evictionStrategy>"
    for key, value in spec.labels.items():
        inner += f"<virtops:label name={quoteattr(key)}>{escape(value)}</virtops:label>"
    if spec.group is not None:
        inner += f"<virtops:antiAffinityGroup>{escape(spec.group)}</virtops:antiAffinityGroup>"
    if not inner:
        return ""
    return f'<virtops:vm xmlns:virtops="{NAMESPACE}">{inner}</virtops:vm>'
