"""VMs that would wake up on other data, on real hosts, beside what libvirt does when asked anyway.

Where both hosts have a file, or serve a disk, of the same name, host-b's is another VM's. First
the preflight must name it, and change nothing. Then libvirt migrates the same guest: either it
refuses late, or the guest itself says that its disk is not its own.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from demo import plays, preflights, traces
from demo.preflights import Seen
from integration.on_host import ask_libvirt

from lab import GuestSpec, Lab, names, own_lab
from lab.diskring import ring, said
from lab.guest import SELDOM
from lab.host import Host
from lab.hostfiles import GUEST_IMAGE
from lab.procs import run, wait_for
from lab.storage import PORT

pytestmark = [pytest.mark.lab, pytest.mark.full]

IMAGES = "/var/lib/libvirt/images"
MINE, OTHERS = 0xA, 0xB  # whose disk it is: what host-a has, and what host-b has
ALIAS = "store.lab"  # in /etc/hosts of every host: its own
GIVEN = [("given", 1)]
SLOWLY = 4000  # so that for minutes it reads what was there when it started
FINE = "cluster_size=4096"  # one of the guest's blocks: a write brings no other one up from below
BOOTED = "11111111-2222-3333-4444-555555555511"


def file(path: str, kind: str = "raw", more: str = "", dev: str = "vda") -> str:
    return _disk("file", kind, f"<source file='{path}'/>{more}", dev)


def volume(pool: str, name: str, dev: str) -> str:
    return _disk("volume", "qcow2", f"<source pool='{pool}' volume='{name}'/>", dev)


def nbd(where: str, dev: str = "vda", export: str = "d", kind: str = "raw", more: str = "") -> str:
    inner = f"<source protocol='nbd' name='{export}'><host {where}/></source>{more}"
    return _disk("network", kind, inner, dev)


def base(path: str) -> str:
    return f"<backingStore type='file'><format type='raw'/><source file='{path}'/></backingStore>"


def _disk(kind: str, driver: str, inner: str, dev: str) -> str:
    return (
        f"<disk type='{kind}' device='disk'><driver name='qemu' type='{driver}' cache='none'/>"
        f"{inner}<target dev='{dev}' bus='virtio'/></disk>"
    )


@dataclass(frozen=True)
class Place:
    """Where the guests' disks are. `shared`: a directory that both hosts see."""

    lab: Lab
    shared: Path

    def specs(self) -> list[GuestSpec]:
        a, gate = self.lab.host("host-a"), names.gateway(self.lab.number)
        served = (
            nbd("name='127.0.0.2' port='10900'")
            + nbd(f"name='{ALIAS}' port='10900'", "vdb")
            + nbd(f"name='{a.address}' port='10902'", "vdc")
            + nbd("transport='unix' socket='/run/nbd.sock'", "vdd")
        )
        outside = f"name='{gate}' port='{PORT}'"
        chain = base(f"{IMAGES}/based.raw")
        named = file(f"{IMAGES}/named.qcow2", "qcow2", base(f"{IMAGES}/named.raw"))
        copied = file(f"{IMAGES}/copied.qcow2", "qcow2") + volume("default", "copied-b.qcow2", "vdb")
        return [
            GuestSpec("based", disks=GIVEN, disk_ms=SLOWLY, devices_xml=nbd(outside, "vda", "based", "qcow2", chain)),
            GuestSpec("served", disks=GIVEN * 4, devices_xml=served),
            GuestSpec("pooled", disks=GIVEN, disk_ms=SLOWLY, devices_xml=volume("both", "pooled.qcow2", "vda")),
            GuestSpec("named", disks=GIVEN, devices_xml=named),
            GuestSpec("inway", disks=[("local", 1)]),
            GuestSpec("declared", disks=GIVEN, devices_xml=file(f"{self.shared}/declared.raw")),
            GuestSpec("booted", uuid=BOOTED),
            GuestSpec("copied", disks=GIVEN * 2, devices_xml=copied),
        ]


