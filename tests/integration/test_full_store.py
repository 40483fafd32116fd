"""Targets whose file systems are full, and no other target, on real hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from demo import plays, traces

from lab import GuestSpec, Lab

pytestmark = [pytest.mark.lab, pytest.mark.full]

STORE, IMAGES = "/var/lib/libvirt/virtops", "/var/lib/libvirt/images"
HERE = {"maintenance_hosts": "host-a", "drain_backoff": 1}


@pytest.fixture
def lab(shared: Callable[[int], Lab]) -> Iterator[Lab]:
    lab = shared(2)
    yield lab
    for folder in (STORE, IMAGES):
        lab.host("host-b").exec(f"umount {folder}", check=False)
    _refresh(lab)
    restored = plays.run(lab, "restore", HERE)
    assert restored.code == 0, restored.text
    lab.remove_guest("shop")


def _refresh(lab: Lab) -> None:
    target = lab.host("host-b")
    for pool in target.virsh("pool-list", "--name").split():
        target.virsh("pool-refresh", pool)


def _fill(lab: Lab, folder: str, options: str) -> None:
    """A small file system over the directory, with nothing left in it."""
    files = f"for n in $(seq 40); do head -c 8192 /dev/zero >{folder}/fill$n || break; done"
    mount = f"mount -t tmpfs -o mode=0700,{options} none {folder}"
    lab.host("host-b").exec(f"mkdir -p {folder} && {mount} && ({files}; true) 2>&-")
    _refresh(lab)


@pytest.mark.parametrize(
    ("folder", "options", "reason"),
    [
        (STORE, "size=64k", "TargetStoreFull"),
        (IMAGES, "size=64k", "DisksNotLiveMigratable"),
        (IMAGES, "nr_inodes=8,size=64m", "DisksNotLiveMigratable"),
    ],
    ids=["store", "images", "inodes"],
)
def test_it_ends_with_its_own_reason(lab: Lab, folder: str, options: str, reason: str) -> None:
    disks = [("local", 8)] if folder == IMAGES else []
    lab.run("host-a", GuestSpec("shop", disks=disks))
    lab.wait_ticking(["shop"])
    _fill(lab, folder, options)

    ended = plays.run(lab, "drain", HERE)

    assert ended.code != 0
    row = ended.vm("shop")
    assert (row["verdict"], row["reason"]) == ("blocked", reason), ended.text
    assert "host-b" in row["message"] or "No space left" in row["message"]
    assert traces.running(lab.host("host-a")) == ["shop"]
