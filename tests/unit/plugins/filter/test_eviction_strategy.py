"""The filter that tells what rules decide."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.virtops.maintenance.plugins.filter.eviction_strategy import eviction_strategy

WEB = {"name": "web-1", "uuid": "u1", "labels": {}, "migratable": True, "eviction_strategy": None}
CARD = {
    "name": "net-1",
    "uuid": "u2",
    "labels": {"tier": "test"},
    "migratable": False,
    "reasons": ["HostDeviceNotLiveMigratable", "SomethingNew"],
    "eviction_strategy": "LiveMigrateIfPossible",
}
RULES = [{"name": "tests", "when": "labels.tier == 'test'", "allow_stop": True, "priority": -1}]


def test_on_what_the_info_module_returns() -> None:
    rows = eviction_strategy({"documents": [WEB, CARD], "vms": []}, RULES)
    assert [(row["name"], row["way"], row["strategy"]) for row in rows] == [
        ("web-1", "migrate", "LiveMigrate"),
        ("net-1", "shutdown", "LiveMigrateIfPossible"),
    ]
    assert rows[1]["decided_by"] == "declared by the VM, with rule tests"
    assert rows[1]["reason"] == "HostDeviceNotLiveMigratable"
    assert rows[1]["priority"] == -1


def test_the_options_are_those_of_the_drain() -> None:
    (row,) = eviction_strategy([CARD])
    assert (row["way"], row["reason"]) == ("block", "StopNotAllowed")
    (row,) = eviction_strategy([CARD], allow_stop=True)
    assert row["way"] == "shutdown"
    (row,) = eviction_strategy([WEB], strategy="External")
    assert (row["way"], row["decided_by"]) == ("external", "default")
    plain = {**CARD, "eviction_strategy": None}
    (row,) = eviction_strategy([plain], on_not_migratable="skip")
    assert row["way"] == "skip"


def test_hooks_are_told() -> None:
    rules = [{**RULES[0], "hooks": {"before": "out.yml"}}]
    rows = eviction_strategy([WEB, CARD], rules)
    assert [row["hooks"] for row in rows] == [{}, {"before": "out.yml"}]


SILENT = {**WEB, "namespace": "default", "labels": {"tier": "test"}}


def test_on_kubevirt_a_vm_that_names_none_has_the_clusters_default() -> None:
    """Other than on libvirt, where it is an option. A rule sees that the VM names none."""
    found = {"documents": [SILENT], "kubevirt": {"default_strategy": "None"}}
    rules = [{"name": "silent", "when": "eviction_strategy == `null`", "allow_stop": True}]
    (row,) = eviction_strategy(found, rules)
    assert (row["strategy"], row["way"]) == ("None", "shutdown")
    assert row["decided_by"] == "declared by the VM, with rule silent"
    (row,) = eviction_strategy({"documents": [SILENT], "kubevirt": {}})
    assert row["way"] == "migrate"  # KubeVirt's object could not be read: as in the drain


def test_what_is_not_known_is_said() -> None:
    (row,) = eviction_strategy([WEB], [{"name": "hot", "when": "dirty_rate > `5`"}])
    assert (row["way"], row["reason"]) == ("block", "Undecided")
    assert "dirty_rate" in row["message"]


@pytest.mark.parametrize(
    ("found", "rules", "options", "words"),
    [
        ([WEB], [{"name": "x", "when": "nam == 'x'"}], {}, r"rules\[0\] \(x\), when: .*name"),
        ([WEB], [], {"strategy": "Never"}, "Never"),
        ([{"name": "x"}], [], {}, "not the document of a VM"),
        ({"vms": []}, [], {}, "virt_host_info"),
        ("text", [], {}, "virt_host_info"),
        ([SILENT], [], {}, "default/web-1 names no strategy"),
        ({"documents": [], "kubevirt": {}}, [], {"strategy": "None"}, "no meaning on KubeVirt"),
    ],
)
def test_errors_name_the_thing(found: Any, rules: Any, options: Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        eviction_strategy(found, rules, **options)
