"""A drain is killed while a VM moves; the same command again carries on. More: make test-kill."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cancel.ways import VICTIMS, kill, modules
from demo import plays, report, traces
from integration.held import held

from lab import GuestSpec, Lab
from lab.procs import wait_for

pytestmark = pytest.mark.lab

TOLD = "playbook, by SIGTERM"
CLONE = Path(__file__).resolve().parents[2]
HERE = {**plays.UNMEASURED, "maintenance_hosts": "host-a"}


def temporary(lab: Lab) -> dict[str, list[str]]:
    """What is in the directories for temporary files of each host, but for this clone, if it lies there."""
    find = f"find /tmp /var/tmp /root/.ansible/tmp -mindepth 1 -path {CLONE} -prune -o -print 2>/dev/null || true"
    return {name: sorted(host.exec(find).stdout.splitlines()) for name, host in lab.hosts.items()}


@pytest.mark.parametrize(
    "victim", [v if v == "holder" else pytest.param(v, marks=pytest.mark.full) for v in (*VICTIMS, TOLD)]
)
def test_the_same_command_carries_on(shared: Callable[[int], Lab], victim: str) -> None:
    lab = shared(2)
    name = f"lost-{victim.rsplit(maxsplit=1)[-1].lower()}"
    lab.run("host-a", GuestSpec(name, fill_mib=32, autostart=True))
    lab.wait_ticking([name])
    source, target, before = lab.host("host-a"), lab.host("host-b"), temporary(lab)
    with held(lab, "host-a", [name], lambda: plays.Play(lab, "drain", HERE)) as first:
        if victim == TOLD:
            first.process.terminate()
        else:
            assert kill(victim, first, source)
        assert traces.running(source) == [name]
        lab.let_go("host-a")
        first.wait()
    if victim in ("playbook", TOLD):
        # The module sees that nobody reads it any more, and cleans up; one that is killed itself cannot.
        assert wait_for(lambda: not modules(source)), "its module ends"
        assert temporary(lab) == before
    before = temporary(lab)
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
    assert temporary(lab) == before
    verdicts = {g["name"]: g["verdict"] for g in report.check(lab.paths.raw, set())["guests"]}
    assert verdicts[name] == "live"
    lab.remove_guest(name)
