"""The count of the fleet test, on logs made by hand: each number goes wrong once, and is seen."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fleet.count import Count, count
from fleet.evidence import BEGINS, FILE, OVER, RESTORED

DEAD = ("host-a", "host-b")
UUID = "5f1c1d9a-9d4c-4c52-8f3a-0d9a4be3c101"
END = 20_000


class Log:
    """A run that went well: host-a goes off, host-b dies, host-c is drained onto host-d.

    Time is in milliseconds. What a test adds or leaves out is the fault.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: list[str] = []
        self.store: dict[str, list[str]] = {"host-c": [], "host-d": []}
        self.marked: dict[str, list[str]] = {}

    def add(self, ms: float, host: str, vm: str, stream: str, text: str) -> None:
        self.records.append(f"{int(ms * 1e6) + 10**12} {host} {vm} {stream} 0 ={text}")

    def ticks(self, vm: str, host: str, span: tuple[int, int], boot: str = "aaaa") -> None:
        """One in 50 ms, numbered by the clock."""
        for ms in range(span[0], span[1], 50):
            self.add(ms, host, vm, "S", f"T {boot} {ms // 50 + 1} ;")

    def lives(self, vm: str, host: str, span: tuple[int, int]) -> None:
        self.add(span[0], host, vm, "Q", "there")
        self.ticks(vm, host, span)

    def hosts(self) -> None:
        for host in ("host-a", "host-b", "host-c", "host-d"):
            self.add(0, host, "-", "H", f"up {host}")
        self.add(3000, "host-a", "-", "H", "kill")
        self.add(6000, "host-b", "-", "H", "kill")

    def drain(self, over: int = 9000, restored: int = 12_000) -> None:
        self.add(5000, "host-c", "-", "H", BEGINS)
        self.add(over, "host-c", "-", "H", OVER)
        self.add(restored, "host-c", "-", "H", RESTORED)

    def moved(self) -> None:
        """`web` goes from host-c to host-d."""
        self.lives("web", "host-c", (0, 7000))
        self.add(6500, "host-d", "web", "Q", "there")
        self.add(7200, "host-c", "web", "Q", "gone")
        self.ticks("web", "host-d", (7000, END))

    def count(self) -> Count:
        for ms in range(0, END + 1, 1000):
            self.add(ms, "-", "-", "C", "alive")
        (self.folder / "ticks.log").write_text("\n".join(self.records) + "\n")
        rows = [
            {"host": host, "store": names, "marked": self.marked.get(host, [])} for host, names in self.store.items()
        ]
        (self.folder / FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return count(self.folder)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """With `old` on host-a and `leaving` on host-b, which die there."""
    log = Log(tmp_path)
    log.hosts()
    log.lives("old", "host-a", (0, 2990))
    log.lives("leaving", "host-b", (0, 5990))
    return log


def wrong(found: Count) -> list[str]:
    return found.wrong(4, DEAD, ["host-c"], {"old": "host-a", "leaving": "host-b"})


def test_a_run_that_went_well(log: Log) -> None:
    log.moved()
    log.drain()
    found = log.count()
    assert wrong(found) == []
    line = "test-fleet: hosts=4 dead=2 drained=1 lost=0 twice=0 leftovers=0 wall_s=42"
    assert found.line(41.6) == line


def test_a_guest_that_vanishes_on_a_host_that_lives_is_lost(log: Log) -> None:
    log.lives("web", "host-c", (0, 7000))
    log.add(7200, "host-c", "web", "Q", "gone")
    log.drain()
    assert [text[:3] for text in log.count().lost] == ["web"]


def test_a_guest_that_vanished_before_its_host_died_is_lost(log: Log) -> None:
    """By little, and its last tick is not long ago."""
    log.lives("early", "host-b", (0, 5950))
    log.add(5980, "host-b", "early", "Q", "gone")
    assert [text[:5] for text in log.count().lost] == ["early"]


def test_on_a_machine_that_lets_nobody_run_for_a_while_it_died_with_its_host(log: Log) -> None:
    """The collector has looked twice since its last tick."""
    log.lives("late", "host-b", (0, 4000))
    assert log.count().died_with_host["late"] == "host-b"


def test_a_guest_that_was_silent_before_its_host_died_is_lost(log: Log) -> None:
    log.lives("silent", "host-b", (0, 2000))
    for ms in range(2100, 6000, 300):
        log.add(ms, "-", "-", "C", "alive")
    assert [text[:6] for text in log.count().lost] == ["silent"]


def test_a_guest_that_runs_on_the_dead_host_and_elsewhere_is_twice(log: Log) -> None:
    """Started again on host-d from what was written down, while it still ran on host-b."""
    log.add(4000, "host-d", "leaving", "Q", "there")
    log.ticks("leaving", "host-d", (4000, END), boot="bbbb")
    found = log.count()
    assert [text[:7] for text in found.twice] == ["leaving"]
    assert "leaving" not in found.died_with_host


def test_a_guest_that_is_silent_at_the_end_is_an_error(log: Log) -> None:
    log.lives("web", "host-d", (0, 9000))
    found = log.count()
    assert found.hurt == ["paused=1"]


def test_a_guest_that_was_shut_down_is_an_error(log: Log) -> None:
    log.lives("web", "host-d", (0, 9000))
    log.add(9050, "host-d", "web", "S", "DOWN aaaa 181 acpi")
    log.add(9100, "host-d", "web", "Q", "gone")
    assert [text[:12] for text in log.count().hurt] == ["web: stopped"]


@pytest.mark.parametrize("name", ["cordon", "record.7", f"resv.{UUID}.96.host-c", f"slot.{UUID}.host-d"])
def test_a_volume_that_stays_is_a_leftover(log: Log, name: str) -> None:
    log.store["host-d"].append(name)
    assert log.count().leftovers == [f"host-d:{name}"]


@pytest.mark.parametrize("name", [f"resv.{UUID}.96.host-b", f"slot.{UUID}.host-b", "copy.host-b.3"])
def test_what_names_a_dead_host_is_told_and_is_none(log: Log, name: str) -> None:
    log.store["host-d"].append(name)
    found = log.count()
    assert (found.leftovers, found.of_the_dead) == ([], [f"host-d:{name}"])


def test_a_claim_on_a_host_whose_name_begins_like_a_dead_one_is_a_leftover(log: Log) -> None:
    log.store["host-d"].append(f"slot.{UUID}.host-bb")
    assert log.count().leftovers == [f"host-d:slot.{UUID}.host-bb"]


def test_a_mark_in_a_definition_is_a_leftover(log: Log) -> None:
    log.marked["host-d"] = ["etc/libvirt/qemu/web.xml"]
    assert log.count().leftovers == ["host-d:etc/libvirt/qemu/web.xml"]


def test_a_host_that_nobody_surveyed_is_an_error(log: Log) -> None:
    del log.store["host-d"]
    assert log.count().hurt == ["nobody saw what is left on host-d"]


def test_a_host_on_which_something_runs_is_not_drained(log: Log) -> None:
    log.lives("web", "host-c", (0, END))
    log.drain()
    assert log.count().drained == []


def test_a_host_on_which_something_hangs_is_not_drained(log: Log) -> None:
    """It ticks no more, and its process is there."""
    log.lives("web", "host-c", (0, 7000))
    log.drain()
    assert log.count().drained == []


def test_a_host_to_which_something_comes_back_is_not_drained(log: Log) -> None:
    log.moved()
    log.drain()
    log.add(10_000, "host-c", "web", "Q", "there")
    log.add(11_000, "host-c", "web", "Q", "gone")
    assert log.count().drained == []


def test_a_host_whose_drain_did_not_end_well_is_not_drained(log: Log) -> None:
    log.moved()
    log.add(5000, "host-c", "-", "H", BEGINS)
    log.add(12_000, "host-c", "-", "H", RESTORED)
    assert log.count().drained == []


def test_a_host_on_which_nothing_ever_ran_is_not_drained(log: Log) -> None:
    log.drain()
    assert log.count().drained == []


def test_a_host_that_is_up_again_is_not_dead(log: Log) -> None:
    log.add(9000, "host-b", "-", "H", "up again")
    found = log.count()
    assert found.dead == ["host-a"]
    assert [text[:7] for text in found.lost] == ["leaving"]


def test_each_number_that_is_off_is_said(log: Log) -> None:
    said = wrong(log.count())
    assert said == ["drained: [], not ['host-c']", *said[1:]] and len(said) == 1
    other = log.count().wrong(5, ["host-a"], [], {})
    assert [text.partition(":")[0] for text in other] == ["hosts", "dead", "died with their hosts"]
