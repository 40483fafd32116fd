"""Times as records and messages have them, UTC."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def parsed(wall: str) -> datetime:
    """Raises ValueError."""
    return datetime.strptime(wall, FORMAT).replace(tzinfo=timezone.utc)


def of(seconds: float) -> str:
    """Format a time in seconds since the epoch."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime(FORMAT)


def after(wall: str, seconds: float) -> str:
    """The time that many seconds later; "" for what is none."""
    try:
        return (parsed(wall) + timedelta(seconds=seconds)).strftime(FORMAT)
    except ValueError:
        return ""


def between(earlier: str, later: str) -> float:
    """Seconds, of two times as records have them; 0 for what is none."""
    try:
        return (parsed(later) - parsed(earlier)).total_seconds()
    except ValueError:
        return 0.0
