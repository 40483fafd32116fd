"""Whose QEMU has an image is seen by its lock, as QEMU itself sets it."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, State
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import HostConfig
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import protected
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.protected import Kept
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import image_locks
from ansible_collections.virtops.maintenance.tests.recover import bed

QEMU, IO = shutil.which("qemu-system-x86_64"), shutil.which("qemu-io")
LATE = 60.0  # seconds; a QEMU that never locks


def is_seen(image: Path, by: str, *words: str | None) -> bool:
    """Whether the lock is seen, once this has locked bytes of the image: by QEMU's own code, as a guest's disk is."""
    mine = re.compile(rf":{image.stat().st_ino} {by}$", re.MULTILINE)
    with subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as qemu:
        try:
            until = time.monotonic() + LATE
            while not mine.search(Path("/proc/locks").read_text()) and time.monotonic() < until:
                assert qemu.poll() is None
                time.sleep(0.05)
            return image_locks.is_locked(str(image))
        finally:
            qemu.kill()


@pytest.mark.skipif(QEMU is None or IO is None, reason="needs QEMU")
def test_the_lock_of_a_qemu_that_writes_is_seen_and_no_other(tmp_path: Path) -> None:
    image = tmp_path / "web.img"
    image.write_bytes(bytes(1 << 20))
    assert not image_locks.is_locked(str(image)) and not image_locks.is_locked(str(tmp_path / "none"))
    guest = (QEMU, "-S", "-nodefaults", "-display", "none", "-drive", f"file={image},format=raw,if=virtio")
    assert is_seen(image, "201 201", *guest)
    assert not is_seen(image, "100 101", IO, "-f", "raw", str(image))  # which lets others write


def test_files_of_peers_running_vms_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_locks, "is_locked", lambda path: path != "/nfs/free")
    world = bed.World()
    with bed.below(world):
        own = bed.Host(world, HostConfig("b", "b"))
        vms = [VM("web", "web", "a"), VM("db", "db", "a"), VM("off", "off", "a", State.SHUTOFF)]
        files = {"web": {"/nfs/web": 1, "/nfs/free": 2}, "db": {"/nfs/db": 3}, "off": {"/nfs/off": 4}}
        protected.write(Kept("a", "t", "boot", ["b"], ["b"], vms=vms, files=files), [own])
        protected.write(Kept("b", "t", "boot", ["a"], ["a"], vms=vms, files=files), [own])
        own._volumes["protect.c.1"] = '{"schema": 1}'  # of another version, until that host is protected again
        assert image_locks.seen(own, {"db"}) == ["/nfs/web"]  # what runs here is locked by this host
