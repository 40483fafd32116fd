# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drains of several nodes at once: who asks for his VMs when."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import service
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.lease import (
    DRAINS,
    WAITING,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.turns import (
    other_drains,
)
from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, documented_rules
from kubesim.kinds import BY_PLURAL, VMIMS
from kubesim.reading import clean, evictions
from kubesim.words import annotations

pytestmark = pytest.mark.full

LEASES = BY_PLURAL["leases"]
COUNT = 8


@pytest.fixture
def eight(sim) -> None:
    """The first three are quick, and end one by one; the others hold their slots for a minute."""
    for number in range(COUNT):
        seconds = ("2", "12", "12")[number] if number < 3 else "600"
        sim.add_vm(f"vm{number}", "n1", migrate_seconds=seconds)


def drains_elsewhere(sim, *nodes: str, holder: str = "their-run 1", lasts: int = 60) -> None:
    for node in nodes:
        meta = {"name": f"virtops-maintenance-{node}", "namespace": "default"}
        meta.update(labels={DRAINS: "true"}, annotations={WAITING: "40"})
        spec = {"holderIdentity": holder, "leaseDurationSeconds": lasts}
        sim.add("leases", {"metadata": meta, "spec": spec})


def drain_for(operator, seconds: float) -> threading.Thread:
    thread = threading.Thread(target=operator.slice, args=(Intent.DRAINED, seconds))
    thread.start()
    return thread


def test_who_is_alone_soon_asks_for_all(sim, operator, eight) -> None:
    working = drain_for(operator, 5.0)
    sim.until(lambda: len(evictions(sim)) == COUNT, 4.5)
    asked = [call.at for call in sim.requests("POST", "/eviction")]
    assert asked[3] - asked[2] > 0.1  # the first three, then the others
    assert asked[-1] - asked[3] < 0.5
    working.join()


def test_where_other_nodes_have_more_vms_it_waits_for_its_turn(sim, operator, eight) -> None:
    """Three go, two that hold slots stay; then there is none to ask for."""
    drains_elsewhere(sim, "n2", "n3")
    working = drain_for(operator, 6.0)
    sim.until(lambda: told(sim, "n1"), 5.0)
    working.join()
    assert len(evictions(sim)) == 5
    found = operator.slice(Intent.DRAINED, 0.5)
    waiting = [vm["message"] for vm in found["vms"] if vm["reason"] == "WaitingForSlot"]
    assert len(waiting) == 3 and all("a node with more VMs goes first" in m for m in waiting)


def test_its_turn_comes_when_they_have_ended(sim, operator, eight) -> None:
    drains_elsewhere(sim, "n2", "n3")
    working = drain_for(operator, 12.0)
    sim.until(lambda: len(evictions(sim)) == 5, 8.0)
    for node in ("n2", "n3"):
        name = f"virtops-maintenance-{node}"
        sim.edit(LEASES, name, lambda o: o["spec"].update(holderIdentity=""), "default")
    sim.until(lambda: len(evictions(sim)) == COUNT, 3.0)
    working.join()


def test_what_an_ended_drain_has_left_holds_nobody_up(sim, operator, eight) -> None:
    drains_elsewhere(sim, "n2", "n3", holder="")
    working = drain_for(operator, 5.0)
    sim.until(lambda: len(evictions(sim)) == COUNT, 4.5)
    working.join()


def test_that_a_drain_elsewhere_died_is_seen_over_slices(sim, operator, eight, monkeypatch) -> None:
    """No slice lasts as long as its Lease would."""
    monkeypatch.setattr(other_drains, "_MARGIN", 0.0)
    drains_elsewhere(sim, "n2", "n3", lasts=4)
    found: dict[str, Any] = {"cursor": ""}
    for number in range(5):
        request = operator.request(Intent.DRAINED, "run-1", 2.5)
        request = replace(request, begun=number > 0, cursor=found["cursor"])
        found = service.run_slice(request)
    assert len(evictions(sim)) == COUNT


def test_without_the_right_to_see_the_others_it_drains_as_if_alone(sim, operator, eight) -> None:
    rules = documented_rules()
    for rule in rules:
        if "leases" in rule["resources"]:
            rule["verbs"] = ["get", "create", "update"]
    sim.api.access.rules[TOKEN] = rules
    drains_elsewhere(sim, "n2", "n3")
    working = drain_for(operator, 5.0)
    sim.until(lambda: len(evictions(sim)) == COUNT, 4.5)
    working.join()


def test_nothing_is_written_for_others_where_there_are_none(sim, operator) -> None:
    for number in range(COUNT):
        sim.add_vm(f"vm{number}", "n1")
    assert operator.drain()["phase"] == "Drained"
    assert told(sim, "n1") == ""


def told(sim, node: str) -> str:
    """To the other drains."""
    lease = sim.find(LEASES, f"virtops-maintenance-{node}")
    return "" if lease is None else annotations(lease).get(WAITING, "")


def test_drains_of_three_nodes_keep_pace_with_each_other(make_operator, sim, tmp_path) -> None:
    """Five slots, two for a node: nobody gets far ahead, or the last one is left alone."""
    nodes = ("n1", "n2", "n3")
    for node in ("t1", "t2", "t3"):
        sim.add_node(node)
    for node in nodes:
        for number in range(COUNT):
            sim.add_vm(f"{node}-vm{number}", node, migrate_seconds="15")
    operator = make_operator(sim, sim.kubeconfig(tmp_path / "config", TOKEN))

    def work(node: str, intent: Intent) -> str:
        request = operator.request(intent, f"{intent.value}-{node}", 40.0)
        return str(service.run_slice(replace(request, node=node))["phase"])

    sim.world.paused.add("evacuation")  # until all of them have begun
    with ThreadPoolExecutor() as pool:
        drains = [pool.submit(work, node, Intent.DRAINED) for node in nodes]
        sim.until(lambda: min(asked(sim, node) for node in nodes) == 3, 15.0)
        sim.world.paused.clear()
        seen = []
        while not all(drain.done() for drain in drains):
            seen.append([asked(sim, node) for node in nodes])
            time.sleep(0.1)
    assert [drain.result() for drain in drains] == ["Drained"] * 3
    assert max(max(now) - min(now) for now in seen) <= 3, seen
    assert len(sim.all(VMIMS)) == 3 * COUNT  # each was moved once
    assert [work(node, Intent.ACTIVE) for node in nodes] == ["Active"] * 3
    assert clean(sim)


def asked(sim, node: str) -> int:
    return sum(name.startswith(node) for name in evictions(sim))
