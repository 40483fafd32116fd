"""What is counted goes on from slice to slice, or a refusal would be met, and a wait last, for ever."""

from __future__ import annotations

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    Job,
    Node,
    Observation,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Ending,
    Intent,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason


def stopped() -> NodeRecord:
    """A restore: `job` is transient and off, and was to be started."""
    entry = VMRecord("u", "job", persistent=False, stop_way="shutdown", stop_sent=1.0)
    return NodeRecord("a", "r", Intent.ACTIVE.value, runs=["r"], vms={"u": entry})


def test_a_start_that_is_always_refused_is_given_up_however_short_the_slices_are() -> None:
    record, starts = stopped(), 0
    nodes = {"a": Node("a", boot_id="boot"), "b": Node("b")}
    for second in range(0, 120, 2):
        before = None  # a slice begins
        for now in (second, second + 1):
            obs = Observation(nodes=nodes, vms={}, now=1000.0 + now)
            decision = decide(obs, {"a": record}, Policy(), before)
            record, before = decision.records["a"], decision.situations
            starts += [action.do for action in decision.actions].count(Do.START)
    assert starts == Policy().max_attempts
    assert record.vms["u"].ending == Ending.BLOCKED.value


POLICY = Policy(pending_timeout=30.0, drain_timeout=100000.0)


def drained(looks) -> tuple[float, NodeRecord]:
    """Slices of three looks each; `looks(number, now)` is what each one sees. When its decision was final."""
    entry = VMRecord("u", "web", persistent=False, attempts=[])
    record = NodeRecord("a", "r", Intent.DRAINED.value, runs=["r"], vms={"u": entry}, boot_id="boot")
    for second in range(0, 200, 3):
        before = None  # a slice begins
        for number in (0, 1, 2):
            obs = looks(number, float(second + number))
            decision = decide(obs, {"a": record}, POLICY, before)
            record, before = decision.records["a"], decision.situations
            if record.vms["u"].last is not None and record.vms["u"].last.gave_up:
                return obs.now, record
            if decision.final:
                return obs.now, record
    return 1e9, record


def test_what_holds_a_migration_up_counts_though_the_first_look_of_each_slice_does_not_see_it() -> None:
    refused, queue = Finding(Reason.TargetPodRefused, "no"), Finding(Reason.WaitingForSlot, "it should start")

    def look(number: int, now: float) -> Observation:
        job = Job(outgoing=True, ours=True, phase="Pending", finding=(None, queue, refused)[number])
        vm = VM("u", "web", "a", State.RUNNING, job=job)
        nodes = {"a": Node("a", boot_id="boot", cordoned=True, our_cordon=True), "b": Node("b")}
        return Observation(nodes=nodes, vms={"u": vm}, now=now, held=frozenset({"u"}), complete=True)

    ended, record = drained(look)
    assert POLICY.pending_timeout < ended < POLICY.pending_timeout + 10.0
    assert record.vms["u"].last.reason == "TargetPodRefused"


def test_a_wait_for_the_node_goes_on_though_a_vm_that_is_gone_is_believed_with_each_slices_second_look() -> None:
    def look(_number: int, now: float) -> Observation:
        nodes = {"a": Node("a", boot_id="boot", cordoned=True, our_cordon=True), "b": Node("b")}
        held = {"other": "pod virt-launcher-other"}
        return Observation(nodes=nodes, vms={}, now=now, held=frozenset(held), held_by=held, complete=True)

    ended, record = drained(look)
    assert POLICY.pending_timeout < ended < POLICY.pending_timeout + 10.0
    assert record.vms["u"].ending == Ending.GONE.value
