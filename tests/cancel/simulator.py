"""The simulator as the place of a case: its nodes, its VMs, what its log says."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demo.plays import Command
from demo_kubevirt.counter import Counter
from kubevirt import plays

from kubesim.journal import CHANGES, REQUESTS
from kubesim.process import Process
from kubesim.remote import Remote

from .case import Bed, Kind, Outcome, Outs

NODES = ("n1", "n2", "n3")
ROLE = plays.ROOT / "docs" / "kubevirt-clusterrole.yml"
HERE = Path(__file__).with_name("node")
# How many times faster than real time: a migration of the second node takes some seconds.
SCALE = 10
ROLL = "virtops.maintenance/roll"
# What may happen to each VM (see the counter), and how it is made.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "live": ("move", {}),
    "slow": ("move", {"migrate_seconds": "40"}),
    "plain": ("stop", {"strategy": "None"}),
    "manual": ("stop", {"strategy": "None", "run_strategy": "Manual"}),
}


def out_in_record(obj: dict[str, Any]) -> list[str]:
    """Hosts that are out by the record of a roll; none if the object is no record."""
    return [name for name, stage in _stages(obj).items() if stage not in ("waiting", "done", "given back")]


def _stages(obj: dict[str, Any]) -> dict[str, str]:
    text = (obj["metadata"].get("annotations") or {}).get(ROLL)
    if obj["kind"] != "Lease" or not text:
        return {}
    return {host["name"]: host["stage"] for host in json.loads(text)["hosts"]}


class CancelCounter(Counter):
    """Also: what became of the nodes, and which VM ran twice."""

    def __init__(self, declared: dict[str, str]) -> None:
        super().__init__(declared)
        self.outs = Outs()
        self.twice: list[str] = []
        self.stages: dict[str, str] = {}  # by the record: only to choose the moment

    def feed(self, line: dict[str, Any]) -> None:
        super().feed(line)
        self.stages = _stages(line["object"]) or self.stages

    def _node(self, name: str, obj: dict[str, Any], before: dict[str, Any] | None) -> None:
        super()._node(name, obj, before)
        self.outs.look(name, obj["status"]["nodeInfo"]["bootID"], bool(obj["spec"].get("unschedulable")))

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


class Rolls(Bed):
    """A simulator of its own, in a process of its own."""

    def __init__(self, directory: Path, server: Process, declared: dict[str, str]) -> None:
        super().__init__(directory, NODES, HERE / "work.yml")
        self._hosts, self._env = ansible(directory, server.kubeconfig("maintenance"), server.kubeconfig())
        self._counter = CancelCounter(declared)
        self.outs = self._counter.outs
        self._changes = (directory / CHANGES).open(encoding="utf-8")
        self._rest = ""

    def argv(self, playbook: str, variables: Mapping[str, Any]) -> list[str]:
        return plays.command(self._hosts, f"virtops.maintenance.{playbook}", **variables)

    def environment(self, _folder: Path) -> Mapping[str, str]:
        return self._env

    def stages(self) -> list[str]:
        return list(self._read().stages.values())

    def _read(self) -> CancelCounter:
        """The counter, fed with what the server logged meanwhile."""
        *lines, self._rest = (self._rest + self._changes.read()).split("\n")
        for line in lines:
            self._counter.feed(json.loads(line))
        return self._counter

    def events(self, _first: Command) -> int:
        return (self._directory / REQUESTS).read_bytes().count(b"\n")

    def worked(self) -> Collection[str]:
        work = Path(self._env["VIRTOPS_WORK"])
        return work.read_text().split() if work.exists() else []

    def look(self, out: Outcome) -> None:
        found, faults = self._read(), out.faults
        found.end()
        faults["lost"] += found.surprises
        faults["twice"] += found.twice
        faults["leftovers"] += found.leftovers()


def ansible(directory: Path, kubeconfig: Path, whole: Path) -> tuple[Path, dict[str, str]]:
    """Inventory and environment of playbooks. `whole`: the kubeconfig of those who reboot nodes."""
    hosts = directory / "hosts.json"
    found = plays.inventory(ansible_connection="simulated_node", ansible_python_interpreter=sys.executable)
    hosts.write_text(json.dumps(found), encoding="utf-8")
    return hosts, {
        **plays.environment(directory, kubeconfig),
        "ANSIBLE_CONNECTION_PLUGINS": str(HERE),
        "ANSIBLE_LIBRARY": str(HERE.with_name("library")),
        "ANSIBLE_PIPELINING": "1",
        "VIRTOPS_SIMULATOR": str(whole),
        "VIRTOPS_WORK": str(directory / "work"),
    }


def fill(cluster: Any) -> dict[str, str]:
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
def bed(_lab: str = "", _fresh: bool = True) -> Iterator[Rolls]:
    with tempfile.TemporaryDirectory(prefix="cancel-") as name:
        directory = Path(name)
        with Process(directory, {"maintenance": ROLE}, "--scale", str(SCALE)) as server:
            yield Rolls(directory, server, fill(Remote(server.kubeconfig())))


REQUESTED = {"draining": 180, "empty": 3, "at work": 30, "rebooting": 10, "checking": 50, "restoring": 40}
ROLLS = Kind("simulator", bed, REQUESTED, "requests", "--platform simulator")
