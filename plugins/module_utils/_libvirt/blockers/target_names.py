"""Check what a domain names and the target looks up by that name: is it there, and the same one?

| named | compared | not compared |
|---|---|---|
| network | forward mode, bridge or device, port group, VLAN, virtualport, MTU, isolation | addresses, DHCP |
| nwfilter | that it is there | its rules |
| secret | that it is there and, unless it is private, has a value | the value |
| storage pool | type, source and directory (disk_moves) | what else is in it |
| volume, file | that it is there; a medium's content (shared_storage) | of other files their content |
| node device | the PCI device of a teaming pair (target_devices) | all others keep the VM |
| emulator, machine type, CPU | the target's capabilities (target_devices, running, host/facts) | QEMU's build |
| hooks (/etc/libvirt/hooks) | nothing: libvirt does not tell of them | whether they are the same |
"""

from __future__ import annotations

from collections.abc import Iterator

from ..._core.reasons.reason import Finding, Reason
from ..domain.network_xml import differences, doubts
from ..domain.spec import DomainSpec, InterfaceSpec
from ..host.facts import HostFacts
from ..host.names import Names


def missing_names(spec: DomainSpec, here: Names, there: Names, target: HostFacts) -> tuple[Finding, ...]:
    """Why what it names is not to be had on the target, or is another thing there."""
    found: list[Finding] = []
    for interface in spec.interfaces:
        found += _network(interface, here, there, target)
        if interface.filter and there.has_filter(interface.filter) is False:
            text = f"The {interface.label} needs the network filter {interface.filter!r}, not on {target.name}."
            found.append(Finding(Reason.InterfaceNotLiveMigratable, text))
    for secret in spec.secrets:
        named = (secret.uuid, secret.usage_type, secret.usage)
        if target.has_secret(*named) is False:
            continue  # running.target_findings tells
        if there.has_value(*named) is False and here.has_value(*named) is not False:
            text = f"The {secret.owner} needs the secret {secret.text}, which has no value on {target.name}."
            found.append(Finding(Reason.SecretMissing, text))
    return tuple(found)


def _network(interface: InterfaceSpec, here: Names, there: Names, target: HostFacts) -> Iterator[Finding]:
    if interface.network not in (target.networks or ()):
        return  # HostFacts tells
    mine, other = here.network(interface.network), there.network(interface.network)
    if mine is None or other is None:
        return
    for difference in differences(mine, other, interface.portgroup):
        text = f"The {interface.label} needs network {interface.network!r}, which on {target.name} {difference}."
        yield Finding(Reason.InterfaceNotLiveMigratable, text)


def doubtful_names(spec: DomainSpec, here: Names, there: Names, target: HostFacts) -> Iterator[str]:
    """A sentence, without the full stop, for each network that may be another one on the target."""
    for name in dict.fromkeys(interface.network for interface in spec.interfaces):
        if name not in (target.networks or ()):
            continue
        mine, other = here.network(name), there.network(name)
        if mine is not None and other is not None:
            yield from doubts(mine, other, target.name)
