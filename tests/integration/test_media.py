"""A CD-ROM whose image both hosts have, each its own file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from demo import plays, traces
from integration.on_host import ask_libvirt

from lab import GuestSpec, Lab

pytestmark = [pytest.mark.lab, pytest.mark.full]

ISO = "/var/lib/libvirt/images/tools.iso"
CDROM = (
    "<disk type='file' device='cdrom'><driver name='qemu' type='raw'/>"
    f"<source file='{ISO}'/><target dev='sda' bus='sata'/></disk>"
)
SIZE = 4 << 20


@pytest.fixture
def lab(shared: Callable[[int], Lab]) -> Iterator[Lab]:
    lab = shared(2)
    yield lab
    for host in lab.hosts.values():
        restored = plays.run(lab, "restore", {"maintenance_hosts": host.name})
        assert restored.code == 0, restored.text
    lab.remove_guest("toolbox")


def test_a_medium_of_the_same_size_and_other_content_is_another_one(lab: Lab) -> None:
    a, b = lab.host("host-a"), lab.host("host-b")
    for host, letter in ((a, "A"), (b, "B")):
        host.exec(f"yes {letter} | head -c {SIZE} > {ISO}")
        host.virsh("pool-refresh", "default")
    lab.run("host-a", GuestSpec("toolbox", devices_xml=CDROM))
    lab.wait_ticking(["toolbox"])

    ended = plays.run(lab, "drain", {**plays.UNMEASURED, "maintenance_hosts": "host-a"})

    assert ended.code != 0
    row = ended.vm("toolbox")
    assert (row["verdict"], row["reason"]) == ("blocked", "DisksNotLiveMigratable"), row
    assert "has different content on host-b, from byte 0 on: eject it" in row["message"]
    # libvirt does not ask, and the guest reads the other one.
    assert ask_libvirt(lab, "toolbox") == ""
    assert traces.running(b) == ["toolbox"]
    # One of the same content may come back to host-a.
    a.exec(f"yes B | head -c {SIZE} > {ISO}")
    assert plays.run(lab, "restore", {"maintenance_hosts": "host-a"}).code == 0
    back = plays.run(lab, "drain", {**plays.UNMEASURED, "maintenance_hosts": "host-b"})
    assert back.code == 0, back.text
    assert traces.running(a) == ["toolbox"]
    lab.wait_ticking(["toolbox"])
