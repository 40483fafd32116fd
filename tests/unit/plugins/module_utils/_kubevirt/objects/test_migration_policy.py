"""What KubeVirt wrote into a VMI about the settings of its migration."""

from __future__ import annotations

import json

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.cluster import with_gates
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.migration_policy import (
    applying,
    defaults,
    foreseen,
    result_form,
    settings,
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


def vmi(memory: str) -> dict:
    spec = {"domain": {"memory": {"guest": memory}}}
    return {"metadata": {"name": "db", "namespace": "shop", "labels": {"app": "db"}}, "spec": spec, "status": {}}


def test_the_policy_that_helps_keeps_what_applies_today() -> None:
    """4295 decimal MB are 5 GB for KubeVirt: 750 s; at 4 MiB/s it takes 1024."""
    today = {"metadata": {"name": "p"}, "spec": {"bandwidthPerMigration": "4Mi", "allowAutoConverge": True}}
    form = result_form(settings({}, today, (1, 9)), "p")
    found = foreseen(vmi("4Gi"), form, None)
    assert found is not None and found.reason is Reason.CompletionTimeout
    assert "4096 MiB of memory at 4 MiB/s take 1024 s; KubeVirt aborts after 750 s." in found.message
    helps = json.loads(found.message.partition("<<< '")[2].partition("'")[0])
    assert applying(vmi("4Gi"), {}, [today, helps]) is helps
    after = result_form(settings({}, helps, (1, 9)), "shop-db-migrates")
    assert foreseen(vmi("4Gi"), after, None) is None
    assert {**form, "policy": "", "completion_timeout_per_gib": 0} == {
        **after,
        "policy": "",
        "completion_timeout_per_gib": 0,
    }


def test_who_writes_much_is_foreseen_where_nothing_helps_him() -> None:
    plain = result_form(settings({"bandwidthPerMigration": "64Mi"}, None, (1, 9)), "")
    assert foreseen(vmi("1Gi"), plain, 5.0) is None and foreseen(vmi("1Gi"), plain, None) is None
    found = foreseen(vmi("1Gi"), plain, 100.0)
    assert found is not None and found.reason is Reason.NotConverging
    for helps in ({"allowAutoConverge": True}, {"allowPostCopy": True}, {"allowWorkloadDisruption": True}):
        assert (
            foreseen(
                vmi("1Gi"), result_form(settings({"bandwidthPerMigration": "64Mi", **helps}, None, (1, 9)), ""), 100.0
            )
            is None
        )


def test_the_gates_of_its_version_tell_what_kubevirt_goes_by() -> None:
    """Its stall detection knows no completion time; its downtime tuning comes to the allowed pause in steps."""
    gates = ["MigrationStallDetection", "MigrationDowntimeTuning"]
    config = {"migrations": {"bandwidthPerMigration": "4Mi"}, "developerConfiguration": {"featureGates": gates}}
    form = result_form(settings(with_gates(config), None, (1, 10)), "")
    assert (form["on_timeout"], form["downtime_tuning"]) == ("stall_detection", True)
    assert foreseen(vmi("4Gi"), form, None) is None, "it would take longer than completionTimeoutPerGiB has it"
    found = foreseen(vmi("4Gi"), form, 50.0)
    assert found is not None and found.reason is Reason.NotConverging
    assert "0.9 s are allowed, to which KubeVirt raises it step by step. KubeVirt's stall detection" in found.message
    config["developerConfiguration"]["disabledFeatureGates"] = gates
    form = result_form(settings(with_gates(config), None, (1, 10)), "")
    assert (form["on_timeout"], form["downtime_tuning"]) == ("abort", False)


def test_defaults_are_those_of_the_version() -> None:
    assert [defaults(version)["completionTimeoutPerGiB"] for version in ((1, 3), (1, 4), (0, 0))] == [800, 150, 150]
    assert [defaults(version).get("maxDowntimeMs") for version in ((1, 8), (1, 9), (0, 0))] == [0, 900, None]
