"""A small roll with real reboots, judged by the hosts and the guests. The large one: make demo."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from demo import plays, report, traces

from lab import GuestSpec, Lab

pytestmark = pytest.mark.lab

# What a user would do on an empty host: here, note when, and what runs there.
WORK = """
- name: Work on the host
  ansible.builtin.shell: 'date +%s%N >/root/patched && virsh -q list --name >>/root/patched'
"""


def test_host_after_host_is_emptied_rebooted_and_given_back(shared: Callable[[int], Lab], tmp_path: Path) -> None:
    lab = shared(2)
    work = tmp_path / "work.yml"
    work.write_text(WORK, encoding="utf-8")
    lab.run("host-a", GuestSpec("till", fill_mib=32, autostart=True))
    # Shut down by the drain of its host, started by its restore.
    lab.run("host-b", GuestSpec("batch", strategy="None", autostart=True))
    lab.wait_ticking(["till", "batch"])
    boots = {name: host.boot_id for name, host in lab.hosts.items()}

    roll = {"maintenance_hosts": "all", "maintenance_tasks": str(work), "drain_allow_stop": True}
    roll["maintenance_move_back"] = True
    ended = plays.run(lab, "rolling_maintenance", roll)

    assert ended.code == 0, ended.text
    assert all(host.boot_id != boots[name] for name, host in lab.hosts.items())
    notes = [host.exec("cat /root/patched").stdout.split() for host in lab.hosts.values()]
    assert [len(note) for note in notes] == [1, 1], "a VM ran while the work was done"
    lab.wait_ticking(["till", "batch"])
    # By plan host-b comes first, so that till moves once, and then back; and nobody stopped it.
    assert lab.where() == {"till": [("host-a", "running")], "batch": [("host-b", "running")]}
    moves = re.findall(r" till -> (host-.) moved .* \| roll (back )?\d/\d", ended.text)
    assert moves == [("host-b", ""), ("host-a", "back ")], ended.text
    guests = {guest["name"]: guest for guest in report.check(lab.paths.raw, set())["guests"]}
    assert guests["till"]["verdict"] == "live"
    assert guests["batch"]["running_again"]
    assert traces.autostarted(lab.host("host-a")) == ["till"]
    assert traces.autostarted(lab.host("host-b")) == ["batch"]
    # What is over is remembered of a VM's migration, for virt_migration_info.
    left = {name for host in lab.hosts.values() for name in traces.volumes(host)}
    assert {name.partition(".")[0] for name in left} == {"ended"}
    assert traces.marked(lab) == []


@pytest.mark.full
def test_a_host_that_never_goes_down_is_told_from_one_that_does_not_come_up(shared: Callable[[int], Lab]) -> None:
    """Ansible says "Timed out waiting for last boot time check" of both."""
    lab = shared(2)
    tool = lab.paths.host("host-b") / "local-sbin" / "shutdown"
    works = tool.read_text()
    tool.write_text("#!/bin/sh\nexit 0\n")
    try:
        # The VM of the test before this one may only be stopped.
        roll = {**plays.UNMEASURED, "maintenance_hosts": "host-b", "maintenance_reboot_timeout": 15}
        roll["drain_allow_stop"] = True
        ended = plays.run(lab, "rolling_maintenance", roll)
    finally:
        tool.write_text(works)
    assert ended.code == 2, ended.text
    assert "host-b never went down: its boot id is still the same" in " ".join(ended.text.split()), ended.text
    assert re.search(r"host-b  reboots; it is waited for, for 15 s at most", ended.text), ended.text
    assert plays.run(lab, "rolling_maintenance", roll).code == 0, "the same command reboots it now"
