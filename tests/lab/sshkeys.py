"""ssh keys, made on the spot: one for root everywhere, one per host for its sshd."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .procs import run

OPTIONS = (
    "-o",
    "BatchMode=yes",
    "-o",
    "StrictHostKeyChecking=yes",
    "-o",
    "GlobalKnownHostsFile=/dev/null",
    "-o",
    "ConnectTimeout=5",
)

SSHD_CONFIG = """\
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PidFile none
MaxStartups 100
MaxSessions 100
Subsystem sftp internal-sftp
"""


def _keygen(path: Path, comment: str) -> None:
    if not path.exists():
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])


def make(ssh: Path, addresses: Mapping[str, str]) -> None:
    """Make all keys, and the known_hosts file for names and addresses."""
    ssh.mkdir(parents=True, exist_ok=True, mode=0o700)
    _keygen(ssh / "id_ed25519", "root of the lab")
    lines = []
    for host, address in addresses.items():
        _keygen(ssh / f"{host}_key", host)
        kind, key = (ssh / f"{host}_key.pub").read_text().split()[:2]
        lines.append(f"{host},{address} {kind} {key}\n")
    (ssh / "known_hosts").write_text("".join(lines))


def install(ssh: Path, host: str, etc: Path, root: Path) -> None:
    """Give a host its sshd and its root the lab's key and known hosts."""
    for old in (etc / "ssh").glob("ssh_host_*"):
        old.unlink()
    _copy(ssh / f"{host}_key", etc / "ssh" / "ssh_host_ed25519_key")
    (etc / "ssh" / "sshd_config").write_text(SSHD_CONFIG)
    home = root / ".ssh"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    _copy(ssh / "id_ed25519", home / "id_ed25519")
    _copy(ssh / "id_ed25519.pub", home / "authorized_keys")
    _copy(ssh / "known_hosts", home / "known_hosts")


def _copy(source: Path, target: Path) -> None:
    target.touch(mode=0o600)
    target.chmod(0o600)
    target.write_bytes(source.read_bytes())


def client(ssh: Path) -> list[str]:
    """Options with which the machine reaches the hosts."""
    return ["-i", str(ssh / "id_ed25519"), "-o", f"UserKnownHostsFile={ssh / 'known_hosts'}", *OPTIONS]
