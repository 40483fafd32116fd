"""What may go wrong with the API itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .answers import ApiError, status


@dataclass
class Fault:
    """Answers `code` to the next `times` requests that `matches` (method, path) picks.

    `text`: in these words, as a webhook's refusal has none but its own.
    """

    code: int
    times: int
    matches: Callable[[str, str], bool]
    retry_after: int | None = None
    text: str = ""


@dataclass
class Faults:
    """`latency`: real seconds added to each answer. `drop_watches`: end each watch after that."""

    latency: float = 0.0
    drop_watches: float | None = None
    planned: list[Fault] = field(default_factory=list)
    away_until: float = 0.0  # real, monotonic: the server restarts
    starting_until: float = 0.0  # it is there, and not ready
    blank_until: float = 0.0  # it is ready, and has not read yet who may do what

    def plan(
        self,
        code: int,
        times: int = 1,
        matches: Callable[[str, str], bool] = lambda _method, _path: True,
        retry_after: int | None = None,
        text: str = "",
    ) -> None:
        self.planned.append(Fault(code, times, matches, retry_after, text))

    def restart(self, away: float, blank: float = 1.0, starting: float = 0.3) -> None:
        """As a real one that restarts: connections break, then 503, then for a moment everything is denied."""
        self.away_until = time.monotonic() + away
        self.starting_until = self.away_until + starting
        self.blank_until = self.starting_until + blank

    @property
    def away(self) -> bool:
        return time.monotonic() < self.away_until

    @property
    def blank(self) -> bool:
        return self.starting_until <= time.monotonic() < self.blank_until

    def check(self, method: str, path: str) -> None:
        """Raises ApiError when a fault was planned for this request."""
        if self.away_until <= time.monotonic() < self.starting_until:
            raise _answer(503, {})
        for fault in self.planned:
            if fault.times > 0 and fault.matches(method, path):
                fault.times -= 1
                headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after else {}
                if fault.text:
                    raise status(fault.code, fault.text, headers=headers)
                raise _answer(fault.code, headers)


def _answer(code: int, headers: dict[str, str]) -> ApiError:
    reasons = {
        429: ("TooManyRequests", "too many requests, please try again later"),
        500: ("InternalError", "Internal error occurred: planned fault"),
        503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504: ("Timeout", "Timeout: request did not complete within requested timeout"),
        409: ("Conflict", "the object has been modified; please apply your changes again"),
    }
    reason, text = reasons.get(code, ("", "planned fault"))
    return status(code, text, reason, headers=headers)
