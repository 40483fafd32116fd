"""The simulator's clock: real time, time that runs faster, or time that is told to go on."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    """`scale`: simulated seconds for each real one; 0: it stands still until World.advance."""

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale
        self.at = 0.0  # simulated seconds, where it stands still
        self._wall0 = float(int(time.time()))
        self._mono0 = time.monotonic()

    @property
    def stands(self) -> bool:
        return self.scale == 0

    def now(self) -> float:
        """Simulated wall time, seconds since the epoch."""
        if self.stands:
            return self._wall0 + self.at
        return self._wall0 + (time.monotonic() - self._mono0) * self.scale

    def stamp(self) -> str:
        """The same as the API writes it."""
        return datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def real(self, seconds: float) -> float:
        """Real seconds for simulated ones."""
        return seconds / self.scale


def parse(stamp: str) -> float:
    """Seconds since the epoch of a stamp."""
    return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
