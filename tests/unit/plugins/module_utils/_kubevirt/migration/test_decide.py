from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration import decide as migration_decide
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration import result as migration_result
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.model import (
    MigrationRequest,
    RequestNote,
    View,
    WantedState,
    check_request,
    read_note,
    write_note,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import migration_policy

Obj = dict[str, Any]
Do, Phase, Step = migration_decide.Do, migration_decide.Phase, migration_decide.Step
asked_by = migration_result.asked_by
NOTE = "virtops.maintenance/request"


def request(want: WantedState = WantedState.MIGRATED, **more: Any) -> MigrationRequest:
    return MigrationRequest({}, "web", "shop", want, "run-1", **more)


def vmi(node: str = "n1", **status: Any) -> Obj:
    able = [{"type": "LiveMigratable", "status": "True"}]
    base = {"phase": "Running", "nodeName": node, "conditions": able}
    meta = {"name": "web", "namespace": "shop", "uid": "v1"}
    return {"metadata": meta, "spec": {}, "status": {**base, **status}}


def migration(uid: str, phase: str = "Running", run: str = "", **notes: str) -> Obj:
    if run:
        notes = {NOTE: json.dumps({"run": run, "attempt": 1}), **notes}
    meta = {"name": f"m-{uid}", "namespace": "shop", "uid": uid, "annotations": notes}
    return {"metadata": meta, "spec": {"vmiName": "web"}, "status": {"phase": phase}}


def asked(work: str = "", attempt: int = 1, **more: Any) -> RequestNote:
    return replace(RequestNote("n1", "v1", attempt, work, 100.0, 100.0, "migrated"), **more)


def step(view: View, note: RequestNote | None, **more: Any) -> Step:
    return migration_decide.next_step(view, note, request(**more))


def test_the_note_comes_back_as_it_was_written() -> None:
    note = asked("m1", why=("QuotaExceeded", "no room"))
    text = json.dumps(write_note(request(), note, "2026-01-01T00:00:00Z"))
    signed = vmi()
    signed["metadata"]["annotations"] = {NOTE: text}
    assert read_note(signed, "run-1") == note
    assert read_note(signed, "run-2") is None
    signed["metadata"]["annotations"] = {NOTE: json.dumps({"run": "run-1", "node": "n1"})}
    assert read_note(signed, "run-1") is None  # a drain's


def test_of_two_that_were_let_through_ours_goes_if_it_is_the_newer_one() -> None:
    """Two creates of one moment can both pass; the VM would be moved twice."""
    theirs, ours = migration("m1"), migration("m2", run="run-1")
    found = step(View(vmi(), (theirs, ours), 101.0), asked())
    assert (found.do, found.migration) == (Do.DELETE, ours)
    found = step(View(vmi(), (ours, theirs), 101.0), asked("m2"))
    assert (found.do, found.migration) == (Do.WAIT, ours)


def test_the_one_that_we_made_is_this_attempt_and_an_adopted_one_is_the_next() -> None:
    ours = step(View(vmi(), (migration("m1", run="run-1"),), 101.0), asked())
    assert ours.asked is not None and (ours.asked.attempt, ours.asked.work) == (1, "m1")
    theirs = step(View(vmi(), (migration("m1"),), 101.0), asked())
    assert theirs.asked is not None and (theirs.asked.attempt, theirs.asked.work) == (2, "m1")


def test_what_others_began_is_never_withdrawn_by_a_deadline() -> None:
    view = View(vmi(), (migration("m1", "Scheduling"),), 9999.0)
    found = step(view, asked("m1"))
    assert (found.do, found.phase) == (Do.DONE, Phase.BLOCKED)
    assert found.finding is not None and found.finding.reason is Reason.DeadlineExceeded
    ours = View(vmi(), (migration("m1", "Scheduling", run="run-0"),), 9999.0)
    assert step(ours, asked("m1")).do is Do.DELETE


def test_a_guest_in_post_copy_is_not_withdrawn_by_a_deadline() -> None:
    state = {"migrationUid": "m1", "mode": "PostCopy", "targetNode": "n2"}
    view = View(vmi(migrationState=state), (migration("m1", run="run-1"),), 9999.0)
    assert step(view, asked("m1")).do is Do.WAIT


def test_between_two_attempts_it_waits_longer_each_time() -> None:
    failed = migration("m1", "Failed", run="run-1")
    view = View(vmi(), (failed,), 200.0, since_ended=9.0)
    assert step(view, asked("m1", 2), backoff=5.0).do is Do.WAIT
    later = replace(view, since_ended=10.0)
    again = step(later, asked("m1", 2), backoff=5.0)
    assert again.do is Do.CREATE and again.asked is not None and again.asked.attempt == 3


def test_a_migration_that_somebody_deleted_is_not_made_again() -> None:
    """Whoever did that wants the VM to stay. One that was never made, since we were killed before, is made."""
    found = step(View(vmi(), (), 200.0, since_ended=60.0), asked("m1"))
    assert (found.do, found.phase) == (Do.DONE, Phase.BLOCKED)
    assert found.finding is not None and found.finding.reason is Reason.AbortRequested
    assert step(View(vmi(), (), 200.0, since_ended=60.0), asked("")).do is Do.CREATE


def test_the_reason_of_the_last_failure_is_waited_for() -> None:
    state = {"migrationUid": "m1", "failed": True}
    view = View(vmi(migrationState=state), (migration("m1", "Failed", run="run-1"),), 200.0, since_ended=4.0)
    assert step(view, asked("m1", 3)).do is Do.WAIT
    told = step(replace(view, vmi=vmi(migrationState={**state, "failureReason": "link is down"})), asked("m1", 3))
    assert told.finding is not None and "link is down" in told.finding.message
    assert step(replace(view, since_ended=6.0), asked("m1", 3)).phase is Phase.BLOCKED  # some never say


def test_killed_between_note_and_request_counts_as_an_attempt() -> None:
    view = View(vmi(), (), 101.0)
    again = step(view, asked())
    assert again.do is Do.CREATE and again.asked is not None and again.asked.attempt == 2
    assert step(view, asked(attempt=3)).phase is Phase.BLOCKED


@pytest.mark.parametrize(
    ("state", "phase", "reason"),
    [
        ({"phase": "Succeeded"}, "Blocked", Reason.StoppedByItself),
        ({"phase": "Failed", "reason": "NodeUnresponsive"}, "Blocked", Reason.VMCrashed),
    ],
)
def test_a_guest_that_has_ended_was_not_moved(state: Obj, phase: str, reason: Reason) -> None:
    found = step(View(vmi(**state), (migration("m1", "Failed"),), 101.0), asked("m1"))
    assert found.phase.value == phase
    assert found.finding is not None and found.finding.reason is reason


def test_a_failed_post_copy_is_told_as_such() -> None:
    state = {"migrationUid": "m1", "mode": "PostCopy"}
    found = step(View(vmi(phase="Failed", migrationState=state), (migration("m1", "Failed"),), 101.0), asked("m1"))
    assert found.finding is not None and found.finding.reason is Reason.Irrecoverable
    assert "post-copy" in found.finding.message


def test_a_vm_that_others_started_anew_is_another_one() -> None:
    found = step(View(vmi("n2"), (), 101.0), asked("m1", uid="v0"))
    assert found.phase is Phase.BLOCKED


def test_who_asked() -> None:
    drained = vmi()
    drain = {"run": "r7", "by": "ann", "node": "n1"}
    drained["metadata"]["annotations"] = {NOTE: json.dumps(drain)}
    evacuation = migration("m1", **{"kubevirt.io/evacuationMigration": "n1"})
    assert asked_by(drained, evacuation) == "ann (run r7, drain of n1)"
    assert asked_by(vmi(), evacuation) == "an eviction from n1"
    scheduled = vmi()
    scheduled["metadata"]["annotations"] = {"kubevirt.io/eviction-source": "descheduler"}
    assert asked_by(scheduled, evacuation) == "descheduler (eviction from n1)"
    update = migration("m1", **{"kubevirt.io/workloadUpdateMigration": ""})
    assert asked_by(vmi(), update) == "KubeVirt's workload updater"


@pytest.mark.parametrize("wrong", [{"max_attempts": 0}, {"backoff": -1.0}, {"node": "n1", "target": "n1"}])
def test_wrong_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match=next(iter(wrong))):
        check_request(request(**wrong))


