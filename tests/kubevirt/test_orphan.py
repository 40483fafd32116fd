"""An ansible-playbook that is killed leaves its worker behind: that ends within one slice."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import words
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Roll
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.names import ROLL
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.node_record import unpack
from ansible_collections.virtops.maintenance.tests.kubevirt.plays import written
from kubesim.kinds import BY_PLURAL, NODES
from kubesim.patience import patience

pytestmark = pytest.mark.full
LEASES = BY_PLURAL["leases"]


def children_of(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants(pid: int) -> list[int]:
    found = children_of(pid)
    return found + [deeper for child in found for deeper in descendants(child)]


def evicted(sim) -> list[str]:
    return [call.path for call in written(sim.requests("POST", "/eviction"))]


def wait_until(true, what: str, going: subprocess.Popen[bytes] | None = None) -> None:
    """`going`: the playbook that is to bring it about."""
    until = time.monotonic() + patience()
    while not true():
        assert time.monotonic() < until, what
        assert going is None or going.poll() is None, f"the playbook has ended: {what}"
        time.sleep(0.1)


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Its path is short: Python puts sockets there, and a longer one than 107 characters is none to Linux."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_a_killed_playbook_starts_nothing_after_its_slice(sim, plays) -> None:
    # One after another, 8 s each as the simulator's clock goes: four slices of work.
    for number in range(6):
        sim.add_vm(f"vm{number}", "n1", migrate_seconds="80")
    playbook = plays.start("drain", maintenance_hosts="n1", drain_limits={"outbound": 1})
    try:
        wait_until(lambda: evicted(sim), "the first eviction", playbook)
        left = descendants(playbook.pid)
        os.kill(playbook.pid, signal.SIGKILL)
        playbook.wait()
        assert left, "a worker of it is left"
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), "its end")
    finally:
        playbook.kill()
    assert len(evicted(sim)) < 6, "a slice is time for two or three"


def roll_record(sim) -> dict[str, Any]:
    lease = sim.find(LEASES, "virtops-roll", "default")
    text = (lease or {"metadata": {}})["metadata"].get("annotations", {}).get(ROLL)
    return json.loads(unpack(text)) if text else {"state": "", "hosts": []}


def of_playbook(pid: int) -> dict[int, str]:
    """Its workers, what they have begun, and what of that lost its parent."""
    found = {}
    for one in [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
        with contextlib.suppress(OSError):
            if f"VIRTOPS_TEST_RUN={pid}\0".encode() in Path(f"/proc/{one}/environ").read_bytes():
                found[one] = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0]
    return found


@pytest.mark.parametrize("stage", ["draining", "checking"])
def test_a_worker_of_a_killed_roll_begins_no_drain_and_no_restore(sim, plays, monkeypatch, stage) -> None:
    """It does act after act, and each took its parent of that time for the playbook: the record said "stopped", and
    forty seconds later a node was cordoned and a VM evicted. Stopped here, for the time that a busy machine gave it."""
    sim.add_vm("vm", "n1", migrate_seconds="20")
    monkeypatch.setitem(plays._env, "VIRTOPS_TEST_RUN", str(os.getpid()))
    playbook = plays.start("rolling_maintenance", maintenance_hosts="n1", maintenance_reboot=False)
    try:
        wait_until(lambda: any(host["stage"] == stage for host in roll_record(sim)["hosts"]), stage, playbook)
        workers = descendants(playbook.pid)
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        os.kill(playbook.pid, signal.SIGKILL)
        playbook.wait()
        wait_until(lambda: roll_record(sim)["state"] == "stopped", "the roll counts as stopped")
        before = len(sim.log)
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        wait_until(lambda: not of_playbook(os.getpid()), "their end")
    finally:
        playbook.kill()
        for pid in of_playbook(os.getpid()):
            os.kill(pid, signal.SIGKILL)
    assert [call.path for call in written(sim.log[before:])] == []
    assert bool(sim.find(NODES, "n1")["spec"].get("unschedulable")) is (stage == "checking")
    assert roll_record(sim)["state"] == "stopped"


@pytest.mark.parametrize(("killed", "next_one"), [("drain", "restore"), ("rolling_maintenance", "rolling_maintenance")])
def test_after_a_kill_the_next_one_does_not_wait_for_a_lease(sim, plays, monkeypatch, killed, next_one) -> None:
    """On the same machine: nobody is left who had it. It ran out by itself, after 35 s; that of a roll after 60 s."""
    sim.add_vm("vm", "n1", migrate_seconds="20")
    monkeypatch.setitem(plays._env, "VIRTOPS_TEST_RUN", str(os.getpid()))
    going = plays.start(killed, maintenance_hosts="n1", maintenance_reboot=False)
    try:
        wait_until(lambda: evicted(sim), "the eviction", going)
        for pid in (going.pid, *of_playbook(os.getpid())):  # at once: who sees another one's end gives the Lease back
            os.kill(pid, signal.SIGSTOP)
        going.kill()
        while left := of_playbook(os.getpid()):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        going.wait()
        assert sim.find(LEASES, "virtops-maintenance-n1", "default")["spec"]["holderIdentity"], "it is held"
        found = roll_record(sim)
        assert found["state"] == ("running" if killed == "rolling_maintenance" else "")
        waits = words.is_under_way(Roll.from_json(json.dumps(found))) if found["state"] else "the Lease"
        done = plays.own(next_one, maintenance_hosts="n1", maintenance_reboot=False)
    finally:
        going.kill()
    assert done.returncode == 0, done.stdout
    assert waits not in done.stdout


@pytest.mark.parametrize(
    ("playbook", "way"),
    [
        ("drain", signal.SIGTERM),
        ("rolling_maintenance", signal.SIGTERM),
        ("rolling_maintenance", signal.SIGKILL),
        ("rolling_maintenance", "abort"),
        ("rolling_maintenance", "nothing"),
    ],
)
def test_nothing_is_left_where_temporary_files_are(sim, plays, monkeypatch, tmp_path, temporary, playbook, way) -> None:
    """A roll left a payload of Ansible's and certificates there, each time: the call that renews its record was killed
    as it was. `kill -9` of all of the group, too, as a cancelled job does: workers have groups of their own."""
    monkeypatch.setitem(plays._env, "TMPDIR", str(temporary))
    monkeypatch.setitem(plays._env, "VIRTOPS_TEST_RUN", str(os.getpid()))
    sim.add_vm("vm", "n1", migrate_seconds="60" if way != "nothing" else "5")
    going = plays.start(playbook, maintenance_hosts="n1", maintenance_reboot=False)
    try:
        wait_until(lambda: evicted(sim), "the eviction", going)
        assert [*temporary.iterdir()], "a module is at work there"
        if way == "abort":
            assert plays.own("abort").returncode == 0
        elif way != "nothing":
            os.killpg(going.pid, way)
        going.wait(patience())
        wait_until(lambda: not of_playbook(os.getpid()), "their end")
    finally:
        going.kill()
        for pid in of_playbook(os.getpid()):
            os.kill(pid, signal.SIGKILL)
    # What ansible-playbook has of its own (sockets of Python's multiprocessing) goes or stays with it.
    assert [path.name for path in temporary.iterdir() if not path.name.startswith("pymp-")] == []
    left = {path.name[:13] for path in (tmp_path / "ansible" / "tmp").glob("*")}
    assert left <= ({"ansible-local"} if playbook == "drain" else set())


def test_nor_by_the_other_playbooks(sim, plays, monkeypatch, tmp_path, temporary) -> None:
    """Each comes to its end here; one after the other, in one directory."""
    monkeypatch.setitem(plays._env, "TMPDIR", str(temporary))
    sim.add_vm("vm", "n1", migrate_seconds="5")
    for name in ("preflight", "plan", "drain", "status", "restore"):
        done = plays.own(name, maintenance_hosts="n1")
        assert done.returncode == 0, done.stdout
        assert [path.name for path in temporary.iterdir()] == [], name
        assert [path.name for path in (tmp_path / "ansible" / "tmp").glob("*")] == [], name
