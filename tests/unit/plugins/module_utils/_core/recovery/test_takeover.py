"""Which VM of a dead host is started where, and which stays; what goes when the host is back."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    EvictionStrategy,
    Node,
    Observation,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    PlacementPolicy,
    Policy,
    Rule,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import RecordError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.back import Fate, come_back
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.proof import Kind, Proof
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.record import (
    Recovery,
    Step,
    Taken,
    markers,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.recovery.takeover import (
    Row,
    Safety,
    Verdict,
    take_over,
)

GUARD = Safety(guard=True)


def vm(name: str, state: State = State.RUNNING, memory: int = 512, **other: Any) -> VM:
    return VM(name, name, "a", state, memory, **other)


def fleet(**sightings: tuple[str, State]) -> Observation:
    nodes = {name: Node(name, capacity_mib=4096) for name in "bc"}
    return Observation(nodes, {}, {uuid: [Sighting(*seen)] for uuid, seen in sightings.items()})


def rows(*vms: VM, obs: Observation | None = None, known: Recovery | None = None, **other: Any) -> dict[str, Row]:
    policy, safety = other.get("policy", Policy()), other.get("safety", GUARD)
    kept = other.get("priorities", {})
    found = take_over("a", vms, obs or fleet(), known or Recovery("a"), policy, safety, kept)
    return {row.vm.name: row for row in found}


def taken(step: Step, target: str = "b", **other: Any) -> Recovery:
    return Recovery("a", "r1", vms={"x": Taken("x", "x", target, step, "t", **other)})


def test_what_ran_is_started_where_there_is_room_and_what_was_off_stays_off() -> None:
    found = rows(vm("x"), vm("y"), vm("z", State.SHUTOFF))
    assert {found["x"].target, found["y"].target} == {"b", "c"}
    assert found["z"].verdict is Verdict.OFF


def test_it_is_started_in_the_order_of_priorities_and_groups_stay_apart() -> None:
    first = Rule("first", lambda document: document["name"] == "y", priority=5)
    found = rows(
        *(vm(name, group="web", document={"name": name}) for name in "xyz"),
        policy=Policy(rules=(first,), placement_policy=PlacementPolicy(require_anti_affinity=True)),
    )
    assert list(found) == ["y", "x", "z"]
    assert {found["y"].target, found["x"].target} == {"b", "c"}
    assert found["z"].verdict is Verdict.STAYS


def test_a_priority_that_was_kept_counts_where_the_rules_of_now_have_none() -> None:
    first = Rule("first", lambda document: document["name"] == "y", priority=5)
    vms = [vm(name, document={"name": name}) for name in "xyz"]
    assert list(rows(*vms, priorities={"z": 9})) == ["z", "x", "y"]
    found = rows(*vms, priorities={"z": 4, "y": 1}, policy=Policy(rules=(first,)))
    assert [(name, row.priority) for name, row in found.items()] == [("y", 5), ("z", 4), ("x", 0)]


@pytest.mark.parametrize(
    ("safety", "autostart", "verdict"),
    [
        (Safety(), True, Verdict.STAYS),
        (Safety(), False, Verdict.START),
        (Safety(guard=True), True, Verdict.START),
        (Safety(stays_off=True), True, Verdict.START),
        (Safety(lock="lockd", locks={"b": "lockd", "c": ""}), True, Verdict.START),
        (Safety(lock="lockd", locks={"b": "", "c": "sanlock"}), True, Verdict.STAYS),
        (Safety(locks={"b": "lockd", "c": "lockd"}), True, Verdict.STAYS),
    ],
)
def test_what_its_host_would_start_again_needs_something_that_keeps_it(
    safety: Safety, autostart: bool, verdict: Verdict
) -> None:
    row = rows(vm("x", autostart=autostart), safety=safety)["x"]
    assert row.verdict is verdict
    if verdict is Verdict.STAYS:
        assert row.finding is not None and row.finding.reason is Reason.MayStartTwice
    elif safety.lock:
        assert row.target == "b"


@pytest.mark.parametrize(
    ("kind", "read_only", "lock", "verdict"),
    [
        ("file", False, "lockd", Verdict.START),
        ("block", False, "lockd", Verdict.STAYS),
        ("block", True, "lockd", Verdict.START),
        ("block", False, "sanlock", Verdict.START),
    ],
)
def test_virtlockd_keeps_apart_who_opens_the_same_file_and_no_device(
    kind: str, read_only: bool, lock: str, verdict: Verdict
) -> None:
    document = {"volumes": [{"kind": "file"}, {"kind": kind, "read_only": read_only}]}
    safety = Safety(lock=lock, locks=dict.fromkeys("bc", lock))
    assert rows(vm("x", autostart=True, document=document), safety=safety)["x"].verdict is verdict


@pytest.mark.parametrize(
    ("images", "read_only", "targets"),
    [
        ({"a": ["/nfs/y"], "b": ["/nfs/x"]}, False, {"b"}),
        ({"a": ["/nfs/y"], "c": ["/nfs/x"]}, False, {"c"}),
        ({"a": [], "b": ["/nfs/x"]}, False, set()),  # the dead host saw none of the others
        ({"a": ["/san/y"], "b": ["/nfs/x"]}, False, set()),  # on another share
        ({"a": ["/nfs/y"], "b": ["/nfs/y"]}, False, set()),  # of another file
        ({"a": ["/nfs/y"], "b": ["/nfs/x"]}, True, set()),  # with no disk of its own nothing is locked
    ],
)
def test_qemu_s_own_locks_keep_two_hosts_apart_where_each_has_seen_those_of_the_other(
    images: dict[str, list[str]], read_only: bool, targets: set[str]
) -> None:
    document = {"volumes": [{"kind": "file", "source": "/nfs/x", "read_only": read_only}]}
    row = rows(vm("x", autostart=True, document=document), safety=Safety(images=images))["x"]
    assert ({row.target} if row.verdict is Verdict.START else set()) == targets


def test_what_its_owner_moves_is_its_owner_s_to_start() -> None:
    owned = EvictionStrategy.EXTERNAL
    row = rows(vm("x", declared_strategy=owned, owner="pacemaker"))["x"]
    assert row.verdict is Verdict.STAYS and row.finding is not None and row.finding.reason is Reason.ExternalOwner
    assert "pacemaker moves it, and starts it again" in row.finding.message
    policy = Policy(rules=(Rule("ours", lambda _document: True, strategy=EvictionStrategy.LIVE_MIGRATE),))
    assert rows(vm("x", declared_strategy=owned), policy=policy)["x"].verdict is Verdict.START


def test_what_belongs_to_the_host_stays_with_its_reason() -> None:
    local = Finding(Reason.DisksNotLiveMigratable, "Disk vda is local.")
    row = rows(vm("x", cold_findings=(local,)))["x"]
    assert (row.verdict, row.finding) == (Verdict.STAYS, local)


@pytest.mark.parametrize("state", [State.RUNNING, State.PAUSED, State.UNKNOWN])
def test_what_runs_elsewhere_is_not_started(state: State) -> None:
    assert rows(vm("x"), obs=fleet(x=("c", state)))["x"].verdict is Verdict.RUNS


@pytest.mark.parametrize("state", [State.INCOMING, State.POSTCOPY, State.POSTCOPY_FAILED])
def test_what_was_on_its_way_when_its_host_died_neither_runs_nor_is_started(state: State) -> None:
    row = rows(vm("x"), obs=fleet(x=("c", state)))["x"]
    assert (row.verdict, row.target) == (Verdict.STAYS, "c")
    assert row.finding is not None and "migrating to c when a died" in row.finding.message


def test_what_is_defined_elsewhere_and_off_is_a_person_s_to_judge() -> None:
    row = rows(vm("x"), obs=fleet(x=("c", State.SHUTOFF)))["x"]
    assert row.verdict is Verdict.STAYS and row.finding is not None and row.finding.reason is Reason.MayStartTwice


def test_a_silent_peer_may_run_any_of_them() -> None:
    obs = fleet()
    obs.nodes["c"].reachable = False
    row = rows(vm("x"), obs=obs)["x"]
    assert row.verdict is Verdict.STAYS and row.finding is not None and row.finding.reason is Reason.PeerUnreachable


def test_one_that_is_bound_to_a_target_is_started_there_and_nowhere_else() -> None:
    obs = fleet(x=("c", State.SHUTOFF))
    obs.nodes["b"].committed_mib = 0
    found = rows(vm("x"), obs=obs, known=taken(Step.STARTING, "c"))["x"]
    assert (found.verdict, found.target) == (Verdict.START, "c")
    obs.nodes["c"].reachable = False
    assert rows(vm("x"), obs=obs, known=taken(Step.STARTING, "c"))["x"].verdict is Verdict.STAYS


@pytest.mark.parametrize(("seen", "verdict"), [({}, Verdict.STAYS), ({"x": ("b", State.SHUTOFF)}, Verdict.START)])
def test_one_that_was_bound_and_is_not_there_may_have_been_moved_on_to_a_silent_host(
    seen: dict[str, tuple[str, State]], verdict: Verdict
) -> None:
    obs = fleet(**seen)
    obs.nodes["c"].reachable = False
    assert rows(vm("x"), obs=obs, known=taken(Step.STARTING, "b"))["x"].verdict is verdict


def test_a_target_that_could_not_start_it_is_not_taken_again() -> None:
    known = taken(Step.FAILED, "b", tried=["b"], message="b: no such network")
    assert rows(vm("x"), known=known)["x"].target == "c"
    known.vms["x"].tried.append("c")
    row = rows(vm("x"), known=known)["x"]
    assert row.finding is not None and row.finding.reason is Reason.CannotStart


def test_the_record_comes_back_as_it_was() -> None:
    known = taken(Step.RUNS)
    known.proof, known.boot_id = Proof(Kind.AGENT, "t", "ctl", "fence_ipmilan"), "b1"
    assert Recovery.from_json(known.to_json()) == known


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "vms": [{"uuid": "x"}]}'])
def test_what_is_no_record_is_an_error_and_not_no_record(text: str) -> None:
    with pytest.raises(RecordError):
        Recovery.from_json(text)


@pytest.mark.parametrize("peers", range(1, 6))
def test_who_asks_meets_one_that_was_told(peers: int) -> None:
    write, read = markers(peers)
    assert write + read > peers and write <= peers and read >= 1


@pytest.mark.parametrize(
    ("step", "here", "there", "fate"),
    [
        (Step.RUNS, State.SHUTOFF, State.RUNNING, Fate.REMOVED),
        (Step.RUNS, State.SHUTOFF, State.SHUTOFF, Fate.REMOVED),  # its owner stopped it there
        (Step.RUNS, None, State.RUNNING, Fate.RUNS),
        (Step.RUNS, State.RUNNING, State.RUNNING, Fate.WAITS),
        (Step.RUNS, State.SHUTOFF, None, Fate.WAITS),
        (Step.STARTING, State.SHUTOFF, State.RUNNING, Fate.REMOVED),
        (Step.STARTING, State.SHUTOFF, None, Fate.RETURNS),  # the start never came
        (Step.STARTING, State.SHUTOFF, State.SHUTOFF, Fate.RETURNS),
        (Step.STARTING, State.RUNNING, State.SHUTOFF, Fate.RETURNS),
    ],
)
def test_what_goes_when_the_host_is_back(step: Step, here: State | None, there: State | None, fate: Fate) -> None:
    old, new = ({"x": state} if state else {} for state in (here, there))
    (back,) = come_back(taken(step), old, {"b": new})
    assert back.fate is fate and bool(back.message) == (fate in (Fate.WAITS, Fate.RETURNS))


def test_one_that_a_drain_has_moved_on_since_is_found() -> None:
    (back,) = come_back(taken(Step.RUNS), {"x": State.SHUTOFF}, {"b": {}, "c": {"x": State.RUNNING}})
    assert (back.fate, back.at) == (Fate.REMOVED, "c")


def test_nothing_goes_while_one_of_them_cannot_be_read() -> None:
    for here, there in ((None, {"x": State.RUNNING}), ({"x": State.SHUTOFF}, None)):
        (back,) = come_back(taken(Step.RUNS), here, {"b": there})
        assert back.fate is Fate.WAITS and "cannot be read" in back.message
