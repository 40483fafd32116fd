# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Observe: what the cluster says about one node, put together for the core.

Where a VM runs is read of its VMI. Which pods live on the node is read of the pods, so that a
migration that arrives, or one whose source has not ended, is seen even where no VMI tells it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._core.model import VM, Node, Observation, Outcome, Reservation, Sighting, State
from .._core.reasons import Finding, Reason
from .._core.record import NodeRecord, VMRecord
from . import facts, names
from .cache import Cache
from .client import Client
from .cluster import Cluster, another_node, read_cluster
from .errors import KubeError
from .records import Instance

Obj = dict[str, Any]
ANYWHERE = ""  # the node that stands for what the scheduler finds
HUGE = 10**9  # MiB; what fits is the scheduler's to know
# After our eviction the mark is there; how long the watch may take to tell us.
_SETTLES = 5.0
# A target pod that is not scheduled after this time is looked at, and again after it.
_LOOK_AT_TARGET = 2.0
_CHUNK = 80  # VM names in one selector


class Observer:
    """Reads one node. Keeps watches for the length of a slice; `close` ends them."""

    def __init__(
        self, client: Client, node: str, instances: Callable[[], dict[str, Instance]]
    ) -> None:
        self._client = client
        self.node = node
        self._instances = instances
        self._changed = threading.Event()
        self.cluster: Cluster | None = None
        fields = f"metadata.name={node}"
        self.nodes = Cache(client, f"{names.CORE}/nodes", self._changed.set, fields=fields)
        self.pods = Cache(
            client, f"{names.CORE}/pods", self._changed.set, fields=f"spec.nodeName={node}"
        )
        self.vmis = Cache(
            client,
            f"{names.KUBEVIRT}/virtualmachineinstances",
            self._changed.set,
            labels=f"{names.NODE_NAME}={node}",
        )
        self._migrations: list[Cache] = []
        self._watched: set[str] = set()  # VM names whose migrations are watched
        self._started = False
        self._target: tuple[float, bool] = (-1e9, False)
        self._away: dict[str, tuple[Obj | None, Obj | None]] = {}  # uuid -> its VMI, its VM
        self.evicted: dict[str, float] = {}  # uuid -> when we asked, this slice's clock
        self._events: dict[str, str] = {}
        self._targets: dict[str, tuple[float, Obj | None]] = {}
        # Marked by us and without a migration: since when (this slice's clock).
        self.gaps: dict[str, float] = {}

    def close(self) -> None:
        for cache in (self.nodes, self.pods, self.vmis, *self._migrations):
            cache.stop()

    def wait(self, seconds: float) -> None:
        """Until something changed, or for that time."""
        self._changed.wait(seconds)

    # Reading

    def _ready(self, fresh: bool) -> None:
        first = not self._started
        if first:
            self.cluster = read_cluster(self._client)
        for cache in (self.nodes, self.pods, self.vmis):
            if first:
                cache.start()
            elif fresh:
                cache.refresh()
        self._started = True

    def _watch_migrations(self, wanted: set[str], fresh: bool) -> None:
        missing = sorted(wanted - self._watched)
        if fresh:
            for cache in self._migrations:
                cache.refresh()
        for begin in range(0, len(missing), _CHUNK):
            chunk = missing[begin : begin + _CHUNK]
            cache = Cache(
                self._client,
                f"{names.KUBEVIRT}/virtualmachineinstancemigrations",
                self._changed.set,
                labels=f"{names.VMI_NAME} in ({', '.join(chunk)})",
            )
            cache.start()
            self._migrations.append(cache)
            self._watched.update(chunk)

    def migrations(self) -> list[Obj]:
        found = {m["metadata"]["uid"]: m for cache in self._migrations for m in cache.items()}
        return sorted(found.values(), key=lambda m: m["metadata"]["creationTimestamp"])

    def own(self) -> Obj | None:
        """The Node; None when there is none."""
        found = self.nodes.items()
        return found[0] if found else None

    def observe(self, record: NodeRecord | None, now: float) -> Observation:
        """Raises KubeError for what ends the run; what cannot be read else is in the result."""
        self._changed.clear()
        quiet = self._started and not self._busy()
        self._ready(fresh=quiet)
        vmis = {facts.identity(v): v for v in self.vmis.items()}
        entries = record.vms if record is not None else {}
        self._remember(vmis)
        known = self._instances()
        wanted = {v["metadata"]["name"] for v in vmis.values()}
        wanted |= {known[u].name for u in entries if u in known}
        self._watch_migrations({name for name in wanted if len(name) <= 63}, quiet)
        obs = Observation(nodes={}, vms={}, now=now)
        node = self.own()
        obs.nodes[self.node] = self._node(node)
        if self._any_target(quiet):
            obs.nodes[ANYWHERE] = Node(ANYWHERE, capacity_mib=HUGE)
        held = set()
        pods = facts.live_launchers(self.pods.items())
        for uuid, vmi in vmis.items():
            if self._put(obs, uuid, vmi, entries.get(uuid)):
                held.add(uuid)
        away = [u for u in entries if u not in vmis]
        self._locate(away, quiet)
        for uuid in away:
            self._sight(obs, uuid, entries[uuid])
        for uuid, pod in self._strangers(pods, vmis):
            if uuid in entries and uuid not in vmis:
                held.add(uuid)  # its source pod has not ended
            elif uuid not in vmis:
                vm = facts.annotations(pod).get(names.DOMAIN, pod["metadata"]["name"])
                space = pod["metadata"]["namespace"]
                obs.inbound.append(Reservation(uuid, self.node, f"{space}/{vm}", 0))
        obs.held = frozenset(held)
        for uuid, entry in entries.items():
            self._outcome(obs, uuid, entry, vmis.get(uuid))
        return obs

    def _busy(self) -> bool:
        """Is anything of a VM still on the node, as far as the watches know?"""
        active = any(not facts.final(v) for v in self.vmis.items())
        return active or bool(facts.live_launchers(self.pods.items()))

    def _remember(self, vmis: Mapping[str, Obj]) -> None:
        known = self._instances()
        for uuid, vmi in vmis.items():
            uid = vmi["metadata"]["uid"]
            if uuid not in known or known[uuid].uid != uid:
                namespace, name = facts.key(vmi)
                known[uuid] = Instance(namespace, name, uid, facts.owner(vmi) is None)

    def _node(self, node: Obj | None) -> Node:
        if node is None:
            return Node(self.node, reachable=False, message=f"there is no node {self.node}")
        ready = facts.condition(node, "Ready") or {}
        spec, notes = node.get("spec") or {}, facts.annotations(node)
        info = facts.status(node).get("nodeInfo") or {}
        up = ready.get("status") == "True"
        text = f"the node is not Ready ({ready.get('reason', '')}: {ready.get('message', '')})"
        return Node(
            self.node,
            reachable=up,
            message="" if up else text,
            cordoned=bool(spec.get("unschedulable")),
            our_cordon=names.CORDON in notes,
            boot_id=info.get("bootID", ""),
        )

    def _any_target(self, fresh: bool) -> bool:
        asked, found = self._target
        if fresh or time.monotonic() - asked > 10.0:
            found = another_node(self._client, self.node)
            self._target = (time.monotonic(), found)
        return found

    # VMs on the node

    def unfinished(self, uuid: str) -> list[Obj]:
        """Migrations of a VM that have not ended."""
        return [m for m in self.of(uuid) if not facts.final(m)]

    def of(self, uuid: str) -> list[Obj]:
        """All migrations of a VM that the API still knows, oldest first."""
        found = self._instances().get(uuid)
        if found is None:
            return []
        return [
            m
            for m in self.migrations()
            if m["metadata"]["namespace"] == found.namespace
            and m["spec"].get("vmiName") == found.name
        ]

    def _put(self, obs: Observation, uuid: str, vmi: Obj, entry: VMRecord | None) -> bool:
        """Put a VMI of the node into the observation. True: KubeVirt is moving it."""
        known = self._instances()[uuid]
        marked = facts.mark(vmi) == self.node
        able, findings = facts.migratable(vmi)
        if able and ANYWHERE not in obs.nodes:
            # Not known rather than impossible: nothing is stopped for want of a target.
            text = "No other node is Ready, schedulable and uncordoned."
            able, findings = None, (Finding(Reason.NO_TARGET, text),)
        job = None
        moving = self.unfinished(uuid)
        if moving and not self._hidden(uuid, entry, moving[-1]):
            migration = moving[-1]
            job = facts.job(vmi, migration, self._pod_of(migration), self._ours(known, migration))
        gone = facts.final(vmi) and not self._comes_back(uuid, vmi)
        namespace, name = facts.key(vmi)
        strategy = vmi["spec"].get("evictionStrategy")
        cluster = self.cluster
        obs.vms[uuid] = VM(
            uuid=uuid,
            name=f"{namespace}/{name}",
            node=self.node,
            state=State.SHUTOFF if gone else State.RUNNING,
            memory_mib=facts.memory_mib(vmi),
            declared_strategy=strategy or (cluster.default_strategy if cluster else None),
            labels=facts.labels(vmi),
            persistent=not known.bare,
            marked=marked and known.asked,
            method=facts.method(vmi),
            migratable=able,
            findings=findings,
            job=job,
            document=facts.document(vmi),
        )
        if marked:
            self.evicted.pop(uuid, None)
        if marked and known.asked and not moving and strategy != "External":
            self.gaps.setdefault(uuid, time.monotonic())
        else:
            self.gaps.pop(uuid, None)
        asked = time.monotonic() - self.evicted.get(uuid, -1e9) < _SETTLES
        external = strategy == "External" and not moving
        return bool(moving) or asked or (marked and not external)

    def _hidden(self, uuid: str, entry: VMRecord | None, newest: Obj) -> bool:
        """The attempt of the record has failed and is not closed yet: that is told first."""
        last = entry.last if entry is not None else None
        if last is None or last.ended or not last.work:
            return False
        return last.work != newest["metadata"]["uid"]

    def _ours(self, known: Instance, migration: Obj) -> bool:
        notes = facts.annotations(migration)
        if names.EVACUATION in notes:
            return known.asked and notes[names.EVACUATION] == self.node
        return names.REQUEST in notes

    def _pod_of(self, migration: Obj) -> Obj | None:
        """The target pod of a migration that waits for it for some time. Asked for seldom."""
        uid, now = migration["metadata"]["uid"], time.monotonic()
        if facts.phase(migration) != "Scheduling":
            return None
        asked, pod = self._targets.get(uid, (now, None))
        if now - asked >= _LOOK_AT_TARGET:
            path = f"{names.CORE}/namespaces/{migration['metadata']['namespace']}/pods"
            asked = now
            try:
                found, _version = self._client.list(path, f"{names.JOB_UID}={uid}")
                pod = found[0] if found else None
            except KubeError:
                pod = None  # a reason less
        self._targets[uid] = (asked, pod)
        return pod

    # VMs that are not on the node any more

    def _locate(self, uuids: Sequence[str], fresh: bool) -> None:
        """Read their VMIs, and where there is none or it has ended, their VMs."""
        if fresh:
            self._away.clear()
        known = self._instances()
        for uuid in uuids:
            found = known.get(uuid)
            vmi, _vm = self._away.get(uuid, (None, None))
            settled = vmi is not None and facts.phase(vmi) == "Running"
            if found is None or (settled and uuid in self._away):
                continue
            vmi = self._client.find(
                names.kubevirt(found.namespace, "virtualmachineinstances", found.name)
            )
            vm = None
            if vmi is None or facts.final(vmi) or facts.phase(vmi) != "Running":
                vm = self._vm(found)
            self._away[uuid] = (vmi, vm)

    def _vm(self, found: Instance) -> Obj | None:
        if found.bare:
            return None
        return self._client.find(names.kubevirt(found.namespace, "virtualmachines", found.name))

    def _comes_back(self, uuid: str, vmi: Obj) -> bool:
        """Will KubeVirt by itself start anew what has ended?"""
        vm = self._vm(self._instances()[uuid])
        return vm is not None and _restarts(vm, facts.phase(vmi))

    def _sight(self, obs: Observation, uuid: str, entry: VMRecord) -> None:
        known = self._instances().get(uuid)
        vmi, vm = self._away.get(uuid, (None, None))
        if known is None:
            return
        anew = vmi is not None and vmi["metadata"]["uid"] != known.uid
        if vmi is not None and not facts.final(vmi):
            place = facts.status(vmi).get("nodeName") or ANYWHERE
            state = State.RUNNING if facts.phase(vmi) == "Running" else State.INCOMING
            obs.sightings[uuid] = [Sighting(place, state, restarted=anew)]
            return
        if vmi is None and vm is None:
            return
        ended = facts.phase(vmi) if vmi is not None else "Succeeded"
        if vm is not None and _restarts(vm, ended):
            obs.sightings[uuid] = [Sighting(ANYWHERE, State.INCOMING, restarted=True)]
            return
        obs.vms[uuid] = VM(
            uuid=uuid,
            name=entry.name,
            node=self.node,
            state=State.SHUTOFF,
            memory_mib=entry.memory_mib,
            persistent=not known.bare,
        )

    def _strangers(self, pods: Sequence[Obj], vmis: Mapping[str, Obj]) -> list[tuple[str, Obj]]:
        """Live launcher pods on the node whose VMI is not: UUID of the VM, pod."""
        here = {v["metadata"]["uid"] for v in vmis.values()}
        known = {found.uid: uuid for uuid, found in self._instances().items()}
        found = []
        for pod in pods:
            uid = facts.labels(pod).get(names.CREATED_BY, "")
            if uid not in here:
                found.append((known.get(uid, uid), pod))
        return found

    # How attempts ended

    def _outcome(self, obs: Observation, uuid: str, entry: VMRecord, vmi: Obj | None) -> None:
        last = entry.last
        if last is None or last.ended:
            return
        at = (uuid, last.number)
        known = self._instances().get(uuid)
        told = known.refused.get(str(last.number)) if known is not None else None
        if told:
            finding = Finding(Reason(told[0]), told[1])
            obs.outcomes[at] = Outcome(uuid, last.number, False, finding)
            return
        here = vmi or self._away.get(uuid, (None, None))[0]
        migration = self._attempt(uuid, entry)
        if migration is None:
            if last.work and uuid in obs.vms:
                text = "Its migration object is gone."
                obs.outcomes[at] = Outcome(uuid, last.number, False, Finding(Reason.ABORTED, text))
            return
        work = migration["metadata"]["uid"]
        if facts.phase(migration) == "Failed" and uuid in obs.vms:
            finding = facts.why_failed(here, migration, self._event(migration))
            obs.outcomes[at] = Outcome(uuid, last.number, False, finding, work=work)
        elif uuid not in obs.vms and uuid not in obs.held:
            seconds = facts.took(migration, here)
            obs.outcomes[at] = Outcome(uuid, last.number, True, seconds=seconds, work=work)

    def _attempt(self, uuid: str, entry: VMRecord) -> Obj | None:
        """The migration object of the last attempt."""
        last, known = entry.last, self._instances().get(uuid)
        used = {a.work for a in entry.attempts if a.work and a is not last}
        for migration in self.of(uuid):
            uid = migration["metadata"]["uid"]
            if last is not None and last.work:
                if uid == last.work:
                    return migration
            elif uid not in used and known is not None and uid[:8] not in known.old:
                return migration
        return None

    def _event(self, migration: Obj) -> str:
        """The text of its FailedMigration event: before the hand-off the only reason."""
        namespace, uid = migration["metadata"]["namespace"], migration["metadata"]["uid"]
        if uid not in self._events:
            path = f"{names.CORE}/namespaces/{namespace}/events"
            text = ""
            try:
                found, _version = self._client.list(path, "", f"involvedObject.uid={uid}")
                texts = [e["message"] for e in found if e.get("reason") == "FailedMigration"]
                text = texts[-1] if texts else ""
            except KubeError:
                pass  # a reason less; the failure is told all the same
            self._events[uid] = text
        return self._events[uid]


def _restarts(vm: Obj, ended: str) -> bool:
    """Does KubeVirt start this VM anew after its instance ended so?"""
    spec, requests = vm.get("spec") or {}, facts.status(vm).get("stateChangeRequests") or []
    strategy = spec.get("runStrategy") or ("Always" if spec.get("running") else "Halted")
    if any(r.get("action") == "Start" for r in requests):
        return True
    return strategy == "Always" or (strategy == "RerunOnFailure" and ended == "Failed")
