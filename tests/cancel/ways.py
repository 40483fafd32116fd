"""How a run of ansible-playbook is cancelled, and which processes of it are left."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from demo.plays import Command

# To all of its process group, as a terminal sends them; its workers are in sessions of their own.
SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
# "runner": ansible-runner is told to end, and cancels the job. "container": the PID namespace, in
# which ansible-playbook runs, ends with all that is in it, so nobody is left to record anything.
WAYS = (*SIGNALS, "runner", "container")
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


def processes(mark: str) -> dict[int, str]:
    """pid -> command line of the processes of the runs whose mark begins so.

    Not ssh's shared connection: it is for the next command too, and ends by itself.
    """
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            marked = f"\0{MARK}={_own()}{mark}".encode() in b"\0" + (entry / "environ").read_bytes()
            words = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if marked and words and not (words.startswith("ssh: ") and "[mux]" in words):
            found[int(entry.name)] = words
    return found


@contextlib.contextmanager
def simulators() -> Iterator[None]:
    """What is started in this block is found by `end_all`, too; a lab must not be."""
    os.environ[MARK] = _own()
    try:
        yield
    finally:
        del os.environ[MARK]


def end_all() -> None:
    """Commands and simulators that this program has started are killed: it ends."""
    for pid in processes(""):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
