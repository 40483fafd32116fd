"""An API server that does not answer: it restarts, is upgraded, or the way to it is broken.

It is given as long as a connection to a host. What it was asked for before goes on meanwhile, and its record says how
far that is. Who asks it for the first time may have a wrong address: that is told sooner.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ._lines import plain, stamped

Call = Callable[..., dict[str, Any]]
# Seconds in all, from the first call that was not answered; and between two calls. Each one asks for some seconds.
LONGEST = 120.0
FIRST = 30.0
PAUSE = 5.0
_SAYS_AGAIN = 15.0


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit the time of a `with` block, for calls over a connection of Ansible's, which may never answer. Raises
    TimeoutError. It uses SIGALRM: an action runs in the main thread of a process of its own."""

    def over(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, over)
    left, _every = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)  # of the task, where it has one
        signal.signal(signal.SIGALRM, before)


class Unanswered:
    """State for one loop of calls. `say` prints a line at once: Ansible shows a warning only once its task ends."""

    def __init__(
        self,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._say, self._clock, self._sleep = say, clock, sleep
        self._since: float | None = None
        self._said = float("-inf")

    def again(self, result: Mapping[str, Any], first: bool = False) -> bool:
        """Did the module get no answer, and is it to be called again? Waits before that, and says for what.

        `first`: nobody has had an answer before.
        """
        if result.get("error") != "NoAnswer":
            self._since = None
            return False
        now = self._clock()
        self._since = now if self._since is None else self._since
        waited = now - self._since
        longest = FIRST if first else LONGEST
        if waited >= longest:
            return False
        if now - self._said >= _SAYS_AGAIN:
            self._said = now
            for_long = f"for {waited:.0f} s; trying for {longest:.0f} s in all"
            self._say(stamped(plain(f"The API does not answer {for_long}: {result.get('msg', '')}")))
        self._sleep(PAUSE)
        return True

    def patient(self, call: Call, first: bool = False) -> Call:
        """Wrap a call that is safe to repeat: it is made again as long as `again` says so."""

        def answered(*args: Any) -> dict[str, Any]:
            while True:
                result = call(*args)
                if not self.again(result, first):
                    return result

        return answered
