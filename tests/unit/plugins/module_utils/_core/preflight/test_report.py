"""The preflights of several hosts as one table."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.report import report


def finding(code: str, subject: str, severity: str = "blocker", about: str = "vm") -> dict:
    words = {"sentence": "It stays.", "message": "", "remedy": "Move it.", "plane": "control"}
    return {"code": code, "severity": severity, "about": about, "subject": subject, **words}


def result(node: str, *findings: dict, vms: int = 1) -> dict[str, Any]:
    blockers = [row for row in findings if row["severity"] == "blocker"]
    return {
        "findings": [{**row, "node": node} for row in findings],
        "blockers": [row["code"] for row in blockers],
        "node_blockers": [row["code"] for row in blockers if row["about"] != "vm"],
        "cautions": [row["code"] for row in findings if row not in blockers],
        "vms_checked": vms,
    }


def test_all_blockers_of_all_hosts_stand_in_one_table() -> None:
    clock, local = finding("Clock", "fleet", "warning", "cluster"), finding("LocalDisk", "VM db")
    results = {
        "host-a": result("host-a", local, clock, vms=12),
        "host-b": result("host-b", clock, vms=0),
        "c": {"unreachable": True, "msg": "no route\nto host"},
        "d": {"failed": True, "msg": "libvirt is missing"},
    }
    found = report(results, "blockers")
    assert found["lines"] == [
        "host-a  blocked  12 VMs  1 blocker, 1 warning",
        "host-b  ready     0 VMs  1 warning",
        "c       unknown       -  cannot be reached: no route",
        "d       unknown       -  libvirt is missing",
        "host-a  BLOCKER LocalDisk VM db: It stays. -> Move it.",
        "all     WARNING Clock fleet: It stays. -> Move it.",
        "3 of 4 hosts are not ready: host-a, c, d",
    ]
    assert (found["blocked"], found["ready"]) == (["host-a", "c", "d"], False)
    assert [row["nodes"] for row in found["findings"]] == [["host-a"], ["host-a", "host-b"]]
    assert not any("node" in row for row in found["findings"])


@pytest.mark.parametrize(
    ("fail_on", "about", "ready"),
    [
        ("blockers", "vm", False),
        ("node_blockers", "vm", True),
        ("node_blockers", "node", False),
        ("nothing", "node", True),
    ],
)
def test_what_blocks_is_the_users_choice(fail_on: str, about: str, ready: bool) -> None:
    found = report({"a": result("a", finding("Code", "x", about=about))}, fail_on)
    assert found["ready"] is ready
    assert found["hosts"][0]["state"] == ("ready" if ready else "blocked")


@pytest.mark.parametrize("fail_on", ["blockers", "nothing"])
def test_a_host_that_could_not_be_checked_is_never_ready(fail_on: str) -> None:
    assert not report({"a": {"msg": "no"}}, fail_on)["ready"]


def test_no_host_at_all_is_no_success() -> None:
    found = report({}, "blockers")
    assert (found["ready"], found["lines"]) == (False, ["No host was checked."])


def test_where_nothing_is_in_the_way_one_line_says_so() -> None:
    found = report({"a": result("a"), "b": result("b")}, "blockers")
    assert found["ready"] and found["lines"][-1] == "All 2 hosts are ready"
