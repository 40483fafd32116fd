"""What a copied image has beside the guest's data, on real hosts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from demo import plays, traces
from integration.on_host import ask_libvirt

from lab import GuestSpec, Lab
from lab.host import Host

pytestmark = [pytest.mark.lab, pytest.mark.full]

IMAGES = "/var/lib/libvirt/images"
ODD = 8389120  # bytes: no whole KiB
MADE = {
    "lazy": "qemu-img create -q -f qcow2 -o cluster_size=4k,lazy_refcounts=on {path} 16M",
    "inner": "qemu-img create -q -f qcow2 {path} 16M && qemu-img snapshot -c before {path}",
    "odd": f"qemu-img create -q -f qcow2 {{path}} {ODD}",
}


@pytest.fixture
def lab(shared: Callable[[int], Lab]) -> Iterator[Lab]:
    lab = shared(2)
    yield lab
    for host in lab.hosts.values():
        restored = plays.run(lab, "restore", {"maintenance_hosts": host.name})
        assert restored.code == 0, restored.text
    for name in MADE:
        lab.remove_guest(name)


def test_a_copy_is_as_its_owner_made_it_or_is_not_made(lab: Lab) -> None:
    a, b = lab.host("host-a"), lab.host("host-b")
    for name, command in MADE.items():
        a.exec(command.format(path=f"{IMAGES}/{name}.qcow2"))
        disk = (
            "<disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none'/>"
            f"<source file='{IMAGES}/{name}.qcow2'/><target dev='vda' bus='virtio'/></disk>"
        )
        lab.run("host-a", GuestSpec(name, disks=[("given", 1)], devices_xml=disk))
    lab.wait_ticking([*MADE])
    mine = _image(a, "lazy")

    ended = plays.run(lab, "drain", {**plays.UNMEASURED, "maintenance_hosts": "host-a"})

    assert ended.code != 0
    rows = {name: ended.vm(name) for name in MADE}
    assert rows["lazy"]["verdict"] == "moved", rows
    for name, words in (("inner", "would lack the snapshots in its image (1,"), ("odd", f"of its {ODD} bytes")):
        assert (rows[name]["verdict"], rows[name]["reason"]) == ("blocked", "DisksNotLiveMigratable"), rows
        assert words in rows[name]["message"] and rows[name]["attempts"] == 0
    assert sorted(traces.running(a)) == ["inner", "odd"]
    assert _image(b, "lazy") == mine
    lab.wait_ticking([*MADE])
    # libvirt copies it, and the copy has no snapshot.
    b.virsh("vol-create-as", "default", "inner.qcow2", "16M", "--format", "qcow2")
    assert ask_libvirt(lab, "inner", "NON_SHARED_DISK") == ""
    assert "snapshots" not in _info(b, "inner")


def _info(host: Host, name: str) -> dict[str, Any]:
    return json.loads(host.exec(f"qemu-img info -U --output=json {IMAGES}/{name}.qcow2").stdout)  # type: ignore[no-any-return]


def _image(host: Host, name: str) -> tuple[Any, ...]:
    found = _info(host, name)
    more = found["format-specific"]["data"]
    return found["virtual-size"], found["cluster-size"], more["compat"], more["lazy-refcounts"]
