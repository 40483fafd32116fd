"""Devices, arguments and histories that keep a VM on its host, on real hosts, beside what libvirt
does when asked anyway.

Each guest has one of them. Check mode names it first. Then libvirt is asked to migrate the same
guest: either it refuses at the last moment, or it moves it, and what became of the guest shows why
the reason is ours to give.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from demo import plays, traces
from integration.on_host import ask_libvirt
from recorded.take import compare

from lab import GuestSpec, Lab, own_lab
from lab.guest import SELDOM
from lab.names import gateway
from lab.procs import run, wait_for
from lab.storage import PORT

pytestmark = [pytest.mark.lab, pytest.mark.full]

QEMU = "xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'"
PORTABLE = (
    "<v:vm xmlns:v='https://virtops.example/xmlns/maintenance/1'><v:qemuCommandLine>portable</v:qemuCommandLine></v:vm>"
)
EXTRA = "/srv/extra.img"  # another file at this path on each host
OWN_QEMU = "/var/lib/own-qemu"
EMULATED = "11111111-2222-3333-4444-555555555505"
CHAIN = "qcow2-with-bitmaps"
MOVES = ""  # libvirt migrates it all the same


def _past_libvirt(*words: str, variables: str = "") -> str:
    arguments = "".join(f"<qemu:arg value='{word}'/>" for word in words)
    return f"<qemu:commandline {QEMU}>{arguments}{variables}</qemu:commandline>"


def _vnc(more: str) -> str:
    return f"<graphics type='vnc' {more}/><video><model type='vga'/></video>"


FILE = _past_libvirt(
    *("-drive", f"file={EXTRA},if=none,format=raw,id=extra"), *("-device", "virtio-blk-pci,drive=extra,addr=0x1e")
)
SAME = _past_libvirt("-fw_cfg", "name=opt/org.example/role,string=web")
# QEMU marks this device as one that does not migrate, and libvirt does not know of it.
AUDIO = _past_libvirt(
    *("-device", "qemu-xhci,id=more,addr=0x1d", "-audiodev", "none,id=mute"),
    *("-device", "usb-audio,bus=more.0,audiodev=mute"),
)
VARIABLE = "<qemu:env name='QEMU_AUDIO_DRV' value='none'/>"
TAP = "<interface type='ethernet'><target dev='tapx' managed='no'/><model type='virtio'/></interface>"
BRIDGE = "<interface type='bridge'><source bridge='brz'/><model type='virtio'/></interface>"
BITMAPS = """
<disk type='network' device='disk'>
  <driver name='qemu' type='qcow2'/>
  <source protocol='nbd' name='{name}'><host name='{host}' port='{port}'/></source>
  <target dev='vda' bus='virtio'/>
</disk>
"""
BACKUP = (
    "<domainbackup><disks><disk name='vda' type='file'><target file='/var/lib/libvirt/images/b'/>"
    "</disk></disks></domainbackup>"
)
NIGHTLY = "<domaincheckpoint><name>nightly</name></domaincheckpoint>"


def _reads_other_bytes(lab: Lab) -> None:
    """What QEMU reads there of the guest's disk. It writes that to its log."""
    host = lab.host("host-b")
    host.virsh("qemu-monitor-command", "argued", "--hmp", 'qemu-io extra "read -v 0 16"')
    log = host.exec("cat /var/log/libvirt/qemu/argued.log").stdout
    assert "42 42 42 42" in log  # BBBB
    assert "41 41 41 41" not in log  # AAAA, which was there before


def _checkpoint(lab: Lab) -> None:
    lab.host("host-a").virsh("checkpoint-create-as", "backed", "nightly")


def _backup_fails(lab: Lab) -> None:
    """libvirt has forgotten the checkpoint, QEMU has not."""
    host = lab.host("host-b")
    assert host.virsh("checkpoint-list", "backed", "--name") == ""
    host.exec(f"cat > /tmp/backup.xml <<'X'\n{BACKUP}\nX\ncat > /tmp/point.xml <<'X'\n{NIGHTLY}\nX")
    words = ["virsh", "backup-begin", "backed", "/tmp/backup.xml", "/tmp/point.xml"]
    assert "Bitmap already exists" in host.exec(words, check=False).stderr


