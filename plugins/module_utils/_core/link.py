# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who gets the link: admission of migrations by what is measured. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TRICKLE_MIB = 1
OPEN_MIB = 1 << 20  # as good as unlimited


@dataclass(frozen=True)
class LinkJob:
    """One migration as last seen. Sizes in bytes, rates in bytes/s, `stamp` in seconds."""

    stamp: float = 0.0
    target: str = ""
    priority: int = 0
    size: int = 0
    started: bool = False
    processed: int = 0
    remaining: int = 0
    dirty_rate: int = 0
    iteration: int = 0
    cap_mib: int = 0
    adjustable: bool = True
    sticky: bool = False


class LinkScheduler:
    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def step(self, now: float, jobs: Mapping[str, LinkJob]) -> dict[str, int]:
        out = {}
        for uuid, job in jobs.items():
            want = job.cap_mib or OPEN_MIB
            if self._given.get(uuid) != want:
                self._given[uuid] = out[uuid] = want
        for uuid in set(self._given) - set(jobs):
            del self._given[uuid]
        return out

    def is_open(self, uuid: str) -> bool:
        return uuid in self._given
