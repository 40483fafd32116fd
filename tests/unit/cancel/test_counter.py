"""What test-cancel counts in the simulator's log: each fault that it has a word for is seen."""

from __future__ import annotations

from typing import Any

import pytest
from cancel.case import WORDS
from cancel.simulator import ROLLS, CancelCounter
from cancel.ways import WAYS

Obj = dict[str, Any]


def node(cordoned: bool = False, boot: str = "1", name: str = "n1", **notes: str) -> Obj:
    meta = {"name": name, "annotations": notes}
    status = {"nodeInfo": {"bootID": boot}}
    return {"kind": "Node", "metadata": meta, "spec": {"unschedulable": cordoned}, "status": status}


def vmi(uid: str = "u1", on: str = "n1", phase: str = "Running", **status: str) -> Obj:
    status = {"phase": phase, "nodeName": on, **status}
    meta = {"name": "vm", "namespace": "default", "uid": uid}
    return {"kind": "VirtualMachineInstance", "metadata": meta, "status": status}


def pod(name: str, uid: str) -> Obj:
    meta = {"name": name, "labels": {"kubevirt.io/created-by": uid}, "annotations": {"kubevirt.io/domain": "vm"}}
    return {"kind": "Pod", "metadata": meta, "spec": {}, "status": {"phase": "Running"}}


DONE = [node(), node(True), node(True, "2"), node(False, "2")]


def counted(*objects: Obj, may: str = "move") -> CancelCounter:
    counter = CancelCounter({"vm": may})
    for obj in [vmi(), *objects]:
        counter.feed({"type": "MODIFIED", "object": obj})
    counter.end()
    return counter


def found(counter: CancelCounter) -> dict[str, int]:
    return {
        "lost": len(counter.surprises),
        "twice": len(counter.twice),
        "leftovers": len(counter.leftovers()),
        "redone": len(counter.outs.redone),
        "boots": max(len(boots) for boots in counter.outs.boots.values()) - 1,
        "most_out": counter.outs.most_out,
    }


WELL = {"lost": 0, "twice": 0, "leftovers": 0, "redone": 0, "boots": 1, "most_out": 1}


@pytest.mark.parametrize(
    ("more", "seen"),
    [
        ([], {}),
        ([vmi(phase="Succeeded")], {"lost": 2}),
        ([pod("a", "u1"), pod("b", "u2")], {"twice": 1}),
        ([vmi(evacuationNodeName="n1")], {"leftovers": 1}),
        ([node(False, "2", **{"virtops.maintenance/run": "x"})], {"leftovers": 1}),
        ([node(True, "2")], {"leftovers": 1, "redone": 1}),
        ([node(False, "3")], {"redone": 1, "boots": 2}),
        ([node(True, name="n2"), node(True, name="n3")], {"leftovers": 2, "most_out": 2}),
    ],
)
def test_each_fault_is_counted(more: list[Obj], seen: dict[str, int]) -> None:
    assert found(counted(*DONE, *more)) == {**WELL, **seen}


def test_a_host_that_is_rebooted_twice_while_it_is_out_was_not_given_back_before() -> None:
    assert found(counted(*DONE[:3], node(True, "3"), node(False, "3"))) == {**WELL, "boots": 2}


def test_a_vm_that_may_be_stopped_is_not_lost_if_it_runs_again() -> None:
    stopped = [vmi(phase="Succeeded"), vmi("u2", "n2")]
    assert found(counted(*DONE, *stopped, may="stop")) == WELL


def test_ten_cases_cancel_in_each_way_before_each_command() -> None:
    cases = [ROLLS.draw(1, number) for number in range(1, 61)]
    assert {(case.way, case.then) for case in cases[:10]} == {
        (way, then) for way in WAYS for then in ("again", "abort")
    }
    assert sum(case.host == 1 for case in cases) > len(cases) / 2
    assert cases == [ROLLS.draw(1, number) for number in range(1, 61)]
    assert len(WORDS) == 6
