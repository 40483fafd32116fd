# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which disks a migration copies, and whether there is room for them."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import MigrationMethod
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.blockers.disk_moves import (
    disks_to_copy,
    migration_method,
    shared_disks,
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
