# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which playbook this is, and whether its other workers do anything, with and without /proc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.plugin_utils import _roll


@pytest.fixture
def no_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A controller that is not Linux."""
    monkeypatch.setattr(_roll, "PROC", tmp_path)


def test_a_playbook_is_known_as_long_as_it_lives() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    begun = _roll._started(process.pid)
    assert begun and _roll._started(process.pid) == begun
    process.kill()
    process.wait()
    assert _roll._started(process.pid) == ""


@pytest.mark.usefixtures("no_proc")
def test_without_proc_a_playbook_that_lives_is_no_dead_one() -> None:
    """The process beside it would end the roll at once."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert _roll._started(process.pid)
    process.kill()
    process.wait()
    assert _roll._started(process.pid) == ""
    assert _roll.own_run() == _roll.own_run()


@pytest.mark.usefixtures("no_proc")
def test_without_proc_others_are_taken_to_work() -> None:
    """Else a host at work would be called one that was left."""
    assert _roll.others_work()


def test_a_worker_that_waits_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process stands for the playbook: its children are the workers."""
    program = (
        "import os, sys\n"
        "from ansible_collections.virtops.maintenance.plugins.plugin_utils import _roll\n"
        "_roll.waits() if sys.argv[1] == 'waits' else None\n"
        "print('ready', flush=True)\n"
        "print(_roll.others_work() if input() else '', flush=True)\n"
    )

    def worker(how: str) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            [sys.executable, "-c", program, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert started.stdout is not None and started.stdout.readline() == "ready\n"
        return started

    def asked(one: subprocess.Popen[str]) -> str:
        return one.communicate("go\n")[0].strip()

    first, second = worker("waits"), worker("waits")
    assert asked(first) == "False"
    second.communicate("\n")
    first, second = worker("waits"), worker("works")
    assert asked(first) == "True"
    second.communicate("\n")
