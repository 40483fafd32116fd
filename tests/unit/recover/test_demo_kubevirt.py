"""What `make recover-demo-kubevirt` counts, from a log in which it goes wrong."""

from __future__ import annotations

from typing import Any

from recover import judge
from recover.demo_kubevirt import DEAD, OUT_OF_SERVICE, events

PROVEN = 10.0


def node(at: float, *taints: str, **notes: str) -> dict[str, Any]:
    meta = {"name": DEAD, "annotations": {f"lab/{key}": value for key, value in notes.items()}}
    spec = {"taints": [{"key": taint} for taint in taints]}
    status = {"nodeInfo": {"bootID": "boot-1"}}
    return {"at": at, "type": "MODIFIED", "object": {"kind": "Node", "metadata": meta, "spec": spec, "status": status}}


def vmi(at: float, uid: str, host: str, phase: str = "Running") -> dict[str, Any]:
    obj = {"kind": "VirtualMachineInstance", "metadata": {"name": "vm", "uid": uid}}
    return {"at": at, "type": "MODIFIED", "object": {**obj, "status": {"nodeName": host, "phase": phase}}}


def counted(*lines: dict[str, Any]) -> tuple[list[str], list[str]]:
    log = list(events([vmi(0.0, "1", DEAD), *lines], PROVEN))
    return judge.twice(log), judge.without_proof(log[1:], DEAD)


def test_a_vm_that_runs_elsewhere_after_power_cut_proof_and_taint_is_right() -> None:
    assert counted(node(1, down="true"), node(11, OUT_OF_SERVICE, down="true"), vmi(12, "2", "n2")) == ([], [])


def test_a_vm_that_is_started_while_its_node_has_power_runs_twice() -> None:
    assert counted(node(11, OUT_OF_SERVICE), vmi(12, "2", "n2")) == (["vm"], [])


def test_a_vm_that_is_started_before_the_proof_or_by_a_taint_of_before_is_seen() -> None:
    early, late = node(5, OUT_OF_SERVICE, down="true"), vmi(12, "2", "n2")
    assert counted(node(1, down="true"), early, vmi(6, "2", "n2")) == ([], ["vm"])
    assert counted(node(1, down="true"), early, late) == ([], ["vm"])
