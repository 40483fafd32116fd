"""Read what a run needs to say what a migration waits for, or who asked for it if not we.

The drain of a node and the migration of one VM do it alike. What it comes to is judged in
`causes`. Each look at what a watch does not tell costs a request, so it is taken only where the
cheaper ones gave no answer, and seldom.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..._core.model.record import VMRecord
from ..._core.reasons.reason import Finding, Reason
from ..api.client import Client
from ..api.cluster import Cluster
from ..api.errors import KubeError
from ..objects import facts, names, requesters
from ..objects.nodes import not_ready
from ..requests import migration_api
from . import causes, slots, volume_claims
from .causes import Known
from .slots import Holder

Obj = dict[str, Any]
# What lasts so long is looked at, and again after it.
_READ_AFTER = 2.0
_PREPARES = 10.0  # what virt-handler may take before its target is called stuck
_NOT_BEGUN = tuple(
    r.value for r in (Reason.EvacuationNotStarted, Reason.TargetPodNotReady, Reason.VirtControllerSilent)
)
# KubeVirt is woken after 2 s; a migration that is not there by then is not about to come.
_GAP = 4.0
# What is said of the whole cluster is read seldom.
_CLUSTER = 15.0


class WaitReader:
    """Reads, for one slice, what migrations wait for. `namespace`: of the one VM that is looked at; empty: the VMs of a
    node."""

    def __init__(
        self,
        client: Client,
        namespace: str = "",
        mono: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._mono = mono
        self._wall = wall
        self._since: dict[tuple[str, str], float] = {}  # (UID, phase) -> first seen
        self._seen: dict[tuple[str, str], Obj] = {}  # namespace, name -> VMI
        self._looks = 0
        self._claims: dict[str, str] = {}  # UID of a VMI -> what its claims say
        self._pods: dict[str, Obj] = {}  # UID of a migration -> its target pod
        self._pods_of: dict[str, tuple[float, list[Obj]]] = {}  # UID of a VMI -> when, its pods
        self._nodes: dict[str, tuple[float, bool]] = {}  # name -> when read, is it down
        self._looked = -1e9
        self._quotas: dict[str, tuple[float, list[Obj]]] = {}  # namespace -> when read, quotas
        self._events: dict[str, tuple[float, list[Obj]]] = {}  # UID -> when read, its events
        self._free_since: float | None = None  # this node has free places, and one waits
        self._cluster: tuple[float, list[Holder] | None] = (-1e9, None)
        self._freed = 0.0  # when a migration of the cluster ended last, in seconds since the epoch
        self._namespaces: dict[str, Obj | None] = {}

    def update(self, moving: Sequence[Obj], seen: Sequence[Obj] = ()) -> None:
        """Once for each observation, with all migrations that have not ended. `seen`: the VMIs that were read."""
        now = self._mono()
        self._seen = {facts.key(vmi): vmi for vmi in seen}
        for migration in moving:
            key = (migration["metadata"]["uid"], facts.phase(migration))
            self._since.setdefault(key, now - max(0.0, self._wall() - facts.seconds(facts.entered(migration))))
        self._looks += 1
        if all(facts.phase(migration) not in ("", "Pending") for migration in moving):
            self._free_since = None  # that places are free is told of one who waits for them
        late = [m for m in moving if facts.phase(m) == "Scheduling" and self._long(m)]
        if late and now - self._looked >= _READ_AFTER:
            self._looked = now
            self._read_pods([m["metadata"]["uid"] for m in late])

    def _long(self, migration: Obj) -> bool:
        """Is it in its phase for longer than that takes?"""
        key, phase = (migration["metadata"]["uid"], facts.phase(migration)), facts.phase(migration)
        takes = _PREPARES if phase in facts.PREPARING else _READ_AFTER
        return self._mono() - self._since.get(key, self._mono()) >= takes

    def _read_pods(self, uids: Sequence[str]) -> None:
        space = f"/namespaces/{self._namespace}" if self._namespace else ""
        try:
            selector = f"{names.JOB_UID} in ({', '.join(sorted(uids))})"
            pods, _version = self._client.list(f"{names.CORE}{space}/pods", selector)
        except KubeError:
            pods = []  # a reason less
        self._pods = {facts.labels(pod)[names.JOB_UID]: pod for pod in pods}

    def finding(
        self,
        vmi: Obj,
        migrations: Sequence[Obj],
        asked: bool,
        ours: bool,
        cluster: Cluster | None,
        leaving: Sequence[Obj],
    ) -> Finding | None:
        """The reason for which a VM's migration waits; else who asked for it, if that was not this run; None: neither.
        `asked`: the mark is ours; `ours`: the migration is."""
        found = self.waits_for(vmi, migrations, cluster, leaving)
        current = next((m for m in reversed(migrations) if not facts.final(m)), None)
        return found or (requesters.by_others(vmi, current, asked, ours) if current else None)

    def waits_for(
        self, vmi: Obj, migrations: Sequence[Obj], cluster: Cluster | None, leaving: Sequence[Obj] | None = None
    ) -> Finding | None:
        """Return what the last one of the VM's `migrations` that has not ended waits for.

        `leaving`: those of all VMs of its node; None: these are not watched.
        """
        known = self._known(vmi, migrations, cluster, leaving)
        found = causes.first(known)
        if found is None or known.waits is None:
            return found
        return causes.first(self._further(known, found.reason, leaving is None))

    def not_known(self, vmi: Obj) -> tuple[Finding, ...]:
        """Why a VM lacks the condition LiveMigratable, as far as its claims tell."""
        uid, now = vmi["metadata"]["uid"], self._mono()
        if now - self._since.setdefault((uid, ""), now if self._looks > 1 else -1e9) < _READ_AFTER:
            return ()
        if uid not in self._claims:
            self._claims[uid] = volume_claims.not_shared(self._client, vmi)
        return (causes.not_known(vmi, self._claims[uid]),)

    def not_begun(self, vmi: Obj, entry: VMRecord | None, since: float, cluster: Cluster | None) -> Finding | None:
        """Why a VM that is marked has no migration; None: it is too early to tell, KubeVirt may still create one.

        `since`: when it was first seen so, by the monotonic clock. What an earlier slice has told of it still holds.
        """
        reported = entry is not None and entry.reason in _NOT_BEGUN
        followed = cluster is None or facts.mark_followed(vmi, cluster.version)
        if not reported and self._mono() - since < (_GAP if followed else facts.FOLLOWS):
            return None
        why = [str(event.get("message", "")) for event in self._events_of(vmi) if event.get("reason") == "FailedCreate"]
        pods = self._all_pods(vmi)
        return causes.not_begun(vmi, why[-1] if why else "", pods, self._down(vmi, pods), followed)

    def _known(
        self, vmi: Obj, migrations: Sequence[Obj], cluster: Cluster | None, leaving: Sequence[Obj] | None
    ) -> Known:
        """Put together what is known of a VM without another request."""
        now = self._wall()
        out = [h for m in leaving or () for h in slots.holders([m], now, vmi=self._seen.get(facts.of_vm(m)))]
        known = Known(vmi, migrations, now, cluster, out=out)
        current = known.current
        if current is None:
            return known
        pod = self._pods.get(current["metadata"]["uid"])
        pods = [pod] if pod is not None else []
        return replace(known, pods=pods, lasting=self._long(current))

    def _further(self, known: Known, reason: Reason, alone: bool) -> Known:
        """Read more where the reason alone would say too little. `alone`: only this VM is watched, see waits_for."""
        if reason is Reason.QuotaExceeded:
            if known.lasting:  # by then the refusal is told by an event
                known = replace(known, events=self._events_of(known.vmi))
                reported = causes.first(known)
                if reported is not None and reported.message:
                    return known
            return replace(known, quotas=self._quotas_of(facts.key(known.vmi)[0]))
        if reason is Reason.TargetPodNotReady and known.target is not None:
            return replace(known, events=self._events_of(known.target))
        if reason is not Reason.WaitingForSlot or known.cluster is None:
            return known
        if not (known.lasting if alone else self._has_room(known)):
            return known
        holders, node = self._everywhere(alone), facts.status(known.vmi).get("nodeName")
        known = replace(known, holders=holders)
        if alone:
            known = replace(known, out=[h for h in holders or () if h.source == node])
        full = len(known.out) >= known.cluster.outbound or (
            known.holders is not None and len(known.holders) >= known.cluster.cluster
        )
        if full:
            return known
        pods = self._all_pods(known.vmi)
        known = replace(known, pods=pods, events=self._events_of(known.vmi), down=self._down(known.vmi, pods))
        known = replace(known, freed=self._freed)
        found = causes.first(known)
        silent = found is not None and found.reason is Reason.TargetPodRefused
        return replace(known, namespace=self._namespace_of(known.vmi)) if silent else known

    def _namespace_of(self, vmi: Obj) -> Obj | None:
        """The namespace, for the PodSecurity level that it enforces."""
        space = facts.key(vmi)[0]
        if space not in self._namespaces:
            try:
                self._namespaces[space] = self._client.find(f"{names.CORE}/namespaces/{space}")
            except KubeError:
                self._namespaces[space] = None  # a reason less
        return self._namespaces[space]

    def _all_pods(self, vmi: Obj) -> list[Obj]:
        """All pods of one VM, including those of earlier migrations, which keep the next one waiting."""
        space, uid = facts.key(vmi)[0], vmi["metadata"]["uid"]
        read, found = self._pods_of.get(uid, (-1e9, []))
        if self._mono() - read >= _CLUSTER:
            path = f"{names.CORE}/namespaces/{space}/pods"
            try:
                found, _version = self._client.list(path, f"{names.CREATED_BY}={uid}")
            except KubeError:
                found = []  # a reason less
            self._pods_of[uid] = (self._mono(), found)
        return found

    def _down(self, vmi: Obj, pods: Sequence[Obj]) -> set[str]:
        """The nodes of pods that are left which are not Ready, or not there."""
        found = set()
        for name in causes.left_nodes(vmi, pods):
            read, down = self._nodes.get(name, (-1e9, False))
            if self._mono() - read >= _CLUSTER:
                try:
                    node = self._client.find(names.node(name))
                    down = node is None or bool(not_ready(node))
                except KubeError:
                    down = False  # a reason less
                self._nodes[name] = (self._mono(), down)
            found |= {name} if down else set()
        return found

    def _has_room(self, known: Known) -> bool:
        """Places of this node are free for a while. One just freed is taken within 0.1 s."""
        now = self._mono()
        if known.cluster is None or len(known.out) >= known.cluster.outbound:
            self._free_since = None
            return False
        if self._free_since is None:  # what the slice before saw of it is not known: then it is looked up at once
            self._free_since = now if self._looks > 1 else -1e9
        return now - self._free_since >= _READ_AFTER

    def free(self, cluster: Cluster) -> float | None:
        """When the cluster was seen to have a free slot, though one waited whose node has places.

        What waits there waits for something else, which nobody reports. None: not seen lately.
        """
        read, found = self._cluster
        late = self._mono() - read >= _CLUSTER
        return None if late or found is None or len(found) >= cluster.cluster else read

    def _quotas_of(self, namespace: str) -> list[Obj]:
        read, found = self._quotas.get(namespace, (-1e9, []))
        if self._mono() - read >= _CLUSTER:
            try:
                found, _version = self._client.list(names.quotas(namespace))
            except KubeError:
                found = []  # a reason less
            self._quotas[namespace] = (self._mono(), found)
        return found

    def _events_of(self, obj: Obj) -> list[Obj]:
        uid = obj["metadata"]["uid"]
        read, found = self._events.get(uid, (-1e9, []))
        if self._mono() - read >= _CLUSTER:
            found = migration_api.events(self._client, obj)
            self._events[uid] = (self._mono(), found)
        return found

    def _everywhere(self, sources: bool) -> list[Holder] | None:
        """All migrations of the cluster that hold a slot. There is no selector for these.

        None: they cannot be read. `sources`: with the nodes that they leave.
        """
        read, found = self._cluster
        if self._mono() - read < _CLUSTER:
            return found
        try:
            path = f"{names.KUBEVIRT}/virtualmachineinstancemigrations"
            items, _version = self._client.list(path)
            now = self._wall()
            self._freed = slots.last_end(items)
            found = slots.with_sources(items, self._vmi, now) if sources else slots.holders(items, now)
        except KubeError:
            found = None
        self._cluster = (self._mono(), found)
        return found

    def _vmi(self, namespace: str, name: str) -> Obj | None:
        try:
            return self._client.find(names.kubevirt(namespace, "virtualmachineinstances", name))
        except KubeError:
            return None  # its holder is named without its node
