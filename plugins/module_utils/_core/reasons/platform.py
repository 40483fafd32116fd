"""The platforms, and in what they differ for the core. A new one is a member here, with its traits and its words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Traits:
    """`host`: its word for a host. `schedules`: it chooses the target of a migration itself, by rules of its own.
    `asks_hosts`: versions, certificates, kernel and clock are read from each host; otherwise the cluster answers.
    `record_on_hosts`: the record of a roll lies on some of its hosts, and not with an API server. `by_name`: results
    and records name a VM by namespace and name; otherwise by its UUID. `tells_late`: whether a VM can be migrated is
    known a moment after it starts.
    """

    host: str
    schedules: bool
    asks_hosts: bool
    record_on_hosts: bool
    by_name: bool
    tells_late: bool


class Platform(str, Enum):
    LIBVIRT = "libvirt"
    KUBEVIRT = "kubevirt"

    @property
    def traits(self) -> Traits:
        return _TRAITS[self]


_TRAITS = {
    Platform.LIBVIRT: Traits(
        host="host", schedules=False, asks_hosts=True, record_on_hosts=True, by_name=False, tells_late=False
    ),
    Platform.KUBEVIRT: Traits(
        host="node", schedules=True, asks_hosts=False, record_on_hosts=False, by_name=True, tells_late=True
    ),
}
LIBVIRT, KUBEVIRT = (Platform.LIBVIRT,), (Platform.KUBEVIRT,)
BOTH = (Platform.LIBVIRT, Platform.KUBEVIRT)
