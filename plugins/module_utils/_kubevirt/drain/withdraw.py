# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Withdrawing what a drain asked for, VM by VM. The order: requests/withdrawal."""

from __future__ import annotations

import time
from typing import Any

from ..._core.decision.actions import Action
from ..._core.model.record import NodeRecord
from ..._core.reasons.reason import Finding, Reason
from ..api.client import Client
from ..api.cluster import can_cancel
from ..api.errors import AccessDenied
from ..objects import facts, requesters
from ..records.node_record import Records, instance_of
from ..requests import migration_api
from ..requests.signature import Signature
from ..requests.withdrawal import WithdrawalStep, mark_stays, withdrawal_steps
from .observe import Observer

Obj = dict[str, Any]
# A withdrawal takes a moment to be seen; asking again sooner only makes noise.
_ASK_AGAIN = 2.0
# How long a migration that was deleted may stay in the preparation of its target.
_STUCK = 3.0


class Withdrawal:
    """For one slice."""

    def __init__(
        self, client: Client, observer: Observer, records: Records, signature: Signature
    ) -> None:
        self._client = client
        self._observer = observer
        self._records = records
        self._signature = signature
        self._asked: dict[str, float] = {}  # UUID of a VM -> when
        self._refused: dict[str, Finding] = {}  # UUID of a VM -> why, until it is asked again
        self._deleted: dict[str, float] = {}  # UID of a migration -> when we deleted it

    def withdraw(self, action: Action, record: NodeRecord) -> Finding | None:
        """Only what is ours. What others asked for stays, the descheduler's mark too."""
        if time.monotonic() - self._asked.get(action.vm, -1e9) < _ASK_AGAIN:
            return self._refused.get(action.vm)
        self._asked[action.vm] = time.monotonic()
        self._refused.pop(action.vm, None)
        try:
            refused = self._withdraw(action, record)
        except AccessDenied as exc:
            refused = Finding(Reason.FORBIDDEN, str(exc))
        if refused is not None:
            self._refused[action.vm] = refused
        return refused

    def _withdraw(self, action: Action, record: NodeRecord) -> Finding | None:
        known = self._records.instances[action.vm]
        vmi = instance_of(self._client, known)
        marked, node = False, self._observer.node
        if vmi is not None and facts.mark(vmi):
            marked = known.asked = requesters.mark_is_ours(vmi, node, record.runs, known.asked)
        if marked and vmi is not None and not can_cancel(self._observer.cluster):
            return mark_stays(facts.mark(vmi))
        moving = self._observer.unfinished(action.vm)
        ours = [m for m in moving if requesters.is_ours(m, node, record.runs, known.asked)]
        for due, what in withdrawal_steps(vmi, marked, ours, self._stuck):
            self._do(due, what, vmi)
        self._observer.withdrawn[action.vm] = time.monotonic()
        if vmi is not None and facts.request(vmi).get("run") in record.runs:
            self._signature.send_event(vmi, record, "MaintenanceWithdrawn", "withdrawn: evacuation")
            self._signature.remove_mark(vmi)
        return None

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
