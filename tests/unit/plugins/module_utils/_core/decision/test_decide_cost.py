"""What one step of the decision costs on a fleet of a thousand hosts, easy and hard."""

from __future__ import annotations

import sys

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.constraints import Constraints
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, Node, Observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin

A_HOST = 60  # lines of Python for each host of the fleet
CARD = (Finding(Reason.InterfaceNotLiveMigratable, "no such network"),)
# What makes a fleet hard: (MiB in use on each host, what each VM wants, how many start)
FLEETS = {
    "roomy": (20 * 2048, {}, 2),
    "full": (65536 - 1500, {}, 0),
    "picky": (20 * 2048, {"refused_by": {f"n{i:04}": CARD for i in range(999)}}, 2),
    "near": (20 * 2048, {"constraints": Constraints(near="web")}, 2),
    "labelled": (20 * 2048, {"constraints": Constraints(selector={"disk": "ssd"})}, 0),
}


def thousand(committed: int, more: dict) -> Observation:
    nodes = {
        f"n{i:04}": Node(f"n{i:04}", capacity_mib=65536, committed_mib=committed + i, vm_count=20) for i in range(1000)
    }
    nodes["n0999"].group_counts["web"] = 2
    nodes["n0000"].cordoned = True
    vms = {f"u{i}": VM(f"u{i}", f"vm{i}", "n0000", memory_mib=2048, **more) for i in range(20)}
    return Observation(nodes, vms, now=10.0)


def lines(obs: Observation) -> int:
    """Lines of Python that are run: the same on each machine, however busy. The seconds are
    bench-slice's."""
    first = {"n0000": begin(None, "n0000", "drained", "r", 0.0, "")}
    then = decide(obs, first, Policy()).records
    return max(_lines(obs, records) for records in (first, then))


def _lines(obs: Observation, records: dict) -> int:
    count = 0

    def note(_frame, event, _arg):
        nonlocal count
        count += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        decide(obs, records, Policy())
    finally:
        sys.settrace(before)
    return count


def test_one_step_on_a_large_fleet_looks_at_each_host_a_few_times() -> None:
    """Not for each VM that leaves."""
    assert lines(thousand(*FLEETS["roomy"][:2])) <= A_HOST * 1000


@pytest.mark.parametrize("name", FLEETS)
def test_a_hard_fleet_costs_little_more_than_a_roomy_one(name: str) -> None:
    """Full, or with VMs that few hosts take: it was 10 to 25 times as much."""
    committed, more, starts = FLEETS[name]
    obs = thousand(committed, more)
    record = begin(None, "n0000", "drained", "r", 0.0, "")
    acts = decide(obs, {"n0000": record}, Policy()).actions
    assert len([a for a in acts if a.do is Do.MIGRATE]) == starts
    assert lines(obs) <= 2 * A_HOST * 1000
