"""A host that does not answer holds up only what may be there, and is named where it does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.unread_hosts import may_have
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    Node,
    Observation,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Attempt, Ending, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import (
    ALLOWED,
    FIXED,
    ended,
    on,
    run,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.test_interleaved import (
    ALL_EVENTS,
    allowed,
    fleets,
    plans,
    quick,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import (
    POLICY,
    Run,
    World,
    fleet,
    vm,
)
from fleetsim.fleet import Fleet
from fleetsim.platform import ModelPlatform

HERE = VM("u", "web", "a")
OFF = replace(HERE, state=State.SHUTOFF)


def attempt(target: str, *, over: bool = True, ok: bool = False, reason: str = "") -> Attempt:
    return Attempt(1, target, "LiveMigration", 0.0, "boot", ended=over, ok=ok, reason=reason)


FAILED = Reason.MigrationFailed.value
LOST = Reason.OutcomeLost.value
MAY_BE_THERE = {
    "never sent": ({}, HERE, None, False),
    "an attempt under way": ({"attempts": [attempt("c", over=False)]}, HERE, None, True),
    "arrived": ({"attempts": [attempt("c", ok=True)]}, None, None, True),
    "came back, and moved on": (
        {"attempts": [attempt("c", ok=True), attempt("b", ok=True)]}, None, "b", False),
    "failed, and read here": ({"attempts": [attempt("c", reason=FAILED)]}, HERE, None, False),
    "failed, and where is not known": (
        {"attempts": [attempt("c", reason=LOST)]}, HERE, None, True),
    "the target of a cold move": (
        {"cold_target": "c", "stop_way": "cold_migrate"}, OFF, None, True),
    "the last record has it there": ({"ending": "moved", "at": "c"}, None, None, True),
    "gone without us": ({}, None, None, True),
    "gone without us, and seen": ({}, None, "b", False),
    "off without us": ({}, OFF, None, True),
    "off, since its process failed": ({}, replace(OFF, crashed=True), None, False),
    "off before": ({"was_active": False}, OFF, None, False),
    "stopped by us": ({"stop_way": "shutdown"}, OFF, None, False),
    "asked by an earlier run": ({"stop_sent": 1.0}, OFF, None, False),
    "transient, stopped by us": ({"stop_way": "shutdown", "persistent": False}, None, None, False),
    "persistent, stopped by us and gone": ({"stop_way": "shutdown"}, None, None, True),
    "gone, as was settled before": ({"ending": Ending.GONE.value}, None, None, False),
}  # fmt: skip


@pytest.mark.parametrize("case", MAY_BE_THERE)
def test_where_a_vm_may_be(case: str) -> None:
    words, here, seen, expected = MAY_BE_THERE[case]
    nodes = {"a": Node("a"), "b": Node("b"), "c": Node("c", reachable=False)}
    sightings = {"u": [Sighting(seen, State.RUNNING)]} if seen else {}
    obs = Observation(nodes, {"u": here} if here else {}, sightings)
    entry = VMRecord("u", "web", **words)
    assert may_have(obs, "a", entry, here) == (["c"] if expected else [])
    nodes["c"].reachable = True
    assert may_have(obs, "a", entry, here) == []


def three(*vms, dead: str = "c", size: int = 8192) -> Fleet:
    made = fleet([("a", v) for v in vms], {"a": 8192, "b": size, "c": 8192})
    made.machines[dead].reachable = False
    return made


def test_a_dead_host_is_no_target_and_the_certificate_names_it() -> None:
    made = three(vm(1, "a"), vm(2, "a", state=State.SHUTOFF))
    outcome = run(made)
    assert outcome.phase is NodePhase.DRAINED
    assert outcome.certificate is not None
    assert list(outcome.certificate.unread) == ["c"]
    assert "c does not answer" in outcome.certificate.unread["c"]
    assert "was sent there" in outcome.certificate.unread["c"]
    assert made.machines["b"].domains["u1"].state is State.RUNNING


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("way", ["shutdown", "cold_migrate"])
def test_what_we_stop_is_accounted_for_beside_a_dead_host(way: str, persistent: bool) -> None:
    made = three(vm(1, "a", persistent=persistent, **FIXED))
    outcome = run(made, on(way))
    expected = "stopped" if way == "shutdown" else "cold_moved"
    assert (outcome.phase, ended(outcome)[0]) == (NodePhase.DRAINED, expected)
    assert run(made, on(way), "active", "back").phase is NodePhase.ACTIVE


def test_a_vm_that_left_by_itself_may_be_on_the_dead_host() -> None:
    made = three(vm(1, "a"), vm(2, "a", declared_strategy="External"))
    made.at(made.clock + 5.0, lambda: made.power_off("a", "u2", vanish=True))
    outcome = run(made)
    assert (outcome.phase, outcome.certificate) == (NodePhase.BLOCKED, None)
    assert ended(outcome, "u1") == ("moved", "")
    assert ended(outcome, "u2") == ("blocked", "PeerUnreachable")
    assert "c cannot be read" in outcome.record.vms["u2"].message


def test_a_vm_that_only_the_dead_host_might_take_is_not_stopped() -> None:
    made = three(vm(1, "a", 2048, declared_strategy="LiveMigrateIfPossible"), size=1024)
    outcome = run(made, ALLOWED)
    assert ended(outcome) == ("blocked", "NoTargetWithCapacity")
    assert "do not answer: c" in outcome.record.vms["u1"].message
    assert Do.SHUTDOWN not in {a.do for a in outcome.actions_done}


def test_what_goes_nowhere_is_stopped_beside_a_dead_host_that_would_have_room() -> None:
    made = three(vm(1, "a", 2048, **FIXED), size=1024)
    assert ended(run(made, on("shutdown")))[0] == "stopped"


@pytest.mark.parametrize(
    ("about", "policy"),
    [(FIXED, on("cold_migrate")), ({"state": State.SHUTOFF}, replace(POLICY, move_inactive=True))],
    ids=["runs", "off"],
)
@pytest.mark.parametrize("back", [True, False])
def test_a_cold_move_waits_for_a_host_that_is_silent_for_a_moment(about, policy, back) -> None:
    made = three(vm(1, "a", 2048, **about), size=1024)
    if back:
        made.at(made.clock + 5.0, lambda: setattr(made.machines["c"], "reachable", True))
    outcome = run(made, policy)
    assert ("u1" in made.machines["c"].domains) is back
    assert back or "do not answer: c" in outcome.record.vms["u1"].message
    assert back or Do.SHUTDOWN not in {a.do for a in outcome.actions_done}


@pytest.mark.parametrize(
    ("about", "policy", "how"),
    [({"declared_strategy": "LiveMigrateIfPossible"}, ALLOWED, "moved"), (FIXED, on("cold_migrate"), "cold_moved")],
    ids=["live", "cold"],
)
def test_a_refusal_in_a_look_that_missed_something_stops_nothing(monkeypatch, about, policy, how) -> None:
    """A peer that answers could not be asked about this VM for some seconds: that is not its word."""
    made = fleet([("a", vm(1, "a", **about))], {"a": 8192, "b": 8192})
    whole, until = ModelPlatform.observe, made.clock + 5.0

    def observe(self, record):
        seen = whole(self, record)
        if made.clock > until:
            return seen
        nodes = {**seen.nodes, "b": replace(seen.nodes["b"], capacity_mib=0)}
        return replace(seen, nodes=nodes, full=False)

    monkeypatch.setattr(ModelPlatform, "observe", observe)
    assert ended(run(made, policy)) == (how, "")


def test_it_is_not_started_elsewhere_while_its_cold_target_is_silent() -> None:
    made = three(vm(1, "a", persistent=False, **FIXED), dead="b")
    made.machines["b"].reachable = True
    made.machines["b"].capacity_mib = 9000
    assert ended(run(made, on("cold_migrate"))) == ("cold_moved", "")
    made.machines["b"].reachable = False
    outcome = run(made, on("cold_migrate"), "active", "back")
    assert ended(outcome) == ("blocked", "PeerUnreachable")
    assert "u1" not in made.machines["a"].domains


def test_a_target_that_dies_takes_only_its_own_vms_out_of_the_count() -> None:
    made = three(vm(1, "a"), vm(2, "a"))
    made.machines["c"].reachable = True
    limits = replace(POLICY.limits, inbound=1)
    made.at(made.clock + 0.5, lambda: made.crash("c", 10**6))
    outcome = run(made, replace(POLICY, limits=limits, drain_timeout=2000.0))
    assert outcome.phase is NodePhase.DRAINED
    assert {made.machines["b"].domains[u].state for u in ("u1", "u2")} == {State.RUNNING}


def test_a_refused_claim_names_the_host_that_died() -> None:
    made = three(vm(1, "a"))
    why = Finding(Reason.PeerUnreachable, "b does not answer")
    outcome = run(made, POLICY, fails=lambda a: why if a.do is Do.MIGRATE else None)
    assert outcome.phase is NodePhase.BLOCKED
    assert "b does not answer" in outcome.record.vms["u1"].message


@quick
@given(
    fleets(ample=True),
    plans(ALL_EVENTS),
    st.sampled_from("de"),
    st.one_of(st.none(), st.floats(0.0, 300.0)),
    st.one_of(st.just(0.0), st.floats(0.0, 60.0)),
)
def test_a_host_that_is_dead_for_a_time(made, plan, name, back, since) -> None:
    """From the start or from some moment on, for good or not: nothing is lost, nothing runs twice,
    no certificate is false (see observer.py), and each run ends."""
    machine = made.machines[name]

    def down() -> None:
        machine.reachable = False

    down() if not since else made.at(made.clock + since, down)
    if back is not None:
        made.at(made.clock + since + back, lambda: setattr(machine, "reachable", True))
    world = World(made, allowed(), plan, 30.0)
    for done in world.go(Run("a"), Run("b"), Run("c")):
        event(done.result.phase.value)
        assert done.result.phase in (NodePhase.DRAINED, NodePhase.BLOCKED)


@quick
@given(fleets(("live", "autostart", "transient", "shutdown", "cold"), ("ok",), ample=True))
def test_a_host_that_was_always_dead_holds_up_nobody(made) -> None:
    made.machines["e"].up = False
    world = World(made, allowed(), [], 30.0)
    for done in world.go(Run("a"), Run("b"), Run("c")):
        assert done.result.phase is NodePhase.DRAINED
        assert list(done.result.certificate.unread) == ["e"]
