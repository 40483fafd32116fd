"""A simulated cluster as the place of a case, and the judgement by the log of its API server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cancel.simulator import HERE as NODE
from cancel.simulator import NODES, ROLE, CancelCounter, ansible, fill
from kubevirt import plays

from chaos.acts import ACTS
from chaos.case import Ground, Outcome, Place
from kubesim import Kubesim
from kubesim.journal import CHANGES, REQUESTS, Journal
from kubesim.kinds import VMIS
from kubesim.remote import Remote

SCALE = 10
SETTLES = 8.0  # s: a reboot, and what follows of it, at SCALE


class Cluster(Ground):
    """See acts.Victim."""

    nodes = NODES

    def __init__(self, sim: Kubesim, directory: Path) -> None:
        super().__init__(directory)
        self.roll = {"maintenance_hosts": ",".join(NODES), "maintenance_tasks": str(NODE / "work.yml")}
        self.sim = sim
        self.remote = Remote(sim.kubeconfig(directory / "kubeconfig"))
        self.open = False
        maintenance = sim.kubeconfig(directory / "kubeconfig-maintenance", "maintenance")
        self._hosts, self._env = ansible(directory, maintenance, directory / "kubeconfig")
        self.declared = fill(sim)

    def argv(self, playbook: str, variables: Mapping[str, Any]) -> list[str]:
        return plays.command(self._hosts, f"virtops.maintenance.{playbook}", drain_allow_stop=True, **variables)

    def environment(self, _folder: Path) -> Mapping[str, str]:
        return self._env

    def events(self) -> int:
        return (self.directory / REQUESTS).read_bytes().count(b"\n")

    def settle(self) -> None:
        time.sleep(SETTLES)

    def there(self, node: str) -> list[str]:
        found = []
        for vmi in () if self.open else self.sim.all(VMIS):
            name, status = vmi["metadata"]["name"], vmi.get("status") or {}
            there = status.get("nodeName") == node and status.get("phase") not in ("Succeeded", "Failed")
            found += [name] if there and name not in self.excused else []
        return found

    def judge(self, out: Outcome) -> None:
        counter = CancelCounter(self.declared)
        for line in (self.directory / CHANGES).read_text(encoding="utf-8").splitlines():
            counter.feed(json.loads(line))
        counter.end()
        faults = out.faults
        faults["lost"] += [text for text in counter.surprises if text.split()[0] not in self.excused]
        vmis = self.sim.all(VMIS)
        running = {o["metadata"]["name"] for o in vmis if (o.get("status") or {}).get("phase") == "Running"}
        faults["lost"] += [
            f"{name} does not run at the end"
            for name in sorted(self.declared)
            if name not in running and name not in self.gone and name in self.excused
        ]
        faults["twice"] += counter.twice
        faults["left_behind"] += [text for text in counter.leftovers() if "node.kubernetes.io" not in text]


@contextmanager
def bed(directory: Path) -> Iterator[Cluster]:
    import yaml

    with Kubesim(scale=SCALE) as sim, Journal(sim, directory):
        sim.api.access.rules["maintenance"] = yaml.safe_load(ROLE.read_text(encoding="utf-8"))["rules"]
        made = Cluster(sim, directory)
        try:
            yield made
        finally:
            made.end()


# Events: requests to its API server.
PLACE = Place("simulator", ACTS, ("drain", "drain", "drain", "roll"), {"drain": 100, "roll": 100}, bed)
