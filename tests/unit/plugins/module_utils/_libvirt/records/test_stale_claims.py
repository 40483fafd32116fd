"""Claims of other hosts' drains: what proves that the owner is dead, and what if it comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.claims.owners import DEAD_AFTER
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    Job,
    Observation,
    Reservation,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import job as holder_job
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.job import ClaimGone
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.job import Job as HolderJob
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import DomainNow, Host, HostNow
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import stale_claims
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.stale_claims import StaleClaims
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import (
    VolumeMissing,
    VolumeTorn,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes

VM = "11111111-2222-3333-4444-555555555555"
ID = "_0123456789ab"
CLAIM, SLOT = f"resv.{VM}.96.{ID}.a", f"slot.{VM}.{ID}.a"
SAID = {"name": "web-3", "run": "r1", "by": "ann", "at": "2026-01-02T03:04:05Z", "target": "b"}
WHO = "web-3 from a (run r1 of ann since 2026-01-02T03:04:05Z)"


class FakeHost:
    """A host: its volumes and its domains. `at`: called at each access, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.volumes: dict[str, bytes] = {}
        self.records: dict[str, str] = {}
        self.torn: list[int] = []
        self.domains: dict[str, DomainNow] = {}
        self.doms: dict[str, Any] = {}
        self.up = True
        self.at: Callable[[str], None] = lambda _what: None

    @property
    def store(self) -> FakeHost:
        return self

    def create(self, name: str, data: bytes = b"") -> bool:
        made = name not in self.volumes
        self.volumes.setdefault(name, data)
        return made

    def names(self) -> list[str]:
        return sorted(self.volumes)

    def delete(self, name: str) -> bool:
        self.at(f"delete {name.split('.', maxsplit=1)[0]}")
        return self.volumes.pop(name, None) is not None

    def volume(self, name: str) -> str:
        if name not in self.volumes:
            raise VolumeMissing(name)
        return name

    def read_record(self, prefix: str) -> str | None:
        if self.torn and prefix == "record":
            raise VolumeTorn(prefix)
        return self.records.get(prefix)

    def generations(self, _prefix: str) -> list[int]:
        return self.torn

    def domain(self, uuid: str) -> Any:
        return self.doms[uuid]

    def read(self, what: Any) -> Any:
        """The host, or a volume of it."""
        if isinstance(what, str):
            if what not in self.volumes:
                raise VolumeMissing(what)
            return self.volumes[what]
        self.at("read")
        if not self.up:
            return HostNow(self.name, error=f"{self.name} does not answer")
        now = HostNow(self.name, names=self.names(), domains=dict(self.domains))
        Host._read_claims(self, now)  # type: ignore[arg-type]
        return now

    def vm(self, state: State, job: Job | None = None) -> None:
        self.domains[VM] = DomainNow(VM, "web-3", state, 96, job)


class World:
    """b is drained, and meets a claim of a."""

    def __init__(self, path: Path) -> None:
        self.hosts = {name: FakeHost(name) for name in "abcd"}
        self.clock = 1000.0
        self.path = str(path / "claims.json")
        said = json.dumps(SAID).encode()
        self.hosts["b"].volumes[CLAIM] = said
        for quorum_host in "abc":
            self.hosts[quorum_host].volumes[SLOT] = said
        self.hosts["a"].vm(State.RUNNING)
        self.stale_claims = self.new()

    def new(self, own: str = "b", acts: bool = True) -> StaleClaims:
        hosts: Any = self.hosts
        return StaleClaims(hosts, own, "abc", lambda: self.clock, acts, self.path)

    def look(self, left: StaleClaims | None = None) -> Reservation:
        """The claim on b as the observation has it."""
        obs = Observation({}, {}, inbound=[Reservation(VM, "b", "a", 96)])
        reads = {name: host.read(True) for name, host in self.hosts.items()}
        (left or self.stale_claims).check(reads, obs)
        return obs.inbound[0]

    def wait(self, seconds: float = DEAD_AFTER) -> None:
        self.clock += seconds

    @property
    def stands(self) -> bool:
        return CLAIM in self.hosts["b"].volumes

    @property
    def slots(self) -> str:
        return "".join(name for name, host in self.hosts.items() if SLOT in host.volumes)

    def record(self, name: str = "record", **more: Any) -> None:
        record = NodeRecord("a", "r1")
        record.vms[VM] = VMRecord(VM, "web-3", **more)
        self.hosts["a"].records[name] = record.to_json()


