"""The lab's command line: python3 -m lab COMMAND, with tests/ on PYTHONPATH."""

from __future__ import annotations

import argparse
import os
import sys

from . import checker
from .fleet import Lab
from .guest import GuestSpec
from .names import LabError, Paths
from .needs import missing
from .release import RELEASES


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m lab", description=__doc__)
    parser.add_argument("--lab", help="the lab's name (default: VIRTOPS_LAB, or lab)")
    sub = parser.add_subparsers(dest="command", required=True)
    up = sub.add_parser("up", help="bring the lab up, or check and repair it")
    up.add_argument("--hosts", type=int, help="how many hosts (default 3)")
    up.add_argument(
        "--memory", action="append", default=[], metavar="HOST=MIB", help="declared capacity of a host (default 6144)"
    )
    up.add_argument(
        "--release",
        action="append",
        default=[],
        metavar="HOST=RELEASE",
        help=f"of a host that is made now: {' or '.join(RELEASES)} (default: VIRTOPS_RELEASE, or own, the machine's)",
    )
    sub.add_parser("down", help="end and remove everything but the logs")
    sub.add_parser("status", help="what runs, and where the guests are")
    sub.add_parser("missing", help="what this machine lacks; ends with 1 if anything")
    run = sub.add_parser("exec", help="run a command on a host")
    run.add_argument("host")
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    ssh = sub.add_parser("ssh", help="the same by ssh")
    ssh.add_argument("host")
    ssh.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    shape = sub.add_parser("shape", help="limit a host's link")
    shape.add_argument("host")
    shape.add_argument("mbit", type=float)
    shape.add_argument("--out", type=float, help="another limit for what leaves the host")
    for name, text in (
        ("unshape", "take the limit away"),
        ("unplug", "pull the cable"),
        ("plug", "put the cable in"),
        ("kill", "power loss; stays down"),
        ("power-on", "start a host that is down"),
        ("reboot", "reboot and wait until it is back"),
    ):
        sub.add_parser(name, help=text).add_argument("host")
    _guest_parser(sub.add_parser("guest", help="define, start, stop, remove guests"))
    announce = sub.add_parser("announce", help="tell the checker that a guest is meant to stop")
    announce.add_argument("name")
    announce.add_argument("text", nargs="?", default="by hand")
    check = sub.add_parser("check", help="the verdict of a raw log")
    check.add_argument("words", nargs=argparse.REMAINDER, metavar="DIR [OPTIONS]")
    return parser


def _guest_parser(parser: argparse.ArgumentParser) -> None:
    sub = parser.add_subparsers(dest="action", required=True)
    run = sub.add_parser("run", help="define and start")
    run.add_argument("host")
    run.add_argument("name")
    run.add_argument("--memory", type=int, default=96)
    run.add_argument("--fill", type=int, default=16)
    run.add_argument("--dirty", type=float, default=0)
    run.add_argument("--disk", action="append", default=[], metavar="shared:MIB|local:MIB")
    run.add_argument("--network", action="append", default=[])
    run.add_argument("--strategy")
    run.add_argument("--transient", action="store_true")
    run.add_argument("--autostart", action="store_true")
    run.add_argument("--noacpi", action="store_true")
    for name in ("start", "shutdown", "destroy"):
        one = sub.add_parser(name)
        one.add_argument("host")
        one.add_argument("name")
    sub.add_parser("remove").add_argument("name")
    sub.add_parser("wait", help="until all of them tick").add_argument("name", nargs="+")


def _run_guest(lab: Lab, args: argparse.Namespace) -> None:
    if args.action == "run":
        disks = [(kind, int(size)) for kind, _colon, size in (d.partition(":") for d in args.disk)]
        lab.run(
            args.host,
            GuestSpec(
                args.name,
                memory_mib=args.memory,
                fill_mib=args.fill,
                dirty_mib_s=args.dirty,
                disks=disks,
                networks=args.network,
                strategy=args.strategy,
                persistent=not args.transient,
                autostart=args.autostart,
                noacpi=args.noacpi,
            ),
        )
    elif args.action == "start":
        lab.start(args.host, args.name)
    elif args.action == "shutdown":
        lab.shutdown_guest(args.host, args.name)
    elif args.action == "destroy":
        lab.destroy_guest(args.host, args.name)
    elif args.action == "remove":
        lab.remove_guest(args.name)
    else:
        lab.wait_ticking(args.name)


def _status(lab: Lab) -> int:
    state = lab.status()
    for part, word in state.items():
        print(f"{part:12} {word}")
    for name, places in sorted(lab.where().items()):
        print(f"{name:12} " + "  ".join(f"{host}: {word}" for host, word in places))
    return 0 if all("DOWN" not in word for word in state.values()) else 1


def _on_host(lab: Lab, args: argparse.Namespace) -> None:
    """Become the command; does not return."""
    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    host = lab.host(args.host)
    # One word is a line for the shell, several are a command as it stands.
    command = words[0] if len(words) == 1 else words
    argv = host.argv(command) if args.command == "exec" else host.ssh_argv(command)
    os.execvp(argv[0], argv)


def _run(args: argparse.Namespace) -> int:
    if args.command == "check":
        return checker.main(args.words)
    lacking = missing()
    if args.command == "missing" or (args.command == "up" and lacking):
        print("\n".join(lacking) or "nothing is missing")
        return 1 if lacking else 0
    if args.command == "up":
        memory = {host: int(mib) for host, _is, mib in (m.partition("=") for m in args.memory)}
        releases = {host: word for host, _is, word in (r.partition("=") for r in args.release)}
        lab = Lab.up(args.lab, args.hosts, memory, releases)
        print(f"lab {lab.paths.name} is up: " + ", ".join(f"{host.name} {host.address}" for host in lab.hosts.values()))
        print(f"inventory: {lab.paths.inventory}")
        return 0
    if args.command == "down":
        Lab.down(args.lab)
        print(f"lab {Paths.of(args.lab).name} is down")
        return 0
    lab = Lab.load(args.lab)
    if args.command == "status":
        return _status(lab)
    if args.command in ("exec", "ssh"):
        _on_host(lab, args)
    if args.command == "shape":
        lab.shape(args.host, args.mbit, args.out)
    elif args.command == "announce":
        lab.announce_stop(args.name, args.text)
    elif args.command == "guest":
        _run_guest(lab, args)
    else:
        getattr(lab, args.command.replace("-", "_"))(args.host)
    return 0


def main(argv: list[str] | None = None) -> int:
    try:
        return _run(_parser().parse_args(argv))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
