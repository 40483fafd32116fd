"""A roll as its actions return it: two hosts done, one that failed, one that waits. For tests of its report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import report

BEGAN = datetime(2026, 5, 4, 18, 30, tzinfo=UTC)
ODD = "web \u6771\u4eac <script>alert(1)</script> " + "x" * 60


def at(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def entry(name: str, stage: str, since: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "stage": stage, "since": at(since), **more}


def roll(state: str, *hosts: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "7f3a1c",
        "state": state,
        "requester": "alice",
        "reason": "CHG-4711: kernel 6.1.140 on the KVM hosts of rack 3",
        "begun": at(0),
        "max_unavailable": "1",
        "max_unavailable_per": {"rack": 1},
        "max_failures": 0,
        "hosts": list(hosts),
    }


def moved(name: str, begin: float, took: float, **more: Any) -> dict[str, Any]:
    row = {"name": name, "uuid": name, "verdict": "moved", "source": "host-a", "target": "host-d", "attempts": 1}
    row |= {"start": at(begin), "end": at(begin + took), "duration": took, "outage_ms": 133, "processed_mib": 812.0}
    return {**row, "reason": "", "message": "", "remedy": "", **more}


def blocked(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "uuid": name,
        "verdict": "blocked",
        "source": "host-c",
        "target": "",
        "attempts": 0,
        "start": "",
        "end": "",
        "duration": 0.0,
        "outage_ms": None,
        "reason": "StopNotAllowed",
        "message": "It cannot migrate (HostDeviceNotLiveMigratable), and a stop is not allowed.",
        "remedy": "Allow it with drain_allow_stop, or shut the VM down yourself.",
    }


def failed_roll() -> dict[str, Any]:
    """What report.json says of it."""
    doc = report.empty()
    waits = [entry(name, "waiting", 0) for name in ("host-a", "host-b", "host-c", "host-d")]
    records: list[tuple[float, list[dict[str, Any]]]] = [(0, waits)]
    for number, name in enumerate(("host-a", "host-b")):
        begin = number * 300
        tally = {"moved": 8, "stopped": 0, "outage_ms": 133}
        for stage, since in (("draining", 5), ("at work", 95), ("rebooting", 140), ("checking", 230), ("done", 290)):
            hosts = list(records[-1][1])
            more = {"begun": at(begin + 5), "tally": tally}
            hosts[number] = entry(name, stage, begin + since, **more)
            records.append((begin + since, hosts))
    for stage, since, more in (
        ("draining", 605, {}),
        ("failed", 700, {"failed_in": "draining", "message": 'In the task "Take the host out of service"'}),
    ):
        hosts = list(records[-1][1])
        hosts[2] = entry("host-c", stage, since, begun=at(605), **more)
        records.append((since, hosts))
    for now, hosts in records:
        state = "stopped" if hosts[2]["stage"] == "failed" else "running"
        doc = report.with_roll(doc, roll(state, *hosts), at(now))
    for number, name in enumerate(("host-a", "host-b")):
        begin = number * 300
        vms = [moved(f"web-{number}-{i}", begin + 10 + 10 * (i // 2), 9.0 + i, attempts=1 + (i == 5)) for i in range(7)]
        vms.append(moved(ODD, begin + 50, 22.5))
        result = {
            "phase": "Drained",
            "vms": vms,
            "certificate": {"node": name, "run_id": "1777919400-9c", "vms": {}},
            "findings": [],
        }
        plan = [
            {"name": "web-0-1", "predicted_verdict": "moved", "predicted_target": "host-d", "predicted_duration": 8.1}
        ]
        doc = report.with_drain(doc, name, result, plan, at(begin + 90))
        after = [{"name": "web-0-0", "outcome": "moved", "message": "left on host-d"}]
        doc = report.with_restore(doc, name, {"outcomes": after}, at(begin + 280))
    result = {"phase": "Blocked", "vms": [moved("db-1", 610, 31.0), blocked("gpu-1"), blocked("gpu-2")], "findings": []}
    return report.with_drain(doc, "host-c", result, [], at(700))
