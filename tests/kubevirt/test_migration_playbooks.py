"""The modules of one migration by ansible-playbook: progress lines, check mode, failures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.virtops.maintenance.tests.kubevirt.plays import MODULES_PYTHON
from kubesim import Kubesim
from kubesim.kinds import NODES, VMIMS, VMIS, VMS

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Tasks:
    """Runs tasks on localhost, with the environment variables that kubernetes.core takes."""

    def __init__(self, sim: Kubesim, tmp: Path) -> None:
        self._tmp = tmp
        self.env = {
            **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
            "ANSIBLE_HOME": str(tmp / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "K8S_AUTH_KUBECONFIG": str(sim.kubeconfig(tmp / "kubeconfig", "maintenance")),
        }

    def run(self, *more: str, **modules: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """`modules`: name -> options, a task each."""
        return self.all(list(modules.items()), *more)

    def all(
        self, wanted: list[tuple[str, dict[str, Any]]], *more: str, go_on: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """`go_on`: a task that fails is told, and the next one is done all the same."""
        tasks = [
            {
                f"virtops.maintenance.kubevirt_{name}": options,
                "vars": {"ansible_python_interpreter": MODULES_PYTHON},
                "ignore_errors": go_on,
            }
            for name, options in wanted
        ]
        play = [{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]
        (self._tmp / "play.yml").write_text(yaml.safe_dump(play), encoding="utf-8")
        tool = str(Path(sys.executable).with_name("ansible-playbook"))
        return subprocess.run(
            [tool, "play.yml", *more],
            env=self.env,
            cwd=self._tmp,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )


@pytest.fixture
def tasks(sim: Kubesim, tmp_path: Path) -> Tasks:
    return Tasks(sim, tmp_path)


def writes(sim: Kubesim, since: int) -> list[str]:
    """What was written, server-side dry runs left aside."""
    asked = (c for c in sim.log[since:] if c.method in _WRITES)
    return [f"{c.method} {c.path}" for c in asked if "dryRun" not in c.query]


def test_lines_while_it_moves_and_nothing_the_second_time(sim, tasks) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="60")
    options = {"name": "vm", "node": "n1", "reason": "fan", "slice": 1}
    done = tasks.run(migration=options)
    assert done.returncode == 0 and "changed=1" in done.stdout, done.stdout
    there = sim.node_of("vm")
    lines = [text.partition("  ")[2] for text in done.stdout.splitlines() if "  default/vm -> " in text]
    assert f"default/vm -> {there} migration Running" in lines, done.stdout
    assert lines[-1].startswith(f"default/vm -> {there} moved 6"), done.stdout
    again = tasks.run(migration=options)
    assert again.returncode == 0 and "changed=0" in again.stdout, again.stdout


def test_check_mode_writes_nothing_and_shows_it(sim, tasks) -> None:
    sim.add_vm("vm", "n1")
    before = len(sim.log)
    done = tasks.run(
        "--check",
        "--diff",
        migration={"name": "vm", "target": "n3"},
        eviction_strategy={"name": ["vm"], "strategy": "External"},
    )
    assert done.returncode == 0 and "changed=2" in done.stdout, done.stdout
    assert "+VM default/vm: running on n3" in done.stdout
    assert "+VM default/vm (template): External" in done.stdout
    assert writes(sim, before) == [] and sim.all(VMIMS) == []
    assert sim.find(VMS, "vm")["spec"]["template"]["spec"]["evictionStrategy"] == "LiveMigrate"


def test_what_does_not_move_fails_with_reason_and_remedy(sim, tasks) -> None:
    sim.add_vm("vm", "n1")
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update(unschedulable=True))
    done = tasks.run(migration={"name": "vm", "pending_timeout": 2.5})
    assert done.returncode != 0
    assert "VM default/vm is Blocked, not Migrated." in done.stdout, done.stdout
    assert "TargetUnschedulable" in done.stdout and "uncordon or add a node" in done.stdout


def test_an_abort_that_comes_too_late(sim, tasks) -> None:
    sim.add_vm("late", "n1")
    required = {"type": "MigrationRequired", "status": "True"}
    sim.edit(VMIS, "late", lambda o: o["status"]["conditions"].append(required), "default")
    done = tasks.run(migration={"name": "late"})
    assert done.returncode == 0, done.stdout
    late = tasks.run(migration={"name": "late", "state": "aborted"})
    assert late.returncode != 0
    assert "VM default/late is Migrated, not Active." in late.stdout, late.stdout
    assert "TooLateToAbort: Not aborted: it runs on" in late.stdout


def test_the_info_module_and_wrong_options(sim, tasks) -> None:
    sim.add_vm("vm", "n1")
    wanted = [
        ("migration_info", {"name": "vm"}),
        ("migration_info", {}),
        ("migration", {"name": "vm", "target": "n2", "added_node_selector": {"a": "b"}}),
        ("migration", {"name": "vm", "max_attempts": 0}),
        ("migration", {"name": "vm", "kubeconfig": "/nowhere"}),
        ("migration", {"name": "vm", "state": "aborted"}),
        ("eviction_strategy", {"label_selectors": [], "strategy": "None"}),
    ]
    done = tasks.all(wanted, "-v", go_on=True)
    told = " ".join(done.stdout.split())
    assert '"findings": []' in told, done.stdout
    assert "one of the following is required: name, namespace, node" in told
    assert "mutually exclusive" in told
    assert "max_attempts must be 1 or more, not 0" in told
    assert "No usable configuration for the Kubernetes API in kubeconfig /nowhere: " in told
    assert "which would select every VM of the cluster" in told
    assert "ok=7 changed=0" in told.replace("  ", " "), done.stdout
    assert sim.all(VMIMS) == []
