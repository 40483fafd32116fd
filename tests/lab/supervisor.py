"""Keeps one host running: the process outside that owns the host's network.

    unshare --net python3 -m lab.supervisor STATE HOST

Starts the host's namespaces, waits for PID 1 to end, and brings the host back
after a reboot. It ends when the host is powered off or killed. Killing it ends
everything on the host, because each process here dies with its parent:
supervisor -> unshare -> PID 1 -> all.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

from . import hostfiles, rawlog, release
from .hostinit import POWEROFF, REBOOT
from .names import Paths
from .procs import write_record

PR_SET_PDEATHSIG = 1
# The time between the end of a host and its return.
BOOT_SECONDS = 1.0

COMMAND = [
    "unshare",
    "--mount",
    "--propagation",
    "private",
    "--uts",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]

_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def child_of(parent: int) -> int | None:
    """The (only) child of a process, seen from here."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(stat[1]) == parent:
                return int(entry.name)
    return None


def run_once(paths: Paths, host: str) -> int:
    """One boot of the host, from power on to its end."""
    boot_id = str(uuid.uuid4())
    record = paths.records / f"{host}.init"
    command = [*COMMAND, *release.first_process(hostfiles.install_release(paths, host))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, preexec_fn=_die_with_parent) as child:  # noqa: PLW1509 - one thread
        init = None
        while init is None and child.poll() is None:
            init = child_of(child.pid)
        if init is not None:
            write_record(record, init)
        assert child.stdin is not None
        child.stdin.write(hostfiles.init_settings(paths, host, boot_id).encode())
        child.stdin.close()
        rawlog.host_event(paths.raw, host, f"up {boot_id}")
        code = child.wait()
    record.unlink(missing_ok=True)
    return code


def main(state: str, host: str) -> None:
    paths = Paths(Path(state))
    while True:
        code = run_once(paths, host)
        # A reboot(2) inside ends PID 1 by SIGHUP (restart) or SIGINT (halt).
        if code in (REBOOT, -signal.SIGHUP):
            rawlog.host_event(paths.raw, host, "reboot")
            time.sleep(BOOT_SECONDS)
            continue
        planned = code in (POWEROFF, -signal.SIGINT)
        rawlog.host_event(paths.raw, host, "poweroff" if planned else f"died {code}")
        return


if __name__ == "__main__":
    os.umask(0o022)
    main(sys.argv[1], sys.argv[2])
