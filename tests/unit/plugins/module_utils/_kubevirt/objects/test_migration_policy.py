# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What KubeVirt wrote into a VMI about the settings of its migration."""

from __future__ import annotations

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.migration_policy import (
    applying,
    defaults,
    taken,
)

STATE = {"migrationConfiguration": {"allowAutoConverge": True}, "migrationPolicyName": "fast"}


def test_what_a_migration_took_holds_until_it_ends() -> None:
    found = taken({"status": {"migrationState": STATE}}, (1, 9))
    assert found is not None
    settings, policy = found
    assert settings["allowAutoConverge"] is True and policy == "fast"
    ended = {**STATE, "endTimestamp": "2026-11-01T10:00:00Z"}
    assert taken({"status": {"migrationState": ended}}, (1, 9)) is None, "the next one reads them anew"
    assert taken({"status": {}}, (1, 9)) is None


def test_a_policy_applies_to_the_vms_that_it_selects() -> None:
    """The one with most labels, then the lower name (KubeVirt's MatchPolicy)."""
    big = {"metadata": {"labels": {"size": "big", "tier": "db"}}}
    small = {"metadata": {"labels": {"size": "small"}}}

    def policy(name: str, **labels: str) -> dict:
        selectors = {"virtualMachineInstanceSelector": labels}
        return {"metadata": {"name": name}, "spec": {"selectors": selectors}}

    policies = [policy("b", size="big"), policy("a", size="big"), policy("z", size="big", tier="db")]
    found = applying(big, {}, policies)
    assert found is not None and found["metadata"]["name"] == "z"
    found = applying(big, {}, policies[:2])
    assert found is not None and found["metadata"]["name"] == "a"
    assert applying(small, {}, policies) is None


def test_defaults_are_those_of_the_version() -> None:
    assert [defaults(version)["completionTimeoutPerGiB"] for version in ((1, 3), (1, 4), (0, 0))] == [800, 150, 150]
    assert [defaults(version).get("maxDowntimeMs") for version in ((1, 8), (1, 9), (0, 0))] == [0, 900, None]