def _asked_of_its_monitor(lab: Lab) -> None:
    lab.host("host-a").virsh("qemu-monitor-command", "blocked", '{"execute": "query-status"}')


@dataclass(frozen=True)
class Kind:
    """A guest, the reason that check mode gives, a word of its message, and libvirt's answer.

    prepare: what is done to it before. after: what became of it, where libvirt moves it.
    """

    spec: GuestSpec
    reason: str
    names: str
    says: str
    prepare: Callable[[Lab], object] = lambda _lab: None
    after: Callable[[Lab], object] = lambda _lab: None


KINDS = (
    Kind(
        GuestSpec("argued", extra_xml=FILE),
        "QEMUCommandLineNotDeclared",
        "-drive, -device",
        MOVES,
        after=_reads_other_bytes,
    ),
    Kind(
        GuestSpec("varied", extra_xml=_past_libvirt(variables=VARIABLE)),
        "QEMUCommandLineNotDeclared",
        "variable QEMU_AUDIO_DRV",
        MOVES,
    ),
    Kind(
        GuestSpec("blocked", extra_xml=AUDIO, metadata_xml=PORTABLE),
        "MigrationBlockedByQEMU",
        "usb-audio",
        "cannot migrate domain: .*usb-audio",
        _asked_of_its_monitor,
    ),
    Kind(GuestSpec("backed"), "CheckpointsPresent", "1", MOVES, _checkpoint, _backup_fails),
    Kind(
        GuestSpec("whole", cpu_xml="<cpu mode='maximum' migratable='off'/>"),
        "CPUModelNotLiveMigratable",
        "migratable='off'",
        MOVES,
    ),
    Kind(GuestSpec("listens"), "GraphicsNotLiveMigratable", "an address of its host", "assign requested"),
    Kind(
        GuestSpec("shown", devices_xml=_vnc("port='5951' autoport='no' listen='0.0.0.0'")),
        "GraphicsNotLiveMigratable",
        "5951, which there has",
        "reserve port 5951",
    ),
    Kind(GuestSpec("emulated", uuid=EMULATED), "EmulatorMissing", OWN_QEMU, OWN_QEMU),
    Kind(GuestSpec("tapped", devices_xml=TAP), "InterfaceNotLiveMigratable", "tapx", "managed='no'"),
    Kind(GuestSpec("bridged", devices_xml=BRIDGE), "InterfaceNotLiveMigratable", "'brz'", "brz"),
)
# They move: what keeps the others is not there, or its owner answers for it.
VNC_ANYWHERE = _vnc("port='-1' autoport='yes' listen='0.0.0.0'")
FREE = (GuestSpec("declared", extra_xml=SAME, metadata_xml=PORTABLE), GuestSpec("plain", devices_xml=VNC_ANYWHERE))
# Nobody used its monitor, so only libvirt's refusal tells.
UNTOUCHED = GuestSpec("untouched", extra_xml=AUDIO, metadata_xml=PORTABLE)
# On the target, with a port that another one asks for.
THERE = GuestSpec("there", devices_xml=_vnc("port='5951' autoport='no' listen='0.0.0.0'"))


def _specs(lab: Lab) -> Iterator[GuestSpec]:
    """The guests of host-a. Some need to know the lab."""
    own = lab.host("host-a").address
    devices = {
        "backed": BITMAPS.format(name=CHAIN, host=gateway(lab.number), port=PORT),
        "listens": _vnc(f"port='5950' autoport='no' listen='{own}'"),
    }
    for spec in (*(kind.spec for kind in KINDS), *FREE, UNTOUCHED):
        yield replace(spec, devices_xml=devices.get(spec.name, spec.devices_xml))


