# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""LiveMigratable in advance, on real hosts, beside what libvirt says when asked anyway.

Each guest has one thing that keeps it where it is. First check mode must name it; then virsh
is asked to migrate the same guest, and its answer is looked at too: either it refuses, or it
does what must not be done (a full host), and then the reason is ours to give.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from demo import plays, traces

from lab import GuestSpec, Lab, need_lab
from lab.names import lab_name

pytestmark = pytest.mark.lab

CDROM = (
    "<disk type='file' device='cdrom'><driver name='qemu' type='raw'/>"
    "<source file='/var/lib/libvirt/images/tools.iso'/><target dev='sda' bus='sata'/></disk>"
)
SHARE = (
    "<filesystem type='mount' accessmode='mapped'><source dir='/srv'/><target dir='s'/>"
    "</filesystem>"
)
IVSHMEM = "<shmem name='pad'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>"
DMZ = "<interface type='network'><source network='dmz'/><model type='virtio'/></interface>"
MOVES = ""  # libvirt migrates it all the same


@dataclass(frozen=True)
class Kind:
    """A guest, what is done to it, the reason that check mode gives, and libvirt's answer."""

    spec: GuestSpec
    reason: str
    says: str
    prepare: Callable[[Lab], object] = lambda _lab: None
    flags: tuple[str, ...] = ()


def _other_web(lab: Lab) -> None:
    """Another domain with the same name on the target, off."""
    other = GuestSpec("named", uuid="11111111-2222-3333-4444-555555555555")
    lab.host("host-b").virsh("define", "/dev/stdin", stdin=lab.xml(other))


def _block_job(lab: Lab) -> None:
    """A copy of a disk: it mirrors what is written until somebody ends it."""
    copy = "/var/lib/libvirt/images/copy.qcow2"
    lab.host("host-a").virsh("blockcopy", "copying", "vda", copy, "--transient-job")


KINDS = (
    # QEMU refuses it only once the guest has mounted the share, which nobody outside knows.
    Kind(GuestSpec("share", devices_xml=SHARE), "VirtIOFSNotLiveMigratable", MOVES),
    Kind(GuestSpec("network", devices_xml=DMZ), "InterfaceNotLiveMigratable", "dmz"),
    Kind(GuestSpec("medium", devices_xml=CDROM), "DisksNotLiveMigratable", "unsafe|tools.iso"),
    Kind(GuestSpec("shmem", devices_xml=IVSHMEM), "HotplugNotLiveMigratable", "shmem|master"),
    Kind(
        GuestSpec("snapped", disks=[("local", 8)]),
        "SnapshotsPresent",
        "snapshot",
        lambda lab: lab.host("host-a").virsh("snapshot-create-as", "snapped", "before"),
        ("--copy-storage-all",),
    ),
    Kind(
        GuestSpec("copying", disks=[("local", 64)]),
        "BlockJobRunning",
        "block job|block copy",
        _block_job,
        ("--copy-storage-all",),
    ),
    Kind(GuestSpec("named"), "NameTaken", "already exists", _other_web),
    Kind(
        GuestSpec("stopped"),
        "StateNotLiveMigratable",
        MOVES,
        lambda lab: lab.host("host-a").virsh("suspend", "stopped"),
    ),
    Kind(GuestSpec("huge", memory_mib=192, max_memory_mib=12000), "NoTargetWithCapacity", MOVES),
)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """All guests on host-a; host-b has no network `dmz`, no medium, and less memory."""
    need_lab()
    name = f"{lab_name()[:20]}-reasons"
    Lab.down(name)
    try:
        lab = Lab.up(name, 2, {"host-a": 65536, "host-b": 8192})
        host = lab.host("host-a")
        bridge = host.virsh("net-dumpxml", "lan").partition("<bridge name='")[2].partition("'")[0]
        dmz = (
            f"<network><name>dmz</name><forward mode='bridge'/><bridge name='{bridge}'/></network>"
        )
        host.virsh("net-define", "/dev/stdin", stdin=f"<network><name>dmz</name>{dmz}</network>")
        host.virsh("net-start", "dmz")
        host.exec("mkdir -p /srv && truncate -s 1M /var/lib/libvirt/images/tools.iso")
        for kind in KINDS:
            lab.run("host-a", kind.spec)
        lab.wait_ticking([kind.spec.name for kind in KINDS], 180)
        for kind in KINDS:
            kind.prepare(lab)
        yield lab
    finally:
        Lab.down(name)


@pytest.fixture(scope="module")
def told(lab: Lab) -> dict[str, dict[str, object]]:
    """What check mode says of each guest. It changes nothing."""
    before = traces.snapshot(lab)
    ended = plays.run(lab, "drain", {"maintenance_hosts": "host-a"}, "--check")
    assert traces.snapshot(lab) == before
    return {row["name"]: row for row in ended.last["vms"]}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.spec.name)
def test_the_reason_is_known_in_advance(
    lab: Lab, told: dict[str, dict[str, object]], kind: Kind
) -> None:
    row = told[kind.spec.name]
    assert (row["verdict"], row["reason"], row["plane"]) == ("blocked", kind.reason, "control")
    assert row["message"]
    assert row["remedy"]
    answer = _ask_libvirt(lab, kind)
    if kind.says == MOVES:
        assert answer == "", answer
        assert kind.spec.name in lab.host("host-b").virsh("list", "--name").split()
    else:
        assert re.search(kind.says, answer, re.IGNORECASE), answer
        assert kind.spec.name in lab.host("host-a").virsh("list", "--name").split()


def _ask_libvirt(lab: Lab, kind: Kind) -> str:
    """virsh migrate, as anyone would type it; its error, or nothing."""
    uri = lab.host("host-b").peer_uri
    words = ["virsh", "migrate", "--live", "--p2p", "--persistent", "--undefinesource"]
    done = lab.host("host-a").exec([*words, *kind.flags, kind.spec.name, uri], check=False)
    return "" if done.returncode == 0 else done.stderr
