"""How a command is ended in its middle, and which processes of it are left. Processes are found by /proc."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from demo.plays import Command

from lab import Host

# To all of its process group, as a terminal sends them; its workers are in sessions of their own.
SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
# "runner": ansible-runner is told to end, and cancels the job. "container": the PID namespace, in
# which ansible-playbook runs, ends with all that is in it, so nobody is left to record anything.
WAYS = (*SIGNALS, "runner", "container")
# By kill -9: ansible-playbook with all that it started here, the module or the holder on the host.
VICTIMS = ("playbook", "module", "holder")
MARK = "VIRTOPS_CANCEL_RUN"
_AGAIN = 120.0  # seconds: a cancel takes a few on a busy machine


def _own() -> str:
    return f"{os.getpid()}/"


def start(way: str, mark: str, argv: Sequence[str], env: Mapping[str, str], folder: Path) -> Command:
    """Start the command so that it can be cancelled that way. `mark`: its processes have it."""
    folder.mkdir(parents=True)
    if way == "container":
        argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *argv]
    elif way == "runner":
        argv = _by_runner(argv, folder / "runner")
    # Where the runner looks for ansible-playbook.
    path = f"{Path(sys.executable).parent}:{env['PATH']}"
    return Command(argv, {**env, "PATH": path, MARK: _own() + mark}, folder)


def _by_runner(argv: Sequence[str], private: Path) -> list[str]:
    (private / "env").mkdir(parents=True)
    # Seconds until it sees that it was told to end; 5 by default.
    (private / "env" / "settings").write_text(json.dumps({"pexpect_timeout": 1}), encoding="utf-8")
    tool = str(Path(sys.executable).with_name("ansible-runner"))
    *words, playbook = argv[1:]
    return [tool, "run", str(private), "-p", playbook, f"--cmdline={shlex.join(words)}"]


def cancel(way: str, run: Command) -> None:
    """Cancel it, and wait for the end of the process that was started.

    ansible-core can hang after its first Ctrl-C (plugin_utils/_roll.py). Who sits before it presses again.
    """
    if way == "runner":
        run.process.terminate()
    elif way == "container":
        run.process.kill()
    else:
        run.signal_group(signal.Signals[way])
        try:
            run.process.wait(_AGAIN)
        except subprocess.TimeoutExpired:
            print(f"  ansible-playbook hangs after {way}, and gets it once more", flush=True)
            run.signal_group(signal.Signals[way])
    run.wait()


def kill(victim: str, run: Command, host: Host, seconds: float = math.inf) -> bool:
    """kill -9 as soon as there is something to kill. False: the play, or that time, was over before."""
    end = time.monotonic() + seconds
    while run.running and time.monotonic() < end:
        if victim == "playbook":
            return run.kill() > 0
        for pid in holders(host) if victim == "holder" else modules(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        time.sleep(0.005)
    return False


def modules(host: Host) -> list[int]:
    """Ansible pipes a module into a Python without arguments."""
    return [pid for pid, words in _pythons(host) if words in ([], [""])]


def holders(host: Host) -> list[int]:
    return [pid for pid, words in _pythons(host) if words[:1] == ["-c"] and "holder" in words[1]]


def _pythons(host: Host) -> Iterator[tuple[int, list[str]]]:
    """Machine pid and arguments of the Python processes in the host's PID namespace."""
    init = host.init_pid
    for pid, words in _all() if init else ():
        with contextlib.suppress(OSError):
            if "python3" in words[0] and pid != init and os.path.samefile(*(f"/proc/{p}/ns/pid" for p in (pid, init))):
                yield pid, words[1:]


def _all() -> Iterator[tuple[int, list[str]]]:
    """pid and words of each process."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                yield int(entry.name), (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")


def processes(mark: str) -> dict[int, str]:
    """pid -> command line of the processes of the runs whose mark begins so.

    Not ssh's shared connection: it is for the next command too, and ends by itself.
    """
    found, wanted = {}, f"\0{MARK}={_own()}{mark}".encode()
    for pid, words in _all():
        line = " ".join(words)
        with contextlib.suppress(OSError):
            marked = wanted in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
            if marked and line and not (line.startswith("ssh: ") and "[mux]" in line):
                found[pid] = line
    return found


def end_all() -> None:
    """Commands that this program has started are killed: it ends."""
    for pid in processes(""):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
