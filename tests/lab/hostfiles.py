"""The files of a host: its own /etc, /root, /var/lib, ... made outside of it."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from . import names, release, sshkeys, tls
from .network import GUEST_BRIDGE
from .procs import run

# Where a host finds the guests' kernel and where its guests' serial logs go.
GUEST_IMAGE = "/var/lib/virtops-lab/guest"
SERIAL = "/var/log/virtops-lab"
# In a host's /etc: its release. What it keeps of its /etc in an upgrade, since the lab wrote it.
RELEASE = "virtops-lab-release"
KEPT = {RELEASE, "hostname", "hosts", "machine-id", "pki", "ssh"}

LIBVIRTD_CONF = """\
host_uuid = "{uuid}"
listen_tls = 1
listen_tcp = 0
listen_addr = "{address}"
auth_tls = "none"
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "2:file:/var/log/libvirt/libvirtd.log"
"""

QEMU_CONF = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
default_tls_x509_cert_dir = "/etc/pki/qemu"
migrate_tls_x509_cert_dir = "/etc/pki/qemu"
"""

NETWORK_XML = """\
<network>
  <name>lan</name>
  <uuid>{uuid}</uuid>
  <forward mode='bridge'/>
  <bridge name='{bridge}'/>
</network>
"""

POOL_XML = """\
<pool type='dir'>
  <name>default</name>
  <uuid>{uuid}</uuid>
  <source/>
  <target><path>/var/lib/libvirt/images</path></target>
</pool>
"""

# Called as shutdown, reboot, poweroff, halt or systemctl. It speaks to PID 1
# of the lab host and to nothing else: without the marker it does nothing.
SHUTDOWN = """\
#!/bin/sh
[ -e /run/virtops-lab-host ] || { echo "not a lab host" >&2; exit 1; }
name=${0##*/}
signal=TERM
case "$name" in
    reboot) signal=HUP ;;
    poweroff|halt) ;;
    systemctl)
        case "$1" in
            reboot) signal=HUP ;;
            poweroff|halt) ;;
            *) echo "no systemd on a lab host" >&2; exit 1 ;;
        esac ;;
    shutdown)
        for word in "$@"; do
            case "$word" in
                -c) exit 0 ;;
                -r|--reboot) signal=HUP ;;
            esac
        done ;;
    *) echo "$name: not on a lab host" >&2; exit 1 ;;
esac
# Later, so that the caller still gets its answer; and in a session of its own,
# because the caller's terminal takes what belongs to it along.
trap "" HUP
setsid sh -c "sleep 0.4; kill -$signal 1" </dev/null >/dev/null 2>&1 &
"""


def stable_uuid(paths: names.Paths, *words: str) -> str:
    """A UUID that is the same at every `up` of this lab, and no other's."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join([str(paths.state), *words])))


def build(paths: names.Paths, host: str, hosts: Mapping[str, str], wanted: str) -> None:
    """Make the host's files (once) and bring its settings up to date (always)."""
    home = paths.host(host)
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        for folder in (
            "root",
            "var-lib/libvirt/images",
            "var-lib/misc",
            "var-lib/dpkg",
            "var-lib/virtops-lab/guest",
            "var-cache/libvirt",
            "var-tmp",
            "local-sbin",
        ):
            (home / folder).mkdir(parents=True)
        (home / "root").chmod(0o700)
        (home / "etc").mkdir()
        (home / "etc").chmod(0o755)
        (home / "complete").touch()
    _ask_for(home / "etc", wanted)
    install_release(paths, host)
    for folder in (paths.serial(host), _var_log(paths, host) / "virtops-lab"):
        folder.mkdir(parents=True, exist_ok=True)
    (_var_log(paths, host) / "libvirt" / "qemu").mkdir(parents=True, exist_ok=True)
    # sshd complains on the user's terminal when there is none.
    (_var_log(paths, host) / "lastlog").touch()
    _settings(paths, host, hosts)


def _ask_for(etc: Path, wanted: str) -> None:
    """A lab that goes up again does not take back what a host was upgraded to."""
    if not (etc / RELEASE).exists():
        (etc / RELEASE).write_text(wanted + "\n")


def install_release(paths: names.Paths, host: str) -> str:
    """The release that the host's next boot is of, with that release's /etc: its file /etc/virtops-lab-release says
    which. Who writes another one into it, on the host too, has upgraded the host; libvirt's own /etc stays as it was.
    """
    home = paths.host(host)
    etc, note = home / "etc", home / "installed"
    wanted = release.known((etc / RELEASE).read_text().strip())
    if not note.exists() or note.read_text() != wanted:
        source = release.root(wanted) / "etc"
        kept = [path.name for path in etc.iterdir() if path.name in KEPT]
        new = [str(path) for path in source.iterdir() if path.name not in {"libvirt", *kept}]
        run(["cp", "-a", "--remove-destination", "-t", str(etc), *new])
        _unlock_root(etc / "shadow")
        _qemu_account(etc)
        note.write_text(wanted)
    return wanted


