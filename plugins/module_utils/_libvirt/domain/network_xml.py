"""From libvirt's network XML: what a VM that is attached to it has of it, and what is another network there. Pure.

Compared: the forward mode, whether it stands on a bridge or on devices of the host, port group, VLAN,
virtualport, port isolation, and whether its frames are as large. Not compared: addresses, DHCP and DNS of the
network, bandwidth, and the names of bridges and devices, which each host may call as it likes: of names that
differ, and of networks that only their host has, `doubts` tells.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .untrusted import parse_xml

# Modes in which the guests are on a network outside of their host; all others are libvirt's own bridge.
_OUTSIDE = frozenset({"bridge", "private", "vepa", "passthrough", "hostdev"})
_MTU = 1500


@dataclass(frozen=True)
class PortSpec:
    """The settings of a port of the network: VLAN tags and virtualport, as text; empty: none."""

    vlan: str = ""
    virtualport: str = ""


@dataclass(frozen=True)
class NetworkSpec:
    """A network. mode: as in <forward>, empty: isolated. devices: of the host, for macvtap and passthrough.

    groups: its port groups; default_group: the one that a port without a name gets.
    """

    name: str = ""
    mode: str = ""
    bridge: str = ""
    devices: tuple[str, ...] = ()
    port: PortSpec = field(default_factory=PortSpec)
    groups: Mapping[str, PortSpec] = field(default_factory=dict)
    default_group: str = ""
    mtu: int = _MTU
    isolated_ports: bool = False

    @property
    def outside(self) -> bool:
        return self.mode in _OUTSIDE

    @property
    def kind(self) -> str:
        """The kind of the network, in words."""
        if self.mode == "bridge" and not self.devices:
            return "a bridge of the host (forward mode bridge)"
        if self.outside:
            return f"on devices of the host (forward mode {self.mode})"
        return f"the host's own (forward mode {self.mode})" if self.mode else "isolated"

    def port_of(self, group: str) -> PortSpec:
        own = self.groups.get(group or self.default_group, PortSpec())
        return PortSpec(own.vlan or self.port.vlan, own.virtualport or self.port.virtualport)


def parse_network(xml: str) -> NetworkSpec:
    """Parse libvirt's network XML (https://libvirt.org/formatnetwork.html)."""
    root = parse_xml(xml)
    forward, bridge, mtu = root.find("forward"), root.find("bridge"), root.find("mtu")
    devices = [] if forward is None else [e.get("dev", "") for e in (forward, *forward.findall("interface"))]
    size = "" if mtu is None else mtu.get("size", "")
    groups = root.findall("portgroup")
    return NetworkSpec(
        name=root.findtext("name") or "",
        mode="" if forward is None else forward.get("mode", "nat"),
        bridge="" if bridge is None else bridge.get("name", ""),
        devices=tuple(sorted({name for name in devices if name})),
        port=_port(root),
        groups={e.get("name", ""): _port(e) for e in groups},
        default_group=next((e.get("name", "") for e in groups if e.get("default") == "yes"), ""),
        mtu=int(size) if size.isdigit() else _MTU,
        isolated_ports=root.find("port[@isolated='yes']") is not None,
    )


def _port(element: ET.Element) -> PortSpec:
    tags = [_text(e) for e in element.findall("vlan/tag")]
    virtualport = element.find("virtualport")
    parameters = [] if virtualport is None else [_text(virtualport), *map(_text, virtualport.findall("parameters"))]
    return PortSpec(", ".join(tags), " ".join(text for text in parameters if text))


def _text(element: ET.Element) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(element.attrib.items()))


def differences(here: NetworkSpec, there: NetworkSpec, group: str) -> Iterator[str]:
    """How the network on the target differs, each as the end of "network x, which on host-b". `group`: the port group
    that the VM names."""
    if here.mode != there.mode or (here.outside and bool(here.devices) != bool(there.devices)):
        yield f"is {there.kind}, but here {here.kind}"
        return
    if group in here.groups and group not in there.groups:
        yield f"has no port group {group!r}"
        return
    mine, other = here.port_of(group), there.port_of(group)
    if mine.vlan != other.vlan:
        yield f"has {f'the VLAN {other.vlan}' if other.vlan else 'no VLAN'}, but here {mine.vlan or 'none'}"
    if mine.virtualport != other.virtualport:
        yield f"has the virtualport {other.virtualport or 'none'}, but here {mine.virtualport or 'none'}"
    if there.mtu < here.mtu:
        yield f"has an MTU of {there.mtu}, but here {here.mtu}"
    if here.isolated_ports != there.isolated_ports:
        yield "isolates its ports, but here it does not" if there.isolated_ports else "does not isolate its ports"


def doubts(here: NetworkSpec, there: NetworkSpec, target: str) -> Iterator[str]:
    """A sentence, without the full stop, for each doubt whether the network of this name on the target is the same one,
    which cannot be known from here."""
    if not here.outside:
        yield (
            f"Network {here.name!r} is internal to its host, here and on {target}: the VM's addresses"
            " and its peers there are not compared"
        )
        return
    mine, other = (here.bridge, *here.devices), (there.bridge, *there.devices)
    if mine != other and here.mode != "hostdev":
        names = " ".join(mine).strip(), " ".join(other).strip()
        yield (
            f"Network {here.name!r} is on {names[0]} here and on {names[1]} on {target}: it is not known"
            " whether that is the same LAN"
        )
