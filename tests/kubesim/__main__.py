"""A simulated cluster as a process of its own, until it is told to end.

    python -m kubesim DIRECTORY [--scale 1] [--version 1.10] [--shared] [--parent PID]
        [--account NAME=CLUSTERROLE.yml] ...

In DIRECTORY: `kubeconfig` (may do everything), `kubeconfig-NAME` for each account, the server's
log (`requests.jsonl`, `changes.jsonl`), and `pid` as soon as it answers. With DIRECTORY/pid of a
process that runs already it refuses. Nodes and VMs are made through the API; with --shared it begins as a
cluster that others use too: five nodes, and VMs of theirs on n4 and n5. With --parent it ends, too, when that
process, which has started it, is gone.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

import yaml

from . import templates
from .cluster import Kubesim
from .journal import Journal

_LOOK = 1.0  # seconds between two looks at the parent


def _version(text: str) -> tuple[int, int]:
    major, _dot, minor = text.partition(".")
    return int(major), int(minor)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kubesim", description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="how much faster than real time")
    parser.add_argument("--version", type=_version, default=(1, 10), help="KubeVirt's (1.10)")
    parser.add_argument("--port", type=int, default=0, help="default: one that is free")
    parser.add_argument("--shared", action="store_true", help="nodes n1 to n5, on the last two VMs of others")
    parser.add_argument("--parent", type=int, metavar="PID", help="end with this process, which starts it")
    parser.add_argument("--account", action="append", default=[], metavar="NAME=FILE")
    return parser


def _running(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text(encoding="ascii")), 0)
    except (OSError, ValueError):
        return False
    return True


def _share(sim: Kubesim) -> None:
    for number in range(1, 6):
        sim.add_node(f"n{number}")
    for node, other in (("n4", "n5"), ("n5", "n4")):
        sim.add("virtualmachines", templates.theirs(f"theirs-{node}", node, other))
    sim.until(lambda: all(sim.running(f"theirs-{node}") for node in ("n4", "n5")))


def main() -> int:
    args = _parser().parse_args()
    args.directory.mkdir(parents=True, exist_ok=True)
    pid_file = args.directory / "pid"
    if _running(pid_file):
        print(f"kubesim: runs already, see {pid_file}", file=sys.stderr)
        return 2
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: over.set())
    with Kubesim(args.scale, args.version, args.port) as sim, Journal(sim, args.directory):
        sim.kubeconfig(args.directory / "kubeconfig")
        for account in args.account:
            name, _is, file = account.partition("=")
            role = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
            sim.api.access.rules[name] = role["rules"]
            sim.kubeconfig(args.directory / f"kubeconfig-{name}", name)
        if args.shared:
            _share(sim)
        pid_file.write_text(str(os.getpid()), encoding="ascii")
        while not over.wait(_LOOK) and args.parent in (None, os.getppid()):
            pass
        pid_file.unlink(missing_ok=True)
        for text in sim.world.broken:
            print(f"kubesim: a controller failed: {text}", file=sys.stderr)
    return 1 if sim.world.broken else 0


if __name__ == "__main__":
    sys.exit(main())