def _furnish(lab: Lab) -> None:
    """What each of the two hosts has."""
    disk = str(lab.paths.nbd / CHAIN)
    run(["qemu-img", "create", "-q", "-f", "qcow2", disk, "1M"])
    run(["truncate", "-s", "8M", disk])  # room for its bitmaps: an export does not grow
    a, b = lab.host("host-a"), lab.host("host-b")
    for host, letter in ((a, "A"), (b, "B")):
        host.exec(f"mkdir -p /srv && yes {letter * 4} | head -c 65536 > {EXTRA}")
    a.exec(
        f"printf '#!/bin/sh\\nexec /usr/bin/qemu-system-x86_64 \"$@\"\\n' > {OWN_QEMU};"
        f" chmod 755 {OWN_QEMU}; ip tuntap add tapx mode tap; ip link add brz type bridge;"
        " ip link set brz up"
    )
    # libvirt sees network devices as node devices only when it starts.
    b.exec("ip link add brz-x type veth peer name brz-y")
    b.exec("kill -9 $(cat /run/libvirtd.pid)")
    nets = ("nodedev-list", "--cap", "net")
    assert wait_for(lambda: "net_brz_x_" in b.virsh(*nets, check=False))


def _start(lab: Lab, spec: GuestSpec) -> None:
    lab.define("host-a", spec)
    if spec.name == "emulated":
        xml = lab.xml(spec).replace("/usr/bin/qemu-system-x86_64", OWN_QEMU)
        lab.host("host-a").virsh("define", "/dev/stdin", stdin=xml)
    lab.start("host-a", spec.name)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with own_lab("devices", 2) as lab:
        _furnish(lab)
        specs = [replace(spec, tick_ms=SELDOM) for spec in _specs(lab)]
        for spec in specs:
            _start(lab, spec)
        lab.run("host-b", THERE)
        lab.wait_ticking([*(spec.name for spec in specs), THERE.name])
        for kind in KINDS:
            kind.prepare(lab)
        yield lab


def test_libvirt_answers_as_recorded(lab: Lab) -> None:
    assert compare(lab, "host-a", "devices", {}) == []


@pytest.fixture(scope="module")
def told(lab: Lab) -> dict[str, dict[str, Any]]:
    """What check mode says of each guest. It changes nothing, and taints nobody."""
    before, taints = traces.snapshot(lab), _tainted(lab)
    ended = plays.run(lab, "drain", {"maintenance_hosts": "host-a"}, "--check")
    assert traces.snapshot(lab) == before
    assert _tainted(lab) == taints == {"blocked"}
    return {row["name"]: row for row in ended.last["vms"]}


def _tainted(lab: Lab) -> set[str]:
    """Guests of host-a whose monitor was used by hand."""
    host = lab.host("host-a")
    names = host.virsh("list", "--name").split()
    return {name for name in names if "custom monitor" in host.virsh("dominfo", name)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.spec.name)
def test_the_reason_is_known_in_advance(lab: Lab, told: dict[str, dict[str, Any]], kind: Kind) -> None:
    name = kind.spec.name
    row = told[name]
    assert (row["verdict"], row["reason"], row["plane"]) == ("blocked", kind.reason, "control"), row
    assert kind.names in row["message"]
    assert row["remedy"]
    answer = ask_libvirt(lab, name)
    if kind.says == MOVES:
        assert answer == "", answer
        lab.wait_ticking([name])
        kind.after(lab)
    else:
        assert re.search(kind.says, answer), answer
        assert name in lab.host("host-a").virsh("list", "--name").split()


@pytest.mark.parametrize("name", [*(spec.name for spec in FREE), UNTOUCHED.name])
def test_what_may_move_is_not_kept(told: dict[str, dict[str, Any]], name: str) -> None:
    assert told[name]["verdict"] != "blocked", told[name]


def test_what_only_qemu_knows_is_asked_once_and_told_in_its_words(lab: Lab) -> None:
    """Two attempts more would be refused in the same words."""
    here = {"maintenance_hosts": "host-a", "drain_timeout": 120}
    ended = plays.run(lab, "drain", here)
    row = ended.vm(UNTOUCHED.name)
    assert (row["verdict"], row["reason"]) == ("blocked", "MigrationBlockedByQEMU"), row
    assert "usb-audio" in row["message"]
    assert row["attempts"] == 1
    for spec in FREE:
        assert ended.vm(spec.name)["verdict"] == "moved"
    lab.wait_ticking([*(spec.name for spec in FREE), UNTOUCHED.name])
    assert UNTOUCHED.name not in _tainted(lab)
