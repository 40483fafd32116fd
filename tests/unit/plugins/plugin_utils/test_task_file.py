"""What is wrong with a user's task file is known before Ansible comes to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader

from ansible_collections.virtops.maintenance.plugins.plugin_utils._task_file import why_not

GOOD = """
- debug: {msg: "{{ later }}"}
- ansible.builtin.import_tasks: not_looked_at.yml
- name: Leave it
  block:
    - action: ping
    - meta: end_role
  rescue:
    - debug:
"""


@pytest.mark.parametrize("text", [GOOD, "", "---\n"])
def test_a_file_that_ansible_takes(tmp_path: Path, text: str) -> None:
    (tmp_path / "tasks.yml").write_text(text)
    assert why_not(str(tmp_path / "tasks.yml"), DataLoader()) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- name: [", "cannot be loaded: "),
        ("hosts: all", "contain a list of tasks"),
        ("- ping", "'ping' where a task is expected"),
        ("- block: [{no.such.module: }]", "'no.such.module'"),
        ("- block: [{ping: }]\n  rescue: [{no_such_module: }]", "'no_such_module'"),
        ("- {ping: , debug: }", "conflicting action"),
    ],
)
def test_a_file_that_it_does_not_take(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "tasks.yml").write_text(text)
    assert why in why_not(str(tmp_path / "tasks.yml"), DataLoader())


def test_there_is_no_role_to_be_ended(tmp_path: Path) -> None:
    (tmp_path / "tasks.yml").write_text("- ansible.builtin.meta: end_role\n")
    assert why_not(str(tmp_path / "tasks.yml"), DataLoader()) == ""
    assert "meta end_role" in why_not(str(tmp_path / "tasks.yml"), DataLoader(), role=False)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    why = why_not(str(tmp_path / "none.yml"), DataLoader())
    assert why.startswith(f"there is no file {tmp_path}/none.yml on the controller")
