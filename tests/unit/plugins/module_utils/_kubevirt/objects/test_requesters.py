"""Marks, migrations and signatures: ours, and those of others."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, Superseded
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.migration import Clocks, Migrator
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.model import (
    MigrationRequest,
    View,
    WantedState,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import names, requesters
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records.node_record import Instance
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.requests.signature import Signature
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.withdraw import Withdrawal

RUNS = ["drain", "restore"]


def vmi(mark: str = "", **note: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"namespace": "shop", "name": "web", "uid": "v1"}
    meta.update(resourceVersion="5", annotations={}, labels={})
    if note:
        meta["annotations"][names.REQUEST] = json.dumps(note)
        meta["labels"][names.FROM_NODE] = "n1"
    status = {"phase": "Running", "nodeName": "n1", "evacuationNodeName": mark}
    return {"metadata": meta, "spec": {}, "status": status}


class Api:
    """One VMI. `sent`: writes, with the last part of their path."""

    def list(self, *_args: Any) -> tuple[list[Any], str]:
        return [], ""  # no migration was made meanwhile

    def __init__(self, obj: dict[str, Any]) -> None:
        self.vmi = obj
        self.sent: list[tuple[str, str]] = []

    def find(self, _path: str) -> dict[str, Any]:
        return copy.deepcopy(self.vmi)

    def request(self, method: str, path: str, *_more: Any, **_options: Any) -> dict[str, Any]:
        self.sent.append((method, path.rsplit("/", 1)[-1]))
        return self.find(path)


def withdraw(api: Api, known: Instance) -> list[tuple[str, str]]:
    """As a restore does, in a slice of its own: what it writes."""
    api.sent.clear()
    watches: Any = SimpleNamespace(vmis=SimpleNamespace(put=lambda _obj: None, items=list))
    observer: Any = SimpleNamespace(
        cluster=SimpleNamespace(version=(1, 8)), unfinished=lambda _uuid: [], node="n1", watches=watches, withdrawn={}
    )
    records: Any = SimpleNamespace(instances={"u1": known})
    client: Any = api
    record = NodeRecord("n1", "restore", runs=list(RUNS))
    signature = Signature(client, watches, lambda: "now")
    made = Withdrawal(client, observer, records, signature)
    made.withdraw(Action(Do.UNMARK, "n1", "u1"), record)
    assert made.note_withdrawn(record) == {}
    return list(api.sent)


def test_a_mark_that_others_set_after_ours_was_withdrawn_stays() -> None:
    api = Api(vmi("n1", run="drain", node="n1"))
    known = Instance("shop", "web", "v1", asked=True)
    assert ("PUT", "cancel") in withdraw(api, known)
    api.vmi = vmi()
    assert withdraw(api, known) == []
    api.vmi = vmi("n1")  # kubectl drain, or the descheduler
    assert withdraw(api, known) == [] and not known.asked


def test_whose_mark_it_is_by_what_is_signed() -> None:
    ours = vmi("n1", run="drain", node="n1")
    assert requesters.mark_is_ours(ours, "n1", RUNS, False)  # a run that was killed did not note it
    no_mark = vmi("n1", run="drain", node="n1", marks=False)  # we stop it, or ask only its owner
    assert not requesters.mark_is_ours(no_mark, "n1", RUNS, False)
    assert requesters.mark_is_ours(no_mark, "n1", RUNS, True)  # it was evicted before
    assert not requesters.mark_is_ours(vmi("n2", run="drain", node="n1"), "n1", RUNS, True)
    over_it = vmi("n1", run="of a user", node="n1")
    assert requesters.mark_is_ours(over_it, "n1", RUNS, True)
    assert not requesters.mark_is_ours(over_it, "n1", RUNS, False)
    assert not requesters.mark_is_ours(vmi("n1"), "n1", RUNS, True)


def migration(run: str = "", evacuated: str = "", born: str = "2026-01-01T00:00:10Z") -> Any:
    notes = {names.REQUEST: json.dumps({"run": run})} if run else {}
    notes.update({names.EVACUATION: evacuated} if evacuated else {})
    return {"metadata": {"uid": "m1", "annotations": notes, "creationTimestamp": born}}


def test_a_migration_of_another_run_is_not_ours() -> None:
    assert not requesters.is_ours(migration("of a user"), "n1", RUNS, True)
    assert not requesters.is_ours(migration(), "n1", RUNS, True)
    assert requesters.is_ours(migration("drain"), "n1", RUNS, False)
    assert requesters.is_ours(migration(evacuated="n1"), "n1", RUNS, True)
    assert not requesters.is_ours(migration(evacuated="n2"), "n1", RUNS, True)
    assert not requesters.is_ours(migration(evacuated="n1"), "n1", RUNS, False)


def test_the_note_of_another_run_stays() -> None:
    known = Instance("shop", "web", "v1", asked=True)
    assert withdraw(Api(vmi("", run="of a user", node="n1")), known) == []
    ours = withdraw(Api(vmi("", run="drain", node="n1")), known)
    assert ours == [("POST", "events"), ("PATCH", "web")]


def next_step(uid: str, *migrations: Any) -> Any:
    """Of a run that has signed, where the note is gone. `uid`: of whom this slice saw signed."""
    request = MigrationRequest({}, "web", "shop", WantedState.MIGRATED, "mine", begun=True)
    migrator = Migrator(request, Clocks())
    migrator._uid = uid
    obj = vmi()
    obj["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return migrator._next(View(obj, migrations, 10.0))


def test_a_note_that_another_run_took_away_is_no_restart() -> None:
    with pytest.raises(Superseded, match="removed the request of this run"):
        next_step("v1")
    with pytest.raises(Superseded):
        next_step("", migration("mine"))


def test_a_vm_that_was_started_anew_has_no_note() -> None:
    before = migration("mine", born="2025-12-31T23:59:59Z")
    for step in (next_step("old"), next_step("", before)):
        assert step.finding.message == "It was stopped and restarted on n1."
    assert "or someone has removed" in next_step("").finding.message  # not known
