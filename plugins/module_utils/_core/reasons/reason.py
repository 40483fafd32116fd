# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reasons: why a VM cannot move, why a migration failed, why a node is not drained.

Every reason has a code (KubeVirt's word where KubeVirt has one), a plane, a sentence and a
remedy. The codes are in codes, what is said of each in catalogue; here is what a
result carries. All of it is imported from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .catalogue import CATALOGUE
from .codes import LASTING, OF_THE_VM, PATIENT, Plane, Reason
from .info import ReasonInfo


@dataclass(frozen=True)
class Finding:
    """One reason about one subject, with the particulars.

    `message` names the thing (disk, network, peer ...); empty means the catalogue's sentence.
    """

    reason: Reason
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Result form: reason, plane, message, remedy (all str)."""
        info = CATALOGUE[self.reason]
        return {
            "reason": self.reason.value,
            "plane": info.plane.value,
            "message": self.message or info.sentence,
            "remedy": info.remedy,
        }


__all__ = [
    "CATALOGUE",
    "LASTING",
    "OF_THE_VM",
    "PATIENT",
    "Finding",
    "Plane",
    "Reason",
    "ReasonInfo",
]
