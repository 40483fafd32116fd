"""What the mounts and libvirt's settings say of a path."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.mounts import (
    libvirt_shares,
    path_is_shared_fs,
    servers_of,
)

MOUNTS = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:40 / /srv/nfs rw - nfs4 nas-1:/export rw
31 30 0:41 / /srv/nfs/deep rw - tmpfs none rw
32 22 0:42 / /srv/with\\040space rw shared:2 master:1 - ceph 10.0.0.1:6789,[fd00::1]:6789:/ rw
33 22 0:43 / /srv/gluster rw - fuse.glusterfs g:/v rw
34 22 0:44 / /srv/sshfs rw - fuse.sshfs h:/ rw
35 22 0:45 / /srv/over rw - ext4 /dev/x rw
36 35 0:46 / /srv/over rw - nfs [::1]:/y rw
37 22 0:47 / /srv/smb rw - cifs //files/vms rw
"""


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("/var/lib/libvirt/images/a.qcow2", False),
        ("/srv/nfs/a.qcow2", True),
        ("/srv/nfs", True),
        ("/srv/nfs-local/a.qcow2", False),  # not below /srv/nfs
        ("/srv/nfs/deep/a.qcow2", False),
        ("/srv/nfs/not/there/yet/a.qcow2", True),
        ("/srv/with space/a.qcow2", True),
        ("/srv/gluster/a.qcow2", True),
        ("/srv/sshfs/a.qcow2", None),
        ("/srv/over/a.qcow2", True),  # the later mount lies on top
    ],
)
def test_file_system(path: str, shared: bool | None) -> None:
    assert path_is_shared_fs(path, MOUNTS) is shared


def test_links_are_resolved(tmp_path: Any) -> None:
    (tmp_path / "link").symlink_to("/srv/nfs")
    assert path_is_shared_fs(str(tmp_path / "link" / "a.qcow2"), MOUNTS) is True


def test_this_machine_has_a_file_system() -> None:
    assert path_is_shared_fs("/proc/self/status") is None  # proc: neither list


@pytest.mark.parametrize(
    ("path", "servers"),
    [
        ("/srv/nfs/a", ("nas-1",)),
        ("/srv/over/a", ("::1",)),
        ("/srv/with space/a", ("10.0.0.1", "fd00::1")),
        ("/srv/gluster/a", ("g",)),
        ("/srv/smb/a", ("files",)),
        ("/var/a", ()),
        ("/srv/sshfs/a", ()),  # not known to be shared at all
    ],
)
def test_who_serves_it(path: str, servers: tuple[str, ...]) -> None:
    assert servers_of(path, MOUNTS) == servers


@pytest.mark.parametrize(
    ("conf", "shares"),
    [
        ("", False),
        ('#shared_filesystems = [ "/srv/vms" ]', False),
        ('shared_filesystems = [ "/srv/vms" ]', True),
        ('user = "root"\nshared_filesystems = [\n  "/srv/other",\n  "/srv/vms/",\n]\n', True),
        ('shared_filesystems = [ "/srv/vm" ]', False),
    ],
)
def test_what_libvirt_was_told_to_take_as_shared(conf: str, shares: bool) -> None:
    assert libvirt_shares("/srv/vms/a.qcow2", conf) is shares
