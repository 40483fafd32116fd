# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which machine the controller is."""

from __future__ import annotations

PRODUCT_UUID = "/sys/class/dmi/id/product_uuid"


def own_uuid(path: str = PRODUCT_UUID) -> str:
    """Of the controller, as its firmware reports it; mostly only root may read it."""
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""
