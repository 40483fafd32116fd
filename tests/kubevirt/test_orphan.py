# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An ansible-playbook that is killed leaves its worker behind: that ends within one slice."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.tests.kubevirt.plays import written
from kubesim.patience import patience

pytestmark = pytest.mark.full


def children_of(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants(pid: int) -> list[int]:
    found = children_of(pid)
    return found + [deeper for child in found for deeper in descendants(child)]


def evicted(sim) -> list[str]:
    return [call.path for call in written(sim.requests("POST", "/eviction"))]


def wait_until(true, what: str) -> None:
    until = time.monotonic() + patience()
    while not true():
        assert time.monotonic() < until, what
        time.sleep(0.1)


def test_a_killed_playbook_starts_nothing_after_its_slice(sim, plays) -> None:
    # One after another, 8 s each as the simulator's clock goes: four slices of work.
    for number in range(6):
        sim.add_vm(f"vm{number}", "n1", migrate_seconds="80")
    playbook = plays.start("drain", maintenance_hosts="n1", drain_limits={"outbound": 1})
    try:
        wait_until(lambda: evicted(sim), "the first eviction")
        left = descendants(playbook.pid)
        os.kill(playbook.pid, signal.SIGKILL)
        playbook.wait()
        assert left, "a worker of it is left"
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), "its end")
    finally:
        playbook.kill()
    assert len(evicted(sim)) < 6, "a slice is time for two or three"
