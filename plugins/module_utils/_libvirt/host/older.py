"""The parts of a VM's machine type and CPU that a target with an older QEMU does not tell."""

from __future__ import annotations

import re
from typing import Any

from ..domain.spec import DomainSpec
from .connection import ERR_NO_SUPPORT, is_lost, libvirt
from .facts import HostFacts

_VERSIONED = re.compile(r"-(rhel)?\d+\.\d+")
_ERR_UNSUPPORTED = 84


def not_compared(conn: Any, spec: DomainSpec, target: HostFacts) -> str:
    """Return which of the VM's machine type and CPU this target does not tell, in words; empty: none.

    For a target whose QEMU is older. A machine type with a version is the same in all releases that have it, and so is
    its default CPU (QEMU, docs/devel/migration/compatibility). Raises libvirtError when the target does not answer.
    """
    if not target.machines:
        return "its machine types are not known"
    if not _VERSIONED.search(spec.machine):
        return f"the machine type {spec.machine or 'of the VM'} has no version"
    if spec.cpu_mode in ("host-passthrough", "maximum"):
        return f"what CPU mode {spec.cpu_mode} shows to the guest depends on QEMU's release"
    if not spec.cpu_mode:
        return ""
    try:
        conn.compareHypervisorCPU(None, spec.arch or None, None, spec.type, spec.cpu_xml, 0)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() in (ERR_NO_SUPPORT, _ERR_UNSUPPORTED):
            return f"its libvirt does not compare the CPU {spec.cpu_model or spec.cpu_mode}"
        if is_lost(exc):
            raise
    return ""  # compare_cpu tells what else it answers
