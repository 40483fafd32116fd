"""Admission by volumes: what of it is given back, and what stays."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import Host, HostConfig, HostNow
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import claims as claims_of
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.claims import Claims
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.names import parse_name
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes

VM = "11111111-2222-3333-4444-555555555555"
OTHER = "21111111-2222-3333-4444-555555555555"


class FakeHost:
    """A host that is nothing but its volumes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.config = HostConfig(name, "x")
        self.capacity_mib = 8192
        self.volumes: set[str] = set()
        self.content: dict[str, bytes] = {}
        self.up = True

    @property
    def store(self) -> FakeHost:
        if not self.up:
            raise HostUnreachable(self.name, "it did not answer")
        return self

    def create(self, name: str, data: bytes = b"") -> bool:
        made = name not in self.volumes
        self.volumes.add(name)
        self.content[name] = data
        return made

    def names(self) -> list[str]:
        return sorted(self.volumes)

    def delete(self, name: str) -> bool:
        self.volumes.discard(name)
        return True

    def read(self, _with_jobs: bool) -> HostNow:
        now = HostNow(self.name, names=self.names())
        Host._read_claims(self, now)  # type: ignore[arg-type]
        return now


@pytest.fixture(scope="module", autouse=True)
def _binding() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claims_of, "libvirt", fakes.Binding())
        yield


@pytest.fixture
def hosts() -> dict[str, FakeHost]:
    return {name: FakeHost(name) for name in "ab"}


@pytest.fixture
def claims(hosts: dict[str, FakeHost]) -> Claims:
    owner_note = {"run": "r1", "by": "ann"}
    return Claims(hosts, "a", owner_note=lambda: owner_note)  # type: ignore[arg-type]


COLD = Action(Do.SHUTDOWN, "a", VM, "web", "b", memory_mib=96)
MOVE = replace(COLD, do=Do.MIGRATE)
LIMITS = Limits()


def plain(host: FakeHost) -> set[str]:
    """Its volumes, ids left out."""
    return {re.sub(r"\._[0-9a-f]{12}\.", ".", name) for name in host.volumes}


CLAIM, SLOT = f"resv.{VM}.96.a", f"slot.{VM}.a"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cannot allocate 185 bytes in file 'x': No space left on device", Reason.TargetStoreFull),
        ("cannot create file 'x': Disk quota exceeded", Reason.TargetStoreFull),
        ("Cannot recv data: Connection reset by peer", Reason.PeerUnreachable),
    ],
)
def test_a_target_without_space_is_not_one_that_does_not_answer(
    hosts, claims, monkeypatch: pytest.MonkeyPatch, text: str, reason: Reason
) -> None:
    def full(_name: str, _data: bytes = b"") -> bool:
        raise fakes.LibvirtError(text)

    monkeypatch.setattr(hosts["b"], "create", full)
    finding = claims.claim([MOVE], LIMITS)[VM]
    assert finding is not None
    assert (finding.reason, text in finding.message) == (reason, True)


def test_a_vm_that_was_moved_off_starts_on_a_target_that_was_cordoned_meanwhile(hosts, claims) -> None:
    assert claims.claim([COLD], LIMITS) == {VM: None}
    hosts["b"].volumes.add("cordon")
    assert claims.claim([replace(COLD, do=Do.COLD_START)], LIMITS) == {VM: None}
    assert CLAIM in plain(hosts["b"])
    assert SLOT in plain(hosts["a"])


def test_a_new_claim_on_a_cordoned_target_is_given_back(hosts, claims) -> None:
    hosts["b"].volumes.add("cordon")
    for do in (Do.SHUTDOWN, Do.COLD_START):
        assert "cordoned" in claims.claim([replace(COLD, do=do)], LIMITS)[VM].message
        assert hosts["b"].volumes == {"cordon"}
        assert not hosts["a"].volumes


def test_a_claim_that_stood_is_not_given_back_when_it_is_refused(hosts, claims) -> None:
    assert claims.claim([COLD], LIMITS) == {VM: None}
    hosts["b"].volumes.add("cordon")
    assert claims.claim([replace(COLD, do=Do.COLD_DEFINE)], LIMITS)[VM] is not None
    assert {CLAIM} < plain(hosts["b"])
    assert SLOT in plain(hosts["a"])


