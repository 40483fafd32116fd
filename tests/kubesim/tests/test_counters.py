"""Those who count: the demo's counter and the benchmark's reading of the server's log.

Each is fed a log in which something is wrong, and has to see it.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from bench.kubevirt_log import Log
from demo_kubevirt.counter import Counter

DECLARED = {"web": "move", "old": "stop", "far": "stay"}


def node(name: str, cordoned: bool = False, **notes: str) -> dict[str, Any]:
    spec = {"unschedulable": True} if cordoned else {}
    return {"kind": "Node", "metadata": {"name": name, "annotations": notes}, "spec": spec}


def vmi(name: str, at: str, uid: str = "", phase: str = "Running", **status: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"}
    told = {"phase": phase, "nodeName": at, **status}
    return {"kind": "VirtualMachineInstance", "metadata": meta, "spec": {}, "status": told}


def moved(name: str, to: str) -> dict[str, Any]:
    return vmi(name, to, migrationState={"targetNode": to, "completed": True})


# A roll over one node as it should be: web migrates, old is stopped and started elsewhere.
GOOD = [
    ("ADDED", node("n1")),
    ("ADDED", node("n2")),
    ("ADDED", vmi("web", "n1")),
    ("ADDED", vmi("old", "n1")),
    ("ADDED", vmi("far", "n2")),
    ("MODIFIED", node("n1", cordoned=True)),
    ("MODIFIED", moved("web", "n2")),
    ("MODIFIED", vmi("old", "n1", phase="Succeeded")),
    ("DELETED", vmi("old", "n1", phase="Succeeded")),
    ("ADDED", vmi("old", "n2", uid="second")),
    ("MODIFIED", node("n1")),
]


def count(lines: list[tuple[str, dict[str, Any]]]) -> Counter:
    counter = Counter(DECLARED)
    for kind, obj in lines:
        counter.feed({"type": kind, "object": copy.deepcopy(obj)})
    counter.end()
    return counter


def test_a_roll_as_it_should_be() -> None:
    found = count(GOOD)
    assert (found.surprises, found.leftovers(), found.done) == ([], [], ["n1"])
    assert found.moves["web"] == ["n1>n2"] and found.stopped == {"old": 1}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (("MODIFIED", vmi("web", "n2", phase="Failed")), "web was stopped"),
        (("DELETED", vmi("web", "n2")), "web was stopped"),
        (("DELETED", vmi("old", "n2", uid="second")), "old does not run at the end"),
        (("MODIFIED", vmi("web", "n3")), "web is on n3 without a migration to it"),
        (("MODIFIED", moved("far", "n3")), "far was moved"),
    ],
)
def test_what_may_not_happen_is_seen(line: tuple[str, dict[str, Any]], says: str) -> None:
    assert says in count([*GOOD, line]).surprises


@pytest.mark.parametrize(
    ("obj", "says"),
    [
        (vmi("far", "n2", evacuationNodeName="n2"), "far is marked"),
        (node("n1", cordoned=True), "n1 is still cordoned"),
        (node("n1", **{"virtops.maintenance/record": "{}"}), "n1 has virtops.maintenance/record"),
        (
            {
                "kind": "VirtualMachineInstanceMigration",
                "metadata": {"name": "m", "namespace": "default"},
                "status": {"phase": "Pending"},
            },
            "migration m has not ended",
        ),
        (
            {
                "kind": "Lease",
                "metadata": {"name": "l", "namespace": "default"},
                "spec": {"holderIdentity": "somebody"},
            },
            "lease l is held",
        ),
    ],
)
def test_what_is_left_behind_is_seen(obj: dict[str, Any], says: str) -> None:
    assert count([*GOOD, ("MODIFIED", obj)]).leftovers() == [says]


def test_a_node_that_was_never_empty_does_not_count_as_done() -> None:
    lines = [line for line in GOOD if line[1] != moved("web", "n2")]
    assert count(lines).done == []


def test_the_benchmark_counts_one_client_from_its_first_to_its_last_request(tmp_path: Path) -> None:
    def call(at: float, user: str) -> dict[str, Any]:
        base = {"method": "GET", "path": "/api/v1/nodes/n1", "query": "", "status": 200}
        return {**base, "at": at, "seconds": 0.1, "user": user, "agent": ""}

    def change(at: float, kind: str, obj: dict[str, Any]) -> dict[str, Any]:
        return {"at": at, "type": kind, "object": obj}

    pod = {"kind": "Pod", "metadata": {"labels": {"kubevirt.io/migrationJobUID": "u"}}}
    ended = {"kind": "VirtualMachineInstanceMigration", "metadata": {"uid": "u"}}
    ended["status"] = {"phase": "Succeeded"}
    requests, changes = tmp_path / "requests.jsonl", tmp_path / "changes.jsonl"
    requests.write_text(json.dumps(call(1.0, "us")) + "\n")
    changes.write_text("")
    log = Log(tmp_path)
    log.skip()
    with requests.open("a") as stream:
        for at, user in ((10.0, "else"), (11.0, "us"), (12.5, "us"), (99.0, "else")):
            stream.write(json.dumps(call(at, user)) + "\n")
    with changes.open("a") as stream:
        for line in (change(11.0, "ADDED", pod), change(17.0, "MODIFIED", ended)):
            stream.write(json.dumps(line) + "\n")
    found = log.stretch("us")
    assert (found.span, found.requests, found.slots) == (1.5, 2, (6.0,))
    assert found.kinds == {"GET nodes": 2}
