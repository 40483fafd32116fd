"""Withdrawing what a drain asked for, VM by VM. The order: requests/withdrawal."""

from __future__ import annotations

import time
from collections.abc import Container
from typing import Any

from ..._core.decision.actions import Action
from ..._core.model.record import Intent, NodeRecord
from ..._core.reasons.reason import Finding, Reason
from ..api.client import Client
from ..api.cluster import can_cancel
from ..api.errors import AccessDenied, KubeError
from ..objects import facts, names, requesters
from ..observe.observe import Observer
from ..records.node_record import Instance, Records, instance_of
from ..requests import migration_api
from ..requests.signature import Signature
from ..requests.withdrawal import WithdrawalStep, mark_stays, withdrawal_steps

Obj = dict[str, Any]
# A withdrawal takes a moment to be seen; asking again sooner only makes noise.
_ASK_AGAIN = 1.0
# How long a migration that was deleted may stay in the preparation of its target.
_STUCK = 0.9


class Withdrawal:
    """Withdraws the requests of one slice. Keeps what it asked, so that it asks once a second and not at each look."""

    def __init__(self, client: Client, observer: Observer, records: Records, signature: Signature) -> None:
        self._client = client
        self._observer = observer
        self._records = records
        self._signature = signature
        self._asked: dict[str, float] = {}  # UUID of a VM -> when
        self._refused: dict[str, Finding] = {}  # UUID of a VM -> why, until it is asked again
        self._unsigned: dict[str, Obj] = {}  # UUID of a VM -> its VMI, withdrawn and not yet noted
        self._deleted: dict[str, float] = {}  # UID of a migration -> when we deleted it

    def withdraw(self, action: Action, record: NodeRecord) -> Finding | None:
        """Withdraw the mark and the migrations of this VM that are ours; None, or why that was refused.

        What others asked for stays, the descheduler's mark too.
        """
        if time.monotonic() - self._asked.get(action.vm, -1e9) < _ASK_AGAIN:
            return self._refused.get(action.vm)
        self._asked[action.vm] = time.monotonic()
        self._refused.pop(action.vm, None)
        try:
            refused = self._withdraw(action, record)
        except AccessDenied as exc:
            refused = Finding(Reason.Forbidden, str(exc))
        if refused is not None:
            self._refused[action.vm] = refused
        return refused

    def _withdraw(self, action: Action, record: NodeRecord) -> Finding | None:
        known = self._records.instances[action.vm]
        vmi = self._watched(known) or instance_of(self._client, known)
        marked, node = False, self._observer.node
        if vmi is not None and facts.mark(vmi):
            marked = known.asked = requesters.mark_is_ours(vmi, node, record.runs, known.asked)
        if marked and vmi is not None and not can_cancel(self._observer.cluster):
            return mark_stays(facts.mark(vmi))
        moving = self._observer.unfinished(action.vm)
        ours = [m for m in moving if requesters.is_ours(m, node, record.runs, known.asked)]
        for due, what in withdrawal_steps(vmi, marked, ours, self._stuck):
            self._do(due, what, vmi)
        if marked:
            self._end_made_meanwhile(known, {m["metadata"]["uid"] for m in moving})
        self._observer.withdrawn[action.vm] = time.monotonic()
        if vmi is not None and facts.request(vmi).get("run") in record.runs:
            self._unsigned[action.vm] = vmi
        return None

    def _end_made_meanwhile(self, known: Instance, seen: Container[str]) -> None:
        """KubeVirt may make a migration in the moment in which the mark is taken away. It stays, and would run."""
        path, node = names.kubevirt(known.namespace, "virtualmachineinstancemigrations"), self._observer.node
        label = f"{names.VMI_NAME}={known.name}" if len(known.name) <= 63 else ""  # a longer one is no label
        found, _version = self._client.list(path, label)
        for migration in (m for m in found if m["spec"].get("vmiName") == known.name):
            made_for_it = facts.annotations(migration).get(names.EVACUATION) == node
            new = migration["metadata"]["uid"] not in seen and not facts.final(migration)
            if made_for_it and new and not facts.deleted(migration):
                self._do(WithdrawalStep.DELETE, migration, None)

    def note_withdrawn(self, record: NodeRecord) -> dict[str, Finding]:
        """Say on the VMs that their request was withdrawn: an Event, and our annotation goes.

        An abort withdraws first, and this is done when all migrations have ended. Gives UUID -> what went wrong. What
        a killed run leaves is removed by the end of the restore.
        """
        wrong: dict[str, Finding] = {}
        aborts = record.intent == Intent.ACTIVE.value
        if aborts and any(self._observer.unfinished(uuid) for uuid in self._asked):
            return wrong
        for uuid, vmi in self._unsigned.items():
            try:
                reason, text = "MaintenanceWithdrawn", "withdrawn: evacuation"
                self._signature.send_event(vmi, record, reason, text)
                self._signature.remove_mark(vmi)
            except KubeError as exc:
                denied = isinstance(exc, AccessDenied)
                wrong[uuid] = Finding(Reason.Forbidden if denied else Reason.APIError, str(exc))
                self._refused[uuid] = wrong[uuid]
        self._unsigned = {}
        return wrong

    def _watched(self, known: Instance) -> Obj | None:
        """The VMI as the watch has it, which saves a request for each VM; None: the watch does not have this
        instance."""
        found = self._observer.watches.vmis.items()
        return next((dict(v) for v in found if v["metadata"]["uid"] == known.uid), None)

    def _stuck(self, migration: Obj) -> bool:
        """One that an earlier slice deleted has had its time."""
        since = self._deleted.get(migration["metadata"]["uid"], -1e9)
        return time.monotonic() - since >= _STUCK

    def _do(self, due: WithdrawalStep, what: Obj, vmi: Obj | None) -> None:
        if due is WithdrawalStep.CANCEL:
            migration_api.cancel_mark(self._client, what)
        elif due is WithdrawalStep.DELETE:
            migration_api.delete_migration(self._client, what)
            self._deleted[what["metadata"]["uid"]] = time.monotonic()
        elif vmi is not None:
            migration_api.end_target(self._client, vmi, what)