def test_of_two_that_want_the_last_slot_the_one_that_was_made_goes(hosts, claims) -> None:
    assert claims.claim([COLD], LIMITS) == {VM: None}
    other = replace(COLD, vm=OTHER, do=Do.MIGRATE)
    answers = claims.claim([replace(COLD, do=Do.COLD_START), other], Limits(1, 2, 2))
    assert answers[VM] is None
    assert "in flight" in answers[OTHER].message
    assert plain(hosts["b"]) == {CLAIM, SLOT}
    assert plain(hosts["a"]) == {SLOT}


def test_a_claim_that_stood_without_its_slot_makes_none_beyond_the_limit(hosts, claims) -> None:
    assert claims.claim([COLD], LIMITS) == {VM: None}
    hosts["a"].volumes = {f"slot.{OTHER}.b"}
    refused = claims.claim([replace(COLD, do=Do.COLD_START)], Limits(1, 2, 2))
    assert refused[VM] is not None
    assert hosts["a"].volumes == {f"slot.{OTHER}.b"}
    assert plain(hosts["b"]) == {CLAIM, SLOT}


def test_each_claim_has_an_id_of_its_own_and_says_whose_it_is(hosts, claims) -> None:
    assert claims.claim([MOVE], LIMITS) == {VM: None}
    first = claims.name_of(VM)
    assert first in hosts["b"].volumes
    text = json.loads(hosts["b"].content[first])
    assert text == {"name": "web", "target": "b", "run": "r1", "by": "ann"}
    (slot,) = hosts["a"].volumes
    assert parse_name(slot).id == parse_name(first).id
    claims.release(MOVE)
    assert claims.name_of(VM) == ""
    assert claims.claim([MOVE], LIMITS) == {VM: None}
    assert claims.name_of(VM) != first


@pytest.mark.parametrize("old", [True, False])
def test_a_claim_that_stands_is_taken_over_as_it_is(hosts, claims, old: bool) -> None:
    """Of an older version too: it has no id, and neither has its slot."""
    name = CLAIM if old else f"resv.{VM}.96._0123456789ab.a"
    hosts["b"].volumes.add(name)
    assert claims.claim([MOVE], LIMITS) == {VM: None}
    assert claims.name_of(VM) == name
    assert (hosts["a"].volumes == {SLOT}) is old
    claims.release(MOVE)
    assert not hosts["a"].volumes | hosts["b"].volumes


# The quorum hosts, which count the slots

FLEET = "abcdef"


def fleet(down: str = "") -> dict[str, FakeHost]:
    made = {name: FakeHost(name) for name in FLEET}
    for name in down:
        made[name].up = False
    return made


def of(hosts: dict[str, FakeHost], source: str, known: bool = True) -> Claims:
    """`known`: what does not answer was seen not to answer, just before."""
    away = [name for name, host in hosts.items() if not host.up] if known else []
    return Claims(hosts, source, unreachable=lambda: away)  # type: ignore[arg-type]


def uuid(number: int) -> str:
    return f"{number:08d}-2222-3333-4444-555555555555"


def wish(source: str, number: int) -> Action:
    return Action(Do.MIGRATE, source, uuid(number), f"vm{number}", "f", memory_mib=96)


ONE = Limits(1, 9, 9)


def test_the_quorum_hosts_are_the_first_three_by_name() -> None:
    assert of(fleet(), "e").quorum_hosts == ("a", "b", "c")
    assert Claims({"x": FakeHost("x")}, "x").quorum_hosts == ("x",)  # type: ignore[dict-item]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("down", ["", "a", "b", "c"])
def test_with_any_one_quorum_host_off_the_limit_holds(down: str, known: bool) -> None:
    hosts = fleet(down)
    assert of(hosts, "d", known=known).claim([wish("d", 1)], ONE) == {uuid(1): None}
    refused = of(hosts, "e", known=known).claim([wish("e", 2)], ONE)[uuid(2)]
    assert refused.reason is Reason.WaitingForSlot
    assert not any(uuid(2) in name for host in hosts.values() for name in host.volumes)


@pytest.mark.parametrize("down", ["ab", "bc", "ac", "abc"])
def test_without_most_of_the_quorum_hosts_nothing_begins_and_they_are_named(down: str) -> None:
    hosts = fleet(down)
    refused = of(hosts, "d").claim([wish("d", 1)], ONE)[uuid(1)]
    assert refused.reason is Reason.PeerUnreachable
    assert all(f"{name}: it did not answer" in refused.message for name in down)
    assert not any(host.volumes for host in hosts.values())


def test_a_quorum_host_that_comes_back_is_one_of_the_minority() -> None:
    """The slot was taken while it was away; now another one of the three is away."""
    hosts = fleet("c")
    assert of(hosts, "d").claim([wish("d", 1)], ONE) == {uuid(1): None}
    hosts["c"].up, hosts["a"].up = True, False
    assert of(hosts, "e").claim([wish("e", 2)], ONE)[uuid(2)] is not None


