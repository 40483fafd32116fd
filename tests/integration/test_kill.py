# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A drain is killed while a VM moves; the same command again carries on. More: make test-kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from demo import plays, report, traces
from kill.victims import VICTIMS, kill

from lab import GuestSpec, Lab
from lab.procs import wait_for

pytestmark = pytest.mark.lab

HERE = {"maintenance_hosts": "host-a"}


@pytest.fixture
def lab(shared: Callable[[int], Lab]) -> Iterator[Lab]:
    lab = shared(2)
    yield lab
    lab.unshape("host-a")
    lab.let_go("host-a")


@pytest.mark.parametrize("victim", VICTIMS)
def test_the_same_command_carries_on(lab: Lab, victim: str) -> None:
    name = f"lost-{victim}"
    lab.run("host-a", GuestSpec(name, fill_mib=32, autostart=True))
    lab.wait_ticking([name])
    source, target = lab.host("host-a"), lab.host("host-b")
    lab.shape("host-a", 8)
    first = plays.Play(lab, "drain", HERE)
    try:
        moving = wait_for(
            lambda: (
                not first.running or "Unbounded" in source.virsh("domjobinfo", name, check=False)
            )
        )
        assert moving and first.running, first.text
        lab.hold("host-a")
        lab.unshape("host-a")
        assert kill(victim, first, source)
        assert traces.running(source) == [name]
        lab.let_go("host-a")
        first.wait()
    finally:
        if first.running:
            first.kill()
    again = plays.run(lab, "drain", HERE)
    assert again.code == 0, again.text
    assert again.last["certificate"]
    assert traces.running(target) == traces.defined(target) == [name]
    assert traces.autostarted(target) == [name]
    assert traces.defined(source) == []
    assert traces.claims(lab) == traces.marked(lab) == []
    lab.wait_ticking([name])
    restored = plays.run(lab, "restore", HERE)
    assert restored.code == 0, restored.text
    assert [traces.volumes(host) for host in lab.hosts.values()] == [[], []]
    verdicts = {g["name"]: g["verdict"] for g in report.check(lab.paths.raw, set())["guests"]}
    assert verdicts[name] == "live"
    lab.remove_guest(name)
