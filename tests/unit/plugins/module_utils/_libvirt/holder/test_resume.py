"""A VM that stayed and stands paused after a migration of ours: the holder lets it run on."""

from __future__ import annotations

import importlib.util
import threading
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.link.deadline import DeadlineAction
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Outcome
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import job as holder_job
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import links as holder_links
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import migrate
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import outcome as holder_settle
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import probe as holder_probe
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.disks import DisksError
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.job import ClaimGone, Job
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.links import Links
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.order import AttemptEnd, parse_order
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.outcome import FinalPlace
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.probe import Pace
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.platform import _outcome
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.names import OutcomeName
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import StoreError

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).parents[1] / "fakes.py")
assert _spec is not None
assert _spec.loader is not None
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

RUNNING, BY_USER, IN_MIGRATION, IO_ERROR = (1, 1), (3, 1), (3, 2), (3, 5)
NOT_RESUMED_BY_LIBVIRT, SLEEPS = (3, 14), (7, 0)


class Guest:
    """A domain with a job until `over`. A suspend that is under way waits for that, and is done
    after the next look at the state, if one comes."""

    def __init__(self, state: tuple[int, int] = RUNNING) -> None:
        self.now = state
        self.over = threading.Event()
        self.suspending = threading.Event()
        self.looked = threading.Event()
        self.refuses = False
        self.called = False

    def state(self) -> list[int]:
        now = list(self.now)
        if self.over.is_set():
            self.looked.set()
        return now

    def jobStats(self, _flags: int) -> dict[str, Any]:  # noqa: N802 - libvirt's name
        job = {"type": 2, "operation": 5, "data_processed": 1, "memory_total": 1}
        return {"type": 0} if self.over.is_set() else job

    def suspend(self) -> None:
        self.suspending.set()
        self.over.wait(60)
        self.looked.wait(0.3)
        self.now = BY_USER

    def resume(self) -> None:
        if self.refuses:
            raise fakes.LibvirtError("cannot acquire state change lock")
        self.now = RUNNING

    def migrateSetMaxSpeed(self, _mib: int, _flags: int) -> None:  # noqa: N802 - libvirt's name
        return

    def migrateToURI3(self, *_args: Any) -> None:  # noqa: N802 - libvirt's name
        self.called = True


