"""The copy of a disk that a VM left on its old host, and what its owner made of it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from demo import plays, traces

from lab import GuestSpec, Lab

pytestmark = [pytest.mark.lab, pytest.mark.full]

CLONES = "/srv/clones"  # in no storage pool
CLONE = f"""<domain type='qemu'><name>clone</name><memory unit='MiB'>64</memory>
<os><type arch='x86_64' machine='pc'>hvm</type></os><devices>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>
<source file='{CLONES}/clone.qcow2'/><target dev='vda' bus='virtio'/></disk></devices></domain>"""


@pytest.fixture
def lab(shared: Callable[[int], Lab]) -> Iterator[Lab]:
    lab = shared(2)
    yield lab
    for host in lab.hosts.values():
        restored = plays.run(lab, "restore", {"maintenance_hosts": host.name})
        assert restored.code == 0, restored.text
        host.exec(f"rm -rf {CLONES}")
    lab.host("host-a").virsh("undefine", "clone", check=False)
    lab.remove_guest("original")


def test_the_base_of_a_clone_is_not_overwritten_when_its_vm_comes_back(lab: Lab) -> None:
    """The clone is off, its overlay in no pool, and its definition names no base."""
    a = lab.host("host-a")
    spec = GuestSpec("original", disks=[("local", 8)])
    lab.run("host-a", spec)
    lab.wait_ticking(["original"])
    away = plays.run(lab, "drain", {"maintenance_hosts": "host-a"})
    assert away.code == 0, away.text
    assert plays.run(lab, "restore", {"maintenance_hosts": "host-a"}).code == 0
    left = spec.local_path(0)
    overlay = f"qemu-img create -q -f qcow2 -b {left} -F qcow2 {CLONES}/clone.qcow2"
    a.exec(f"mkdir -p {CLONES} && {overlay}")
    a.virsh("define", "/dev/stdin", stdin=CLONE)
    before = a.exec(f"sha256sum {left}").stdout

    back = plays.run(lab, "drain", {"maintenance_hosts": "host-b"})

    assert back.code != 0
    row = back.vm("original")
    assert (row["verdict"], row["reason"]) == ("blocked", "DisksNotLiveMigratable"), back.text
    assert f"the VM clone, whose {CLONES}/clone.qcow2 is backed by it, uses it" in row["message"]
    assert a.exec(f"sha256sum {left}").stdout == before
    assert traces.running(lab.host("host-b")) == ["original"]
    assert [name for name in a.virsh("pool-list", "--name").split() if "look" in name] == []
    # Without the clone it may come back.
    a.virsh("undefine", "clone")
    a.exec(f"rm -r {CLONES}")
    again = plays.run(lab, "drain", {"maintenance_hosts": "host-b"})
    assert again.code == 0, again.text
    assert traces.running(a) == ["original"]
