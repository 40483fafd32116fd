# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preflight on facts: every code is planted once and found, and a clean cluster has none."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.check import rows
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.found import Found
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import (
    CHECKED,
    TABLE,
    Platform,
    Reason,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.preflight.plants import (
    PLANTS,
    POLICY,
    K,
    L,
    clean,
    found,
)


@pytest.mark.parametrize("member", CHECKED, ids=lambda member: member.value)
def test_every_code_is_planted_once_and_found(member: Reason) -> None:
    assert member in PLANTS, f"nobody plants {member.value}: add it to PLANTS"
    facts, policy = PLANTS[member]()
    told = found(facts, policy)
    assert member in told, sorted(told)
    row, info = told[member], CHECKED[member]
    assert facts.platform in info.platforms
    assert row["severity"] == info.severity.value
    for key in ("subject", "sentence", "remedy", "decided_by", "plane"):
        assert row[key], key
    # The other VM is well.
    assert policy is not POLICY or "VM vm1" not in {row["subject"] for row in told.values()}


def test_a_reason_without_a_check_of_its_own_blocks_its_vm() -> None:
    lone = next(reason for reason in TABLE if reason not in CHECKED)
    facts = clean(L, 1)
    (row,) = rows(facts, [Found(lone, "VM vm0")], {})
    assert (row["severity"], row["about"], row["code"]) == ("blocker", "vm", lone.value)
    assert row["sentence"] == TABLE[lone].sentence


@pytest.mark.parametrize("platform", [L, K])
def test_no_false_alarm_on_200_clean_clusters(platform: Platform) -> None:
    for seed in range(200):
        told = found(clean(platform, seed))
        assert told == {}, (seed, told)
