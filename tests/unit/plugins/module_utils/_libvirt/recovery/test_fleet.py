"""A start elsewhere: its order, and each moment at which a run is killed, meets another one, or the host comes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, Observation, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy, PolicyError, Rule
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    NodeRecord,
    RecordError,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.proof import Proof
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.record import Recovery, Step, Taken
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.owner import RollRefused
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import Clock, HostEntry, Roll, Stage
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import HostConfig
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import protected, recovery, roll
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.protected import Kept
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery import fleet
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.recovery.nvram import NvramInUse
from ansible_collections.virtops.maintenance.tests.recover import bed, judge
from ansible_collections.virtops.maintenance.tests.recover.bed import DEAD, Killed, World, agent, recover
from tier import points

VMS = ("db", "web")


@pytest.fixture
def world() -> Iterator[World]:
    made = fresh()
    with bed.below(made):
        made.protect()
        yield made


def fresh() -> World:
    world = World()
    for name in VMS:
        world.vm(name)
    return world


def go(world: World, **about: Any) -> Any:
    return recover(world, agent=agent(world), **about)


def elsewhere(world: World, vm: str) -> list[str]:
    return [
        host for host in world.names if host != DEAD and vm in world.domains[host] and world.domains[host][vm].active
    ]


def record(world: World, host: str = "b") -> Recovery:
    newest = max((n for n in world.volumes[host] if n.startswith("recovery.")), key=lambda n: int(n.rpartition(".")[2]))
    return Recovery.from_json(world.volumes[host][newest])


def good(world: World) -> None:
    """Nothing ran twice or without proof. Each VM runs on the host that the record has, with its autostart."""
    assert not judge.twice(world.log) and not judge.without_proof(world.log, DEAD)
    for vm in VMS:
        (host,) = elsewhere(world, vm)
        assert world.domains[host][vm].auto and world.domains[host][vm].persistent
        for quorum_host in "bcd":
            known = record(world, quorum_host).vms[vm]
            assert (known.target, known.step) == (host, Step.RUNS)


def again(world: World, moment: int, what: Callable[[], object]) -> bool:
    """Do that before this effect of a run, if it has so many."""
    world.cut_power()
    base = world.moment

    world.moments[base + moment] = what
    with suppress(Killed):
        go(world)
    return not world.moments


def kill() -> None:
    raise Killed


def moments(what: Callable[[World], Callable[[], object]]) -> Iterator[World]:
    """A world for each effect of a run, before which that happened."""
    for moment in points():
        world = fresh()
        with bed.below(world):
            world.protect()
            if not again(world, moment, what(world)):
                assert moment > 20  # as many effects as the two starts have at least
                return
            yield world


def test_the_record_comes_first_then_the_definition_the_last_look_and_the_start(world: World) -> None:
    world.cut_power()
    assert go(world)["phase"] == "Recovered"
    first = next(vm for what, _host, vm in world.log if what == "define")
    at = next(i for i, event in enumerate(world.log) if event[0] == "define")
    assert [event[0] for event in world.log[at - 3 : at]] == ["record"] * 3  # of both VMs
    assert [event[0] for event in world.log[at : at + 8]] == [
        *("define", "last look", "start", "runs", "autostart"),
        *("record", "record", "record"),
    ]
    assert world.log[at + 3][2] == first
    good(world)


def test_a_run_that_was_killed_at_any_moment_is_carried_on_by_the_same_command() -> None:
    for world in moments(lambda _world: kill):
        assert go(world, by="c")["phase"] == "Recovered"
        good(world)
        world.power_on()
        assert recover(world)["phase"] == "Returned"
        assert not world.domains[DEAD] and not judge.twice(world.log)


def test_a_host_that_comes_back_after_a_kill_has_its_vm_here_or_there_and_never_on_both() -> None:
    for world in moments(lambda _world: kill):
        world.power_on()
        result = recover(world, by="c")
        assert result["phase"] in ("Alive", "Returned") and not judge.twice(world.log)
        for vm in VMS:
            there = elsewhere(world, vm)
            left = vm in world.domains[DEAD]
            assert left != bool(there)  # one definition, where it is
            if left and not world.domains[DEAD][vm].active:  # the guard refused it, and nobody else has it
                (told,) = [row for row in result["vms"] if row["name"] == vm]
                assert "virsh start" in told["message"]
                assert world.ask_guard(vm)


@pytest.mark.parametrize(
    ("lies", "said"),
    [
        (False, "a has booted since it died: what ran on it before is gone"),
        (True, "a still has its old boot id: it was not off, though off at"),
    ],
)
def test_a_host_that_is_back_says_by_its_boot_whether_it_was_off(world: World, lies: bool, said: str) -> None:
    """Where no guest shows signs of life a BMC that lies is believed."""
    world.net.discard(DEAD)
    for dom in world.domains[DEAD].values():
        dom.end()
    assert recover(world, agent=agent(world, "lies" if lies else ""))["phase"] == "Recovered"
    world.power_on()
    world.net.add(DEAD)
    assert recover(world)["booted"].startswith(said)


def test_a_target_that_does_not_have_the_files_now_takes_no_vm() -> None:
    """Before anything is started. Once it has them the same command starts what stayed."""
    world = fresh()
    with bed.below(world):
        world.protect(files={vm: {f"/shared/{vm}.img": 1} for vm in VMS})
        world.cut_power()
        world.unmounted = {"b", "c"}
        assert go(world)["phase"] == "Recovered"
        assert all(elsewhere(world, vm) == ["d"] for vm in VMS)
        assert not [event for event in world.log if event[:2] in (("define", "b"), ("define", "c"))]


def test_what_no_target_has_stays_with_its_files_named() -> None:
    world = fresh()
    with bed.below(world):
        world.protect(files={"db": {"/shared/db.img": 1}})
        world.cut_power()
        world.unmounted = {"b", "c", "d"}
        told = {row["name"]: row for row in go(world)["vms"]}
        assert told["db"]["verdict"] == "stays" and "does not have /shared/db.img now" in told["db"]["message"]
        assert elsewhere(world, "web") and not elsewhere(world, "db")
        world.unmounted.clear()
        assert go(world)["phase"] == "Recovered" and elsewhere(world, "db")


def test_a_target_that_has_another_device_by_that_name_takes_no_vm(monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(source: str, kind: str, kept: str, _own: object, host: bed.Host) -> str:
        assert (source, kind, kept) == ("/dev/san/db", "block", "naa.1")
        return f"{source} is a different device" if host.name != "d" else ""

    monkeypatch.setattr(fleet.volumes, "differs", differs)
    world = fresh()
    with bed.below(world):
        world.protect(volumes={"db": {"/dev/san/db": ["block", "naa.1"]}})
        world.cut_power()
        assert go(world)["phase"] == "Recovered" and elsewhere(world, "db") == ["d"]


@pytest.mark.parametrize(("seen", "target"), [("cd", "c"), ("", "")])
def test_without_the_guard_a_vm_is_started_where_the_locks_of_its_disk_were_seen(seen: str, target: str) -> None:
    world = World(guarded=False)
    world.vm("db")
    disk = {"document": {"volumes": [{"kind": "file", "source": "/nfs/db", "read_only": False}]}}
    with bed.below(world):
        world.protect({"db": disk}, locked=["/nfs/other"])
        for name in seen:
            theirs = Kept(name, "t", "boot", [], [], locked=["/nfs/db"])
            protected.write(theirs, [bed.Host(world, HostConfig(peer, peer)) for peer in "bcd" if peer != name])
        world.volumes["b"]["protect.d.9"] = '{"schema": 1}'  # of another version: what it says is not known
        world.cut_power()
        assert go(world)["phase"] == ("Recovered" if target else "Blocked")
        assert elsewhere(world, "db") == [*target]


def test_a_definition_that_libvirt_does_not_let_go_of_holds_up_no_other_vm(world: World) -> None:
    world.cut_power()
    go(world)
    world.power_on()
    refused = world.domains[DEAD]["db"].undefineFlags
    world.domains[DEAD]["db"].undefineFlags = Mock(side_effect=bed.fakes.LibvirtError("it has 2 snapshots"))
    result = recover(world)
    assert result["phase"] == "Blocked" and list(world.domains[DEAD]) == ["db"]
    (told,) = [row["message"] for row in result["vms"] if row["verdict"] == "waits"]
    assert "it has 2 snapshots" in told
    world.domains[DEAD]["db"].undefineFlags = refused
    assert recover(world)["phase"] == "Returned" and not world.domains[DEAD]


def test_what_a_drain_had_saved_on_a_host_that_is_back_does_not_keep_its_definition(world: World) -> None:
    world.cut_power()
    go(world)
    world.domains[DEAD]["db"].saved = True
    world.power_on()
    assert recover(world)["phase"] == "Returned" and not world.domains[DEAD]


NETWORK = "<source protocol='nbd' name='{0}'><host name='192.0.2.9'/></source>"
ON_FILE = "<source file='/shared/{0}.img'/>"


def left_by_a_drain(world: World, source: str, at: str, *names: str, **about: Any) -> None:
    kind = "file" if source == ON_FILE else "network"
    disk = f"<disk type='{kind}'><driver type='raw'/>{source}<target dev='vda'/></disk>"
    about_it = "<name>{0}</name><uuid>{0}</uuid><memory>1</memory>"
    xml = f"<domain type='kvm'>{about_it}<devices>{disk}</devices></domain>"
    known = NodeRecord(DEAD, "r", started_wall=at, boot_id="boot-1")
    known.vms = {name: VMRecord(name, name, 512, **about) for name in names}
    texts = {name: xml.format(name) for name in names}
    world.volumes["c"]["copy.a.1"] = json.dumps({"record": known.to_json(), "definitions": texts})


@pytest.mark.parametrize(
    ("source", "about", "words"),
    [
        (NETWORK, {}, ""),
        (ON_FILE, {}, "Only a drain's copy mentions it, without saying which data its disk vda (/shared/db.img) is"),
        (NETWORK, {"persistent": False}, "It is transient"),
        (NETWORK, {"autostart": True}, "Its autostart is on"),
    ],
)
def test_of_a_host_that_was_never_protected_a_drain_s_copy_is_read(
    source: str, about: dict[str, Any], words: str
) -> None:
    world = fresh()
    with bed.below(world):
        left_by_a_drain(world, source, "2026-11-27T12:00:00Z", "db", **about)
        world.cut_power()
        (told,) = go(world)["vms"]
        assert (elsewhere(world, "db"), told["verdict"]) == ((["b"], "runs") if not words else ([], "stays"))
        assert words in told["message"] and not elsewhere(world, "web")


@pytest.mark.parametrize(("at", "verdict"), [("2026-11-27T23:00:00Z", "stays"), ("2026-11-27T12:00:00Z", "runs")])
def test_of_protect_and_a_drain_the_newer_one_is_believed_where_the_disks_differ(at: str, verdict: str) -> None:
    world = fresh()
    with bed.below(world):
        world.protect()
        left_by_a_drain(world, ON_FILE, at, "db", autostart=True)
        world.cut_power()
        told = {row["name"]: row["verdict"] for row in go(world)["vms"]}
        assert told == {"db": verdict, "web": "runs"}


LATER, EARLIER = "2026-11-27T23:00:00Z", "2026-11-27T12:00:00Z"


@pytest.mark.parametrize(
    ("about", "at", "told"),
    [
        ({"ending": "moved"}, "", ("stays", "VMVanished")),  # it may run out of this fleet
        ({"ending": "moved"}, "c", ("runs", "")),
        ({"ending": "moved"}, "c off", ("off", "")),
        ({"ending": "gone", "reason": "VMVanished"}, "", ("off", "VMVanished")),
        ({"ending": "gone", "reason": "StoppedByItself"}, "", ("off", "")),
        ({"ending": "stopped", "stop_way": "shutdown"}, "", ("runs", "")),
        ({"was_active": False}, "", ("off", "")),
    ],
)
@pytest.mark.parametrize("protected", [True, False])
def test_what_had_left_its_host_before_that_died_is_not_started(
    protected: bool, about: dict[str, Any], at: str, told: tuple[str, str]
) -> None:
    """A drain's record is newer than what protect found: its owner has moved the VM on, deleted or stopped it."""
    world = fresh()
    with bed.below(world):
        if not protected:
            world.domains[DEAD].pop("db")
        world.protect()
        left_by_a_drain(world, NETWORK, LATER, "db", **{"autostart": False, **about})
        world.cut_power()
        if at:
            world.vm("db", host="c", active=at == "c")
        (row,) = [row for row in go(world)["vms"] if row["name"] == "db"]
        assert (row["verdict"], row["reason"]) == told
        assert elsewhere(world, "db") == (["b"] if not at and told[0] == "runs" else ["c"] if at == "c" else [])


