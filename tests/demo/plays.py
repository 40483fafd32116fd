"""Running the collection's playbooks against a lab, as a user would, from outside the hosts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import Lab
from lab.procs import PATIENCE, start_time

CONFIG = Path(__file__).with_name("ansible.cfg")
RESULTS = "results.jsonl"  # in the folder of a run
# Where the hosts' clocks and certificates are no matter: to read them by ssh takes over a second.
UNMEASURED = {"preflight_measure": False}
ANSIBLE_PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"


@dataclass
class Ended:
    """A run that is over. `drains`: what each drain or migration returned, with `host`."""

    code: int
    text: str
    seconds: float
    drains: list[dict[str, Any]] = field(default_factory=list)

    @property
    def last(self) -> dict[str, Any]:
        """What the last of them returned; empty if there was none."""
        return self.drains[-1] if self.drains else {}

    def vm(self, name: str) -> dict[str, Any]:
        """The row of a VM in the last result."""
        return next(row for row in self.last["vms"] if row["name"] == name)


class Command:
    """A program that is under way, in a session of its own. Its output goes into a file."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        self.folder = folder
        self.output = folder / "output"
        self.argv = [*argv]
        self.began = time.monotonic()
        with open(self.output, "wb") as stream:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd=folder,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def text(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    def wait(self, timeout: float = PATIENCE, show: Callable[[str], None] | None = None) -> Ended:
        """Wait for its end; `show` gets each line as it comes. Past the time it is killed.

        `timeout`: seconds from this call on, however long the play has been running.
        """
        end = time.monotonic() + timeout
        with open(self.output, encoding="utf-8", errors="replace") as stream:
            rest = ""
            while True:
                running = self.running
                rest += stream.read()
                *lines, rest = rest.split("\n")
                for line in lines if show else ():
                    show(line)
                if not running:
                    break
                if time.monotonic() > end:
                    self.kill()
                    raise TimeoutError(f"{self.argv[-1]}: not over after {timeout:.0f} s")
                time.sleep(0.05)
        return Ended(self.process.returncode, self.text, time.monotonic() - self.began, self._read())

    def _read(self) -> list[dict[str, Any]]:
        """What its drains returned, where something noted that."""
        results = self.folder / RESULTS
        return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []

    def signal_group(self, number: signal.Signals) -> None:
        """As a terminal sends it; its workers are in sessions of their own, and do not get it."""
        os.killpg(self.process.pid, number)

    def kill(self) -> int:
        """kill -9 to ansible-playbook and all that it started here. How many there were.

        Its workers are in sessions of their own, so a kill of the process group would miss them.
        """
        family = _family(self.process.pid)
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        return len(family)


class Play(Command):
    """One run of ansible-playbook against a lab."""

    def __init__(self, lab: Lab, playbook: str, variables: Mapping[str, Any], *words: str) -> None:
        folder = Path(tempfile.mkdtemp(prefix="play-", dir=_made(lab.paths.logs)))
        super().__init__(command(lab, playbook, variables, *words), environment(folder / RESULTS), folder)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class MiddleOfDrain:
    """Fed with the lines of a roll: this host is out. Its drain has begun, and it is not brought back."""

    def __init__(self, host: str) -> None:
        name = re.escape(host)
        self._out = re.compile(rf"^\S+ {name} \d+/\d+  |^\S+ \S+ waits: .*\b{name} \(draining ")

    def __call__(self, line: str) -> bool:
        return self._out.match(line) is not None


def command(lab: Lab, playbook: str, variables: Mapping[str, Any], *words: str) -> list[str]:
    """What a person would type. `playbook`: drain, restore, ... or the path of a file."""
    name = playbook if playbook.endswith(".yml") else f"virtops.maintenance.{playbook}"
    extra = {"maintenance_fleet": list(lab.hosts), **variables}
    inventory = ["-i", str(lab.paths.inventory)]
    return [str(ANSIBLE_PLAYBOOK), *inventory, "-e", json.dumps(extra), *words, name]


def environment(results: Path) -> dict[str, str]:
    """As small as can be: no settings of the user's, only the collection of this tree."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    env.pop("PYTHONPATH", None)
    return {
        **env,
        "ANSIBLE_CONFIG": str(CONFIG),
        "VIRTOPS_RESULTS": str(results),
        "PATH": f"{ANSIBLE_PLAYBOOK.parent}:{env.get('PATH', '/usr/bin:/bin')}",
        "LC_ALL": "C.UTF-8",
    }


def run(lab: Lab, playbook: str, variables: Mapping[str, Any], *words: str) -> Ended:
    """Run it to its end, quietly. Killed if this program is interrupted."""
    return watch(Play(lab, playbook, variables, *words))


def watch(play: Command, show: Callable[[str], None] | None = None, timeout: float = PATIENCE) -> Ended:
    """Wait for it; whatever ends the waiting ends the play too."""
    try:
        return play.wait(timeout, show)
    finally:
        if play.running:
            play.kill()


def _family(pid: int) -> list[int]:
    """The process and all its descendants, the oldest first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        one = todo.pop(0)
        if start_time(one) is not None:
            found.append(one)
        todo += children.get(one, [])
    return found
