"""The record of a roll on three hosts: two writers at once, hosts that are off."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from threading import Event
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.record import Recovery
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import run
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import (
    PlaybookEnded,
    RollRefused,
    RollTakenOver,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import (
    Clock,
    HostEntry,
    Roll,
    Stage,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.connection import HostUnreachable
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import roll as module
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.roll import (
    RollUnreadable,
    RollVolumes,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.store.volumes import Generation, VolumeTorn
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.roll.asking import ask
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes

QUORUM = ("a", "b", "c")


@pytest.fixture(autouse=True)
def _binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "libvirt", fakes.Binding())


class Hosts:
    """The volumes of each host. `before`: what somebody else does before the n-th call of all."""

    def __init__(self) -> None:
        self.volumes: dict[str, dict[str, str]] = {name: {} for name in QUORUM}
        self.off: set[str] = set()
        self.wait_for: dict[str, Event] = {}  # they answer late, and were silent in the slice before
        self.machines: dict[str, str] = {}  # of those that are not what their name says
        self.calls = 0
        self.before: dict[int, Callable[[], object]] = {}

    def called(self) -> None:
        self.calls += 1
        self.before.pop(self.calls, lambda: None)()


class Host:
    """What RollVolumes asks of a host. `counted`: its calls are moments for others to act in."""

    class config:  # noqa: N801 - an attribute of the real one
        uri = "test:///"

    def __init__(self, hosts: Hosts, name: str, counted: bool) -> None:
        self._hosts, self._name, self._counted = hosts, name, counted
        self.known_silent = name in hosts.wait_for

    @property
    def identity(self) -> str:
        return self._hosts.machines.get(self._name, self._name)

    @property
    def store(self) -> Host:
        if self._counted:
            self._hosts.called()
        if self._name in self._hosts.wait_for:
            self._hosts.wait_for[self._name].wait(10)
        if self._name in self._hosts.off:
            raise HostUnreachable("test:///", "off")
        return self

    def close(self) -> None:
        return

    def names(self) -> list[str]:
        return sorted(self._hosts.volumes[self._name])

    def create(self, name: str, data: bytes) -> bool:
        mine = self._hosts.volumes[self._name]
        return mine.setdefault(name, data.decode()) is not None and mine[name] == data.decode()

    def delete(self, name: str) -> bool:
        return self._hosts.volumes[self._name].pop(name, None) is not None

    def generations(self, prefix: str) -> list[int]:
        return sorted(int(name.rpartition(".")[2]) for name in self.names() if prefix in name)

    def read_generation(self, prefix: str) -> Generation | None:
        have = self.generations(prefix)
        for number in reversed(have):
            text = self._hosts.volumes[self._name][f"{prefix}.{number}"]
            if text:
                return Generation(number, text)
        if have:
            raise VolumeTorn(prefix)
        return None


def roll(run: str) -> Roll:
    return Roll("7f3a", run, "", "", "", {"a": HostEntry("a")})


def volumes(hosts: Hosts, counted: bool = False) -> RollVolumes:
    found = {name: Host(hosts, name, counted) for name in QUORUM}
    return RollVolumes(found, QUORUM)  # type: ignore[arg-type]


def run_of(hosts: Hosts) -> str:
    found, _seen = volumes(hosts).read()
    return found.run if found else ""


def put(hosts: Hosts, run: str) -> bool:
    return put_over(hosts, run)[0]


def put_over(hosts: Hosts, run: str) -> tuple[bool, str]:
    """(was it written, over what)"""
    store = volumes(hosts)
    found, seen = store.read()
    return store.write(roll(run), seen), found.run if found else ""


@pytest.mark.parametrize("old", ["", "old"])
@pytest.mark.parametrize("moment", range(1, 10))
def test_of_two_writers_at_most_one_wins(moment: int, old: str) -> None:
    """The other one reads and writes whole in one moment of this one's write, if it has so many."""
    hosts = Hosts()
    if old:
        put(hosts, old)
    mine = volumes(hosts, counted=True)
    _found, seen = mine.read()
    hosts.calls, others = 0, [(False, "")]
    hosts.before[moment] = lambda: others.append(put_over(hosts, "other"))
    ours = mine.write(roll("mine"), seen)
    theirs, over = others[-1]
    assert ours or len(others) > 1, "nobody is in its way"
    assert not (ours and theirs and over != "mine"), "one has written over what it did not read"
    assert run_of(hosts) == ("other" if theirs else "mine" if ours else old)