def test_what_came_to_the_host_since_its_last_protect_is_named(world: World) -> None:
    """A drain moved it there. Its old host was protected when it ran there; nobody knows that it was on this one."""
    for name, active in (("late", True), ("lives", True), ("off", False)):
        world.vm(name, host="b", active=active)
    world.protect(host="b")
    for name in ("late", "off"):
        world.domains["b"].pop(name)
        world.vm(name)
    world.cut_power()
    result = go(world)
    rows = {row["name"]: (row["verdict"], row["reason"]) for row in result["vms"]}
    assert rows == {"db": ("runs", ""), "web": ("runs", ""), "late": ("stays", "VMVanished")}
    assert result["phase"] == "Blocked" and not elsewhere(world, "late")


@pytest.mark.parametrize(("maintenance", "verdicts"), [(EARLIER, ["runs", "runs"]), ("", ["off"])])
def test_the_record_of_a_drain_counts_in_its_maintenance_and_not_when_that_is_over(
    maintenance: str, verdicts: list[str]
) -> None:
    """protect ran in the middle of it, when db was stopped and old was away. Or it ran after the restore, which did not
    reach the peer that has the copy."""
    world = fresh()
    with bed.below(world):
        world.vm("db", autostart=False, active=False)
        world.protect(maintenance=maintenance)
        left_by_a_drain(world, NETWORK, EARLIER, "db", "old", stop_way="shutdown", autostart=False)
        world.cut_power()
        rows = {row["name"]: row["verdict"] for row in go(world)["vms"]}
        assert [rows[name] for name in ("db", "old") if name in rows] == verdicts


