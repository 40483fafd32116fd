"""Hooks of rules: nothing is done with a VM before its `before`, and each pair is closed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.hooks import record_answers
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Hooks, PolicyError, Rule
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.order import plan_roll
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, SliceEnd
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.bench.plan_bench import request
from ansible_collections.virtops.maintenance.tests.bench.plan_fleets import make
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.hooked import (
    BOTH,
    WEB,
    Caller,
    hooked,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import FIXED, on, two
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, vm
from fleetsim.machines import Fate
from fleetsim.platform import ModelPlatform
from fleetsim.simulate import simulate


def test_a_vm_waits_for_its_hook_and_the_others_go_on() -> None:
    made = two(vm(1, "a", **WEB), vm(2, "a"))
    caller = Caller(made, hooked())
    outcome, waiting = caller.slice("run", "drained", False, [])
    assert (outcome.ended, outcome.phase) == (SliceEnd.HOOKS_PENDING, NodePhase.DRAINING)
    (need,) = waiting
    assert need == {
        "kind": "hook",
        "hook": "before",
        "tasks": "out.yml",
        "name": "vm1",
        "uuid": "u1",
        "namespace": "",
        "node": "a",
        "target": "b",
        "way": "migrate",
        "verdict": "pending",
        "decided_by": "default, with rule web",
    }
    assert outcome.record.vms["u1"].reason == Reason.HookPending.value
    assert [a.vm for a in caller.acts if a.do is Do.MIGRATE] == ["u2"]
    again, waiting = caller.slice("run", "drained", True, [])
    assert again.ended is SliceEnd.HOOKS_PENDING and [need["uuid"] for need in waiting] == ["u1"]


def test_before_then_the_move_then_after_then_drained() -> None:
    caller = Caller(two(vm(1, "a", **WEB)), hooked())
    outcome = caller.run()
    assert outcome.phase is NodePhase.DRAINED and outcome.certificate is not None
    assert caller.asked == [("before", "u1"), ("after", "u1")]
    assert caller.run(name="again").phase is NodePhase.DRAINED  # nothing is asked for twice
    assert len(caller.asked) == 2


def test_an_unanswered_after_keeps_the_node_from_drained() -> None:
    caller = Caller(two(vm(1, "a", **WEB)), hooked())
    caller.fails = {("after", "u1")}
    outcome = caller.run()
    assert outcome.phase is NodePhase.DRAINING and outcome.certificate is None
    (finding,) = outcome.findings
    assert finding.reason is Reason.HookPending and "vm1" in finding.message
    assert outcome.record.vms["u1"].ending == "moved"
    caller.fails = set()
    assert caller.run(name="next").phase is NodePhase.DRAINED
    assert caller.asked == [("before", "u1"), ("after", "u1"), ("after", "u1")]


def test_a_hook_that_fails_leaves_the_vm_untouched_and_is_asked_for_again() -> None:
    made = two(vm(1, "a", **WEB))
    caller = Caller(made, hooked())
    caller.fails = {("before", "u1")}
    caller.run()
    caller.run(name="next")
    assert made.machines["a"].domains["u1"].state is State.RUNNING
    assert {a.do for a in caller.acts} == {Do.CORDON}
    assert caller.asked == [("before", "u1")] * 2


@pytest.mark.parametrize("kind", ["shutdown", "save", "cold_migrate"])
def test_no_stop_before_the_hook(kind: str) -> None:
    caller = Caller(two(vm(1, "a", autostart=True, **FIXED, **WEB)), hooked(on(kind)))
    assert caller.run().phase is NodePhase.DRAINED
    assert caller.asked == [("before", "u1"), ("after", "u1")]


def test_a_stopped_vm_has_after_again_when_it_was_started() -> None:
    made = two(vm(1, "a", **FIXED, **WEB))
    caller = Caller(made, hooked(on("shutdown")))
    caller.run()
    assert made.machines["a"].domains["u1"].state is State.SHUTOFF
    assert caller.run("active", "back").phase is NodePhase.ACTIVE
    assert made.machines["a"].domains["u1"].state is State.RUNNING
    assert caller.asked == [("before", "u1"), ("after", "u1"), ("after", "u1")]
    assert ModelPlatform(made, "a").load() is None


def test_a_restore_closes_what_a_drain_has_opened() -> None:
    """It was prepared, and then could not move."""
    made = two(vm(1, "a", **WEB), vm(2, "a"))
    caller = Caller(made, hooked())
    outcome, waiting = caller.slice("run", "drained", False, [])
    made.machines["b"].up = False
    answered, _none = caller.slice("run", "drained", True, waiting) if waiting else (outcome, [])
    made.machines["b"].up = True
    caller.asked.clear()
    caller.opened.add("u1")
    assert answered.record.vms["u1"].hook_stage == "before"
    back = caller.run("active", "back")
    assert back.phase is NodePhase.ACTIVE
    assert caller.asked == [("after", "u1")]
    assert not made.machines["a"].cordons


def test_a_restore_closes_what_may_have_been_opened() -> None:
    """The tasks failed, or were killed: how far they came nobody knows."""
    caller = Caller(two(vm(1, "a", **WEB)), hooked())
    caller.fails = {("before", "u1")}
    caller.run()
    assert caller.run("active", "back").phase is NodePhase.ACTIVE
    assert caller.asked == [("before", "u1"), ("after", "u1")]


def test_a_restore_asks_for_nothing_that_was_not_asked_for() -> None:
    made = two(vm(1, "a", **FIXED, **WEB))
    caller = Caller(made, hooked())
    assert caller.run().phase is NodePhase.BLOCKED
    assert caller.run("active", "back").phase is NodePhase.ACTIVE
    assert caller.asked == []


def test_only_after() -> None:
    caller = Caller(two(vm(1, "a", **WEB), vm(2, "a")), hooked(hooks=Hooks(after="back.yml")))
    assert caller.run().phase is NodePhase.DRAINED
    assert caller.asked == [("after", "u1")]


def test_the_owner_is_asked_after_the_hook() -> None:
    made = two(vm(1, "a", declared_strategy="External", **WEB))
    caller = Caller(made, hooked(hooks=Hooks(before="out.yml")))
    outcome, waiting = caller.slice("run", "drained", False, [])
    assert outcome.ended is SliceEnd.HOOKS_PENDING and not made.machines["a"].domains["u1"].marked
    caller.opened.add("u1")
    caller.slice("run", "drained", True, waiting)
    assert Do.MARK in {a.do for a in caller.acts}


def test_no_more_are_prepared_than_can_move() -> None:
    """Not all web servers are taken out of service for as long as the drain lasts."""
    made = two(*(vm(n, "a", **WEB) for n in range(1, 6)), vm(6, "a"))
    caller = Caller(made, hooked())
    assert caller.run().phase is NodePhase.DRAINED
    befores = [[uuid for hook, uuid in asked if hook == "before"] for asked in caller.rounds]
    assert max(len(asked) for asked in befores) <= POLICY.limits.outbound
    assert sorted(uuid for asked in befores for uuid in asked) == ["u1", "u2", "u3", "u4", "u5"]
    # The one without a hook did not wait for them.
    assert next(a.vm for a in caller.acts if a.do is Do.MIGRATE) == "u6"


def test_one_that_was_moved_back_is_asked_for_anew() -> None:
    made = two(vm(1, "a", **WEB))
    caller = Caller(made, hooked())
    caller.run()
    made.machines["a"].domains["u1"] = made.machines["b"].domains.pop("u1")
    assert caller.run(name="next").phase is NodePhase.DRAINED
    assert caller.asked == [("before", "u1"), ("after", "u1")] * 2


def test_the_nodes_deadline_ends_the_waiting() -> None:
    made = two(vm(1, "a", **WEB))
    caller = Caller(made, hooked())
    caller.slice("run", "drained", False, [])
    made.advance(made.clock + POLICY.drain_timeout + 1.0)
    outcome, waiting = caller.slice("run", "drained", True, [])
    # Nobody knows how far its tasks came, and it runs on where it is.
    assert [(need["hook"], need["verdict"]) for need in waiting] == [("after", "blocked")]
    outcome, waiting = caller.slice("run", "drained", True, waiting)
    entry = outcome.record.vms["u1"]
    assert (outcome.ended, outcome.phase, waiting) == (SliceEnd.FINAL, NodePhase.BLOCKED, [])
    assert entry.reason == Reason.DeadlineExceeded.value and "HookPending" in entry.message


def test_what_cannot_move_after_all_is_put_back_into_service() -> None:
    """All attempts fail. It runs where it was, and the drain does not leave it prepared."""
    made = two(vm(1, "a", **WEB))
    made.fate = lambda _vm, _attempt: Fate(fail_at=0.5)
    caller = Caller(made, hooked())
    outcome = caller.run()
    entry = outcome.record.vms["u1"]
    assert (outcome.phase, entry.reason) == (NodePhase.BLOCKED, Reason.AttemptsUsedUp.value)
    assert caller.asked == [("before", "u1"), ("after", "u1")]
    made.fate = lambda _vm, _attempt: Fate()
    assert caller.run(name="next").phase is NodePhase.DRAINED
    assert caller.asked == [("before", "u1"), ("after", "u1")] * 2


def test_a_blocked_vm_is_not_prepared() -> None:
    caller = Caller(two(vm(1, "a", **FIXED, **WEB)), hooked())
    assert caller.run().phase is NodePhase.BLOCKED
    assert caller.asked == []


def test_a_pair_that_is_open_is_closed_without_its_rule() -> None:
    made = two(vm(1, "a", **WEB))
    caller = Caller(made, hooked())
    _outcome, waiting = caller.slice("run", "drained", False, [])
    caller.opened.add("u1")
    caller.policy = replace(POLICY, rules=(Rule("none", lambda _document: False),))
    outcome, waiting = caller.slice("run", "drained", True, waiting)
    assert outcome.ended is SliceEnd.HOOKS_PENDING
    assert [(need["hook"], need["tasks"]) for need in waiting] == [("after", "back.yml")]


def test_a_plan_names_the_hooks_and_does_not_wait() -> None:
    made = two(vm(1, "a", **WEB))
    seen = ModelPlatform(made, "a").observe(None)
    forecast = simulate(seen, hooked(), "a")
    assert forecast.phase is NodePhase.DRAINED


def test_the_plan_of_a_roll_names_them_too() -> None:
    plain = request(make(4, 8, 1))
    rule = Rule("all", lambda _document: True, hooks=BOTH)
    plan = plan_roll(replace(plain, policy=replace(plain.policy, rules=(rule,))))
    assert plan.fits and plan.moves == plan_roll(plain).moves > 0
    whys = {move.why for step in plan.steps for move in step.moves}
    assert whys == {"LiveMigrate, default, with rule all; hooks before and after"}


def test_one_vm_that_is_asked_to_move_has_no_hooks() -> None:
    """They belong to the maintenance of its node."""
    made = two(vm(1, "a", **WEB))
    platform = ModelPlatform(made, "a")
    now, boot_id = platform.now(), platform.own.boot_id
    record = begin(None, "a", "migrated", "run", now, boot_id, only="u1")
    outcome = Engine(platform, hooked(), record).run(now + 2000.0)
    assert outcome.phase is NodePhase.MIGRATED


@pytest.mark.parametrize(
    ("given_back", "text"),
    [
        ({"uuid": "u9", "hook": "before"}, "no VM with the UUID 'u9'"),
        ({"uuid": "u1", "hook": "during"}, "expected before or after"),
        ({"uuid": "u1"}, "expected before or after"),
        ({"hook": "after"}, "no VM with the UUID None"),
    ],
)
def test_an_answer_to_nothing_is_an_error(given_back: dict[str, str], text: str) -> None:
    caller = Caller(two(vm(1, "a", **WEB)), hooked())
    with pytest.raises(PolicyError, match=text):
        caller.slice("run", "drained", False, [given_back])
    record = NodeRecord(node="a", run_id="r")
    with pytest.raises(PolicyError):
        record_answers(record, [given_back])


def test_the_same_answer_twice_changes_nothing() -> None:
    caller = Caller(two(vm(1, "a", **WEB)), hooked())
    _outcome, waiting = caller.slice("run", "drained", False, [])
    caller.opened.add("u1")
    outcome, after = caller.slice("run", "drained", True, waiting + waiting)
    record_answers(outcome.record, after)
    record_answers(outcome.record, waiting)
    assert outcome.record.vms["u1"].hook_stage == "after"
