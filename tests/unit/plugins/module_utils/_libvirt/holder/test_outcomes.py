"""Outcomes: one is believed only for the attempt, the run and the record that it belongs to."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import outcome
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.migrate import Side
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.supervisor import Supervisor
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.platform import LibvirtPlatform
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import VolumeTorn

VM = "11111111-2222-3333-4444-555555555555"
NAME = f"outcome.{VM}.1"


class Volumes:
    """A store in memory."""

    def __init__(self, **volumes: bytes) -> None:
        self.volumes = dict(volumes)

    def names(self) -> list[str]:
        return sorted(self.volumes)

    def read(self, name: str) -> bytes:
        if self.volumes[name] == b"torn":
            raise VolumeTorn(name)
        return self.volumes[name]

    def create(self, name: str, data: bytes = b"") -> bool:
        if name in self.volumes:
            return False
        self.volumes[name] = data
        return True

    def delete(self, name: str) -> bool:
        return self.volumes.pop(name, None) is not None


def told(run: str, ok: bool = True) -> bytes:
    return json.dumps({"run_id": run, "ok": ok, "mode": "PreCopy", "at": "host-b"}).encode()


def platform(volumes: Volumes) -> LibvirtPlatform:
    made = LibvirtPlatform.__new__(LibvirtPlatform)
    made.source = SimpleNamespace(store=volumes)  # type: ignore[assignment]
    made._outcomes = {}
    return made


def record_of(run: str) -> NodeRecord:
    record = NodeRecord("host-a", "run-3")
    record.vms[VM] = VMRecord(VM, "web")
    record.vms[VM].attempts.append(Attempt(1, "host-b", "", 0.0, "boot", run_id=run))
    return record


def test_an_outcome_of_another_run_is_not_believed() -> None:
    made = platform(Volumes(**{NAME: told("run-1")}))
    made._read_outcomes(record_of("run-2"))
    assert made._outcomes == {}
    made._read_outcomes(None)
    assert made._outcomes == {}
    platform(Volumes(**{NAME: b"[]"}))._read_outcomes(record_of("run-1"))  # nor is one that is none
    # The attempt of an earlier run of this record is one of ours.
    made._read_outcomes(record_of("run-1"))
    assert (made._outcomes[VM, 1].ok, made._outcomes[VM, 1].at) == (True, "host-b")


def test_an_outcome_without_an_attempt_in_the_record_is_not_read() -> None:
    made = platform(Volumes(**{NAME: b"torn"}))
    made.source.store.read = None  # type: ignore[method-assign,assignment]
    made._read_outcomes(NodeRecord("host-a", "run-1"))
    assert made._outcomes == {}


@pytest.mark.parametrize("left", [told("run-1"), b"torn", b"no json", b"[]"])
def test_the_holder_replaces_what_another_run_left(left: bytes) -> None:
    volumes, log = Volumes(**{NAME: left}), []
    board: Any = SimpleNamespace(_log=log.append)
    Supervisor._put(board, volumes, NAME, told("run-2"), "run-2")  # type: ignore[arg-type]
    assert volumes.volumes == {NAME: told("run-2")}
    Supervisor._put(board, volumes, NAME, told("run-2", ok=False), "run-2")  # type: ignore[arg-type]
    assert volumes.volumes == {NAME: told("run-2")}
    assert log[-1] == f"{NAME} already exists"


def test_who_is_done_takes_away_the_outcomes_of_its_own_runs() -> None:
    """A drain of the host and a migration of one of its VMs have a record each."""
    mine, torn, theirs, other = (f"outcome.{VM}.{n}" for n in range(1, 5))
    other = other.replace("1111", "2222")
    volumes = Volumes(**{mine: told("run-1"), torn: b"torn", theirs: told("drain-1"), other: told("run-1")})
    made = platform(volumes)
    gone: list[str] = []
    made._written = SimpleNamespace(delete=gone.append)  # type: ignore[assignment]
    made._definitions = SimpleNamespace(  # type: ignore[assignment]
        forget=lambda: gone.append("definitions")
    )
    record = record_of("run-1 before")
    record.runs = ["run-1", "run-3"]
    made.forget(record)
    assert volumes.names() == [theirs, other]
    assert gone == ["definitions", "record"]  # what says what is to be undone, at the very end
    drain = record_of("drain-1")
    made._read_outcomes(drain)
    assert made._outcomes == {}  # of its first attempt there is none
    drain.vms[VM].attempts[0].number = 3
    made._read_outcomes(drain)
    assert made._outcomes[VM, 3].ok


class Sides:
    """What is read on both sides, by a clock that a pause moves on: (seconds, here, there)."""

    def __init__(self, *steps: tuple[float, State, State]) -> None:
        self.steps, self.now = steps, 0.0
        self.order: dict[str, Any] = {"foreign": True}
        self.local: Any = None

    def at(self) -> tuple[State, State]:
        return next(step[1:] for step in reversed(self.steps) if step[0] <= self.now)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < 3600, "it waits for ever"

    def read(self, monkeypatch: pytest.MonkeyPatch) -> outcome.FinalPlace:
        monkeypatch.setattr(outcome, "time", self)
        monkeypatch.setattr(outcome, "_read_source", lambda *_a: (Side(self.at()[0]), ""))
        monkeypatch.setattr(outcome, "_read_target", lambda *_a: (Side(self.at()[1]), ""))
        monkeypatch.setattr(outcome, "_arrive", lambda *_a: {})
        order: Any = SimpleNamespace(node="a", target="b", **self.order)
        nothing: Any = None
        return outcome.wait_for_final_place(nothing, self.local, order)


class Refused(Exception):
    """libvirt's, of an operation that is not valid now."""

    def get_error_code(self) -> int:
        return 55


