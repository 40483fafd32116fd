"""The checker on logs made by hand: a log for each verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab import checker

BOOT, OTHER = "aaaaaaaa", "bbbbbbbb"


class Log:
    """Writes a raw log, record by record; time is in milliseconds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: list[str] = []
        self.started: list[str] = []

    def add(self, ms: float, host: str, vm: str, stream: str, text: str, flag: str = "=") -> None:
        self.records.append(f"{int(ms * 1e6) + 10**12} {host} {vm} {stream} 0 {flag}{text}")

    def ticks(self, ms: float, host: str, first: int, last: int, vm: str = "web", boot: str = BOOT) -> float:
        """Ticks first..last, one in 50 ms; returns the time after them."""
        for seq in range(first, last + 1):
            self.add(ms, host, vm, "S", f"T {boot} {seq} ;")
            ms += 50
        return ms

    def check(self, end_ms: float, drained: tuple[str, ...] = (), beats: int | None = None) -> dict:
        """`beats`: how many heartbeats the collector had, one a second before the end."""
        if beats is None:
            beats = int(end_ms / 1000) + 1
        for beat in range(beats):
            self.add(end_ms - beat * 1000, "-", "-", "C", "alive")
        (self.folder / "ticks.log").write_text("\n".join(self.records) + "\n")
        lines = [json.dumps({"event": "start", "vm": vm, "host": "host-a"}) for vm in self.started]
        (self.folder / "manifest.jsonl").write_text("".join(line + "\n" for line in lines))
        return checker.check(self.folder, set(drained))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def verdict(report: dict, vm: str = "web") -> str:
    return {guest["name"]: guest["verdict"] for guest in report["guests"]}[vm]


def only(report: dict) -> dict:
    (guest,) = report["guests"]
    return guest


def test_live_through_a_migration(log: Log) -> None:
    log.ticks(log.ticks(0, "host-a", 1, 40) + 300, "host-b", 41, 100)
    report = log.check(5400)
    assert verdict(report) == "live"
    assert report["totals"]["live"] == 1
    assert only(report)["hosts"] == ["host-a", "host-b"]
    assert only(report)["longest_pause_ms"] == 350


@pytest.mark.parametrize(("beats", "found"), [(3, "live"), (15, "paused")])
def test_a_guest_is_silent_by_what_the_collector_saw(log: Log, beats: int, found: str) -> None:
    """Half a minute in which nothing on the machine got to run, and half a minute of silence."""
    log.add(0, "host-a", "web", "Q", "there")
    log.ticks(0, "host-a", 1, 20)
    assert verdict(log.check(30000, beats=beats)) == found


def test_what_is_read_a_round_late_is_no_second_life(log: Log) -> None:
    """The collector lost the processor for two seconds between host-a's file and host-b's."""
    now = log.ticks(0, "host-a", 1, 20)
    for host, ms, seqs in (("host-b", now, (22, 23)), ("host-a", now + 2000, (21,))):
        for seq in seqs:
            log.add(ms, host, "web", "S", f"T {BOOT} {seq} ;")
    report = log.check(log.ticks(now + 2000, "host-b", 24, 60))
    assert (verdict(report), only(report)["reasons"]) == ("live", [])


