"""Single stories on the model: what each kind of VM comes to, and check mode, which says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import (
    ALLOWED,
    FIXED,
    ended,
    on,
    run,
    two,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, fleet, vm
from fleetsim.machines import Fate
from fleetsim.platform import ModelPlatform
from fleetsim.simulate import simulate


@pytest.mark.parametrize(
    ("domain", "policy", "phase", "expected"),
    [
        (vm(1, "a"), POLICY, "Drained", ("moved", "")),
        (vm(1, "a", persistent=False), POLICY, "Drained", ("moved", "")),
        (vm(1, "a", state=State.SHUTOFF), POLICY, "Drained", ("off", "")),
        (vm(1, "a", state=State.SHUTOFF), replace(POLICY, move_inactive=True), "Drained",
         ("cold_moved", "")),
        (vm(1, "a", **FIXED), POLICY, "Blocked", ("blocked", "HostDeviceNotLiveMigratable")),
        (vm(1, "a", **FIXED), on("skip"), "Blocked", ("skipped", "SkippedByPolicy")),
        (vm(1, "a", **FIXED), on("shutdown"), "Drained",
         ("stopped", "HostDeviceNotLiveMigratable")),
        (vm(1, "a", **FIXED), on("save"), "Drained", ("saved", "HostDeviceNotLiveMigratable")),
        (vm(1, "a", persistent=False, **FIXED), on("save"), "Blocked",
         ("blocked", "TransientDomain")),
        (vm(1, "a", **FIXED), on("cold_migrate"), "Drained", ("cold_moved", "")),
        (vm(1, "a", persistent=False, **FIXED), on("cold_migrate"), "Drained", ("cold_moved", "")),
        (vm(1, "a", 9999, **FIXED), on("cold_migrate"), "Blocked",
         ("blocked", "NoTargetWithCapacity")),
        (vm(1, "a", declared_strategy="None"), POLICY, "Blocked", ("blocked", "StopNotAllowed")),
        (vm(1, "a", declared_strategy="None"), ALLOWED, "Drained", ("stopped", "")),
        (vm(1, "a", declared_strategy="None", shutdown_takes=None), ALLOWED, "Blocked",
         ("blocked", "ShutdownTimedOut")),
        (vm(1, "a", declared_strategy="None", shutdown_takes=None),
         replace(ALLOWED, force_stop=True), "Drained", ("stopped", "")),
        (vm(1, "a", declared_strategy="External"), POLICY, "Blocked",
         ("blocked", "ExternalOwnerTimedOut")),
        (vm(1, "a", declared_strategy="Never"), POLICY, "Blocked", ("blocked", "Undecided")),
        (vm(1, "a", migratable=None), ALLOWED, "Blocked", ("blocked", "MigratableNotKnown")),
        (vm(1, "a", 9999), POLICY, "Blocked", ("blocked", "NoTargetWithCapacity")),
        (vm(1, "a", state=State.PAUSED), POLICY, "Blocked", ("blocked", "StateNotLiveMigratable")),
        (vm(1, "a", state=State.CRASHED), POLICY, "Blocked", ("blocked", "VMCrashed")),
        (vm(1, "a", dirty=5000.0), POLICY, "Blocked", ("blocked", "AttemptsUsedUp")),
    ],
)  # fmt: skip
def test_what_becomes_of_a_vm(domain, policy, phase, expected) -> None:
    outcome = run(two(replace(domain)), policy)
    assert (outcome.phase.value, *ended(outcome)) == (phase, *expected)
    assert (outcome.certificate is not None) == (phase == "Drained")


def test_a_target_that_refused_for_a_lasting_reason_is_not_asked_again() -> None:
    made = fleet([("a", vm(1, "a"))], {"a": 8192, "b": 9000, "c": 8192})
    made.fate = lambda _vm, _attempt: Fate(refused_by=("b",))
    outcome = run(made)
    assert [a.target for a in outcome.record.vms["u1"].attempts] == ["b", "c"]
    assert ended(outcome) == ("moved", "")


def test_what_qemu_says_of_a_vm_is_not_asked_for_every_target() -> None:
    """Its reason decides as if it had been known before: the policy may stop it."""
    made = fleet([("a", vm(1, "a"))], {"a": 8192, "b": 9000, "c": 8192})
    made.fate = lambda _vm, _attempt: Fate(refused_by=("b", "c"), refusal=Reason.MigrationBlockedByQEMU)
    outcome = run(made)
    assert len(outcome.record.vms["u1"].attempts) == 1
    assert ended(outcome) == ("blocked", "MigrationBlockedByQEMU")
    assert ended(run(made, on("shutdown"), name="again")) == ("stopped", "MigrationBlockedByQEMU")


def test_where_every_target_refuses_it_blocks_at_once_with_their_reason() -> None:
    made = two(vm(1, "a"))
    made.fate = lambda _vm, _attempt: Fate(refused_by=("b",))
    outcome = run(made)
    assert len(outcome.record.vms["u1"].attempts) == 1
    assert ended(outcome) == ("blocked", "NameTaken")
    made.fate = lambda _vm, _attempt: Fate()
    assert ended(run(made, name="again")) == ("moved", ""), "a new run asks again"


def test_killed_between_the_record_and_the_shutdown_it_is_asked_again_at_once() -> None:
    made = two(vm(1, "a", declared_strategy="None"))

    def killed(action):
        if action.do is Do.SHUTDOWN:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(made, ALLOWED, fails=killed)
    assert made.machines["a"].domains["u1"].off_at is None
    outcome = run(made, replace(ALLOWED, shutdown_timeout=5.0), name="again")
    assert ended(outcome) == ("stopped", "")


def test_a_cold_migration_that_is_given_up_gives_its_claim_back() -> None:
    made = two(vm(1, "a", shutdown_takes=None, **FIXED))
    assert ended(run(made, on("cold_migrate"))) == ("blocked", "ShutdownTimedOut")
    assert not made.machines["b"].claims
    assert not any(machine.slots for machine in made.machines.values())


def test_a_stop_is_undone_on_restore_with_autostart_and_definition() -> None:
    for way in ("shutdown", "save", "cold_migrate"):
        for persistent in (True, False):
            if way == "save" and not persistent:
                continue
            made = two(vm(1, "a", persistent=persistent, autostart=persistent, **FIXED))
            assert run(made, on(way)).phase is NodePhase.DRAINED
            assert run(made, on(way), "active", "back").phase is NodePhase.ACTIVE
            there = "b" if way == "cold_migrate" else "a"
            domain = made.machines[there].domains["u1"]
            assert (domain.state, domain.autostart) == (State.RUNNING, persistent)
            assert (domain.persistent, domain.managed_save) == (persistent, False)
            assert not made.machines["a"].cordons


def test_what_is_off_keeps_its_autostart_when_it_is_moved() -> None:
    made = two(vm(1, "a", state=State.SHUTOFF, autostart=True))
    policy = replace(POLICY, move_inactive=True)
    assert ended(run(made, policy)) == ("cold_moved", "")
    domain = made.machines["b"].domains["u1"]
    assert (domain.state, domain.autostart) == (State.SHUTOFF, True)
    assert not any(machine.claims for machine in made.machines.values())
    domain.autostart = False  # somebody does not want it any more
    run(made, policy)
    assert domain.autostart is False


@pytest.mark.parametrize("marked", [True, False])
def test_autostart_and_marks_after_a_move(marked: bool) -> None:
    made = two(vm(1, "a", autostart=True, marked=marked))
    assert run(made).phase is NodePhase.DRAINED
    domain = made.machines["b"].domains["u1"]
    assert (domain.autostart, domain.marked) == (True, False)
    domain.autostart = False  # somebody does not want it any more
    assert run(made, name="again").phase is NodePhase.DRAINED
    assert domain.autostart is False


def test_an_external_owner_is_asked_and_moves_it() -> None:
    made = two(vm(1, "a", declared_strategy="External"))
    domain = made.machines["a"].domains["u1"]
    asked = []

    def owner() -> None:
        asked.append(domain.marked)
        made.machines["b"].domains["u1"] = made.machines["a"].domains.pop("u1")

    made.at(made.clock + 5, owner)
    outcome = run(made)
    assert asked == [True]
    assert outcome.phase is NodePhase.DRAINED
    assert made.machines["b"].domains["u1"].marked is False


@pytest.mark.parametrize("way", ["shutdown", "cold_migrate"])
def test_a_guest_that_would_only_restart_is_not_asked_to_power_off(way: str) -> None:
    domain = vm(1, "a", **FIXED)
    domain.spec = replace(domain.spec, shutdown_findings=(Finding(Reason.RestartsOnPowerOff),))
    outcome = run(two(domain), on(way))
    assert outcome.phase is NodePhase.BLOCKED
    assert ended(outcome) == ("blocked", "RestartsOnPowerOff")
    assert {action.do for action in outcome.actions_done} == {Do.CORDON}


def test_a_crash_of_the_node_is_not_a_drain() -> None:
    """An empty node is also what a crash leaves."""
    made = two(vm(1, "a", **FIXED), vm(2, "a", persistent=False, **FIXED))
    assert run(made).phase is NodePhase.BLOCKED
    made.crash("a", 10.0)
    made.advance(made.clock + 20.0)
    outcome = run(made, name="again")
    assert outcome.phase is NodePhase.BLOCKED
    assert ended(outcome) == ("blocked", "VMCrashed")
    assert ended(outcome, "u2") == ("lost", "VMLost")


def test_a_vm_that_stops_or_vanishes_by_itself_is_named() -> None:
    made = two(vm(1, "a", **FIXED), vm(2, "a", **FIXED))
    run(made)
    made.power_off("a", "u1")
    made.power_off("a", "u2", vanish=True)
    outcome = run(made, name="again")
    assert outcome.phase is NodePhase.DRAINED
    assert ended(outcome) == ("gone", "StoppedByItself")
    assert ended(outcome, "u2") == ("gone", "VMVanished")


def test_a_vm_that_is_lost_while_it_moves_is_never_drained() -> None:
    made = two(vm(1, "a"))
    made.at(made.clock + 1.0, lambda: made.crash("b", 5.0))
    made.at(made.clock + 1.1, lambda: made.power_off("a", "u1", vanish=True))
    outcome = run(made)
    assert outcome.phase is NodePhase.BLOCKED
    assert ended(outcome) == ("lost", "VMLost")


def test_a_lost_vm_is_told_by_each_command_until_a_second_restore_takes_it_for_deleted() -> None:
    made = two(vm(1, "a"))
    made.at(made.clock + 1.0, lambda: made.crash("b", 5.0))
    made.at(made.clock + 1.1, lambda: made.power_off("a", "u1", vanish=True))
    run(made)
    assert ended(run(made, name="again")) == ("lost", "VMLost")
    back = run(made, intent="active", name="back")
    assert (back.phase, ended(back)) == (NodePhase.BLOCKED, ("lost", "VMLost"))
    assert run(made, intent="active", name="a roll's", of_roll=True).phase is NodePhase.BLOCKED
    assert run(made, intent="active", name="back again").phase is NodePhase.ACTIVE
    assert (made.machines["a"].record, run(made, name="anew").phase) == (None, NodePhase.DRAINED)


def test_two_domains_that_run_are_told_and_not_touched() -> None:
    made = two(vm(1, "a"))
    made.machines["b"].domains["u1"] = replace(made.machines["a"].domains["u1"])
    outcome = run(made)
    assert outcome.phase is NodePhase.BLOCKED
    assert ended(outcome) == ("blocked", "RunningTwice")
    assert {a.do for a in outcome.actions_done} == {Do.CORDON}


def test_an_unreachable_peer_is_waited_for_and_then_named() -> None:
    """It went there before the host fell silent."""
    made = two(vm(1, "a"))
    made.at(made.clock + 1.0, lambda: setattr(made.machines["b"], "reachable", False))
    outcome = run(made)
    assert outcome.phase is NodePhase.BLOCKED
    assert "b cannot be read" in outcome.record.vms["u1"].message
    assert ended(outcome) == ("blocked", "PeerUnreachable")
    made.machines["b"].reachable = True
    assert run(made, name="again").phase is NodePhase.DRAINED


def test_no_vm_is_stopped_because_a_host_cannot_be_read() -> None:
    made = two(vm(1, "a", declared_strategy="LiveMigrateIfPossible"))
    made.machines["b"].reachable = False
    made.at(made.clock + 5.0, lambda: setattr(made.machines["b"], "reachable", True))
    assert ended(run(made, ALLOWED)) == ("moved", "")


@pytest.mark.parametrize(
    ("what", "domain", "policy"),
    [
        (Do.FINISH, vm(1, "a", autostart=True), POLICY),
        (Do.RELEASE, vm(1, "a"), POLICY),
        (Do.CLEAN_SOURCE, vm(1, "a"), POLICY),
        (Do.SHUTDOWN, vm(1, "a", **FIXED), on("shutdown")),
        (Do.SAVE, vm(1, "a", **FIXED), on("save")),
        (Do.COLD_DEFINE, vm(1, "a", **FIXED), on("cold_migrate")),
        (Do.COLD_UNDEFINE, vm(1, "a", **FIXED), on("cold_migrate")),
        (Do.COLD_START, vm(1, "a", **FIXED), on("cold_migrate")),
        (Do.AUTOSTART_OFF, vm(1, "a", autostart=True, **FIXED), on("shutdown")),
    ],
)
def test_what_always_fails_is_tried_a_few_times_and_then_blocks(what, domain, policy) -> None:
    made = two(replace(domain))
    made.fate = lambda _vm, _attempt: Fate(leftover=what is Do.CLEAN_SOURCE)
    outcome = run(made, policy, fails=lambda a: Finding(Reason.StopFailed, "no") if a.do is what else None)
    assert outcome.phase is NodePhase.BLOCKED
    assert outcome.ended.value == "final"
    tried = [a for a in outcome.actions_done if a.do is what]
    with_the_stop = what is Do.AUTOSTART_OFF  # once more: that one is no attempt
    assert len(tried) == policy.max_attempts + with_the_stop
    assert ended(outcome)[0] == "blocked"


def test_a_cordon_that_always_fails_blocks() -> None:
    outcome = run(two(vm(1, "a")), fails=lambda a: Finding(Reason.StopFailed, "no") if a.do is Do.CORDON else None)
    assert (outcome.phase, outcome.ended.value) == (NodePhase.BLOCKED, "final")


def test_a_claim_that_stood_is_given_back_before_a_new_attempt() -> None:
    made = two(vm(1, "a"))
    made.fate = lambda _vm, attempt: Fate(fail_at=0.5) if attempt == 1 else Fate()
    outcome = run(made)
    dos = [a.do for a in outcome.actions_done]
    assert outcome.phase is NodePhase.DRAINED
    assert dos == [Do.CORDON, Do.MIGRATE, Do.RELEASE, Do.MIGRATE, Do.RELEASE]
    assert not made.machines["b"].claims


def test_back_off_does_not_hang_after_a_reboot() -> None:
    """Times of an older boot say nothing: the clock begins anew."""
    made = two(vm(1, "a", autostart=True))
    made.fate = lambda _vm, attempt: Fate(fail_at=0.5) if attempt == 1 else Fate()
    platform = ModelPlatform(made, "a")
    made.advance(made.clock + 5000)
    record = begin(None, "a", "drained", "run", platform.now(), platform.own.boot_id)
    engine = Engine(platform, POLICY, record)
    while not made.machines["a"].outcomes:
        engine.step()
        platform.wait(1.0)
    engine.step()
    made.crash("a", 10)
    made.advance(made.clock + 15)
    begun = made.clock
    assert run(made).phase is NodePhase.DRAINED
    assert made.clock - begun < 60


def test_a_forced_stop_never_follows_from_an_old_request() -> None:
    """Aborted, started again, drained again: the guest is asked anew before it is forced."""
    policy = replace(ALLOWED, force_stop=True)
    made = two(vm(1, "a", declared_strategy="None"))
    run(made, policy)
    run(made, policy, "active", "back")
    made.advance(made.clock + 500)
    outcome = run(made, policy, "drained", "again")
    assert Do.FORCE_OFF not in {a.do for a in outcome.actions_done}
    assert ended(outcome) == ("stopped", "")


# Check mode


def test_the_forecast_is_what_then_happens() -> None:
    def population():
        return two(
            vm(1, "a", 2048), vm(2, "a", dirty=20.0), vm(3, "a", **FIXED), vm(4, "a"),
            vm(5, "a", declared_strategy="None"),
        )  # fmt: skip

    made = population()
    before = made.machines["a"].record
    seen = ModelPlatform(made, "a").observe(None)
    for uuid, domain in made.machines["a"].domains.items():
        seen.vms[uuid] = replace(seen.vms[uuid], node="a")
        assert domain.active
    forecast = simulate(seen, POLICY, "a", link=400.0, dirty={"u2": 20.0})
    assert made.machines["a"].record is before
    begun = made.clock
    outcome = run(made)
    assert forecast.phase is outcome.phase is NodePhase.BLOCKED
    real = {u: (e.ending, e.reason, e.at) for u, e in outcome.record.vms.items()}
    for row in forecast.vms:
        assert (row.verdict, row.finding.reason.value if row.finding else "") == real[row.uuid][:2]
        if row.verdict == "moved":
            assert row.target == real[row.uuid][2]
            assert 0 <= row.start < row.end <= forecast.duration
    assert forecast.duration == pytest.approx(made.clock - begun, rel=0.3, abs=3.0)
