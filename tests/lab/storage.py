"""Shared disks: one nbdkit outside the hosts serves every file of a folder.

The export's name is the file's name. A disk is there as soon as its file is,
and any number of clients may have it open, so that it moves without copying.
"""

from __future__ import annotations

import socket

from . import names, procs
from .names import Paths

PORT = 10809


def up(paths: Paths, number: int) -> None:
    """Start the server, or leave it as it is."""
    paths.nbd.mkdir(parents=True, exist_ok=True)
    record = paths.records / "nbd"
    if procs.alive(record) is None:
        procs.start(
            record,
            [
                "nbdkit",
                "--foreground",
                "--ipaddr",
                names.gateway(number),
                "--port",
                str(PORT),
                "file",
                f"dir={paths.nbd}",
            ],
            paths.logs / "nbdkit.log",
        )
    if not procs.wait_for(lambda: _answers(number)):
        raise names.LabError(f"nbdkit does not answer; see {paths.logs / 'nbdkit.log'}")


def _answers(number: int) -> bool:
    try:
        with socket.create_connection((names.gateway(number), PORT), timeout=1):
            return True
    except OSError:
        return False


def create(paths: Paths, name: str, size_mib: int) -> None:
    """Make an empty disk; one that exists is left alone."""
    path = paths.nbd / name
    if not path.exists():
        with open(path, "wb") as handle:
            handle.truncate(size_mib << 20)


def remove(paths: Paths, name: str) -> None:
    (paths.nbd / name).unlink(missing_ok=True)


def luks(path: object, passphrase: str, size_mib: int) -> str:
    """A shell command that makes an encrypted disk.

    qemu-img times itself first, and gives up where the kernel counts no tick for its thread
    ("Unable to get accurate CPU usage"). That is chance: it is asked again.
    """
    make = (
        f"qemu-img create -q -f luks --object secret,id=key,data={passphrase}"
        f" -o key-secret=key,iter-time=10 {path} {size_mib}M"
    )
    return f"for again in $(seq 50); do {make} && exit; done; exit 1"
