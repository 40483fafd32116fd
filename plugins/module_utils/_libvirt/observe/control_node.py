"""Is a guest of this host the machine that runs us: Ansible's own, or that from which ssh comes?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..host.connection import HostUnreachable, libvirt

PROC = "/proc"
# virDomainInterfaceAddressesSource: leases of libvirt's networks, the host's ARP table. The
# guest's agent is not asked: it may not answer.
_LEASE, _ARP = 0, 2


class ControlNode:
    """Who runs us. `controller_uuid`: of the machine that Ansible runs on, empty: not known.

    A guest's addresses are read once; a slice is shorter than what would change them.
    """

    def __init__(self, controller_uuid: str = "") -> None:
        self._uuid = controller_uuid.lower()
        self._client = ssh_client()
        self._known: dict[str, str] = {}

    def why(self, uuid: str, name: str, domain: Callable[[], Any]) -> str:
        """Why this guest is taken for the machine that runs us; empty: it is not."""
        if uuid not in self._known:
            self._known[uuid] = self._reason(uuid, name, domain)
        return self._known[uuid]

    def _reason(self, uuid: str, name: str, domain: Callable[[], Any]) -> str:
        if self._uuid and self._uuid == uuid.lower():
            return f"VM {name} is the machine that Ansible runs on (the same UUID)."
        if self._client and self._client in set(_addresses(domain)):
            return f"The ssh connection comes from {self._client}, an address of VM {name}."
        return ""


def _addresses(domain: Callable[[], Any]) -> Iterator[str]:
    for source in (_LEASE, _ARP):
        try:
            found = domain().interfaceAddresses(source, 0)
        except (HostUnreachable, libvirt.libvirtError):
            continue  # this driver does not know them; or the guest left
        for interface in found.values():
            for address in interface.get("addrs") or ():
                yield str(address["addr"])


def ssh_client(environ: Mapping[str, str] | None = None, proc: str = PROC, pid: int | None = None) -> str:
    """The address from which ssh comes. sudo takes it out of the environment, so the
    processes above are asked too; empty: it is not ssh."""
    own = os.environ if environ is None else environ
    if own.get("SSH_CONNECTION"):
        return own["SSH_CONNECTION"].split(" ", 1)[0]
    pid = os.getpid() if pid is None else pid
    while pid > 1:
        try:
            with open(f"{proc}/{pid}/environ", "rb") as stream:
                raw = stream.read()
            with open(f"{proc}/{pid}/stat", encoding="utf-8") as stream:
                pid = int(stream.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return ""
        for entry in raw.split(b"\0"):
            if entry.startswith(b"SSH_CONNECTION="):
                return entry.decode(errors="replace").split("=", 1)[1].split(" ", 1)[0]
    return ""
