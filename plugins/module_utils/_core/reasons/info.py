# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the catalogue says of one reason."""

from __future__ import annotations

from dataclasses import dataclass

from .codes import Plane


@dataclass(frozen=True)
class ReasonInfo:
    """What the catalogue says of a reason: plane, sentence, remedy."""

    plane: Plane
    sentence: str
    remedy: str


def control(sentence: str, remedy: str) -> ReasonInfo:
    return ReasonInfo(Plane.CONTROL, sentence, remedy)


def data(sentence: str, remedy: str) -> ReasonInfo:
    return ReasonInfo(Plane.DATA, sentence, remedy)
