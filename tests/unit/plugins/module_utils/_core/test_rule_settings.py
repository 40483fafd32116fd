"""A rule's migration settings hold from the first call to the last deadline."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    Job,
    Node,
    Observation,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    MigrationSettings,
    Policy,
    Rule,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    Ending,
    NodeRecord,
    VMRecord,
)

SLOW = MigrationSettings(completion_timeout_per_gib=1000, auto_converge=True)
POLICY = Policy(
    rules=(Rule("slow", lambda document: document.get("slow"), migration=SLOW),),
    migration=MigrationSettings(completion_timeout_per_gib=10, progress_timeout=10),
    drain_timeout=100.0,
)


def moving(
    now: float = 10.0, adopted: bool = False, state: State = State.RUNNING
) -> tuple[Observation, dict[str, NodeRecord]]:
    """A VM of 1 GiB that a rule is for migrates from a to b, and nobody holds it."""
    nodes = {name: Node(name, capacity_mib=9999, boot_id=name) for name in "ab"}
    vm = VM("u", "vm", "a", state, memory_mib=1024, job=Job(), document={"slow": True})
    record = NodeRecord(node="a", run_id="r", boot_id="a", runs=["r"])
    attempt = Attempt(1, "b", "", 0.0, "a", "r", adopted=adopted)
    record.vms["u"] = VMRecord("u", "vm", 1024, attempts=[attempt])
    return Observation(nodes, {"u": vm}, now=now), {"a": record}


def watch(adopted: bool) -> Action:
    obs, records = moving(adopted=adopted)
    (action,) = [a for a in decide(obs, records, POLICY).actions if a.do is Do.WATCH]
    return action


def test_a_new_holder_gets_the_settings_of_the_rule() -> None:
    assert watch(adopted=False).settings == SLOW


def test_of_a_foreign_migration_nothing_is_asked_that_its_flags_may_forbid() -> None:
    assert watch(adopted=True).settings is None


@pytest.mark.parametrize(("now", "ending"), [(1000.0, Ending.NONE), (1300.0, Ending.BLOCKED)])
def test_the_nodes_deadline_waits_for_that_of_the_rule(now: float, ending: Ending) -> None:
    """100 s of the node, then 1000 s for the GiB and 150 s without progress."""
    obs, records = moving(now)
    assert decide(obs, records, POLICY).records["a"].vms["u"].ending == ending.value


@pytest.mark.parametrize("adopted", [False, True])
def test_a_broken_post_copy_gets_a_holder_that_resumes_it_unless_others_began_it(adopted: bool) -> None:
    obs, records = moving(adopted=adopted, state=State.POSTCOPY_FAILED)
    obs.sightings["u"] = [Sighting("b", State.POSTCOPY_FAILED)]
    decided = decide(obs, records, POLICY)
    assert [a.settings for a in decided.actions if a.do is Do.WATCH] == ([] if adopted else [SLOW])
    assert decided.records["a"].vms["u"].reason == "PostCopyBroken"


@pytest.mark.parametrize("here", [State.POSTCOPY_FAILED, None])
def test_of_a_broken_post_copy_one_half_alone_is_irrecoverable_once_that_has_lasted(here: State | None) -> None:
    """Two full reads and a minute: at the end of each post-copy the source is gone first."""
    obs, records = moving(state=here or State.SHUTOFF)
    if here is None:
        obs.vms.clear()
        obs.sightings["u"] = [Sighting("b", State.POSTCOPY_FAILED)]
    ends, before = [], None
    for obs.now in (10.0, 11.0, 50.0, 72.0):
        decided = decide(obs, records, POLICY, before)
        records, before = decided.records, decided.situations
        ends.append((records["a"].vms["u"].ending, records["a"].vms["u"].reason))
        assert not [a for a in decided.actions if a.do is not Do.CORDON]
    assert [ending for ending, _reason in ends] == ["", "", "", "blocked"]
    assert [reason for _ending, reason in ends[1:]] == ["PostCopyBroken", "PostCopyBroken", "Irrecoverable"]
    entry = records["a"].vms["u"]
    assert entry.message == f"paused (post-copy failed) on {'a' if here else 'b'}, and nowhere else."


def test_an_undecided_vm_is_watched_with_the_settings_of_the_task() -> None:
    obs, records = moving()
    policy = Policy(rules=(Rule("hot", lambda _document: None),), migration=SLOW)
    (action,) = [a for a in decide(obs, records, policy).actions if a.do is Do.WATCH]
    assert action.settings == SLOW
