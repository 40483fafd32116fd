"""Drains of several nodes at once: who asks for his VMs when."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.lease import DRAINS, WAITING
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.turns import other_drains
from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, documented_rules
from kubesim.evacuation import EvacuationController
from kubesim.kinds import BY_PLURAL, VMIMS
from kubesim.reading import clean, evictions, row
from kubesim.words import annotations

pytestmark = pytest.mark.full

LEASES = BY_PLURAL["leases"]
COUNT = 8


@pytest.fixture
def eight(sim) -> None:
    """The first three are quick, and end one by one; the others hold their slots to the end."""
    for number in range(COUNT):
        seconds = ("2", "12", "12")[number] if number < 3 else "6000"
        sim.add_vm(f"vm{number}", "n1", migrate_seconds=seconds)


def drains_elsewhere(sim, *nodes: str, holder: str = "their-run 1", lasts: int = 60) -> None:
    for node in nodes:
        meta = {"name": f"virtops-maintenance-{node}", "namespace": "default"}
        meta.update(labels={DRAINS: "true"}, annotations={WAITING: "40"})
        spec = {"holderIdentity": holder, "leaseDurationSeconds": lasts}
        sim.add("leases", {"metadata": meta, "spec": spec})


@contextmanager
def under_way(operator, seconds: float = 2.0) -> Iterator[None]:
    """A drain goes on meanwhile, in slices."""
    over = threading.Event()

    def work() -> None:
        request = replace(operator.request(Intent.DRAINED, "run-1", seconds), cursor="")
        while not over.is_set():
            found = service.run_slice(request)
            request = replace(request, begun=True, cursor=found.get("cursor", ""))

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(work)
        try:
            yield
        finally:
            over.set()
    job.result()


def all_asked(sim) -> bool:
    return len(evictions(sim)) == COUNT


def test_who_is_alone_soon_asks_for_all(sim, operator, eight) -> None:
    with under_way(operator, 5.0):
        sim.until(lambda: all_asked(sim))
    lines = [f"{call.method} {call.path}" for call in sim.log]
    asked = [number for number, line in enumerate(lines) if line.endswith("/eviction")]
    looks = [number for number, line in enumerate(lines) if line.startswith("GET") and "/leases" in line]
    # The first three, then a look at the other drains, then the rest at once.
    assert any(asked[2] < look < asked[3] for look in looks)
    assert not any(asked[3] < look < asked[-1] for look in looks)


def test_where_other_nodes_have_more_vms_it_waits_for_its_turn(sim, operator, eight) -> None:
    """Three go, two that hold slots stay; then there is none to ask for."""
    drains_elsewhere(sim, "n2", "n3")
    with under_way(operator):
        sim.until(lambda: told(sim, "n1") and len(evictions(sim)) == 5)
    found = operator.slice(Intent.DRAINED, 0.5)
    assert len(evictions(sim)) == 5
    waiting = [vm["message"] for vm in found["vms"] if vm["reason"] == "WaitingForSlot"]
    assert len(waiting) == 3 and all("a node with more VMs goes first" in m for m in waiting)


def test_its_turn_comes_when_they_have_ended(sim, operator, eight) -> None:
    drains_elsewhere(sim, "n2", "n3")
    with under_way(operator):
        sim.until(lambda: len(evictions(sim)) == 5)
        for node in ("n2", "n3"):
            name = f"virtops-maintenance-{node}"
            sim.edit(LEASES, name, lambda o: o["spec"].update(holderIdentity=""), "default")
        sim.until(lambda: all_asked(sim))


def test_what_an_ended_drain_has_left_holds_nobody_up(sim, operator, eight) -> None:
    drains_elsewhere(sim, "n2", "n3", holder="")
    with under_way(operator):
        sim.until(lambda: all_asked(sim))


def test_that_a_drain_elsewhere_died_is_seen_over_slices(sim, operator, eight, monkeypatch) -> None:
    """No slice lasts as long as its Lease would."""
    monkeypatch.setattr(other_drains, "_MARGIN", 0.0)
    drains_elsewhere(sim, "n2", "n3", lasts=4)
    with under_way(operator):
        sim.until(lambda: all_asked(sim))


def sees_no_others(sim) -> None:
    """That right is optional."""
    rules = documented_rules()
    for rule in rules:
        if "leases" in rule["resources"]:
            rule["verbs"] = ["get", "create", "update"]
    sim.api.access.rules[TOKEN] = rules


def test_without_the_right_to_see_the_others_it_drains_as_if_alone(sim, operator, eight) -> None:
    sees_no_others(sim)
    drains_elsewhere(sim, "n2", "n3")
    with under_way(operator):
        sim.until(lambda: all_asked(sim))


def test_a_right_that_is_optional_and_denied_is_not_asked_for_again(sim, operator) -> None:
    """Any other one is, for some seconds: a server that has just started denies what it grants later."""
    sim.add_vm("vm", "n1")
    sees_no_others(sim)
    operator.slice(Intent.DRAINED)
    asked = [call.query for call in sim.requests("GET", "/leases") if call.status == 403]
    assert asked and len(asked) == len(set(asked))


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
        request = replace(operator.request(intent, f"{intent.value}-{node}", 40.0), node=node)
        while (found := service.run_slice(request))["ended"] != "final":
            request = replace(request, begun=True, cursor=found.get("cursor", ""))
        return str(found["phase"])

    sim.world.paused.add("evacuation")  # until all of them have begun
    with ThreadPoolExecutor() as pool:
        drains = [pool.submit(work, node, Intent.DRAINED) for node in nodes]
        sim.until(lambda: min(asked(sim, node) for node in nodes) == 3)
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


def test_limits_that_were_lowered_are_read_before_anything_is_begun_on_their_strength(sim, operator) -> None:
    """As recorded on a real control plane (25): one waits beside a place that is none any more."""
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 2})
    for number in range(6):
        sim.add_vm(f"vm{number}", "n1", migrate_seconds="3000" if number else "35")
    request = replace(operator.request(Intent.DRAINED, "r", 1.5), cursor="")
    found = service.run_slice(request)
    asked = len(evictions(sim))
    assert asked == 3  # two that move, and one that waits
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 1})
    found = service.run_slice(replace(request, begun=True, cursor=found["cursor"], seconds=10.0))
    assert len([m for m in sim.all(VMIMS) if m["status"].get("phase") == "Succeeded"]) == 1
    assert len(evictions(sim)) == asked
    assert not [vm for vm in found["vms"] if "of 2 outbound" in vm["message"]], found["vms"]


@pytest.mark.parametrize("rules", [[], [{"name": "first", "when": "name == 'vm0'", "priority": 10}]])
def test_one_for_which_kubevirt_makes_no_migration_holds_up_nobody(sim, operator, monkeypatch, rules) -> None:
    for number in range(COUNT):
        sim.add_vm(f"vm{number}", "n1", migrate_seconds="5")
    made = EvacuationController._candidate
    monkeypatch.setattr(EvacuationController, "_candidate", lambda *a: a[1]["metadata"]["name"] != "vm0" and made(*a))
    found = operator.drain(pending_timeout=15.0, rules=rules)
    others = {vm["name"]: vm["verdict"] for vm in found["vms"]}
    assert (found["phase"], others.pop("default/vm0")) == ("Blocked", "blocked"), found
    assert set(others.values()) == {"moved"}
    assert row(found, "vm0")["reason"] == "EvacuationNotStarted"
    given_up = min(call.at for call in sim.requests("PUT", "/vm0/evacuate/cancel"))
    assert max(call.at for call in sim.requests("POST", "/eviction")) < given_up
