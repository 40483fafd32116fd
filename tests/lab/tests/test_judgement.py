"""What the demo and the kill test let pass, on logs made by hand: no stop by surprise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cancel import hosts
from demo import report

from .test_checker import BOOT, OTHER, Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def restarted(log: Log, vm: str) -> dict[str, Any]:
    """It is shut down in good order on host-a, and started anew on host-b."""
    now = log.ticks(0, "host-a", 1, 20, vm=vm)
    log.add(now, "host-a", vm, "S", f"DOWN {BOOT} 20 acpi")
    return log.check(log.ticks(now + 1000, "host-b", 1, 60, vm=vm, boot=OTHER))


def moved(log: Log, vm: str) -> dict[str, Any]:
    return log.check(log.ticks(log.ticks(0, "host-a", 1, 20, vm=vm), "host-b", 21, 60, vm=vm))


def said(vm: str, verdict: str) -> dict[str, list[dict[str, Any]]]:
    return {vm: [{"verdict": verdict, "at": "host-b"}]}


def test_a_stop_that_is_called_a_move_is_seen(log: Log) -> None:
    found = restarted(log, "web")
    assert report.disagreements(found, said("web", "moved")) == ["web: stopped, and no drain said so"]
    assert report.disagreements(found, said("web", "cold_moved")) == []


def test_a_stop_that_was_none_is_seen(log: Log) -> None:
    found = moved(log, "web")
    assert report.disagreements(found, said("web", "moved")) == []
    for verdict in report.STOPPED:
        assert report.disagreements(found, said("web", verdict)) == ["web: said to be stopped, never stopped"]


def test_a_panic_hides_no_stop(log: Log) -> None:
    log.add(500, "host-a", "web", "K", "[ 1.0] Kernel panic - not syncing: idle task")
    found = restarted(log, "web")
    assert found["totals"]["panic"] == 1
    assert report.stopped(found) == {"web"}


def test_the_kill_test_lets_nothing_stop_but_who_may(log: Log) -> None:
    assert hosts.checked(restarted(log, hosts.STAYS)) == []
    wrong = hosts.checked(restarted(log, "idle"))
    assert any(text.startswith("idle: stopped") for text in wrong)


def test_the_kill_test_excuses_a_panic_and_no_silence(log: Log) -> None:
    log.add(0, "host-a", "idle", "Q", "there")
    log.ticks(0, "host-a", 1, 20, vm="idle")
    wrong = hosts.checked(log.check(20000))
    assert any(text.startswith("idle: paused") for text in wrong)
    log.add(1000, "host-a", "idle", "K", "[ 1.0] Kernel panic - not syncing: idle task")
    assert hosts.checked(log.check(20000)) == []


def test_the_kill_test_knows_who_was_stopped_in_a_case(log: Log, tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    before = moved(log, "stays-a")
    after = restarted(Log(tmp_path / "later"), "stays-a")
    assert hosts.grown(before, after, "stops") == {"stays-a"}
    assert hosts.grown(before, before, "stops") == set()


@pytest.mark.parametrize("comes", [True, False], ids=["it ticks again", "it does not"])
def test_the_report_waits_for_a_guest_that_is_quiet(log: Log, monkeypatch: pytest.MonkeyPatch, comes: bool) -> None:
    """Or a guest that hangs at the end of a run would pass as alive."""
    log.add(0, "host-a", "web", "Q", "there")
    log.ticks(0, "host-a", 1, 20)
    beats = iter(range(5, 60))

    def heartbeat(_raw: Path) -> None:
        beat = next(beats)
        if comes and beat == 8:
            log.ticks(8000, "host-a", 21, 30)
        log.check(1000.0 * beat, beats=1)

    monkeypatch.setattr(report.rawlog, "wait_for_heartbeat", heartbeat)
    for beat in range(1, 5):
        log.add(1000 * beat, "-", "-", "C", "alive")
    totals = report.check(log.folder, set())["totals"]
    assert (totals["live"], totals["paused"]) == ((1, 0) if comes else (0, 1))