def policy(name: str, **selectors: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"selectors": selectors, "allowPostCopy": True}}


def test_the_policy_with_the_most_labels_applies() -> None:
    big = vmi()
    big["metadata"]["labels"] = {"size": "big", "tier": "db"}
    one = policy("b-one", virtualMachineInstanceSelector={"size": "big"})
    same = policy("a-one", virtualMachineInstanceSelector={"tier": "db"})
    two = policy("two", virtualMachineInstanceSelector={"size": "big"}, namespaceSelector={"env": "prod"})
    none: Obj = {"metadata": {"name": "none"}, "spec": {}}
    everything = policy("any")

    def best(namespace: dict[str, str], *of: Obj) -> str:
        found = migration_policy.applying(big, namespace, of)
        return found["metadata"]["name"] if found else ""

    assert best({"env": "prod"}, one, same, two, everything) == "two"
    assert best({"env": "test"}, one, same, two, everything) == "a-one"
    assert best({}, everything, none) == "any"
    assert best({}, none, policy("other", virtualMachineInstanceSelector={"size": "no"})) == ""
    assert migration_policy.settings({"progressTimeout": 9}, one, (1, 9))["allowPostCopy"] is True
    assert migration_policy.settings({"progressTimeout": 9}, None, (1, 9))["progressTimeout"] == 9