def _qemu_account(etc: Path) -> None:
    """Debian's libvirtd does not begin without its account for QEMU, though its settings name root.

    Only libvirt-daemon-system makes it, which the lab does not need.
    """
    for file, line in (
        ("group", "libvirt-qemu:x:64055:\n"),
        ("passwd", "libvirt-qemu:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin\n"),
    ):
        text = (etc / file).read_text()
        if "\nlibvirt-qemu:" not in text:
            (etc / file).write_text(text + line)


def _settings(paths: names.Paths, host: str, hosts: Mapping[str, str]) -> None:
    etc = paths.host(host) / "etc"
    (etc / "hostname").write_text(host + "\n")
    lines = "".join(f"{address} {name}\n" for name, address in hosts.items())
    (etc / "hosts").write_text("127.0.0.1 localhost\n" + lines)
    (etc / "machine-id").unlink(missing_ok=True)
    (etc / "machine-id").write_text(stable_uuid(paths, host, "machine").replace("-", "") + "\n")
    libvirt = etc / "libvirt"
    libvirt.mkdir(exist_ok=True)
    (libvirt / "libvirtd.conf").write_text(LIBVIRTD_CONF.format(uuid=stable_uuid(paths, host), address=hosts[host]))
    (libvirt / "qemu.conf").write_text(QEMU_CONF)
    _autostarted(
        libvirt / "qemu" / "networks",
        "lan",
        NETWORK_XML.format(uuid=stable_uuid(paths, "network"), bridge=GUEST_BRIDGE),
    )
    _autostarted(libvirt / "storage", "default", POOL_XML.format(uuid=stable_uuid(paths, host, "pool")))
    tls.install(paths.pki, host, etc)
    sshkeys.install(paths.ssh, host, etc, paths.host(host) / "root")
    tool = paths.host(host) / "local-sbin" / "shutdown"
    tool.write_text(SHUTDOWN)
    tool.chmod(0o755)
    for name in ("reboot", "poweroff", "halt"):
        link = tool.with_name(name)
        if not link.exists():
            link.symlink_to("shutdown")


def _autostarted(folder: Path, name: str, xml: str) -> None:
    """Define a network or pool the way libvirt finds it at its start."""
    (folder / "autostart").mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.xml"
    if path.exists():
        return
    path.write_text(xml)
    where = "/etc/libvirt/" + str(path).rpartition("/etc/libvirt/")[2]
    (folder / "autostart" / f"{name}.xml").symlink_to(where)


def _unlock_root(shadow: Path) -> None:
    """sshd refuses a locked account ("!") even with a key; "*" has no password either."""
    lines = shadow.read_text().splitlines(keepends=True)
    lines = ["root:*:19000:0:99999:7:::\n" if line.startswith("root:") else line for line in lines]
    shadow.write_text("".join(lines))


def _var_log(paths: names.Paths, host: str) -> Path:
    # In logs/, because the logs stay when the lab goes down.
    return paths.logs / host


def init_settings(paths: names.Paths, host: str, boot_id: str) -> str:
    """What hostinit.py, PID 1 of the host, needs to know, as JSON."""
    home = paths.host(host)
    binds: list[tuple[str, str, bool]] = [
        (str(home / "etc"), "/etc", False),
        (str(home / "var-lib"), "/var/lib", False),
        (str(paths.image), GUEST_IMAGE, True),
        ("/var/lib/dpkg", "/var/lib/dpkg", True),
        (str(_var_log(paths, host)), "/var/log", False),
        (str(paths.serial(host)), SERIAL, False),
        (str(home / "var-cache"), "/var/cache", False),
        (str(home / "var-tmp"), "/var/tmp", False),
        (str(home / "local-sbin"), "/usr/local/sbin", False),
        (str(home / "root"), "/root", False),
    ]
    return json.dumps(
        {
            "name": host,
            "boot_id": boot_id,
            "binds": binds,
            "tree": str(names.REPO),
            "hide": str(paths.state.parent),
            "tool": str(home / "local-sbin" / "shutdown"),
            "replace": [
                "/sbin/shutdown",
                "/sbin/reboot",
                "/sbin/poweroff",
                "/sbin/halt",
                "/sbin/init",
                "/sbin/telinit",
                "/bin/systemctl",
            ],
        }
    )
