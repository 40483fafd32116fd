"""Errors for a host or VM that is missing or does not answer: raised in several rooms."""

from __future__ import annotations


class VMNotHere(Exception):
    """The VM that was asked for is not where it was asked for."""


class PeerUnreachable(Exception):
    """A peer cannot be read, and nothing has begun yet."""


class LockHeld(Exception):
    """Another run has worked on this host for minutes: it must hang."""


class HolderError(Exception):
    """The migration agent of the host cannot be started, or refuses an order."""


class HolderGone(HolderError):
    """The connection to the migration agent broke. Its migrations go on."""

    sent = False  # may an order have reached it, which it carries out yet?


class HolderSilent(HolderGone):
    """The migration agent is there and does not answer: what it does is not known."""