@pytest.mark.parametrize(
    ("other", "at", "words"),
    [
        ("c", "", ""),  # the others take them
        ("bcd", "", "/shared/db.img is a different file on b than on a (number 2, not 1)"),
        ("cd", "b", "Its disk /shared/db.img is not the same there: another directory on"),  # b has no room
    ],
)
def test_a_target_that_has_other_storage_at_that_path_now_takes_no_vm(other: str, at: str, words: str) -> None:
    """What protect compared may be mounted otherwise since: it is compared again, before anything is started."""
    world = fresh()
    with bed.below(world):
        refused = {"cold_refused_by": {at: (Finding(Reason.NoTargetWithCapacity, "It is full."),)}} if at else {}
        world.protect(dict.fromkeys(VMS, refused), files={vm: {f"/shared/{vm}.img": 1} for vm in VMS})
        world.cut_power()
        world.other_storage = set(other)
        told = {row["name"]: row for row in go(world)["vms"]}
        assert not [event for event in world.log if event[0] == "define" and event[1] in other]
        if words:
            assert (told["db"]["verdict"], told["db"]["reason"]) == ("stays", "DisksNotLiveMigratable")
            assert words in told["db"]["message"]
        else:
            good(world)


def test_its_nvram_is_there_before_its_definition_and_one_of_another_vm_is_not_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def put(conn: bed.Host, _facts: object, uuid: str, path: str, packed: str) -> None:
        world.effect("nvram", conn.name, uuid)
        assert (path, packed) == ("/nvram/db.fd", "text") and uuid not in world.domains[conn.name]
        if conn.name == "b":
            raise NvramInUse(f"its NVRAM {path} is that of other there")

    world = fresh()
    with bed.below(world):
        monkeypatch.setattr(fleet.nvram, "put", put)
        world.protect(nvram={"db": ("/nvram/db.fd", "text")})
        world.cut_power()
        assert go(world)["phase"] == "Recovered"
        good(world)
        assert elsewhere(world, "db") != ["b"] and [one[2] for one in world.log if one[0] == "nvram"] == ["db"] * 2
        assert record(world).vms["db"].tried == ["b"]


