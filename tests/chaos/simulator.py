"""One case on the simulator: a drain and a restore, or a roll; acts at seeded moments; the judgement from outside.

lost                a VM that runs no more, or was stopped, and no act did that
twice               a VM that ran at two places at once
false_certificates  a drain that ended well, and a VM was on its node
false_blocked       the same command failed, with everything healed and nothing changed by hand since
unfinished          a command that had no end, or that did not end well in `TRIES` goes
unexplained         a command that failed in other words than a reason of docs/reasons.md
left_behind         a mark, a migration, a record, a cordon or a lock at the end
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cancel import ways
from cancel.simulator import HERE as NODE
from cancel.simulator import KINDS, NODES, ROLE, CancelCounter
from demo.plays import Command
from kubevirt import plays

from chaos.acts import ACTS
from kubesim import Kubesim
from kubesim.journal import CHANGES, REQUESTS, Journal
from kubesim.kinds import VMIS
from kubesim.remote import Remote, RemoteError

WORDS = ("lost", "twice", "false_certificates", "false_blocked", "unfinished", "unexplained", "left_behind")
SCALE = 10
LONGEST = 600.0  # s of one command, on a busy machine: it has deadlines of its own
TRIES = 4
SETTLES = 8.0  # s: a reboot, and what follows of it, at SCALE
MOST = 100  # events of a command, at most, before the first act
_REASONS = plays.ROOT / "docs" / "reasons.md"
_PLAIN = r"aborted|cannot be reached|in use|interrupted|does not answer|took over|Superseded"


@dataclass(frozen=True)
class Case:
    """`acts`: what happens, and after how many events of the first command."""

    seed: int
    number: int
    roll: bool
    acts: tuple[tuple[int, str], ...]

    def __str__(self) -> str:
        what = ", ".join(f"{act} at {events}" for events, act in self.acts)
        return f"simulator {self.number:2}: {'roll' if self.roll else 'drain and restore'}; {what}"


def draw(seed: int, number: int) -> Case:
    dice = random.Random(f"{seed}/simulator/{number}")
    names = sorted(ACTS)
    first = names[(number - 1) % len(names)]  # each of them comes in turn, others beside it
    acts = [first, *(dice.choice(names) for _more in range(dice.choice((0, 1, 1, 2))))]
    return Case(seed, number, number % 4 == 0, tuple(sorted((dice.randrange(5, MOST), act) for act in acts)))


@dataclass
class Outcome:
    case: Case
    did: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    faults: dict[str, list[str]] = field(default_factory=lambda: {word: [] for word in WORDS})
    seconds: float = 0.0
    directory: str = ""

    @property
    def ok(self) -> bool:
        return not any(self.faults.values())


class Cluster:
    """See acts.Victim."""

    nodes = NODES

    def __init__(self, sim: Kubesim, directory: Path) -> None:
        self.sim, self.directory = sim, directory
        self.remote = Remote(sim.kubeconfig(directory / "kubeconfig"))
        self.excused: set[str] = set()
        self.gone: set[str] = set()
        self.declared = {f"{node}-{kind}": KINDS[kind][0] for node in NODES for kind in KINDS}
        self._undo: list[tuple[threading.Timer, Callable[[], Any]]] = []
        hosts = directory / "hosts.json"
        found = plays.inventory(ansible_connection="simulated_node", ansible_python_interpreter=sys.executable)
        hosts.write_text(json.dumps(found), encoding="utf-8")
        self._hosts, self._mark, self._runs = hosts, f"chaos-{directory.name}", 0
        self._env = {
            **plays.environment(directory, sim.kubeconfig(directory / "kubeconfig-maintenance", "maintenance")),
            "ANSIBLE_CONNECTION_PLUGINS": str(NODE),
            "ANSIBLE_LIBRARY": str(NODE.with_name("library")),
            "ANSIBLE_PIPELINING": "1",
            "VIRTOPS_SIMULATOR": str(directory / "kubeconfig"),
            "VIRTOPS_WORK": str(directory / "work"),
        }
        self.current: Command | None = None
        self.second: Command | None = None

    def fill(self) -> None:
        for node in NODES:
            self.sim.add_node(node)
        for node in NODES:
            for kind, (_may, how) in KINDS.items():
                self.sim.add_vm(f"{node}-{kind}", node, wait=False, **{"migrate_seconds": "5", **how})
        self.sim.until(lambda: all(self.sim.running(name) for name in self.declared))

    def start(self, playbook: str, **variables: Any) -> Command:
        self._runs += 1
        argv = plays.command(self._hosts, f"virtops.maintenance.{playbook}", drain_allow_stop=True, **variables)
        return ways.start("", self._mark, argv, self._env, self.directory / f"run-{self._runs}")

    def events(self) -> int:
        return (self.directory / REQUESTS).read_bytes().count(b"\n")

    # What acts ask of it

    def later(self, seconds: float, undo: Callable[[], Any]) -> None:
        timer = threading.Timer(seconds, undo)
        timer.daemon = True
        self._undo.append((timer, undo))
        timer.start()

    def kill(self, all_of_it: bool, dice: random.Random) -> str:
        run = self.current
        if run is None or not run.running:
            return "there is no playbook to kill"
        if all_of_it:
            return f"kill -9 of the playbook, {run.kill()} processes"
        found = sorted(pid for pid, words in ways.processes(self._mark).items() if "mux" not in words)
        with suppress(ProcessLookupError, IndexError):
            os.kill(dice.choice(found), signal.SIGKILL)
        return "kill -9 of one process of the playbook"

    def beside(self) -> None:
        if self.second is None:
            self.second = self.start("drain", maintenance_hosts=self.nodes[1])

    def heal(self) -> None:
        """What was done on purpose to the machines ends; what owners did stays."""
        for timer, undo in self._undo:
            if timer.is_alive():
                timer.cancel()
                undo()
        self._undo.clear()
        time.sleep(SETTLES)

    def end(self) -> None:
        for timer, _undo in self._undo:
            timer.cancel()
        for pid in ways.processes(self._mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def reasons() -> frozenset[str]:
    return frozenset(re.findall(r"^\| `(\w+)` ", _REASONS.read_text(encoding="utf-8"), re.MULTILINE))


class Runner:
    """Gives the commands of a case, and notes what went wrong."""

    def __init__(self, on: Cluster, out: Outcome) -> None:
        self.on, self.out = on, out
        self._known = reasons()
        self._left = list(out.case.acts)
        self._dice = random.Random(f"{out.case.seed}/{out.case.number}/acts")

    def run(self) -> None:
        if self.out.case.roll:
            work = str(NODE / "work.yml")
            self._until_good("rolling_maintenance", maintenance_hosts=",".join(NODES), maintenance_tasks=work)
        else:
            if self._until_good("drain", maintenance_hosts=NODES[0]):
                self._certified(NODES[0])
            self._until_good("restore", maintenance_hosts=NODES[0])
        if self.on.second is not None:
            self._wait(self.on.second)
            self._until_good("restore", maintenance_hosts=NODES[1])

    def _until_good(self, playbook: str, **variables: Any) -> bool:
        """The command, and the same again until it ends well; from the second time on with everything healed."""
        for go in range(TRIES):
            self.on.current = command = self.on.start(playbook, **variables)
            since = self.on.events()
            while command.running and self._left:
                if self.on.events() - since >= self._left[0][0]:
                    self._act()
                time.sleep(0.01)
            code = self._wait(command)
            if code == 0:
                return True
            self._explained(playbook, command)
            if go >= 2:
                self.out.faults["false_blocked"].append(f"{playbook}, healed: {_last(command.text)}")
            while self._left:
                self._act()
            self.on.heal()
        self.out.faults["unfinished"].append(f"{playbook} did not end well in {TRIES} goes")
        return False

    def _act(self) -> None:
        _events, name = self._left.pop(0)
        try:
            self.out.did.append(ACTS[name](self.on, self._dice))
        except (RemoteError, OSError) as exc:
            self.out.did.append(f"{name} was refused: {str(exc)[:80]}")
        except Exception as exc:  # urllib3, while the API is away
            self.out.did.append(f"{name} did not come through: {type(exc).__name__}")

    def _wait(self, command: Command) -> int:
        try:
            ended = command.wait(LONGEST)
        except TimeoutError as exc:
            self.out.faults["unfinished"].append(f"{exc}: {_last(command.text)}")
            self.out.codes.append("no end")
            return 1
        self.out.codes.append(str(ended.code))
        return ended.code

    def _explained(self, playbook: str, command: Command) -> None:
        text = command.text
        if command.process.returncode < 0 or any(re.search(rf"\b{code}\b", text) for code in self._known):
            return
        if not re.search(_PLAIN, text):
            self.out.faults["unexplained"].append(f"{playbook}: {_last(text)}")

    def _certified(self, node: str) -> None:
        """The drain has ended well just now. What was there by its end is there still; what came later is excused."""
        for vmi in self.on.sim.all(VMIS):
            name, status = vmi["metadata"]["name"], vmi.get("status") or {}
            there = status.get("nodeName") == node and status.get("phase") not in ("Succeeded", "Failed")
            if there and name not in self.on.excused and not any("uncordons" in did for did in self.out.did):
                self.out.faults["false_certificates"].append(f"{name} is on {node}")


def _last(text: str) -> str:
    return " | ".join(line for line in text.splitlines() if line.strip())[-600:]


def judge(on: Cluster, out: Outcome) -> None:
    counter = CancelCounter(on.declared)
    for line in (on.directory / CHANGES).read_text(encoding="utf-8").splitlines():
        counter.feed(json.loads(line))
    counter.end()
    faults = out.faults
    faults["lost"] += [text for text in counter.surprises if text.split()[0] not in on.excused]
    running = {o["metadata"]["name"] for o in on.sim.all(VMIS) if (o.get("status") or {}).get("phase") == "Running"}
    faults["lost"] += [
        f"{name} does not run at the end"
        for name in sorted(on.declared)
        if name not in running and name not in on.gone and name in on.excused
    ]
    faults["twice"] += counter.twice
    faults["left_behind"] += [text for text in counter.leftovers() if "node.kubernetes.io" not in text]


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    import yaml

    with Kubesim(scale=SCALE) as sim, Journal(sim, directory):
        sim.api.access.rules["maintenance"] = yaml.safe_load(ROLE.read_text(encoding="utf-8"))["rules"]
        made = Cluster(sim, directory)
        made.fill()
        try:
            yield made
        finally:
            made.end()


def run(case: Case, directory: Path) -> Outcome:
    out, began = Outcome(case, directory=str(directory)), time.monotonic()
    with cluster(directory) as made:
        Runner(made, out).run()
        made.heal()
        judge(made, out)
    out.seconds = time.monotonic() - began
    return out
