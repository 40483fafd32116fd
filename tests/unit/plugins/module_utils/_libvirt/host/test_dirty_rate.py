"""Measuring dirty rates: all VMs at once, once, and never believed when it is not this one's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Job, Mode, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host import dirty_rate
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe import observe
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import (
    DomainNow,
    HostConfig,
    HostNow,
)


class LibvirtError(Exception):
    """libvirt's, as far as this is concerned."""


class Fleet:
    """QEMUs that measure: what each would find, and the clock of their host."""

    def __init__(self, rates: dict[str, int | None]) -> None:
        self.rates = rates
        self.clock = 5000.0
        self.wall_ahead = 1.7e9
        self.starts_on_wall_clock = False
        self.started: dict[str, tuple[float, int, int]] = {}
        self.asked: list[str] = []
        self.broken = False
        self.stuck: set[str] = set()

    def now(self) -> float:
        return self.clock

    def wall(self) -> float:
        return self.clock + self.wall_ahead

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def lookupByUUIDString(self, uuid: str) -> Any:  # noqa: N802 - libvirt's name
        def start(seconds: int, flags: int) -> None:
            self.asked.append(uuid)
            if self.rates[uuid] is None:
                raise LibvirtError("this QEMU does not know calc-dirty-rate")
            self.started[uuid] = (self.clock, seconds, self.rates[uuid] or 0)

        return SimpleNamespace(startDirtyRateCalc=start)

    def getAllDomainStats(self, wanted: int, flags: int) -> list[tuple[Any, dict[str, int]]]:  # noqa: N802
        if self.broken:
            raise LibvirtError("client socket is closed")
        return [(SimpleNamespace(UUIDString=lambda u=u: u), self._stats(u)) for u in self.rates]

    def domainListGetStats(self, doms: list[str], wanted: int, flags: int) -> list[tuple[Any, dict[str, int]]]:  # noqa: N802
        return [(uuid, self._stats(uuid)) for uuid in doms]

    def _stats(self, uuid: str) -> dict[str, int]:
        if uuid not in self.started:
            return {"dirtyrate.calc_status": 0}
        at, seconds, rate = self.started[uuid]
        over = self.clock >= at + seconds and uuid not in self.stuck
        told = {
            "dirtyrate.calc_status": dirty_rate.MEASURED if over else dirty_rate.MEASURING,
            "dirtyrate.calc_period": seconds,
            "dirtyrate.calc_start_time": int(at + self.wall_ahead if self.starts_on_wall_clock else at),
        }
        return {**told, "dirtyrate.megabytes_per_second": rate} if over else told

    def measure(self, seconds: int = 2) -> dict[str, float]:
        return dirty_rate.measure(self, self.rates, seconds, self.now, self.sleep, self.wall)


