"""Files of the host that a VM needs beside its disks, and which of them a target lacks.

libvirt knows only of files in a directory that is a storage pool. Of all others nothing is known
before its QEMU opens them: then libvirt refuses the migration, and the VM stays. So a file that is
missing is a reason, and one that is not known is none. Devices and sockets are in no pool.
"""

from __future__ import annotations

from typing import Any

from ..._core.reasons.reason import Finding, Reason
from ..domain.spec import NVRAM_TEMPLATE, DomainSpec
from ..host.facts import HostFacts
from .shared_storage import covering_pool, path_on_target


def missing_files(conn: Any, spec: DomainSpec, target: HostFacts) -> tuple[Finding, ...]:
    """A finding for each file of the definition that the target does not have. It is only asked where one of its pools
    covers the path."""
    found = []
    for file in spec.files:
        if covering_pool(target, file.path) is None:
            continue
        if path_on_target(conn, target, file.path) is not False:
            continue
        if file.what == NVRAM_TEMPLATE and _has(conn, target, spec.nvram):
            continue  # it is copied only where there is no NVRAM yet
        text = f"Its {file.what} {file.path} is not on {target.name}."
        found.append(Finding(Reason.FileMissing, text))
    return tuple(found)


def _has(conn: Any, target: HostFacts, path: str) -> bool:
    return path.startswith("/") and path_on_target(conn, target, path) is True