def test_two_at_once_start_each_vm_once() -> None:
    for world in moments(lambda world: lambda: recover(world, by="c", agent=agent(world))):
        assert not judge.twice(world.log)
        assert go(world, by="d")["phase"] == "Recovered"
        good(world)


@pytest.mark.parametrize("killed", [False, True])
def test_a_drain_of_a_target_at_any_moment_is_not_undone_and_nothing_runs_twice(killed: bool) -> None:
    """A host that was drained has nothing started on it after that, and what it had is found where it is."""

    def beside(world: World) -> Callable[[], object]:
        def happens() -> None:
            if killed:
                world.moments[world.moment + 3] = kill
            for host, to in (("b", "d"), ("c", "d")):
                bed.drain(world, host, to)

        return happens

    for world in moments(beside):
        assert go(world, by="c")["phase"] == "Recovered"
        good(world)
        for host in "bc":
            done = world.log.index(("drained", host, "")) if ("drained", host, "") in world.log else len(world.log)
            assert not [event for event in world.log[done:] if event[:2] == ("runs", host)]


def test_what_another_run_started_and_a_drain_moved_on_is_not_started_again() -> None:
    """Between the read of the hosts and the start there may be a minute of other starts."""

    def beside(world: World) -> Callable[[], object]:
        def happens() -> None:
            world.moments[world.moment + 13] = kill  # the other run, after its first start
            with suppress(Killed):
                go(world, by="c")
            for host in "bc":
                bed.drain(world, host, "d")

        return happens

    for world in moments(beside):
        assert not judge.twice(world.log)
        assert go(world, by="c")["phase"] == "Recovered"
        good(world)


