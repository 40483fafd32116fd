"""One slice at a time on a host: locks of the kernel, which a killed slice gives back."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

RUN_DIR = "/run/virtops"


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Waits for the slice before. Who is the next has a lock of its own meanwhile, by which that
    slice sees that somebody waits."""
    os.makedirs(RUN_DIR, mode=0o700, exist_ok=True)
    with open(f"{RUN_DIR}/slice.lock", "w", encoding="ascii") as stream:
        with open(f"{RUN_DIR}/next.lock", "w", encoding="ascii") as queue:
            fcntl.flock(queue, fcntl.LOCK_EX)
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


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
