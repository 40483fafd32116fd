"""The filters around the plan."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.virtops.maintenance.plugins.filter.plan_actual import plan_actual
from ansible_collections.virtops.maintenance.plugins.filter.plan_cluster import plan_cluster
from ansible_collections.virtops.maintenance.plugins.filter.plan_fleet import plan_fleet
from ansible_collections.virtops.maintenance.plugins.filter.plan_speeds import plan_speeds

FOUND = [
    {"host": {"name": "a", "memory_mib": 100, "labels": {}}, "vms": [{"name": "web", "uuid": "u", "host": "a"}]},
    {"host": {"name": "b", "memory_mib": 200}, "vms": []},
]


def test_the_inventory_says_what_the_host_cannot() -> None:
    hostvars = {
        "a": {
            "maintenance_memory": "64",
            "maintenance_link_mib_s": 1200,
            "maintenance_taints": ["x:NoSchedule"],
            "maintenance_dirty_rates": {"web": 40},
        }
    }
    fleet = plan_fleet(FOUND, hostvars)
    assert fleet["hosts"][0] == {
        "name": "a",
        "memory_mib": "64",
        "link_mib_s": 1200,
        "labels": {},
        "taints": ["x:NoSchedule"],
    }
    assert fleet["hosts"][1] == {"name": "b", "memory_mib": 200}
    assert fleet["vms"] == [{"name": "web", "uuid": "u", "host": "a", "dirty_rate": 40}]


def test_a_host_that_was_not_read_is_known_from_the_first_peer_that_reached_it() -> None:
    silent = {"name": "c", "memory_mib": 0, "reachable": False, "message": "off"}
    seen = {"name": "c", "memory_mib": 300, "reachable": True, "committed_mib": 90, "group_counts": {"db": 1}}
    of_a = {"name": "a", "memory_mib": 1, "reachable": True, "committed_mib": 8}
    first, second = ({**one, "peers": [*peers]} for one, peers in zip(FOUND, ([silent], [of_a, seen]), strict=True))
    fleet = plan_fleet([first, second], {"c": {"maintenance_link_mib_s": 10}})
    assert [host["name"] for host in fleet["hosts"]] == ["a", "b", "c"]
    assert fleet["hosts"][0]["memory_mib"] == 100  # its own word
    assert fleet["hosts"][2] == {**seen, "link_mib_s": 10}
    assert plan_fleet([first], {})["hosts"][1] == silent
    assert plan_fleet([second, {**first, "peers": [silent]}], {})["hosts"][2] == seen


def test_what_is_no_fleet_is_named() -> None:
    with pytest.raises(AnsibleFilterError, match="virt_host_info"):
        plan_fleet([{"failed": True}], {})


def move(uuid: str, **more: Any) -> dict[str, Any]:
    row = {"vm": uuid, "name": f"vm-{uuid}", "way": "migrate", "source": "a", "target": "b"}
    return {**row, "duration": 10.0, "pause_ms": 40, **more}


def row(uuid: str, **more: Any) -> dict[str, Any]:
    found = {"uuid": uuid, "name": f"vm-{uuid}", "verdict": "moved", "at": "b"}
    return {**found, "duration": 12.0, "outage_ms": 55, **more}


def test_predicted_against_actual() -> None:
    plan = {"steps": [{"hosts": ["a"], "moves": [move("1"), move("2"), move("3")]}]}
    result = {"node": "a", "vms": [row("1"), row("2", verdict="blocked", at="a"), row("9")]}
    first, second, third, ninth = plan_actual(result, plan)
    assert (first["predicted_duration"], first["duration"], first["off_by"]) == (10.0, 12.0, 0.2)
    assert first["as_foreseen"]
    assert not second["as_foreseen"]
    assert (second["predicted_verdict"], second["verdict"]) == ("moved", "blocked")
    assert (third["verdict"], third["off_by"]) == ("", None)
    assert (ninth["predicted_verdict"], ninth["as_foreseen"]) == ("", False)


def test_of_another_host_nothing_was_foreseen() -> None:
    plan = {"steps": [{"hosts": ["z"], "moves": [move("1", source="z")]}]}
    assert [r["as_foreseen"] for r in plan_actual({"node": "a", "vms": [row("1")]}, plan)] == [False]


def test_wrong_things_are_named() -> None:
    with pytest.raises(AnsibleFilterError, match="virt_drain"):
        plan_actual({}, {"steps": []})
    with pytest.raises(AnsibleFilterError, match="maintenance_plan"):
        plan_actual({"node": "a", "vms": []}, {})


def test_speeds_of_the_inventory() -> None:
    hostvars = {
        "a": {"maintenance_speeds": {"link": 50, "links": {"z": 1}}, "maintenance_link_mib_s": 40},
        "b": {"maintenance_link_mib_s": 30, "maintenance_dirty_rates": {"elsewhere": 9}},
        "c": {},
    }
    hostvars["a"]["maintenance_working_sets"] = {"db": 64}
    assert plan_speeds(["a", "b", "c", "gone"], hostvars, "a") == {
        "link": 50,
        "links": {"z": 1, "a": 40, "b": 30},
        "working_sets": {"db": 64},
    }
    assert plan_speeds([], {}, "a") == {}


def test_a_cluster_with_what_the_inventory_says() -> None:
    found = {
        "hosts": [{"name": "n1", "memory_mib": 100}],
        "vms": [{"name": "shop/db", "host": "n1"}],
        "budgets": [],
        "quotas": [{"name": "shop/tight"}],
        "limits": {"cluster": 5, "outbound": 2, "inbound": 1000},
        "migration": {"bandwidth": 0},
    }
    hostvars = {
        "n1": {
            "maintenance_memory": 7,  # the cluster tells that
            "maintenance_link_mib_s": 900,
            "maintenance_dirty_rates": {"shop/db": 30},
        }
    }
    fleet = plan_cluster(found, hostvars)
    assert fleet["hosts"] == [{"name": "n1", "memory_mib": 100, "link_mib_s": 900}]
    assert fleet["vms"] == [{"name": "shop/db", "host": "n1", "dirty_rate": 30}]
    assert fleet["limits"] == found["limits"] and fleet["quotas"] == found["quotas"]
    assert plan_cluster(found, {}, {"outbound": 1})["limits"]["outbound"] == 1
    assert plan_cluster(found, {}, {"outbound": 9})["limits"]["outbound"] == 2
    del found["quotas"]  # kept in a file by an older version
    assert plan_cluster(found, {})["quotas"] == []
    with pytest.raises(AnsibleFilterError, match="kubevirt_fleet_info"):
        plan_cluster({"vms": []}, {})