@pytest.mark.parametrize(("step", "kept"), [(Step.STARTING, True), (Step.RUNS, True), (Step.FAILED, False)])
def test_a_restore_does_not_start_what_was_taken_over(world: World, step: Step, kept: bool) -> None:
    """A drain had stopped it; then its host died. Where it was started is silent by now."""
    taken = Taken("db", "db", "b", step, "t")
    world.volumes["c"][f"recovery.{DEAD}.7"] = Recovery(DEAD, vms={"db": taken}).to_json()
    hosts: Any = {name: bed.Host(world, bed.HostConfig(name, name)) for name in world.names}
    obs = Observation({}, {"db": VM("db", "db", DEAD, State.SHUTOFF), "web": VM("web", "web", DEAD, State.SHUTOFF)})
    recovery.note_takeovers(hosts, {"c": hosts["c"].read(False)}, DEAD, obs)
    assert bool(obs.vms["db"].kept_off) == kept and not obs.vms["web"].kept_off
    if kept:
        assert "db was started on b while a was down" in str(obs.vms["db"].kept_off)
    world.volumes["c"][f"recovery.{DEAD}.8"] = "{}"
    with pytest.raises(RecordError, match=f"recovery.{DEAD}.8 in pool virtops of c"):
        recovery.note_takeovers(hosts, {"c": hosts["c"].read(False)}, DEAD, obs)


def test_a_host_that_comes_back_at_any_moment_starts_nothing_twice() -> None:
    for world in moments(lambda world: world.power_on):
        assert not judge.twice(world.log) and not judge.without_proof(world.log, DEAD)


def test_a_host_that_comes_back_and_is_cut_off_again_is_kept_by_its_guard() -> None:
    """Nobody can see that it was there. The record has all VMs before the first start."""

    def back_and_gone(world: World) -> Callable[[], object]:
        def happens() -> None:
            world.power_on()
            world.net.discard(DEAD)

        return happens

    for world in moments(back_and_gone):
        bound = next(i for i, event in enumerate(world.log) if event[0] == "define")
        if world.log.index(("power on", DEAD, "")) > bound:
            assert not judge.twice(world.log)


def test_a_host_that_answers_at_the_last_look_stops_it(world: World) -> None:
    world.cut_power()
    proven = agent(world)

    def comes_back() -> Any:
        found = proven()
        at = world.moment
        world.moments[at + 8] = world.power_on  # the last look of the first start
        return found

    result = recover(world, agent=comes_back)
    assert result["phase"] == "Stopped" and not any(elsewhere(world, vm) for vm in VMS)
    assert not record(world).proof
    back = recover(world)
    assert back["phase"] == "Returned" and [row["name"] for row in back["vms"]] == ["web"]  # db was told before
    assert "virsh start web" in back["vms"][0]["message"] and "virsh start db" in result["message"]


