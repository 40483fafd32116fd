# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Preflight: what a libvirt host tells of its kernel, its QEMU, and of who runs us. Only reads."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .._core.model import VM
from .connection import libvirt

USERFAULTFD = "/proc/sys/vm/unprivileged_userfaultfd"
PROC = "/proc"
# virDomainInterfaceAddressesSource: leases of libvirt's networks, the host's ARP table. The
# guest's agent is not asked: it may not answer.
_LEASE, _ARP = 0, 2


def own_userfaultfd(path: str = USERFAULTFD) -> int:
    """The kernel's setting; -1: this kernel has none, and permits everybody."""
    try:
        with open(path, encoding="ascii") as stream:
            return int(stream.read().strip() or -1)
    except (OSError, ValueError):
        return -1


def qemu_is_root(capabilities: str) -> bool | None:
    """Does QEMU run as root there? From the base label of the DAC driver; None: not told."""
    for model in ET.fromstring(capabilities).findall("host/secmodel"):
        if model.findtext("model") != "dac":
            continue
        label = (model.findtext("baselabel") or "").strip()
        if label:
            return label.split(":", 1)[0].lstrip("+") == "0"
    return None


def permits_userfaultfd(setting: int | None, root: bool | None) -> bool | None:
    """May QEMU there have what post-copy needs? None: not known."""
    if root or setting in (1, -1):
        return True
    if setting is None or root is None:
        return None
    return False


def runs_us(domain: Callable[[], Any], vm: VM, controller_uuid: str) -> str:
    """Why this guest is taken for the machine that runs us; empty: it is not."""
    if controller_uuid and controller_uuid.lower() == vm.uuid.lower():
        return f"VM {vm.name} is the machine that Ansible runs on (the same UUID)."
    client = ssh_client()
    if client and client in set(_addresses(domain)):
        return f"The ssh connection comes from {client}, an address of VM {vm.name}."
    return ""


def _addresses(domain: Callable[[], Any]) -> Iterator[str]:
    for source in (_LEASE, _ARP):
        try:
            found = domain().interfaceAddresses(source, 0)
        except libvirt.libvirtError:
            continue  # this driver does not know them; or the guest left
        for interface in found.values():
            for address in interface.get("addrs") or ():
                yield str(address["addr"])


def ssh_client(
    environ: Mapping[str, str] | None = None, proc: str = PROC, pid: int | None = None
) -> str:
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
