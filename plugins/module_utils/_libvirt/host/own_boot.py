"""The boot of the host that this runs on."""

from __future__ import annotations

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def own_boot_id() -> str:
    """Another one after each boot (random.rst of the kernel)."""
    with open(BOOT_ID, encoding="ascii") as stream:
        return stream.read().strip()
