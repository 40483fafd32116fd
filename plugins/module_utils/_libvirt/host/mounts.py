"""Find out from this host's mounts on which file system a path is, and who serves it."""

from __future__ import annotations

import os
import re

# File systems that libvirt takes as shared (virFileIsSharedFS in src/util/virfile.c), by their
# names in /proc/self/mountinfo.
# fmt: off
SHARED_FS = frozenset((
    "nfs", "nfs4", "gfs", "gfs2", "ocfs2", "afs", "smbfs", "cifs", "smb3", "ceph", "gpfs", "acfs",
    "beegfs", "fuse.glusterfs", "fuse.quobyte",
))
# fmt: on
# File systems that are on this host alone. One in neither list is not known: it may be shared
# although libvirt does not know it (lustre, moosefs, sshfs, virtiofs ...).
# fmt: off
LOCAL_FS = frozenset((
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "reiserfs", "bcachefs",
    "nilfs2", "tmpfs", "ramfs", "overlay", "squashfs", "iso9660", "udf", "vfat", "exfat", "ntfs",
    "ntfs3", "hugetlbfs", "devtmpfs", "rootfs",
))
# fmt: on
QEMU_CONF = "/etc/libvirt/qemu.conf"


def path_is_shared_fs(path: str, mountinfo: str | None = None) -> bool | None:
    """Is the path on a shared file system? None: on one that is in neither list."""
    kind, _source = mount_of(path, mountinfo)
    if kind in SHARED_FS:
        return True
    return False if kind in LOCAL_FS else None


def mount_of(path: str, mountinfo: str | None = None) -> tuple[str, str]:
    """The file system that the path is on, and what is mounted there.

    Follows virFileIsSharedFS: symbolic links are resolved, and where the path is not there, the
    nearest directory above decides. Reads /proc/self/mountinfo (proc(5)) unless it is given.
    """
    if mountinfo is None:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
            mountinfo = stream.read()
    real = os.path.realpath(path)
    best, found = -1, ("", "")
    for line in mountinfo.splitlines():
        fields, _dash, rest = line.partition(" - ")
        words, tail = fields.split(" "), rest.split(" ")
        if len(words) < 5 or not tail[0]:
            continue
        point = _plain(words[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        # Later lines are mounted over earlier ones.
        if inside and len(point) >= best:
            best, found = len(point), (tail[0], _plain(tail[1]) if len(tail) > 1 else "")
    return found


def _plain(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), text)


def servers_of(path: str, mountinfo: str | None = None) -> tuple[str, ...]:
    """The hosts that serve the file system that the path is on; empty: none is named."""
    kind, source = mount_of(path, mountinfo)
    if kind not in SHARED_FS:
        return ()
    if source.startswith("//"):  # //server/share
        return (source[2:].split("/")[0],)
    where, colon, _folder = source.rpartition(":/")
    if not colon:
        return ()
    # One server, or several monitors: a,b:6789,[::1]:6789
    return tuple(_without_port(part) for part in where.split(",") if part)


def _without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text if text.count(":") > 1 else text.partition(":")[0]


def libvirt_shares(path: str, conf: str | None = None) -> bool:
    """Does this host's libvirt take the path as shared by its own setting? `conf`: the text of
    qemu.conf. Where that cannot be read it is believed to: libvirt refuses what it does not."""
    if conf is None:
        try:
            with open(QEMU_CONF, encoding="utf-8", errors="replace") as stream:
                conf = stream.read()
        except OSError:
            return True
    found = re.search(r"^[ \t]*shared_filesystems[ \t]*=[ \t]*\[([^\]]*)\]", conf, re.MULTILINE)
    folders = re.findall(r"\"([^\"]+)\"", found.group(1)) if found else []
    real = os.path.realpath(path)
    return any(real.startswith(os.path.realpath(folder).rstrip("/") + "/") for folder in folders)
