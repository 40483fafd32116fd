"""Stands before libvirt_qemu, as libvirt.py beside it before libvirt."""

from __future__ import annotations

import functools

import libvirt

_real = None if libvirt._PLAYS else libvirt.real("libvirt_qemu")


def qemuMonitorCommand(domain: libvirt.Recorded, command: str, flags: int) -> str:  # noqa: N802 - libvirt's name
    call = _real and functools.partial(_real.qemuMonitorCommand, domain._behind)
    return str(libvirt.ask(f"{domain._key} monitor", domain._where, call, (command, flags)))
