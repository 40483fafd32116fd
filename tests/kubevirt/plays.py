"""Playbooks as a user runs them, against the simulator; and what they wrote there."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from kubesim import Kubesim
from kubesim.patience import patience

ROOT = Path(__file__).resolve().parents[2]
# Seconds that a playbook may take: for a hang alone. A roll of 35 s takes over 180 with an eighth
# of a core. With a fault planted, where patience is short, it is not given up before either.
LONGEST = max(180.0, patience())
CONFIG = ROOT / "tests" / "callback" / "ansible.cfg"
_TOOL = str(Path(sys.executable).with_name("ansible-playbook"))
# The Python that modules run on: `make matrix` has another one than the controller's.
_OTHER_PYTHON = os.environ.get("VIRTOPS_MODULES_PYTHON", "")
MODULES_PYTHON = _OTHER_PYTHON or sys.executable


def inventory(**variables: str) -> dict[str, Any]:
    """The three nodes. `variables`: of all of them."""
    hosts: dict[str, Any] = {name: {} for name in ("n1", "n2", "n3")}
    return {"all": {"hosts": hosts, "vars": {"maintenance_platform": "kubevirt", **variables}}}


def environment(home: Path, kubeconfig: Path) -> dict[str, str]:
    return {
        **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
        # not in the configuration: ansible-runner names its own folder here, which would hide that
        "ANSIBLE_CALLBACK_PLUGINS": str(CONFIG.parent),
        "ANSIBLE_CONFIG": str(CONFIG),
        "ANSIBLE_HOME": str(home / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "K8S_AUTH_KUBECONFIG": str(kubeconfig),
    }


def command(hosts: Path, name: str, *more: str, **variables: Any) -> list[str]:
    """What a person would type. `hosts`: the inventory."""
    given = {"ansible_python_interpreter": _OTHER_PYTHON, **variables} if _OTHER_PYTHON else variables
    return [_TOOL, "-i", str(hosts), "-e", json.dumps(given), *more, name]


class Plays:
    """Runs playbooks with an inventory of the three nodes."""

    def __init__(self, sim: Kubesim, tmp: Path) -> None:
        self._tmp = tmp
        self._started: list[subprocess.Popen[bytes]] = []
        kubeconfig = sim.kubeconfig(tmp / "kubeconfig", "maintenance")
        self._hosts = tmp / "hosts.json"
        self._hosts.write_text(json.dumps(inventory()), encoding="utf-8")
        self._env = environment(tmp, kubeconfig)

    def knows_only(self, *nodes: str) -> None:
        """The inventory has these nodes, and the cluster others beside them."""
        found = inventory()
        found["all"]["hosts"] = {node: {} for node in nodes}
        self._hosts.write_text(json.dumps(found), encoding="utf-8")

    def run(self, name: str, *more: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        return self._run(command(self._hosts, name, *more, **variables))

    def typed(self, line: str) -> subprocess.CompletedProcess[str]:
        """A command as a user types it, in the folder of the inventory."""
        _name, *words = shlex.split(line)
        return self._run([_TOOL, *words])

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            env=self._env,
            cwd=self._tmp,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONGEST,
            check=False,
        )

    def inventory(self, hosts: dict[str, dict[str, Any]]) -> None:
        """Variables of these hosts, from now on."""
        known = inventory()
        known["all"]["hosts"] |= hosts
        self._hosts.write_text(json.dumps(known), encoding="utf-8")

    def start(self, name: str, stdout: Any = subprocess.DEVNULL, **variables: Any) -> subprocess.Popen[bytes]:
        """A playbook of the collection that goes on while the test does. `stdout`: where its output goes."""
        process = subprocess.Popen(
            command(self._hosts, f"virtops.maintenance.{name}", **variables),
            env=self._env,
            cwd=self._tmp,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """Those that go on still: beside the next test, where both are given one cluster."""
        for process in self._started:
            process.kill()
            process.wait()

    def own(self, name: str, *more: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """A playbook of the collection, by its name."""
        return self.run(f"virtops.maintenance.{name}", *more, **variables)


def written(calls: Any) -> list[Any]:
    """The requests that change something: no read, no access review, no dry run."""
    return [
        call
        for call in calls
        if call.method != "GET"
        and not call.path.endswith("/selfsubjectaccessreviews")
        and "dryRun=All" not in call.query
    ]
