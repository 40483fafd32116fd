# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What real control and data planes did that no replay compares: moments, fields, events.

The clock stands still and is moved on, so a moment is one of simulated time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubesim import Kubesim, words
from kubesim.kinds import QUOTAS, VMIMS
from kubesim.store import Obj


@pytest.fixture
def sim() -> Iterator[Kubesim]:
    with Kubesim(scale=0) as cluster:
        for name in ("n1", "n2", "n3"):
            cluster.add_node(name)
        yield cluster
        assert cluster.world.broken == []


def migrate(sim: Kubesim, vm: str, name: str = "m", **notes: str) -> None:
    knobs = {f"lab/{key.replace('_', '-')}": value for key, value in notes.items()}
    meta = {"name": name, "namespace": "default", "finalizers": [words.FINALIZER], "annotations": knobs}
    meta["labels"] = {words.VMI_NAME: vm}
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": vm}})


def phase(sim: Kubesim, name: str = "m") -> str:
    found = sim.find(VMIMS, name)
    return words.phase(found) if found else "gone"


def until_phase(sim: Kubesim, wanted: str, name: str = "m", seconds: float = 20.0) -> None:
    sim.until(lambda: words.phase(sim.world.store.get(VMIMS, "default", name)) == wanted, seconds)


# The queue


def limits(sim: Kubesim, number: int) -> None:
    both = ("parallelMigrationsPerCluster", "parallelOutboundMigrationsPerNode")
    sim.configure(migrations=dict.fromkeys(both, number))


def active(sim: Kubesim) -> list[str]:
    found = [m for m in sim.all(VMIMS) if words.phase(m) not in ("", "Pending", *words.FINAL)]
    return sorted(m["spec"]["vmiName"] for m in found)


def test_limits_that_change_while_some_wait(sim: Kubesim) -> None:
    """Recording 25: what runs goes on; fewer may begin from now on, or more, within a second."""
    limits(sim, 2)
    for number in range(6):
        sim.add_vm(f"v{number}", "n1", migrate_seconds="3" if number else "2")
        migrate(sim, f"v{number}", f"m{number}")
    sim.until(lambda: len(active(sim)) == 2)
    limits(sim, 1)
    until_phase(sim, "Succeeded", "m0")
    sim.advance(0.5)
    assert active(sim) == ["v1"]
    until_phase(sim, "Succeeded", "m1")
    sim.advance(0.2)
    assert active(sim) == ["v2"]
    limits(sim, 4)
    sim.advance(1.1)
    assert active(sim) == ["v2", "v3", "v4", "v5"]


def test_a_migration_that_a_quota_holds_back_takes_no_place(sim: Kubesim) -> None:
    """Recording 27: limit 2, two before it; the next one goes through."""
    limits(sim, 2)
    for name in ("q1", "q2"):
        sim.add_vm(name, "n1", namespace="default")
    sim.add_vm("o1", "n1", namespace="other")
    spec: Obj = {"hard": {"pods": "2"}}
    sim.add("resourcequotas", {"metadata": {"name": "tight", "namespace": "default"}, "spec": spec})
    for name in ("q1", "q2"):
        migrate(sim, name, name)
    meta: dict[str, Any] = {"name": "o1", "namespace": "other", "finalizers": [words.FINALIZER]}
    sim.advance(2)
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": "o1"}})
    sim.until(lambda: words.final(sim.world.store.get(VMIMS, "other", "o1")))
    assert (phase(sim, "q1"), phase(sim, "q2")) == ("Pending", "Pending")
    sim.edit(QUOTAS, "tight", lambda o: o["spec"]["hard"].update(pods="3"), "default")
    sim.advance(0.1)
    assert sorted(phase(sim, name) for name in ("q1", "q2")) == ["Pending", "Scheduling"]
