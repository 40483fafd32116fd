"""status and abort beside a roll and a drain that live, on real hosts.

What became of the VMs is read with virsh on the hosts, never taken from the playbooks alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from demo import plays, traces
from integration.held import held

from lab import GuestSpec, Lab

pytestmark = pytest.mark.lab

ROLL = {**plays.UNMEASURED, "maintenance_hosts": "all", "maintenance_reboot": False}


@pytest.fixture
def lab(shared: Callable[[int], Lab]) -> Iterator[Lab]:
    """Two hosts; on host-a a VM that can move, and one that a drain shuts down."""
    lab = shared(2)
    lab.run("host-a", GuestSpec("web", fill_mib=32, autostart=True))
    lab.run("host-a", GuestSpec("batch", strategy="None"))
    lab.wait_ticking(["web", "batch"])
    yield lab
    assert traces.claims(lab) == traces.marked(lab) == []
    assert [traces.volumes(host) for host in lab.hosts.values()] == [[], []]
    for name in ("web", "batch"):
        lab.remove_guest(name)


@pytest.mark.full
def test_status_and_abort_beside_a_roll_that_lives(lab: Lab, tmp_path: Path) -> None:
    # With a pause after the last host they go as given, and not as planned, with the empty one first.
    words = {**ROLL, "drain_allow_stop": True, "maintenance_requester": "alice", "maintenance_pause_after": "host-b"}
    file = tmp_path / "status.json"
    with held(lab, "host-a", ["web"], lambda: _roll(lab, words)) as roll:
        shown = plays.run(lab, "status", {"maintenance_status_file": str(file)})
        done = plays.run(lab, "abort", {})
        ended = roll.wait()
    assert shown.code == 0, shown.text
    found = json.loads(file.read_text(encoding="utf-8"))
    assert (found["roll"]["requester"], found["roll"]["state"]) == ("alice", "running")
    rows = {row["name"]: row for row in found["hosts"]}
    assert [rows[name]["stage"] for name in lab.hosts] == ["draining", "waiting"]
    vms = {vm["name"]: vm for vm in rows["host-a"]["vms"]}
    assert (vms["web"]["state"], vms["web"]["target"]) == ("moving", "host-b")
    assert "host-a (draining since" in rows["host-b"]["message"]

    assert done.code == 0, done.text
    assert "host-a  restored\n" in done.text
    assert "  web: migration aborted, runs on host-a\n" in done.text
    assert ended.code == 2, ended.text
    assert "was aborted" in ended.text
    assert traces.running(lab.host("host-a")) == ["batch", "web"]
    assert traces.autostarted(lab.host("host-a")) == ["web"]
    lab.wait_ticking(["web", "batch"])
    again = plays.run(lab, "abort", {})
    assert again.code == 0, again.text


@pytest.mark.full
def test_an_abort_that_lets_them_finish(lab: Lab) -> None:
    words = {**ROLL, "drain_allow_stop": True}
    with held(lab, "host-a", ["web"], lambda: _roll(lab, words)) as roll:
        abort = plays.Play(lab, "abort", {"maintenance_abort": "finish"})
        assert roll.wait().code == 2
        lab.let_go("host-a")
        done = plays.watch(abort)
    assert done.code == 0, done.text
    assert "  web: left on host-b\n" in done.text
    assert traces.running(lab.host("host-a")) == ["batch"]
    assert traces.running(lab.host("host-b")) == ["web"]
    lab.wait_ticking(["web", "batch"])


@pytest.mark.full
def test_a_restore_ends_a_drain_that_lives_in_the_middle_of_its_slice(lab: Lab) -> None:
    """A single drain has no abort of its own: status names it, restore gives its host back."""
    words = {**plays.UNMEASURED, "maintenance_hosts": "host-a", "maintenance_requester": "bob"}
    drain = {**words, "drain_allow_stop": True}
    with held(lab, "host-a", ["web"], lambda: plays.Play(lab, "drain", drain)) as play:
        shown = plays.run(lab, "status", {})
        back = plays.run(lab, "restore", {"maintenance_hosts": "host-a"})
        ended = play.wait()
    assert "drain by bob, not part of a roll" in shown.text
    assert "To continue the drain of host-a, run the playbook drain again" in shown.text
    assert back.code == 0, back.text
    outcomes = {vm["name"]: vm["outcome"] for vm in back.last["outcomes"]}
    assert outcomes["web"] == "aborted" and outcomes["batch"] in ("untouched", "started")
    # Which of the two it says depends on whether the restore is still under way when its next slice begins.
    assert ended.code == 2, ended.text
    assert re.search(r"Another run restored host-a meanwhile|Run \S+ \(root, active\) took over host-a", ended.text), (
        ended.text
    )
    assert traces.running(lab.host("host-a")) == ["batch", "web"]


def _roll(lab: Lab, words: dict[str, object]) -> plays.Play:
    return plays.Play(lab, "rolling_maintenance", words)
