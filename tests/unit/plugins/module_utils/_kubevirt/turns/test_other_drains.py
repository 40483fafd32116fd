"""What other drains tell on their Leases, and which of them count."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import KubeError
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.lease import WAITING
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.turns import other_drains as boards
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.turns.other_drains import OtherDrains


def lease(node: str, left: str = "", holder: str = "run 1", version: str = "1") -> dict[str, Any]:
    meta: dict[str, Any] = {"name": f"virtops-maintenance-{node}", "resourceVersion": version}
    if left:
        meta["annotations"] = {WAITING: left}
    return {"metadata": meta, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 35}}


class Watched:
    """In place of a cache. `fails`: what reading raises."""

    leases: tuple[dict[str, Any], ...] = ()
    fails: KubeError | None = None

    def __init__(self, *_what: Any, **_more: Any) -> None:
        pass

    def start(self) -> None:
        if self.fails is not None:
            raise self.fails

    def stop(self) -> None:
        pass

    def items(self) -> list[dict[str, Any]]:
        return list(self.leases)


class Own:
    namespace, name, told = "default", "virtops-maintenance-n1", ""


@pytest.fixture
def now() -> list[float]:
    return [1000.0]


@pytest.fixture
def other_drains(monkeypatch: pytest.MonkeyPatch, now: list[float]) -> OtherDrains:
    monkeypatch.setattr(boards, "Cache", Watched)
    monkeypatch.setattr(Watched, "fails", None)
    return OtherDrains(None, Own(), lambda: None, lambda: now[0])


def vms_left(other_drains: OtherDrains, *leases: dict[str, Any]) -> dict[str, int | None] | None:
    Watched.leases = leases
    found = other_drains.vms_left()
    return found and {name.removeprefix("virtops-maintenance-"): n for name, n in found.items()}


def test_those_that_hold_their_lease_and_not_we_ourselves(other_drains: OtherDrains) -> None:
    leases = (lease("n1", "9"), lease("n2", "7"), lease("n3"), lease("n4", "5", holder=""))
    assert vms_left(other_drains, *leases) == {"n2": 7, "n3": None}


def test_what_is_no_number_was_not_told(other_drains: OtherDrains) -> None:
    assert vms_left(other_drains, lease("n2", "many")) == {"n2": None}


def test_a_drain_that_does_not_renew_its_lease_is_dead(other_drains: OtherDrains, now: list[float]) -> None:
    assert vms_left(other_drains, lease("n2", "7"), lease("n3", "7")) == {"n2": 7, "n3": 7}
    now[0] += 40
    assert vms_left(other_drains, lease("n2", "7"), lease("n3", "6", version="2")) == {"n2": 7, "n3": 6}
    now[0] += 10
    assert vms_left(other_drains, lease("n2", "7"), lease("n3", "6", version="2")) == {"n3": 6}


def test_how_long_it_was_dead_goes_from_slice_to_slice(other_drains: OtherDrains, now: list[float]) -> None:
    vms_left(other_drains, lease("n2", "7"))
    second = OtherDrains(None, Own(), lambda: None, lambda: now[0])
    second.seen = other_drains.seen
    now[0] += 50
    assert vms_left(second, lease("n2", "7")) == {}


def test_what_cannot_be_read_now_may_be_read_later(other_drains: OtherDrains, monkeypatch) -> None:
    monkeypatch.setattr(Watched, "fails", KubeError(503, "not now", "GET leases"))
    assert other_drains.vms_left() is None
    monkeypatch.setattr(Watched, "fails", None)
    assert vms_left(other_drains, lease("n2", "7")) == {"n2": 7}
