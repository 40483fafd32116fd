"""Domains as libvirt describes them, piece by piece, and a host that takes every one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.facts import (
    HostFacts,
    PoolFacts,
    SecretFacts,
)

UUID = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
IMAGES = "/var/lib/libvirt/images"
MIB = 1024**2


def domain(devices: str = "", top: str = "", machine: str = "pc-q35-7.2", kind: str = "kvm") -> str:
    return f"""<domain type='{kind}'><name>web-1</name><uuid>{UUID}</uuid>
      <memory unit='MiB'>2048</memory><vcpu>2</vcpu>
      <os><type arch='x86_64' machine='{machine}'>hvm</type></os>
      {top}<devices>{devices}</devices></domain>"""


def disk(inner: str = "", kind: str = "file", device: str = "disk", source: str = "") -> str:
    source = source or f"<source file='{IMAGES}/web-1.qcow2'/>"
    return (
        f"<disk type='{kind}' device='{device}'><driver name='qemu' type='qcow2'/>{source}"
        f"<target dev='vda' bus='virtio'/>{inner}</disk>"
    )


def host(**changes: Any) -> HostFacts:
    """A host that takes everything."""
    facts = HostFacts(
        hostname="host-b",
        libvirt_version=9000000,
        hypervisor_version=7002000,
        arch="x86_64",
        machines={("kvm", "x86_64"): frozenset({"pc-q35-7.2", "q35"})},
        networks={"lan": "virbr0"},
        interfaces=frozenset({"br0", "eth0"}),
        node_nets=frozenset(),
        secrets=(SecretFacts(UUID, "ceph", "client.libvirt"),),
        huge_pages={2048: {0: 1024, 1: 0}, 1048576: {0: 0}},
        cpus=frozenset(range(8)),
        nodes=frozenset({0, 1}),
        pools={"default": PoolFacts("default", "dir", IMAGES, "", 100 * MIB)},
        domains={"db-1": OTHER},
    )
    return replace(facts, **changes)


def hostdev(kind: str, inner: str = "", teaming: str = "") -> str:
    address = "<address domain='0x0000' bus='0x3b' slot='0x02' function='0x1'/>"
    return (
        f"<hostdev mode='subsystem' type='{kind}' managed='yes'><source>{inner or address}</source>{teaming}</hostdev>"
    )


def interface(kind: str, source: str, more: str = "") -> str:
    return f"<interface type='{kind}'><mac address='52:54:00:00:00:01'/><source {source}/>{more}</interface>"


COPY = domain(disk())
ISO = f"<source file='{IMAGES}/install.iso'/>"
BLOCK = "<source dev='/dev/vg0/web-1'/>"
