# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model import (
    Observation,
    Outcome,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.record import (
    Attempt,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.away import Away
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records import Instance

KNOWN = {"u1": Instance("shop", "web", "v1")}


class Api:
    """Has no VMI and no VM; counts what is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find(self, path: str) -> None:
        self.asked.append(path)


class Moves:
    def __init__(self, phase: str, finalizers: list[str], **state: Any) -> None:
        self._meta = {"name": "m", "namespace": "shop", "uid": "m1", "finalizers": finalizers}
        self._status = {"phase": phase, "migrationState": state}

    def migrations_of(self, _namespace: str, _name: str) -> list[dict[str, Any]]:
        return [{"metadata": self._meta, "spec": {"vmiName": "web"}, "status": self._status}]


class Anew:
    """The VM runs on n2 as another instance than the one that was to migrate."""

    def find(self, _path: str) -> dict[str, Any]:
        meta = {"name": "web", "namespace": "shop", "uid": "v2"}
        return {"metadata": meta, "spec": {}, "status": {"phase": "Running", "nodeName": "n2"}}

    def list(self, *_asked: str) -> tuple[list[dict[str, Any]], str]:
        return [], ""


def ended(phase: str) -> Outcome:
    """How the attempt is told whose VM was started anew."""
    api, moves = Anew(), Moves(phase, [])
    away = Away(api, "n1", moves, lambda: KNOWN)  # type: ignore[arg-type]
    entry = VMRecord("u1", "shop/web")
    entry.attempts.append(Attempt(1, "", "", 0.0, "", work="m1"))
    obs = Observation({}, {})
    away.locate({"u1": entry}, fresh=True)
    away.sight(obs, "u1", entry)
    away.outcome(obs, "u1", entry, None)
    assert obs.sightings["u1"][0].restarted
    return obs.outcomes[("u1", 1)]


def sighted(moves: Moves, work: str) -> tuple[Observation, list[str]]:
    api = Api()
    away = Away(api, "n1", moves, lambda: KNOWN)  # type: ignore[arg-type]
    entry = VMRecord("u1", "shop/web")
    entry.attempts.append(Attempt(1, "", "", 0.0, "", work=work))
    obs = Observation({}, {})
    away.locate({"u1": entry}, fresh=False)
    away.sight(obs, "u1", entry)
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