class BrokenPostCopy(Sides):
    """`refuses`: so many calls that resume it. Each one that is taken lasts 10 s, after which it has arrived."""

    def __init__(self, refuses: int = 0, foreign: bool = False) -> None:
        super().__init__((0, State.POSTCOPY_FAILED, State.POSTCOPY_FAILED))
        self.order = {"foreign": foreign, "name": "vm", "uuid": VM, "target_uri": "qemu+tls://b/system", "disks": None}
        self.local = SimpleNamespace(conn=SimpleNamespace(lookupByUUIDString=lambda _uuid: self))
        self.refuses, self.asked = refuses, list[tuple[float, str, int]]()

    def migrateToURI3(self, uri: str, _params: dict[str, Any], flags: int) -> None:  # noqa: N802 - libvirt's name
        self.asked.append((round(self.now), uri, flags))
        if len(self.asked) <= self.refuses:
            raise Refused("QEMU reports migration is still running")
        self.sleep(10)
        self.steps = (*self.steps, (self.now, OFF, UP))

    def read(self, monkeypatch: pytest.MonkeyPatch) -> outcome.FinalPlace:
        monkeypatch.setattr(
            outcome,
            "libvirt",
            SimpleNamespace(libvirtError=Refused, VIR_MIGRATE_POSTCOPY_RESUME=1 << 20, VIR_ERR_OPERATION_INVALID=55),
        )
        monkeypatch.setattr(outcome, "flags_of", lambda _order: 3)
        monkeypatch.setattr(outcome, "params_of", lambda *_all: {})
        return super().read(monkeypatch)


OFF, UP, COMES = State.ABSENT, State.RUNNING, State.INCOMING


@pytest.mark.parametrize(
    ("steps", "at"),
    [
        (((0, OFF, OFF), (25, OFF, UP)), "b"),
        (((0, UP, UP), (50, OFF, UP)), "b"),
        (((0, UP, COMES), (100, OFF, UP)), "b"),
        (((0, UP, COMES),), "a"),
    ],
    ids=["nowhere for a while", "twice for a while", "switches over late", "did not switch over"],
)
def test_a_busy_host_is_given_time_between_two_steps(monkeypatch: pytest.MonkeyPatch, steps: Any, at: str) -> None:
    found = Sides(*steps).read(monkeypatch)
    assert (found.at, found.reason) == (at, None)


@pytest.mark.parametrize(
    ("place", "reason"), [(OFF, Reason.VMVanished), (UP, Reason.RunningTwice)], ids=lambda x: x.value
)
def test_what_stands_is_believed(monkeypatch: pytest.MonkeyPatch, place: State, reason: Reason) -> None:
    assert Sides((0, place, place)).read(monkeypatch).reason is reason


def test_a_broken_post_copy_is_resumed_with_the_flags_that_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BrokenPostCopy()
    found = broken.read(monkeypatch)
    assert (found.ok, found.at, found.resumed) == (True, "b", 1)
    assert broken.asked == [(0, "qemu+tls://b/system", 3 | 1 << 20)]


def test_as_long_as_its_stream_lives_it_is_asked_seldom_and_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = BrokenPostCopy(refuses=5)
    assert broken.read(monkeypatch).resumed == 1
    pauses = [after - before for (before, *_one), (after, *_next) in itertools.pairwise(broken.asked)]
    assert [4 < pause < 62 for pause in pauses] == [True] * 5 and pauses == sorted(pauses) and pauses[-1] > 59
    assert capsys.readouterr().err == "vm: its post-copy is not resumed: QEMU reports migration is still running\n"


def test_the_post_copy_of_somebody_else_is_looked_at_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BrokenPostCopy(foreign=True)
    broken.steps = (*broken.steps, (500, OFF, UP))
    assert broken.read(monkeypatch).resumed == 0 and broken.asked == []
