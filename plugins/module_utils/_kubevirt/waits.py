# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a migration waits for, in words: quota, slots and who holds them, scheduler, preparation;
and who asked for it where it was not us.

What its own objects tell is in `facts`. Here is what must be looked up, once for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from .._core.reasons import Finding, Reason
from . import facts, names
from .client import Client
from .cluster import Cluster
from .errors import KubeError
from .watches import Watches

Obj = dict[str, Any]
# What lasts so long is looked at, and again after it. A slice begins with a look.
_LOOK_AFTER = 2.0
# What is said of the whole cluster is read seldom.
_CLUSTER = 15.0
_WAITING = ("", "Pending", "WaitingForSync", "Synchronizing")


class Waits:
    """For one slice."""

    def __init__(self, client: Client, node: str, watches: Watches) -> None:
        self._client = client
        self._node = node
        self._watches = watches
        self._since: dict[tuple[str, str], float] = {}  # (UID, phase) -> first seen
        self._first = True
        self._pods: dict[str, Obj] = {}  # UID of a migration -> its target pod
        self._looked = -1e9
        self._quotas: dict[str, tuple[float, str]] = {}  # namespace -> when read, text
        self._free_since: float | None = None  # this node has free places, and one waits
        self._cluster: tuple[float, list[Obj]] = (-1e9, [])

    def look(self, moving: Sequence[Obj]) -> None:
        """Once for each observation, with all migrations that have not ended."""
        now = time.monotonic()
        for migration in moving:
            key = (migration["metadata"]["uid"], facts.phase(migration))
            self._since.setdefault(key, -1e9 if self._first else now)
        self._first = False
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
        found = facts.waits_for(migration, self._pods.get(migration["metadata"]["uid"]))
        if found is None and facts.phase(migration) in facts.PREPARING and self._long(migration):
            found = self._preparation(vmi, migration)
        if found is None:
            return facts.asked_by_others(vmi, migration, asked, ours)
        if found.reason is Reason.QUOTA:
            return Finding(Reason.QUOTA, self._quota(migration["metadata"]["namespace"]))
        if found.reason is Reason.WAITING_FOR_SLOT:
            return self._queue(vmi, migration, cluster)
        return found

    def _preparation(self, vmi: Obj, migration: Obj) -> Finding:
        state = facts.state_of(vmi, migration)
        pod, node = state.get("targetPod", "?"), state.get("targetNode", "?")
        text = f"Phase {facts.phase(migration)}: target pod {pod} on {node} does not get ready."
        return Finding(Reason.TARGET_PREPARATION, text)

    def _quota(self, namespace: str) -> str:
        """The quotas of the namespace that leave no room."""
        read, text = self._quotas.get(namespace, (-1e9, ""))
        if time.monotonic() - read < _CLUSTER:
            return text
        try:
            quotas, _version = self._client.list(names.quotas(namespace))
            told = [line for quota in quotas for line in facts.quota_lines(quota)]
            text = f"Namespace {namespace}: {'; '.join(told)}." if told else ""
        except KubeError:
            text = ""
        self._quotas[namespace] = (time.monotonic(), text)
        return text

    def _queue(self, vmi: Obj, migration: Obj, cluster: Cluster | None) -> Finding:
        """In a queue: behind its own failures, or behind others."""
        namespace, name = facts.key(vmi)
        failed = facts.failures_before(migration, self._watches.migrations_of(namespace, name))
        if failed:
            wait = 20 * 2 ** (len(failed) - 1)
            text = f"{len(failed)} failed; KubeVirt waits {wait} s from {facts.ended(failed[-1])}."
            return Finding(Reason.RETRY_BACKOFF, text)
        if cluster is None:
            return Finding(Reason.WAITING_FOR_SLOT)
        here = [m for m in self._watches.migrations() if _holds_a_slot(m)]
        now = time.monotonic()
        if len(here) >= cluster.outbound:
            self._free_since = None
            what = f"outbound migrations of {self._node}"
            return _slots(cluster.outbound, what, here)
        # A slot that was just freed is taken within a tenth of a second.
        self._free_since = self._free_since or now
        if now - self._free_since >= _LOOK_AFTER:
            everywhere = self._everywhere()
            if len(everywhere) >= cluster.cluster:
                return _slots(cluster.cluster, "migrations of the cluster", everywhere)
        return Finding(Reason.WAITING_FOR_SLOT)

    def _everywhere(self) -> list[Obj]:
        """All migrations of the cluster that hold a slot. There is no selector for these."""
        read, found = self._cluster
        if time.monotonic() - read >= _CLUSTER:
            try:
                path = f"{names.KUBEVIRT}/virtualmachineinstancemigrations"
                items, _version = self._client.list(path)
                found = [m for m in items if _holds_a_slot(m)]
            except KubeError:
                found = []
            self._cluster = (time.monotonic(), found)
        return found


def _holds_a_slot(migration: Obj) -> bool:
    return not facts.final(migration) and facts.phase(migration) not in _WAITING


def _slots(limit: int, what: str, holders: Sequence[Obj]) -> Finding:
    held = [
        f"{m['metadata']['namespace']}/{m['spec'].get('vmiName')} ({facts.phase(m)} since "
        f"{facts.entered(m)})"
        for m in holders[:5]
    ]
    more = f" and {len(holders) - 5} more" if len(holders) > 5 else ""
    text = f"{len(holders)} of {limit} {what} are taken: {', '.join(held)}{more}."
    return Finding(Reason.WAITING_FOR_SLOT, text)
