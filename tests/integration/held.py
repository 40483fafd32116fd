"""What is done while VMs move is done while their migrations are held: it is no race."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from demo import plays

from lab import Lab
from lab.procs import wait_for

SLOW = 8  # Mbit/s: there is a minute in which to see that a migration has begun


@contextmanager
def held(lab: Lab, source: str, names: list[str], begin: Callable[[], plays.Play]) -> Iterator[plays.Play]:
    """Begin a play, and hold its migrations once the memory of each of these VMs goes over.

    The links are as they were then. `lab.let_go` before its end is waited for; at the end of the
    block they are let go anyway, and a play that runs still is killed.
    """

    def moving() -> bool:
        return all(lab.moves(source, name) for name in names)

    lab.shape(source, SLOW)
    play = begin()
    try:
        assert wait_for(lambda: moving() or not play.running) and play.running, play.text
        lab.hold(source)
        lab.unshape(source)
        yield play
    finally:
        lab.unshape(source)
        lab.let_go(source)
        if play.running:
            play.kill()
