"""Which ansible-playbook this works for, and whether it lives.

It can be killed alone, and then its workers and their modules live on: nobody reads what they do, and nobody knows
that they do it. So each write asks. A module on another machine does not see that process: its worker is ended with it,
and so is the connection by which the module was called, which nobody reads any more.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .._core.roll.owner import PlaybookEnded

PROC = Path("/proc")
SPEC = {"playbook": {"type": "str", "default": ""}}
_END_WITHIN = 5.0  # seconds; libvirt can be waiting for a host that says nothing
_ENDS: list[int] = []  # a pipe that says so: where it is read, and where it is written
_HIDDEN = "there"  # a process of another user, with /proc mounted so that it is not seen


def started(pid: int) -> str:
    """When that process began, in ticks since the boot; '': there is none, or it is a zombie.

    A controller that is not Linux has no /proc: there it says only that the process is there.
    """
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return _is_there(pid)
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _is_there(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return _HIDDEN
    except OSError:
        return ""
    return _HIDDEN


def machine() -> str:
    """This boot of this machine, and the PID namespace: where a number means the same process. '': not known."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{(PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def told(pid: int) -> str:
    """Return what a module needs to check for itself whether an ansible-playbook lives."""
    return f"{pid} {started(pid)} {machine()}"


def has_ended(process: str) -> bool:
    """Is that known? `process`: as `told` had it; '': nobody said. Of another machine nothing is known."""
    pid, begun, where = (*process.split(" "), "", "", "")[:3]
    return bool(where) and where == machine() and started(int(pid)) not in (begun, _HIDDEN)


def check(playbook: str) -> None:
    """Before each write. Raises PlaybookEnded."""
    if has_ended(playbook):
        pid = playbook.split(" ", 1)[0]
        raise PlaybookEnded(
            f"ansible-playbook (process {pid}) ended. Nothing more is done; run the same command to continue."
        )
    if playbook and not heard():
        raise PlaybookEnded(
            "The connection that started this was closed. Nothing more is done; run the same command to continue."
        )


def heard() -> bool:
    """Is this module's output still read? Not if the connection that it came by has ended."""
    pipe = select.poll()
    pipe.register(1, 0)
    return not pipe.poll(0)


def noted(playbook: str) -> str:
    """Text for a lock: which process holds it, and for which playbook. '': not known."""
    return f"{playbook}, {told(os.getpid())}" if playbook else ""


def have_ended(note: str) -> bool:
    """Is it known that nobody is left who had that lock?"""
    return bool(note) and all(map(has_ended, note.split(", ")))


def end_cleanly() -> None:
    """From now on a module that is terminated ends like on an error, so that its temporary files are removed.

    Ansible tells its workers' modules when it is ended itself, and a terminal when its connection is. A call of C does
    not see it; so there is a deadline.
    """
    if _ENDS or threading.current_thread() is not threading.main_thread():
        return
    _ENDS.extend(os.pipe())
    os.set_blocking(_ENDS[1], False)
    signal.set_wakeup_fd(_ENDS[1], warn_on_full_buffer=False)
    # A process that it forks has the same pipe: a signal to that one would end this one.
    os.register_at_fork(after_in_child=_deaf)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)

    def watch() -> None:
        while os.read(_ENDS[0], 1)[0] not in (signal.SIGTERM, signal.SIGHUP):
            pass
        time.sleep(_END_WITHIN)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, name="end", daemon=True).start()


def _deaf() -> None:
    with suppress(ValueError):  # forked by another thread, which gets no signals
        signal.set_wakeup_fd(-1)


def _end(number: int, _frame: Any) -> None:
    signal.signal(number, signal.SIG_IGN)  # once: a second one would end the cleaning up
    raise SystemExit(128 + number)
