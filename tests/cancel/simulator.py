"""The simulator as the place of a case: its nodes, its VMs, what its log says."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demo.plays import Command
from demo_kubevirt.counter import Counter
from kubevirt import plays

from kubesim.journal import CHANGES, REQUESTS
from kubesim.process import Process
from kubesim.remote import Remote

from . import ways
from .case import Case, Judgement

NODES = ("n1", "n2", "n3")
ROLE = plays.ROOT / "docs" / "kubevirt-clusterrole.yml"
HERE = Path(__file__).with_name("node")
# How many times faster than real time: a migration of the second node takes some seconds.
SCALE = 10
# Events of a stage, at most: requests, where nobody cancels the roll.
MOST = {"draining": 180, "empty": 3, "at work": 30, "rebooting": 10, "checking": 50, "restoring": 40}
ROLL = "virtops.maintenance/roll"
# What may happen to each VM (see the counter), and how it is made.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "live": ("move", {}),
    "slow": ("move", {"migrate_seconds": "40"}),
    "plain": ("stop", {"strategy": "None"}),
    "manual": ("stop", {"strategy": "None", "run_strategy": "Manual"}),
}


def out_in_record(obj: dict[str, Any]) -> list[str] | None:
    """Hosts that are out by the record of a roll. None: the object is none."""
    stages = _stages(obj)
    if stages is None:
        return None
    return [name for name, stage in stages.items() if stage not in ("waiting", "done", "given back")]


def _stages(obj: dict[str, Any]) -> dict[str, str] | None:
    text = (obj["metadata"].get("annotations") or {}).get(ROLL)
    if obj["kind"] != "Lease" or not text:
        return None
    return {host["name"]: host["stage"] for host in json.loads(text)["hosts"]}


class CancelCounter(Counter):
    """Also: who rebooted, what was done again, which VM ran twice, how many were out at once."""

    def __init__(self, declared: dict[str, str]) -> None:
        super().__init__(declared)
        self.boots: dict[str, list[str]] = {}
        self.given_back: set[str] = set()  # nodes that are done: rebooted, and uncordoned
        self.redone: list[str] = []
        self.twice: list[str] = []
        self.out: set[str] = set()
        self.most_out = 0
        self.stages: dict[str, str] = {}  # by the record: only to choose the moment

    def feed(self, line: dict[str, Any]) -> None:
        super().feed(line)
        self.stages = _stages(line["object"]) or self.stages

    def _node(self, name: str, obj: dict[str, Any], before: dict[str, Any] | None) -> None:
        super()._node(name, obj, before)
        boot = obj["status"]["nodeInfo"]["bootID"]
        boots = self.boots.setdefault(name, [boot])
        if boots[-1] != boot:
            boots.append(boot)
            self._again(name, "rebooted")
        if obj["spec"].get("unschedulable"):
            if name not in self.out:
                self._again(name, "cordoned")
            self.out.add(name)
        elif name in self.out:
            self.out.remove(name)
            if len(boots) > 1:
                self.given_back.add(name)
        self.most_out = max(self.most_out, len(self.out))

    def _again(self, name: str, what: str) -> None:
        if name in self.given_back:
            self.redone.append(f"{name} was given back and is {what} again")

    def _look(self) -> None:
        """Instances of one VM whose guests run."""
        super()._look()
        found: dict[str, set[str]] = {}
        for (kind, _space, _name), obj in self.objects.items():
            labels = obj["metadata"].get("labels") or {}
            uid = labels.get("kubevirt.io/created-by")
            runs = kind == "Pod" and obj["status"].get("phase") == "Running"
            if runs and uid and uid not in self._over:
                notes = obj["metadata"].get("annotations") or {}
                found.setdefault(notes.get("kubevirt.io/domain", ""), set()).add(uid)
        self.twice += [f"{vm} ran twice" for vm, uids in found.items() if len(uids) > 1]


class Bed:
    """A simulator of its own, in a process of its own."""

    def __init__(self, directory: Path, server: Process, declared: dict[str, str]) -> None:
        self.directory = directory
        self.roll = {
            "maintenance_hosts": ",".join(NODES),
            "maintenance_tasks": str(HERE / "work.yml"),
            "drain_allow_stop": True,
        }
        self._hosts = directory / "hosts.json"
        found = plays.inventory(ansible_connection="simulated_node", ansible_python_interpreter=sys.executable)
        self._hosts.write_text(json.dumps(found), encoding="utf-8")
        self._work = directory / "work"
        self._env = {
            **plays.environment(directory, server.kubeconfig("maintenance")),
            "ANSIBLE_CONNECTION_PLUGINS": str(HERE),
            "ANSIBLE_LIBRARY": str(HERE.with_name("library")),
            "ANSIBLE_PIPELINING": "1",
            "VIRTOPS_SIMULATOR": str(server.kubeconfig()),
            "VIRTOPS_WORK": str(self._work),
        }
        self._counter = CancelCounter(declared)
        self._changes = (directory / CHANGES).open(encoding="utf-8")
        self._rest = ""
        self._runs = 0
        self.folders = [directory]

    def start(self, playbook: str, way: str, mark: str, variables: Mapping[str, Any]) -> Command:
        self._runs += 1
        argv = plays.command(self._hosts, f"virtops.maintenance.{playbook}", **variables)
        return ways.start(way, mark, argv, self._env, self.directory / f"run-{self._runs}")

    def _read(self) -> CancelCounter:
        """The counter, fed with what the server logged meanwhile."""
        *lines, self._rest = (self._rest + self._changes.read()).split("\n")
        for line in lines:
            self._counter.feed(json.loads(line))
        return self._counter

    def stages(self) -> list[str]:
        return list(self._read().stages.values())

    def events(self) -> int:
        return (self.directory / REQUESTS).read_bytes().count(b"\n")

    def most_out(self) -> int:
        return self._read().most_out

    def foreign(self) -> list[str]:
        return []

    def judge(self, case: Case, judgement: Judgement) -> None:
        found, faults = self._read(), judgement.faults
        found.end()
        faults["lost"] += found.surprises
        faults["twice"] += found.twice
        faults["leftovers"] += found.leftovers()
        faults["rebooted_twice"] += [
            f"{node} was rebooted {len(boots) - 1} times" for node, boots in found.boots.items() if len(boots) > 2
        ]
        faults["redone"] += found.redone
        work = self._work.read_text().split() if self._work.exists() else []
        if case.then == "again":
            judgement.wrong += [
                f"{node} was rebooted {len(found.boots[node]) - 1} times, worked on {work.count(node)} times"
                for node in NODES
                if len(found.boots[node]) < 2 or not work.count(node)
            ]
        if found.most_out > 1:
            judgement.wrong.append(f"{found.most_out} nodes were out at once")


def fill(cluster: Remote) -> dict[str, str]:
    """Nodes and VMs; what may happen to each VM."""
    declared = {}
    for node in NODES:
        cluster.add_node(node)
    for node in NODES:
        for kind, (may, how) in KINDS.items():
            declared[f"{node}-{kind}"] = may
            cluster.add_vm(f"{node}-{kind}", node, wait=False, **{"migrate_seconds": "5", **how})
    for name in declared:
        cluster.until(lambda name=name: cluster.running(name))
    return declared


@contextmanager
def bed() -> Iterator[Bed]:
    with tempfile.TemporaryDirectory(prefix="cancel-") as name:
        directory = Path(name)
        options = ("--scale", str(SCALE))
        with Process(directory, {"maintenance": ROLE}, *options) as server:
            declared = fill(Remote(server.kubeconfig()))
            yield Bed(directory, server, declared)


__all__ = ["NODES", "Bed", "bed"]
