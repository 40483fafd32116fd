"""Which disks keep a domain where it is, which are copied, and what a target lacks of them.

Pure. Stricter than libvirt where it moves a guest that would then be on other data: a network
disk on localhost, a raw block device of which nobody knows whether it is shared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..._core.model.observation import MigrationMethod
from ..._core.reasons.reason import Finding, Reason
from ..domain.spec import DiskSpec, DomainSpec
from ..host.facts import HostFacts
from .shared_storage import NETWORK_POOLS, DiskView, covering_pool

_FOLDERS = ("dir", "fs")  # pools that are a directory of their host
_COPIED_FORMATS = ("raw", "qcow2")
STAY_WITH_HOST = {
    "dir": "a directory of its host",
    "vhostuser": "a vhost-user socket of its host",
    "vhostvdpa": "a vDPA device of its host",
    "nvme": "an NVMe device of its host",
}


@dataclass(frozen=True)
class MediumMissing(Finding):
    """The target lacks the medium in a drive. dev: the drive."""

    dev: str = ""


def stuck_disks(spec: DomainSpec, views: Mapping[str, DiskView], block_migration: bool = True) -> Iterator[Finding]:
    """The disks that keep the domain where it is, whatever the target."""
    for disk in spec.disks:
        text = _stuck(disk, views.get(disk.dev, DiskView()), block_migration)
        if text:
            yield Finding(Reason.DisksNotLiveMigratable, f"Disk {disk.dev} ({disk.source}) {text}.")


def disks_to_copy(spec: DomainSpec, shared: Mapping[str, bool | None]) -> tuple[str, ...]:
    """Target devices of the disks that a migration copies. `shared`: device -> shared?

    A disk that is not known to be local is never copied: it might be copied over itself.
    Media and read-only disks are not copied either (as in qemuMigrationAnyCopyDisk).
    """
    return tuple(
        disk.dev for disk in spec.disks if shared.get(disk.dev) is False and _copyable(disk) == "" and not disk.fixed
    )


def migration_method(spec: DomainSpec, shared: Mapping[str, bool | None]) -> MigrationMethod:
    """BlockMigration when a disk is copied, else LiveMigration."""
    return MigrationMethod.BLOCK if disks_to_copy(spec, shared) else MigrationMethod.LIVE


def shared_disks(views: Mapping[str, DiskView]) -> dict[str, bool | None]:
    """`shared` for the two functions above."""
    return {dev: view.source_shared for dev, view in views.items()}


def _copyable(disk: DiskSpec) -> str:
    """Why a local disk cannot be copied; empty: it can."""
    if disk.type not in ("file", "volume"):
        return "is local, and only image files can be copied"
    if disk.shareable:
        return "is local and shareable"
    if disk.encrypted:
        return "is local and encrypted"
    if disk.sliced:
        return "is local and uses only a part of its file (slices)"
    if disk.snapshots:
        # libvirt knows those that it made. The copy would have none, and replace this file some day.
        return (
            f"is local, and a copy would lack the snapshots in its image ({disk.snapshots}, see qemu-img snapshot -l)"
        )
    if disk.format not in _COPIED_FORMATS:
        return f"is local, and its format {disk.format} cannot be copied"
    return ""


def _odd_size(disk: DiskSpec, view: DiskView) -> str:
    """libvirt has qemu-img make images in whole KiB, and QEMU copies to none of another size."""
    if disk.format != "qcow2" or not view.capacity % 1024:
        return ""
    return f"is local, and libvirt creates images only in whole KiB, not of its {view.capacity} bytes"


def _stuck(disk: DiskSpec, view: DiskView, block_migration: bool) -> str:
    """Why the disk keeps the domain where it is, whatever the target; empty: it does not."""
    if disk.transient:
        return "is transient: its changes live in an overlay of this host"
    if disk.type in STAY_WITH_HOST:
        return f"is {STAY_WITH_HOST[disk.type]}"
    if view.held:
        return view.held
    if disk.device == "floppy" and not disk.read_only and not disk.empty and view.source_shared is False:
        return "is a floppy that the guest can write, on local storage, which libvirt does not migrate: eject it"
    if disk.fixed or view.source_shared:
        return view.unsafe
    if view.source_shared is None:
        return view.doubt or (
            "may be shared or local: if every host reaches the same data there, name the path in shared_paths"
        )
    if not block_migration:
        return _copyable(disk) or "is local, and copying is not allowed"
    return _copyable(disk) or _odd_size(disk, view)


def missing_disks(
    spec: DomainSpec, source: HostFacts, target: HostFacts, views: Mapping[str, DiskView]
) -> Iterator[Finding]:
    """A finding for each of the domain's disks that the target lacks."""
    needed: dict[str, int] = {}
    for disk in spec.disks:
        view = views.get(disk.dev, DiskView())
        if disk.empty or disk.type in STAY_WITH_HOST:
            continue
        if disk.type == "network" and not disk.backing:
            continue
        text = _pool_trouble(disk, source, target)
        if not text and (view.source_shared or disk.fixed):
            text = _not_visible(disk, view, target)
        elif not text and view.source_shared is False and not _copyable(disk):
            text = _no_copy(disk, view, target, needed)
        if text:
            text = f"Disk {disk.dev} ({disk.source}) {text}."
            medium = disk.removable
            yield (
                MediumMissing(Reason.DisksNotLiveMigratable, text, disk.dev)
                if medium
                else Finding(Reason.DisksNotLiveMigratable, text)
            )
    yield from _pools_too_small(needed, target)


