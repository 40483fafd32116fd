"""What a VM starts with next, on real hosts: where that is another thing than what runs, or
cannot be started where the VM went."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from demo import plays, preflights, traces

from lab import GuestSpec, Lab, names, need_lab
from lab.diskring import ring, said
from lab.host import Host
from lab.hostfiles import GUEST_IMAGE
from lab.procs import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.full]

# Keeps a running guest where it is. Every host has this directory, so off it may go.
SHARE = "<filesystem type='mount' accessmode='mapped'><source dir='/srv'/><target dir='s'/></filesystem>"
COLD = {"maintenance_hosts": "host-a", "drain_allow_stop": True, "drain_on_not_migratable": "cold_migrate"}
KERNEL = "/var/lib/libvirt/kernel-of-a"
DISK = "/var/lib/libvirt/images/later.raw"
MINE, OTHERS = 0xA, 0xB  # whose disk it is: what host-a has at that path, and what host-b has


@pytest.fixture(scope="module")
def own() -> Iterator[Lab]:
    """A lab of its own: one of its guests is to read another VM's disk."""
    need_lab()
    name = f"{names.lab_name()[:20]}-next"
    Lab.down(name)
    try:
        yield Lab.up(name, 2)
    finally:
        Lab.down(name)


@pytest.fixture
def lab(own: Lab) -> Iterator[Lab]:
    yield own
    restored = plays.run(own, "restore", {"maintenance_hosts": "host-a"})
    assert restored.code == 0, restored.text
    for name in own.where():
        own.remove_guest(name)
    for host in own.hosts.values():
        host.exec(f"rm -f {KERNEL}")


def test_what_cannot_be_started_there_runs_at_home_again(lab: Lab) -> None:
    """Its kernel is on host-a alone, in no storage pool: libvirt tells it only at the start."""
    source, target = lab.host("host-a"), lab.host("host-b")
    uuid = "11111111-2222-3333-4444-555555555513"
    spec = GuestSpec("booted", uuid=uuid, autostart=True, devices_xml=SHARE)
    source.exec(f"cp {GUEST_IMAGE}/vmlinuz {KERNEL}")
    lab.define("host-a", spec)
    xml = lab.xml(spec).replace(f"{GUEST_IMAGE}/vmlinuz", KERNEL)
    source.virsh("define", "/dev/stdin", stdin=xml)
    lab.start("host-a", "booted")
    lab.wait_ticking(["booted"])
    lab.announce_stop("booted")
    before = lab.last_tick("booted")

    ended = plays.run(lab, "drain", {**COLD, "drain_backoff": 1})

    assert ended.code != 0
    row = ended.vm("booted")
    assert (row["verdict"], row["reason"]) == ("blocked", "CannotStart"), ended.text
    # libvirt's own sentence, and where it is now.
    assert "host-b could not start it" in row["message"]
    assert KERNEL in row["message"]
    assert "runs on host-a again" in row["message"]
    assert traces.running(source) == traces.autostarted(source) == ["booted"]
    assert traces.defined(target) == []
    assert traces.claims(lab) == []
    lab.wait_ticking(["booted"])
    after = lab.last_tick("booted")
    assert before and after and before[1] != after[1]


def _write(host: Host, path: str, data: bytes) -> None:
    text = f"import sys; open({path!r}, 'wb').write(bytes.fromhex(sys.stdin.read()))"
    host.exec(["/usr/bin/python3", "-c", text], stdin=data.hex())


@pytest.mark.parametrize("share", [SHARE, ""], ids=["cold", "live"])
def test_a_disk_that_it_starts_with_next_is_known_before_anything_moves(lab: Lab, share: str) -> None:
    """It runs on shared storage, and is defined with a file that host-b has of another VM."""
    source, target = lab.host("host-a"), lab.host("host-b")
    _write(source, DISK, ring(MINE))
    _write(target, DISK, ring(OTHERS))
    uuid = "11111111-2222-3333-4444-555555555514"
    spec = GuestSpec("later", uuid=uuid, disks=[("shared", 1)], devices_xml=share)
    lab.run("host-a", spec)
    lab.wait_ticking(["later"])
    given = GuestSpec(
        "later",
        uuid=uuid,
        disks=[("given", 1)],
        devices_xml=share + "<disk type='file' device='disk'><driver name='qemu' type='raw'/>"
        f"<source file='{DISK}'/><target dev='vda' bus='virtio'/></disk>",
    )
    source.virsh("define", "/dev/stdin", stdin=lab.xml(given))
    before = lab.last_tick("later")

    (seen,) = preflights.look(lab, "host-a", {"later": {}})["later"].of("PendingChanges")
    would = plays.run(lab, "drain", COLD, "--check")
    ended = plays.run(lab, "drain", COLD)

    assert (seen[0], seen[1]) == ("VM later", "blocker")
    assert DISK in seen[2] and DISK in would.text
    assert ended.code != 0
    row = ended.vm("later")
    assert (row["verdict"], row["reason"]) == ("blocked", "DisksNotLiveMigratable"), row
    assert DISK in row["message"]
    after = lab.last_tick("later")
    assert before and after and before[1] == after[1], "the guest was stopped"
    assert traces.defined(target) == []
    # What it would have been: started there with its definition it is on the other VM's disk.
    lab.shutdown_guest("host-a", "later")
    target.virsh("define", "/dev/stdin", stdin=source.virsh("dumpxml", "--inactive", "later"))
    source.virsh("undefine", "later")
    target.virsh("start", "later")
    assert wait_for(lambda: f"old {OTHERS:016x} 1000" in _disk_lines(lab, "later")), "not read"


def _disk_lines(lab: Lab, guest: str) -> list[str]:
    return said(lab.paths.raw, "host-b", guest, "vda")


def test_a_network_that_it_starts_with_next_is_asked_of_its_target(lab: Lab) -> None:
    """Only host-a has it. Before, the VM was stopped for the move, and stayed down."""
    source = lab.host("host-a")
    source.add_network("dmz")
    try:
        lab.run("host-a", GuestSpec("linked", devices_xml=SHARE))
        lab.wait_ticking(["linked"])
        source.virsh("attach-interface", "linked", "network", "dmz", "--config")
        before = lab.last_tick("linked")

        ended = plays.run(lab, "drain", COLD)

        assert ended.code != 0
        row = ended.vm("linked")
        assert (row["verdict"], row["reason"]) == ("blocked", "InterfaceNotLiveMigratable"), row
        assert "'dmz'" in row["message"]
        after = lab.last_tick("linked")
        assert before and after and before[1] == after[1], "the guest was stopped"
    finally:
        source.virsh("net-destroy", "dmz")
        source.virsh("net-undefine", "dmz", check=False)
