"""Compare what a running domain starts with next, its persistent definition, with what runs. Pure.

Only what may tie it to a host is compared: libvirt fills much into the XML of what runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from .spec import DiskSpec, DomainSpec, FilesystemSpec, HostDeviceSpec, HostFile, InterfaceSpec, MemoryModule, TpmSpec

Part = TypeVar("Part")
_OVERLAY = re.compile(r"\.TRANSIENT(-.*)?$")


def new_parts(live: DomainSpec, pending: DomainSpec) -> DomainSpec:
    """The pending definition with those of its parts that the running domain does not have."""
    return replace(
        pending,
        disks=_new(live.disks, pending.disks, _disk),
        interfaces=_new(live.interfaces, pending.interfaces, _interface),
        host_devices=_new(live.host_devices, pending.host_devices, _host_device),
        filesystems=_new(live.filesystems, pending.filesystems, _itself),
        tpms=_new(live.tpms, pending.tpms, _tpm),
        memory_modules=_new(live.memory_modules, pending.memory_modules, _module),
        files=_new(live.files, pending.files, _itself),
        # Without one libvirt names it itself, when it starts.
        nvram="" if live.nvram in ("", pending.nvram) else pending.nvram,
    )


def changes(live: DomainSpec, pending: DomainSpec) -> tuple[str, ...]:
    """The differences that may tie the VM to a host, each in words. `live`: what runs; `pending`: its next start."""
    kept = {disk.dev for disk in pending.disks}
    gone = [disk for disk in live.disks if disk.dev not in kept]
    words = [*_words(new_parts(live, pending))]
    words += [f"no disk {disk.dev} ({disk.source})" for disk in gone]
    if live.boot != pending.boot:
        words.append(f"boot order {', '.join(pending.boot) or 'none'}")
    return tuple(words)


def _words(new: DomainSpec) -> Iterator[str]:
    for disk in new.disks:
        yield f"disk {disk.dev} ({disk.source or 'empty'})"
    for interface in new.interfaces:
        place = interface.network or interface.bridge or interface.device or interface.type
        yield f"{interface.label} on {place}"
    for device in new.host_devices:
        yield f"{device.kind} device {device.source}".strip()
    for filesystem in new.filesystems:
        yield f"host directory {filesystem.source}"
    for tpm in new.tpms:
        yield f"TPM {tpm.backend} {tpm.source}".strip()
    for module in new.memory_modules:
        if module.source:
            yield f"memory module in {module.source}"
    for file in new.files:
        yield f"{file.what} {file.path}"
    if new.nvram:
        yield f"NVRAM {new.nvram}"


def _new(live: Iterable[Part], pending: Iterable[Part], key: Callable[[Part], Hashable]) -> tuple[Part, ...]:
    known = {key(part) for part in live}
    return tuple(part for part in pending if key(part) not in known)


def _itself(part: FilesystemSpec | HostFile) -> Hashable:
    return part


def _disk(disk: DiskSpec) -> Hashable:
    if disk.transient:  # what runs has an overlay, which libvirt names after the image
        return disk.dev, disk.type, _OVERLAY.sub("", disk.source)
    return disk.dev, disk.type, disk.source, disk.format if disk.source else ""


def _interface(interface: InterfaceSpec) -> Hashable:
    """The key by which interfaces are compared. One in a network is known by that: what the network gave it (a bridge
    or device) is only in the running domain's XML."""
    if interface.network:
        return interface.mac, interface.network
    return interface.mac, interface.type, interface.bridge, interface.device


def _host_device(device: HostDeviceSpec) -> Hashable:
    return device.kind, device.network or device.source


def _tpm(tpm: TpmSpec) -> Hashable:
    return tpm.backend, tpm.source


def _module(module: MemoryModule) -> Hashable:
    return module.model, module.source