def test_a_target_that_was_taken_meanwhile_is_not_started(world: World) -> None:
    """The record is read once more after the last look."""
    world.cut_power()

    def other() -> None:
        for host in "bcd":
            known = record(world, host)
            for one in known.vms.values():
                one.target = "d" if one.target != "d" else "c"
            number = max(int(n.rpartition(".")[2]) for n in world.volumes[host] if n.startswith("recovery."))
            world.volumes[host][f"recovery.{DEAD}.{number + 1}"] = known.to_json()

    world.moments[world.moment + 11] = other
    result = go(world)
    assert ("last look", DEAD, "") in world.log
    assert result["phase"] == "Stopped" and "another run took" in result["message"]
    assert not any(what == "start" for what, _host, _vm in world.log)


def test_a_target_that_refuses_is_left_as_it_was_and_the_next_one_is_taken(world: World) -> None:
    world.faults["b", "start"] = world.faults["c", "start"] = "no such network"
    world.cut_power()
    assert go(world)["phase"] == "Recovered"
    assert not world.domains["b"] and not world.domains["c"]
    good(world)
    assert record(world).vms["db"].tried and set(world.domains["d"]) == set(VMS)


def test_where_it_is_not_known_whether_it_runs_it_goes_nowhere_else(world: World) -> None:
    world.faults["b", "start"] = world.faults["c", "start"] = "lost"
    world.cut_power()
    first = go(world)
    bound = {vm: record(world).vms[vm].target for vm in VMS}
    assert first["phase"] != "Recovered" and set(bound.values()) == {"b", "c"}
    world.faults.clear()
    assert go(world)["phase"] == "Recovered"
    assert {vm: elsewhere(world, vm)[0] for vm in VMS} == bound
    good(world)


def test_each_slice_starts_one_or_is_the_last(world: World) -> None:
    world.cut_power()
    world.faults.update({(host, "start"): "lost" for host in "bcd"})
    assert go(world, seconds=0.0)["phase"] == "Blocked"
    world.faults.clear()
    assert go(world, seconds=0.0)["phase"] == "Recovered"
    good(world)


def test_one_that_runs_though_libvirt_said_no_is_not_recorded_as_failed(world: World) -> None:
    """Another run started it in that moment, or what failed was the autostart: the guard must know of it."""
    for host in "bcd":
        world.faults[host, "autostart"] = "disk quota exceeded"
    world.cut_power()
    go(world)
    result = recover(world, agent=agent(world))
    assert result["phase"] == "Blocked" and all("autostart is not set" in vm["message"] for vm in result["vms"])
    assert all(record(world).taken(vm) for vm in VMS)
    world.power_on()
    assert not judge.twice(world.log)
    world.cut_power()
    world.faults.clear()
    assert go(world)["phase"] == "Recovered"
    good(world)


def test_a_failure_is_not_noted_over_what_another_run_started(world: World) -> None:
    """Both saw it off. This one is refused and takes the definition away; the other one has it started before that is
    noted."""
    world.faults.update({(host, "start"): "no memory" for host in "bcd"})
    world.cut_power()

    class Watched(dict[str, Any]):
        def pop(self, *words: Any) -> Any:
            found = super().pop(*words)
            if world.faults:
                world.faults.clear()
                go(world, by="c")
                world.moments[world.moment + 4] = kill  # once the record has been written again
            return found

    for host in "bcd":
        world.domains[host] = Watched(world.domains[host])
    with suppress(Killed):
        go(world)
    good(world)


def test_what_others_started_elsewhere_is_not_started_by_the_host_either(world: World) -> None:
    world.cut_power()
    world.vm("db", host="d")
    assert go(world)["phase"] == "Recovered"
    assert (record(world).vms["db"].target, world.domains["d"]["db"].auto) == ("d", True)
    assert not any((what, vm) == ("autostart", "db") for what, _host, vm in world.log)  # theirs to set
    world.power_on()
    assert not judge.twice(world.log)


def test_higher_priority_is_started_first(world: World) -> None:
    world.cut_power()
    go(world, policy=Policy(rules=(Rule("first", lambda document: document["name"] == "web", priority=5),)))
    assert [vm for what, _host, vm in world.log if what == "start"] == ["web", "db"]


