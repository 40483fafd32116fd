"""A slice reads few hosts of a large fleet, and all of them where that could change anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.which_hosts import (
    CANDIDATES,
    NOTE_AGE,
    WHOLE_AGE,
    LastRead,
    last_read,
    to_read,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    Node,
    Observation,
    Reservation,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    Limits,
    PlacementPolicy,
    Policy,
    Profile,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import fleet, vm
from fleetsim.few import Drain
from fleetsim.fleet import Fleet

NO = Finding(Reason.InterfaceNotLiveMigratable, "It has no such bridge.")
PEERS = [f"h{number:02}" for number in range(1, 60)]
POLICY = Policy(limits=Limits(cluster=9, outbound=2, inbound=2))
WHOLE, FEW = len(PEERS), 3 + CANDIDATES + 6  # quorum hosts, candidates, targets of what has moved


def sixty(*domains: Any, room: int = 16384) -> Fleet:
    """h00 with VMs of a gigabyte that take some seconds each, and 59 peers."""
    capacity = {"h00": 65536, **dict.fromkeys(PEERS, room)}
    return fleet([("h00", d) for d in domains], capacity, link=100.0)


def six(**more: Any) -> list[Any]:
    return [vm(number, "h00", **more) for number in range(6)]


def to_the_end(drain: Drain) -> Any:
    for _slice in range(60):
        outcome = drain.slice()
        if outcome.ended.value == "final":
            return outcome
    raise AssertionError(outcome.findings)


def test_a_drain_reads_all_at_its_begin_and_its_end_and_few_between() -> None:
    drain = Drain(sixty(*six()), "h00", POLICY)
    outcome = to_the_end(drain)
    assert (outcome.phase, len(outcome.certificate.vms)) == (NodePhase.DRAINED, 6)
    assert outcome.certificate.unread == {}
    counts = [len(asked) for asked in drain.asked]
    assert (counts[0], counts[-1]) == (WHOLE, WHOLE)
    assert len(counts) > 8
    assert max(counts[1:-1]) <= FEW


def test_a_slice_that_was_killed_makes_the_next_one_read_all() -> None:
    drain = Drain(sixty(*six()), "h00", POLICY)
    drain.slice()
    drain.last = None  # taken by a slice that left nothing
    drain.slice()
    assert [len(asked) for asked in drain.asked] == [WHOLE, WHOLE]


def test_where_no_host_that_was_read_takes_a_vm_all_are_read() -> None:
    """The roomiest refuse it; one that is nearly full does not."""
    made = sixty(*six())
    made.machines["h59"].capacity_mib = 2048
    for uuid, domain in made.machines["h00"].domains.items():
        if uuid in ("u4", "u5"):
            why = {name: (NO,) for name in PEERS if name != "h59"}
            domain.spec = replace(domain.spec, refused_by=why)
    outcome = to_the_end(Drain(made, "h00", POLICY))
    assert outcome.phase is NodePhase.DRAINED
    assert {"u4", "u5"} <= made.machines["h59"].domains.keys()


def test_a_vm_that_must_keep_apart_is_placed_on_a_read_of_all() -> None:
    made = sixty(*six(group="web"))
    drain = Drain(made, "h00", POLICY)
    assert to_the_end(drain).phase is NodePhase.DRAINED
    places = [name for name in PEERS for u in made.machines[name].domains if u.startswith("u")]
    assert len(places) == len(set(places)) == 6
    starts = [n for n, obs in enumerate(drain.seen) if len(drain.asked[n]) == WHOLE]
    assert len(starts) >= 3  # two at a time


@pytest.mark.parametrize("state", [State.RUNNING, State.SHUTOFF])
def test_a_vm_that_went_by_itself_is_looked_for_everywhere(state: State) -> None:
    made = sixty(*six())
    drain = Drain(made, "h00", POLICY)
    drain.slice()
    drain.slice()
    waits = sorted(set(made.machines["h00"].domains) - set(made.moves))[-1]
    domain = made.machines["h00"].domains.pop(waits)
    domain.state = state
    made.machines["h33"].domains[waits] = domain
    drain.slice()
    assert len(drain.asked[-2]) <= FEW
    assert len(drain.asked[-1]) == WHOLE


def test_a_claim_on_the_node_is_judged_on_a_read_of_all() -> None:
    """Whose it is, and whether its owner lives, is read on its owner."""
    made = sixty(*six())
    drain = Drain(made, "h00", POLICY)
    drain.slice()
    made.machines["h00"].claims["x", "h40"] = Reservation("x", "h00", "h40", 1024)
    drain.slice()
    assert len(drain.asked[-1]) == WHOLE


# Which are asked at first

RECORD = NodeRecord("a", "run")
ROOM = {name: 1000 + number for number, name in enumerate(PEERS)}
LAST = LastRead("run", 100.0, 50.0, frozenset(), ROOM)


def asked(last: LastRead | None = LAST, record: NodeRecord = RECORD, **more: Any) -> Any:
    words = {"policy": POLICY, "now": 110.0, **more}
    return to_read(last, record, PEERS, ("h01", "h02", "a"), **words)


def test_the_roomiest_are_asked_and_those_that_count_the_slots() -> None:
    assert asked() == {"h01", "h02", *PEERS[-CANDIDATES:]}
    full = LAST.room | dict.fromkeys(PEERS[-3:], -1)
    assert asked(replace(LAST, room=full)) == {"h01", "h02", *PEERS[-3 - CANDIDATES : -3]}
    assert asked(to_come=PEERS[-3:]) == {"h01", "h02", *PEERS[-3 - CANDIDATES : -3]}


@pytest.mark.parametrize(
    "entry",
    [
        {"attempts": [Attempt(1, "h20", "LiveMigration", 0.0, "boot")]},
        {"attempts": [Attempt(1, "h20", "LiveMigration", 0.0, "boot", ended=True, ok=True)]},
        {"ending": "moved", "at": "h20"},
        {"cold_target": "h20", "stop_way": "cold_migrate"},
    ],
)
def test_a_host_that_has_something_of_ours_is_always_read(entry: dict[str, Any]) -> None:
    assert "h20" not in asked()
    assert "h20" in asked(record=NodeRecord("a", "run", vms={"u": VMRecord("u", "web", **entry)}))
    assert "h20" in asked(replace(LAST, needed=frozenset({"h20"})))


@pytest.mark.parametrize(
    "words",
    [
        {"last": None},
        {"last": replace(LAST, run_id="another")},
        {"last": replace(LAST, room=dict.fromkeys(PEERS[1:], 1))},
        {"now": 100.0 + NOTE_AGE + 1},
        {"now": 99.0},  # the host was started again
        {"last": replace(LAST, at=50.0 + WHOLE_AGE), "now": 51.0 + WHOLE_AGE},
        {"policy": replace(POLICY, placement_policy=PlacementPolicy(profile=Profile.HIGH))},
    ],
)
def test_without_a_note_to_rely_on_all_are_read(words: dict[str, Any]) -> None:
    assert asked(**words) is None


def test_what_a_slice_leaves_to_the_next() -> None:
    nodes = {
        "a": Node("a"),
        "b": Node("b", capacity_mib=9, committed_mib=2),
        "c": Node("c", capacity_mib=9, cordoned=True),
        "d": Node("d", reachable=False),
        "e": Node("e", reachable=False),
        "f": Node("f", capacity_mib=9),
    }
    claims = {"u": Reservation("u", "b", "a", 1)}
    obs = Observation(nodes, {}, claims=claims, now=70.0, not_asked=frozenset({"e"}))
    before = LastRead("run", 60.0, 40.0, frozenset({"f"}), dict.fromkeys("bcdef", 5))
    found = last_read(obs, before, RECORD, ["c"])
    assert found == LastRead("run", 70.0, 40.0, frozenset("bcd"), {"b": 7, "c": -1, "d": -1, "e": 5, "f": 9})
    assert last_read(obs, None, RECORD, []) is None
    obs.not_asked = frozenset()
    whole = last_read(obs, None, RECORD, [])
    assert whole is not None
    assert (whole.whole_at, whole.needed) == (70.0, frozenset("bde"))


def test_in_a_fleet_of_two_releases_all_hosts_are_read() -> None:
    """A newer host is better than one with more room. Of the release of the host itself nothing depends."""
    nodes = {name: Node(name, capacity_mib=9, version=(10, 0, 8)) for name in "bc"}
    nodes["a"] = Node("a", version=(7, 2, 0))
    obs = Observation(nodes, {}, now=70.0)
    assert last_read(obs, None, RECORD, []) is not None
    nodes["c"].version = (7, 2, 0)
    assert last_read(obs, None, RECORD, []) is None
    nodes["c"].reachable = False
    assert last_read(obs, None, RECORD, []) is not None
