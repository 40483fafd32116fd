"""Storage that is said to be shared, and is another one on the target, on real hosts.

Declared by its path: no network file system is to be had in the lab's kernel. What is asked of a
target is the same for those that are known by their kind.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from demo import plays, preflights, traces

from lab import GuestSpec, Lab, names, need_lab
from lab.diskring import ring, said
from lab.host import Host
from lab.procs import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.full]

MINE, OTHERS = 0xA, 0xB
UUID = "11111111-2222-3333-4444-555555555515"
# Keeps a running guest where it is. Every host has this directory, so off it may go.
SHARE = "<filesystem type='mount' accessmode='mapped'><source dir='/srv'/><target dir='s'/></filesystem>"


def _write(host: Host, path: str, data: bytes) -> None:
    text = f"import sys; open({path!r}, 'wb').write(bytes.fromhex(sys.stdin.read()))"
    host.exec(["/usr/bin/python3", "-c", text], stdin=data.hex())


@pytest.fixture(scope="module")
def own() -> Iterator[tuple[Lab, Path]]:
    """A lab of its own: one of its guests is to read another VM's disk. And what both hosts see."""
    need_lab()
    name = f"{names.lab_name()[:20]}-same"
    shared = names.REPO / "build" / f"shared-{name}"
    Lab.down(name)
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir(parents=True)
    try:
        yield Lab.up(name, 2), shared
    finally:
        Lab.down(name)
        shutil.rmtree(shared, ignore_errors=True)


@pytest.fixture
def lab(own: tuple[Lab, Path]) -> Iterator[Lab]:
    """The guest runs on host-a, its disk in the directory that both see."""
    lab, shared = own
    _write(lab.host("host-a"), f"{shared}/web.raw", ring(MINE))
    disk = (
        "<disk type='file' device='disk'><driver name='qemu' type='raw' cache='none'/>"
        f"<source file='{shared}/web.raw'/><target dev='vda' bus='virtio'/></disk>"
    )
    lab.run("host-a", GuestSpec("web", uuid=UUID, disks=[("given", 1)], devices_xml=SHARE + disk))
    lab.wait_ticking(["web"])
    yield lab
    lab.host("host-b").exec(f"umount {shared}", check=False)
    restored = plays.run(lab, "restore", {"maintenance_hosts": "host-a"})
    assert restored.code == 0, restored.text
    lab.remove_guest("web")


def _cold(shared: Path) -> dict[str, object]:
    return {
        "maintenance_hosts": "host-a",
        "maintenance_shared_paths": [str(shared)],
        "drain_allow_stop": True,
        "drain_on_not_migratable": "cold_migrate",
    }


def test_what_both_hosts_see_is_shown_and_nothing_is_left_of_it(own: tuple[Lab, Path], lab: Lab) -> None:
    """host-b has no storage pool there, and no file rests: it makes one for the moment."""
    target, shared = lab.host("host-b"), own[1]
    pools = target.virsh("pool-list", "--all", "--name")
    lab.announce_stop("web")

    ended = plays.run(lab, "drain", _cold(shared))

    assert ended.code == 0, ended.text
    assert ended.vm("web")["verdict"] == "cold_moved"
    assert wait_for(lambda: f"old {MINE:016x}" in " ".join(_said(lab)))
    assert set(target.virsh("pool-list", "--all", "--name").split()) - set(pools.split()) <= {traces.POOL}
    assert [path.name for path in shared.iterdir()] == ["web.raw"]


def test_another_export_at_the_same_path_is_not_the_same_data(own: tuple[Lab, Path], lab: Lab) -> None:
    source, target, shared = lab.host("host-a"), lab.host("host-b"), own[1]
    target.exec(f"mkdir -p /var/lib/other && mount --bind /var/lib/other {shared}")
    _write(target, f"{shared}/web.raw", ring(OTHERS))
    before = lab.last_tick("web")
    cold = {"on_not_migratable": "cold_migrate", "allow_stop": True}
    asked = {"shared": {"shared_paths": [str(shared)], **cold}}

    told = preflights.look(lab, "host-a", asked)["shared"].of("NotChecked")
    ended = plays.run(lab, "drain", _cold(shared))

    assert any(str(shared) in text and who == "VM web" for who, _kind, text in told), told
    assert ended.code != 0
    row = ended.vm("web")
    assert (row["verdict"], row["reason"]) == ("blocked", "DisksNotLiveMigratable"), ended.text
    assert f"{shared} is another directory on host-b" in row["message"]
    after = lab.last_tick("web")
    assert before and after and before[1] == after[1], "the guest was stopped"
    assert target.exec(f"ls {shared}").stdout.split() == ["web.raw"]
    # What it would have been: started there it is on the other VM's disk.
    lab.announce_stop("web")
    lab.shutdown_guest("host-a", "web")
    assert wait_for(lambda: traces.running(source) == [])
    target.virsh("define", "/dev/stdin", stdin=source.virsh("dumpxml", "--inactive", "web"))
    source.virsh("undefine", "web")
    target.virsh("start", "web")
    assert wait_for(lambda: f"old {OTHERS:016x}" in " ".join(_said(lab)))
    lab.destroy_guest("host-b", "web")


def _said(lab: Lab) -> list[str]:
    return said(lab.paths.raw, "host-b", "web", "vda")
