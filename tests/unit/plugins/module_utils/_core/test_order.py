"""What `make perturb` has found, each as a small story."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.restore import leaves_nothing
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Reservation, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, Slice
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import ended, run, two
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY, fleet, vm
from fleetsim.platform import ModelPlatform


def one(made, silent_at: str = "") -> Slice:
    """The migration of one VM. `silent_at`: before this write b goes silent."""
    platform = ModelPlatform(made, "a")

    def hook(what: str) -> None:
        made.advance(made.clock + 0.005)
        if silent_at and what.startswith(silent_at):
            made.machines["b"].reachable = False

    platform.hook = hook
    record = begin(platform.load(), "a", "migrated", "one", platform.now(), platform.own.boot_id, only="u1")
    return Engine(platform, POLICY, record).run(platform.now() + 2000.0)


@pytest.mark.parametrize("adopted", [True, False])
@pytest.mark.parametrize("answers_again", [True, False])
def test_a_claim_on_a_silent_target_is_given_back_or_told(answers_again: bool, adopted: bool) -> None:
    """The target does not answer when its migration is aborted: what is claimed there is not seen. `adopted`: and then
    somebody else's migration of it was watched."""
    made = two(vm(1, "a", memory=4096))
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "drained", "run", platform.now(), platform.own.boot_id)
    Engine(platform, POLICY, record).step()
    made.machines["b"].reachable = False
    if adopted:
        made.machines["a"].record = _with_another(platform.load())
        made.moves.clear()
    if answers_again:
        made.at(made.clock + 4.0, lambda: setattr(made.machines["b"], "reachable", True))
    outcome = run(made, intent="active", name="back")
    assert outcome.phase is NodePhase.ACTIVE
    assert ended(outcome) == ("restored", "" if answers_again else "PeerUnreachable")
    assert not made.machines["a"].slots
    assert bool(made.machines["b"].claims) is not answers_again


def _with_another(record) -> str:
    entry = record.vms["u1"]
    entry.last.ended = True
    entry.attempts.append(replace(entry.last, number=0, adopted=True))
    return record.to_json()


@pytest.mark.parametrize("silent_at", ["write finish", "write release", ""])
def test_the_record_of_one_vm_stays_until_it_is_settled_where_it_arrived(silent_at: str) -> None:
    """Without it the same command would find the VM on its new host, and say that it is migrated."""
    made = two(vm(1, "a", autostart=True))
    outcome = one(made, silent_at)
    assert leaves_nothing(outcome.record, outcome.observation) is (silent_at == "")
    if silent_at:
        assert (outcome.phase, ended(outcome)) == (NodePhase.BLOCKED, ("blocked", "PeerUnreachable"))
        made.machines["b"].reachable = True
        outcome = one(made)
    assert leaves_nothing(outcome.record, outcome.observation)
    assert outcome.phase is NodePhase.MIGRATED
    assert made.machines["b"].domains["u1"].autostart is True
    assert not made.machines["b"].claims


def test_one_vm_that_went_before_it_was_seen_is_said_to_have_gone() -> None:
    outcome = one(two(vm(2, "a")))
    assert outcome.phase is NodePhase.BLOCKED
    assert [finding.reason.value for finding in outcome.findings] == ["VMVanished"]


def test_one_vm_that_is_off_says_why_it_is_not_moved() -> None:
    outcome = one(two(vm(1, "a", state=State.SHUTOFF)))
    assert (outcome.phase, ended(outcome)) == (NodePhase.BLOCKED, ("off", "StateNotLiveMigratable"))
    assert Do.COLD_DEFINE not in {action.do for action in outcome.actions_done}


def test_a_restore_that_stood_still_for_too_long_takes_its_cordon_away() -> None:
    """Blocked without having asked, it had no reason to tell."""
    made = two(vm(1, "a"))
    assert run(made).phase is NodePhase.DRAINED
    platform = ModelPlatform(made, "a")
    boot_id = platform.own.boot_id
    record = begin(platform.load(), "a", "active", "back", platform.now(), boot_id)
    made.advance(made.clock + POLICY.drain_timeout + 20.0)
    outcome = Engine(platform, POLICY, record).run(platform.now() + 10.0)
    assert outcome.phase is NodePhase.ACTIVE
    assert not made.machines["a"].cordons


@pytest.mark.parametrize("answers_again", [True, False])
def test_one_vm_under_the_reservation_of_a_host_that_died_waits_and_says_whose_it_is(answers_again: bool) -> None:
    """It was b's drain that brought it here, and b died before it gave its reservation back."""
    made = fleet([("a", vm(1, "a"))], {"a": 8192, "b": 8192, "c": 8192})
    claim = Reservation("u1", "a", "b", 1024, "web from b: b cannot be read", stuck=True)
    made.machines["a"].claims["u1", "b"] = claim
    made.machines["b"].reachable = False

    def back() -> None:
        made.machines["b"].reachable = True
        made.machines["a"].claims["u1", "b"] = replace(claim, stuck=False)

    if answers_again:
        made.at(made.clock + 30.0, back)
    began = made.clock
    outcome = one(made)
    if answers_again:
        assert outcome.phase is NodePhase.MIGRATED and outcome.record.vms["u1"].ending == "moved"
        return
    assert (outcome.phase, outcome.record.vms) == (NodePhase.BLOCKED, {})
    (finding,) = outcome.decision.node_findings["a"]
    assert (finding.reason, finding.message) == (Reason.InboundMigration, claim.note)
    assert made.clock - began >= POLICY.pending_timeout


def test_one_vm_that_is_still_arriving_is_waited_for() -> None:
    made = fleet([("a", vm(1, "a"))], {"a": 8192, "b": 8192, "c": 8192})
    arriving = made.machines["a"].domains["u1"]
    arriving.state = State.INCOMING
    made.at(made.clock + 30.0, lambda: setattr(arriving, "state", State.RUNNING))
    assert one(made).phase is NodePhase.MIGRATED


@pytest.mark.parametrize("whose", ["u1", "u2"])
def test_one_vm_that_is_gone_is_not_waited_for(whose: str) -> None:
    """Nor is what arrives of others any of its business."""
    made = fleet([("a", vm(2, "a"))], {"a": 8192, "b": 8192, "c": 8192})
    made.machines["a"].claims["u2", "b"] = Reservation("u2", "a", "b", 1024)
    outcome = one(made) if whose == "u2" else one(fleet([], {"a": 8192, "b": 8192}))
    assert outcome.phase is NodePhase.BLOCKED
    assert [one.reason for one in outcome.decision.node_findings["a"]] == [Reason.VMVanished]
