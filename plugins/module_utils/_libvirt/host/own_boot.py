# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The boot of the host that this runs on."""

from __future__ import annotations

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def own_boot_id() -> str:
    """Another one after each boot (random.rst of the kernel)."""
    with open(BOOT_ID, encoding="ascii") as stream:
        return stream.read().strip()
