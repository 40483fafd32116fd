"""What the programs share that run seeded cases one after another: options, signals, the lab's end, kept logs."""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from lab import Lab, LabError, missing
from lab.names import REPO
from lab.procs import interruptible

from . import ways


def say(text: str) -> None:
    print(text, flush=True)


def options(prog: str, doc: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=doc.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the lab up afterwards")
    return parser


def seeded(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Cases are drawn by a seed and have numbers."""
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="default: a new one")
    parser.add_argument("--only", type=int, nargs="+", help="only the cases of these numbers")
    return parser


def keep(prog: str, case: str, folders: Iterable[Path]) -> Path:
    """Copy what somebody needs who looks for the cause."""
    kept = REPO / "build" / prog / case
    shutil.rmtree(kept, ignore_errors=True)
    for folder in folders:
        shutil.copytree(folder, kept / folder.name, symlinks=True, ignore=sockets)
    return kept


def sockets(folder: str, names: list[str]) -> list[str]:
    """What shutil.copytree leaves out."""
    return [name for name in names if (Path(folder) / name).is_socket()]


def guarded(prog: str, lab: str, keeps: bool, work: Callable[[], int]) -> int:
    """Do the work, with a new lab of this name if it has one, and end all that was started, whatever happens.

    A second Ctrl-C does not disturb that.
    """
    if lab and (lacking := missing()):
        say("The lab cannot run on this machine:\n  " + "\n  ".join(lacking))
        return 2
    interruptible()
    try:
        if lab:
            Lab.down(lab)
        return work()
    except LabError as error:
        say(f"{prog}: the lab failed: {error}")
        return 1
    except KeyboardInterrupt:
        say(f"{prog}: interrupted")
        return 130
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        ways.end_all()
        if lab and not keeps:
            Lab.down(lab)
