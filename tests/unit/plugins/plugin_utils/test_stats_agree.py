"""A host with a VM of each way: table, report, page, JUnit, set_stats, textfile and event have the same figures."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.reconcile import ROWS
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import OnNotMigratable, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Rule
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.tally import COUNTED, renewed, tally
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import notifications, report, table
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import HostEntry, Roll, Stage
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Slice
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.rows import rows
from ansible_collections.virtops.maintenance.plugins.plugin_utils._junit import junit
from ansible_collections.virtops.maintenance.plugins.plugin_utils._metrics import text
from ansible_collections.virtops.maintenance.plugins.plugin_utils._page import page
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import (
    ALLOWED,
    FIXED,
    run,
    two,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import vm

NOW = "2026-01-01T00:00:00Z"
WAYS = {2: "cold_migrate", 3: "shutdown", 4: "save", 5: "block"}
EXPECTED = {"vms": 7, "moved": 2, "cold_moved": 1, "stopped": 2, "off": 1, "kept": 1}
RULES = tuple(
    Rule(way, lambda doc, n=number: doc["n"] == n, on_not_migratable=OnNotMigratable(way))
    for number, way in WAYS.items()
)


def drained() -> tuple[Any, Slice]:
    """One VM of each way: live, cold, stopped, saved, blocked, moved by its owner, off before."""
    made = two(
        vm(1, "a", document={"n": 1}),
        *[vm(number, "a", document={"n": number}, **FIXED) for number in WAYS],
        vm(6, "a", document={"n": 6}, declared_strategy="External"),
        vm(7, "a", document={"n": 7}, state=State.SHUTOFF),
    )

    def owner() -> None:
        made.machines["b"].domains["u6"] = made.machines["a"].domains.pop("u6")

    made.at(made.clock + 5, owner)
    return made, run(made, replace(ALLOWED, rules=RULES))


def roll_of(tallied: dict[str, int]) -> Roll:
    entry = HostEntry("a", Stage.FAILED, NOW, failed_in=Stage.DRAINING, message="why", begun=NOW)
    entry.tally = renewed(entry.tally, tallied)
    return Roll("7f", "run", "alice", "kernel", NOW, {"a": entry}, written=NOW)


def of_table(roll: Roll) -> dict[str, int]:
    """By where its columns begin."""
    head, host = table.lines(roll)[:2]
    starts = [(head.index(f"  {name.partition('_')[0].replace('vms', 'VMs')}") + 2, name) for name in ("vms", *COUNTED)]
    return {name: int(host[start:].split()[0]) for start, name in starts}


def of_junit(doc: dict[str, Any]) -> dict[str, int]:
    suite = ET.fromstring(junit(doc)).find("testsuite")
    assert suite is not None
    vms = [case for case in suite.iter("testcase") if case.get("classname") == "vm.a"]
    words = {"moved cold": "cold_moved", "saved": "stopped"}
    texts = [(case.findtext("system-out") or "kept").partition(" to ")[0] for case in vms]
    said = Counter(words.get(text, text) for text in texts)
    return {"vms": len(vms), **{name: said[name] for name in COUNTED}}


def of_page(doc: dict[str, Any]) -> dict[str, int]:
    found = re.search(r"(\d+) VMs?: (.*?)(?:; |</span>)", page(doc), re.DOTALL)
    assert found is not None
    words = {"moved cold": "cold_moved", "off before": "off"}
    parts = [part.split(" ", 1) for part in found[2].split(", ")[:5]]
    return {"vms": int(found[1]), **{words.get(name.strip(), name.strip()): int(number) for number, name in parts}}


def of_textfile(doc: dict[str, Any]) -> dict[str, int]:
    found = dict(re.findall(r'virtops_roll_vms{verdict="(\w+)"} (\d+)', text(doc)))
    numbers = {name: int(number) for name, number in found.items()}
    return {"vms": sum(numbers.values()), **numbers}


def test_the_figures_of_a_host_add_up_to_its_vms_and_are_the_same_everywhere() -> None:
    _made, outcome = drained()
    vms = rows(outcome.record, outcome.observation)
    tallied = tally(vms)
    assert {name: tallied[name] for name in EXPECTED} == EXPECTED
    assert sum(tallied[name] for name in COUNTED) == tallied["vms"] == len(vms)
    roll = roll_of(tallied)
    doc = report.with_roll(report.empty(), roll.to_dict(), NOW)
    doc = report.with_drain(doc, "a", {"vms": vms, "phase": "Blocked"}, [], NOW)
    told = notifications.of_host(roll, "a")
    everywhere = {
        "table": of_table(roll),
        "report": doc["totals"],
        "host": doc["hosts"][0]["tally"],
        "page": of_page(doc),
        "junit": of_junit(doc),
        "roll's set_stats": notifications.of_roll(roll.to_dict())["tally"],
        "drain's set_stats": notifications.of_drains(["a"], {"a": {"vms": vms}})["tally"],
        "textfile": of_textfile(doc),
        "event": told["tally"],
    }
    for where, found in everywhere.items():
        assert {name: found.get(name) for name in EXPECTED} == EXPECTED, where


def test_an_outage_is_what_the_guest_felt_whatever_its_way() -> None:
    """A cold move from the request to stop it, a stop until it runs here again; a drain that only asked has none."""
    made, outcome = drained()
    felt = {row["name"]: row["outage_ms"] for row in rows(outcome.record, outcome.observation)}
    assert felt["vm2"] >= 1000 and felt["vm3"] is felt["vm4"] is felt["vm5"] is felt["vm7"] is None
    made.clock += 3600
    back = run(made, replace(ALLOWED, rules=RULES), intent="active", name="back")
    felt = {row["name"]: row["outage_ms"] for row in rows(back.record, back.observation)}
    assert felt["vm3"] >= 3_600_000 and felt["vm4"] >= 3_600_000 and felt["vm7"] is None
    assert tally(rows(back.record, back.observation))["outage_ms"] >= 3_600_000


@pytest.mark.parametrize("again", [{"vms": 0}, {}])
def test_a_host_that_was_installed_anew_keeps_the_figures_of_its_drain(again: dict[str, int]) -> None:
    assert renewed({"vms": 2, "moved": 2}, again) == {"vms": 2, "moved": 2}
    assert renewed({"vms": 2, "moved": 2}, {"vms": 3, "moved": 1, "kept": 2})["moved"] == 1


def test_a_result_and_the_report_say_which_row_judged_each_vm() -> None:
    """The row of the verdict table, and from what was read."""
    _made, outcome = drained()
    vms = rows(outcome.record, outcome.observation, outcome.decision.judged)
    judged = {row["name"]: row["judged"] for row in vms}
    assert judged["vm1"] == "arrived (here absent, elsewhere running, job none, record nothing)"
    names = {row.name for row in ROWS}
    assert {text.split(" (")[0] for text in judged.values()} <= names
    doc = report.with_roll(report.empty(), roll_of(tally(vms)).to_dict(), NOW)
    doc = report.with_drain(doc, "a", {"vms": vms, "phase": "Blocked"}, [], NOW)
    assert {vm["name"]: vm["judged"] for vm in doc["hosts"][0]["vms"]} == judged
