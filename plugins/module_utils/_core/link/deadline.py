# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Deadlines of one migration: completion and progress. Pure; the clock is passed in.

Only time in which the migration had the link counts: while it waits at a trickle for its
turn it is neither late nor stuck. An abort is never the answer once post-copy runs, since
the VM's memory is then on both sides.

Progress is not "less remains than ever": at the end of each pass over the memory next to
nothing remains, and then what was dirtied meanwhile. A pass is progress if it began with
less than all before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..model.observation import Mode
from ..model.policy import MigrationSettings
from ..reasons.reason import Reason

GIB = 1 << 30


class DeadlineAction(str, Enum):
    """What to do about a migration that is late."""

    NONE = "none"
    ABORT = "abort"
    POST_COPY = "post_copy"
    PAUSE = "pause"


@dataclass(frozen=True)
class DeadlineVerdict:
    action: DeadlineAction = DeadlineAction.NONE
    reason: Reason | None = None
    message: str = ""


NOTHING = DeadlineVerdict()
_ON_TIMEOUT = {"abort": DeadlineAction.ABORT, "post_copy": DeadlineAction.POST_COPY, "pause": DeadlineAction.PAUSE}


class MemoryPasses:
    """Tells progress from going round in circles."""

    def __init__(self) -> None:
        self._iteration = -1
        self._least_start = 0
        self._least = 0
        self._shrinks = True

    def made_progress(self, iteration: int, remaining: int) -> bool:
        """Progress since the last look? Remaining bytes; iteration 0: disks are copied."""
        if iteration != self._iteration:
            self._shrinks = iteration <= 1 or remaining < 0.95 * self._least_start
            if iteration <= 1 or self._shrinks:
                self._least_start = remaining
            self._iteration, self._least = iteration, remaining
            return self._shrinks
        if remaining < self._least:
            self._least = remaining
            return self._shrinks
        return False


class Deadlines:
    """Watches one migration. `size`: bytes of memory and copied disks."""

    def __init__(self, settings: MigrationSettings, size: int) -> None:
        self._settings = settings
        gib = max(1, -(-size // GIB))  # KubeVirt rounds up, and so does a small VM get a minute
        self.completion = float(settings.completion_timeout_per_gib * gib)
        self.progress = float(settings.progress_timeout)
        self._last: float | None = None
        self._had = 0.0  # seconds with the link
        self._since_progress = 0.0
        self._passes = MemoryPasses()
        self._paused = False

    def step(self, now: float, has_link: bool, iteration: int, remaining: int, mode: Mode) -> DeadlineVerdict:
        """To be asked every now and then, with the latest numbers (bytes).

        Once it is late the measure is named each time until the mode changes or the caller stops
        to ask: abort and post-copy as often as they are due. A pause is named once; a paused
        migration that still gets nowhere is aborted after another `progress_timeout`, and the VM
        runs on at the source.
        """
        passed = 0.0 if self._last is None else max(0.0, now - self._last)
        self._last = now
        if mode is Mode.POST_COPY or not has_link:
            return NOTHING
        self._had += passed
        self._since_progress += passed
        if self._passes.made_progress(iteration, remaining):
            self._since_progress = 0.0
        stuck = self._since_progress >= self.progress
        if not stuck and (self._paused or self._had < self.completion):
            return NOTHING
        return self._act(stuck)

    def _act(self, stuck: bool) -> DeadlineVerdict:
        if stuck:
            reason = Reason.ProgressTimeout
            text = f"no progress for {self.progress:.0f} s"
        else:
            reason = Reason.CompletionTimeout
            text = f"not complete after {self.completion:.0f} s with the link"
        action = _ON_TIMEOUT[self._settings.on_timeout]
        if action is DeadlineAction.PAUSE:
            if self._paused:
                return DeadlineVerdict(DeadlineAction.ABORT, reason, text + ", with the VM paused")
            self._paused = True
            self._since_progress = 0.0
        return DeadlineVerdict(action, reason, text)
