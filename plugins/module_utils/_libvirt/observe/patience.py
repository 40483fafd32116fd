"""Work for threads that may never come to its end: a read of a QEMU that hangs, or of storage whose server is gone.
libvirt answers keepalives all the while, and has no time-out for that.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from ..host.connection import HostUnreachable

# Seconds. A busy host answers for one VM in a second; libvirt itself waits 30 s for the lock of a VM.
ASKED_FOR = 60.0  # what one peer is asked about one VM
READ_FOR = 300.0  # all that is read of this host, or of one VM here with the answers of its peers
_WORKERS = 24

_T = TypeVar("_T")


class Task:
    """One piece of work for a thread: its result, or why there is none."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self.done = threading.Event()
        self.started = 0.0
        self.ended = 0.0
        self.result: Any = None
        self.error: HostUnreachable | None = None
        self._failure: Exception | None = None  # what is no word of a host: who waits gets it

    def run(self) -> None:
        self.started = time.monotonic()
        try:
            self.result = self._work()
        except HostUnreachable as exc:
            self.error = exc
        except Exception as exc:  # noqa: BLE001 - handed to who waits, who would wait in vain else
            self._failure = exc
        self.ended = time.monotonic()
        self.done.set()

    def check(self) -> None:
        """Raises what made it fail besides the host, such as a binding of libvirt that is not there."""
        if self._failure is not None:
            raise self._failure

    def wait(self, patience: float) -> bool:
        """Wait until the work is done (True), or has run for that time. Work that waits for a thread is not late.
        Raises what the work raised, unless that is a HostUnreachable."""
        while not self.done.wait(0.05 if not self.started else 0.0):
            left = self.started + patience - time.monotonic() if self.started else patience
            if left <= 0:
                return False
            if self.started:
                self.done.wait(left)
        self.check()
        return True


class Threads:
    """A few threads for work that may never end. They are daemons: no end of a process waits."""

    def __init__(self, most: int = _WORKERS) -> None:
        self._most = most
        self._waiting: deque[Task] = deque()
        self._ready = threading.Condition()
        self._count = self._idle = 0
        self._closed = False

    def submit(self, work: Callable[[], Any]) -> Task:
        task = Task(work)
        if self._closed:
            task.run()
            return task
        with self._ready:
            self._waiting.append(task)
            if len(self._waiting) > self._idle and self._count < self._most:
                self._count += 1
                threading.Thread(target=self._serve, name="libvirt-peers", daemon=True).start()
            self._ready.notify()
        return task

    def close(self) -> None:
        with self._ready:
            self._closed = True
            self._waiting.clear()
            self._ready.notify_all()

    def _serve(self) -> None:
        while True:
            with self._ready:
                self._idle += 1
                while not self._waiting and not self._closed:
                    self._ready.wait()
                self._idle -= 1
                if self._closed:
                    return
                task = self._waiting.popleft()
            task.run()


class Patience:
    """Questions to one host, each in the same thread. What is late is left to itself, and nothing is asked after it."""

    def __init__(self) -> None:
        self._threads = Threads(1)
        self._late = ""

    def within(self, seconds: float, ask: Callable[[], _T], about: str) -> _T:
        """The answer. Raises what `ask` raises, and TimeoutError, in words."""
        if not self._late:
            task = self._threads.submit(ask)
            if task.wait(seconds):
                if task.error is not None:
                    raise task.error
                result: _T = task.result
                return result
            self._late = (
                f"no answer about {about} within {seconds:g} s. A QEMU hangs there (virsh domstats), or storage does"
                " not answer (mounts, virsh pool-list)"
            )
        raise TimeoutError(self._late)

    def close(self) -> None:
        """End the thread, once it has nothing to do."""
        self._threads.close()