@pytest.fixture(autouse=True)
def _binding(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (stale_claims, holder_job):
        monkeypatch.setattr(module, "libvirt", fakes.Binding())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_a_dead_drain_holds_is_named_and_removed(world: World) -> None:
    assert str(world.look()).startswith(f"{WHO}: its drain does not answer")
    world.wait(DEAD_AFTER - 1)
    world.look()
    assert world.stands
    world.wait(1)
    world.look()
    assert not world.stands
    assert world.slots == ""
    assert world.stale_claims.reported == [
        f"Removed the reservation on b for {WHO}: its drain is dead. For 60 s there was no migration of"
        " it and no sign of its migration agent."
    ]


def test_the_time_goes_on_from_slice_to_slice(world: World) -> None:
    world.look()
    world.wait()
    world.look(world.new())
    assert not world.stands


def test_whoever_only_looks_removes_nothing_and_says_so(world: World) -> None:
    world.look()
    world.wait()
    preflight = world.new(acts=False)
    assert "The next drain that finds the reservation removes it" in str(world.look(preflight))
    other = world.new("c", acts=False)
    world.look(other)
    assert other.elsewhere == [
        f"{WHO}: its drain is dead. The next drain that finds the reservation removes it. It holds 96 MiB of b."
    ]
    assert world.stands
    assert world.slots == "abc"


@pytest.mark.parametrize(
    ("host", "state", "job"),
    [
        ("a", State.RUNNING, Job()),
        ("a", State.POSTCOPY_SOURCE, None),
        ("a", State.UNKNOWN, None),
        ("b", State.INCOMING, None),
        ("b", State.POSTCOPY, None),
        ("b", State.UNKNOWN, None),
    ],
)
def test_while_anything_of_it_may_move_the_claim_stands(world: World, host: str, state: State, job: Job | None) -> None:
    world.hosts[host].vm(state, job)
    for _again in range(4):
        world.look()
        world.wait()
    assert world.stands
    assert world.stale_claims.reported == []


def test_a_holder_that_leaves_marks_is_alive_however_long_its_turn_takes(world: World) -> None:
    for number in range(10):
        world.hosts["a"].volumes = {f"alive.{number}": b""}
        world.look()
        world.wait(DEAD_AFTER / 2)
    assert world.stands
    world.look()
    world.wait()
    world.look()  # the last mark stands still: it was killed
    assert not world.stands


def test_a_host_that_cannot_be_read_keeps_its_claim_and_it_is_said_what_to_do(world: World) -> None:
    world.hosts["a"].up = False
    for _again in range(3):
        claim = world.look()
        world.wait(10 * DEAD_AFTER)
    assert world.stands
    assert claim.stuck
    assert str(claim) == (
        f"{WHO}: a cannot be read, so its drain may still be at work. b has no domain of it. As"
        " soon as a answers, a drain removes the reservation if its owner is dead. If a is off for good,"
        f" on b: virsh vol-delete --pool virtops {CLAIM}"
    )
    assert world.stale_claims.reported == [f"A reservation on b: {claim}."]
    world.hosts["a"].up = True
    world.look()
    world.look()
    assert world.stands  # it is watched from now on
    world.wait()
    world.look()
    assert not world.stands


def test_a_claim_of_an_older_version_is_named_and_stays(world: World) -> None:
    old = f"resv.{VM}.96.a"
    world.hosts["b"].volumes = {old: b""}
    world.look()
    world.wait()
    claim = world.look()
    assert old in world.hosts["b"].volumes
    assert claim.stuck
    assert "web-3 from a: its drain does not answer, and an older version made" in str(claim)
    assert f"virsh vol-delete --pool virtops {old}" in str(claim)


def test_a_vm_that_is_off_between_two_hosts_keeps_its_place(world: World) -> None:
    world.record(cold_target="b", stop_way="cold_migrate")
    world.hosts["a"].vm(State.SHUTOFF)
    world.look()
    world.wait()
    assert "half-way from a to b" in str(world.look())
    assert world.stands
    world.hosts["a"].records.clear()
    world.hosts["a"].domains.clear()
    world.hosts["b"].vm(State.SHUTOFF)
    world.look()
    world.wait()
    assert "half-way from a to b" in str(world.look())
    assert world.stands


@pytest.mark.parametrize(("generations", "stands"), [([1], False), ([2], True)])
def test_a_record_that_cannot_be_read_proves_nothing(world: World, generations: list[int], stands: bool) -> None:
    """But for a first one that was being written: nothing was done yet."""
    world.hosts["a"].torn = generations
    world.look()
    world.wait()
    world.look()
    assert world.stands is stands


class Dom:
    """A domain that has arrived, and is marked."""

    def __init__(self) -> None:
        self.on, self.marks = False, True

    def isPersistent(self) -> bool:  # noqa: N802 - libvirt's name
        return True

    def autostart(self) -> bool:
        return self.on

    def setAutostart(self, on: int) -> None:  # noqa: N802 - libvirt's name
        self.on = bool(on)


def test_what_has_arrived_is_finished_before_its_claim_goes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = Attempt(1, "b", "LiveMigration", 0.0, "boot", run_id="r1")
    world.record(autostart=True, attempts=[moved])
    world.hosts["a"].domains.clear()
    world.hosts["b"].vm(State.RUNNING)
    dom = world.hosts["b"].doms[VM] = Dom()
    finished: list[bool] = []
    monkeypatch.setattr(
        stale_claims, "finish_arrival", lambda _dom, on, _last: finished.append(on) or _dom.setAutostart(on)
    )
    world.hosts["b"].at = lambda what: finished.append(True) if what == "delete resv" else None
    world.look()
    world.wait()
    world.look()
    assert not world.stands
    assert finished == [True, True]
    assert dom.on


# The owner comes back, two clean up at once


def holder(world: World) -> HolderJob:
    """The owner's holder, about to make the call."""
    links = SimpleNamespace(peer=lambda _uri: Peer(world.hosts["b"]))
    job: Any = SimpleNamespace(
        order=SimpleNamespace(claim=CLAIM, target="b", target_uri="b"),
        _links=links,
        local=SimpleNamespace(conn=world.hosts["a"]),
        _mark=lambda host: host.volumes.update({"alive.77": b""}),
    )
    return job


class Peer:
    def __init__(self, host: FakeHost) -> None:
        self.host = host

    def __enter__(self) -> FakeHost:
        return self.host

    def __exit__(self, *_args: object) -> None:
        return


@pytest.mark.parametrize("moment", range(6))
def test_of_an_owner_that_comes_back_and_who_removes_its_claim_one_sees_the_other(
    world: World, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """At each access of the one that removes: either the holder does not begin, or the claim
    stands when all is over."""
    monkeypatch.setattr(holder_job, "Store", lambda host: host)
    world.look()
    world.wait()
    begun: list[bool] = []
    steps = [0]

    def at(_what: str) -> None:
        steps[0] += 1
        if steps[0] == moment + 1:
            try:
                HolderJob._ask_for_claim(holder(world))
                begun.append(True)  # and its job is not to be seen yet
            except ClaimGone:
                begun.append(False)

    left = world.stale_claims
    obs = Observation({}, {}, inbound=[Reservation(VM, "b", "a", 96)])
    reads = {name: host.read(True) for name, host in world.hosts.items()}
    for host in world.hosts.values():
        host.at = at
    left.check(reads, obs)
    if not begun:  # it was over before
        assert not world.stands
        return
    assert world.stands or not begun[0]


def test_a_claim_that_was_made_anew_is_another_one(world: World) -> None:
    """Its owner gave it back and made it again while the first one was being judged."""
    anew = CLAIM.replace(ID, "_ba9876543210")

    def remake(what: str) -> None:
        if what == "delete resv":
            world.hosts["b"].volumes.pop(CLAIM, None)
            world.hosts["b"].volumes[anew] = b"{}"

    world.look()
    world.wait()
    world.hosts["b"].at = remake
    world.look()
    assert anew in world.hosts["b"].volumes
    assert world.stale_claims.reported == []


def test_of_two_that_clean_up_at_once_both_may_go_on(world: World) -> None:
    second = world.new("c")
    world.look()
    world.look(second)
    world.wait()
    met: list[str] = []

    def at(what: str) -> None:
        if what == "delete resv" and not met:
            met.append(what)
            world.look(second)

    world.hosts["b"].at = at
    world.look()
    assert met
    assert not world.stands
    assert world.slots == ""
    assert len(world.stale_claims.reported) + len(second.reported) == 1


# Slots


def test_a_slot_without_a_claim_is_removed_from_the_quorum_host_that_was_away(world: World) -> None:
    del world.hosts["b"].volumes[CLAIM]
    for quorum_host in "ab":
        del world.hosts[quorum_host].volumes[SLOT]
    world.look(world.new("d", acts=False))
    assert world.slots == "c"
    world.look(world.new("d"))
    assert world.slots == ""


def test_a_slot_whose_claim_was_just_made_stays(world: World) -> None:
    """The claim came after its host was read, and before the quorum host was."""
    claim = world.hosts["b"].volumes.pop(CLAIM)
    reads = {name: host.read(True) for name, host in world.hosts.items()}
    world.hosts["b"].volumes[CLAIM] = claim
    world.new("d").check(reads, Observation({}, {}))
    assert world.slots == "abc"


@pytest.mark.parametrize("change", ["down", "unknown", "torn", "old"])
def test_a_slot_of_which_nothing_can_be_told_stays(world: World, change: str) -> None:
    del world.hosts["b"].volumes[CLAIM]
    left = world.new("d")
    if change == "down":
        world.hosts["b"].up = False
    elif change == "unknown":
        world.hosts["c"].volumes[SLOT] = json.dumps({**SAID, "target": "z"}).encode()
    elif change == "torn":
        world.hosts["c"].volumes[SLOT] = b"\0\0"
    else:
        world.hosts["c"].volumes = {f"slot.{VM}.a": b""}
    before = set(world.hosts["c"].volumes)
    world.look(left)
    assert set(world.hosts["c"].volumes) == before


def test_what_another_host_wrote_is_shown_as_plain_text(world: World) -> None:
    hostile = {"name": "x\x1b[2J" + "y" * 5000, "run": "{{ lookup('env') }}", "by": ["no"]}
    world.hosts["b"].volumes[CLAIM] = json.dumps(hostile).encode()
    text = str(world.look())
    assert "\x1b" not in text
    assert len(text) < 600
    for content in (b"[]", b"null", b"\xff", b"", b"{}"):
        world.hosts["b"].volumes[CLAIM] = content
        assert str(world.look(world.new())).startswith("web-3 from a: its drain does not answer")


def test_the_holder_does_not_begin_without_its_claim(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder_job, "Store", lambda host: host)
    HolderJob._ask_for_claim(holder(world))
    assert "alive.77" in world.hosts["a"].volumes  # first the mark, then the claim
    del world.hosts["b"].volumes[CLAIM]
    with pytest.raises(ClaimGone, match="reservation on b was removed"):
        HolderJob._ask_for_claim(holder(world))
