"""A holder that is there and does not answer: what it does is not known, and it goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Decision, Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.reconcile import Situation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    Job,
    Node,
    Observation,
    Reservation,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.host.errors import HolderSilent
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run import platform
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.platform import LibvirtPlatform

WORDS = "the migration agent did not answer within 10 s"


def observe(monkeypatch: pytest.MonkeyPatch, vm: VM, now: float = 1.0) -> Observation:
    """One read of a host whose holder takes no connection any more."""

    def connect() -> None:
        raise HolderSilent(WORDS)

    def look(_record: object, _now: float, held: frozenset[str], _outcomes: object) -> Observation:
        nodes = {n: Node(n, capacity_mib=9999, boot_id="boot", cordoned=n == "a") for n in "ab"}
        claims = {vm.uuid: Reservation(vm.uuid, "b", "a", 1024)}
        return Observation(nodes, {vm.uuid: vm}, held=held, claims=claims, now=now)

    monkeypatch.setattr(platform, "HolderClient", SimpleNamespace(connect=connect))
    made: Any = LibvirtPlatform.__new__(LibvirtPlatform)
    made.source = SimpleNamespace(name="a", store=SimpleNamespace(names=list))
    made.hosts = {}
    made.observer = SimpleNamespace(observe=look, reads={})
    made.stale_claims = SimpleNamespace(check=lambda *_args: None)
    made._holder, made._outcomes, made._acts = None, {}, True
    observed: Observation = made.observe(None)
    return observed


def record_of(intent: str, **attempts: list[Attempt]) -> NodeRecord:
    record = begin(None, "a", intent, "run", 0.0, "boot")
    record.vms = {u: VMRecord(u, "web", 1024, attempts=a) for u, a in attempts.items()}
    return record


def told(obs: Observation, record: NodeRecord) -> Decision:
    return decide(obs, {"a": record}, Policy(drain_timeout=100.0, pending_timeout=1000.0))


OURS = Attempt(1, "b", "LiveMigration", 0.0, "boot", run_id="run")


@pytest.mark.parametrize("intent", ["drained", "active"])
@pytest.mark.parametrize("attempts", [[], [OURS]])
def test_the_claim_of_a_vm_that_it_may_have_stays(
    monkeypatch: pytest.MonkeyPatch, intent: str, attempts: list[Attempt]
) -> None:
    obs = observe(monkeypatch, VM("u", "web", "a", memory_mib=1024))
    decision = told(obs, record_of(intent, u=attempts))
    assert (decision.actions, obs.full) == ([], False)
    assert decision.situations["u"] is Situation.UNREADABLE
    assert not decision.final
    assert WORDS in decision.records["a"].vms["u"].message


def test_what_moves_it_is_taken_to_look_after(monkeypatch: pytest.MonkeyPatch) -> None:
    obs = observe(monkeypatch, VM("u", "web", "a", memory_mib=1024, job=Job()))
    decision = told(obs, record_of("drained", u=[OURS]))
    assert (decision.actions, decision.situations["u"]) == ([], Situation.MOVING)


@pytest.mark.parametrize("intent", ["drained", "active", "migrated"])
def test_the_deadline_of_the_node_ends_the_waiting_in_words(monkeypatch: pytest.MonkeyPatch, intent: str) -> None:
    obs = observe(monkeypatch, VM("u", "web", "a", memory_mib=1024), now=500.0)
    decision = told(obs, told(obs, record_of(intent, u=[OURS])).records["a"])
    assert (decision.phases["a"], decision.actions) == (NodePhase.BLOCKED, [])
    entry = decision.records["a"].vms["u"]
    assert (entry.ending, entry.reason) == ("blocked", Reason.PeerUnreachable.value)
    assert WORDS in entry.message


def test_a_drain_that_has_read_no_vm_yet_ends_in_words_too(monkeypatch: pytest.MonkeyPatch) -> None:
    obs = observe(monkeypatch, VM("u", "web", "a", memory_mib=1024), now=500.0)
    decision = told(obs, record_of("drained"))
    assert decision.phases["a"] is NodePhase.BLOCKED
    assert any(WORDS in finding.message for finding in decision.node_findings["a"])


@pytest.mark.parametrize("intent", ["migrated", "active"])
def test_of_one_vm_that_was_never_read_nothing_is_said(monkeypatch: pytest.MonkeyPatch, intent: str) -> None:
    """Neither that it cannot move, nor that nothing moves it: the holder may just begin with it."""
    vm = VM("u", "web", "a", memory_mib=1024)
    record = begin(None, "a", intent, "run", 0.0, "boot", only="u")
    decision = told(observe(monkeypatch, vm), record)
    assert (decision.actions, decision.final) == ([], False)
    (finding,) = decision.node_findings["a"]
    assert finding.message == f"web: {WORDS}"
    decision = told(observe(monkeypatch, vm, now=500.0), decision.records["a"])
    assert (decision.phases["a"], decision.actions) == (NodePhase.BLOCKED, [])


@pytest.mark.parametrize("intent", ["drained", "active"])
def test_a_claim_of_another_run_stays_too(monkeypatch: pytest.MonkeyPatch, intent: str) -> None:
    """This run has not seen the VM before, and the holder may be preparing its migration."""
    decision = told(observe(monkeypatch, VM("u", "web", "a", memory_mib=1024)), record_of(intent))
    assert Do.RELEASE not in [action.do for action in decision.actions]
