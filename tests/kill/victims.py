"""Who is killed: ansible-playbook here, the module or the holder on the host. Found by /proc."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

from demo.plays import Command

from lab import Host

VICTIMS = ("playbook", "module", "holder")
TOLD = "playbook, by SIGTERM"


def kill(victim: str, play: Command, host: Host, seconds: float = math.inf) -> bool:
    """kill -9, or SIGTERM, as soon as there is something to kill. False: the play, or that time, was over before."""
    end = time.monotonic() + seconds
    while play.running and time.monotonic() < end:
        if victim == "playbook":
            return play.kill() > 0
        if victim == TOLD:
            play.process.terminate()
            return True
        pids = _holders(host) if victim == "holder" else modules(host)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            return True
        time.sleep(0.005)
    return False


def _processes(host: Host) -> dict[int, list[str]]:
    """Machine pid -> command line of the Python processes in the host's PID namespace."""
    init = host.init_pid
    if init is None:
        return {}
    found = {}
    here = _pid_namespace(init)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == init:
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "python3" in words[0] and _pid_namespace(int(entry.name)) == here:
            found[int(entry.name)] = words
    return found


def _pid_namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _holders(host: Host) -> list[int]:
    return [pid for pid, words in _processes(host).items() if words[1:2] == ["-c"] and "holder" in words[2]]


def modules(host: Host) -> list[int]:
    """Ansible pipes a module into a Python without arguments."""
    return [pid for pid, words in _processes(host).items() if words[1:] in ([], [""])]
