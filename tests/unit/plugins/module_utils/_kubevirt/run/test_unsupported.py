"""What a rule asks for against what KubeVirt migrates with."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import migration_policy
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.node_record import Instance
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import unsupported


def rows(wanted: dict[str, Any], version: tuple[int, int] = (1, 9), **configured: Any) -> list[dict[str, str]]:
    applies = migration_policy.result_form(migration_policy.settings(configured, None, version), "")
    return unsupported.rows(Instance("default", "vm", "u", settings=applies, wanted=wanted))


@pytest.mark.parametrize(
    ("wanted", "configured", "applies", "remedy"),
    [
        ({"auto_converge": False}, {"allowAutoConverge": True}, "true", "allowAutoConverge: false"),
        ({"post_copy": True}, {}, "false", "allowPostCopy: true"),
        ({"bandwidth": 64}, {}, "0", "bandwidthPerMigration: 64Mi"),
        ({"max_downtime_ms": 500}, {"maxDowntimeMs": 100}, "100", "maxDowntimeMs: 500"),
        ({"on_timeout": "post_copy"}, {}, "abort", "allowPostCopy: true"),
        ({"on_timeout": "abort"}, {"allowPostCopy": True}, "post_copy", "Disruption: false"),
        ({"on_timeout": "abort"}, {"allowWorkloadDisruption": True}, "pause", "Disruption: false"),
        ({"on_timeout": "pause"}, {}, "abort", "allowPostCopy: false and allowWorkloadDisr"),
        ({"progress_timeout": 300}, {}, "150", "the KubeVirt object"),
        ({"tls": True}, {"disableTLS": True}, "false", "disableTLS: false"),
        ({"parallel_connections": 2}, {}, "0", "no such setting"),
        ({"compression": ["xbzrle"]}, {}, "none", "no such setting"),
    ],
)
def test_what_differs_is_told_with_its_remedy(
    wanted: dict[str, Any], configured: dict[str, Any], applies: str, remedy: str
) -> None:
    (row,) = rows(wanted, **configured)
    assert row["applies"] == applies and remedy in row["remedy"]


@pytest.mark.parametrize(
    ("wanted", "configured"),
    [
        ({"auto_converge": False, "tls": True, "on_timeout": "abort"}, {}),
        ({"parallel_connections": 0, "compression": []}, {}),
        ({"post_copy": True, "on_timeout": "post_copy"}, {"allowPostCopy": True}),
        ({"on_timeout": "abort"}, {"allowPostCopy": True, "allowWorkloadDisruption": False}),
        ({"bandwidth": 64}, {"bandwidthPerMigration": "64Mi"}),
    ],
)
def test_what_applies_anyway_is_not_told(wanted: dict[str, Any], configured: dict[str, Any]) -> None:
    assert rows(wanted, **configured) == []


def test_a_difference_is_told_once_with_its_vms() -> None:
    told = {"unmet_settings": rows({"tls": False}), "decided_by": "rule r"}
    (line,) = unsupported.lines([{**told, "name": f"vm{number}"} for number in range(7)])
    assert line.startswith("vm0, vm1, vm2, vm3, vm4 and 2 more: tls should be false (rule r);")


@pytest.mark.parametrize(("version", "applies"), [((1, 9), []), ((1, 8), ["0"]), ((0, 0), ["not known"])])
def test_what_kubevirt_applies_by_itself_depends_on_its_version(version: tuple[int, int], applies: list[str]) -> None:
    assert [row["applies"] for row in rows({"max_downtime_ms": 900}, version)] == applies
