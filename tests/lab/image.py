"""The guests' kernel (Debian's cloud kernel, as it is) and a tiny initramfs.

The initramfs holds guest/init.c as PID 1 and the kernel modules that it needs.
Both are built once into build/lab-guest and built again when something they
are made of changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import lzma
import os
import shutil
from pathlib import Path

from .names import LabError, Paths
from .procs import HERE, run

SOURCE = HERE / "guest" / "init.c"
# Disks, network, the power button with the input device that reports it, and the channel of an agent.
MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "evdev", "button", "virtio_console")


def find_kernel() -> tuple[Path, Path] | None:
    """The newest cloud kernel of the machine and the folder of its modules."""
    found = []
    for kernel in Path("/boot").glob("vmlinuz-*cloud*"):
        modules = Path("/lib/modules") / kernel.name.removeprefix("vmlinuz-")
        if (modules / "modules.dep").exists():
            found.append((kernel.stat().st_mtime, kernel, modules))
    if not found:
        return None
    _built, kernel, modules = max(found)
    return kernel, modules


def build(paths: Paths) -> None:
    """Make kernel and initramfs in the image folder unless they are current."""
    found = find_kernel()
    if found is None:
        raise LabError("no /boot/vmlinuz-*cloud* with modules; install linux-image-cloud-amd64")
    kernel, modules = found
    mark = hashlib.sha256(
        SOURCE.read_bytes() + Path(__file__).read_bytes() + f"{kernel} {kernel.stat().st_mtime_ns}".encode()
    ).hexdigest()
    folder = paths.image
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = folder / "built-from"
        if note.exists() and note.read_text() == mark:
            return
        shutil.copy(kernel, folder / "vmlinuz.new")
        os.rename(folder / "vmlinuz.new", folder / "vmlinuz")
        init = folder / "init"
        run(["gcc", "-O2", "-Wall", "-static", "-pthread", "-s", "-o", str(init), str(SOURCE)])
        archive = _archive(init.read_bytes(), _modules_in_order(modules))
        (folder / "initrd.new").write_bytes(archive)
        os.rename(folder / "initrd.new", folder / "initrd")
        note.write_text(mark)


def _modules_in_order(folder: Path) -> list[tuple[str, bytes]]:
    """The modules and all they depend on, each after what it needs."""
    needs: dict[str, list[str]] = {}
    where: dict[str, str] = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        path, _colon, rest = line.partition(":")
        name = _module_name(path)
        where[name] = path
        needs[name] = [_module_name(other) for other in rest.split()]
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order or name not in where:
            return  # done, or built into the kernel
        for other in needs[name]:
            visit(other)
        order.append(name)

    for name in MODULES:
        visit(name)
    return [(name, _read_module(folder / where[name])) for name in order]


def _module_name(path: str) -> str:
    return Path(path).name.partition(".ko")[0].replace("-", "_")


def _read_module(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix != ".ko":
        raise LabError(f"cannot read {path}: neither .ko nor .ko.xz")
    return data


def _archive(init: bytes, modules: list[tuple[str, bytes]]) -> bytes:
    """A cpio archive, not compressed: unpacking costs more than loading it."""
    out = [_entry(name, 0o040755, b"") for name in ("dev", "proc", "sys", "modules")]
    out.append(_entry("init", 0o100755, init))
    for place, (name, data) in enumerate(modules):
        out.append(_entry(f"modules/{place:02}-{name}.ko", 0o100644, data))
    out.append(_entry("TRAILER!!!", 0, b""))
    return b"".join(out)


def _entry(name: str, mode: int, data: bytes) -> bytes:
    raw = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + raw
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)
