"""Claims and acts that are refused: how long that goes on, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import (
    Action,
    Decision,
    Do,
    NodePhase,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.failed_targets import (
    A_WHILE,
    failed_targets,
    left_alone,
    warnings,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Reservation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits, MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run import engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import (
    FIXED,
    ended,
    on,
    run,
    two,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, fleet, vm
from fleetsim.machines import Fate, Move
from fleetsim.platform import ModelPlatform

FULL = Finding(Reason.MigrationFailed, "migrate: the migration agent does not start: disk full")


def drain(made, node="a", policy=POLICY, claims: Callable | None = None, seconds=5000.0, fails=None, **more):
    """A drain whose claims are answered by `claims(action, the platform's own answer)`."""
    platform = ModelPlatform(made, node)
    platform.fails = fails or platform.fails
    own, asked = platform.claim, []

    def claim(wanted, limits):
        asked.extend(a.target for a in wanted)
        answers = own(wanted, limits)
        return {a.vm: claims(a, answers[a.vm]) if claims else answers[a.vm] for a in wanted}

    platform.claim = claim  # type: ignore[method-assign]
    more = {"intent": "drained", "run_id": "run", **more}
    record = begin(None, node, now=platform.now(), boot_id=platform.own.boot_id, **more)
    begun = made.clock
    outcome = Engine(platform, policy, record).run(platform.now() + seconds)
    return outcome, asked, made.clock - begun


def refusing(what: Do, finding: Finding) -> Callable[[Action], Finding | None]:
    return lambda action: finding if action.do is what else None


def test_a_refused_migration_is_told_with_the_words_of_the_refusal() -> None:
    outcome = run(two(vm(1, "a")), fails=refusing(Do.MIGRATE, FULL))
    assert ended(outcome) == ("blocked", "AttemptsUsedUp")
    entry = outcome.record.vms["u1"]
    assert "disk full" in entry.message
    assert [(a.ended, a.ok, a.reason) for a in entry.attempts] == [
        (True, False, "MigrationFailed")
    ] * POLICY.max_attempts


def test_a_migration_that_was_refused_and_goes_on_is_followed_to_its_end() -> None:
    """The answer was lost, not the request."""
    made = two(vm(1, "a"))

    def lost(action: Action) -> Finding | None:
        if action.do is Do.MIGRATE:
            fate, settings = made.fate("u1", 1), MigrationSettings()
            made.migrate(Move("u1", "a", "b", action.attempt, settings, fate, run_id="run"))
            return Finding(Reason.MigrationFailed, "migrate: the migration agent did not answer")
        return None

    outcome, _asked, _seconds = drain(made, seconds=2.0, fails=lost)
    assert [(a.ended, a.reason) for a in outcome.record.vms["u1"].attempts] == [(False, "")]
    outcome = run(made)
    assert (outcome.phase, ended(outcome)) == (NodePhase.DRAINED, ("moved", ""))
    assert [a.reason for a in outcome.record.vms["u1"].attempts] == [""]


@pytest.mark.parametrize(("do", "intent"), [(Do.CORDON, "drained"), (Do.UNCORDON, "active"), (Do.FORGET, "active")])
def test_a_node_act_that_is_refused_ends_in_time_and_says_why(do: Do, intent: str) -> None:
    made = two(vm(1, "a"))
    if intent == "active":
        run(made)
    before = made.clock
    why = Finding(Reason.MigrationFailed, f"{do.value}: the pool is full")
    outcome = run(made, POLICY, intent, "again", refusing(do, why))
    assert (outcome.phase, outcome.ended.value) == (NodePhase.BLOCKED, "final")
    assert why in outcome.findings
    assert made.clock - before < POLICY.pending_timeout + 30.0
    outcome = run(made, POLICY, intent, "third")
    assert outcome.findings == ()


def test_a_record_whose_removal_was_refused_once_does_not_come_back() -> None:
    made = two(vm(1, "a"))
    run(made)
    refusals = [Finding(Reason.PeerUnreachable, "forget: the connection broke")]

    def once(action: Action) -> Finding | None:
        return refusals.pop() if action.do is Do.FORGET and refusals else None

    outcome = run(made, intent="active", name="back", fails=once)
    assert (outcome.phase, made.machines["a"].record) == (NodePhase.ACTIVE, None)
    assert not refusals


def test_a_refused_cordon_ends_in_time_beside_a_vm_that_is_blocked() -> None:
    made = two(vm(1, "a", **FIXED))
    why = Finding(Reason.MigrationFailed, "cordon: the pool is full")
    outcome, _asked, seconds = drain(made, fails=refusing(Do.CORDON, why))
    assert (outcome.phase, outcome.ended.value) == (NodePhase.BLOCKED, "final") and why in outcome.findings
    assert seconds < POLICY.pending_timeout + 30.0


@pytest.mark.parametrize("blocked", [False, True])
def test_a_claim_of_no_vm_that_cannot_be_given_back_ends_in_time(blocked: bool) -> None:
    made = two(vm(1, "a", **(FIXED if blocked else {})))
    made.machines["b"].claims["gone", "a"] = Reservation("gone", "b", "a", 1024)
    why = Finding(Reason.PeerUnreachable, "release: the pool is read-only")

    def stray(action: Action) -> Finding | None:
        return why if action.do is Do.RELEASE and action.vm == "gone" else None

    outcome, _asked, seconds = drain(made, fails=stray)
    assert (outcome.phase, outcome.ended.value) == (NodePhase.BLOCKED, "final") and why in outcome.findings
    assert seconds < POLICY.pending_timeout + 60.0


def test_whatever_is_decided_a_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision that wishes the same for ever, and knows of no deadline."""
    made = two(vm(1, "a"))
    run(made)

    def never(obs, records, *_more):
        return Decision({**records}, {"a": NodePhase.RESTORING}, [Action(Do.UNCORDON, "a")])

    monkeypatch.setattr(engine, "decide", never)
    outcome, _asked, seconds = drain(made, intent="active", fails=refusing(Do.UNCORDON, FULL))
    assert (outcome.phase, outcome.ended.value) == (NodePhase.BLOCKED, "final")
    assert "still to be done: uncordon" in outcome.findings[-1].message
    assert POLICY.drain_timeout < seconds < POLICY.drain_timeout + 200.0


