"""A target whose libvirtd is killed in mid-copy keeps half a disk. It is ours, and it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from demo import plays, traces
from integration.held import held

from lab import GuestSpec, Lab
from lab.host import Host
from lab.procs import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.full]

HERE = {**plays.UNMEASURED, "maintenance_hosts": "host-a", "drain_max_attempts": 1, "drain_pending_timeout": 30}
# What the source's processes dial on the target, and its libvirtd.
AWAY = ("pref", "4", "ipproto", "tcp", "dport", "16514", "blackhole")


@pytest.fixture
def lab(shared: Callable[[int], Lab]) -> Iterator[Lab]:
    lab = shared(2)
    yield lab
    lab.host("host-a").exec(["ip", "rule", "delete", *AWAY], check=False)
    for host in lab.hosts.values():
        if traces.volumes(host):
            ended = plays.run(lab, "restore", {"maintenance_hosts": host.name})
            assert ended.code == 0, ended.text


@contextmanager
def half_copied(lab: Lab, spec: GuestSpec) -> Iterator[str]:
    """A drain of host-a has failed, since libvirtd of host-b was killed in mid-copy, and nobody
    reached it since. The path of what is left of the copy on host-b."""
    a, b = lab.host("host-a"), lab.host("host-b")
    lab.run("host-a", spec)
    lab.wait_ticking([spec.name])
    with held(lab, "host-a", [spec.name], lambda: plays.Play(lab, "drain", HERE)) as drain:
        a.exec(["ip", "rule", "add", *AWAY])
        b.exec("kill -9 $(cat /run/libvirtd.pid)")
        lab.let_go("host-a")  # else the source's QEMU waits for an answer to what it sent last
        assert wait_for(lambda: "None" in a.virsh("domjobinfo", spec.name, check=False))
        failed = drain.wait()
    assert failed.code != 0, failed.text
    a.exec(["ip", "rule", "delete", *AWAY])
    assert wait_for(lambda: b.virsh("list", "--all", "--name", check=False) == "")
    path = spec.local_path(0)
    assert path in _images(b)
    yield path
    lab.remove_guest(spec.name)


def _images(host: Host) -> str:
    return host.exec("ls /var/lib/libvirt/images/*", check=False).stdout


def test_the_next_drain_replaces_it(lab: Lab) -> None:
    spec = GuestSpec("again", disks=[("local", 16)])
    with half_copied(lab, spec):
        ended = plays.run(lab, "drain", HERE)
        assert ended.code == 0, ended.text
        assert traces.running(lab.host("host-b")) == ["again"]
        lab.wait_ticking(["again"])
        assert plays.run(lab, "restore", HERE).code == 0
        assert not [name for name in traces.volumes(lab.host("host-b")) if name.startswith("made.")]


def test_a_restore_removes_it(lab: Lab) -> None:
    spec = GuestSpec("back", disks=[("local", 16)])
    with half_copied(lab, spec) as path:
        ended = plays.run(lab, "restore", HERE)
        assert ended.code == 0, ended.text
        assert path not in _images(lab.host("host-b"))
        # Of "again" host-a has the copy that it left, and its note.
        left = [name for host in lab.hosts.values() for name in traces.volumes(host)]
        assert all(name.startswith("made.") for name in left) and traces.volumes(lab.host("host-b")) == [], left
        lab.wait_ticking(["back"])


def test_a_file_that_its_owner_put_there_stays(lab: Lab) -> None:
    spec = GuestSpec("theirs", disks=[("local", 16)])
    b = lab.host("host-b")
    with half_copied(lab, spec) as path:
        b.exec(f"rm {path} && qemu-img create -q -f qcow2 {path} 16M && touch -d 2024-01-01 {path}")
        before = b.exec(f"stat -c '%i %z' {path}").stdout
        ended = plays.run(lab, "drain", HERE)
        assert ended.code != 0
        assert ended.vm("theirs")["reason"] == "DisksNotLiveMigratable", ended.text
        restored = plays.run(lab, "restore", HERE)
        assert restored.code == 0, restored.text
        assert f"On host-b: A copy of this VM's disk was started there and never finished, but {path}" in restored.text
        assert b.exec(f"stat -c '%i %z' {path}").stdout == before
        b.exec(f"rm {path}")
