"""What a lab leaves on the machine: nothing but its logs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from lab import GuestSpec, Lab, names, network, procs

pytestmark = pytest.mark.lab


def traces(paths: names.Paths, number: int) -> dict[str, list[str]]:
    """All that could be left, by kind."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    prefix = names.bridge(number)
    return {
        "links": [line for line in links.stdout.splitlines() if f" {prefix}:" in line or f" {prefix}h" in line],
        "mounts": [
            line
            for line in Path("/proc/self/mounts").read_text().splitlines()
            if str(paths.state) in line or "virtops" in line
        ],
        "processes": processes(str(paths.state) + "/", f"10.86.{number}."),
        "state": sorted(path.name for path in paths.state.iterdir() if path.name not in ("raw", "logs", "lock")),
        "run": [str(paths.records)] if paths.records.exists() else [],
    }


def processes(*words: str) -> list[str]:
    """Command lines, of others than us, that name one of the words."""
    out = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if any(word in line for word in words):
                out.append(line)
    return out


def network_namespaces() -> set[str]:
    out = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                out.add(os.readlink(entry / "ns" / "net"))
            except OSError:
                continue
    return out


NOTHING = {"links": [], "mounts": [], "processes": [], "state": [], "run": []}


@pytest.fixture
def second(lab_name: str):
    """A lab beside the one of the other tests."""
    name = lab_name + "-2"
    Lab.down(name)
    lab = Lab.up(name, hosts=2)
    yield lab
    Lab.down(name)


def own_namespaces(lab: Lab) -> set[str]:
    return {os.readlink(f"/proc/{host.supervisor_pid}/ns/net") for host in lab.hosts.values()}


@pytest.mark.parametrize(
    "crash",
    [
        "all",
        *(
            pytest.param(crash, marks=pytest.mark.full)
            for crash in ("none", "supervisors", "build-removed", "old-boot")
        ),
    ],
)
def test_down_leaves_nothing(second: Lab, crash: str) -> None:
    paths, number = second.paths, second.number
    mine = own_namespaces(second)
    second.run("host-a", GuestSpec("any", disks=[("shared", 4)], networks=["lan"]))
    before = traces(paths, number)
    assert all(before[kind] for kind in ("links", "processes", "state", "run"))
    records = [path for path in paths.records.iterdir() if path.is_file()]
    if crash in ("supervisors", "all", "old-boot"):
        for record in records:
            pid = procs.alive(record) if record.suffix != ".link" else None
            if pid and (crash != "supervisors" or record.suffix == ".supervisor"):
                os.kill(pid, signal.SIGKILL)
                procs.wait_for(lambda pid=pid: procs.start_time(pid) is None)
    if crash == "build-removed":
        shutil.rmtree(paths.state)
    if crash == "old-boot":
        # What a crash of the machine leaves: files of another boot, no devices.
        network.bridge_down(number)
        paths.config.write_text(
            paths.config.read_text().replace(names.machine_boot(), "00000000-0000-0000-0000-000000000000")
        )
    Lab.down(paths.name)
    assert traces(paths, number) == NOTHING
    assert not mine & network_namespaces()
    assert (paths.raw / "ticks.log").exists() or crash == "build-removed"
    Lab.down(paths.name)  # and again: nothing to do


@pytest.mark.full
def test_labs_run_side_by_side(lab: Lab, second: Lab) -> None:
    assert lab.number != second.number
    assert {h.address for h in lab.hosts.values()}.isdisjoint(h.address for h in second.hosts.values())
    Lab.down(second.paths.name)
    assert all("DOWN" not in word for word in lab.status().values())