@pytest.mark.parametrize("moment", range(1, 7))
def test_one_that_counts_further_is_not_written_over(moment: int) -> None:
    """It saw what a killed writer left on a host that was off when this one read."""
    hosts = Hosts()
    put(hosts, "old")
    hosts.volumes["c"]["roll.2"] = ""
    hosts.off = {"c"}
    mine = volumes(hosts, counted=True)
    _found, seen = mine.read()
    hosts.off = set()
    hosts.calls, others = 0, [(False, "")]
    hosts.before[moment] = lambda: others.append(put_over(hosts, "other"))
    ours = mine.write(roll("mine"), seen)
    theirs, over = others[-1]
    assert not (ours and theirs and over != "mine"), "one has written over what it did not read"
    assert run_of(hosts) == ("other" if theirs else "mine" if ours else "old")


def test_a_write_that_is_not_the_next_one_is_lost() -> None:
    hosts = Hosts()
    first, second = volumes(hosts), volumes(hosts)
    seen = second.read()[1]
    assert first.write(roll("first"), first.read()[1])
    assert not second.write(roll("second"), seen)
    assert run_of(hosts) == "first"
    assert all(len(found) == 1 for found in hosts.volumes.values()), "nothing else stays"


@pytest.mark.parametrize(("writes", "reads"), [*product(QUORUM, QUORUM)])
def test_one_host_that_is_off_hides_nothing(writes: str, reads: str) -> None:
    hosts = Hosts()
    put(hosts, "old")
    hosts.off = {writes}
    assert put(hosts, "new")
    hosts.off = {reads}
    assert run_of(hosts) == "new"
    assert put(hosts, "newer")
    hosts.off = set()
    assert run_of(hosts) == "newer"


def test_without_a_majority_nothing_is_read_or_written() -> None:
    hosts = Hosts()
    put(hosts, "old")
    store = volumes(hosts)
    seen = store.read()[1]
    hosts.off = {"a", "c"}
    with pytest.raises(RollUnreadable, match="must answer"):
        store.read()
    with pytest.raises(RollUnreadable, match="only b of a, b, c took it"):
        store.write(roll("new"), seen)
    found = store.read_any()
    assert found is not None and found.run == "old"
    hosts.off = set()
    assert run_of(hosts) == "old"


def test_what_a_killed_writer_left_is_written_over() -> None:
    hosts = Hosts()
    put(hosts, "old")
    hosts.volumes["a"]["roll.2"] = ""  # torn
    assert run_of(hosts) == "old"
    assert put(hosts, "new")
    assert run_of(hosts) == "new"
    assert hosts.volumes["a"].keys() == hosts.volumes["b"].keys()


def test_cordoned_and_silent_hosts_are_out() -> None:
    hosts = Hosts()
    hosts.volumes["a"].update({"cordon": "", "record.3": "x"})
    hosts.volumes["b"]["cordon"] = ""
    hosts.off = {"c"}
    assert volumes(hosts).fleet().out.keys() == {"a", "b", "c"}
    del hosts.volumes["b"]["cordon"]
    hosts.volumes["b"]["record.1"] = "x"  # its restore is not over
    fleet = volumes(hosts).fleet()
    assert (fleet.out.get("b"), fleet.busy) == (None, {"a", "b"})
    hosts.volumes["b"] = {"cordon": ""}
    fleet = volumes(hosts).fleet()
    assert fleet.out == {"a": "has a drain of its own", "b": "cordoned by others", "c": "does not answer"}
    assert (fleet.busy, fleet.silent) == ({"a"}, {"c"})
    assert fleet.quorum_hosts == ("a", "b", "c")


def test_what_its_quorum_hosts_have_of_a_host_that_died_is_told_of_it() -> None:
    """By the newest of them. One that is over says nothing."""
    hosts = Hosts()
    hosts.off = {"c"}
    assert volumes(hosts).fleet().left == {}
    hosts.volumes["a"]["recovery.c.1"] = Recovery("c", found_dead="T1").to_json()
    assert volumes(hosts).fleet().left["c"].startswith("found dead at T1")
    hosts.volumes["b"]["recovery.c.2"] = Recovery("c").to_json()
    assert volumes(hosts).fleet().left == {}


