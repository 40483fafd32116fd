"""A peer that lies, on real hosts: what it keeps for another host is no way to run code there.

host-a has stopped a transient VM, and its own volume of definitions is damaged: what it needs is
on host-b, which has put something else there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from demo import plays, traces

from ansible_collections.virtops.maintenance.tests.integration.on_host import PACKAGE, on
from lab import GuestSpec, Lab

pytestmark = pytest.mark.lab

HERE = {**plays.UNMEASURED, "maintenance_hosts": "host-a"}
STOP = [{"name": "job", "when": "name == 'job'", "strategy": "None", "allow_stop": True}]
POOL = "/var/lib/libvirt/virtops"
RAN = "/run/evil-has-run"
# What a liar would like to have started, each by itself enough.
EVIL = {
    "emulator": ("<emulator>.*?</emulator>", "<emulator>/tmp/evil</emulator>"),
    "disk": (
        "</devices>",
        "<disk type='file' device='disk'><source file='/etc/shadow'/><target dev='vdz' bus='virtio'/></disk></devices>",
    ),
    "commandline": (
        "</domain>",
        "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>"
        "<qemu:arg value='-S'/></qemu:commandline></domain>",
    ),
    "bomb": ("\\A", "<!DOCTYPE d [<!ENTITY a 'ha'><!ENTITY b '&a;&a;'>]>"),
}
FORGE = """
import hashlib, re
store = Store(open_connection("qemu:///system"))
(name,) = [n for n in store.names() if n.startswith("copy.host-a.")]
raw = json.loads(store.read(name))
record = json.loads(raw["record"])
((uuid, xml),) = [(u, x) for u, x in raw["definitions"].items() if "<name>job</name>" in x]
evil = re.sub(*evil, xml, count=1, flags=re.DOTALL)
record["vms"][uuid]["definition"] = hashlib.sha256(evil.encode()).hexdigest()
raw["definitions"][uuid], raw["record"] = evil, json.dumps(record)
store.write_record("copy.host-a", json.dumps(raw))
result = evil != xml
"""
PLANT = """
from PACKAGE.store.volumes import pack
import os
conn = open_connection("qemu:///system")
store = Store(conn)
deep = b"[" * 100000
for name in ("copy.host-a.50", "made.%s.3" % uuid, "outcome.%s.1" % uuid, "ended.9"):
    store.create(name, deep)
store.create("copy.host-a.51", json.dumps({"record": json.dumps({"schema": 99})}).encode())
pool = conn.storagePoolLookupByName("virtops")
for name in ("copy.host-a.60", "outcome.%s.2" % uuid, "made.%s.9" % uuid):
    pool.createXML("<volume><name>%s</name><capacity unit='GiB'>1</capacity><allocation>0"
                   "</allocation></volume>" % name, 0)
for name in ("copy.host-a.61", "resv.x.y", "cordon.1", "-rf", "{{ lookup('pipe', 'id') }}"):
    os.symlink("/etc/shadow", "POOL/" + name)
os.mkdir("POOL/copy.host-a.62")
os.symlink("/nowhere", "POOL/copy.host-a.63")
pool.refresh(0)
result = store.names()
""".replace("PACKAGE", PACKAGE).replace("POOL", POOL)


@pytest.fixture(scope="module")
def lab(shared: Callable[[int], Lab]) -> Lab:
    """Two hosts; host-a is drained and has stopped `job`, which is transient."""
    lab = shared(2)
    for host in lab.hosts.values():
        host.exec(f"printf '#!/bin/sh\\ntouch {RAN}\\n' >/tmp/evil && chmod 755 /tmp/evil")
    lab.run("host-a", GuestSpec("job", persistent=False))
    lab.wait_ticking(["job"])
    lab.announce_stop("job")
    ended = plays.run(lab, "drain", {**HERE, "drain_rules": STOP})
    assert ended.code == 0, ended.text
    assert traces.defined(lab.host("host-a")) == []
    return lab


@pytest.fixture(scope="module")
def damaged(lab: Lab) -> Iterator[Path]:
    """The definitions of host-a are noise, and its peer's true copy is out of the way."""
    a, b = (lab.paths.host(name) / "var-lib/libvirt/virtops" for name in ("host-a", "host-b"))
    (volume,) = a.glob("definitions.*")
    (copy,) = b.glob("copy.host-a.*")
    volume.write_bytes(b"\7" * volume.stat().st_size)
    kept = copy.read_bytes()
    yield copy
    for path in b.glob("copy.host-a.*"):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    copy.write_bytes(kept)
    lab.host("host-b").virsh("pool-refresh", traces.POOL)
    ended = restore(lab)
    assert ended.code == 0, ended.text
    assert traces.running(lab.host("host-a")) == ["job"]


