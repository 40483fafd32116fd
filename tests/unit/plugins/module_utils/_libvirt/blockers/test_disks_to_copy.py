"""Which disks a migration copies, and whether there is room for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import MigrationMethod
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.disk_moves import (
    disks_to_copy,
    migration_method,
    shared_disks,
    stuck_disks,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.running import target_findings
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.shared_storage import DiskView
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.domain.xml import parse_domain
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.vmxml import (
    BLOCK,
    COPY,
    ISO,
    MIB,
    disk,
    domain,
    host,
)


@pytest.mark.parametrize(
    ("xml", "shared", "copied"),
    [
        (COPY, False, ("vda",)),
        (COPY, True, ()),
        (COPY, None, ()),  # it might be copied over itself
        (domain(disk("<readonly/>")), False, ()),
        (domain(disk("<shareable/>")), False, ()),
        (domain(disk(device="cdrom", source=ISO)), False, ()),
        (domain(disk(kind="block", source=BLOCK)), False, ()),
        (domain(disk(source="<source/>")), False, ()),
        (domain(), True, ()),
    ],
)
def test_which_disks_are_copied(xml: str, shared: bool | None, copied: tuple[str, ...]) -> None:
    spec, seen = parse_domain(xml), shared_disks({"vda": DiskView(shared)})
    method = MigrationMethod.BLOCK if copied else MigrationMethod.LIVE
    assert disks_to_copy(spec, seen) == copied
    assert migration_method(spec, seen) is method


def test_a_copy_over_a_file_that_is_there_needs_no_more_room() -> None:
    spec = parse_domain(COPY)
    views = {"vda": DiskView(False, True, 500 * MIB)}
    assert target_findings(spec, host(), host(), views) == ()


def test_a_disk_with_snapshots_in_its_image_is_not_copied() -> None:
    """libvirt knows none of them. The copy has none, and replaces the file when the VM comes back."""
    spec = parse_domain(COPY)
    spec = replace(spec, disks=tuple(replace(disk, snapshots=2) for disk in spec.disks))
    assert disks_to_copy(spec, {"vda": False}) == ()
    (found,) = stuck_disks(spec, {"vda": DiskView(False)})
    assert "would lack the snapshots in its image (2," in found.message
    assert [*stuck_disks(spec, {"vda": DiskView(True)})] == []


@pytest.mark.parametrize(("size", "format_", "stays"), [(1024, "qcow2", 0), (1536, "qcow2", 1), (1536, "raw", 0)])
def test_libvirt_makes_qcow2_images_in_whole_kib(size: int, format_: str, stays: int) -> None:
    spec = parse_domain(COPY)
    spec = replace(spec, disks=tuple(replace(disk, format=format_) for disk in spec.disks))
    found = [*stuck_disks(spec, {"vda": DiskView(False, capacity=size)})]
    assert len(found) == stays
    assert all("of its 1536 bytes" in each.message for each in found)