def test_two_halves_that_do_not_see_the_same_quorum_hosts_cannot_both_win() -> None:
    hosts = fleet("c")
    assert of(hosts, "d").claim([wish("d", 1)], ONE) == {uuid(1): None}
    hosts["c"].up = True
    for name in "ab":  # the other side of the cut
        hosts[name].up = False
    refused = of(hosts, "e").claim([wish("e", 2)], ONE)[uuid(2)]
    assert refused.reason is Reason.PeerUnreachable


def test_a_claim_is_given_back_though_a_quorum_host_is_off() -> None:
    hosts = fleet()
    claims = of(hosts, "d")
    assert claims.claim([wish("d", 1)], ONE) == {uuid(1): None}
    hosts["b"].up = False
    claims.release(wish("d", 1))
    assert [name for name, host in hosts.items() if host.volumes] == ["b"]


@given(st.data())
def test_of_drains_that_race_for_slots_no_more_than_the_limit_win(data) -> None:
    """Each call to a quorum host may let another drain go first; any one of them may be away for each.

    Threads take turns: exactly one works at a time.
    """
    plan = data.draw(st.lists(st.integers(0, 2), min_size=30, max_size=30))
    race(data.draw(st.integers(1, 2)), plan, [data.draw(st.sampled_from(["", "a", "b", "c"])) for _drain in "def"])


def test_of_three_drains_that_each_miss_another_quorum_host_not_all_win() -> None:
    """Each shares one quorum host with each other, and would have seen one there: the first was read too early."""
    race(2, [*[1] * 6, *[2] * 23, 1], ["a", "c", "b"])


def race(limit: int, plan: list[int], missed: list[str]) -> None:
    """Three drains want a slot each. `missed`: the quorum host that does not answer to each of them."""
    hosts = fleet()
    answers: dict[str, Any] = {}
    turns = Turns(plan)
    for number, (source, away) in enumerate(zip("def", missed, strict=True)):
        mine = {name: Turned(host, turns, number) for name, host in hosts.items()}
        claims = Claims(mine, source, unreachable=lambda a=away: list(a))  # type: ignore[arg-type]

        def run(c=claims, s=source, n=number) -> None:
            answers[s] = c.claim([wish(s, n)], Limits(limit, 9, 9))[uuid(n)]

        turns.add(number, run)
    turns.go()
    won = [source for source, answer in answers.items() if answer is None]
    assert len(answers) == 3
    assert len(won) <= limit
    slots = {parse_name(n).vm for h in hosts.values() for n in h.volumes if n.startswith("slot.")}
    assert len(slots) == len(won)


class Turns:
    """Runs that go on one at a time, as a plan says; when it is used up, one after the other."""

    def __init__(self, plan: list[int]) -> None:
        self._plan = plan[::-1]
        self._runs: dict[int, threading.Thread] = {}
        self._batons: dict[int, threading.Semaphore] = {}
        self._over: set[int] = set()
        self._done = threading.Semaphore(0)

    def add(self, number: int, run: Any) -> None:
        def work() -> None:
            self._batons[number].acquire()
            try:
                run()
            finally:
                self._over.add(number)
                self._pass(number)

        self._batons[number] = threading.Semaphore(0)
        self._runs[number] = threading.Thread(target=work)

    def _pass(self, number: int) -> int:
        left = [n for n in self._runs if n not in self._over]
        if not left:
            self._done.release()
            return number
        wanted = self._plan.pop() if self._plan else min(left)
        chosen = wanted if wanted in left else left[0]
        if chosen != number or number in self._over:
            self._batons[chosen].release()
        return chosen

    def turn(self, number: int) -> None:
        if self._pass(number) != number:
            self._batons[number].acquire()

    def go(self) -> None:
        for run in self._runs.values():
            run.start()
        self._batons[0].release()
        self._done.acquire()
        for run in self._runs.values():
            run.join()


class Turned:
    """A host as one run sees it: at each call another one may go first."""

    def __init__(self, host: FakeHost, turns: Turns, number: int) -> None:
        self._host, self._turns, self._number = host, turns, number

    def __getattr__(self, name: str) -> Any:
        if name == "store":
            return self
        value = getattr(self._host, name)
        if name not in ("create", "names", "delete", "read"):
            return value

        def call(*args: Any) -> Any:
            self._turns.turn(self._number)
            return value(*args)

        return call
