"""What the programs share that run seeded cases one after another: options, signals, kept logs."""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from lab import LabError
from lab.names import REPO
from lab.procs import interruptible


def say(text: str) -> None:
    print(text, flush=True)


def options(prog: str, doc: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=doc.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the lab up afterwards")
    return parser


def seeded(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of this run. Cases are drawn by a seed and have numbers."""
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument("--only", type=int, nargs="+", help="only the cases of these numbers")
    found = parser.parse_args()
    found.seed = secrets.randbelow(10**6) if found.seed is None else found.seed
    return found


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


def guarded(prog: str, work: Callable[[], int], after: Callable[[], None]) -> int:
    """Do the work, and `after` it whatever happens; a second Ctrl-C does not disturb that."""
    interruptible()
    try:
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
        after()
