# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Withdrawing a request: first the mark, or KubeVirt makes a new migration for it; then the
migration; then it is seen to that it ends."""

from __future__ import annotations

import time
from typing import Any

from .._core.actions import Action
from .._core.reasons import Finding
from .._core.record import NodeRecord
from . import facts, names
from .client import JSON_PATCH, Client, only
from .observe import Observer
from .records import Instance, Records, instance_of
from .signature import Signature

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
        self._deleted: dict[str, float] = {}  # UID of a migration -> when we deleted it

    def withdraw(self, action: Action, record: NodeRecord) -> Finding | None:
        """Only what is ours. What others asked for stays, the descheduler's mark too."""
        if time.monotonic() - self._asked.get(action.vm, -1e9) < _ASK_AGAIN:
            return None
        self._asked[action.vm] = time.monotonic()
        known = self._records.instances[action.vm]
        vmi = instance_of(self._client, known)
        if vmi is not None and known.asked and facts.mark(vmi):
            self._cancel(vmi)
        for migration in self._observer.unfinished(action.vm):
            if not self._is_ours(known, migration):
                continue
            if facts.deleted(migration):
                self._end_stuck(vmi, migration)
            else:
                namespace, name = facts.key(migration)
                path = names.kubevirt(namespace, "virtualmachineinstancemigrations", name)
                self._client.gone("DELETE", path)
                self._deleted[migration["metadata"]["uid"]] = time.monotonic()
        if vmi is not None and facts.request(vmi):
            self._signature.tell(vmi, record, "MaintenanceWithdrawn", "withdrawn: evacuation")
            self._signature.take_back(vmi)
        return None

    def _is_ours(self, known: Instance, migration: Obj) -> bool:
        notes = facts.annotations(migration)
        kubevirts = known.asked and notes.get(names.EVACUATION) == self._observer.node
        return kubevirts or (names.REQUEST in notes and names.EVACUATION not in notes)

    def _end_stuck(self, vmi: Obj | None, migration: Obj) -> None:
        """Deleted while the target is being prepared, and the preparation does not end: KubeVirt
        would abort it once it runs, which may be never. Without its target pod it fails."""
        uid = migration["metadata"]["uid"]
        recent = time.monotonic() - self._deleted.get(uid, -1e9) < _STUCK
        if facts.phase(migration) not in facts.PREPARING or recent or vmi is None:
            return
        if facts.state_of(vmi, migration).get("startTimestamp"):
            return  # it has begun meanwhile, and is aborted as one that runs
        path = f"{names.CORE}/namespaces/{migration['metadata']['namespace']}/pods"
        pods, _version = self._client.list(path, f"{names.JOB_UID}={uid}")
        for pod in pods:
            if not facts.final(pod):
                self._client.gone("DELETE", names.pod(*facts.key(pod)), only(pod))

    def _cancel(self, vmi: Obj) -> None:
        namespace, name = facts.key(vmi)
        cluster = self._observer.cluster
        if cluster is None or cluster.can_cancel:
            path = names.subresource(namespace, "virtualmachineinstances", name, "evacuate/cancel")
            body = {"evacuationNodeName": facts.mark(vmi)}
            self._client.request("PUT", path, body, accept="*/*")
            return
        path = names.kubevirt(namespace, "virtualmachineinstances", name)
        field = "/status/evacuationNodeName"
        patch = [
            {"op": "test", "path": field, "value": facts.mark(vmi)},
            {"op": "remove", "path": field},
        ]
        self._client.request("PATCH", path, patch, content_type=JSON_PATCH)
