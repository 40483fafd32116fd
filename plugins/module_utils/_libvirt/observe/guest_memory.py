"""How much of its memory a guest has ever touched, which is what a migration sends.

libvirt reports the resident memory of the whole QEMU process. Beside the guest's memory this has
QEMU itself and, without KVM, the code that it generates: 90 MiB and more, seen with a guest of
384. The kernel reports it for each mapping; the guest's is as large as its memory. It walks the
page tables for that, so it is asked for plans only, and only of VMs on this host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ..._core.model.observation import Observation

PIDS = Path("/run/libvirt/qemu")
PROC = Path("/proc")

_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) ")
# Pages of 4 KiB, and huge ones, which the kernel does not count as resident.
_TOUCHED = ("Rss:", "Private_Hugetlb:", "Shared_Hugetlb:")


def with_touched(obs: Observation, node: str) -> Observation:
    """The observation with what the VMs of this host have touched, where that can be told."""
    vms = dict(obs.vms)
    for uuid, vm in vms.items():
        touched = touched_mib(vm.name, vm.memory_mib) if vm.node == node and vm.active else 0
        if touched:
            vms[uuid] = replace(vm, resident_mib=touched)
    return replace(obs, vms=vms)


def touched_mib(name: str, memory_mib: int, pids: Path = PIDS, proc: Path = PROC) -> int:
    """MiB. 0: not known, for example with memory in several parts, or not as root."""
    try:
        pid = int((pids / f"{name}.pid").read_text(encoding="ascii"))
        with (proc / str(pid) / "smaps").open(encoding="utf-8", errors="replace") as lines:
            found = [kib for size, kib in _mappings(lines) if size == memory_mib << 20]
    except (OSError, ValueError):
        return 0
    return -(-found[0] // 1024) if len(found) == 1 else 0


def _mappings(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """(size in bytes, KiB that were touched) of each mapping."""
    size, kib = 0, 0
    for line in lines:
        head = _MAPPING.match(line)
        if head:
            yield size, kib
            size, kib = int(head[2], 16) - int(head[1], 16), 0
        elif line.startswith(_TOUCHED):
            kib += int(line.split()[1])
    yield size, kib
