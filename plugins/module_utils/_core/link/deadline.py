"""Deadlines of one migration: convergence, completion and progress. Pure; the clock is passed in.

Only time in which the migration had the link counts: while it waits at a trickle for its
turn it is neither late nor stuck. An abort is never the answer once post-copy runs, since
the VM's memory is then on both sides.

Progress is not "less remains than ever": at the end of each pass over the memory next to
nothing remains, and then what was dirtied meanwhile. A pass is progress if it began with
less than all before it.

One that does not converge is said as soon as it is known, and what helps comes in order, one step at a time. The
others wait for the link (see the scheduler): only seconds with it count. Then the longer pause that the policy allows,
once the numbers say that it suffices, or when half of the time is over. Auto-converge is on from the beginning, since
QEMU takes it at no other time, and slows down only who needs it: while it still can, nothing else is done. Post-copy
and a pause of the guest, where they are allowed, come when it was so for half of `progress_timeout`: many a guest
writes for a minute and no more. An abort helps nobody, and has its time; what is said then is the cause, with its
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from ..model.observation import Mode
from ..model.policy import MigrationSettings
from ..reasons.reason import Reason
from .converge import HYPERVISOR_PAUSE, Convergence, Forecast, Look

GIB = 1 << 30
MOST_THROTTLE = 99  # %, QEMU's max-cpu-throttle: auto-converge slows a guest down no more


class DeadlineAction(str, Enum):
    """The measures against a migration that is late."""

    NONE = "none"
    DOWNTIME = "downtime"  # the longer pause at the end that the policy allows
    ABORT = "abort"
    POST_COPY = "post_copy"
    PAUSE = "pause"


@dataclass(frozen=True)
class DeadlineVerdict:
    action: DeadlineAction = DeadlineAction.NONE
    reason: Reason | None = None
    message: str = ""
    forecast: Forecast = field(default_factory=Forecast)


NOTHING = DeadlineVerdict()
_WORDS = {DeadlineAction.ABORT: "aborted", DeadlineAction.POST_COPY: "post-copy", DeadlineAction.PAUSE: "paused"}
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
    """Watches one migration. `size`: bytes of memory and copied disks. `writes`: bytes/s, learnt before; 0: not."""

    def __init__(self, settings: MigrationSettings, size: int, writes: float = 0.0) -> None:
        self._settings = settings
        gib = max(1, -(-size // GIB))  # KubeVirt rounds up, and so does a small VM get a minute
        self.completion = float(settings.completion_timeout_per_gib * gib)
        self.progress = float(settings.progress_timeout)
        self._last: float | None = None
        self._had = 0.0  # seconds with the link
        self._since_progress = 0.0
        self._passes = MemoryPasses()
        self._pause = settings.max_downtime_ms / 1000
        self._longer = self._pause > HYPERVISOR_PAUSE  # it may still be allowed
        self._converges = Convergence(0.0 if self._longer else self._pause, writes)
        self._never_since: float | None = None  # seconds with the link
        self._forecast = self._known = Forecast()  # the last one, and as it was when it lost the link
        self._paused = False
        self._throttle = 0
        self._steps: list[str] = []

    def note_writes(self, writes: float, seconds: float) -> None:
        """Bytes/s, as they were measured for so many seconds before it began or in its first pass."""
        self._converges.note_writes(writes, seconds)

    @property
    def steps(self) -> list[str]:
        """The measures taken so far to bring the migration to its end, in order, in words."""
        slowed = [f"auto-converge up to {self._throttle} %"] if self._throttle else []
        return slowed + self._steps

    def step(self, now: float, has_link: bool, seen: Look, mode: Mode) -> DeadlineVerdict:
        """To be asked every now and then, with the latest numbers.

        Once it is late the measure is named each time until the mode changes or the caller stops
        to ask: abort and post-copy as often as they are due. A pause is named once; a paused
        migration that still gets nowhere is aborted after another `progress_timeout`, and the VM
        runs on at the source.
        """
        passed = 0.0 if self._last is None else max(0.0, now - self._last)
        self._last = now
        if mode is Mode.POST_COPY or not has_link:
            self._converges.pause()
            self._known = self._forecast
            return NOTHING
        self._had += passed
        self._since_progress += passed
        if self._passes.made_progress(seen.iteration, seen.remaining):
            self._since_progress = 0.0
        stuck = self._since_progress >= self.progress
        if seen.throttle >= MOST_THROTTLE > self._throttle:
            self._converges.pause()  # it was a faster guest until now
            self._known = Forecast()
        self._throttle = max(self._throttle, seen.throttle)
        forecast = self._converges.look(self._had, seen, self.completion - self._had)
        # What was known when it gave the link to others holds until its passes tell again.
        forecast = self._forecast = forecast if forecast.carries else self._known
        self._known = self._known if forecast is self._known else Forecast()
        if self._longer_pause_helps(forecast):
            self._longer = False
            self._converges.allow(self._pause)
            self._note(f"a pause of {self._pause:.1f} s allowed")
            helped = replace(forecast, converges=None, allowed=self._pause)
            return DeadlineVerdict(DeadlineAction.DOWNTIME, forecast=helped)
        slows_down = self._settings.auto_converge and seen.throttle < MOST_THROTTLE
        said = replace(forecast, converges=None) if slows_down and forecast.converges is False else forecast
        due = self._is_never(said, seen.iteration) and not self._paused
        if not stuck and not due and (self._paused or self._had < self.completion):
            return DeadlineVerdict(forecast=said)
        return self._act(stuck, forecast)

    def _longer_pause_helps(self, forecast: Forecast) -> bool:
        if not self._longer:
            return False
        half = self._had >= self.completion / 2 or self._since_progress >= self.progress / 2
        return half or (forecast.converges is False and forecast.pause <= self._pause)

    def _note(self, step: str) -> None:
        """Once, with the second: an abort that was refused is named again."""
        if not any(step in noted for noted in self._steps):
            self._steps.append(f"{step} after {self._had:.0f} s")

    def _is_never(self, forecast: Forecast, iteration: int) -> bool:
        """Is it time for what helps one that does not converge? What was measured before is not enough for that."""
        if forecast.converges is not False or iteration <= 1:
            self._never_since = None
            return False
        self._never_since = self._had if self._never_since is None else self._never_since
        return self._settings.on_timeout != "abort" and self._had - self._never_since >= self.progress / 2

    def _act(self, stuck: bool, forecast: Forecast) -> DeadlineVerdict:
        if forecast.converges is False and not self._paused:
            reason, text = Reason.NotConverging, str(forecast)
        elif stuck:
            reason = Reason.ProgressTimeout
            text = f"no progress for {self.progress:.0f} s"
        else:
            reason = Reason.CompletionTimeout
            text = f"not complete after {self.completion:.0f} s with the link"
        action = _ON_TIMEOUT[self._settings.on_timeout]
        if action is DeadlineAction.PAUSE:
            if self._paused:
                self._note(_WORDS[DeadlineAction.ABORT])
                return DeadlineVerdict(DeadlineAction.ABORT, reason, text + ", with the VM paused", forecast)
            self._paused = True
            self._since_progress = 0.0
        self._note(_WORDS[action])
        return DeadlineVerdict(action, reason, text, forecast)
