"""`migration: {tls: true}` on real hosts: what crosses the wire between two QEMUs, and what is
missing for it is named before anything moves.

The machine outside of the hosts listens on the target's cable. The kernel's command line of the
guest is in its memory: whoever finds it in the packets reads the guest's memory.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from demo import plays, preflights, traces

from lab import GuestSpec, Lab, names, own_lab

pytestmark = [pytest.mark.lab, pytest.mark.full]

HERE = {"maintenance_hosts": "host-a"}
GUEST = GuestSpec("web", fill_mib=8)
MARKER = b"rcupdate.rcu_cpu_stall_suppress=1 8250.nr_uarts=2 lab.tick="
PKI = "/etc/pki/qemu"
ALL = 3  # ETH_P_ALL


class Wire:
    """What went over a cable: how many bytes, was the marker among them, and was anything missed?

    A packet may cut it in two, so the beginning of each is put behind the end of the one before.
    """

    def __init__(self) -> None:
        self.bytes, self.seen, self.missed = 0, 0, 0
        self._ended = threading.Event()

    def listen(self, device: str) -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL)) as tap:
            tap.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)  # SO_RCVBUFFORCE
            tap.bind((device, ALL))
            tap.settimeout(0.2)
            while not self._ended.is_set():
                try:
                    packet = tap.recv(1 << 17)
                except TimeoutError:
                    continue
                self.bytes += len(packet)
                self.seen += packet.count(MARKER)
            counts = tap.getsockopt(263, 6, 8)  # SOL_PACKET, PACKET_STATISTICS: all, and dropped
            self.missed = struct.unpack("II", counts)[1]

    def end(self) -> None:
        self._ended.set()


@contextmanager
def listening(lab: Lab, host: str) -> Iterator[Wire]:
    wire = Wire()
    lab.shape(host, 100)  # so that who listens keeps up
    device = names.veth(lab.number, lab.host(host).index)
    thread = threading.Thread(target=wire.listen, args=(device,), daemon=True)
    thread.start()
    try:
        yield wire
    finally:
        wire.end()
        thread.join()
        lab.unshape(host)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with own_lab("encrypted", 2) as lab:
        lab.run("host-a", GUEST)
        lab.wait_ticking(["web"])
        yield lab


def test_what_is_missing_on_either_end_is_named_before_anything_moves(lab: Lab) -> None:
    """The role lists the files; the play ends at the preflight."""
    source, target = lab.host("host-a"), lab.host("host-b")
    source.exec(f"mv {PKI}/client-key.pem {PKI}/away.pem")
    target.exec(f"mkdir /etc/pki/other && cp {PKI}/ca-cert.pem /etc/pki/other")
    target.exec("echo 'migrate_tls_x509_cert_dir = \"/etc/pki/other\"' >>/etc/libvirt/qemu.conf")
    before = traces.snapshot(lab)
    try:
        ended = plays.run(lab, "drain", {**HERE, "drain_migration": {"tls": True}})
    finally:
        source.exec(f"mv {PKI}/away.pem {PKI}/client-key.pem")
        target.exec("sed -i '$d' /etc/libvirt/qemu.conf")
    assert ended.code != 0
    assert traces.snapshot(lab) == before
    text = " ".join(ended.text.split())
    assert "QEMUCertificatesMissing host host-a: Not in /etc/pki/qemu: client-key.pem." in text
    assert "QEMUCertificatesMissing host host-b: Not in /etc/pki/other: server-cert.pem, server-key.pem." in text


def test_memory_in_the_clear_is_reported_and_encrypted_memory_is_not(lab: Lab) -> None:
    agree = [{"name": h, "clock": 0.1, "tls_dir": PKI} for h in lab.hosts]
    found = preflights.look(
        lab, "host-a", {"clear": {"measured": agree}, "encrypted": {"measured": agree, "migration": {"tls": True}}}
    )
    ((subject, severity, message),) = found["clear"].of("MigrationInTheClear")
    assert (subject, severity) == ("node host-a", "warning")
    assert "web" in message
    assert found["encrypted"].codes == set()


def test_with_tls_nobody_reads_the_guests_memory_from_the_wire(lab: Lab) -> None:
    """And without it, everybody does: the same guest moves back in the clear."""
    with listening(lab, "host-b") as encrypted:
        ended = plays.run(lab, "drain", {**HERE, "drain_migration": {"tls": True}})
    assert ended.code == 0, ended.text
    assert traces.running(lab.host("host-b")) == ["web"]
    lab.wait_ticking(["web"])
    assert plays.run(lab, "restore", HERE).code == 0
    with listening(lab, "host-b") as clear:
        ended = plays.run(lab, "drain", {"maintenance_hosts": "host-b"})
    assert ended.code == 0, ended.text
    assert clear.seen > 0, clear.bytes
    assert (encrypted.seen, encrypted.missed) == (0, 0)
    assert encrypted.bytes > 8 << 20
