"""Ours and others': what a run may touch, what it must not conclude, what it has to ask again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    OnNotMigratable,
    Reservation,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.rows import rows
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import (
    ALLOWED,
    FIXED,
    ended,
    on,
    run,
    two,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, vm
from fleetsim.machines import Fate, Move
from fleetsim.platform import ModelPlatform

LOCAL = (Finding(Reason.DisksNotLiveMigratable, "a local disk"),)


def test_a_definition_of_others_stays_where_it_is() -> None:
    """A cluster manager defines every VM on all hosts; this one runs on b."""
    made = two(vm(1, "a", state=State.SHUTOFF))
    made.machines["b"].domains["u1"] = vm(1, "b")
    outcome = run(made)
    assert outcome.phase is NodePhase.DRAINED
    assert made.machines["a"].domains["u1"].state is State.SHUTOFF
    assert run(made, intent="active", name="back").phase is NodePhase.ACTIVE
    assert made.machines["a"].domains["u1"].state is State.SHUTOFF


@pytest.mark.parametrize(
    ("crashed", "expected"), [(True, ("blocked", "VMCrashed")), (False, ("gone", "StoppedByItself"))]
)
def test_a_crash_is_no_drain(crashed: bool, expected: tuple[str, str]) -> None:
    made = two(vm(1, "a", declared_strategy="External"))
    assert run(made).phase is NodePhase.BLOCKED
    domain = made.machines["a"].domains["u1"]
    domain.state, domain.spec = State.SHUTOFF, replace(domain.spec, crashed=crashed)
    outcome = run(made, name="again")
    assert ended(outcome) == expected
    assert (outcome.phase is NodePhase.DRAINED) is not crashed


def test_a_vm_that_went_down_after_its_move_is_told_so() -> None:
    made = two(vm(1, "a"), vm(2, "a", declared_strategy="External"))
    run(made)
    made.machines["b"].domains["u1"].state = State.SHUTOFF
    assert ended(run(made, name="again")) == ("gone", "StoppedByItself")


def test_who_was_stopped_and_started_by_hand_is_not_stopped_again_without_leave() -> None:
    made = two(vm(1, "a", declared_strategy="None"))
    assert ended(run(made, ALLOWED)) == ("stopped", "")
    domain = made.machines["a"].domains["u1"]
    domain.state, domain.off_at = State.RUNNING, None
    assert ended(run(made, POLICY, name="again")) == ("blocked", "StopNotAllowed")
    assert (domain.state, domain.off_at) == (State.RUNNING, None)


def test_a_stop_that_the_next_run_does_not_want_is_taken_back() -> None:
    made = two(vm(1, "a", declared_strategy="None", shutdown_takes=None, autostart=True))

    def killed(action):
        if action.do is Do.SHUTDOWN:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(made, ALLOWED, fails=killed)
    assert not made.machines["a"].domains["u1"].autostart
    assert ended(run(made, POLICY, name="again")) == ("blocked", "StopNotAllowed")
    assert made.machines["a"].domains["u1"].autostart


def test_nothing_is_started_while_a_host_that_may_have_it_is_not_given() -> None:
    made = two(vm(1, "a", persistent=False, **FIXED))
    assert ended(run(made, on("cold_migrate"))) == ("cold_moved", "")
    away = made.machines.pop("b")
    outcome = run(made, on("cold_migrate"), "active", "back")
    assert outcome.phase is NodePhase.BLOCKED
    assert ended(outcome) == ("blocked", "PeerUnreachable")
    assert "b (not one of the hosts given)" in outcome.record.vms["u1"].message
    assert "u1" not in made.machines["a"].domains
    assert away.domains["u1"].state is State.RUNNING


@pytest.mark.parametrize("way", ["cold_migrate", "save"])
def test_what_cannot_be_done_off_is_known_before_anything_is_stopped(way: str) -> None:
    domain = vm(1, "a", **FIXED)
    domain.spec = replace(domain.spec, cold_findings=LOCAL, save_findings=LOCAL)
    made = two(domain)
    assert ended(run(made, on(way))) == ("blocked", "DisksNotLiveMigratable")
    assert made.machines["a"].domains["u1"].state is State.RUNNING


def single(made, policy=POLICY, intent: str = "migrated", name: str = "one"):
    platform = ModelPlatform(made, "a")
    record = begin(platform.load(), "a", intent, name, platform.now(), platform.own.boot_id, only="u1")
    return Engine(platform, policy, record).run(platform.now() + 2000.0)


def test_a_person_moves_a_vm_whatever_its_eviction_strategy() -> None:
    made = two(vm(1, "a", declared_strategy="None"))
    outcome = single(made, ALLOWED)
    assert (outcome.phase, ended(outcome)) == (NodePhase.MIGRATED, ("moved", ""))
    assert outcome.record.vms["u1"].decided_by == "asked for"


def test_asked_to_move_it_is_not_stopped_for_good() -> None:
    made = two(vm(1, "a", **FIXED))
    policy = replace(ALLOWED, on_not_migratable=OnNotMigratable.SHUTDOWN)
    assert ended(single(made, policy)) == ("blocked", "HostDeviceNotLiveMigratable")
    assert made.machines["a"].domains["u1"].state is State.RUNNING


@pytest.mark.parametrize(("late", "phase"), [(False, NodePhase.ACTIVE), (True, NodePhase.BLOCKED)])
def test_the_abort_of_one_migration_aborts_it_whoever_asked_for_it(late: bool, phase) -> None:
    """In post-copy it moves on, and the answer is not "aborted"."""
    made = two(vm(1, "a"), vm(2, "a"))
    move = Move("u1", "a", "b", 0, MigrationSettings(), Fate(post_copy=late))
    move.ours = move.asked = False
    made.migrate(move)
    made.advance(made.clock + (2.0 if late else 1.0))
    outcome = single(made, intent="active")
    assert outcome.phase is phase
    assert made.machines["a"].domains["u2"].state is State.RUNNING
    there = "b" if late else "a"
    assert made.machines[there].domains["u1"].state is State.RUNNING
    entry = outcome.record.vms["u1"]
    assert entry.last.abort_status == ("Failed" if late else "Succeeded")
    assert ended(outcome) == (("moved", "TooLateToAbort") if late else ("restored", ""))
    assert entry.message == ("Not aborted: it runs on b." if late else "")


@pytest.mark.parametrize("only", ["", "u1"])
def test_an_abort_in_post_copy_says_at_once_that_the_vm_moves(only: str) -> None:
    """Of one VM it fails; of a host it does not, and the row says the same."""
    made = two(vm(1, "a", memory=4096))
    made.fate = lambda _vm, _attempt: Fate(post_copy=True)
    platform = ModelPlatform(made, "a")
    now, boot_id = platform.now(), platform.own.boot_id
    begun = begin(None, "a", "migrated" if only else "drained", "r", now, boot_id, only=only)
    engine = Engine(platform, POLICY, begun)
    for _step in range(40):
        engine.step()
        made.advance(made.clock + 0.5)
        if made.machines["a"].domains["u1"].state is State.POSTCOPY_SOURCE:
            break
    back = begin(platform.load(), "a", "active", "back", platform.now(), boot_id, only=only)
    engine = Engine(platform, POLICY, back)
    said = rows(engine.step().record, platform.observe(None))[0]
    assert (said["verdict"], said["abort_status"]) == ("pending", "Failed")
    assert said["message"] == "Not aborted: post-copy runs. It moves to b."
    outcome = engine.run(platform.now() + 2000.0)
    assert outcome.phase is (NodePhase.BLOCKED if only else NodePhase.ACTIVE)
    said = rows(outcome.record, outcome.observation)[0]
    assert (said["verdict"], said["reason"]) == ("moved", "TooLateToAbort")
    assert said["message"] == "Not aborted: it runs on b."


def test_the_same_run_id_again_is_a_new_run() -> None:
    made = two(vm(1, "a"))
    made.fate = lambda _vm, _attempt: Fate(fail_at=0.5)
    assert ended(run(made)) == ("blocked", "AttemptsUsedUp")
    made.fate = lambda _vm, _attempt: Fate()
    platform = ModelPlatform(made, "a")
    now, boot_id = platform.now(), platform.own.boot_id
    record = begin(platform.load(), "a", "drained", "run", now, boot_id, fresh=True)
    outcome = Engine(platform, POLICY, record).run(now + 2000.0)
    assert ended(outcome) == ("moved", "")


def begun(made, intent: str = "drained", name: str = "drain"):
    platform = ModelPlatform(made, "a")
    boot_id = platform.own.boot_id
    record = begin(platform.load(), "a", intent, name, platform.now(), boot_id)
    return Engine(platform, POLICY, record)


def others(made, **more) -> Move:
    """Somebody else migrates it: by virsh, or by a run of one VM that the holder works for."""
    move = Move("u1", "a", "b", 1, MigrationSettings(), Fate(), asked=False, **more)
    assert made.migrate(move)
    made.advance(made.clock + 1.0)
    return move


BY_VIRSH = {"held": False, "ours": False}
BY_ANOTHER_RUN = {"run_id": "one"}


def failed_unread(**more):
    """Our attempt has failed, its outcome is written, and nobody has read it: then others begin."""
    made = two(vm(1, "a", memory=4096))
    made.fate = lambda _vm, _attempt: Fate(fail_at=0.1)
    begun(made).step()
    while made.moves:
        made.advance(made.clock + 0.1)
    others(made, **more)
    return made


def never_ordered():
    """Killed between the record and the order. Then another run of ours moves the VM."""
    made = two(vm(1, "a", memory=4096))

    def killed(action):
        if action.do is Do.MIGRATE:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(made, fails=killed, name="drain")
    others(made, **BY_ANOTHER_RUN)
    return made


WORLDS = {
    "by virsh after a failure of ours": lambda: failed_unread(**BY_VIRSH),
    "by another run after a failure of ours": lambda: failed_unread(**BY_ANOTHER_RUN),
    "by another run, ours was never ordered": never_ordered,
}


@pytest.mark.parametrize("world", WORLDS)
def test_a_restore_leaves_the_migration_of_others_alone(world: str) -> None:
    made = WORLDS[world]()
    outcome = run(made, intent="active", name="back")
    assert (outcome.phase, ended(outcome)) == (NodePhase.ACTIVE, ("moved", ""))
    assert made.machines["b"].domains["u1"].state is State.RUNNING


@pytest.mark.parametrize("world", WORLDS)
def test_a_drain_puts_no_deadline_of_ours_on_the_migration_of_others(world: str) -> None:
    made = WORLDS[world]()
    outcome = begun(made, name="again").step()
    last = outcome.record.vms["u1"].last
    assert (last.adopted, last.target, last.ended) == (True, "b", False)
    assert [a.settings for a in outcome.decision.actions if a.do is Do.WATCH] in ([], [None])


def test_a_claim_stays_while_the_holder_has_the_migration_of_another_run() -> None:
    """It copies no memory yet: its disks are made. Ours had failed before."""
    made = two(vm(1, "a"))
    made.fate = lambda _vm, _attempt: Fate(fail_at=0.1)
    assert ended(run(made)) == ("blocked", "AttemptsUsedUp")
    made.machines["b"].claims["u1", "a"] = Reservation("u1", "b", "a", 1024)
    made.start_delay = 1000.0
    others(made, **BY_ANOTHER_RUN)
    outcome = begun(made, name="again").step()
    assert outcome.decision.actions == []
    assert outcome.record.vms["u1"].last.adopted


def test_a_new_run_of_the_same_record_aborts_what_the_first_one_began() -> None:
    made = two(vm(1, "a", memory=4096))
    begun(made).step()
    made.advance(made.clock + 1.0)
    outcome = run(made, intent="active", name="back")
    assert ended(outcome) == ("restored", "")
    assert outcome.record.vms["u1"].last.abort_status == "Succeeded"


def test_the_abort_of_one_migration_aborts_it_while_the_holder_has_it_for_a_drain() -> None:
    made = two(vm(1, "a", memory=4096))
    others(made, run_id="drain")
    outcome = single(made, intent="active")
    assert (outcome.phase, ended(outcome)) == (NodePhase.ACTIVE, ("restored", ""))
    assert made.machines["a"].domains["u1"].state is State.RUNNING