@pytest.fixture(autouse=True)
def _binding(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(
        libvirtError=LibvirtError,
        VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT=1,
        VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE=2,
        VIR_DOMAIN_STATS_DIRTYRATE=4,
    )
    monkeypatch.setattr(dirty_rate, "libvirt", fake)
    monkeypatch.setattr(observe, "libvirt", fake)


def test_all_are_measured_at_the_same_time() -> None:
    fleet = Fleet({"a": 7, "b": 0, "c": 120})
    assert fleet.measure(3) == {"a": 7.0, "b": 0.0, "c": 120.0}
    assert fleet.clock - 5000 < 4, "one after another"


def test_a_measurement_of_the_last_minutes_is_taken_as_it_is() -> None:
    fleet = Fleet({"a": 7})
    fleet.measure()
    fleet.clock += 300
    assert fleet.measure() == {"a": 7.0}
    assert fleet.asked == ["a"]


def test_what_was_measured_is_known_to_all_for_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a migration that begins now knows it, and nobody waits for it."""
    fleet = Fleet({"a": 7, "b": 9})
    fleet.rates = {"a": 7}
    fleet.measure()
    monkeypatch.setattr(dirty_rate.time, "clock_gettime", lambda _clock: fleet.now())
    found = {uuid: dirty_rate.known(fleet, uuid) for uuid in "ab"}
    fleet.clock += 601
    assert (found, dirty_rate.known(fleet, "a")) == ({"a": (7.0 * (1 << 20), 2.0), "b": None}, None)
    assert fleet.asked == ["a"]


def test_a_domain_that_has_left_has_no_rate() -> None:
    """libvirt leaves it out of its answer: an error there would be taken for one of the migration."""
    assert dirty_rate.known(SimpleNamespace(domainListGetStats=lambda *_of: []), "a") is None


def test_an_old_one_is_measured_again() -> None:
    fleet = Fleet({"a": 7})
    fleet.measure()
    fleet.clock += 3600
    fleet.rates["a"] = 90
    assert fleet.measure() == {"a": 90.0}


def test_one_of_another_clock_is_not_believed() -> None:
    """After its host was moved to another clock a start can lie ahead."""
    fleet = Fleet({"a": 7})
    fleet.started["a"] = (9000.0, -9000, 55)
    fleet.clock = 8000.0
    assert fleet.measure() == {"a": 7.0}
    assert fleet.asked == ["a"]


def test_a_start_on_the_wall_clock_counts_as_of_qemu_8_2() -> None:
    """QEMU 10.0 reports calc_start_time as seconds since 1970, 7.2 those of the host's uptime."""
    fleet = Fleet({"a": 7})
    fleet.starts_on_wall_clock = True
    assert fleet.measure() == {"a": 7.0}
    fleet.clock += 300
    assert fleet.measure() == {"a": 7.0}
    assert fleet.asked == ["a"], "a measurement of the last minutes is good"
    fleet.clock += 3600
    fleet.rates["a"] = 90
    assert fleet.measure() == {"a": 90.0}, "an old one is not"


def test_a_vm_that_cannot_be_measured_does_not_keep_the_others() -> None:
    fleet = Fleet({"a": None, "b": 4})
    assert fleet.measure() == {"b": 4.0}


def test_a_measurement_that_does_not_end_is_not_waited_for() -> None:
    fleet = Fleet({"a": 7, "b": 4})
    fleet.stuck.add("a")
    assert fleet.measure() == {"b": 4.0}
    assert fleet.clock - 5000 < 2 * dirty_rate._GRACE


def _observer(fleet: Fleet, seconds: int) -> observe.Observer:
    config = HostConfig("host-a", "qemu:///system", measure_seconds=seconds)
    source = SimpleNamespace(config=config, conn=fleet, name="host-a")
    return observe.Observer(source, (), "boot", "host-a")  # type: ignore[arg-type]


def _read(fleet: Fleet, **jobs: Job) -> HostNow:
    domains = {u: DomainNow(u, u, State.RUNNING, 64, jobs.get(u)) for u in fleet.rates}
    return HostNow("host-a", domains)


@pytest.fixture(name="on_its_clock")
def _on_its_clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    real = dirty_rate.measure

    def measured(conn: Fleet, uuids: Any, seconds: int) -> dict[str, float]:
        return real(conn, uuids, seconds, conn.now, conn.sleep)

    monkeypatch.setattr(observe, "measure", measured)


@pytest.mark.usefixtures("on_its_clock")
def test_nothing_is_measured_unasked() -> None:
    fleet = Fleet({"a": 7})
    read = _read(fleet)
    _observer(fleet, 0)._measure(read)
    assert not fleet.asked
    assert read.domains["a"].dirty_rate is None


@pytest.mark.usefixtures("on_its_clock")
def test_a_vm_that_migrates_is_left_alone_and_one_that_cannot_is_asked_once_a_slice() -> None:
    fleet = Fleet({"a": 7, "b": None, "c": 9})
    moving = Job(True, Mode.PRE_COPY)
    observer = _observer(fleet, 2)
    for _look in range(3):
        read = _read(fleet, c=moving)
        observer._measure(read)
    assert sorted(fleet.asked) == ["a", "b"]
    assert [read.domains[u].dirty_rate for u in "abc"] == [7.0, None, None]


@pytest.mark.usefixtures("on_its_clock")
def test_a_broken_connection_is_the_next_read_s_to_tell() -> None:
    fleet = Fleet({"a": 7})
    fleet.broken = True
    read = _read(fleet)
    _observer(fleet, 2)._measure(read)
    assert read.domains["a"].dirty_rate is None


@pytest.mark.parametrize("seconds", [-1, 61])
def test_seconds_that_libvirt_does_not_take_are_named(seconds: int) -> None:
    params = {"node": "host-a", "uri": "qemu:///system", "memory": 0, "shared_paths": []}
    with pytest.raises(PolicyError, match=f"measure_dirty_rate is {seconds}: .* 1 to 60"):
        options.own_config({**params, "measure_dirty_rate": seconds})
