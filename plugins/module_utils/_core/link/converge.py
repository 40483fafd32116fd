"""Does a pre-copy migration converge? Known from its passes over the memory. Pure; the clock is passed in.

A pass sends what was written during the one before it. So its size, over the time that it takes, is what the link
carries, and the size of the next one over the same time what the guest writes. QEMU switches over at the end of a pass
when the next one would be short enough to pause the guest for it. A guest whose passes get smaller comes there; one
whose passes do not is told by three of them, or by one that is long: what it writes is then its whole working set, and
that does not shrink by waiting.

Before the first pass is over nothing of this is known. Only what was measured helps there: what was written in a
second as it began, and in the first ten. Who writes steadily writes to no more memory in each of the ten than in that
one; who wrote clearly more has bursts, and the second fell into a pause. Who wrote to little more in all of the ten
than in the one writes to the same memory over and over: so it is known what is written in a pass of the length that
the guest may be paused.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

MIB = 1 << 20
HYPERVISOR_PAUSE = 0.3  # s for which QEMU pauses a guest at most, where nothing was set
ENOUGH = 3  # passes tell,
SPAN = 4.0  # ... if they took so many seconds with the link, or
LONG = 4.0  # ... however few they are, if they took so many; what is older is forgotten
SHRINKS = 0.9  # the next pass over this one, below which a guest comes to its end
NEARLY = 0.9  # of what the link carries: in a pause, which is shorter, it writes relatively more than in a second
FIRST_KNOWN = 5.0  # s with the link in the first pass, after which what the link carries is known
SHORT = 1.0  # s: a measurement of so long tells what is written at once, and a longer one what bursts there are:
BURSTS = 1.3  # times the rate of the short one is a burst that the short one missed, ...
GREAT = 0.5  # ... and so many times what the link carries is one that does not let it come to its end


@dataclass(frozen=True)
class Forecast:
    """A forecast made from the passes so far. Rates in bytes/s, pauses in seconds; all 0 while nothing is known.

    converges: None while it is not known. pause: how long the guest would stand still if it switched over now.
    """

    converges: bool | None = None
    writes: float = 0.0
    carries: float = 0.0
    pause: float = 0.0
    allowed: float = 0.0

    def __str__(self) -> str:
        rates = f"writes {self.writes / MIB:.0f} MiB/s, the link carries {self.carries / MIB:.0f} MiB/s"
        return f"{rates}: it would pause for {self.pause:.1f} s, {self.allowed:.1f} s are allowed"


@dataclass(frozen=True)
class Look:
    """At a job. iteration: which pass over the memory, 0: disks are copied. Bytes: that remain, and that were sent.

    throttle: by how many % auto-converge slows the guest down.
    """

    iteration: int
    remaining: int
    processed: int
    throttle: int = 0


@dataclass(frozen=True)
class _Turn:
    """A pass that has begun: at which second with the link, with how much before it, behind it."""

    had: float
    size: float
    processed: int


class Convergence:
    """Watches one migration. `allowed`: seconds for which the guest may be paused, 0: the hypervisor's. `writes`: bytes
    that were written in a second before it began, 0: not measured."""

    def __init__(self, allowed: float = 0.0, writes: float = 0.0) -> None:
        self._allowed = allowed or HYPERVISOR_PAUSE
        self._writes = writes
        self._short: float | None = None  # the most of the short measurements
        self._long = (0.0, 0.0)  # of the longer ones: rate, seconds
        self._iteration = -1
        self._turns: deque[_Turn] = deque()

    def allow(self, seconds: float) -> None:
        """Allow the guest to be paused for this long from now on."""
        self._allowed = seconds

    def note_writes(self, writes: float, seconds: float = SHORT) -> None:
        """Bytes per second to which it wrote, as they were measured for so long. The most counts."""
        self._writes = max(self._writes, writes)
        if seconds > SHORT:
            self._long = max(self._long, (writes, seconds))
        else:
            self._short = max(self._short or 0.0, writes)

    def pause(self) -> None:
        """It has the link no more: what is written meanwhile says nothing of the time in which it has it."""
        self._turns.clear()

    def look(self, had: float, seen: Look, left: float) -> Forecast:
        """`had`: seconds with the link. `left`: those that it may still take."""
        if seen.iteration < 1:
            return Forecast()
        if seen.iteration != self._iteration:
            if self._iteration == 1:
                self._turns.clear()  # the first pass sends what was never written, too
            self._iteration = seen.iteration
            self._begin(had, seen)
            while len(self._turns) > ENOUGH + 1 and had - self._turns[1].had > LONG:
                self._turns.popleft()
        elif not self._turns and seen.iteration == 1:
            self._begin(had, seen)
        if not self._turns:
            return Forecast()
        return self._in_the_first(had, seen) if seen.iteration == 1 else self._by_its_passes(left)

    def _begin(self, had: float, seen: Look) -> None:
        self._turns.append(_Turn(had, float(seen.remaining), seen.processed))

    def _in_the_first(self, had: float, seen: Look) -> Forecast:
        """At least what the guest writes during one measurement is left at the end of any pass that long."""
        first = self._turns[0]
        passed = had - first.had
        if not self._writes or passed < FIRST_KNOWN:
            return Forecast()
        carries = (first.size - seen.remaining) / passed
        if carries <= 0:
            return Forecast()
        writes, seconds = self._too_much(carries)
        if not writes:
            return Forecast()
        pause = writes * seconds / carries
        return Forecast(None if pause <= self._allowed else False, writes, carries, pause, self._allowed)

    def _too_much(self, carries: float) -> tuple[float, float]:
        """The measurement that says that it writes too much: rate and seconds, or twice 0."""
        if self._writes >= NEARLY * carries:
            return self._writes, SHORT
        rate, seconds = self._long
        if self._short is None or not rate:
            return 0.0, 0.0
        if rate >= max(BURSTS * self._short, GREAT * carries):
            return rate, seconds
        part = min(1.0, self._short / (rate * seconds))
        in_a_pause = rate * seconds * (1 - math.pow(1 - part, self._allowed))
        return (self._short, SHORT) if in_a_pause >= self._allowed * carries else (0.0, 0.0)

    def _by_its_passes(self, left: float) -> Forecast:
        first, last = self._turns[0], self._turns[-1]
        span, sent = last.had - first.had, last.processed - first.processed
        if span < (SPAN if len(self._turns) > ENOUGH else LONG) or sent <= 0:
            return Forecast()
        carries = sent / span
        writes = max(0.0, (sent + last.size - first.size) / span)
        sizes = [turn.size for turn in self._turns]
        half = len(sizes) // 2
        older, newer = sum(sizes[:half]) / half, sum(sizes[-half:]) / half
        # Nothing may have been left of a pass when it was seen: then the guest does not shrink any more.
        shrinks = math.pow(newer / older, 1 / (len(sizes) - half)) if older else 1.0
        ends = self._ends(newer, shrinks, carries, left)
        return Forecast(ends, writes, carries, newer / carries, self._allowed)

    def _ends(self, size: float, shrinks: float, carries: float, left: float) -> bool | None:
        """Whether it ends at this pace, in the time that is left."""
        small = self._allowed * carries
        if size <= small:
            return None
        if shrinks >= SHRINKS:
            return False
        more = math.log(small / size) / math.log(shrinks)
        return size / carries * (1 - math.pow(shrinks, more)) / (1 - shrinks) <= left
