"""A platform that has a work object for each migration, and that starts a stopped VM elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Decision, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    Job,
    Mode,
    Node,
    Observation,
    Outcome,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    Ending,
    Intent,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.rows import vm_row

GUEST = VM("u1", "web", "a", memory_mib=1024)
JOB = Job(work="m1", phase="Scheduling", ours=True, finding=Finding(Reason.QuotaExceeded))


def see(vm: VM | None = None, **more: object) -> Observation:
    nodes = {"a": Node("a", cordoned=True), "": Node("", capacity_mib=10**9)}
    vms = {} if vm is None else {vm.uuid: vm}
    return Observation(nodes, vms, **more)  # type: ignore[arg-type]


def step(obs: Observation, record: NodeRecord) -> tuple[Decision, VMRecord]:
    decision = decide(obs, {"a": record}, Policy())
    return decision, decision.records["a"].vms["u1"]


def test_a_retry_of_the_platform_is_ours_and_counts() -> None:
    obs = see(replace(GUEST, job=JOB), held=frozenset({"u1"}))
    _decision, entry = step(obs, NodeRecord("a", "r"))
    assert entry.last is not None
    assert (entry.last.work, entry.last.adopted) == ("m1", False)


def test_what_others_asked_for_stays_theirs() -> None:
    obs = see(replace(GUEST, job=replace(JOB, ours=False)), held=frozenset({"u1"}))
    decision, entry = step(obs, NodeRecord("a", "r"))
    assert entry.last is not None and entry.last.adopted
    back = replace(decision.records["a"], intent=Intent.ACTIVE.value)
    assert Do.ABORT not in {action.do for action in step(obs, back)[0].actions}


def test_a_retry_that_is_ours_is_withdrawn_on_restore() -> None:
    obs = see(replace(GUEST, job=JOB), held=frozenset({"u1"}))
    decision, _entry = step(obs, NodeRecord("a", "r"))
    back = replace(decision.records["a"], intent=Intent.ACTIVE.value)
    assert Do.ABORT in {action.do for action in step(obs, back)[0].actions}


def test_the_row_tells_the_platforms_phase_and_what_it_waits_for() -> None:
    obs = see(replace(GUEST, job=JOB), held=frozenset({"u1"}))
    _decision, entry = step(obs, NodeRecord("a", "r"))
    row = vm_row(entry, obs, "a")
    assert (row["phase"], row["reason"]) == ("Scheduling", "QuotaExceeded")


@pytest.mark.parametrize(("ending", "reason"), [(Ending.RESTORED, ""), (Ending.BLOCKED, "MigrationFailed")])
def test_of_one_that_is_back_the_last_failure_is_past(ending: Ending, reason: str) -> None:
    last = Attempt(1, "b", "LiveMigration", 0.0, "boot", ended=True, reason="MigrationFailed")
    entry = VMRecord("u1", "web", ending=ending.value, attempts=[last])
    assert vm_row(entry, see(GUEST), "a")["reason"] == reason
    last.abort_requested = True
    assert vm_row(entry, see(GUEST), "a")["reason"] == "MigrationFailed"


def test_the_outcome_names_its_work_object() -> None:
    record = step(see(replace(GUEST, job=replace(JOB, work=""))), NodeRecord("a", "r"))[0]
    failed = {("u1", 1): Outcome("u1", 1, False, Finding(Reason.QuotaExceeded), work="m1")}
    _decision, entry = step(see(GUEST, outcomes=failed), record.records["a"])
    assert entry.attempts[0].work == "m1"


@pytest.mark.parametrize("intent", [Intent.DRAINED, Intent.ACTIVE])
def test_the_outcome_of_a_vm_that_has_just_arrived_is_waited_for(intent: Intent) -> None:
    """It is written a moment after the VM is seen at its target, by the holder of its migration."""
    moving = replace(GUEST, job=replace(JOB, finding=None))
    held = frozenset({"u1"})
    begun = step(see(moving, held=held), NodeRecord("a", "r", intent=intent.value))[0]
    there = {"u1": [Sighting("b", State.RUNNING)]}
    decision, entry = step(see(sightings=there, held=held), begun.records["a"])
    assert entry.ending == Ending.NONE.value and not decision.final
    wrote = {("u1", 1): Outcome("u1", 1, True, mode=Mode.POST_COPY, downtime_ms=7)}
    _decision, entry = step(see(sightings=there, outcomes=wrote), decision.records["a"])
    row = vm_row(entry, see(), "a")
    assert (row["verdict"], row["mode"], row["outage_ms"]) == ("moved", "PostCopy", 7)


def stopped() -> NodeRecord:
    record = NodeRecord("a", "r")
    record.vms["u1"] = VMRecord("u1", "web", stop_way="shutdown", stop_sent=1.0)
    return record


def test_a_stopped_vm_that_starts_elsewhere_is_no_migration() -> None:
    seen = {"u1": [Sighting("", State.INCOMING, restarted=True)]}
    decision, entry = step(see(sightings=seen), stopped())
    assert entry.attempts == [] and entry.ending == Ending.NONE.value
    assert decision.actions == []


def test_it_has_moved_while_off_once_it_runs_there() -> None:
    seen = {"u1": [Sighting("b", State.RUNNING, restarted=True)]}
    _decision, entry = step(see(sightings=seen), stopped())
    assert (entry.ending, entry.at) == (Ending.COLD_MOVED.value, "b")


def test_a_failed_migration_is_not_ok_because_the_vm_was_started_anew() -> None:
    """In post-copy KubeVirt ends the guest with the migration, and starts the VM elsewhere."""
    record = NodeRecord("a", "r")
    _decision, entry = step(see(replace(GUEST, job=JOB), held=frozenset({"u1"})), record)
    record.vms["u1"] = entry
    failed = Outcome("u1", 1, False, Finding(Reason.MigrationFailed, "post-copy"), work="m1")
    anew = {"u1": [Sighting("n2", State.RUNNING, restarted=True)]}
    _decision, entry = step(see(sightings=anew, outcomes={("u1", 1): failed}), record)
    assert entry.ending == Ending.COLD_MOVED.value
    assert entry.last is not None and entry.last.ended and not entry.last.ok
    assert (entry.last.target, entry.last.message) == ("", "post-copy")
    ended_well = replace(failed, ok=True, finding=None)  # it crashed at the target, later
    _decision, entry = step(see(sightings=anew, outcomes={("u1", 1): ended_well}), record)
    assert entry.last is not None and entry.last.ok


def test_waiting_for_its_start_ends_with_the_nodes_deadline() -> None:
    seen = {"u1": [Sighting("", State.INCOMING, restarted=True)]}
    _decision, entry = step(see(sightings=seen, now=10**6), stopped())
    assert (entry.ending, entry.reason) == (Ending.BLOCKED.value, Reason.DeadlineExceeded.value)


def waiting(since: float, now: float, job: Job = JOB) -> tuple[Decision, VMRecord]:
    record = step(see(replace(GUEST, job=job), held=frozenset({"u1"}), now=since), fresh())[0]
    return step(see(replace(GUEST, job=job), held=frozenset({"u1"}), now=now), record.records["a"])


def fresh() -> NodeRecord:
    return NodeRecord("a", "r")


def test_what_waits_in_vain_is_withdrawn_and_not_asked_for_again() -> None:
    decision, entry = waiting(0.0, 200.0)
    assert Do.UNMARK not in {action.do for action in decision.actions}
    decision, entry = waiting(0.0, 301.0)
    assert Do.UNMARK in {action.do for action in decision.actions}
    assert entry.ending == Ending.NONE.value  # until it was read that nothing is left
    gone = {("u1", 1): Outcome("u1", 1, False, Finding(Reason.AbortRequested), work="m1")}
    _decision, entry = step(see(GUEST, outcomes=gone, now=302.0), decision.records["a"])
    assert (entry.ending, entry.reason) == (Ending.BLOCKED.value, "QuotaExceeded")


def test_a_queue_is_waited_for_up_to_the_nodes_deadline() -> None:
    queued = replace(JOB, finding=Finding(Reason.WaitingForSlot))
    assert Do.UNMARK not in {a.do for a in waiting(0.0, 3000.0, queued)[0].actions}
    assert Do.UNMARK in {a.do for a in waiting(0.0, 3601.0, queued)[0].actions}


def test_what_others_asked_for_may_wait() -> None:
    theirs = replace(JOB, ours=False)
    assert Do.UNMARK not in {a.do for a in waiting(0.0, 301.0, theirs)[0].actions}
