"""One slice at a time on a host: locks of the kernel, which a killed slice gives back."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from .errors import LockHeld

RUN_DIR = "/run/virtops"
# Seconds for those before, longer than any slice that works: one may hang in storage whose server is gone.
PATIENCE = 300.0
_AGAIN = 0.05


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Waits for the slice before. Who is the next has a lock of its own meanwhile, by which that
    slice sees that somebody waits. Raises LockHeld."""
    os.makedirs(RUN_DIR, mode=0o700, exist_ok=True)
    until = time.monotonic() + PATIENCE
    with open(f"{RUN_DIR}/slice.lock", "a+", encoding="ascii") as stream:
        with open(f"{RUN_DIR}/next.lock", "w", encoding="ascii") as queue:
            for lock in (queue, stream):
                while not _is_taken(lock):
                    if time.monotonic() > until:
                        raise LockHeld(_by_whom(stream))
                    time.sleep(_AGAIN)
        stream.truncate(0)
        stream.write(f"{os.getpid()}\n")
        stream.flush()
        yield


def _is_taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _by_whom(lock: IO[str]) -> str:
    lock.seek(0)
    process = lock.read(20).strip() or "unknown"
    return (
        f"Another run, process {process} of the host, has worked on it for {PATIENCE:.0f} s and more, so it hangs."
        f" See for what it waits (cat /proc/{process}/stack): storage whose server is gone, or libvirtd. End it, then"
        " run the same command."
    )


def is_wanted() -> bool:
    """Does a process wait in `one_at_a_time`?"""
    try:
        with open(f"{RUN_DIR}/next.lock", encoding="ascii") as queue:
            fcntl.flock(queue, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # nobody ever waited here
    return False