def test_claims_that_are_refused_end_with_the_refusal_at_pending_timeout() -> None:
    """Two of the three quorum hosts are down."""
    made = fleet([("d", vm(1, "d"))], dict.fromkeys("abcd", 8192))
    for name in "ab":
        made.machines[name].reachable = False
    policy = replace(POLICY, drain_timeout=3600.0)
    outcome, asked, seconds = drain(made, "d", policy)
    assert ended(outcome) == ("blocked", "PeerUnreachable")
    assert "a" in outcome.record.vms["u1"].message
    assert POLICY.pending_timeout < seconds < POLICY.pending_timeout + 30.0
    assert asked


def test_a_cold_migration_whose_claims_are_refused_ends_too() -> None:
    why = Finding(Reason.PeerUnreachable, "b does not answer")
    policy = replace(on("cold_migrate"), drain_timeout=3600.0)
    made = two(vm(1, "a", **FIXED))
    outcome, _asked, seconds = drain(made, policy=policy, claims=lambda _a, _own: why)
    assert ended(outcome) == ("blocked", "PeerUnreachable")
    assert seconds < POLICY.pending_timeout + 30.0
    assert made.machines["a"].domains["u1"].active


def test_a_queue_is_waited_in_to_the_nodes_deadline_which_names_it() -> None:
    why = Finding(Reason.WaitingForSlot, "5 migrations are in flight in the cluster already.")
    outcome, _asked, seconds = drain(two(vm(1, "a")), claims=lambda _a, _own: why)
    assert ended(outcome) == ("blocked", "DeadlineExceeded")
    assert "5 migrations are in flight" in outcome.record.vms["u1"].message
    assert seconds > POLICY.drain_timeout


def test_whoever_holds_all_places_of_the_fleet_is_named() -> None:
    """A host that died in the middle of its drain keeps its places, and nobody gives them back."""
    made = two(vm(1, "a"))
    gone = {(f"gone{n}", "z") for n in range(POLICY.limits.cluster - 1)}
    made.machines["a"].slots = gone | {("other", "y")}
    outcome, asked, _seconds = drain(made)
    assert ended(outcome) == ("blocked", "DeadlineExceeded")
    message = outcome.record.vms["u1"].message
    assert "WaitingForSlot" in message
    assert f"y 1, z {POLICY.limits.cluster - 1}" in message
    assert not asked


def test_one_grant_ends_the_count_of_refusals() -> None:
    """Refused for a while, granted, failed, refused again: no refusal lasted long."""
    made = two(vm(1, "a"))
    why = Finding(Reason.PeerUnreachable, "b does not answer")
    times = [0.0]

    def now_and_then(_action, own):
        times[0] = times[0] or made.clock
        return why if made.clock - times[0] < POLICY.pending_timeout - 5.0 else own

    outcome, _asked, _seconds = drain(made, claims=now_and_then)
    assert ended(outcome) == ("moved", "")
    assert outcome.record.vms["u1"].refused_since is None