@pytest.mark.parametrize(("serves_at", "waited"), [(30, True), (10**9, False)])
def test_one_of_a_higher_priority_serves_before_the_next_is_started(serves_at: int, waited: bool) -> None:
    """For a minute: its guest may be broken."""
    world = fresh()
    with bed.below(world):
        world.protect({"web": world.answers("web")})
        world.cut_power()
        world.serves_at = serves_at
        first = Policy(rules=(Rule("first", lambda document: document["name"] == "web", priority=5),))
        assert go(world, policy=first, seconds=0.0)["phase"] == "Recovered"
        assert world.now >= min(serves_at, 60)
        good(world)
        told = [(what, vm) for what, _host, vm in world.log if what in ("start", "serves")]
        assert told[:2] == [("start", "web"), ("serves", "web") if waited else ("start", "db")]


def test_a_target_that_does_not_see_the_same_storage_is_not_taken(world: World) -> None:
    other = (Finding(Reason.DisksNotLiveMigratable, "Disk vda is another file there."),)
    world.protect(
        {"db": {"cold_refused_by": {"b": other, "c": other}}, "web": {"cold_refused_by": dict.fromkeys("bcd", other)}}
    )
    world.cut_power()
    result = go(world)
    assert elsewhere(world, "db") == ["d"]
    (web,) = [row for row in result["vms"] if row["name"] == "web"]
    assert (web["verdict"], web["reason"]) == ("stays", "DisksNotLiveMigratable")


def test_a_proof_ends_when_the_host_is_seen_alive(world: World) -> None:
    """An old command from the history of a shell, given after it lived again, proves nothing."""
    world.cut_power()
    dead = recover(world)["found_dead"]
    world.power_on()
    assert recover(world)["phase"] == "Alive"
    world.net.discard(DEAD)
    with pytest.raises(PolicyError, match="no earlier run found a dead"):
        recover(world, confirm=f"{DEAD}@{dead}")


@pytest.mark.parametrize(
    ("stage", "lives", "run", "refused"),
    [
        (Stage.REBOOTING, True, "mine", True),
        (Stage.DRAINING, True, "mine", True),
        (Stage.REBOOTING, False, "mine", False),
        (Stage.AT_WORK, True, "theirs", False),  # the roll itself recovers it
        (Stage.FAILED, True, "mine", False),
        (Stage.WAITING, True, "mine", False),
        (Stage.DONE, True, "mine", False),
    ],
)
def test_beside_a_roll_that_works_on_the_host_it_is_refused_before_the_host_is_switched_off(
    world: World, monkeypatch: pytest.MonkeyPatch, stage: Stage, lives: bool, run: str, refused: bool
) -> None:
    known, now = Roll("7f3a", "theirs", "ann", "", "", {DEAD: HostEntry(DEAD, stage)}), [0.0]

    def write() -> None:
        for name in "abc":
            world.volumes[name] = {k: v for k, v in world.volumes[name].items() if not k.startswith("roll.")}
            world.volumes[name][f"roll.{known.beat + 1}"] = known.to_json()

    def sleep(seconds: float) -> None:
        now[0] += seconds
        known.beat += lives
        write()

    monkeypatch.setattr(roll, "system_clock", lambda: Clock(lambda: now[0], world.wall, sleep))
    write()
    world.cut_power()
    events = len(world.log)
    if refused:
        with pytest.raises(RollRefused, match=f"a belongs to roll 7f3a.*; there it is {stage.value}"):
            go(world, roll_run=run)
        assert {what for what, *_more in world.log[events:]} <= {"last look"}
    else:
        assert go(world, roll_run=run)["phase"] == "Recovered"
        good(world)


