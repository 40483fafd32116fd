"""The report of a roll: what stands in it, and whether its page can be read, on a phone and in the dark."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.tally import tally, undone
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import report, status
from ansible_collections.virtops.maintenance.plugins.plugin_utils._junit import junit
from ansible_collections.virtops.maintenance.plugins.plugin_utils._page import page
from ansible_collections.virtops.maintenance.plugins.plugin_utils._report import Report
from ansible_collections.virtops.maintenance.tests.unit.plugins.plugin_utils.roll_reports import (
    ODD,
    at,
    blocked,
    entry,
    failed_roll,
    moved,
    roll,
)

CHROMIUM = shutil.which("chromium")


def test_it_counts_what_the_roll_did() -> None:
    doc = failed_roll()
    assert (doc["schema"], doc["outcome"]) == (report.SCHEMA, "failed")
    assert doc["totals"] == {
        "hosts": 4,
        "done": 2,
        "failed": 1,
        "vms": 19,
        "moved": 17,
        "cold_moved": 0,
        "stopped": 0,
        "off": 0,
        "kept": 2,
        "outage_ms": 133,
        "retries": 2,
        "seconds": 700,
    }
    host = doc["hosts"][0]
    assert [one["stage"] for one in host["stages"]] == ["draining", "at work", "rebooting", "checking", "done"]
    vm = {vm["name"]: vm for vm in host["vms"]}
    assert vm["web-0-1"]["predicted"] == {"target": "host-d", "seconds": 8.1}
    assert vm["web-0-0"]["after"] == "left on host-d" and host["certificate"]["node"] == "host-a"


@pytest.mark.parametrize(
    ("state", "stage", "outcome"),
    [
        ("running", "draining", "running"),
        ("running", "failed", "failed"),
        ("stopped", "failed", "failed"),
        ("stopped", "waiting", "stopped"),
        ("paused", "waiting", "paused"),
        ("aborting", "draining", "aborted"),
        ("aborted", "waiting", "aborted"),
        ("ended", "done", "done"),
    ],
)
def test_no_outcome_hides_a_failure(state: str, stage: str, outcome: str) -> None:
    doc = report.with_roll(report.empty(), roll(state, entry("host-a", stage, 5)), at(9))
    assert doc["outcome"] == outcome
    found = junit(doc)
    assert ("<failure" in found) is (stage not in ("done", "waiting"))
    assert ("<skipped" in found) is (stage == "waiting")


def test_a_vm_that_is_not_back_is_a_failure_of_its_host() -> None:
    why = "web-1 is not back on host-a: NoTarget: it is full"
    doc = report.with_roll(report.empty(), roll("stopped", entry("host-a", "done", 5, message=why)), at(9))
    drained = {"vms": [moved("web-1", 1, 2)], "phase": "Drained"}
    doc = report.with_drain(doc, "host-a", drained, [], at(9))
    stays = moved("web-1", 20, 1, verdict="blocked", reason="NoTarget", at="host-d")
    doc = report.with_moved_back(doc, "host-a", {"vms": [stays]}, at(30))
    assert doc["outcome"] == "failed"
    assert junit(doc).count("<failure") == 1 and why in junit(doc)
    assert "not back</span>" in page(doc) and "not moved back to host-a: NoTarget" in page(doc)


def test_a_host_that_an_abort_gave_back_has_what_its_drain_had_done_by_then() -> None:
    """Its drain was cut off and told nothing; that it was not begun is said of the other one alone."""
    begun = entry("host-a", "draining", 5, begun=at(5))
    doc = report.with_roll(report.empty(), roll("running", begun, entry("host-b", "waiting", 0)), at(9))
    vms = [moved("web-1", 6, 9), moved("off", 6, 0, verdict="restored", outage_ms=4000), blocked("gpu")]
    outcomes = [{"name": "off", "at": "host-a", "outcome": "started", "message": "started again on host-a"}]
    restored = {"phase": "Active", "vms": vms, "outcomes": outcomes}
    given_back = entry("host-a", "given back", 65, begun=at(5), tally=tally(undone(restored)))
    ended = roll("aborted", given_back, entry("host-b", "waiting", 0))
    doc = report.with_restore(report.with_roll(doc, ended, at(66)), "host-a", restored, at(66))
    totals = {key: doc["totals"][key] for key in ("vms", "moved", "stopped", "kept", "outage_ms", "seconds")}
    assert totals == {"vms": 3, "moved": 1, "stopped": 1, "kept": 1, "outage_ms": 4000, "seconds": 65}
    assert [vm["verdict"] for vm in doc["hosts"][0]["vms"]] == ["moved", "stopped", "blocked"]
    text, cases = page(doc), junit(doc)
    assert text.count("It was not begun.") == 1 and text.count(">waiting<") == 0
    assert text.count(">given back</span>") == 1 == cases.count("given back before its work was done")
    assert cases.count("It was not begun") == 1
    told = status.aborted(roll("aborting", begun), ["host-a"], {"host-a": restored})["stats"]["tally"]
    assert told == doc["hosts"][0]["tally"]


def test_a_vm_in_post_copy_is_on_two_hosts_and_needs_attention() -> None:
    doc = report.with_roll(report.empty(), roll("running", entry("host-a", "draining", 5)), at(9))
    half = moved("web-1", 1, 2, verdict="blocked", mode="PostCopy", reason="DeadlineExceeded")
    doc = report.with_drain(doc, "host-a", {"vms": [half], "phase": "Blocked"}, [], at(9))
    assert "web-1 on host-a and host-d" in page(doc) and "so touch neither until it has moved" in page(doc)
    assert doc["hosts"][0]["vms"][0]["mode"] == "PostCopy"
    doc = report.with_drain(
        doc, "host-a", {"vms": [{**half, "reason": "Irrecoverable"}], "phase": "Blocked"}, [], at(9)
    )
    assert "touch neither" not in page(doc)


def test_a_roll_that_was_refused_is_not_green_and_says_why() -> None:
    ended = {**roll("refused", entry("host-a", "waiting", 0)), "paused": "web-1 cannot leave host-a"}
    doc = report.with_roll(report.empty(), ended, at(9))
    assert ET.fromstring(junit(doc)).get("failures") == "1" and "web-1 cannot leave host-a" in junit(doc)
    assert '<p class="refused">web-1 cannot leave host-a</p>' in page(doc) and "It was not begun." in page(doc)


def test_what_moved_from_a_host_that_was_installed_anew_in_its_work_stays_in_the_report() -> None:
    doc = report.with_roll(report.empty(), roll("running", entry("host-a", "at work", 5)), at(9))
    doc = report.with_drain(
        doc, "host-a", {"vms": [moved("web-1", 1, 2), blocked("gpu")], "phase": "Blocked"}, [], at(9)
    )
    doc = report.with_drain(doc, "host-a", {"vms": [], "phase": "Drained"}, [], at(30))
    assert [vm["name"] for vm in doc["hosts"][0]["vms"]] == ["web-1"]


def test_a_case_for_each_host_and_vm() -> None:
    root = ET.fromstring(junit(failed_roll()))
    cases = {(case.get("classname"), case.get("name")): case for case in root.iter("testcase")}
    assert len(cases) == 4 + 19 == int(root.get("tests", ""))
    failed = {name for (_class, name), case in cases.items() if case.find("failure") is not None}
    assert failed == {"host-c", "gpu-1", "gpu-2"} and root.get("failures") == "3"
    assert cases[("host", "host-d")].find("skipped") is not None
    assert ("vm.host-a", ODD) in cases
    why = cases[("vm.host-c", "gpu-1")].find("failure")
    assert why is not None and why.get("type") == "StopNotAllowed" and "drain_allow_stop" in str(why.text)


def test_what_junit_says_of_a_vm_are_words_and_sentences() -> None:
    """It was "cold_moved to n1", and a message without its full stop ran into the remedy."""
    doc = report.with_roll(report.empty(), roll("running", entry("host-a", "draining", 5)), at(9))
    cold = moved("web-1", 1, 2, verdict="cold_moved", at="host-d")
    told = {**blocked("gpu"), "message": "no space left", "remedy": "Make room."}
    text = junit(report.with_drain(doc, "host-a", {"vms": [cold, told], "phase": "Blocked"}, [], at(9)))
    assert "<system-out>moved cold to host-d<" in text and ">no space left. Make room.<" in text, text


def test_the_page_is_one_file_and_a_name_is_no_markup() -> None:
    text = page(failed_roll())
    assert "<script" not in text and "alert(1)" in text
    assert not re.search(r"(src|href)=.(?!data:)|url[(]|@import", text)
    for word in ("StopNotAllowed", "Allow it with drain_allow_stop", "the plan said host-d in 8.1 s", "2 attempts"):
        assert word in text, word
    assert text == page(json.loads(json.dumps(failed_roll()))), "all comes from the JSON"


def test_the_page_tells_what_its_time_line_has_and_its_times_do_not_count() -> None:
    """6 min 27 s stood beside a time line of 7 min 15 s, without a word of the 48 s in which nobody worked on it."""
    host = entry("host-a", "done", 200, begun=at(5), idle=48, tally={"vms": 1, "cold_moved": 1})
    doc = report.with_roll(report.empty(), {**roll("ended", host), "idle": 48}, at(200))
    text = " ".join(re.sub("<[^>]*>", "", page(doc)).split())
    assert "2 min 32 sin all, not counted: 48 s until it was resumed" in text, text
    assert "done, 2 min 27 s (not counted: 48 s until it was resumed)" in text, text
    assert "1 VM: 1 moved cold; the host took 2 min 27 s" in text and "1VMs, counted per host: 1 moved cold" in text
    assert "until it was resumed" not in page(failed_roll())
    assert "a VM migrates" not in text and "a VM migrates" in page(failed_roll())


def test_what_the_plan_said_of_a_stop_is_not_compared_with_a_migration() -> None:
    doc = report.with_roll(report.empty(), roll("running", entry("host-a", "draining", 5)), at(9))
    plan = [{"name": "db", "predicted_verdict": "stopped", "predicted_target": "", "predicted_duration": 10.0}]
    doc = report.with_drain(doc, "host-a", {"vms": [moved("db", 1, 0, verdict="stopped")]}, plan, at(9))
    assert "the plan said" not in page(doc), "it has no duration that this would be compared with"


def test_figures_for_prometheus_are_renewed_with_the_report(tmp_path: Path) -> None:
    textfile = tmp_path / "roll.prom"
    written = Report(str(tmp_path / "report"), "", str(textfile))
    written.roll({"roll": roll("running", entry("host-a", "draining", 5), entry("host-b", "waiting", 0))})
    wanted = {"running": 1, "hosts": 2, "hosts_done": 0, "hosts_out": 1, "hosts_failed": 0}
    assert figures(textfile) == wanted
    written.drain("host-a", {"vms": [blocked("gpu")], "phase": "Blocked"})
    assert 'virtops_roll_vms{verdict="kept"} 1' in textfile.read_text()
    before = time.time()
    written.drain("host-a", {"vms": [], "certificate": {"node": "host-a"}, "phase": "Drained"})
    assert int(before) <= figures(textfile, True)["last_certificate_timestamp_seconds"] <= time.time()
    written.drain("host-a", {"vms": [blocked("gpu")], "phase": "Blocked"})
    assert "last_certificate_timestamp_seconds" in figures(textfile, True), "the last one, not the last drain's"
    written.roll({"roll": roll("stopped", entry("host-a", "failed", 9), entry("host-b", "waiting", 0))})
    assert figures(textfile) == {**wanted, "running": 0, "hosts_failed": 1}
    assert 'virtops_roll_info{roll="7f3a1c",outcome="failed"} 1' in textfile.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report", "roll.prom"]


def figures(path: Path, times: bool = False) -> dict[str, float]:
    """Its samples, those of times or the others."""
    found = dict(line.split(" ") for line in path.read_text().splitlines() if not line.startswith("#"))
    values = {name.removeprefix("virtops_roll_"): float(value) for name, value in found.items() if "{" not in name}
    return {name: value for name, value in values.items() if name.endswith("_seconds") is times}


def test_another_roll_begins_a_new_report(tmp_path: Path) -> None:
    """And what is no report is none."""
    folder = tmp_path / "new" / "report"
    written = Report(str(folder), "")
    written.roll({"roll": roll("running", entry("host-a", "draining", 5))})
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "junit.xml", "report.html", "report.json"]
    (folder / "report.json").write_text("[]")
    written.drain("host-a", {"vms": []})
    assert (folder / "report.json").read_text() == "[]"
    written.roll({"roll": {**roll("running", entry("host-b", "draining", 5)), "id": "other"}})
    doc = json.loads((folder / "report.json").read_text())
    assert [host["name"] for host in doc["hosts"]] == ["host-b"]
    Report("", "").roll({"roll": roll("running", entry("host-a", "draining", 5))})


def test_a_report_that_cannot_be_written_stops_no_roll(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    Report(str(tmp_path / "file"), "").roll({"roll": roll("running", entry("host-a", "draining", 5))})


def test_what_cannot_be_written_is_known_before(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert Report("", "").fault == ""
    assert Report(str(tmp_path / "a" / "b"), "", str(tmp_path / "c" / "roll.prom")).fault == ""
    assert Report(str(tmp_path / "file"), "").fault.startswith("maintenance_report cannot be written: ")
    textfile = str(tmp_path / "file" / "roll.prom")
    assert Report(str(tmp_path), "", textfile).fault.startswith("maintenance_textfile cannot be written: ")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "c", "file"]


# It tells in its title, once it is laid out, whether it is wider than the screen, and whether it is dark.
PROBE = """<script>top.document.title = [document.documentElement.scrollWidth > window.innerWidth,
matchMedia("(prefers-color-scheme: dark)").matches]</script></body>"""


@pytest.mark.full
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_as_wide_as_the_screen_and_has_no_error(tmp_path: Path, width: int, scheme: str) -> None:
    """Headless Chromium has no window below 500 pixels, so the page is in a frame of the width."""
    text = page(failed_roll()).replace('<details class="card"', '<details open class="card"')
    (tmp_path / "page.html").write_text(text.replace("</body>", PROBE))
    frame = f'<iframe src="page.html" width="{width}" height="900" style="border:0"></iframe>'
    (tmp_path / "frame.html").write_text(f"<!doctype html><html><head></head><body>{frame}</body></html>")
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    done = subprocess.run(
        [
            *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"),
            *("--disable-web-security", f"--user-data-dir={tmp_path}/chromium", "--window-size=1400,1000", *dark),
            *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000", "--dump-dom"),
            f"file://{tmp_path}/frame.html",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"<title>false,{str(scheme == 'dark').lower()}</title>" in done.stdout, (
        done.stdout[:600],
        done.stderr[-600:],
    )
    assert "CONSOLE" not in done.stderr, done.stderr