def _images(place: Place) -> None:
    """Each host's own disks, under the same names, and those that both see."""
    lab = place.lab
    for host, disk_id in ((lab.host("host-a"), MINE), (lab.host("host-b"), OTHERS)):
        for name in ("based", "pooled", "copied", "copied-b", "ip", "alias", "socket", "own"):
            _write(host, f"{IMAGES}/{name}.raw", ring(disk_id))
        host.exec(f"echo 127.0.0.3 {ALIAS} >> /etc/hosts")
        _serve(host, f"{IMAGES}/ip.raw", "-b 127.0.0.2 -p 10900")
        _serve(host, f"{IMAGES}/alias.raw", "-b 127.0.0.3 -p 10900")
        _serve(host, f"{IMAGES}/socket.raw", "-k /run/nbd.sock")
        pool = f"<pool type='dir'><name>both</name><target><path>{place.shared}</path></target></pool>"
        host.virsh("pool-create", "/dev/stdin", stdin=pool)
    a = lab.host("host-a")
    _serve(a, f"{IMAGES}/own.raw", f"-b {a.address} -p 10902")
    _write(a, f"{IMAGES}/named.raw", ring(MINE))
    _write(a, f"{place.shared}/declared.raw", ring(MINE))
    for name in ("named", "copied", "copied-b"):
        _overlay(a, f"{IMAGES}/{name}.qcow2", f"{IMAGES}/{name}.raw")
    _overlay(a, f"{place.shared}/pooled.qcow2", f"{IMAGES}/pooled.raw")
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-o", FINE, str(lab.paths.nbd / "based"), "1M"])
    run(["truncate", "-s", "4M", str(lab.paths.nbd / "based")])  # over NBD it cannot grow
    a.exec(f"cp {GUEST_IMAGE}/vmlinuz {IMAGES}/kernel-of-a")
    lab.host("host-b").exec(f"echo stranger > {IMAGES}/inway-vda.qcow2")
    for host in lab.hosts.values():
        for pool in ("default", "both"):
            host.virsh("pool-refresh", pool)


def _write(host: Host, path: str, data: bytes) -> None:
    text = f"import sys; open({path!r}, 'wb').write(bytes.fromhex(sys.stdin.read()))"
    host.exec(["/usr/bin/python3", "-c", text], stdin=data.hex())


def _overlay(host: Host, path: str, below: str) -> None:
    host.exec(f"qemu-img create -q -f qcow2 -o {FINE} -b {below} -F raw {path}")


def _serve(host: Host, path: str, where: str) -> None:
    options = f"--persistent --shared 9 -f raw -x d --pid-file {path}.pid"
    host.exec(f"qemu-nbd --fork {options} {where} {path}")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """All guests on host-a."""
    shared = names.REPO / "build" / "shared-hidden"
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir(parents=True)
    with own_lab("hidden", 2) as lab:
        place = Place(lab, shared)
        _images(place)
        specs = [replace(spec, tick_ms=SELDOM) for spec in place.specs()]
        for spec in specs:
            lab.define("host-a", spec)
            if spec.name == "booted":
                xml = lab.xml(spec).replace(f"{GUEST_IMAGE}/vmlinuz", f"{IMAGES}/kernel-of-a")
                lab.host("host-a").virsh("define", "/dev/stdin", stdin=xml)
            lab.start("host-a", spec.name)
        lab.wait_ticking([spec.name for spec in specs])
        yield place
    shutil.rmtree(shared, ignore_errors=True)


@pytest.fixture(scope="module")
def seen(place: Place) -> Seen:
    """What the preflight says. It changes nothing."""
    before = traces.snapshot(place.lab)
    asked = {"shared_paths": [str(place.shared)]}
    found = preflights.look(place.lab, "host-a", {"hidden": asked})["hidden"]
    assert traces.snapshot(place.lab) == before
    return found


@dataclass(frozen=True)
class Case:
    """A guest, what the preflight says of it, and what virsh answers.

    foreign: the disks of which the guest says that they are not its own; only where it moves.
    """

    guest: str
    code: str
    names: tuple[str, ...]
    refuses: str = ""
    foreign: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    prepare: str = ""  # what somebody who wants to have it does on host-b first


