"""What the lab needs of a machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from . import release
from .fleet import Lab
from .image import find_kernel
from .names import lab_name
from .procs import SYSTEM_PATH, child_environment

# Command -> the Debian package that brings it.
COMMANDS = {
    "libvirtd": "libvirt-daemon",
    "virsh": "libvirt-clients",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "nbdkit": "nbdkit",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "openssl": "openssl",
    "ip": "iproute2",
    "tc": "iproute2",
    "gcc": "gcc",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}


def missing() -> list[str]:
    """One sentence for each thing that keeps this machine from running the lab."""
    out = []
    if sys.version_info < (3, 11):  # noqa: UP036 - said in words, not as a traceback
        out.append("python3 >= 3.11 is needed")
    for command, package in COMMANDS.items():
        if shutil.which(command, path=SYSTEM_PATH) is None:
            out.append(f"{command} is missing (package {package})")
    drivers = "/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so"
    if not list(Path("/").glob(drivers.lstrip("/"))):
        out.append("libvirt's QEMU driver is missing (package libvirt-daemon-driver-qemu)")
    if find_kernel() is None:
        out.append("no guest kernel /boot/vmlinuz-*cloud* (package linux-image-cloud-amd64)")
    if not Path("/usr/bin/python3").exists():
        out.append("/usr/bin/python3 is missing (package python3)")
    else:
        probe = subprocess.run(["/usr/bin/python3", "-c", "import libvirt"], check=False, capture_output=True)
        if probe.returncode != 0:
            out.append("Python's libvirt binding is missing (package python3-libvirt)")
    if os.geteuid() != 0:
        out.append("not root: network, mount and PID namespaces need it")
    elif not out:
        out += _namespaces()
        out += [why for why in (release.missing(release.default()),) if why]
    return out


def _namespaces() -> list[str]:
    """Try, in namespaces that end with the try, what the hosts will do."""
    script = (
        "mount -t tmpfs none /mnt && ip link add vlprobe type veth peer name vlprobe2"
        " && ip link add vlprobe3 type bridge"
        " && tc qdisc add dev vlprobe root tbf rate 1mbit burst 256kb latency 50ms"
    )
    probe = subprocess.run(
        [
            "unshare",
            "--net",
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            script,
        ],
        check=False,
        capture_output=True,
        text=True,
        env=child_environment(),
    )
    if probe.returncode != 0:
        return [f"namespaces with veth, bridge and tbf do not work: {probe.stderr.strip()}"]
    if not Path("/dev/net/tun").exists():
        return ["/dev/net/tun is missing: guests cannot have a network card"]
    return []


def need_lab() -> None:
    """For tests: skip with the reason where the lab cannot run; in CI fail instead."""
    import pytest

    lacking = missing()
    if lacking and os.environ.get("VIRTOPS_REQUIRE_LAB") == "1":
        pytest.fail("the lab cannot run here: " + "; ".join(lacking))
    if lacking:
        pytest.skip("the lab cannot run here: " + "; ".join(lacking))


@contextmanager
def own_lab(
    word: str, hosts: int, memory: Mapping[str, int] | None = None, releases: Mapping[str, str] | None = None
) -> Generator[Lab, None, None]:
    """For tests: a lab with this word in its name, which is ended afterwards."""
    need_lab()
    name = f"{lab_name()[:20]}-{word}"
    Lab.down(name)
    try:
        yield Lab.up(name, hosts, memory, releases)
    finally:
        Lab.down(name)