@pytest.mark.parametrize("drains", [True, False])
def test_with_most_quorum_hosts_off_one_that_answers_still_keeps_others_off(drains: bool) -> None:
    """A host can be put back while its peers are down, but not by who has no part in its roll."""
    hosts = Hosts()
    put(hosts, "mine")
    hosts.off = {"b", "c"}
    found: Any = {name: Host(hosts, name, False) for name in QUORUM}
    module.check_host(found, QUORUM, "a", "mine", begun=True, drains=drains)
    with pytest.raises(RollRefused, match="a belongs to roll 7f3a"):
        module.check_host(found, QUORUM, "a", "theirs", begun=False, drains=drains)


def test_a_slice_does_not_wait_again_for_those_that_were_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the quorum hosts: what the one that answers says is believed."""
    hosts, over = Hosts(), Event()
    put(hosts, "theirs")
    monkeypatch.setattr(module, "PATIENCE", 600.0)
    monkeypatch.setattr(module, "KNOWN_SILENT", 0.1)
    hosts.wait_for = {"b": over, "c": over}
    store = volumes(hosts)
    try:
        with pytest.raises(RollUnreadable, match="did not answer"):
            store.read()
        found = store.read_any()
        assert found is not None and found.run == "theirs"
    finally:
        over.set()
        store.close()


@pytest.mark.parametrize("run", ["mine", "another"])
def test_what_a_drain_saw_is_written_when_the_hosts_that_keep_the_record_are_back(
    monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    """Two of three reboot. Without it the next stage is refused. A host of no roll, or of another's, waits for none."""
    hosts, slept = Hosts(), list[float]()
    store = volumes(hosts)
    _found, seen = store.read()
    assert store.write(Roll("7f3a", "mine", "", "", "", {"a": HostEntry("a", Stage.DRAINING)}), seen)
    hosts.off = {"b", "c"}

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        hosts.off = {"b"}

    clock = Clock(lambda: sum(slept), lambda: "2026-01-01T00:00:00Z", sleep)
    monkeypatch.setattr(module, "system_clock", lambda: clock)
    found: Any = {name: Host(hosts, name, False) for name in QUORUM}
    module.note_seen(found, QUORUM, "a", run, Stage.EMPTY)
    hosts.off = set()
    now, _seen = volumes(hosts).read()
    assert now is not None
    assert (now.hosts["a"].stage, bool(slept)) == ((Stage.EMPTY, True) if run == "mine" else (Stage.DRAINING, False))


