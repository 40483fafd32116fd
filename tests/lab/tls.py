"""The lab's certificate authority, and a certificate per host.

One certificate serves libvirt and QEMU, as server and as client, so that every
host may reach every other by qemu+tls:// and migrate with native TLS.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .procs import run


def make_ca(pki: Path) -> None:
    """Make the authority if there is none."""
    pki.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (pki / "ca.pem").exists():
        return
    run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "3650",
            "-subj",
            "/CN=virtops lab",
            "-keyout",
            str(pki / "ca.key"),
            "-out",
            str(pki / "ca.pem.new"),
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
        ]
    )
    os.rename(pki / "ca.pem.new", pki / "ca.pem")


def make_host(pki: Path, host: str, address: str) -> None:
    """Make the host's key and certificate if there are none for this address."""
    note = pki / f"{host}.address"
    if note.exists() and note.read_text() == address:
        return
    key, request, cert = (pki / f"{host}{end}" for end in (".key", ".csr", ".pem"))
    extensions = pki / f"{host}.ext"
    extensions.write_text(
        "basicConstraints=critical,CA:FALSE\n"
        "keyUsage=critical,digitalSignature,keyEncipherment\n"
        "extendedKeyUsage=serverAuth,clientAuth\n"
        f"subjectAltName=DNS:{host},IP:{address}\n"
    )
    run(
        [
            "openssl",
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            f"/CN={host}",
            "-keyout",
            str(key),
            "-out",
            str(request),
        ]
    )
    run(
        [
            "openssl",
            "x509",
            "-req",
            "-in",
            str(request),
            "-CA",
            str(pki / "ca.pem"),
            "-CAkey",
            str(pki / "ca.key"),
            "-set_serial",
            str(int.from_bytes(os.urandom(15), "big")),
            "-days",
            "3650",
            "-extfile",
            str(extensions),
            "-out",
            str(cert),
        ]
    )
    note.write_text(address)


def install(pki: Path, host: str, etc: Path) -> None:
    """Put the host's certificates where libvirt and QEMU look for them."""
    libvirt, qemu = etc / "pki" / "libvirt", etc / "pki" / "qemu"
    for folder in (etc / "pki" / "CA", libvirt / "private", qemu):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(pki / "ca.pem", etc / "pki" / "CA" / "cacert.pem")
    shutil.copy(pki / "ca.pem", qemu / "ca-cert.pem")
    for role in ("server", "client"):
        shutil.copy(pki / f"{host}.pem", libvirt / f"{role}cert.pem")
        shutil.copy(pki / f"{host}.key", libvirt / "private" / f"{role}key.pem")
        shutil.copy(pki / f"{host}.pem", qemu / f"{role}-cert.pem")
        shutil.copy(pki / f"{host}.key", qemu / f"{role}-key.pem")
