from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    Observation,
    Outcome,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Attempt, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.observe.departed import DepartedVMs
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.node_record import Instance

KNOWN = {"u1": Instance("shop", "web", "v1")}


class Api:
    """Has no VM, and of VMIs those that `moved`; counts what is asked."""

    def __init__(self, *moved: dict[str, Any]) -> None:
        self.asked: list[str] = []
        self.moved = list(moved)

    def list(self, path: str, *_selected: str) -> tuple[list[dict[str, Any]], str]:
        self.asked.append(path)
        return self.moved, ""

    def find(self, path: str) -> None:
        self.asked.append(path)


class Moves:
    def __init__(self, phase: str, finalizers: list[str], **state: Any) -> None:
        self._meta = {"name": "m", "namespace": "shop", "uid": "m1", "finalizers": finalizers}
        self._status = {"phase": phase, "migrationState": state}

    def migrations_of(self, _namespace: str, _name: str) -> list[dict[str, Any]]:
        return [{"metadata": self._meta, "spec": {"vmiName": "web"}, "status": self._status}]


def running(uid: str, node: str) -> dict[str, Any]:
    """Its VMI."""
    owner = {"kind": "VirtualMachine", "name": "web", "uid": "u1"}
    meta = {"name": "web", "namespace": "shop", "uid": uid, "ownerReferences": [owner]}
    return {"metadata": meta, "spec": {}, "status": {"phase": "Running", "nodeName": node}}


def ended(phase: str) -> Outcome:
    """How the attempt is told whose VM was started anew."""
    api, moves = Api(running("v2", "n2")), Moves(phase, [])
    departed = DepartedVMs(api, "n1", moves, lambda: KNOWN)  # type: ignore[arg-type]
    entry = VMRecord("u1", "shop/web")
    entry.attempts.append(Attempt(1, "", "", 0.0, "", work="m1"))
    obs = Observation({}, {})
    departed.locate({"u1": entry}, True, 1000.0)
    departed.add_sighting(obs, "u1", entry)
    departed.add_outcome(obs, "u1", entry, None)
    assert obs.sightings["u1"][0].restarted
    return obs.outcomes[("u1", 1)]


def sighted(
    moves: Moves, work: str, closed: float | None = None, api: Api | None = None
) -> tuple[Observation, list[str]]:
    """In the first look of a slice, at 1000 s. `closed`: when its attempt ended."""
    api = api or Api()
    departed = DepartedVMs(api, "n1", moves, lambda: KNOWN)  # type: ignore[arg-type]
    entry = VMRecord("u1", "shop/web")
    attempt = Attempt(1, "", "", 0.0, "", work=work, ended=closed is not None)
    attempt.ended_at = closed or 0.0
    entry.attempts.append(attempt)
    obs = Observation({}, {})
    departed.locate({"u1": entry}, False, 1000.0)
    departed.add_sighting(obs, "u1", entry)
    return obs, api.asked


def test_where_it_went_is_read_of_the_migration_of_this_run() -> None:
    obs, asked = sighted(Moves("Succeeded", [], targetNode="n2"), "m1")
    assert [(s.node, s.state) for s in obs.sightings["u1"]] == [("n2", State.RUNNING)]
    assert asked == []


def test_while_it_switches_over_it_is_on_its_way() -> None:
    for moves in (Moves("Running", ["f"]), Moves("Succeeded", ["f"])):
        obs, asked = sighted(moves, "m1")
        assert [s.state for s in obs.sightings["u1"]] == [State.INCOMING]
        assert asked == []


def test_a_migration_from_before_tells_nothing() -> None:
    obs, asked = sighted(Moves("Succeeded", [], targetNode="n2"), "another")
    assert "u1" not in obs.sightings and len(asked) == 2  # its VMI and its VM are asked for


def test_a_migration_that_failed_is_told_so_where_the_vm_was_started_anew() -> None:
    assert not ended("Failed").ok
    assert not ended("Running").ok  # its object is closed a moment later
    assert ended("Succeeded").ok  # and it crashed there since


def test_where_it_went_once_is_not_where_it_is() -> None:
    """Its migration ended some minutes ago; it was stopped, or moved on, since."""
    moves = Moves("Succeeded", [], targetNode="n2")
    assert sighted(moves, "m1", 990.0)[1] == []
    obs, asked = sighted(moves, "m1", 100.0)
    assert "u1" not in obs.sightings and len(asked) == 3
    obs, asked = sighted(moves, "m1", 100.0, api=Api(running("v1", "n3")))
    assert [s.node for s in obs.sightings["u1"]] == ["n3"]
    assert len(asked) == 1  # for all of them


def failed(mark: str, *held: str) -> dict[tuple[str, int], Outcome]:
    """How an attempt ended whose request was not answered, of a VM on n1."""
    known = {"u1": Instance("shop", "web", "v1", asked=True)}
    known["u1"].refused = {"1": [Reason.APIError.value, "Read timed out."]}
    moves: Any = Moves("Failed", [])
    if mark or held:
        moves = SimpleNamespace(migrations_of=lambda *_of: [])
    departed = DepartedVMs(Api(), "n1", moves, lambda: known)  # type: ignore[arg-type]
    entry = VMRecord("u1", "shop/web")
    entry.attempts.append(Attempt(1, "", "", 0.0, ""))
    obs = Observation({}, {"u1": VM("u1", "shop/web", "n1")}, held=frozenset(held))
    here = running("v1", "n1")
    here["status"]["evacuationNodeName"] = mark
    departed.add_outcome(obs, "u1", entry, here)
    return obs.outcomes


def test_a_request_that_was_not_answered_and_worked_was_not_refused() -> None:
    outcome = failed("")[("u1", 1)]
    assert outcome.finding is not None and outcome.finding.reason is Reason.MigrationFailed
    assert outcome.work == "m1"  # its migration is there, and failed
    assert failed("n1") == {}  # its mark is there
    assert failed("", "u1") == {}  # it may still come
    refused = failed("n2")[("u1", 1)].finding
    assert refused is not None and refused.message == "Read timed out."


@pytest.mark.parametrize(
    ("ours", "text"), [(True, "Its migration was withdrawn."), (False, "Its migration object is gone.")]
)
def test_a_migration_that_we_have_withdrawn_is_told_as_that(ours: bool, text: str) -> None:
    departed = DepartedVMs(Api(), "n1", Moves("Running", []), lambda: KNOWN)  # type: ignore[arg-type]
    entry = VMRecord("u1", "shop/web")
    entry.attempts.append(Attempt(1, "", "", 0.0, "", work="another", abort_requested=ours))
    obs = Observation({}, {"u1": VM("u1", "shop/web", "n1", State.RUNNING)})
    departed.add_outcome(obs, "u1", entry, None)
    found = obs.outcomes[("u1", 1)].finding
    assert found is not None and found.message == text
