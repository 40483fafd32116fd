# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the drain reads to say what a migration waits for, or who asked for it if not we.

What it comes to is judged in `waiting`. Each look at what a watch does not tell costs a request,
so it is taken only where the cheaper ones gave no answer, and seldom.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .._core.reasons import Finding, Reason
from .._core.record import VMRecord
from . import askers, claims, facts, migration_api, names, waiting
from .client import Client
from .cluster import Cluster
from .errors import KubeError
from .waiting import Holder, Known
from .watches import Watches

Obj = dict[str, Any]
# What lasts so long is looked at, and again after it. A slice begins with a look.
_LOOK_AFTER = 2.0
# KubeVirt is woken after 2 s; a migration that is not there by then is not about to come.
_GAP = 4.0
# What is said of the whole cluster is read seldom.
_CLUSTER = 15.0


class Waits:
    """For one slice."""

    def __init__(self, client: Client, node: str, watches: Watches) -> None:
        self._client = client
        self._node = node
        self._watches = watches
        self._since: dict[tuple[str, str], float] = {}  # (UID, phase) -> first seen
        self._looks = 0
        self._claims: dict[str, str] = {}  # UID of a VMI -> what its claims say
        self._pods: dict[str, Obj] = {}  # UID of a migration -> its target pod
        self._looked = -1e9
        self._quotas: dict[str, tuple[float, list[Obj]]] = {}  # namespace -> when read, quotas
        self._events: dict[str, tuple[float, list[Obj]]] = {}  # UID -> when read, its events
        self._free_since: float | None = None  # this node has free places, and one waits
        self._cluster: tuple[float, list[Holder]] = (-1e9, [])

    def look(self, moving: Sequence[Obj]) -> None:
        """Once for each observation, with all migrations that have not ended."""
        now = time.monotonic()
        for migration in moving:
            key = (migration["metadata"]["uid"], facts.phase(migration))
            self._since.setdefault(key, now if self._looks else -1e9)
        self._looks += 1
        late = [m for m in moving if facts.phase(m) == "Scheduling" and self._long(m)]
        if late and now - self._looked >= _LOOK_AFTER:
            self._looked = now
            self._read_pods([m["metadata"]["uid"] for m in late])

    def _long(self, migration: Obj) -> bool:
        key = (migration["metadata"]["uid"], facts.phase(migration))
        return time.monotonic() - self._since.get(key, time.monotonic()) >= _LOOK_AFTER

    def _read_pods(self, uids: Sequence[str]) -> None:
        try:
            selector = f"{names.JOB_UID} in ({', '.join(sorted(uids))})"
            pods, _version = self._client.list(f"{names.CORE}/pods", selector)
        except KubeError:
            pods = []  # a reason less
        self._pods = {facts.labels(pod)[names.JOB_UID]: pod for pod in pods}

    def finding(
        self, vmi: Obj, migration: Obj, asked: bool, ours: bool, cluster: Cluster | None
    ) -> Finding | None:
        """What it waits for; else who asked for it, if not we. `asked`: the mark is ours."""
        found = self._waits_for(self._known(vmi, migration, cluster))
        return found or askers.by_others(vmi, migration, asked, ours)

    def not_known(self, vmi: Obj) -> tuple[Finding, ...]:
        """Of a VM without the condition LiveMigratable: what its claims let expect."""
        uid, now = vmi["metadata"]["uid"], time.monotonic()
        if now - self._since.setdefault((uid, ""), now if self._looks > 1 else -1e9) < _LOOK_AFTER:
            return ()
        if uid not in self._claims:
            self._claims[uid] = claims.told(self._client, vmi)
        phase = facts.phase(vmi) or "none"
        text = f"Its condition LiveMigratable is not there yet (phase {phase})."
        return (Finding(Reason.NOT_KNOWN_YET, f"{text} {self._claims[uid]}".strip()),)

    def not_begun(self, vmi: Obj, entry: VMRecord | None, since: float) -> Finding | None:
        """Of a marked VM for which KubeVirt makes no migration since then (monotonic).

        What an earlier slice has told of it still holds.
        """
        told = entry is not None and entry.reason == Reason.EVACUATION_NOT_STARTED.value
        if not told and time.monotonic() - since < _GAP:
            return None
        why = [
            str(event.get("message", ""))
            for event in self._events_of(vmi)
            if event.get("reason") == "FailedCreate"
        ]
        text = f"Marked for evacuation from {facts.mark(vmi)}, and no migration is under way."
        return Finding(Reason.EVACUATION_NOT_STARTED, f"{text} {why[-1] if why else ''}".strip())

    def _known(self, vmi: Obj, migration: Obj, cluster: Cluster | None) -> Known:
        """What costs nothing."""
        pod = self._pods.get(migration["metadata"]["uid"])
        now = time.time()
        return Known(
            vmi,
            self._watches.migrations_of(*facts.key(vmi)),
            now,
            cluster,
            pods=[pod] if pod is not None else [],
            out=waiting.holders(self._watches.migrations(), now),
            lasting=self._long(migration),
        )

    def _waits_for(self, known: Known) -> Finding | None:
        """Looks further where the answer would be poor."""
        found = waiting.first(known)
        if found is None or known.waits is None:
            return found
        if found.reason is Reason.QUOTA:
            known = replace(known, quotas=self._quotas_of(facts.key(known.vmi)[0]))
        elif found.reason is Reason.TARGET_POD_NOT_READY and known.target is not None:
            known = replace(known, events=self._events_of(known.target))
        elif found.reason is Reason.WAITING_FOR_SLOT and self._has_room(known):
            known = replace(known, holders=self._everywhere())
            if known.cluster is not None and len(known.holders or ()) < known.cluster.cluster:
                known = replace(known, events=self._events_of(known.vmi))
        return waiting.first(known)

    def _has_room(self, known: Known) -> bool:
        """Places of this node are free for a while. One just freed is taken within 0.1 s."""
        now = time.monotonic()
        if known.cluster is None or len(known.out) >= known.cluster.outbound:
            self._free_since = None
            return False
        self._free_since = self._free_since or now
        return now - self._free_since >= _LOOK_AFTER

    def _quotas_of(self, namespace: str) -> list[Obj]:
        read, found = self._quotas.get(namespace, (-1e9, []))
        if time.monotonic() - read >= _CLUSTER:
            try:
                found, _version = self._client.list(names.quotas(namespace))
            except KubeError:
                found = []  # a reason less
            self._quotas[namespace] = (time.monotonic(), found)
        return found

    def _events_of(self, obj: Obj) -> list[Obj]:
        uid = obj["metadata"]["uid"]
        read, found = self._events.get(uid, (-1e9, []))
        if time.monotonic() - read >= _CLUSTER:
            found = migration_api.events(self._client, obj)
            self._events[uid] = (time.monotonic(), found)
        return found

    def _everywhere(self) -> list[Holder]:
        """All migrations of the cluster that hold a slot. There is no selector for these."""
        read, found = self._cluster
        if time.monotonic() - read >= _CLUSTER:
            try:
                path = f"{names.KUBEVIRT}/virtualmachineinstancemigrations"
                items, _version = self._client.list(path)
                found = waiting.holders(items, time.time())
            except KubeError:
                found = []
            self._cluster = (time.monotonic(), found)
        return found
