"""Running commands, and the lab's long-living processes outside its hosts.

Such a process is known by a record: pid, start time and the machine's boot id.
It writes the record itself before it becomes the program (launcher.py), so
there is no moment in which it runs unrecorded. Only what a record names is
ever ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from .names import LabError, machine_boot

HERE = Path(__file__).resolve().parent
# Seconds until a wait for what must come is given up: a hang is all that this is for. What comes
# is waited for no longer than it takes; a shorter time would only fail on a busy machine.
PATIENCE = 600
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def interruptible() -> None:
    """SIGTERM, which `timeout` sends, and SIGHUP end this program as Ctrl-C does: so it ends what it has started."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)


def _interrupted(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def run(
    argv: Sequence[str], check: bool = True, stdin: str | None = None, timeout: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    """Run a command, text in and out; a failure becomes a LabError that shows it."""
    done = subprocess.run(
        list(argv),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        errors="replace",
        env=child_environment(),
    )
    if check and done.returncode != 0:
        raise LabError(f"{' '.join(argv)}\nended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done


def start_time(pid: int) -> str | None:
    """Start time of a running process; None if it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def write_record(record: Path, pid: int) -> None:
    data = {"pid": pid, "start": start_time(pid), "boot": machine_boot()}
    temp = record.with_suffix(".new")
    temp.write_text(json.dumps(data))
    temp.rename(record)


def alive(record: Path) -> int | None:
    """The pid of the recorded process if exactly that process still runs."""
    try:
        data = json.loads(record.read_text())
    except (FileNotFoundError, ValueError):
        return None
    if data["boot"] != machine_boot() or data["start"] is None:
        return None
    return data["pid"] if start_time(data["pid"]) == data["start"] else None


def start(record: Path, argv: Sequence[str], log: Path) -> int:
    """Start a long-living process and return its pid. It outlives the caller."""
    record.parent.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    _launch(record, log, argv)
    pid = alive(record)
    if pid is None:
        raise LabError(f"{argv[0]} ended at once; see {log}")
    return pid


def _launch(record: Path, log: Path, argv: Sequence[str]) -> None:
    # No pipes here: the child would keep them open and we would wait for ever.
    done = subprocess.run(
        [sys.executable, "-m", "lab.launcher", str(record), str(log), *argv],
        stdin=subprocess.DEVNULL,
        env=child_environment(),
        check=False,
        timeout=PATIENCE,
    )
    if done.returncode != 0:
        raise LabError(f"{argv[0]} could not be started; see {log}")


def stop(record: Path, sig: int = signal.SIGKILL, timeout: float = 10) -> bool:
    """End the recorded process, if it runs, and drop the record."""
    pid = alive(record)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sig)
        kill = sig == signal.SIGKILL
        if not wait_for(lambda: alive(record) is None, PATIENCE if kill else timeout):
            if kill:
                raise LabError(f"process {pid} ({record.stem}) does not end")
            return stop(record)
    record.unlink(missing_ok=True)
    return pid is not None


def wait_for(condition: Callable[[], bool], timeout: float | None = None, pause: float = 0.02) -> bool:
    """Look until the condition holds; False when the time is up. With a fault planted a hang is what is expected, and
    is short (VIRTOPS_PATIENCE)."""
    if timeout is None:
        timeout = float(os.environ.get("VIRTOPS_PATIENCE", PATIENCE))
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def child_environment() -> dict[str, str]:
    """Environment for all children: they find this package, and the system's tools."""
    env = dict(os.environ)
    env["PATH"] = f"{env.get('PATH', '')}:{SYSTEM_PATH}".lstrip(":")
    env["PYTHONPATH"] = str(HERE.parent)
    return env
