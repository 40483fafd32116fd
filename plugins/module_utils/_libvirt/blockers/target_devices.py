"""Check a target for the devices that a VM brings: its emulator, where its graphics listen, the
PCI device that is to be plugged in again.

Asked of the target's libvirt, and only for what this VM has. Another program that holds a port
there, and an address that no libvirt network has, are not known to libvirt.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..._core.reasons.reason import Finding, Reason
from ..domain.spec import DomainSpec, GraphicsSpec
from ..domain.untrusted import parse_xml
from ..host.connection import ERR_CONFIG_UNSUPPORTED, ERR_INTERNAL, ERR_SYSTEM, is_lost, libvirt
from ..host.facts import HostFacts

_ACTIVE = 2  # virConnectListAllNetworksFlags
_ERR_INVALID_ARG, _ERR_NO_NODE_DEVICE = 8, 53
# Errors that say of an emulator that it cannot be run; a lock, say, is no answer.
_NO_EMULATOR = frozenset({_ERR_INVALID_ARG, ERR_SYSTEM, ERR_INTERNAL, ERR_CONFIG_UNSUPPORTED})


def missing_devices(conn: Any, spec: DomainSpec, target: HostFacts, taken: Mapping[int, str]) -> tuple[Finding, ...]:
    """Why the target (`conn`) cannot give the VM what it has here. `taken`: ports on which the
    graphics of other domains listen there, and whose they are.

    Raises libvirtError when the target does not answer.
    """
    found: list[Finding] = []
    found += _emulator(conn, spec, target)
    for graphics in spec.graphics:
        found += _graphics(conn, graphics, target, taken)
    found += _plugged_again(conn, spec, target)
    return tuple(found)


def _emulator(conn: Any, spec: DomainSpec, target: HostFacts) -> Iterator[Finding]:
    if not spec.emulator or target.emulators is None or spec.emulator in target.emulators:
        return
    # Not one of those that libvirt lists, so it may be one of the administrator's own.
    error = _error(lambda: conn.getDomainCapabilities(spec.emulator, spec.arch or None, None, spec.type))
    if error is not None and error.get_error_code() in _NO_EMULATOR:
        why = " ".join(str(error).split())
        text = f"Its emulator {spec.emulator} cannot be run on {target.name}: {why}."
        yield Finding(Reason.EmulatorMissing, text)


def _graphics(conn: Any, graphics: GraphicsSpec, target: HostFacts, taken: Mapping[int, str]) -> Iterator[Finding]:
    name = graphics.type.upper()
    for port in graphics.ports:
        if port in taken:
            text = f"Its {name} requires port {port}, which {taken[port]} has on {target.name}."
            yield Finding(Reason.GraphicsNotLiveMigratable, text)
    for network in graphics.networks:
        if target.networks is not None and network not in target.networks:
            why = target.why_none("network")
            text = f"Its {name} listens on network {network!r}, not active on {target.name}{why}."
            yield Finding(Reason.GraphicsNotLiveMigratable, text)
    own = [address for address in graphics.addresses if _of_one_host(address)]
    if own:
        there = _network_addresses(conn)
        for address in own:
            if address not in there:
                text = f"Its {name} listens on {address}, an address of its host."
                yield Finding(Reason.GraphicsNotLiveMigratable, f"{text} {target.name} is not known to have it.")


def _of_one_host(text: str) -> bool:
    """An address that one host has, and not every one. A name may mean another one there."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_unspecified or address.is_loopback)


def _network_addresses(conn: Any) -> frozenset[str]:
    """The host's addresses in its active libvirt networks."""
    texts: list[str] = []

    def read() -> None:
        texts.extend(network.XMLDesc(0) for network in conn.listAllNetworks(_ACTIVE))

    _error(read)  # what could not be read is not known to be there
    found = (ip.get("address", "") for text in texts for ip in parse_xml(text).findall("ip"))
    return frozenset(found)


def _plugged_again(conn: Any, spec: DomainSpec, target: HostFacts) -> Iterator[Finding]:
    """A device of a teaming pair is unplugged here, and the same one is plugged in there."""
    for device in spec.host_devices:
        if not device.unplugged or device.network or not device.source:
            continue  # of a network: the target's network gives one of its own
        node = "pci_" + device.source.replace(":", "_").replace(".", "_")
        error = _error(lambda node=node: conn.nodeDeviceLookupByName(node))
        if error is not None and error.get_error_code() == _ERR_NO_NODE_DEVICE:
            text = f"The PCI device {device.source} of its teaming pair is not on {target.name}."
            yield Finding(Reason.HostDeviceNotLiveMigratable, text)


def _error(call: Callable[[], Any]) -> Any:
    """The libvirtError with which the call ended; None: it did not."""
    try:
        call()
    except libvirt.libvirtError as exc:
        if is_lost(exc):
            raise
        return exc
    return None