def test_live_back_home(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    now = log.ticks(now, "host-b", 21, 40)
    report = log.check(log.ticks(now, "host-a", 41, 60), drained=("host-a", "host-b"))
    assert verdict(report) == "live"


def test_a_line_torn_by_the_move_is_no_gap(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "S", f"T {BOOT} 2", "+")
    log.add(now + 100, "host-b", "web", "S", "1 ;")
    report = log.check(log.ticks(now + 150, "host-b", 22, 60))
    assert verdict(report) == "live"
    assert only(report)["torn"] == 1


def test_a_piece_is_not_joined_with_what_comes_after_a_return(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "S", f"T {BOOT} 2", "+")
    log.add(now + 50, "host-b", "web", "S", "1 ;")
    now = log.ticks(now + 100, "host-b", 22, 30)
    log.add(now, "host-b", "web", "S", f"T {BOOT} ", "+")
    log.add(now + 50, "host-a", "web", "S", "31 ;")
    report = log.check(log.ticks(now + 100, "host-a", 32, 60))
    assert verdict(report) == "live"
    assert only(report)["torn"] == 2


def test_a_line_in_pieces_on_one_host_is_whole(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "S", f"T {BOOT}", "+")
    log.add(now + 250, "host-a", "web", "S", " 2", "+")
    log.add(now + 500, "host-a", "web", "S", "1 ;")
    report = log.check(log.ticks(now + 550, "host-a", 22, 60))
    assert (verdict(report), only(report)["ticks"]) == ("live", 60)


@pytest.mark.parametrize("missing", [1, 2])
def test_missing_ticks_are_a_gap(log: Log, missing: int) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    report = log.check(log.ticks(now, "host-b", 21 + missing, 60))
    assert verdict(report) == "gap"
    assert report["totals"]["live"] == 0


def test_stopped_by_the_power_button(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "S", f"DOWN {BOOT} 20 acpi")
    report = log.check(20000)
    assert verdict(report) == "stopped"
    assert not only(report)["running_again"]


def test_stopped_and_running_again(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "S", f"DOWN {BOOT} 20 acpi")
    report = log.check(log.ticks(now + 9000, "host-b", 1, 50, boot=OTHER))
    assert verdict(report) == "stopped"
    assert only(report)["running_again"]
    assert report["totals"]["running_again"] == 1


def test_stopped_a_moment_ago(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "S", f"DOWN {BOOT} 20 acpi")
    assert verdict(log.check(now + 100)) == "stopped"


def test_vanished_a_moment_ago(log: Log) -> None:
    log.add(0, "host-a", "web", "Q", "there")
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "Q", "gone")
    assert verdict(log.check(now + 100)) == "lost"


def test_an_announced_stop(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "-", "web", "A", "stop for the test")
    assert verdict(log.check(20000)) == "stopped"


def test_one_announcement_excuses_one_stop(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "-", "web", "A", "stop for the test")
    now = log.ticks(now + 1000, "host-a", 1, 20, boot=OTHER)
    assert verdict(log.check(20000)) == "lost"


def test_saved_and_restored(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now + 10, "host-a", "web", "V", "there")
    assert verdict(log.check(20000)) == "stopped"
    log.records.pop()
    log.add(25000, "host-a", "web", "V", "gone")
    report = log.check(log.ticks(25010, "host-a", 21, 60))
    assert (verdict(report), only(report)["longest_pause_ms"]) == ("stopped", 50)
    assert only(report)["running_again"]


def test_blocked(log: Log) -> None:
    end = log.ticks(0, "host-a", 1, 100)
    assert verdict(log.check(end, drained=("host-a",))) == "blocked"
    log.records.pop()
    assert verdict(log.check(end, drained=("host-b",))) == "live"


def test_lost(log: Log) -> None:
    log.ticks(0, "host-a", 1, 20)
    report = log.check(20000)
    assert verdict(report) == "lost"
    assert report["totals"]["lost"] == 1


def test_lost_because_it_never_ticked(log: Log) -> None:
    log.started.append("web")
    assert verdict(log.check(1000)) == "lost"


def test_lost_because_it_was_restarted_by_surprise(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    report = log.check(log.ticks(now + 5000, "host-b", 1, 100, boot=OTHER))
    assert verdict(report) == "lost"


def test_lost_with_its_host(log: Log) -> None:
    log.add(0, "host-a", "web", "Q", "there")
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "-", "H", "kill")
    assert verdict(log.check(20000)) == "lost"


def test_paused_is_not_lost(log: Log) -> None:
    log.add(0, "host-a", "web", "Q", "there")
    log.ticks(0, "host-a", 1, 20)
    assert verdict(log.check(20000)) == "paused"


