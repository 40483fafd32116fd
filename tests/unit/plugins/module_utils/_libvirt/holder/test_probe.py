"""The probe: what is asked of the job, when, and how often."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.link.deadline import DeadlineAction
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    AbortStatus,
    Mode,
    Phase,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import probe as holder_probe
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.job import Job
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.order import parse_order
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.probe import Pace, Probe, Sample

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).parents[1] / "fakes.py")
assert _spec is not None
assert _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)


class FakeDomain:
    """`locked`: so many aborts are refused."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.refuses = False
        self.locked = self.aborts = 0
        self.state_now = (1, 1)  # running, booted

    def state(self) -> tuple[int, int]:
        return self.state_now

    def abortJob(self) -> None:  # noqa: N802 - libvirt's name
        self.aborts += 1
        if self.aborts <= self.locked:
            raise fakes.LibvirtError("cannot acquire state change lock")

    def migrateSetMaxDowntime(self, milliseconds: int, _flags: int) -> None:  # noqa: N802
        if self.refuses:
            raise fakes.LibvirtError("domain is not being migrated")
        self.asked.append(milliseconds)


@pytest.fixture
def dom(monkeypatch: pytest.MonkeyPatch) -> FakeDomain:
    monkeypatch.setattr(holder_probe, "libvirt", fakes.Binding())
    return FakeDomain()


def probe_of(dom: FakeDomain, milliseconds: int, due: bool = True) -> Probe:
    local: Any = None
    probe = Probe(local, "u", lambda: None, max_downtime_ms=milliseconds)
    if due:
        probe.apply_deadline(DeadlineAction.DOWNTIME)
    probe._dom = dom
    return probe


def test_the_pause_is_asked_for_once_and_only_while_memory_flows(dom: FakeDomain) -> None:
    probe = probe_of(dom, 800)
    probe._act()
    assert dom.asked == []
    probe.sample = Sample(processed=1)
    probe._act()
    probe._act()
    assert dom.asked == [800]


def test_a_longer_pause_is_asked_for_when_it_is_due_and_a_shorter_one_at_once(dom: FakeDomain) -> None:
    """Than the hypervisor's 300 ms."""
    for milliseconds in (800, 100):
        probe = probe_of(dom, milliseconds, due=False)
        probe.sample = Sample(processed=1)
        probe._act()
    assert dom.asked == [100]