def test_a_host_that_hangs_is_not_asked_again_beside_its_first_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a host waits for its turn the record and the fleet are read in turn, every few seconds."""
    monkeypatch.setattr(module, "KNOWN_SILENT", 0.0)
    hosts, begun = Hosts(), []
    put(hosts, "one")
    hosts.volumes["d"] = {}
    hosts.wait_for["d"] = Event()
    store = of_fleet(hosts, *QUORUM)
    real = store._threads.submit
    store._threads.submit = lambda task: (begun.append(task), real(task))[1]  # type: ignore[method-assign]
    counts = []
    for _look in range(3):
        assert store.fleet().out == {"d": "does not answer"}
        counts.append(len(begun))
        assert store.read()[0] is not None
    # Four hosts, then the three quorum hosts, and then only those that do not hang.
    assert [later - earlier for earlier, later in pairwise(counts)] == [6, 6]
    hosts.wait_for["d"].set()
    store.close()


def of_fleet(hosts: Hosts, *quorum: str) -> RollVolumes:
    return RollVolumes({name: Host(hosts, name, False) for name in hosts.volumes}, quorum)  # type: ignore[arg-type]


def begins(store: RollVolumes, **more: Any) -> dict[str, Any]:
    clock = Clock(lambda: 0.0, lambda: "2026-01-02T00:00:00Z", lambda _seconds: None)
    return run.begin(store, ask("new", ("a", "b"), "new", **more), clock, 0.0, {})


def under_way(hosts: Hosts, *, state: State = State.STOPPED, begun: str = "2026-01-01T00:00:00Z") -> None:
    """One whose first host is empty, on a, b, and c; then two hosts are added that come before these."""
    store = of_fleet(hosts, *QUORUM)
    known = Roll("7f3a", "old", "ann", "", begun, {"a": HostEntry("a", Stage.EMPTY)}, state=state)
    assert store.write(known, store.read()[1])
    hosts.volumes |= {"a1": {}, "a2": {}}


def test_a_roll_that_began_before_hosts_were_added_is_not_begun_twice() -> None:
    hosts = Hosts()
    under_way(hosts)
    store = of_fleet(hosts, "a1", "a2", "c")
    hosts.off = {"c"}  # the only one by which it would be seen
    with pytest.raises(RollRefused, match=r"roll 7f3a of ann, .* Its record is on a, b, but this inventory"):
        begins(store)
    clock = Clock(lambda: 0.0, lambda: "", lambda _seconds: None)
    with pytest.raises(RollRefused, match="maintenance_fleet"):
        run.abort(store, "new", "", clock)
    told = run.read(store, "")
    assert told["roll"]["id"] == "7f3a" and "maintenance_fleet" in told["message"]
    assert begins(store, take_over=True)["answer"] == "go"


@pytest.mark.parametrize("state", [State.ENDED, State.ABORTED, State.STOPPED])
def test_what_is_over_or_older_than_the_last_roll_is_none(state: State) -> None:
    """Left behind by a host that was off when the record was last written."""
    hosts = Hosts()
    under_way(hosts, state=state)
    store = of_fleet(hosts, "a1", "a2", "a")
    hosts.volumes["a"] = {}
    if state is State.STOPPED:
        last = Roll("8e2b", "old", "", "", "2026-01-01T10:00:00Z", {"a": HostEntry("a", Stage.DONE)}, state=State.ENDED)
        assert store.write(last, store.read()[1])
    assert begins(store)["answer"] == "go"


def test_one_that_cannot_be_read_where_none_belongs_holds_up_nobody() -> None:
    hosts = Hosts()
    hosts.volumes |= {"a1": {}, "a2": {}, "b": {"roll.7": "no json"}}
    assert begins(of_fleet(hosts, "a1", "a2", "c"))["answer"] == "go"


@pytest.mark.parametrize("off", ["", "b", "bc"])
def test_before_each_write_the_roll_is_asked_of_whoever_answers(off: str) -> None:
    """Where most of the quorum hosts are silent, those that answer are believed, as before the slice."""
    hosts = Hosts()
    store = volumes(hosts)
    assert store.write(roll("us"), store.read()[1])
    hosts.off = set(off)
    module.check_write(volumes(hosts), "us")
    with pytest.raises(RollTakenOver):
        module.check_write(volumes(hosts), "others")
    hosts.off = set()
    closed = roll("us")
    closed.state = State.STOPPED
    assert store.write(closed, store.read()[1])
    hosts.off = set(off)
    with pytest.raises(RollTakenOver):
        module.check_write(volumes(hosts), "us")
    hosts.off = {"a", "b", "c"}
    module.check_write(volumes(hosts), "us")  # no claim of a target is granted either then


def test_nothing_is_written_to_the_record_for_a_playbook_that_was_killed() -> None:
    hosts = Hosts()
    store = volumes(hosts)

    def ended() -> None:
        raise PlaybookEnded

    store.before_write = ended
    with pytest.raises(PlaybookEnded):
        store.write(roll("us"), store.read()[1])
    assert not any(hosts.volumes.values())


def test_a_machine_with_two_names_is_no_majority_of_itself() -> None:
    """Told before a roll is begun or carried on, also if the second name is no quorum host."""
    hosts = Hosts()
    hosts.volumes["d"] = {}
    fleet = {name: Host(hosts, name, False) for name in (*QUORUM, "d")}
    hosts.machines = {"d": "a"}
    store = RollVolumes(fleet, QUORUM)
    store.read()
    with pytest.raises(PolicyError, match=r"a and d are the same host \(UUID a\)"):
        store.fleet()
    hosts.machines = {"b": "a"}
    with pytest.raises(PolicyError, match=r"a and b are the same host \(UUID a\)"):
        RollVolumes(fleet, QUORUM).read()
