"""Progress: one line for each change, a heartbeat when nothing changes, nothing else."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do
from ansible_collections.virtops.maintenance.plugins.plugin_utils._lines import in_roll, stamped
from ansible_collections.virtops.maintenance.plugins.plugin_utils._progress import (
    HEARTBEAT_SECONDS,
    SAYS_WHY_AFTER,
    Progress,
    duration,
    heartbeat,
    predicted_lines,
    reached,
    summary,
    vm_line,
    would_not,
)


def vm(**changed: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "uuid": "u1",
        "name": "web-3",
        "verdict": "pending",
        "phase": "Pending",
        "target": "",
        "mode": "",
        "reason": "",
        "message": "",
        "remedy": "",
        "at": "host-a",
        "duration": 0.0,
        "outage_ms": None,
    }
    return row | changed


def said(lines: list[str]) -> list[str]:
    """Without the time."""
    return [line[9:] for line in lines]


def result(*vms: dict[str, Any]) -> dict[str, Any]:
    return {
        "node": "host-a",
        "phase": "Draining",
        "vms": list(vms),
        "counts": {"pending": len(vms), "total": len(vms)},
        "findings": [],
    }


RUNNING = vm(
    phase="Running",
    target="host-b",
    mode="PreCopy",
    progress={"percent": 63, "processed_mib": 410.0, "total_mib": 650.0, "rate_mib_s": 88.0, "eta": 4.0},
)


def test_a_running_migration_in_one_line() -> None:
    expected = "web-3 -> host-b migration Running 63 %, 410/650 MiB, 88 MiB/s, 4 s left"
    assert vm_line(RUNNING) == expected
    assert (
        vm_line({**RUNNING, "mode": "PostCopy"})
        == f"{expected}, in post-copy: its memory is on both hosts, so touch neither"
    )


@pytest.mark.parametrize(
    ("planned", "said_of_it"), [({"u1": "host-c"}, ", the plan had host-c"), ({"u1": "host-b"}, ""), ({}, "")]
)
def test_a_vm_that_went_elsewhere_than_the_plan_had_it_says_so(planned: dict[str, str], said_of_it: str) -> None:
    lines: list[str] = []
    progress = Progress(lines.append, lambda: 0.0, position=lambda: "1/2", planned=planned)
    progress.update(result(vm()))
    progress.update(result(vm(verdict="moved", phase="Succeeded", target="host-b", duration=4.1, outage_ms=9)))
    assert said(lines) == [f"host-a 1/1  web-3 -> host-b moved 4.1 s, pause 9 ms{said_of_it} | roll 1/2"]


def test_what_hinders_the_node_itself_is_told_when_it_is_met_and_once() -> None:
    lines: list[str] = []
    progress = Progress(lines.append, lambda: 0.0)
    hindered = {**result(vm()), "findings": [{"reason": "WebhookUnavailable", "message": "virt-api is away."}]}
    for _slice in range(2):
        progress.update(hindered)
    assert said(lines) == ["host-a 0/1  Draining  1 of 1 VM to go  WebhookUnavailable: virt-api is away."]


def test_one_line_a_change_then_a_heartbeat() -> None:
    lines: list[str] = []
    time = [0.0]
    progress = Progress(lines.append, lambda: time[0])
    progress.update(result(vm()))
    assert lines == []
    progress.update(result(RUNNING))
    assert lines == []
    time[0] = HEARTBEAT_SECONDS
    progress.update(result(RUNNING))
    assert said(lines) == ["host-a 0/1  Draining  1 of 1 VM to go  web-3 63 %"]
    time[0] = SAYS_WHY_AFTER
    progress.update(result(RUNNING))
    assert lines.pop().endswith("web-3 63 %  web-3 has sent nothing for 60 s: see its QEMU's log and virsh domjobinfo")
    # How often KubeVirt had to be woken is told as long as it makes no migration.
    woken = {**result(vm(nudges=2)), "nudges": 2}
    assert heartbeat(woken) == "Draining  1 of 1 VM to go"
    told = heartbeat(result(vm(nudges=2, reason="EvacuationNotStarted", message="Marked.")))
    assert told.endswith("EvacuationNotStarted: Marked.  KubeVirt was reminded of that 2 times")
    progress.update(result(vm(verdict="moved", phase="Succeeded", target="host-b", duration=2.0)))
    assert said(lines)[1] == "host-a 1/1  web-3 -> host-b moved 2.0 s"


def test_a_migration_of_one_vm_says_how_far_it_is() -> None:
    lines: list[str] = []
    progress = Progress(lines.append, lambda: 0.0)
    for one in (RUNNING, RUNNING, vm(verdict="moved", phase="Succeeded", target="host-b")):
        progress.update({**result(one), "vm": "web-3", "ended": "out_of_time", "changed": True})
    assert [line.split("  ")[1].split(" ")[3] for line in said(lines)] == ["migration", "moved"]


def test_the_line_of_a_roll_says_host_vm_and_roll() -> None:
    lines: list[str] = []
    said_of_the_roll = iter(["2/7, ready 21:03", "2/7, was to be ready 21:03"])  # it is asked at each line
    progress = Progress(lines.append, lambda: 0.0, position=lambda: next(said_of_the_roll))
    done = vm(verdict="moved", phase="Succeeded", target="host-c", duration=4.1, outage_ms=133)
    progress.update(result(done, vm(uuid="u2", name="web-4")))
    assert re.match(r"\d\d:\d\d:\d\d host-a ", lines[0])
    progress.update(result(done, vm(uuid="u2", name="web-4", verdict="blocked")))
    assert said(lines) == [
        "host-a 1/2  web-3 -> host-c moved 4.1 s, pause 133 ms | roll 2/7, ready 21:03",
        "host-a 1/2  web-4 blocked | roll 2/7, was to be ready 21:03",
    ]


def test_a_vm_that_is_stopped_and_started_elsewhere_is_told_as_that() -> None:
    """It was "pending, VirtIOFSNotLiveMigratable", and then moved; and to the target of a migration that had failed."""
    why = {"reason": "VirtIOFSNotLiveMigratable", "message": "a share"}
    assert vm_line(vm(way="cold_migrate", **why)) == "web-3 is to be stopped, VirtIOFSNotLiveMigratable: a share"
    assert vm_line(vm(way="cold_migrate", reason="WaitingForSlot", message="all")).startswith("web-3 pending")
    arrived = vm(verdict="cold_moved", target="host-b", at="host-c", outage_ms=21400)
    assert vm_line(arrived) == "web-3 -> host-c moved cold, off for 21 s"
    # What KubeVirt's stamps tell is known to the second only: it was "pause 3000 ms".
    for ms, told in ((3000, "3 s"), (3001, "3001 ms"), (0, "0 ms"), (12_400, "12 s")):
        assert vm_line(vm(verdict="moved", target="host-b", outage_ms=ms)).endswith(f", pause {told}")
    assert vm_line(vm(verdict="moved", at="host-c")) == "web-3 -> host-c moved", "by its owner"
    assert vm_line(vm(verdict="restored", outage_ms=8000)) == "web-3 started again, off for 8 s"
    assert vm_line(vm(verdict="restored", reason="AbortRequested", message="x")).startswith("web-3 stays here, Abort")


def test_what_was_moved_before_this_drain_is_no_news_of_it() -> None:
    """It was printed again, with the time of now."""
    lines: list[str] = []
    progress = Progress(lines.append, lambda: 0.0)
    before = vm(verdict="moved", phase="Succeeded", target="host-c", duration=4.1)
    moves = vm(uuid="u2", name="web-4", verdict="moved", phase="Succeeded", target="host-c", duration=5.0)
    stops = vm(uuid="u3", name="db", verdict="stopped", phase="")
    progress.update({**result(before, moves, stops), "old": {"u1": "moved", "u3": "blocked"}})
    progress.update(result(before, moves, stops))
    # What was blocked before and is stopped now had no line.
    assert said(lines) == ["host-a 3/3  web-4 -> host-c moved 5.0 s", "host-a 3/3  db stopped"]


def test_the_line_of_a_roll_says_when_it_is_ready_in_the_time_of_the_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert in_roll({"position": "2/7", "ready": "2086-07-01T19:03:10Z"}) == "2/7, ready 21:03"
        assert in_roll({"position": "2/7", "ready": "2026-07-01T19:03:10Z"}) == "2/7, was to be ready 21:03"
        assert stamped("begun 2026-07-01T19:03:10Z").endswith(" begun 2026-07-01 21:03:10"), "one clock in a line"
        assert in_roll({"position": "2/7", "ready": ""}) == in_roll({"position": "2/7"}) == "2/7"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_summary_names_each_vm_in_the_way_with_its_remedy() -> None:
    blocked = vm(verdict="blocked", reason="StopNotAllowed", message="No.", remedy="Allow it.")
    text = summary(result(blocked, vm(uuid="u2", name="ok", verdict="moved")), "Drained")
    assert "web-3 (blocked, on host-a): StopNotAllowed: No. Allow it." in text
    assert "ok" not in text.replace("host-a is", "")


LATE = vm(
    name="db",
    verdict="moved",
    phase="Succeeded",
    target="host-b",
    at="host-b",
    abort_status="Failed",
    reason="TooLateToAbort",
    message="Not aborted: it runs on host-b.",
    remedy="Let it end.",
)


def test_an_abort_that_came_too_late_names_the_vm_and_where_it_runs() -> None:
    refused = {**result(LATE), "vm": "db", "phase": "Blocked", "changed": True, "ended": "final"}
    assert summary(refused, "Active").splitlines() == [
        "VM db is Blocked, not Active.",
        "db (moved, on host-b): TooLateToAbort: Not aborted: it runs on host-b. Let it end.",
    ]
    # KubeVirt's answer has it as a finding of the migration too: it is said once.
    twice = {**refused, "findings": [{k: LATE[k] for k in ("reason", "message", "remedy")}]}
    assert summary(twice, "Active") == summary(refused, "Active")
    lines: list[str] = []
    Progress(lines.append, lambda: 0.0, old_news=("moved",)).update(refused)
    # So is a move of others of which something is left here to be done: a restore said nothing of it.
    left = vm(uuid="u2", name="app", verdict="moved", target="host-b", reason="DefinitionLeft", message="Others did.")
    found = {**result(vm(verdict="moved", target="host-b"), left), "changed": True, "ended": "final"}
    told: list[str] = []
    Progress(told.append, lambda: 0.0, old_news=("moved",)).update(found)
    assert said(told) == ["host-a 2/2  app -> host-b moved, DefinitionLeft: Others did."]
    assert said(lines) == ["host-a 1/1  db -> host-b moved, TooLateToAbort: Not aborted: it runs on host-b."]


def test_check_mode_of_an_abort_says_that_it_comes_too_late() -> None:
    moving = {**LATE, "verdict": "pending", "at": "host-a"}
    found = {**result(moving), "vm": "db", "phase": "Restoring"}
    assert would_not(found, "Active") == ("VM db would not become Active because of db (TooLateToAbort).")
    assert would_not({**found, "vms": [vm()]}, "Active") == ""


def test_a_restore_is_silent_about_what_was_never_touched() -> None:
    lines: list[str] = []
    progress = Progress(lines.append, lambda: 0.0)
    rows = [
        vm(uuid="u1", name="left", verdict="restored", way="block"),
        vm(uuid="u2", name="tried", verdict="restored", way="migrate"),
        vm(uuid="u3", name="aborted", verdict="restored", way="migrate", abort_status="Succeeded"),
        vm(uuid="u4", name="started", verdict="restored", way="shutdown"),
        vm(uuid="u5", name="asked", verdict="restored", way="external"),
        vm(uuid="u6", name="odd", verdict="restored", way="block", reason="CannotStart"),
    ]
    progress.update({**result(*rows), "changed": True, "ended": "final"})
    assert [line.split()[2] for line in said(lines)] == ["aborted", "started", "asked", "odd"]


def test_every_action_has_words_in_check_mode() -> None:
    acts = [{"do": do.value, "vm": "web", "target": ""} for do in Do]
    lines = predicted_lines({**result(), "planned": acts})
    assert [line for line in lines if not line.startswith("web  would be ")] == [
        line for line in lines if line.startswith(("web  would have its ", "web  would get its "))
    ]
    assert not [line for line in lines if "_" in line]


def test_what_is_left_is_what_the_count_lacks_and_what_the_policy_keeps_is_not_left() -> None:
    kinds = ("moved", "pending", "blocked", "skipped", "off")
    vms = [vm(uuid=verdict, name=verdict, verdict=verdict) for verdict in kinds]
    counts = {**dict.fromkeys(kinds, 1), "total": 5}
    lines: list[str] = []
    progress = Progress(lines.append, iter(range(0, 400, 20)).__next__)
    found = {**result(*vms), "counts": counts}
    progress.update(found)
    progress.update(found)
    assert said(lines)[-1].startswith("host-a 3/5  Draining  2 of 5 VMs to go (1 blocked)  ")
    stay = {"phase": "Draining", "node": "host-a", "counts": {"skipped": 1, "moved": 4, "total": 5}}
    assert heartbeat(stay) == "Draining  1 VM stays by policy"


def test_a_host_without_vms_has_none_left() -> None:
    assert heartbeat({**result(), "phase": "Drained"}) == "Drained  no VMs left"
    arrives = {"reason": "InboundMigration", "message": "web-1 arrives from n1", "remedy": ""}
    empty = {**result(), "phase": "Draining", "findings": [arrives]}
    assert heartbeat(empty) == "Draining  no VMs left  InboundMigration: web-1 arrives from n1"


def test_of_a_host_that_is_active_nothing_is_left() -> None:
    there = vm(verdict="restored")
    counted = {"pending": 0, "total": 1}
    assert heartbeat({**result(there), "phase": "Active", "counts": counted}) == "Active"


def test_nothing_waits_without_saying_why() -> None:
    """Also where it was so at the first look: a queue by the heartbeat, all else by its line."""
    slot = {"reason": "WaitingForSlot", "message": "2 of 2 are taken."}
    queue = [vm(uuid=f"q{n}", name=f"q{n}", **slot) for n in range(3)]
    full = vm(uuid="f", name="full", reason="QuotaExceeded", message="pods 1 of 1.")
    lines: list[str] = []
    time = [0.0]
    progress = Progress(lines.append, lambda: time[0])
    progress.update(result(*queue, full))
    assert said(lines) == ["host-a 0/4  full pending, QuotaExceeded: pods 1 of 1."]
    time[0] = HEARTBEAT_SECONDS
    progress.update(result(*queue, full))
    assert said(lines)[1] == (
        "host-a 0/4  Draining  4 of 4 VMs to go  3 VMs: WaitingForSlot: 2 of 2 are taken."
        "  full: QuotaExceeded: pods 1 of 1."
    )


def test_a_phase_that_lasts_a_minute_says_for_what_it_waits() -> None:
    """Also where nothing is reported to be in the way, and no percentage: at the first heartbeat not yet."""
    clock, lines = [0.0], []
    progress = Progress(lines.append, lambda: clock[0])
    moves = vm(phase="Running", start="2026-11-27T14:43:22Z", progress=None)
    for now in (0.0, 20.0, 40.0, 62.0, 80.0):
        clock[0] = now
        progress.update(result(moves))
    assert [", begun " in line for line in lines] == [True] * 4
    clock[0] = 100.0
    progress.update(result(moves, vm(uuid="u2", name="db"), vm(uuid="u3", name="old", way="shutdown")))
    assert lines[-1].endswith("  db is queued  old is to shut down")
    clock[0] = 160.0
    progress.update({**result(), "phase": "Restoring"})
    clock[0] = 230.0
    progress.update({**result(), "phase": "Restoring"})
    assert "nothing known is in the way" in lines[-1]


def test_what_is_not_measured_is_not_called_nothing() -> None:
    """KubeVirt does not tell how much of a VM has moved."""
    unknown = dict.fromkeys(RUNNING["progress"], 0) | {"eta": None}
    there = RUNNING | {"progress": unknown}
    assert vm_line(there) == "web-3 -> host-b migration Running"
    assert heartbeat(result(there)) == "Draining  1 of 1 VM to go"


def test_no_duration_is_promised_for_what_waits_for_somebody() -> None:
    waits = vm(reason="WaitingForSlot", message="host-b holds the slots.")
    found = {**result(waits), "planned": [], "predicted_duration": 0.0, "would_stay": []}
    found["predicted_without"] = ["web-3"]
    assert duration(found) == "host-a  no duration: it depends on web-3"
    more = {**found, "planned": [{"do": "migrate", "vm": "db", "target": "host-b"}]}
    assert duration(more | {"predicted_duration": 8.2}) == ("host-a  about 8 s in total, without web-3")
    assert duration({**found, "predicted_without": []}) == "host-a  about 0 s in total"
    marked = {**found, "planned": [{"do": "mark", "vm": "web-3", "target": ""}, *more["planned"]]}  # External
    assert duration(marked) == "host-a  about 0 s in total, without web-3"


def test_one_missing_right_is_told_once_for_all_vms() -> None:
    """In the lines as it comes up, and in the message at the end."""
    denied = {"verdict": "blocked", "reason": "Forbidden", "message": "Not allowed: delete x."}
    rows = [vm(uuid=f"u{n}", name=f"web-{n}", remedy="Grant it.", **denied) for n in range(5)]
    finding = {"reason": "Forbidden", "message": "Not allowed: delete x.", "remedy": "Grant it."}
    found = {**result(*rows), "phase": "Blocked", "findings": [finding]}
    lines: list[str] = []
    Progress(lines.append, lambda: 0.0).update({**found, "changed": True, "ended": "final"})
    names = "web-0, web-1, web-2 and 2 more"
    assert said(lines) == [f"host-a 0/5  {names} blocked, Forbidden: Not allowed: delete x."]
    assert summary(found, "Drained").split("\n")[1:] == [
        f"{names} (blocked, on host-a): Forbidden: Not allowed: delete x. Grant it."
    ]


def test_a_host_that_was_not_read_yet_is_not_said_to_have_no_vms() -> None:
    waits = {"node": "n2", "phase": "Draining", "vms": [], "counts": {"total": 0}, "waits_for": "It waits for a Lease."}
    assert heartbeat(waits) == "Draining  It waits for a Lease."
    lines: list[str] = []
    progress = Progress(lines.append, iter(range(0, 200, 20)).__next__)
    progress.update({**waits, "changed": False})
    assert said(lines) == ["n2 -  Draining  It waits for a Lease."]
    assert heartbeat({**waits, "waits_for": ""}) == "Draining  no VMs left"


def test_a_host_that_is_as_it_was_wanted_is_told_in_a_line() -> None:
    counts = {"moved": 3, "cold_moved": 1, "blocked": 0, "total": 4}
    vms = [vm(uuid=str(n), verdict="moved") for n in range(3)] + [vm(verdict="cold_moved")]
    assert reached({"node": "a", "phase": "Drained", "vms": vms}) == "a is drained: 3 moved, 1 moved cold"
    assert reached({"node": "a", "phase": "Active", "counts": counts}) == "a is in service again"
    assert reached({"node": "a", "phase": "Cordoned", "counts": {}}) == "a is cordoned"


def test_a_host_that_others_keep_closed_is_not_told_to_be_in_service() -> None:
    found = {"node": "n4", "phase": "Active", "counts": {}, "closed": ["it is still cordoned, by others"]}
    assert reached(found) == "n4 is restored, but it takes no VMs: it is still cordoned, by others"