def _no_copy(disk: DiskSpec, view: DiskView, target: HostFacts, needed: dict[str, int]) -> str:
    """Why it cannot be copied to this target. What it needs there is added to `needed`."""
    pool = disk.pool or covering_pool(target, disk.path)
    if view.lacks:
        return f"{view.lacks} {target.name}"
    if view.in_the_way:
        return f"cannot be copied: {view.in_the_way}"
    if pool is None and target.pools is not None:
        folder = os.path.dirname(disk.path)
        return f"is to be copied, but {target.name} has no active storage pool at {folder}"
    if pool and not view.on_target:
        needed[pool] = needed.get(pool, 0) + view.capacity
    return ""


def _pools_too_small(needed: Mapping[str, int], target: HostFacts) -> Iterator[Finding]:
    for pool, size in needed.items():
        facts = (target.pools or {}).get(pool)
        if facts is not None and size > facts.available:
            text = (
                f"The disks to be copied need {-(-size // 1024**2)} MiB in storage pool {pool!r};"
                f" {target.name} has {facts.available // 1024**2} MiB there."
            )
            yield Finding(Reason.DisksNotLiveMigratable, text)


def _pool_trouble(disk: DiskSpec, source: HostFacts, target: HostFacts) -> str:
    if disk.type != "volume" or target.pools is None:
        return ""
    there, here = target.pools.get(disk.pool), (source.pools or {}).get(disk.pool)
    if there is None:
        return f"is in storage pool {disk.pool!r}, which {target.name} does not have active"
    same = here is not None and (here.type, here.source) == (there.type, there.source)
    if here is not None and here.type in NETWORK_POOLS and not same:
        return f"is in storage pool {disk.pool!r}, which is on other storage on {target.name}"
    if here is not None and here.type in _FOLDERS and here.target != there.target:
        return f"is in storage pool {disk.pool!r}, which is {there.target} on {target.name}"
    return ""


def _not_visible(disk: DiskSpec, view: DiskView, target: HostFacts) -> str:
    if view.differs:
        return view.differs
    if view.on_target is True:
        return ""
    # libvirt drops such a medium when its file is not there (formatdomain, startupPolicy).
    if disk.removable and disk.startup_policy in ("optional", "requisite"):
        return ""
    if disk.removable:
        if view.on_target is None and view.source_shared:
            return ""
        known = "is not known to have" if view.on_target is None else "does not have"
        return f"is a medium that {target.name} {known}: eject it"
    if view.lacks:
        return f"{view.lacks} {target.name}"
    if view.on_target is False:
        return f"is not visible on {target.name}"
    if not view.source_shared:
        return f"is read-only and local, and {target.name} is not known to have it"
    # Shared, and no pool of the target covers it: its QEMU opens the same path or refuses.
    return ""
