"""The roll as its playbook sees it: what is shown of it, who else works on it, and the process that keeps it alive.

Ansible runs no cleanup when it is cancelled, and nothing of ours while the user's tasks run or a
host reboots. So a process beside ansible-playbook renews the record of the roll, and ends with it:
as its last act it says that the roll has stopped. Where all processes are killed at once (a
container), the record is no longer renewed, and the next reader finds that out by waiting.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from ansible import constants

from ansible_collections.virtops.maintenance.plugins.module_utils._playbook.lives import PROC, started
from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import playbook
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import plain, stamped

Call = Callable[[dict[str, Any]], dict[str, Any]]
_ALIVE = 1.0  # seconds between two looks at ansible-playbook
_CLEANS_UP = 6.0  # seconds for a call that is told to end
_HANGS = 120.0  # seconds after which a call is ended and made again: it takes a slice, and what a silent host costs
_SAMPLES = 20  # at its workers, in that time
WAITS = "virtops-waits"  # the name of a worker that waits for its turn, 15 characters at most
# As the kernel numbers them in a mask
_CANCELS = (1 << (signal.SIGINT - 1)) | (1 << (signal.SIGTERM - 1))
# Of the errors of the module: there is nothing to be renewed any more.
_OVER = ("RollTakenOver", "RollRefused")
# States of whose answer nothing is shown, but for what they wait for.
_QUIET = ("noted", "came_back", "read")
# Seconds between two lines of a host that waits: at least, and until the next one of all that wait says it again.
_NEWS = 15.0
_AGAIN = 600.0


class Said:
    """Chooses the lines to show of one call after the other. Of a wait: for whom, when that is new. The host whose turn
    is next says it again every ten minutes, or a roll would be silent as long as the user's tasks on another host; so
    does one that waits with its reboot."""

    def __init__(self, state: str) -> None:
        self._state, self._message, self._names, self._at = state, "", [""], float("-inf")

    def lines(self, result: Mapping[str, Any], now: float) -> list[str]:
        """`now`: seconds of a clock that only goes forward."""
        message, names = str(result.get("message") or ""), list(result.get("waits_for") or ())
        quiet = self._state in _QUIET
        if not message or (quiet and result.get("ended") != "out_of_time"):
            return []
        known = message == self._message or (bool(names) and names == self._names)
        since = now - self._at
        again = (quiet or bool(result.get("is_next"))) and since >= _AGAIN
        if (known and not again) or (names and since < _NEWS):
            return []
        self._message, self._names, self._at = message, names, now
        first, *more = map(plain, message.splitlines())
        return [stamped(first) if quiet or self._state == "admitted" else first, *more]


def begun(hostvars: Mapping[str, Mapping[str, Any]], hosts: Iterable[str]) -> dict[str, Any]:
    """What quorum hosts answered when the playbook began the roll and, if it did, planned it. Empty: none answered.

    `hosts`: where to look first. One that is half done and was not named is in the roll, and was in no play before.
    """
    for host in dict.fromkeys((*hosts, *hostvars)):
        found: dict[str, Any] = {}
        for name in ("__maintenance_asked", "__maintenance_planned"):  # as their tasks register it
            results = (hostvars[host].get(name) or {}).get("results", ())
            found |= next((one for one in results if "order" in one), {})
        if found:
            return found
    return {}


def others_work() -> bool:
    """Does any other worker of this ansible-playbook do anything but wait for its turn?

    Between two tasks a host has no worker, so one sample is not enough. Where the system does not
    list the children of a process, it is taken that they do.
    """
    for _time in range(_SAMPLES):
        workers = _children(playbook()[0])
        if os.getpid() not in workers:
            return True
        for pid in workers:
            if pid != os.getpid() and started(pid) and _comm(pid) != WAITS:
                return True
        time.sleep(_ALIVE / _SAMPLES)
    return False


def waits(name: str = WAITS) -> str:
    """Let the other workers see that this one waits. The name before, with which it is ended."""
    before = _comm(os.getpid())
    with suppress(OSError):
        (PROC / "self" / "comm").write_text(name, encoding="ascii")
    return before


def _comm(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _children(pid: int) -> list[int]:
    """The child processes of all threads of that process (proc_pid_task_children(5))."""
    found: list[int] = []
    for path in (PROC / str(pid) / "task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in path.read_text(encoding="ascii").split()]
    return found


def _listens_to(pid: int) -> int:
    """The signals that cancel ansible-playbook and that it catches, as bits; 0: none, or it is not known."""
    with suppress(OSError, ValueError, IndexError):
        text = (PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace")
        return int(text.partition("SigCgt:")[2].split()[0], 16) & _CANCELS
    return 0


def _is_cancelled(pid: int, before: int) -> bool:
    """Was ansible-playbook told to end? Then it no longer catches that signal.

    As a rule it ends at once, but it can hang: it ends a worker that holds the lock of its results, and
    waits for that lock (2.21, after Ctrl-C). `before`: what it caught; 2.18 leaves that as it is.
    """
    return _listens_to(pid) & before != before


def keep_alive(call: Call, args: dict[str, Any]) -> None:
    """Fork the process that renews the roll. Returns at once; that process never returns.

    `call`: calls the module, as `args` with another state say.
    """
    pid = playbook()[0]
    begun, caught = started(pid), _listens_to(pid)
    if os.fork():
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        for number in (signal.SIGINT, signal.SIGTERM):  # a worker's would end the worker
            signal.signal(number, signal.SIG_DFL)
        with _own_files(lambda: started(pid) == begun):
            _renew(call, args, lambda: bool(begun) and started(pid) == begun and not _is_cancelled(pid, caught))
    finally:
        os._exit(0)


@contextmanager
def _own_files(lives: Callable[[], bool]) -> Iterator[None]:
    """Give calls a directory of their own for temporary files, and remove it at the end, whatever became of them.
    ansible-playbook removes its own before that; where it was killed, that is removed as well."""
    theirs, folder = constants.DEFAULT_LOCAL_TMP, tempfile.mkdtemp(prefix="virtops-roll-")
    constants.DEFAULT_LOCAL_TMP = os.environ["TMPDIR"] = folder
    try:
        yield
    finally:
        for left in (folder, *(() if lives() else (theirs,))):
            shutil.rmtree(left, ignore_errors=True)


def connects_anew(connection: Any) -> list[Any]:
    """Let this process, a fork of another one, have a session of its own with the host.

    paramiko and libssh have theirs in the process: what is sent over it from here is answered to the other one, which
    loses it by that. Returned is what the connection had, to be kept: its end would be told over the old session.
    """
    kept: list[Any] = [dict(vars(connection))]
    for name in ("SSH_CONNECTION_CACHE", "SFTP_CONNECTION_CACHE"):  # of both plugins
        cache = getattr(sys.modules.get(type(connection).__module__), name, {})
        kept.append(dict(cache))
        cache.clear()
    connection._connected = False
    return kept


def _renew(call: Call, args: dict[str, Any], lives: Callable[[], bool]) -> None:
    """Renew the record as long as ansible-playbook lives and was not cancelled, and the roll is ours; then write that
    it has ended."""
    while lives():
        if _renew_once(call, args, lives) == 1:
            return
    _quietly(call, {**args, "state": "ended"})


def _renew_once(call: Call, args: dict[str, Any], lives: Callable[[], bool]) -> int:
    """One call in a process of its own: one that hangs does not outlive the playbook, and is made again. It is asked to
    end first, so that it cleans up. 1: there is nothing to be renewed any more."""
    pid = os.fork()
    if not pid:
        over = 0
        try:
            signal.signal(signal.SIGTERM, _asked)
            os.setpgid(0, 0)
            over = int(_quietly(call, {**args, "state": "renewed"}).get("error") in _OVER)
        finally:
            os._exit(over)
    ended, status, hangs = 0, 0, time.monotonic() + _HANGS
    while not ended and lives() and time.monotonic() < hangs:
        time.sleep(_ALIVE)
        ended, status = os.waitpid(pid, os.WNOHANG)
    if ended:
        return os.waitstatus_to_exitcode(status)
    until = time.monotonic() + _CLEANS_UP
    _signal(pid, signal.SIGTERM)
    while _signal(pid, 0) and time.monotonic() < until:  # with the module that it has called
        time.sleep(_ALIVE / _SAMPLES)
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    _signal(pid, signal.SIGKILL)
    return 0


def _asked(number: int, _frame: Any) -> None:
    signal.signal(number, signal.SIG_IGN)  # it cleans up already
    raise SystemExit(number)


def _signal(group: int, number: int) -> bool:
    """Is there still one of them?"""
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


def _quietly(call: Call, args: dict[str, Any]) -> dict[str, Any]:
    """Call, and give an `error` in place of an exception: nobody reads what is printed here, and the next reader of the
    record sees that it was not renewed."""
    try:
        return call(args)
    except Exception as exc:  # noqa: BLE001 - of any connection plugin
        time.sleep(_ALIVE)
        return {"error": type(exc).__name__}


__all__ = ["begun", "connects_anew", "keep_alive", "others_work", "waits"]
