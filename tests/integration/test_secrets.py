"""Secrets of VMs on real hosts: they are where they have to be, and nowhere else.

Planted are the passwords of four consoles, one in an argument of QEMU, the passphrase of an
encrypted disk, and what two disks on the network log in with. A VM is stopped and started, another
one migrates and comes back, the definition of a third is moved, all of it at -vvvv with --diff.
Everything that was said and every file of the hosts is searched after each step.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from demo import plays, traces

from lab import GuestSpec, Host, Lab, own_lab
from lab.storage import luks

pytestmark = [pytest.mark.lab, pytest.mark.full]

ROOT = Path(__file__).resolve().parents[2]
HERE = {"maintenance_hosts": "host-a"}
STOP = [{"name": "job", "when": "name == 'job'", "strategy": "None", "allow_stop": True}]
LOUD = ("-vvvv", "--diff")
POOL = "/var/lib/libvirt/virtops"
JOB, WEB = "s3cr-job", "s3cr-web"  # VNC takes eight characters
ARGUMENT, PHRASE = "s3cret-of-qemu", "s3cret-of-the-disk"
ENCODED = base64.b64encode(PHRASE.encode()).decode()
VNC, SPICE, STORE = "s3cr-vnc", "s3cret-of-spice", "s3cret-of-the-store"
LOGIN = base64.b64encode(STORE.encode()).decode()
SECRETS = (JOB, WEB, ARGUMENT, PHRASE, ENCODED, VNC, SPICE, STORE, LOGIN)
# libvirt's and QEMU's own: definitions, states, secrets, and the command line in QEMU's log.
THEIRS = ("/etc/libvirt/", "/run/libvirt/", "/var/log/libvirt/qemu/", "/var/lib/libvirt/qemu/")
SEARCHED = "/etc /home /root /run /tmp /var/lib/libvirt /var/log /var/tmp /dev/shm"
UUID = "5ec2e700-0000-4000-8000-000000000001"
SECRET = f"""<secret ephemeral='no' private='yes'><uuid>{UUID}</uuid>
<usage type='volume'><volume>/var/lib/libvirt/images/sealed.img</volume></usage></secret>"""
SEALED = f"""<disk type='file' device='disk'><driver name='qemu' type='raw'/>
<source file='/var/lib/libvirt/images/sealed.img'><encryption format='luks'>
<secret type='passphrase' uuid='{UUID}'/></encryption></source>
<target dev='vda' bus='virtio'/></disk>"""
# A VM that is off, on storage that asks who comes. libvirt has the answer; the VM names it.
USES = {
    "ceph": ("5ec2e700-0000-4000-8000-00000000000a", "<usage type='ceph'><name>pool</name></usage>"),
    "iscsi": ("5ec2e700-0000-4000-8000-00000000000b", "<usage type='iscsi'><target>t</target></usage>"),
}
NETWORK_DISK = """<disk type='network' device='disk'><driver name='qemu' type='raw'/>
<source protocol='{protocol}' name='{name}'><host name='192.0.2.9' port='{port}'/>
<auth username='vm'><secret type='{kind}' uuid='{uuid}'/></auth></source>
<target dev='{dev}' bus='virtio'/></disk>"""
ON_NETWORK = "".join(
    NETWORK_DISK.format(kind=kind, uuid=USES[kind][0], protocol=protocol, name=name, port=port, dev=dev)
    for kind, protocol, name, port, dev in (
        ("ceph", "rbd", "pool/vault", 6789, "vda"),
        ("iscsi", "iscsi", "iqn.2026-01.org.example:vault/1", 3260, "vdb"),
    )
)
PORTABLE = (
    "<v:vm xmlns:v='https://virtops.example/xmlns/maintenance/1'><v:qemuCommandLine>portable</v:qemuCommandLine></v:vm>"
)
PAST_LIBVIRT = (
    "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>"
    "<qemu:arg value='-fw_cfg'/>"
    f"<qemu:arg value='name=opt/org.example/key,string={ARGUMENT}'/></qemu:commandline>"
)
# What Ansible's modules write to the system's log arrives there.
SYSLOG = "/var/log/syslog"
LISTEN = f"""
import os, socket
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind("/dev/log")
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    with open("{SYSLOG}", "ab", buffering=0) as stream:
        while True:
            stream.write(log.recv(1 << 20) + b"\\n")
