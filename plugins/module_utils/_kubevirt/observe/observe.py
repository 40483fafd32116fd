"""Observe: what the cluster says about one node, put together for the core.

Where a VM runs is read of its VMI. Which pods live on the node is read of the pods, so that a
migration that arrives, or one whose source has not ended, is seen even where no VMI reports it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..._core.model.observation import VM, Node, Observation, Reservation, State
from ..._core.model.record import NodeRecord, VMRecord
from ..._core.reasons.reason import Finding, Platform, Reason
from ..api.client import Client
from ..api.cluster import Cluster, read_cluster, refused_by_all
from ..api.metrics import DirtyRates, Source
from ..api.watches import Watches
from ..objects import facts, migration_policy, names, requesters, tolerations
from ..objects.document import vmi_document
from ..objects.nodes import cordoned, not_ready
from ..records import lease_notes
from ..records.node_record import Instance
from ..waiting import causes
from ..waiting.read import WaitReader
from . import deletion
from .attachments import Attachments
from .control_node import ControlNode
from .departed import ANYWHERE, DepartedVMs

Obj = dict[str, Any]
# A VM that asks for nothing.
_PLAIN: Obj = {"metadata": {"uid": ""}, "spec": {}}
HUGE = 10**9  # MiB; what fits is the scheduler's to know
# After our eviction the mark is there, and after a withdrawal it is not; how long the watches may
# take to tell us that, and what KubeVirt made of it.
_SETTLES = 5.0
# How old KubeVirt's limits may be when it is told by them what a migration waits for.
_LIMITS = 10.0
# Since then KubeVirt makes a migration for each mark at once, however many may run.
_MAKES_ALL = (1, 9)


class Observer:
    """Reads one node. Keeps watches for the length of a slice; `close` ends them."""

    def __init__(
        self,
        client: Client,
        node: str,
        instances: Callable[[], dict[str, Instance]],
        machines: bool = False,
        controller_uuid: str = "",
        metrics: Source | None = None,
    ) -> None:
        """`machines`: rules ask for what only the VirtualMachines say, so they are read.
        `metrics`: the source of dirty rates. `controller_uuid`: of the machine that Ansible runs on."""
        self._client = client
        self.node = node
        self._control_node = ControlNode(client.server, controller_uuid)
        self._reads_machines = machines
        self._machines: dict[str, Obj | None] = {}
        self._instances = instances
        self.rates = DirtyRates(metrics, node)
        self.cluster: Cluster | None = None
        self.cluster_read = 0.0  # when, by the platform's clock
        self.watches = Watches(client, node)
        self._departed = DepartedVMs(client, node, self.watches, instances)
        # Does another node take them: when it was asked, of which VMs, and those that none takes.
        self._refusals: tuple[float, frozenset[str], dict[str, str]] = (-1e9, frozenset(), {})
        self._restarted: set[str] = set()  # since the last look
        self._runs: list[str] = []  # of this maintenance of the node
        self.evicted: dict[str, float] = {}  # uuid -> when we asked, this slice's clock
        self.withdrawn: dict[str, float] = {}  # uuid -> when we took the request back
        self.waits = WaitReader(client)
        self._attachments = Attachments(client, node)
        # Marked by us and without a migration: since when (this slice's clock).
        self.gaps: dict[str, float] = {}
        self.not_begun: set[str] = set()  # of these, those for which KubeVirt should have made one by now

    def close(self) -> None:
        self.watches.close()

    def wait(self, seconds: float) -> bool:
        """Wait until something changes, or for that time. Did something change?"""
        return self.watches.wait(seconds)

    def own(self) -> Obj | None:
        """The Node; None when there is none."""
        return self.watches.own()

    def observe(self, record: NodeRecord | None, now: float) -> Observation:
        """Raises KubeError for what ends the run; what cannot be read else is in the result."""
        self.watches.clear()
        quiet = self.watches.started and not self.watches.busy()
        self.need_cluster(now, _LIMITS)
        self.watches.ready(fresh=quiet)
        vmis = {facts.identity(v): v for v in self.watches.vmis.items()}
        if vmis:
            self.rates.refresh(now)
        entries = record.vms if record is not None else {}
        self._runs = record.runs if record is not None else []
        self._remember(vmis)
        known = self._instances()
        wanted = {v["metadata"]["name"] for v in vmis.values()}
        wanted |= {known[u].name for u in entries if u in known}
        self.watches.follow(wanted, quiet)
        departed = {u: entry for u, entry in entries.items() if u not in vmis}
        self._departed.locate(departed, quiet, now)
        moving = [m for m in self.watches.migrations() if not facts.final(m)]
        self.waits.update(moving, [*vmis.values(), *self._departed.read()])
        obs = Observation(nodes={}, vms={}, now=now, complete=True, platform=Platform.KUBEVIRT)
        node = self.own()
        obs.nodes[self.node] = self._node(node)
        if self._another_node_takes_one(vmis):
            obs.nodes[ANYWHERE] = Node(ANYWHERE, capacity_mib=HUGE)
        self.gaps = {uuid: since for uuid, since in self.gaps.items() if uuid in vmis}
        self.not_begun = set()
        held, pods_of = set(), {}
        pods = self.watches.launchers()
        for uuid, vmi in vmis.items():
            if self._put(obs, uuid, vmi, entries.get(uuid)):
                held.add(uuid)
        for uuid in departed:
            self._departed.add_sighting(obs, uuid, entries[uuid])
        running = {uuid: vmi for uuid, vmi in vmis.items() if obs.vms[uuid].active}
        for uuid, pod in self._strangers(pods, running):
            if uuid in entries:
                if uuid not in vmis:
                    held.add(uuid)  # its source pod has not ended
                pods_of[uuid] = f"pod {'/'.join(facts.key(pod))}"
            elif uuid not in vmis:
                obs.inbound.append(self._arrival(uuid, pod))
        obs.held, obs.held_by = frozenset(held), pods_of
        if not any(not facts.final(vmi) for vmi in vmis.values()):
            obs.attached = self._attachments.left(node, self.watches.need_pods())
        for uuid, entry in entries.items():
            self._departed.add_outcome(obs, uuid, entry, vmis.get(uuid))
        return obs

    def need_cluster(self, now: float, age: float) -> Cluster:
        """KubeVirt's settings, read at most `age` seconds ago. Raises KubeError."""
        if self.cluster is None or not 0 <= now - self.cluster_read <= age:
            self.cluster, self.cluster_read = read_cluster(self._client), now
        return self.cluster

    def _arrival(self, uuid: str, pod: Obj) -> Reservation:
        """A launcher pod whose guest is not here yet: it migrates here, or it starts here."""
        space, name = facts.key(pod)
        vm = f"{space}/{facts.annotations(pod).get(names.DOMAIN, name)}"
        if names.JOB_UID in facts.labels(pod):
            return Reservation(uuid, self.node, vm, 0, f"{vm} migrates here (pod {space}/{name})")
        since = pod["metadata"].get("creationTimestamp", "?")
        text = f"{vm} is not running yet: pod {space}/{name} is {facts.phase(pod)} since {since}"
        return Reservation(uuid, self.node, vm, 0, text, starts=True)

    def _remember(self, vmis: Mapping[str, Obj]) -> None:
        """The owner of the mark is stored on the VMI itself: a run that was killed may not have reported it."""
        known, self._restarted = self._instances(), set()
        for uuid, vmi in vmis.items():
            uid = vmi["metadata"]["uid"]
            if uuid in known and known[uuid].uid != uid:
                self._restarted.add(uuid)
            if uuid not in known or known[uuid].uid != uid:
                namespace, name = facts.key(vmi)
                nudges = known[uuid].nudges if uuid in known else 0
                bare = facts.owner(vmi) is None
                known[uuid] = Instance(namespace, name, uid, bare, facts.maker(vmi), nudges=nudges)
            if facts.mark(vmi) == self.node:
                asked = known[uuid].asked
                known[uuid].asked = requesters.mark_is_ours(vmi, self.node, self._runs, asked)

    def _node(self, node: Obj | None) -> Node:
        if node is None:
            return Node(self.node, reachable=False, gone=True, message=lease_notes.message(self.node))
        message = not_ready(node)
        return Node(
            self.node,
            reachable=not message,
            message=message,
            cordoned=cordoned(node),
            our_cordon=names.CORDON in facts.annotations(node),
            boot_id=(facts.status(node).get("nodeInfo") or {}).get("bootID", ""),
        )

    def _another_node_takes_one(self, vmis: Mapping[str, Obj]) -> bool:
        """Does another node take one of them? Asked again only while there is a VM that nobody
        moves yet."""
        waits = any(not facts.mark(v) and not self.unfinished(u) for u, v in vmis.items())
        asked, of, refused = self._refusals
        again = 10.0 if refused else 60.0
        if waits and (time.monotonic() - asked > again or not vmis.keys() <= of):
            self._read_refusals(vmis)
        return not vmis or not vmis.keys() <= self._refusals[2].keys()

    def another_node(self) -> bool:
        """Does another node take one of its VMs; of a node without VMs: one that tolerates
        nothing? Raises KubeError."""
        vmis = {facts.identity(v): v for v in self.watches.vmis.items()} or {"": _PLAIN}
        if not vmis.keys() <= self._refusals[1]:
            self._read_refusals(vmis)
        return not vmis.keys() <= self._refusals[2].keys()

    def _read_refusals(self, vmis: Mapping[str, Obj]) -> None:
        """Find the VMs that no other node takes, by what the VMI tolerates; where that is too little, by what its
        pod does, to which the cluster may have added."""
        refused = self._refused_by_all({uuid: tolerations.of(v) for uuid, v in vmis.items()})
        if refused:
            pods = self.watches.need_pods()
            found = {u: (vmis[u], facts.launcher_of(vmis[u], pods)) for u in refused}
            refused = self._refused_by_all({u: tolerations.of(*both) for u, both in found.items()})
        self._refusals = (time.monotonic(), frozenset(vmis), refused)

    def _refused_by_all(self, wanted: Mapping[str, Sequence[Obj]]) -> dict[str, str]:
        """VMs that no other node takes -> why. `wanted`: their tolerations. Many tolerate the same: that is asked
        once."""
        keys = {uuid: tolerations.key(found) for uuid, found in wanted.items()}
        asked = {keys[uuid]: found for uuid, found in wanted.items()}
        refused = refused_by_all(self._client, self.node, asked)
        return {uuid: refused[key] for uuid, key in keys.items() if key in refused}

    # VMs on the node

    def unfinished(self, uuid: str) -> list[Obj]:
        """Migrations of a VM that have not ended."""
        return [m for m in self.of(uuid) if not facts.final(m)]

    def of(self, uuid: str) -> list[Obj]:
        """All migrations of a VM that the API still knows, oldest first."""
        found = self._instances().get(uuid)
        return [] if found is None else self.watches.migrations_of(found.namespace, found.name)

    def priorities_waiting(self) -> list[int]:
        """Priorities of the VMs that one of our runs asked to move and that have no slot yet."""
        found = []
        for vmi in self.watches.vmis.items():
            uuid = facts.identity(vmi)
            moving = self.unfinished(uuid)
            if moving and (
                facts.phase(moving[-1]) not in ("", "Pending")
                or facts.is_true(moving[-1], "migrationRejectedByResourceQuota")
            ):
                continue  # it has a slot, or it waits for something else
            known = causes.Known(vmi, self.of(uuid), time.time(), self.cluster)
            if uuid in self.not_begun or (moving and not causes.for_slot(known)):
                continue  # that it has none holds up nobody
            ours = bool(moving) and facts.request(moving[-1]).get("run") in self._runs
            asked = self.just(self.evicted, uuid)
            if facts.mark(vmi) == self.node or ours or asked:
                found.append(int(facts.request(vmi).get("priority") or 0))
        return found

    def _put(self, obs: Observation, uuid: str, vmi: Obj, entry: VMRecord | None) -> bool:
        """Put a VMI of the node into the observation. True: KubeVirt is moving it."""
        known, over = self._instances()[uuid], facts.final(vmi)
        marked = facts.mark(vmi) == self.node
        able, findings = facts.migratable(vmi)
        if able is None:
            findings = self.waits.not_known(vmi)
        if able:
            # Not known rather than impossible: nothing is stopped for want of a target or a slot.
            hinders = self._hinders(uuid)
            able, findings = (None, (hinders,)) if hinders else (able, findings)
        job = None
        strategy = vmi["spec"].get("evictionStrategy")
        moving = self.unfinished(uuid)
        if moving and not self._hidden(uuid, entry, moving[-1]):
            migration = moving[-1]
            ours = requesters.is_ours(migration, self.node, self._runs, known.asked)
            waits = self.waits.finding(vmi, self.of(uuid), known.asked, ours, self.cluster, self.watches.migrations())
            if waits is None and known.settings and facts.phase(migration) == "Running":
                waits = migration_policy.foreseen(vmi, known.settings, self.rates.of(vmi))
            job = facts.job(vmi, migration, waits, ours)
        if marked and known.asked and not moving and strategy != "External":
            since = self.gaps.setdefault(uuid, time.monotonic())
            missing = self.waits.not_begun(vmi, entry, since, self.cluster)
            job = facts.no_job(missing) if missing is not None else None
            if missing is not None and (cluster := self.cluster) is not None and cluster.version >= _MAKES_ALL:
                self.not_begun.add(uuid)
        else:
            self.gaps.pop(uuid, None)
        crashed = facts.phase(vmi) == "Failed" and self._departed.crashed(known)
        back = deletion.ends(vmi) and self._departed.starts_again(uuid, vmi)
        unsettled = entry is None or not (entry.ending or entry.asked_to_stop)
        doubt = unsettled and not back and facts.phase(vmi) == "Failed"
        doubt = doubt and self._departed.crash_may_be_told(known, vmi)
        gone = over and not (back or doubt)
        ending = deletion.ending(vmi, back, crashed, self._departed.namespace_ends)
        if doubt:
            ending = Finding(Reason.StoppedByItself, f"Its instance on {self.node} has failed: why is not told yet.")
        if over and known.maker:
            obs.ended[uuid] = deletion.deleted_finding(known)
        if ending is not None and (entry is None or not entry.asked_to_stop):
            obs.ending[uuid] = ending
        namespace, name = facts.key(vmi)
        cluster = self.cluster
        obs.vms[uuid] = VM(
            uuid=uuid,
            name=f"{namespace}/{name}",
            node=self.node,
            state=State.SHUTOFF if gone else State.RUNNING,
            crashed=gone and crashed,
            memory_mib=facts.memory_mib(vmi),
            declared_strategy=strategy or (cluster.default_strategy if cluster else None),
            labels=facts.labels(vmi),
            owner=facts.looked_after_by(vmi),
            persistent=known.kept,
            marked=marked and known.asked,
            method=facts.method(vmi),
            migratable=able,
            findings=findings,
            shutdown_findings=facts.never_stopped(vmi),
            job=job,
            document=vmi_document(vmi, self._machine(uuid), self.rates.of(vmi)),
            control_node="" if gone else self._control_node.why(vmi),
            restarted=uuid in self._restarted,
            stopping=self._stopping(vmi, entry),
            instance=known.uid,
        )
        if marked:
            self.evicted.pop(uuid, None)
        asked = self.just(self.evicted, uuid) and not over
        if not (marked or moving or asked or self.just(self.withdrawn, uuid)):
            known.asked = False  # a mark that comes now is a new one
        external = strategy == "External" and not moving
        return bool(moving) or asked or (marked and not external)

    def _stopping(self, vmi: Obj, entry: VMRecord | None) -> bool | None:
        """Is it on its way out? None: nothing was asked of it. An eviction shows at the pod first."""
        if entry is None or not entry.stop_requests:
            return None
        pod = facts.launcher_of(vmi, self.watches.need_pods())
        return pod is None or facts.deleted(pod) or deletion.ends(vmi)

    def _hinders(self, uuid: str) -> Finding | None:
        """Why no migration of this VM can begin, although the VM itself can migrate: no node takes it, or KubeVirt's
        limits are 0. None: nothing known."""
        refused = self._refusals[2].get(uuid)
        if refused:
            return Finding(Reason.NoTargetWithCapacity, refused)
        none = self.cluster.no_slots if self.cluster is not None else ""
        return Finding(Reason.MigrationLimitZero, none) if none else None

    @staticmethod
    def just(when: Mapping[str, float], uuid: str) -> bool:
        return time.monotonic() - when.get(uuid, -1e9) < _SETTLES

    def _machine(self, uuid: str) -> Obj | None:
        """The VirtualMachine behind a VMI, read once in a slice."""
        if self._reads_machines and uuid not in self._machines:
            self._machines[uuid] = self._departed.machine(uuid)
        return self._machines.get(uuid)

    def _hidden(self, uuid: str, entry: VMRecord | None, newest: Obj) -> bool:
        """The attempt of the record has failed and is not closed yet: that is told first."""
        last = entry.last if entry is not None else None
        if last is None or last.ended or not last.work:
            return False
        return last.work != newest["metadata"]["uid"]

    def _strangers(self, pods: Sequence[Obj], vmis: Mapping[str, Obj]) -> list[tuple[str, Obj]]:
        """Live launcher pods on the node whose VMI is not here, or has ended: UUID of the VM, pod."""
        here = {v["metadata"]["uid"] for v in vmis.values()}
        known = {found.uid: uuid for uuid, found in self._instances().items()}
        found = []
        for pod in pods:
            uid = facts.labels(pod).get(names.CREATED_BY, "")
            if uid not in here:
                found.append((known.get(uid, uid), pod))
        return found
