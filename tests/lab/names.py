"""Where a lab keeps its things, and the number that makes its names unique.

A lab has a name (VIRTOPS_LAB) and a state folder build/lab/<name>. From the
state folder it gets a number N, and from N its bridge (vlN), its veths
(vlNhK) and its subnet (10.86.N.0/24). The numbers are handed out by a file
under a lock, so that labs of several clones may run side by side.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
RUN = Path("/run/virtops-lab")
NUMBERS = range(1, 251)


class LabError(Exception):
    """Something about the lab itself went wrong; the text says what."""


def lab_name(name: str | None = None) -> str:
    """The lab's name: the given one, VIRTOPS_LAB, or "lab"."""
    name = name or os.environ.get("VIRTOPS_LAB") or "lab"
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
        raise LabError(f"a lab's name is made of a-z, 0-9 and '-': {name!r}")
    return name


def machine_boot() -> str:
    """The boot id of the machine: a record from another boot is stale."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True)
class Paths:
    """Every path of one lab."""

    state: Path

    @classmethod
    def of(cls, name: str | None = None) -> Paths:
        return cls(REPO / "build" / "lab" / lab_name(name))

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def config(self) -> Path:
        return self.state / "lab.json"

    @property
    def inventory(self) -> Path:
        return self.state / "inventory.yml"

    @property
    def lock(self) -> Path:
        return self.state / "lock"

    @property
    def raw(self) -> Path:
        return self.state / "raw"

    @property
    def records(self) -> Path:
        """Records of processes. Not in build/: they must outlive `rm -rf build`."""
        return RUN / hashlib.sha256(str(self.state).encode()).hexdigest()[:12]

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def ssh(self) -> Path:
        return self.state / "ssh"

    @property
    def nbd(self) -> Path:
        return self.state / "nbd"

    @property
    def guests(self) -> Path:
        return self.state / "guests"

    @property
    def image(self) -> Path:
        """The guests' kernel and initramfs, shared by all labs of a clone."""
        return self.state.parent.parent / "lab-guest"

    def host(self, host: str) -> Path:
        return self.state / "hosts" / host

    def serial(self, host: str) -> Path:
        return self.raw / "serial" / host

    @property
    def sockets(self) -> Path:
        """Short paths for unix sockets (108 characters at most)."""
        return self.records / "ssh"


def bridge(number: int) -> str:
    return f"vl{number}"


def veth(number: int, index: int) -> str:
    return f"vl{number}h{index}"


def host_name(place: int) -> str:
    """host-a to host-z, then host-aa and so on."""
    letters = string.ascii_lowercase
    first = letters[place // len(letters) - 1] if place >= len(letters) else ""
    return f"host-{first}{letters[place % len(letters)]}"


def gateway(number: int) -> str:
    return f"10.86.{number}.1"


def address(number: int, index: int) -> str:
    return f"10.86.{number}.{10 + index}"


@contextlib.contextmanager
def lab_lock(paths: Paths) -> Iterator[None]:
    """One up or down at a time per lab."""
    paths.state.mkdir(parents=True, exist_ok=True)
    with open(paths.lock, "w", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _numbers_lock() -> Iterator[None]:
    """Lock RUN itself. It may be removed and made anew by others meanwhile."""
    while True:
        RUN.mkdir(mode=0o755, exist_ok=True)
        try:
            fd = os.open(RUN, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            same = os.fstat(fd).st_ino == RUN.stat().st_ino
        except FileNotFoundError:
            same = False
        if same:
            break
        os.close(fd)
    try:
        yield
    finally:
        os.close(fd)


def _read_numbers() -> dict[int, dict[str, str]]:
    """The table, without what an earlier boot of the machine left in it."""
    try:
        table = json.loads((RUN / "numbers.json").read_text())
    except (FileNotFoundError, ValueError):
        return {}
    boot = machine_boot()
    return {int(n): row for n, row in table.items() if row["boot"] == boot}


def _write_numbers(table: dict[int, dict[str, str]]) -> None:
    temp = RUN / "numbers.json.new"
    temp.write_text(json.dumps(table))
    temp.rename(RUN / "numbers.json")


def _in_use(number: int) -> bool:
    """Whether the machine has something by that bridge's name or in that subnet."""
    routes = Path("/proc/net/fib_trie").read_text()
    return Path(f"/sys/class/net/{bridge(number)}").exists() or f" 10.86.{number}." in routes


def take_number(paths: Paths) -> int:
    """The lab's number: the one it has, or the first that nobody uses."""
    with _numbers_lock():
        table = _read_numbers()
        for number, row in table.items():
            if row["state"] == str(paths.state):
                return number
        for number in NUMBERS:
            if number not in table and not _in_use(number):
                table[number] = {"state": str(paths.state), "boot": machine_boot()}
                _write_numbers(table)
                return number
    raise LabError("no free lab number between 1 and 250")


def number_of(paths: Paths) -> int | None:
    """The lab's number, if it has one since the machine's last boot."""
    if not RUN.exists():
        return None
    with _numbers_lock():
        for number, row in _read_numbers().items():
            if row["state"] == str(paths.state):
                return number
    return None


def give_back_number(paths: Paths) -> None:
    """Forget the lab's number; remove RUN when no lab is left."""
    with _numbers_lock():
        table = {n: row for n, row in _read_numbers().items() if row["state"] != str(paths.state)}
        if table:
            _write_numbers(table)
            return
        (RUN / "numbers.json").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            RUN.rmdir()
