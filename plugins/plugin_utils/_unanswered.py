# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An API server that does not answer: it restarts, is upgraded, or the way to it is broken.

It is given as long as a connection to a host. What it was asked for before goes on meanwhile, and its record says how
far that is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ._lines import plain

Call = Callable[[dict[str, Any]], dict[str, Any]]
# Seconds in all, from the first call that was not answered; and between two calls. Each one asks for some seconds.
LONGEST = 120.0
PAUSE = 5.0
_SAYS_AGAIN = 15.0


class Unanswered:
    """For one loop of calls. `warn` prints one warning."""

    def __init__(
        self,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._warn, self._clock, self._sleep = warn, clock, sleep
        self._since: float | None = None
        self._said = float("-inf")

    def again(self, result: Mapping[str, Any]) -> bool:
        """Did the module get no answer, and is it to be called again? Waits before that, and says for what."""
        if result.get("error") != "NoAnswer":
            self._since = None
            return False
        now = self._clock()
        self._since = now if self._since is None else self._since
        waited = now - self._since
        if waited >= LONGEST:
            return False
        if now - self._said >= _SAYS_AGAIN:
            self._said = now
            for_long = f"since {waited:.0f} s; it is asked again for {LONGEST:.0f} s in all"
            self._warn(plain(f"The API does not answer {for_long}: {result.get('msg', '')}"))
        self._sleep(PAUSE)
        return True

    def patient(self, call: Call) -> Call:
        """Of a call that may be made as often as one likes."""

        def answered(args: dict[str, Any]) -> dict[str, Any]:
            while True:
                result = call(args)
                if not self.again(result):
                    return result

        return answered
