"""Who waits for a slot, who has one, who is left."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Ending, NodeRecord, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.cluster import Cluster
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import facts, names
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.observe.observe import Observer
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.progress import migration_progress

NEW = Cluster((1, 9), "None", 5, 2, False)
OLD = Cluster((1, 6), "None", 5, 2, False)
LONG_AGO = "2026-01-01T00:00:00Z"


def vmi(marked: str = "n1", phase: str = "Running", able: str = "True", **spec: Any) -> dict:
    conditions = [{"type": "LiveMigratable", "status": able}]
    status = {"phase": phase, "nodeName": "n1", "conditions": conditions}
    meta = {"name": "vm", "namespace": "shop", "uid": "i1", "annotations": {}}
    return {"metadata": meta, "spec": spec, "status": {**status, "evacuationNodeName": marked}}


def vmim(phase: str, uid: str = "m1", node: str | None = "n1", request: str = "") -> dict:
    notes = {} if node is None else {names.EVACUATION: node}
    if request:
        notes[names.REQUEST] = json.dumps({"node": request})
    stamps = [{"phase": phase, "phaseTransitionTimestamp": LONG_AGO}]
    meta = {"name": uid, "namespace": "shop", "uid": uid, "annotations": notes}
    status = {"phase": phase, "phaseTransitionTimestamps": stamps}
    return {"metadata": meta, "spec": {"vmiName": "vm"}, "status": status}


def look(
    here: dict | None, *moves: dict, cluster: Cluster = NEW, ending: str = "", wanted: int = 0
) -> tuple[int, int, int]:
    """Of one VM: (queued, slots, left)."""
    observer = SimpleNamespace(
        node="n1",
        cluster=cluster,
        watches=SimpleNamespace(vmis=SimpleNamespace(items=lambda: [here] if here else [])),
        of=lambda _uuid: list(moves),
        unfinished=lambda _uuid: [m for m in moves if not facts.final(m)],
        evicted={},
        not_begun=set(),
        just=lambda _when, _uuid: False,
    )
    record = NodeRecord("n1", "run")
    uuid = facts.identity(here) if here else "u1"
    entry = VMRecord(uuid, "shop/vm", way="migrate", ending=ending or Ending.NONE.value)
    record.vms = {uuid: entry}
    found = migration_progress(observer, record, wanted)
    return (found.queued, found.slots, found.left)


def test_one_that_was_not_asked_for_is_left() -> None:
    assert look(vmi(marked="")) == (0, 0, 1)
    assert look(vmi(marked=""), ending=Ending.BLOCKED.value) == (0, 0, 0)
    assert look(vmi(marked=""), wanted=7) == (0, 0, 7)


def test_one_that_waits_for_a_slot() -> None:
    assert look(vmi()) == (1, 0, 1)
    assert look(vmi(), vmim("Pending")) == (1, 0, 1)


def test_one_that_has_a_slot_until_its_migration_ends() -> None:
    assert look(vmi(), vmim("Running")) == (0, 1, 0)
    assert look(None, vmim("Running")) == (0, 1, 0)
    assert look(None, vmim("Succeeded")) == (0, 0, 0)


def test_one_that_left_and_is_moved_on_from_elsewhere_has_no_slot_here() -> None:
    assert look(None, vmim("Running", node="n2")) == (0, 0, 0)
    assert look(None, vmim("Running", node=None)) == (0, 0, 0)
    assert look(None, vmim("Running", node=None, request="n1")) == (0, 1, 0)


def test_an_old_failure_does_not_take_it_from_the_queue() -> None:
    assert look(vmi(), vmim("Failed", "m0"), vmim("Pending")) == (1, 0, 1)


def test_one_whose_migration_just_failed_is_not_in_the_queue() -> None:
    assert look(vmi(), vmim("Failed")) == (0, 0, 1)


@pytest.mark.parametrize(
    "found",
    [vmi(phase="Succeeded"), vmi(able="False"), vmi("n2"), vmi(evictionStrategy="External")],
    ids=["ended", "not migratable", "marked for another node", "external"],
)
def test_a_mark_that_makes_no_migration_holds_up_nobody(found: dict) -> None:
    assert look(found)[0] == 0


@pytest.mark.parametrize(("cluster", "queued"), [(NEW, 0), (OLD, 1)])
def test_a_migration_of_our_own_is_behind_all_evacuations(cluster: Cluster, queued: int) -> None:
    """Before 1.7 all are our own."""
    assert look(vmi(""), vmim("Pending", node=None, request="n1"), cluster=cluster)[0] == queued


@pytest.mark.parametrize(
    ("run", "phase", "not_begun", "found"),
    [
        ("mine", "Running", False, [5]),
        ("theirs", "Running", False, []),
        ("mine", "Scheduling", False, []),
        ("mine", "Running", True, []),
    ],
    ids=["ours", "theirs", "waits for something else", "KubeVirt makes none"],
)
def test_a_migration_of_ours_that_waits_for_a_slot_has_its_priority(
    run: str, phase: str, not_begun: bool, found: list[int]
) -> None:
    machine, move = vmi(marked="", phase=phase), vmim("Pending", node=None)
    machine["metadata"]["annotations"][names.REQUEST] = json.dumps({"priority": 5})
    move["metadata"]["annotations"][names.REQUEST] = json.dumps({"run": run})
    observer = SimpleNamespace(
        node="n1",
        watches=SimpleNamespace(vmis=SimpleNamespace(items=lambda: [machine])),
        unfinished=lambda _uuid: [move],
        evicted={},
        cluster=NEW,
        of=lambda _uuid: [move],
        not_begun={facts.identity(machine)} if not_begun else set(),
        just=lambda _when, _uuid: False,
        _runs=["mine"],
    )
    assert Observer.priorities_waiting(observer) == found
