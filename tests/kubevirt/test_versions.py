"""Older KubeVirts.

Before 1.7 nobody can take a mark back, so a drain asks for none: it makes migrations of its own,
which can be withdrawn on every version. Before 1.9 KubeVirt makes evacuations two by two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.tests.kubevirt.account import documented_rules
from kubesim.cluster import Kubesim
from kubesim.kinds import VMIMS, VMIS
from kubesim.reading import clean, evictions, row


@pytest.fixture
def older(tmp_path: Path, make_operator: Any) -> Iterator[Callable[..., Any]]:
    """A cluster of that version, and who drains its n1."""
    opened = []

    def begin(version: tuple[int, int]) -> tuple[Kubesim, Any]:
        sim = Kubesim(scale=10, version=version)
        sim.__enter__()
        opened.append(sim)
        for name in ("n1", "n2", "n3"):
            sim.add_node(name)
        sim.api.access.rules["m"] = documented_rules()
        return sim, make_operator(sim, sim.kubeconfig(tmp_path / "kubeconfig", "m"))

    yield begin
    for sim in opened:
        assert sim.world.broken == []
        sim.__exit__(None, None, None)


@pytest.mark.parametrize("version", [(1, 3), (1, 6), (1, 7), (1, 8), (1, 9)])
def test_a_drain_moves_all_and_leaves_nothing(older: Any, version: tuple[int, int]) -> None:
    sim, operator = older(version)
    for name in ("a", "b", "c"):
        sim.add_vm(name, "n1")
    found = operator.drain()
    assert (found["phase"], found["counts"]["moved"]) == ("Drained", 3)
    assert {sim.node_of(name) for name in "abc"} <= {"n2", "n3"}
    assert (evictions(sim) == []) == (version < (1, 7))
    assert operator.restore()["phase"] == "Active" and clean(sim)


@pytest.mark.full
@pytest.mark.parametrize("version", [(1, 6), (1, 7)])
@pytest.mark.parametrize(
    ("phase", "knobs"), [("PreparingTarget", {"prepare": "hang"}), ("Running", {"migrate_seconds": "1000"})]
)
def test_an_abort_leaves_no_mark(older: Any, version: tuple[int, int], phase: str, knobs: dict[str, str]) -> None:
    sim, operator = older(version)
    sim.add_vm("vm", "n1", **knobs)
    operator.slice(Intent.DRAINED, 2.0)
    assert [m["status"]["phase"] for m in sim.all(VMIMS)] == [phase]
    found = operator.restore()
    assert (found["phase"], row(found, "vm")["verdict"]) == ("Active", "restored")
    assert clean(sim) and sim.node_of("vm") == "n1"


@pytest.mark.full
def test_attempts_of_our_own_are_bounded(older: Any) -> None:
    sim, operator = older((1, 6))
    sim.add_vm("vm", "n1", migrate_result="fail", migrate_fail_reason="link is down")
    found = operator.drain(max_attempts=2, backoff=0.2)
    vm = row(found, "vm")
    assert (found["phase"], vm["reason"], vm["attempts"]) == ("Blocked", "AttemptsUsedUp", 2)
    assert "link is down" in vm["message"] and len(sim.all(VMIMS)) == 2
    assert sim.leftovers() == []


@pytest.mark.full
def test_higher_priority_has_the_slots_first(older: Any) -> None:
    sim, operator = older((1, 6))
    for name in ("a", "b", "c", "d"):
        tier = "db" if name in "cd" else "web"
        sim.add_vm(name, "n1", labels={"tier": tier}, migrate_seconds="10")
    rules = [{"name": "db first", "when": "labels.tier == 'db'", "priority": 5}]
    sim.configure(migrations={"parallelOutboundMigrationsPerNode": 1})
    assert operator.drain(rules=rules)["phase"] == "Drained"
    made = sorted(sim.all(VMIMS), key=lambda m: m["metadata"]["creationTimestamp"])
    assert {m["spec"]["vmiName"] for m in made[:2]} == {"c", "d"} and len(made) == 4
    slots = [
        stamp["phaseTransitionTimestamp"]
        for m in made[:2]
        for stamp in m["status"]["phaseTransitionTimestamps"]
        if stamp["phase"] == "Scheduling"
    ]
    assert max(slots) <= min(m["metadata"]["creationTimestamp"] for m in made[2:])


@pytest.mark.full
def test_a_mark_that_stays_is_not_told_as_restored(older: Any) -> None:
    """The owner of an External VM is told by the mark, on every version."""
    sim, operator = older((1, 6))
    sim.add_vm("theirs", "n1", strategy="External")
    operator.slice(Intent.DRAINED, 1.5)
    assert sim.find(VMIS, "theirs")["status"]["evacuationNodeName"] == "n1"
    found = operator.restore(max_attempts=2, backoff=0.2)
    vm = row(found, "theirs")
    assert (found["phase"], vm["verdict"], vm["reason"]) == ("Blocked", "blocked", "EvacuationMarkStays")
    assert "since 1.7" in vm["message"]
    assert sim.requests("PUT", "/evacuate/cancel") == []


@pytest.mark.full
def test_a_refused_cancel_is_not_told_as_restored(sim: Any, operator: Any) -> None:
    """KubeVirt refuses it while the node has its drain taint."""
    from kubesim.kinds import NODES

    sim.add_vm("theirs", "n1", strategy="External")
    operator.slice(Intent.DRAINED, 1.5)
    taint = {"key": "kubevirt.io/drain", "effect": "NoSchedule"}
    sim.edit(NODES, "n1", lambda o: o["spec"].update(taints=[taint]))
    found = operator.restore(max_attempts=2, backoff=0.2)
    vm = row(found, "theirs")
    assert (found["phase"], vm["verdict"], vm["reason"]) == ("Blocked", "blocked", "DrainTaint")
    assert "NodeDrainTaintKey" in vm["message"]