@pytest.mark.parametrize(
    ("stage", "run", "proven"),
    [
        (Stage.REBOOTING, "theirs", True),
        (Stage.FAILED, "theirs", True),  # in its reboot
        (Stage.CHECKING, "theirs", False),  # it was back
        (Stage.REBOOTING, "mine", False),  # since another command ended it may have been back
    ],
)
def test_a_host_in_the_reboot_of_this_roll_has_none_of_its_vms_of_before(
    world: World, monkeypatch: pytest.MonkeyPatch, stage: Stage, run: str, proven: bool
) -> None:
    failed_in = Stage.REBOOTING if stage is Stage.FAILED else None
    known = Roll("7f3a", "theirs", "ann", "", "", {DEAD: HostEntry(DEAD, stage, failed_in=failed_in, emptied="12:00")})
    monkeypatch.setattr(fleet.roll, "check_dead", lambda *_words: known)
    world.cut_power()
    result = recover(world, roll_run=run, seconds=0.0)
    assert result["phase"] == ("Recovered" if proven else "Unproven")
    if proven:
        world.log[0:0] = [("read as off", DEAD, "the roll")]
        good(world)
        assert "it was empty at 12:00, and has not come back from its reboot" in str(Proof.from_dict(result["proof"]))


@pytest.mark.parametrize(
    ("boots", "libvirtd", "running", "phase"),
    [
        (True, False, False, "Recovered"),
        (True, False, True, "Alive"),  # started since
        (False, False, False, "Alive"),  # they may be of before
        (True, True, False, "Alive"),
    ],
)
def test_a_host_that_has_booted_and_whose_libvirtd_does_not_answer_has_none_of_its_vms_of_before(
    boots: bool, libvirtd: bool, running: bool, phase: str
) -> None:
    world = fresh()
    with bed.below(world):
        world.protect()
        world.boots += boots
        world.no_libvirtd = not libvirtd
        for dom in world.domains[DEAD].values() if not running else ():
            dom.end()
        result = recover(world, agent=agent(world))
        assert result["phase"] == phase and "power off" not in [what for what, *_more in world.log]
        if phase == "Recovered":
            world.log[0:0] = [("read as off", DEAD, "its boot id")]
            assert result["proof"]["how"].startswith("it has booted since (boot id boot-2, before boot-1)")
            good(world)
            world.no_libvirtd = False
            assert not any(world.ask_guard(vm) for vm in VMS)
            assert recover(world)["phase"] == "Returned" and not world.domains[DEAD]


def test_a_libvirtd_that_answers_before_a_start_on_another_host_ends_it() -> None:
    world = fresh()
    with bed.below(world):
        world.protect()
        world.boots, world.no_libvirtd = 2, True
        for dom in world.domains[DEAD].values():
            dom.end()

        def back() -> None:
            world.no_libvirtd = False
            for name, dom in world.domains[DEAD].items():
                if world.ask_guard(name):
                    dom.run()

        seen = world.moment
        world.moments[seen + 5] = back
        result = recover(world)
        assert result["phase"] in ("Stopped", "Alive") and not judge.twice(world.log)
        assert not any(elsewhere(world, vm) for vm in VMS)


def test_where_too_few_peers_are_there_it_says_so_and_reads_no_record() -> None:
    world = bed.World("bc")
    with bed.below(world):
        world.vm("vm0")
        world.protect()
        world.cut_power()
        world.power.discard("c")
        result = go(world)
        assert (result["phase"], result["looks"], result["may_be_fenced"]) == ("Unproven", "NotKnown", False)
        assert "b looked, 2 are needed" in result["message"] and "read as off" not in [
            what for what, *_more in world.log
        ]


def test_a_person_s_word_counts_once_the_host_was_found_dead(world: World) -> None:
    world.cut_power()
    dead = recover(world)["found_dead"]
    assert dead and not any(elsewhere(world, vm) for vm in VMS)
    world.log.append(("read as off", DEAD, "ann"))
    result = recover(world, confirm=f"{DEAD}@{dead}")
    assert (result["phase"], result["proof"]["by"]) == ("Recovered", "ann")
    good(world)


def test_the_word_of_tasks_is_one_proof_in_all_slices_of_its_run(world: World) -> None:
    world.cut_power()
    recover(world)
    world.log.append(("read as off", DEAD, "tasks"))
    said = {"tasks": "pdu.yml", "said": "outlet 7 reads off", "before": ""}
    result = recover(world, said=said, seconds=0.0)  # a slice for each start, or more
    assert (result["phase"], result["proof"]["by"]) == ("Recovered", "the tasks pdu.yml")
    proven = {Recovery.from_json(text).proof for text in world.written if "outlet 7" in text}
    assert len(proven) == 1
    good(world)