def restore(lab: Lab) -> plays.Ended:
    """The module alone, which gives up at once."""
    peer = lab.host("host-b")
    options = {
        "node": "host-a",
        "state": "active",
        "peers": [{"name": peer.name, "uri": peer.peer_uri}],
        "max_attempts": 1,
        "backoff": 0.1,
    }
    play = {"hosts": "host-a", "gather_facts": False, "tasks": [{"virtops.maintenance.virt_drain": options}]}
    book = lab.paths.logs / "restore.yml"
    book.write_text(json.dumps([play]), encoding="utf-8")
    return plays.run(lab, str(book), {})


def _nothing_ran(lab: Lab) -> None:
    for host in lab.hosts.values():
        assert traces.defined(host) == []
        assert host.exec(f"test -e {RAN}", check=False).returncode == 1


@pytest.mark.parametrize(
    "way", ["commandline", *(pytest.param(way, marks=pytest.mark.full) for way in ("emulator", "bomb", "disk"))]
)
def test_what_a_peer_made_up_is_not_started(lab: Lab, damaged: Path, way: str) -> None:
    assert on(lab, "host-b", FORGE, evil=EVIL[way])
    ended = restore(lab)
    row = ended.vm("job")
    assert (row["verdict"], row["reason"]) == ("blocked", "CannotStart"), row
    assert ended.last["phase"] == "Blocked"
    assert "its definition is neither" in row["message"]
    assert "Traceback" not in ended.text
    _nothing_ran(lab)


def test_what_lies_about_in_the_pools_costs_no_time_and_changes_nothing(lab: Lab, damaged: Path) -> None:
    """Huge, nested, newer, and links to other files, on both hosts."""
    record = next(n for n in traces.volumes(lab.host("host-a")) if n.startswith("record."))
    vms = on(
        lab,
        "host-a",
        "result = list(json.loads(Store(open_connection('qemu:///system')).read(name))['vms'])",
        name=record,
    )
    for name in lab.hosts:
        assert "copy.host-a.60" in on(lab, name, PLANT, uuid=vms[0])
    before = {name: _shadow(lab, name) for name in lab.hosts}
    ended = restore(lab)
    assert "Traceback" not in ended.text
    assert ended.vm("job")["reason"] == "CannotStart"
    assert {name: _shadow(lab, name) for name in lab.hosts} == before
    _nothing_ran(lab)


def _shadow(lab: Lab, name: str) -> str:
    return lab.host(name).exec("sha256sum /etc/shadow; stat -c '%a %s %Y' /etc/shadow").stdout


def test_only_root_can_read_what_is_written_down(lab: Lab) -> None:
    """Definitions have the passwords of consoles. A read-only connection may list names."""
    host = lab.host("host-a")
    told = host.exec(f"stat -c '%a %U %n' {POOL} {POOL}/definitions.* {POOL}/record.*").stdout
    for line in told.splitlines():
        assert line.split()[:2] in (["711", "root"], ["700", "root"], ["600", "root"]), line
    (name,) = (n for n in traces.volumes(host) if n.startswith("definitions."))
    read = ["virsh", "-r", "vol-download", "--pool", traces.POOL, name, "/run/stolen"]
    assert "read only access" in host.exec(read, check=False).stderr
