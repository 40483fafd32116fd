"""The modules of one migration by ansible-playbook: progress lines, check mode, failures."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.tests.kubevirt.plays import MODULES_PYTHON, Plays, written
from kubesim.kinds import NODES, VMIMS, VMIS, VMS

pytestmark = pytest.mark.full

Wanted = list[tuple[str, dict[str, Any]]]


class Tasks:
    """Runs tasks on localhost, with the environment variables that kubernetes.core takes."""

    def __init__(self, plays: Plays, book: Path) -> None:
        self._plays, self._book = plays, book

    def run(self, *more: str, **modules: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """`modules`: name -> options, a task each."""
        return self.all(list(modules.items()), *more)

    def all(self, wanted: Wanted, *more: str, go_on: bool = False) -> subprocess.CompletedProcess[str]:
        """`go_on`: a task that fails is told, and the next one is done all the same."""
        more_of_each = {"vars": {"ansible_python_interpreter": MODULES_PYTHON}, "ignore_errors": go_on}
        tasks = [{f"virtops.maintenance.kubevirt_{name}": options, **more_of_each} for name, options in wanted]
        play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
        self._book.write_text(json.dumps([play]), encoding="utf-8")
        return self._plays.run(str(self._book), *more)


@pytest.fixture
def tasks(plays: Plays, tmp_path: Path) -> Tasks:
    return Tasks(plays, tmp_path / "play.yml")


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
    assert written(sim.log[before:]) == [] and sim.all(VMIMS) == []
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
