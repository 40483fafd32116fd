"""A user's task file is looked at before anything is done.

Ansible loads it when it comes to it, and ends the whole run if it cannot: no rescue, no host named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.block import Block
from ansible.playbook.play import Play
from ansible.playbook.task import Task

from ._paths import on_controller

META = ("meta", "ansible.builtin.meta", "ansible.legacy.meta")
BLOCKS = ("block", "rescue", "always")
# They load other files, which are looked up from where the file is included.
OTHERS = ("import_tasks", "include_tasks", "import_role", "include_role")


def why_not(path: str, loader: DataLoader, role: bool = True) -> str:
    """Why the file cannot be run, in one line; '' if it can. `role`: a role will include it."""
    real = on_controller(path)
    if not real.is_file():
        return f"there is no file {real} on the controller. Give an absolute path, or one from where Ansible is started"
    try:
        content = loader.load_from_file(os.path.realpath(real), cache="none")
        return _first_fault(content, loader, role)
    except AnsibleError as exc:
        return f"{path} cannot be loaded: " + " ".join(str(exc).split())


def _first_fault(content: Any, loader: DataLoader, role: bool) -> str:
    """Raises AnsibleError for a task that Ansible does not take."""
    if content is not None and not isinstance(content, list):
        return "it does not contain a list of tasks"
    block = Block(play=Play())
    # What a role or playbook of the collection includes finds its modules by their short names.
    block.collections = ["virtops.maintenance"]
    for task in _tasks(content or []):
        if not isinstance(task, dict):
            return f"it has '{task}' where a task is expected"
        if not role and any(task.get(name) == "end_role" for name in META):
            return "meta end_role is for the tasks of a role, and these are not"
        if not any(str(key).rpartition(".")[2] in OTHERS for key in task):
            Task.load(task, block=block, loader=loader)
    return ""


def _tasks(content: Any) -> Iterator[Any]:
    for task in content:
        if isinstance(task, dict) and "block" in task:
            for part in BLOCKS:
                yield from _tasks(task.get(part) or [])
        else:
            yield task