"""
# Log in to the console of a VM, as RFC 6143 has it: the ways that it offers (1 is none at all, 2 a
# password, which encrypts a challenge, its bits mirrored), and its answer, of which 0 is "come in".
LOG_IN = """
import socket, subprocess, sys
port, password = sys.stdin.read().split()
with socket.create_connection(("127.0.0.1", int(port)), 20) as console:
    stream = console.makefile("rwb")
    stream.write(stream.readline())
    stream.flush()
    ways = list(stream.read(stream.read(1)[0]))
    stream.write(bytes([2]))
    stream.flush()
    key = bytes(int(f"{byte:08b}"[::-1], 2) for byte in password.encode().ljust(8, bytes(1)))
    cipher = "openssl enc -des-ecb -nopad -provider legacy -provider default -K " + key.hex()
    challenge = stream.read(16)
    stream.write(subprocess.run(cipher.split(), input=challenge, capture_output=True).stdout)
    stream.flush()
    print(ways, int.from_bytes(stream.read(4), "big"))
"""


def _vnc(password: str) -> str:
    graphics = f"<graphics type='vnc' listen='127.0.0.1' autoport='yes' passwd='{password}'/>"
    return f"{graphics}<video><model type='vga'/></video>"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with own_lab("secrets", 2) as lab:
        for host in lab.hosts.values():
            host.exec(["/usr/bin/python3", "-c", LISTEN])
        _seal(lab.host("host-a"))
        sealed = [("given", 1)]
        job = GuestSpec("job", persistent=False, disks=sealed, devices_xml=SEALED + _vnc(JOB))
        web = GuestSpec("web", fill_mib=8, devices_xml=_vnc(WEB), metadata_xml=PORTABLE, extra_xml=PAST_LIBVIRT)
        lab.run("host-a", job)
        lab.run("host-a", web)
        _store(lab)
        lab.wait_ticking(["job", "web"])
        yield lab


def _seal(host: Host) -> None:
    """An encrypted disk, whose passphrase libvirt keeps."""
    host.exec(["tee", "/run/secret.xml"], stdin=SECRET)
    host.virsh("secret-define", "/run/secret.xml")
    host.virsh("secret-set-value", UUID, "--base64", ENCODED)
    host.exec(luks("/var/lib/libvirt/images/sealed.img", PHRASE, 4))


def _store(lab: Lab) -> None:
    """Each host knows what its VMs log in to their storage with; "vault" is off, on host-a."""
    for host in lab.hosts.values():
        for uuid, usage in USES.values():
            xml = f"<secret ephemeral='no' private='yes'><uuid>{uuid}</uuid>{usage}</secret>"
            host.virsh("secret-define", "/dev/stdin", stdin=xml)
            host.virsh("secret-set-value", uuid, "--base64", LOGIN)
    spice = f"<graphics type='spice' listen='127.0.0.1' autoport='yes' passwd='{SPICE}'/>"
    devices = ON_NETWORK + _vnc(VNC) + (spice if _has_spice(lab.host("host-a")) else "")
    lab.define("host-a", GuestSpec("vault", devices_xml=devices, disks=[("given", 2)]))


def _has_spice(host: Host) -> bool:
    """Debian 13 has it in a package of its own, which QEMU does not need."""
    return "<value>spice</value>" in host.virsh("domcapabilities")


def _vault_is_whole(host: Host) -> None:
    xml = _definition(host, "vault")
    kept = (VNC, SPICE) if _has_spice(host) else (VNC,)
    assert all(f"passwd='{secret}'" in xml for secret in kept), xml
    assert all(uuid in xml for uuid, _usage in USES.values()), xml


def _files(host: Host) -> list[str]:
    """Files of the host in which one of them stands, but for libvirt's own, and this file where the clone is seen."""
    words = "".join(f" -e {secret}" for secret in SECRETS)
    found = host.exec(f"grep -rlaF -D skip{words} {SEARCHED} 2>/dev/null", check=False).stdout
    return sorted(path for path in found.split() if not path.startswith((*THEIRS, f"{ROOT}/")))