def test_a_target_that_refuses_the_claim_gives_way_to_the_next_one() -> None:
    """Two migrations of others go to the roomiest node."""
    made = fleet([("a", vm(1, "a"))], {"a": 8192, "b": 9000, "c": 8192})
    why = Finding(Reason.WaitingForSlot, "b already receives 2 migrations.")
    outcome, asked, _seconds = drain(made, claims=lambda action, own: why if action.target == "b" else own)
    assert (asked, ended(outcome)) == (["b", "c"], ("moved", ""))


def test_when_all_have_refused_each_is_asked_again() -> None:
    made = fleet([("a", vm(1, "a"))], {"a": 8192, "b": 9000, "c": 8192})
    why = Finding(Reason.WaitingForSlot, "full")
    _outcome, asked, _seconds = drain(made, claims=lambda _a, _own: why, seconds=6.0)
    assert asked[:5] == ["b", "c", "b", "c", "b"]


def test_one_vm_alone_keeps_to_the_limit_of_its_node() -> None:
    made = fleet([("a", vm(n, "a")) for n in (1, 2, 3)], {"a": 8192, "b": 9000, "c": 8192})
    policy = replace(POLICY, limits=Limits(10, 1, 10))
    for uuid in ("u1", "u2", "u3"):
        drain(made, policy=policy, seconds=0.5, intent="migrated", run_id=uuid, only=uuid)
        made.machines["a"].record = None
    assert list(made.moves) == ["u1"]
    outcome, _asked, _seconds = drain(made, policy=policy, intent="migrated", only="u2")
    assert ended(outcome, "u2") == ("moved", "")


@pytest.mark.parametrize("more", [0, 1], ids=["one target", "and one with room"])
def test_a_target_without_space_is_tried_as_often_as_any_other(more: int) -> None:
    """Not for as long as the drain lasts: time does not mend that."""
    made = fleet([("a", vm(1, "a"))], {"a": 8192, "b": 8192, **({"c": 4096} if more else {})})
    why = Finding(Reason.TargetStoreFull, "b: No space left on device")
    platform, asked = ModelPlatform(made, "a"), list[str]()
    grant = platform.claim

    def claim(wanted, limits):
        asked.extend(action.target for action in wanted)
        full = {action.vm: why for action in wanted if action.target == "b"}
        rest = [action for action in wanted if action.target != "b"]
        return {**full, **grant(rest, limits)}

    platform.claim = claim
    record = begin(None, "a", "drained", "run", platform.now(), platform.own.boot_id)
    outcome = Engine(platform, POLICY, record).run(platform.now() + 2000.0)
    if more:
        assert ended(outcome) == ("moved", "")
        return
    assert outcome.phase is NodePhase.BLOCKED
    assert ended(outcome) == ("blocked", "TargetStoreFull")
    assert len(asked) == POLICY.max_attempts + 1


def test_one_that_waits_for_migrations_of_others_says_so() -> None:
    """They come to its only target, or leave its node."""
    made = two(vm(1, "a"))
    made.machines["b"].other_inbound = POLICY.limits.inbound
    outcome, asked, seconds = drain(made)
    assert (asked, ended(outcome)) == ([], ("blocked", "DeadlineExceeded"))
    assert "WaitingForSlot" in outcome.record.vms["u1"].message
    assert "b cannot receive more than 2" in outcome.record.vms["u1"].message
    assert seconds > POLICY.drain_timeout


def test_one_vm_that_waits_for_others_that_leave_its_node_says_so() -> None:
    made = fleet([("a", vm(n, "a")) for n in (1, 2)], {"a": 8192, "b": 9000})
    policy = replace(POLICY, limits=Limits(10, 1, 10))
    drain(made, policy=policy, seconds=0.5, intent="migrated", run_id="u1", only="u1")
    made.machines["a"].record = None
    outcome, _asked, _seconds = drain(made, policy=policy, seconds=0.5, intent="migrated", run_id="u2", only="u2")
    entry = outcome.record.vms["u2"]
    assert (entry.reason, entry.message) == (
        "WaitingForSlot",
        "1 migration by others from a under way; 1 may run at once.",
    )


def _three(*vms):
    """b has most room."""
    return fleet([("a", one) for one in vms], {"a": 8192, "b": 8192, "c": 6144})


def _to(host: str, finding: Finding) -> Callable[[Action], Finding | None]:
    return lambda action: finding if action.do is Do.MIGRATE and action.target == host else None


NOWHERE = Finding(Reason.MigrationFailed, "unable to connect to server at '198.51.100.1:49152'")