@pytest.fixture(autouse=True)
def binding(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = fakes.Binding()
    made.VIR_DOMAIN_JOB_NONE = 0
    for module in (holder_job, holder_probe, holder_settle, migrate):
        monkeypatch.setattr(module, "libvirt", made)
    return made


def job(guest: Guest, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> Job:
    conn = SimpleNamespace(lookupByUUIDString=lambda _uuid: guest, isAlive=lambda: True)
    local = SimpleNamespace(conn=conn, close=lambda: None)
    order = {
        "order": "watch",
        "uuid": "u",
        "name": "web",
        "attempt": 1,
        "node": "a",
        "target": "b",
        "target_uri": "qemu+tls://b/system",
        "settings": asdict(MigrationSettings()),
    }
    links: Any = SimpleNamespace(local=lambda: local)
    monkeypatch.setattr(holder_job, "wait_for_final_place", lambda *_a: FinalPlace(False, "a", message="aborted"))
    made = Job(links, parse_order({**order, **changed}), lambda _j: None, lambda _j, _e: None, Pace())
    made.set_bandwidth(0)
    return made


def end(made: Job) -> AttemptEnd:
    return made._watch() if made.order.watch else made._move()


@pytest.mark.parametrize("state", [BY_USER, IN_MIGRATION, NOT_RESUMED_BY_LIBVIRT])
def test_it_is_resumed_whatever_the_order_says(monkeypatch: pytest.MonkeyPatch, state: tuple[int, int]) -> None:
    """A restore watches without the settings with which a holder before it had suspended it."""
    guest = Guest(state)
    guest.over.set()
    assert not end(job(guest, monkeypatch)).paused
    assert guest.now == RUNNING


@pytest.mark.parametrize("state", [IO_ERROR, SLEEPS])
def test_what_stands_for_another_reason_is_left(monkeypatch: pytest.MonkeyPatch, state: tuple[int, int]) -> None:
    guest = Guest(state)
    guest.over.set()
    assert not end(job(guest, monkeypatch)).paused
    assert guest.now == state


def test_the_migration_of_others_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest(BY_USER)
    guest.over.set()
    end(job(guest, monkeypatch, settings=None))
    assert guest.now == BY_USER


def test_a_failure_to_resume_is_in_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest(BY_USER)
    guest.refuses = True
    guest.over.set()
    ended = end(job(guest, monkeypatch)).to_dict()
    assert ended["paused"]
    assert "paused: cannot acquire state change lock" in ended["message"]
    read: Outcome = _outcome(OutcomeName("u", 1), ended)
    assert read.paused


def test_a_suspend_that_comes_after_the_job_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked for while the job ran, and libvirt did it when the job was over."""
    guest = Guest()
    made = job(guest, monkeypatch)

    def wait_for_final_place(*_args: Any) -> FinalPlace:
        made.probe.apply_deadline(DeadlineAction.PAUSE)
        assert guest.suspending.wait(60)
        guest.over.set()
        return FinalPlace(False, "a")

    monkeypatch.setattr(holder_job, "wait_for_final_place", wait_for_final_place)
    end(made)
    made.probe.end()
    assert guest.now == RUNNING


def test_what_is_paused_before_is_not_migrated_and_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest(BY_USER)
    guest.over.set()
    outcome = end(job(guest, monkeypatch, order="migrate"))
    assert outcome.finding is not None
    assert (outcome.finding.reason, outcome.at) == (Reason.StateNotLiveMigratable, "a")
    assert (guest.called, guest.now) == (False, BY_USER)


def test_what_its_owner_pauses_while_its_migration_is_prepared_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its disks are made on the target, and its place is looked at once more: that takes a while."""
    guest = Guest()
    made = job(guest, monkeypatch, order="migrate")
    monkeypatch.setattr(made, "_measure_over_its_beginning", lambda _dom: None)
    monkeypatch.setattr(made, "_ask_for_claim", lambda: setattr(guest, "now", BY_USER))
    guest.over.set()  # there is no job of it
    ended = end(made)
    assert (guest.called, guest.now, ended.ok, ended.at) == (False, BY_USER, False, "a")
    assert ended.finding is not None and ended.finding.reason is Reason.StateNotLiveMigratable


@pytest.mark.parametrize("fails", [DisksError("in the way"), ClaimGone("it was removed"), HostUnreachable("b", "late")])
def test_what_its_owner_pauses_stays_so_where_the_preparation_fails(
    monkeypatch: pytest.MonkeyPatch, fails: Exception
) -> None:
    """Without a call of ours nothing of ours can have paused it."""
    guest = Guest()
    made = job(guest, monkeypatch, order="migrate")

    def prepare(_dom: Any) -> None:
        guest.now = BY_USER
        raise fails

    monkeypatch.setattr(made, "_prepare", prepare)
    guest.over.set()  # there is no job of it
    ended = end(made)
    assert (guest.called, guest.now, ended.ok, ended.at, ended.paused) == (False, BY_USER, False, "a", False)


def test_where_the_target_s_storage_hangs_the_attempt_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, it was under way for ever, and kept the ends of the others from being seen."""
    guest = Guest()
    made = job(guest, monkeypatch, order="migrate", method="BlockMigration")
    made._links = Links("qemu:///system", lambda _uri: SimpleNamespace(isAlive=lambda: True, close=lambda: None))
    over = threading.Event()
    hangs = SimpleNamespace(prepare=lambda _disks: over.wait())
    monkeypatch.setattr(holder_links, "STORAGE", 0.05)
    monkeypatch.setattr(holder_job, "TargetVolumes", lambda *_args, **_more: hangs)
    monkeypatch.setattr(holder_job, "disks_to_copy", lambda *_args: [])
    guest.over.set()  # there is no job of it
    ended = end(made)
    over.set()
    assert (guest.called, ended.at) == (False, "a") and ended.finding is not None
    assert ended.finding.reason is Reason.PeerUnreachable
    assert "its storage did not answer within 0.05 s" in ended.finding.message


def test_a_store_that_is_not_as_it_should_be_is_no_lost_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    made = job(Guest(), monkeypatch, order="migrate")
    made._mark = Mock(side_effect=StoreError("the directory is writable by every user"))
    monkeypatch.setattr(made, "_measure_over_its_beginning", lambda _dom: None)
    made.order = replace(made.order, claim="resv")
    monkeypatch.setattr(holder_job, "outgoing_job", lambda _dom: None)
    ends: list[AttemptEnd] = []
    made._over = lambda _job, ended: ends.append(ended)
    made._run()
    (ended,) = ends
    assert ended.at == "a" and ended.finding is not None and ended.finding.reason is Reason.MigrationFailed
    assert "writable" in ended.finding.message


@pytest.mark.parametrize("at", ["a", "b"])
def test_what_its_owner_suspended_on_its_way_is_suspended_where_it_ends_up(
    monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """libvirt lets it run on, on the target and after a failure."""
    guest = Guest(RUNNING)
    guest.over.set()
    made = job(guest, monkeypatch)
    there = SimpleNamespace(lookupByUUIDString=lambda _uuid: guest)
    made._links.peer = lambda _uri: nullcontext(there)  # type: ignore[assignment,method-assign]
    monkeypatch.setattr(holder_job, "wait_for_final_place", lambda *_a: FinalPlace(at == "b", at))
    made.probe.suspended = True
    ended = end(made)
    made.probe.end()
    assert (guest.now, ended.ok, ended.paused) == (BY_USER, at == "b", False)


def test_a_holder_before_this_one_may_have_suspended_it_by_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest(IN_MIGRATION)
    guest.over.set()
    made = job(guest, monkeypatch, settings=asdict(MigrationSettings(on_timeout="pause")))
    made.probe.suspended = True
    end(made)
    assert guest.now == RUNNING
