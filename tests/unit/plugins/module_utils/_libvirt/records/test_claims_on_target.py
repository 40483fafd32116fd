"""What is read on the target after a claim is made there, and which of several claims stay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.host import DomainNow, HostNow
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records import claims as claims_of
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.records.claims import Claims
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt import fakes
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._libvirt.records.test_claims import (
    MOVE,
    OTHER,
    VM,
    FakeHost,
)


class Target(FakeHost):
    """`runs`: its domains. `error`: why it cannot be read any more."""

    def __init__(self) -> None:
        super().__init__("b")
        self.runs: list[DomainNow] = []
        self.error = ""

    def read(self, with_jobs: bool) -> HostNow:
        now = super().read(with_jobs)
        now.domains, now.error = {one.uuid: one for one in self.runs}, self.error
        return HostNow(self.name, error=self.error) if self.error else now


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def claims(target: Target, monkeypatch: pytest.MonkeyPatch) -> Claims:
    monkeypatch.setattr(claims_of, "libvirt", fakes.Binding())
    return Claims({"a": FakeHost("a"), "b": target}, "a")  # type: ignore[dict-item]


def test_of_two_that_do_not_fit_together_one_goes(claims: Claims, target: Target) -> None:
    """What is taken back does not count against the other one."""
    first, second = replace(MOVE, memory_mib=5000), replace(MOVE, vm=OTHER, memory_mib=5000)
    answers = claims.claim([first, second], Limits())
    assert answers[VM] is None
    refused = answers[OTHER]
    assert refused is not None and refused.reason is Reason.NoTargetWithCapacity
    assert [name for name in target.volumes if OTHER in name] == []


def test_a_target_that_breaks_off_after_the_claim_did_not_answer(claims: Claims, target: Target) -> None:
    target.error = "Connection reset by peer"
    refused = claims.claim([MOVE], Limits())[VM]
    assert refused is not None
    assert (refused.reason, target.volumes) == (Reason.PeerUnreachable, set())


@pytest.mark.parametrize(("state", "fits"), [(State.SHUTOFF, True), (State.RUNNING, False), (State.UNKNOWN, False)])
def test_what_is_off_takes_no_memory(claims: Claims, target: Target, state: State, fits: bool) -> None:
    target.runs = [DomainNow("u", "db", state, 8100)]
    assert (claims.claim([MOVE], Limits())[VM] is None) is fits


def test_what_arrives_by_other_hands_is_inbound_too(claims: Claims, target: Target) -> None:
    target.runs = [DomainNow("u", "db", State.INCOMING, 96)]
    for inbound, fits in ((1, False), (2, True)):
        assert (claims.claim([MOVE], Limits(9, 9, inbound))[VM] is None) is fits
    target.runs = [DomainNow("u", "db", State.RUNNING, 96)]
    assert claims.claim([MOVE], Limits(9, 9, 1))[VM] is None
