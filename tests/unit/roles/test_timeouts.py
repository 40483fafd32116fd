"""A task that gives a host so many seconds asks for what can be done without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]


def test_a_host_that_is_too_slow_to_tell_its_clock_fails_nothing(tmp_path: Path) -> None:
    """The task of the role as it is, but that the host takes longer than its time."""
    path = ROOT / "roles" / "preflight" / "tasks" / "measure.yml"
    tasks = yaml.safe_load(path.read_text(encoding="utf-8"))
    task = next(task for task in tasks if "timeout" in task)
    task.update({"timeout": 1, "ansible.builtin.command": {"argv": ["sleep", "5"]}})
    then = {"ansible.builtin.debug": {"msg": "told {{ __preflight_measured.results | length }}"}}
    variables = {"preflight_fleet": ["localhost"], "preflight_measure": True}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": variables}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{**play, "tasks": [task, then]}]))
    found = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "play.yml"],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_HOME": str(tmp_path), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout
    assert "told 1" in found.stdout