def test_after_a_failure_another_target_is_taken() -> None:
    outcome, _asked, _seconds = drain(_three(vm(1, "a")), fails=_to("b", NOWHERE))
    assert ended(outcome) == ("moved", "")
    assert [(a.target, a.ok) for a in outcome.record.vms["u1"].attempts] == [("b", False), ("c", True)]


def test_a_guest_that_does_not_converge_is_not_tried_again() -> None:
    """Its rate, and the link, are the same for any target."""
    why = Finding(Reason.NotConverging, "writes 180 MiB/s, the link carries 47 MiB/s")
    outcome, _asked, _seconds = drain(_three(vm(1, "a")), fails=refusing(Do.MIGRATE, why))
    assert ended(outcome) == ("blocked", "NotConverging")
    assert "writes 180 MiB/s" in outcome.record.vms["u1"].message
    assert len(outcome.record.vms["u1"].attempts) == 1
    assert warnings(outcome.record) == []


@pytest.mark.parametrize("way", ["the request is refused", "the migration fails"])
def test_what_failed_for_one_vm_is_not_tried_by_the_next(way: str) -> None:
    policy = replace(POLICY, limits=Limits(outbound=1))
    made, fails = _three(vm(1, "a"), vm(2, "a")), None
    if way == "the request is refused":
        fails = _to("b", NOWHERE)
    else:
        made.fate = lambda _vm, _attempt: Fate(refused_by=frozenset({"b"}), refusal=Reason.MigrationFailed)
    outcome, _asked, _seconds = drain(made, fails=fails, policy=policy)
    tried = [a.target for entry in outcome.record.vms.values() for a in entry.attempts]
    assert sorted(tried) == ["b", "c", "c"]
    (text,) = warnings(outcome.record)
    assert text.startswith("b failed as a target of vm1 with MigrationFailed: ")


def test_blocked_when_all_targets_have_failed() -> None:
    def fails(action: Action) -> Finding | None:
        return NOWHERE if action.do is Do.MIGRATE else None

    outcome, _asked, _seconds = drain(_three(vm(1, "a")), fails=fails, policy=replace(POLICY, max_attempts=4))
    assert ended(outcome) == ("blocked", "AttemptsUsedUp")
    entry = outcome.record.vms["u1"]
    assert [a.target for a in entry.attempts] == ["b", "c", "b", "c"]
    assert "4 attempts, to b, c; the last failed with " in entry.message


def test_a_host_that_failed_for_several_is_left_alone_and_named() -> None:
    """Also where the other one has no place: that is waited for."""
    made = _three(*(vm(n, "a") for n in range(1, 5)))
    outcome, _asked, _seconds = drain(made, fails=_to("b", NOWHERE), policy=replace(POLICY, limits=Limits(inbound=1)))
    assert outcome.phase is NodePhase.DRAINED
    tried = [a.target for entry in outcome.record.vms.values() for a in entry.attempts]
    assert tried.count("c") == 4 and tried.count("b") <= 2
    assert "b failed" in warnings(outcome.record)[0]


def _failed(host: str, at: float, reason: str = "MigrationFailed", run_id: str = "run", ok: bool = False) -> Attempt:
    why = "" if ok else reason
    return Attempt(1, host, "", at - 1, "boot", run_id=run_id, ended=True, ended_at=at, ok=ok, reason=why)


def _record(*attempts: Attempt) -> NodeRecord:
    vms = {f"u{n}": VMRecord(f"u{n}", f"vm-{n}", attempts=[one]) for n, one in enumerate(attempts)}
    return NodeRecord("a", "run", vms=vms)


@pytest.mark.parametrize(
    ("attempts", "failed", "alone"),
    [
        ([_failed("b", 10)], {"b"}, set()),
        ([_failed("b", 10), _failed("b", 20)], {"b"}, {"b"}),
        ([_failed("b", 10), _failed("b", 15, ok=True)], set(), set()),
        ([_failed("b", 10), _failed("b", 15, ok=True), _failed("b", 20)], {"b"}, set()),
        ([_failed("b", 10, reason="AbortRequested"), _failed("b", 20, reason="CompletionTimeout")], set(), set()),
        ([_failed("b", 10, reason="MigrationBlockedByQEMU")], set(), set()),
        ([_failed("b", 10, run_id="before")], set(), set()),
    ],
)
def test_which_targets_have_failed(attempts: list[Attempt], failed: set[str], alone: set[str]) -> None:
    found = failed_targets(_record(*attempts))
    assert set(found) == failed
    assert left_alone(found, 30.0) == alone
    assert left_alone(found, 20.0 + A_WHILE) == set()
    assert ["It is not used" in text for text in warnings(_record(*attempts))] == [bool(alone)] * len(failed)
