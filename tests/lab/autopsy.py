"""What one look needs when a test on a lab failed, to tell the product's fault from the lab's.

How busy the machine was; each host's guests and their jobs; and the ends of what was written since
the test began: by the plays, the holders, libvirtd and QEMU. No host that hangs is waited for long.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from .fleet import Lab
from .host import Host
from .names import LabError

LINES = 15
SECONDS = 10.0  # libvirtd may be what hangs
# What libvirtd says in each lab: of addresses, KVM and cgroups.
NOISE = ("virArpTableGet", "/dev/kvm", "cgroup", "virSecurityManagerNew", "is tainted")


def tell(labs: Path, since: float) -> str:
    """Of the labs in this folder that did something since then (seconds of the wall clock)."""
    parts = [f"the machine: load {_read('/proc/loadavg')}; {_read('/proc/pressure/cpu')}"]
    for state in sorted(labs.glob("*")) if labs.is_dir() else []:
        written = [path for path in _logs(state / "logs") if path.stat().st_mtime >= since]
        if written:
            parts.append(f"lab {state.name}, logs in {state / 'logs'}")
            parts += _hosts(state)
            parts += [_end(path, state / "logs") for path in written]
    return "\n\n".join(parts)


def _logs(folder: Path) -> Iterator[Path]:
    """In the order in which they are read: what the product said, then libvirtd, then QEMU."""
    for pattern in ("play-*/output", "*/virtops-holder.log", "*/libvirtd.out", "*/libvirt/libvirtd.log"):
        yield from sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
    yield from sorted(folder.glob("*/libvirt/qemu/*.log"))
    yield from sorted(folder.glob("*.log"))


def _end(path: Path, folder: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    kept = [line[:400] for line in lines if not any(word in line for word in NOISE)][-LINES:]
    return "\n".join([f"{path.relative_to(folder)}: the last of {len(lines)} lines", *kept])


def _hosts(state: Path) -> Iterator[str]:
    try:
        lab = Lab.load(state.name)
    except LabError as error:
        yield str(error)
        return
    for host in lab.hosts.values():
        yield _host(host)


def _host(host: Host) -> str:
    if host.init_pid is None:
        return f"{host.name} is down"
    held = "blackhole" in _ask(host, "ip", "rule")
    out = [f"{host.name}: {host.link()}{', migrations are held' if held else ''}"]
    out.append(_ask(host, "virsh", "list", "--all"))
    for name in _ask(host, "virsh", "list", "--name").split():
        job = _ask(host, "virsh", "domjobinfo", name)
        out += [f"{name}: {job}"] if job and "None" not in job else []
    return "\n".join(out)


def _ask(host: Host, *words: str) -> str:
    try:
        done = host.exec(words, check=False, timeout=SECONDS)
    except (LabError, OSError, subprocess.SubprocessError) as error:
        return f"{' '.join(words)}: {error}"
    return (done.stdout or done.stderr).strip()


def _read(path: str) -> str:
    """Linux may be built without this one."""
    file = Path(path)
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""
