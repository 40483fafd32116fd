# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A drain is killed while a VM moves; the same command again carries on. More: make test-kill."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from demo import plays, report, traces
from integration.held import held
from kill.victims import VICTIMS, kill

from lab import GuestSpec, Lab

pytestmark = pytest.mark.lab

HERE = {**plays.UNMEASURED, "maintenance_hosts": "host-a"}


@pytest.mark.parametrize(
    "victim", [pytest.param(victim, marks=pytest.mark.full) if victim == "playbook" else victim for victim in VICTIMS]
)
def test_the_same_command_carries_on(shared: Callable[[int], Lab], victim: str) -> None:
    lab = shared(2)
    name = f"lost-{victim}"
    lab.run("host-a", GuestSpec(name, fill_mib=32, autostart=True))
    lab.wait_ticking([name])
    source, target = lab.host("host-a"), lab.host("host-b")
    with held(lab, "host-a", [name], lambda: plays.Play(lab, "drain", HERE)) as first:
        assert kill(victim, first, source)
        assert traces.running(source) == [name]
        lab.let_go("host-a")
        first.wait()
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
