"""Which machine the controller is, and who is told."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase

from ansible_collections.virtops.maintenance.plugins.plugin_utils import _called
from ansible_collections.virtops.maintenance.plugins.plugin_utils._controller import own_uuid

ACTIONS = "ansible_collections.virtops.maintenance.plugins.action"


def test_what_the_firmware_tells_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "uuid").write_text("ABC-1\n")
    assert own_uuid(str(tmp_path / "uuid")) == "ABC-1"
    assert own_uuid(str(tmp_path / "none")) == ""


@pytest.mark.parametrize("given", [{}, {"controller_uuid": "other"}])
@pytest.mark.parametrize(
    "name", ["virt_drain", "virt_migration", "virt_preflight", "virt_host_info", "kubevirt_drain", "kubevirt_preflight"]
)
def test_whatever_stops_a_vm_or_says_so_is_told_which_one_it_must_not(
    name: str, given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(f"{ACTIONS}.{name}")
    told: list[dict[str, Any]] = []

    def call(*_args: Any, **more: Any) -> dict[str, Any]:
        told.append(more["module_args"])
        return {"ended": "final", "phase": "Drained", "node": "a", "vms": []}

    monkeypatch.setattr(_called, "own_uuid", lambda: "ours")
    monkeypatch.setattr(ActionBase, "run", lambda *_args, **_more: {})
    monkeypatch.setattr(module.ActionModule, "_execute_module", call)
    plugin = module.ActionModule.__new__(module.ActionModule)
    plugin._task = SimpleNamespace(args=dict(given), check_mode=False)
    plugin._loader = None
    plugin.run()
    assert told[0]["controller_uuid"] == given.get("controller_uuid", "ours")


PLAYBOOK = """
import multiprocessing, os, signal, sys, time
from ansible.errors import AnsibleActionFail
from ansible_collections.virtops.maintenance.plugins.plugin_utils import _controller

def worker():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it has no processor yet to end
    if sys.argv[1] == "looks first":
        _controller.own_run()
    before = os.getppid()
    print("ready", flush=True)
    while before == os.getppid() and sys.argv[1] != "lives":
        time.sleep(0.01)
    try:
        print("goes on", len(_controller.own_run()), flush=True)
    except AnsibleActionFail as exc:
        print(exc, flush=True)

multiprocessing.get_context("fork").Process(target=worker).start()
"""


@pytest.mark.parametrize("when", ["lives", "looks first", "is killed before"])
def test_a_worker_knows_who_forked_it_though_it_has_another_parent_by_now(when: str) -> None:
    """A worker does one act after the other. If the next one took whoever is its parent then, it took that for the
    playbook, and worked on for it: forty seconds after the kill a node was cordoned."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", PLAYBOOK, when]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    if when != "lives":
        process.kill()
    said = process.stdout.read()
    process.wait()
    assert said.startswith("goes on 16" if when == "lives" else "ansible-playbook ended; run the same command"), said


CALLS = """
import multiprocessing, signal, sys, time
from ansible_collections.virtops.maintenance.plugins.plugin_utils import _controller

def worker():
    _controller.own_run()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(print("told to end", flush=True)))
    print("waits for its module", flush=True)
    time.sleep(60)

multiprocessing.get_context("fork").Process(target=worker).start()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_worker_is_told_when_its_playbook_is_killed() -> None:
    """It waits for its module, and so does the connection to another machine: a module there went on."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", CALLS], env=env, stdout=subprocess.PIPE, text=True) as playbook:
        assert playbook.stdout.readline() == "waits for its module\n"
        playbook.kill()
        assert playbook.stdout.readline() == "told to end\n"