def test_what_was_measured_is_read_until_it_is_there_and_only_in_a_first_pass_that_is_long(
    dom: FakeDomain, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    probe = probe_of(dom, 0)
    local: Any = SimpleNamespace(conn=None)
    probe._local = local
    monkeypatch.setattr(holder_probe, "known", lambda _conn, _dom: read.append(1) or (len(read) > 1 and 40.0) or None)
    for iteration, elapsed in ((1, 1000), (2, 9000), (1, 4000), (1, 4100), (1, 5000), (1, 6000)):
        stats = {"data_processed": 1, "memory_iteration": iteration, "time_elapsed": elapsed}
        monkeypatch.setattr(holder_probe, "outgoing_job", lambda _dom, stats=stats: stats)
        probe._read_job()
    assert (read, probe.measured) == ([1, 1], 40.0)


def test_nothing_is_asked_by_default_nor_in_post_copy(dom: FakeDomain) -> None:
    for milliseconds, mode in ((0, Mode.PRE_COPY), (800, Mode.POST_COPY)):
        probe = probe_of(dom, milliseconds)
        probe.mode, probe.sample = mode, Sample(processed=1)
        probe._act()
    assert dom.asked == []


def test_a_refusal_is_kept_and_does_no_harm(dom: FakeDomain) -> None:
    dom.refuses = True
    probe = probe_of(dom, 800)
    probe.sample = Sample(processed=1)
    probe._act()
    assert "not being migrated" in probe.message


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_an_abort_that_was_refused_is_asked_for_again(dom: FakeDomain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock was not to be had; later and later, until the job ends."""
    clock = Clock()
    monkeypatch.setattr(holder_probe, "time", clock)
    dom.locked = 4
    probe = probe_of(dom, 0)
    probe.apply_deadline(DeadlineAction.ABORT)
    asked_at = []
    for tenth in range(300):
        clock.now = 100 + tenth / 10
        before = dom.aborts
        probe._act()
        asked_at += [tenth / 10] * (dom.aborts - before)
    assert asked_at == [0.0, 0.5, 1.5, 3.5, 7.5]
    assert probe.abort_status is AbortStatus.ABORTING
    assert "state change lock" in probe.message


def test_a_pause_that_was_refused_is_asked_for_again_and_holds_up_no_abort(
    dom: FakeDomain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for once by the deadlines: taken for done, the guest ran on, and the next one ended its migration."""
    clock, left = Clock(), iter([True, True])

    def suspend() -> None:
        if next(left, False):
            raise fakes.LibvirtError("cannot acquire state change lock")
        dom.state_now = (3, 1)

    monkeypatch.setattr(holder_probe, "time", clock)
    monkeypatch.setattr(dom, "suspend", suspend, raising=False)
    probe = probe_of(dom, 0)
    probe.apply_deadline(DeadlineAction.PAUSE)
    for _tenth in range(30):
        clock.now += 0.1
        probe._act()
    assert (dom.state_now, probe.mode) == ((3, 1), Mode.PAUSED)
    left = iter([True] * 100)
    probe.apply_deadline(DeadlineAction.PAUSE)
    probe._act()
    probe.apply_deadline(DeadlineAction.ABORT)
    clock.now += 10
    probe._act()
    assert dom.aborts == 1


def test_an_abort_that_comes_too_late_is_refused_in_words(dom: FakeDomain) -> None:
    dom.state_now = (3, 12)  # paused, post-copy
    probe = probe_of(dom, 0)
    probe.apply_deadline(DeadlineAction.ABORT)
    probe._act()
    assert (dom.aborts, probe.abort_status) == (0, AbortStatus.FAILED)
    links: Any = SimpleNamespace(local=lambda: None)
    order = parse_order(
        {"order": "migrate", "uuid": "u", "name": "web", "attempt": 1, "node": "a", "target": "b", "target_uri": "x"}
    )
    job = Job(links, order, lambda _job: None, lambda _job, _ended: None, Pace())
    job.phase, job.probe = Phase.RUNNING, probe
    probe.mode = Mode.PRE_COPY
    assert job.abort() == ("refused", probe.message)
    assert "post-copy" in probe.message


@pytest.fixture
def qemu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What QEMU says of itself, and how often it was asked."""
    made = SimpleNamespace(status="running", asked=0)

    def ask(_dom: object, text: str, _flags: int) -> str:
        assert "query-status" in text
        made.asked += 1
        return json.dumps({"return": {"status": made.status}})

    monkeypatch.setitem(sys.modules, "libvirt_qemu", SimpleNamespace(qemuMonitorCommand=ask))
    return made


@pytest.mark.parametrize(("status", "suspended"), [("paused", True), ("finish-migrate", False)])
def test_a_suspend_of_its_owner_is_told_from_the_switch_over(
    dom: FakeDomain, qemu: SimpleNamespace, status: str, suspended: bool
) -> None:
    """libvirt says the same of both. Its monitor is asked of one that stands still, and no other."""
    probe, qemu.status = probe_of(dom, 0), status
    probe._look_for_suspend(0.0)
    dom.state_now = (3, 2)
    for moment in (10.0, 10.2, 10.9):
        probe._look_for_suspend(moment)
    assert (probe.suspended, qemu.asked) == (False, 0)
    probe._look_for_suspend(11.1)
    assert (probe.suspended, qemu.asked) == (suspended, 1)
    probe._look_for_suspend(11.2)
    assert qemu.asked == 1
    dom.state_now = (1, 5)  # its owner resumed it
    probe._look_for_suspend(11.3)
    assert not probe.suspended


@pytest.mark.parametrize("mode", [Mode.PAUSED, Mode.POST_COPY])
def test_what_we_paused_ourselves_is_not_its_owners_suspend(dom: FakeDomain, qemu: SimpleNamespace, mode: Mode) -> None:
    probe, qemu.status, dom.state_now = probe_of(dom, 0), "paused", (3, 2)
    probe.mode = mode
    for moment in (10.0, 12.0, 14.0):
        probe._look_for_suspend(moment)
    assert not probe.suspended
