"""Placement, claims and report rows."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.claims.admission import (
    committed,
    may_keep_claim,
    may_keep_slot,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.placement import Placement
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    Job,
    Node,
    Observation,
    Reservation,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits, Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    Ending,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import (
    TABLE,
    Finding,
    Platform,
    Reason,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.rows import accounted, rows
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin

GIB = 1024


def place(*nodes: Node, draining: tuple[str, ...] = (), **limits) -> Placement:
    obs = Observation({n.name: n for n in nodes}, {})
    return Placement(obs, frozenset(draining), Limits(**limits))


def node(name: str, room: int = 8 * GIB, **more) -> Node:
    return Node(name, capacity_mib=room, **more)


def vm(memory: int = GIB, **more) -> VM:
    return VM("u", "vm", "src", memory_mib=memory, **more)


def test_most_room_first() -> None:
    assert place(node("a"), node("b", 9 * GIB), node("c")).pick(vm()) == "b"


def test_the_same_group_weighs_more_than_room() -> None:
    full = node("a", 9 * GIB, group_counts={"web": 1})
    assert place(full, node("b")).pick(vm(group="web")) == "b"
    assert place(full, node("b")).pick(vm(group="db")) == "a"


def test_the_roll_weighs_more_than_the_group() -> None:
    next_in_roll = node("a", 9 * GIB, roll_rank=2)
    other = node("b", group_counts={"web": 3})
    assert place(next_in_roll, other).pick(vm(group="web")) == "b"
    assert place(next_in_roll).pick(vm()) == "a"
    done = node("a", 9 * GIB, roll_rank=1, roll_done=True)
    assert place(done, node("b")).pick(vm()) == "a"


def test_the_plan_of_the_roll_weighs_more_than_all_while_it_holds() -> None:
    """A place that VMs of the same host take for the moment is waited for; one that there is no more is not, nor one
    that others take, nor a host that is still to be emptied."""
    wanted = {"expects": frozenset({"u"}), "group_counts": {"web": 3}}
    assert place(node("a", **wanted), node("b", 9 * GIB)).pick(vm(group="web")) == "a"
    full = {n.name: n for n in (node("a", inbound=1, **wanted), node("b"))}
    for claims, picked in (({}, "b"), ({"v": Reservation("v", "a", "src", GIB)}, None)):
        assert Placement(Observation(full, {}, claims=claims), frozenset(), Limits(inbound=1)).pick(vm()) == picked
    stuck = {"v": Reservation("v", "a", "src", GIB, stuck=True)}
    assert Placement(Observation(full, {}, claims=stuck), frozenset(), Limits(inbound=1)).pick(vm()) == "b"
    both = place(node("a", expects=frozenset({"u", "w"})), node("b"), inbound=1)
    assert [both.pick(vm()), both.pick(replace(vm(), uuid="w"))] == ["a", None]
    assert place(node("a", 9 * GIB, roll_rank=1, **wanted), node("b")).pick(vm()) == "b"
    assert place(node("a", committed_mib=8 * GIB, **wanted), node("b")).pick(vm()) == "b"
    assert place(node("a", cordoned=True, **wanted), node("b")).pick(vm()) == "b"
    refused = {"a": (Finding(Reason.CPUModelNotLiveMigratable, "a"),)}
    assert place(node("a", **wanted), node("b")).pick(vm(refused_by=refused)) == "b"


def test_places_that_another_drain_of_the_roll_has_are_waited_for() -> None:
    """For half of the time of the drain. Those of others are not, nor those of a host that is done."""
    wanted = node("a", inbound=1, expects=frozenset({"u"}), inbound_from=frozenset({"mate"}))
    for mate, hurries, picked in ((1, False, None), (1, True, "b"), (None, False, "b")):
        nodes = {n.name: n for n in (wanted, node("b", roll_rank=2), node("mate", cordoned=True, roll_rank=mate))}
        draining = frozenset({"src"})
        chosen = Placement(Observation(nodes, {}), draining, Limits(inbound=1), hurries=draining if hurries else set())
        assert chosen.pick(vm()) == picked


@pytest.mark.parametrize(("now", "target"), [(50.0, []), (51.0, ["b"])])
def test_a_drain_waits_for_its_mates_for_half_of_its_time(now: float, target: list[str]) -> None:
    wanted = node("a", inbound=1, expects=frozenset({"u"}), inbound_from=frozenset({"mate"}))
    nodes = [wanted, node("b", roll_rank=2), node("mate", cordoned=True, roll_rank=1), node("src", cordoned=True)]
    obs = Observation({n.name: n for n in nodes}, {"u": vm()}, now=now)
    record = begin(None, "src", "drained", "run", 0.0, "")
    acts = decide(obs, {"src": record}, Policy(limits=Limits(inbound=1), drain_timeout=100.0)).actions
    assert [act.target for act in acts if act.do is Do.MIGRATE] == target


def test_what_was_given_in_this_step_is_booked() -> None:
    chosen = place(node("a", 3 * GIB), node("b", 3 * GIB), inbound=9)
    assert [chosen.pick(vm(2 * GIB)) for _turn in range(3)] == ["a", "b", None]
    spread = place(node("a", 9 * GIB), node("b"), inbound=9)
    assert [spread.pick(vm(group="web")) for _turn in range(4)] == ["a", "b", "a", "b"]


def test_inbound_limit_and_room_for_later() -> None:
    queue = place(node("a"), inbound=1)
    assert [queue.pick(vm()), queue.pick(vm())] == ["a", None]
    assert queue.with_room(vm())
    assert queue.refusals(vm()) == ()


@pytest.mark.parametrize(
    "bad", [{"cordoned": True}, {"reachable": False}, {"reserve_mib": 8 * GIB}, {"committed_mib": 7 * GIB + 1}]
)
def test_never_there(bad: dict) -> None:
    chosen = place(node("a", **bad), node("src"), draining=("src",))
    assert chosen.pick(vm()) is None
    assert [f.reason for f in chosen.refusals(vm())] == [Reason.NoTargetWithCapacity]


def test_reserved_room_is_not_a_refusal() -> None:
    chosen = place(node("a", committed_mib=8 * GIB, reserved_mib=2 * GIB))
    assert chosen.pick(vm()) is None
    assert chosen.refusals(vm()) == ()
    assert not chosen.with_room(vm())


def test_all_refuse_for_one_reason() -> None:
    why = {n: (Finding(Reason.CPUModelNotLiveMigratable, n),) for n in "ab"}
    found = place(node("a"), node("b")).refusals(vm(refused_by=why))
    assert [f.reason for f in found] == [Reason.CPUModelNotLiveMigratable]


def test_what_hinders_only_a_running_vm_does_not_hinder_it_when_off() -> None:
    why = {n: (Finding(Reason.CPUModelNotLiveMigratable, n),) for n in "ab"}
    web = vm(refused_by=why, cold_refused_by={"a": (Finding(Reason.NameTaken, "a"),)})
    made = place(node("a"), node("b"))
    assert made.refusals(web)
    assert made.refusals(web, cold=True) == ()
    assert made.pick(web, cold=True) == "b"
    assert made.pick(vm(refused_by=why), cold=True) is None  # nothing else is known of it


# Claims


def claim(vm_: str, memory: int = GIB, owner: str = "s") -> Reservation:
    return Reservation(vm_, "t", owner, memory)


def kept(mine: Reservation, claims, active=None, incoming=(), room=4 * GIB, cordoned=False):
    return may_keep_claim(mine, claims, active or {}, incoming, room, Limits(inbound=2), cordoned)


def test_claim_kept_and_withdrawn() -> None:
    mine = claim("m")
    assert kept(mine, [mine]) is None
    assert kept(mine, [mine, claim("x")]) is None
    assert kept(mine, []) is not None
    assert kept(mine, [mine], cordoned=True) is not None
    assert kept(mine, [mine, claim("x"), claim("y")]) is not None
    assert kept(mine, [mine], incoming={"x", "y"}) is not None
    assert kept(mine, [mine], active={"x": 3 * GIB}) is None
    assert kept(mine, [mine], active={"x": 3 * GIB + 1}) is not None


def test_a_vm_that_is_claimed_and_active_counts_once() -> None:
    mine = claim("m", 3 * GIB)
    assert kept(mine, [mine], active={"m": 3 * GIB}, incoming={"m"}) is None
    assert committed([mine], {"m": 3 * GIB, "x": 1}) == 3 * GIB + 1


@pytest.mark.parametrize("memory", [1 * GIB, 2 * GIB, 3 * GIB])
def test_of_racing_claims_those_that_stay_fit(memory: int) -> None:
    """Each creates, then reads all that was created before its read, in any order."""
    names = ["p", "q", "r"]
    moves = [(n, a) for n in names for a in ("create", "read")]
    for order in itertools.permutations(moves):
        if any(order.index((n, "create")) > order.index((n, "read")) for n in names):
            continue
        there: list[Reservation] = []
        stay = []
        for name, act in order:
            mine = claim(name, memory, name)
            if act == "create":
                there.append(mine)
            elif kept(mine, there) is None:
                stay.append(mine)
            else:
                there.remove(mine)
        assert sum(c.memory_mib for c in stay) <= 4 * GIB
        assert len(stay) <= 2


def test_slots() -> None:
    assert may_keep_slot(["x"] * 3, Limits(cluster=3)) is None
    assert may_keep_slot(["x"] * 4, Limits(cluster=3)) is not None


# Report


def test_rows() -> None:
    record = NodeRecord("a", "r")
    moved = VMRecord("1", "b-vm", ending=Ending.MOVED.value, at="b", way="migrate")
    moved.attempts = [
        Attempt(1, "b", "LiveMigration", 1.0, "x", ended=True, ok=True, processed=2**21,
                seconds=1.5, downtime_ms=12)
    ]  # fmt: skip
    failed = VMRecord("2", "a-vm")
    failed.attempts = [Attempt(1, "b", "", 1.0, "x", ended=True, reason="MigrationFailed", message="why")]
    going = VMRecord("3", "c-vm")
    record.vms = {e.uuid: e for e in (moved, failed, going)}
    job = Job(total=4 * 2**20, remaining=2**20, rate=2**20)
    obs = Observation({}, {"3": VM("3", "c-vm", "a", job=job)})
    found = rows(record, obs)
    assert [r["name"] for r in found] == ["a-vm", "b-vm", "c-vm"]
    assert [r["phase"] for r in found] == ["Failed", "Succeeded", "Running"]
    assert [r["verdict"] for r in found] == ["pending", "moved", "pending"]
    assert (found[0]["reason"], found[0]["message"], found[0]["plane"]) == (
        "MigrationFailed", "why", "data")  # fmt: skip
    assert (found[1]["processed_mib"], found[1]["outage_ms"]) == (2.0, 12)
    assert found[2]["progress"] == {
        "percent": 75, "processed_mib": 0.0, "total_mib": 4.0, "remaining_mib": 1.0,
        "rate_mib_s": 1.0, "eta": 1.0}  # fmt: skip
    counts = accounted(rows(record, Observation({}, {})))["counts"]
    assert counts["total"] == 3
    assert counts["pending"] == 2
    assert sum(counts.values()) == 6


def test_a_migration_that_is_over_is_not_told_as_waiting() -> None:
    """It has arrived, and its marks and autostart are still to be seen to."""
    record = NodeRecord("a", "r")
    arrived = VMRecord("1", "vm")
    arrived.attempts = [Attempt(1, "b", "", 1.0, "x", ended=True, ok=True)]
    record.vms = {"1": arrived}
    row = rows(record, Observation({}, {}))[0]
    assert (row["phase"], row["verdict"]) == ("Succeeded", "pending")


def test_every_reason_has_words() -> None:
    assert set(TABLE) == set(Reason)
    for reason in Reason:
        for platform in Platform:
            told = Finding(reason).to_dict(platform)
            assert set(told) == {"reason", "plane", "message", "remedy"}
            assert all(told.values())
