"""A drain that an earlier release began is carried on by this one, and undone.

Its record is this one's without the fields that came since: tests/recorded/written/VERSION.json has those of then.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.names import INSTANCES, RECORD
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.node_record import pack, unpack
from kubesim.kinds import NODES, VMIMS
from kubesim.words import annotations, phase

pytestmark = pytest.mark.full
FILES = sorted((Path(__file__).resolve().parents[1] / "recorded" / "written").glob("*.json"))


def of_then(record: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """The record of a Node without what `written` lacks, which has one VM with one attempt."""
    (vm,) = written["vms"].values()
    (attempt,) = vm["attempts"]
    vms = {uuid: only(one, vm) for uuid, one in record["vms"].items()}
    for one in vms.values():
        one["attempts"] = [only(tried, attempt) for tried in one["attempts"]]
    return {**only(record, written), "vms": vms}


def only(now: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in now.items() if key in then}


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_a_drain_that_an_earlier_release_began_is_carried_on_and_undone(file, sim, operator, verdicts) -> None:
    written = json.loads(file.read_text(encoding="utf-8"))
    sim.add_vm("job", "n1", strategy="None", run_strategy="RerunOnFailure")
    sim.add_vm("web", "n1", migrate_seconds="1")
    sim.add_vm("big", "n1", migrate_seconds="60")

    def is_midway(found: dict[str, Any]) -> bool:
        seen = verdicts(found)
        moves = any(phase(migration) == "Running" for migration in sim.all(VMIMS))
        return moves and (seen["job"], seen["web"]) == ("stopped", "moved")

    operator.drain_until(is_midway, 0.5, allow_stop=True)
    notes = annotations(sim.find(NODES, "n1"))
    record, instances = (json.loads(unpack(notes[name])) for name in (RECORD, INSTANCES))
    older = {
        RECORD: pack(json.dumps(of_then(record, written["NodeRecord"]))),
        INSTANCES: pack(json.dumps({uuid: only(one, written["Instance"]) for uuid, one in instances.items()})),
    }
    sim.edit(NODES, "n1", lambda node: annotations(node).update(older))
    found = operator.drain(allow_stop=True)
    assert (found["phase"], verdicts(found)) == ("Drained", {"job": "stopped", "web": "moved", "big": "moved"})
    assert operator.restore()["phase"] == "Active"
    assert sim.leftovers() == [] and RECORD not in annotations(sim.find(NODES, "n1"))
    sim.until(lambda: sim.running("job"))