def test_a_doubled_tick_is_twice(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-b", "web", "S", f"T {BOOT} 20 ;")
    report = log.check(log.ticks(now + 50, "host-b", 21, 60))
    assert verdict(report) == "twice"
    assert report["totals"]["twice"] == 1


def test_both_sides_run_on(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.ticks(now, "host-a", 21, 60)
    log.ticks(now, "host-b", 21, 60)
    assert verdict(log.check(now + 2500)) == "twice"


def test_later_ticks_seen_earlier_elsewhere_are_twice(log: Log) -> None:
    log.ticks(0, "host-a", 1, 20)
    log.ticks(100, "host-b", 21, 60)
    assert verdict(log.check(2500)) == "twice"


def test_two_boots_at_once_are_twice(log: Log) -> None:
    log.ticks(0, "host-a", 1, 60)
    log.ticks(1000, "host-b", 1, 60, boot=OTHER)
    assert verdict(log.check(4000)) == "twice"


def test_an_old_state_run_again_is_twice(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 40)
    assert verdict(log.check(log.ticks(now, "host-a", 21, 60))) == "twice"


def test_a_panic_is_named_and_not_lost(log: Log) -> None:
    log.add(0, "host-a", "web", "Q", "there")
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "K", "[ 1.0] Kernel panic - not syncing: idle task")
    report = log.check(20000)
    assert verdict(report) == "panic"
    assert (report["totals"]["lost"], report["totals"]["panics"]) == (0, 1)


def test_a_panic_hides_no_loss(log: Log) -> None:
    log.add(0, "host-a", "web", "Q", "there")
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "K", "[ 1.0] Kernel panic - not syncing: idle task")
    log.add(now + 10, "host-a", "web", "Q", "gone")
    report = log.check(20000)
    assert verdict(report) == "lost"
    assert report["totals"]["panics"] == 1


def test_a_panic_hides_no_second_life(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "K", "[ 1.0] Kernel panic - not syncing: idle task")
    assert verdict(log.check(log.ticks(now, "host-b", 15, 60))) == "twice"


def test_memory_and_disk_errors(log: Log) -> None:
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "S", f"M {BOOT} 20 err fill-page-3 1")
    log.add(now, "host-a", "web", "S", f"D {BOOT} vda err stale")
    totals = log.check(log.ticks(now, "host-a", 21, 60))["totals"]
    assert (totals["memory_errors"], totals["disk_errors"]) == (1, 1)


def test_an_empty_disk_after_a_restart_is_an_error(log: Log) -> None:
    log.add(0, "host-a", "web", "S", f"D {BOOT} vda new 1111 0")
    log.add(500, "host-a", "web", "S", f"D {BOOT} vda ok 40")
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "S", f"DOWN {BOOT} 20 acpi")
    log.add(now + 900, "host-b", "web", "S", f"D {OTHER} vda new 2222 0")
    report = log.check(log.ticks(now + 1000, "host-b", 1, 60, boot=OTHER))
    assert report["totals"]["disk_errors"] == 1


def test_a_disk_that_went_back_is_an_error(log: Log) -> None:
    log.add(0, "host-a", "web", "S", f"D {BOOT} vda new 1111 0")
    log.add(500, "host-a", "web", "S", f"D {BOOT} vda ok 40")
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "host-a", "web", "S", f"DOWN {BOOT} 20 acpi")
    log.add(now + 900, "host-b", "web", "S", f"D {OTHER} vda old 1111 12")
    report = log.check(log.ticks(now + 1000, "host-b", 1, 60, boot=OTHER))
    assert report["totals"]["disk_errors"] == 1


def test_a_guest_made_anew_by_the_lab_has_a_new_disk(log: Log) -> None:
    log.add(0, "host-a", "web", "S", f"D {BOOT} vda new 1111 0")
    now = log.ticks(0, "host-a", 1, 20)
    log.add(now, "-", "web", "A", checker.REMOVED)
    log.add(now + 50, "host-a", "web", "S", f"D {BOOT} vda ok 77")  # said before it is done
    log.add(now + 900, "host-b", "web", "S", f"D {OTHER} vda new 2222 0")
    now = log.ticks(now + 1000, "host-b", 1, 20, boot=OTHER)
    assert log.check(now)["totals"]["disk_errors"] == 0
    log.add(now, "host-b", "web", "S", f"D {OTHER} vda new 3333 0")
    assert log.check(log.ticks(now, "host-b", 21, 60, boot=OTHER))["totals"]["disk_errors"] == 1


def test_the_command_prints_totals_and_fails_on_loss(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.ticks(0, "host-a", 1, 20, vm="gone")
    log.ticks(0, "host-a", 1, 400, vm="fine")
    log.check(20000)
    assert checker.main([str(log.folder)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("gone: lost:")
    assert out[-1] == (
        "check: vms=2 live=1 stopped=0 blocked=0 lost=1 twice=0 disk_errors=0 memory_errors=0 longest_pause_ms=50"
    )