COPY = "NON_SHARED_DISK"
DISKS = "DisksNotLiveMigratable"
CASES = (
    Case("based", DISKS, (r"based.raw, which is on this host alone",), foreign=("vda",)),
    Case(
        "served",
        DISKS,
        (r"127\.0\.0\.2", ALIAS, "which is this host itself", "/run/nbd.sock"),
        foreign=("vda", "vdb", "vdd"),
    ),
    Case("pooled", DISKS, (r"pooled.raw, which is on this host alone",), foreign=("vda",), flags=("UNSAFE",)),
    Case(
        "named",
        DISKS,
        (r"stands on .*/named.raw, which is not on host-b",),
        refuses="named.raw.*No such file",
        flags=(COPY,),
        prepare=f"qemu-img create -q -f qcow2 {IMAGES}/named.qcow2 1M",
    ),
    Case("declared", DISKS, ("shared_filesystems",), refuses="without shared storage is unsafe"),
    Case("booted", "FileMissing", ("kernel-of-a",), refuses="kernel-of-a"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.guest)
def test_it_is_known_before_anything_moves(place: Place, seen: Seen, case: Case) -> None:
    told = [text for who, kind, text in seen.of(case.code) if who == f"VM {case.guest}"]
    assert all(re.search(name, " ".join(told)) for name in case.names), told
    lab, b = place.lab, place.lab.host("host-b")
    if case.prepare:
        b.exec(case.prepare)
        b.virsh("pool-refresh", "default")
    answer = ask_libvirt(lab, case.guest, *case.flags)
    if case.refuses:
        assert re.search(case.refuses, answer, re.IGNORECASE), answer
        assert case.guest in traces.running(lab.host("host-a"))
        return
    assert answer == ""
    wrong = [disk for disk in case.foreign if not wait_for(lambda d=disk: _foreign(lab, case.guest, d))]
    assert wrong == []


def _foreign(lab: Lab, guest: str, disk: str) -> bool:
    """Does it say on host-b that what it reads there is another VM's?"""
    return "err foreign" in said(lab.paths.raw, "host-b", guest, disk)


def test_what_this_host_serves_itself_stays_on_it(place: Place) -> None:
    """It did move, and its data did not: nothing but the host under maintenance has them."""
    lab = place.lab
    assert "served" in traces.running(lab.host("host-b"))
    assert wait_for(lambda: _reads(lab, "host-b", "served", "vdc"))
    lab.host("host-a").exec(f"kill $(cat {IMAGES}/own.raw.pid)")
    assert wait_for(lambda: "err" in " ".join(said(lab.paths.raw, "host-b", "served", "vdc")))


def _reads(lab: Lab, host: str, guest: str, disk: str) -> bool:
    """Has it read its disk there, and found it as it left it?"""
    lines = said(lab.paths.raw, host, guest, disk)
    return any(line.startswith("ok") for line in lines) and "err" not in " ".join(lines)


def test_a_file_in_the_way_is_known_and_left_alone(place: Place, seen: Seen) -> None:
    lab, path = place.lab, f"{IMAGES}/inway-vda.qcow2"
    (told,) = [text for who, _kind, text in seen.of(DISKS) if who == "VM inway"]
    assert f"{path} exists on the target, but was not created for this VM" in told
    ended = _migrate(place, "inway")
    assert ended.code != 0
    assert ended.vm("inway")["reason"] == DISKS
    assert lab.host("host-b").exec(f"cat {path}").stdout == "stranger\n"
    # libvirt writes over whatever has a size that fits.
    lab.host("host-b").exec(f"qemu-img create -q -f qcow2 {path} 1M; echo stranger >> {path}")
    assert ask_libvirt(lab, "inway", COPY) == ""
    assert "stranger" not in lab.host("host-b").exec(f"tail -c 9 {path} | tr -d '\\0'").stdout


def test_what_is_copied_is_its_own_there(place: Place, seen: Seen) -> None:
    """A chain that libvirt found, and a disk that is named by its pool: both are copied whole."""
    lab = place.lab
    assert "VM copied" not in [row[0] for row in seen.of(DISKS)]
    ended = _migrate(place, "copied")
    assert ended.code == 0, ended.text
    assert "copied" in traces.running(lab.host("host-b"))
    assert wait_for(lambda: _reads(lab, "host-b", "copied", "vda"))
    assert wait_for(lambda: _reads(lab, "host-b", "copied", "vdb"))


def _migrate(place: Place, guest: str) -> plays.Ended:
    own, peer = place.lab.host("host-a"), place.lab.host("host-b")
    options = {
        "name": guest,
        "node": own.name,
        "memory": own.memory_mib,
        "peers": [{"name": peer.name, "uri": peer.peer_uri, "memory": peer.memory_mib}],
        "shared_paths": [str(place.shared)],
    }
    book = place.lab.paths.logs / f"move-{guest}.yml"
    task = {"virtops.maintenance.virt_migration": options}
    play = {"hosts": own.name, "gather_facts": False, "tasks": [task]}
    book.write_text(json.dumps([play]), encoding="utf-8")
    return plays.run(place.lab, str(book), {})


def test_a_declared_file_moves_while_it_is_off(place: Place) -> None:
    lab = place.lab
    rules = [{"name": "cold", "when": "name == 'declared'", "on_not_migratable": "cold_migrate"}]
    rules[0] |= {"allow_stop": True}
    here = {
        "maintenance_hosts": "host-a",
        "maintenance_shared_paths": [str(place.shared)],
        "drain_on_not_migratable": "skip",
        "drain_rules": rules,
    }
    lab.announce_stop("declared")
    ended = plays.run(lab, "drain", here)
    assert ended.vm("declared")["verdict"] == "cold_moved", ended.text
    assert "declared" in traces.running(lab.host("host-b"))
    assert wait_for(lambda: _reads(lab, "host-b", "declared", "vda"))