def _clean(ended: plays.Ended) -> None:
    said = ended.text + json.dumps(ended.drains)
    assert "Traceback" not in said
    for secret in SECRETS:
        assert secret not in said, said[max(0, said.index(secret) - 300) :][:400]


def _kept(host: Host, kind: str) -> None:
    """Only in volumes of definitions, which only root can read."""
    found = _files(host)
    assert found, "the search is blind, or nothing is kept"
    for path in found:
        assert path.startswith(f"{POOL}/{kind}."), path
        assert host.exec(["stat", "-c", "%a %U %G", path]).stdout.split() == ["600", "root", "root"]


def _definition(host: Host, name: str) -> str:
    return host.virsh("dumpxml", "--security-info", name)


def _log_in(host: Host, name: str, password: str) -> str:
    display = host.virsh("domdisplay", name).rpartition(":")[2]
    text = f"{5900 + int(display)} {password}"
    return host.exec(["/usr/bin/python3", "-c", LOG_IN], stdin=text).stdout.strip()


def _asks_for(host: Host, name: str, password: str) -> bool:
    """Does the console let in who knows the password, and nobody else?"""
    tried = [_log_in(host, name, word) for word in (password, "s3cr-bad")]
    return tried == ["[2] 0", "[2] 1"]


def test_before_anything_moves_nothing_is_said_or_kept(lab: Lab, tmp_path: Path) -> None:
    """Check mode, the plan and its file, and the modules that only read."""
    plan = tmp_path / "plan.json"
    asked = {**HERE, "drain_rules": STOP, "maintenance_rules": STOP}
    _clean(plays.run(lab, "drain", asked, "--check", *LOUD))
    ended = plays.run(lab, "plan", {**asked, "maintenance_plan_file": str(plan)}, *LOUD)
    _clean(ended)
    assert plan.exists(), ended.text
    text = plan.read_text(encoding="utf-8")
    assert not [secret for secret in SECRETS if secret in text]
    reads = [
        {"virtops.maintenance.virt_host_info": {}, "register": "host"},
        {"virtops.maintenance.virt_migration_info": {}, "register": "migrations"},
        {"ansible.builtin.debug": {"var": "host"}},
        {"ansible.builtin.debug": {"var": "migrations"}},
    ]
    book = tmp_path / "read.yml"
    book.write_text(json.dumps([{"hosts": "host-a", "gather_facts": False, "tasks": reads}]))
    ended = plays.run(lab, str(book), {}, *LOUD)
    assert ended.code == 0, ended.text
    _clean(ended)
    for host in lab.hosts.values():
        assert _files(host) == []


def test_a_drain_and_a_restore_keep_secrets_and_tell_none(lab: Lab) -> None:
    a, b = lab.host("host-a"), lab.host("host-b")
    assert _asks_for(a, "job", JOB) and _asks_for(a, "web", WEB)
    lab.announce_stop("job")
    asked = {**HERE, "drain_rules": STOP, "drain_move_inactive": True}
    ended = plays.run(lab, "drain", asked, *LOUD)
    assert ended.code == 0, ended.text
    _clean(ended)
    assert ended.vm("job")["verdict"] == "stopped" and ended.vm("web")["verdict"] == "moved"
    assert (traces.defined(a), traces.running(b)) == ([], ["web"])
    _kept(a, "definitions")
    _kept(b, "copy")
    there = _definition(b, "web")
    assert f"passwd='{WEB}'" in there and ARGUMENT in there
    assert _asks_for(b, "web", WEB)
    _vault_is_whole(b)
    _clean(plays.run(lab, "restore", HERE, "--check", *LOUD))
    ended = plays.run(lab, "restore", HERE, *LOUD)
    assert ended.code == 0, ended.text
    _clean(ended)
    lab.wait_ticking(["job", "web"])
    # The console has its password again, and the disk its passphrase.
    assert f"passwd='{JOB}'" in _definition(a, "job")
    assert _asks_for(a, "job", JOB)
    for host in lab.hosts.values():
        assert _files(host) == []
        logged = host.exec(["cat", SYSLOG]).stdout
        assert "virt_drain" in logged or host is b
