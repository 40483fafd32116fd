"""The KubeVirt platform: what the core's loop needs, for one node of a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from ..._core.decision.actions import Action, Do
from ..._core.model.observation import Observation
from ..._core.model.policy import Limits, Policy
from ..._core.model.record import NodeRecord
from ..._core.reasons.reason import Finding, Reason
from ..api.cache import Cache
from ..api.client import Client
from ..api.cluster import Cluster
from ..api.errors import AccessDenied, KubeError, NodeUnknown
from ..api.metrics import Source
from ..objects import facts, names
from ..observe.migration_policies import MigrationPolicies, note_settings
from ..observe.observe import Observer
from ..records import lease_notes
from ..records.lease import Lock, is_wanted
from ..records.node_record import Instance, Records
from ..requests.eviction import asked_to_wait
from ..turns.turns import LATER, Turns
from . import unsupported
from .act import Actor
from .cursor import Cursor, needed_fields
from .progress import migration_progress

# Seconds; the evacuation controller needs some milliseconds when it is awake.
_GAP = 2.0
# Whether it is still wanted, while nothing is written: a roll may be aborted, a playbook killed.
_ASK_EVERY = 1.0
# Seconds for which the Node is taken as a slice before has read it.
_NODE = 10.0
# How old KubeVirt's limits may be when more is asked for on their strength: somebody may have lowered them.
_LIMITS = 2.0
# virt-api is tried so often after it did not answer.
_IN_DOUBT = 5.0


class KubeVirtPlatform:
    """Implements `run/platform.Platform` for a node.

    Methods raise KubeError for what ends the run: the node, its pods or VMIs cannot be read, or
    the record cannot be written. `now` is the wall clock of where this runs: its age counts
    between slices, which may run in different places.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        clock: Callable[[], float] = time.time,
        machines: bool = False,
        controller_uuid: str = "",
        metrics: Source | None = None,
        policy: Policy | None = None,
    ) -> None:
        """`machines`: rules ask for what only the VirtualMachines say. `metrics`: who tells
        dirty rates. `controller_uuid`: of the machine that Ansible runs on. `policy`: of whose
        rules it is told what KubeVirt's own settings do not give."""
        self.client = client
        self.node = node
        self._clock = clock
        self.records = Records(client, node)
        self.observer = Observer(client, node, self._instances, machines, controller_uuid, metrics)
        self._policies = MigrationPolicies(client)
        self._virt_api: tuple[float, Finding | None] = (-1e9, None)  # when it was tried, and why it was in vain
        self._policy = policy or Policy()
        self._record: NodeRecord | None = None
        self._nudged = 0.0
        self.boot_id = self._uid = ""
        self._node_read = self.now()
        self.lock: Lock | None = None
        self.turns: Turns | None = None  # nobody asks for anything without the node's Lease
        self._lease: Cache | None = None  # to see who waits for it
        self._actor = Actor(client, self.observer, self.records, self.wall)

    def _instances(self) -> dict[str, Instance]:
        return self.records.instances

    def close(self) -> None:
        self.observer.close()
        if self.turns is not None:
            self.turns.other_drains.close()
        if self._lease is not None:
            self._lease.stop()
        self.client.close()

    # Time

    def now(self) -> float:
        return self._clock()

    def wall(self) -> str:
        return datetime.fromtimestamp(self._clock(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def provides(self) -> Sequence[str]:
        return ()  # storage and networks are the cluster's

    def wait(self, seconds: float, gather: float = 0.0) -> None:
        """Wait until a watch reports a change, or for that time. Raises KubeError. `gather` is not used here.

        After a failed migration nothing wakes KubeVirt's evacuation controller but a change of
        the Node: where a marked VM stands without a migration, one is made.
        """
        if self._record is not None:
            self._actor.sign_migrations(self._record)
        now = time.monotonic()
        gaps = [uuid for uuid, since in self.observer.gaps.items() if now - since > _GAP]
        if gaps and now - self._nudged > _GAP:
            self._nudged = now
            self._nudge(gaps)
        until = now + seconds
        while not self.observer.wait(max(0.0, min(_ASK_EVERY, until - now))) and (now := time.monotonic()) < until:
            with suppress(KubeError):  # the next read tells it
                self.client.before_write()

    def _nudge(self, uuids: Sequence[str]) -> None:
        try:
            self._actor.nudge(uuids)
        except KubeError as exc:
            if exc.code != 404 or self._record is None:
                raise
            self._node_gone(self._record)

    def is_wanted(self) -> bool:
        """Whether another run waits. Without the right to watch Leases, only the next slice sees that."""
        if self.lock is None:
            return False
        try:
            if self._lease is None:
                self._lease = self.lock.watch(self.observer.watches.wake)
                self._lease.start()
            return any(is_wanted(lease) for lease in self._lease.items())
        except KubeError:
            return False

    # The record

    def load(self) -> NodeRecord | None:
        """Read the Node, and the record on it; None: it has none. Raises NodeUnknown, RecordError, KubeError."""
        return self.records.load(self._read_node())

    def _read_node(self) -> dict[str, Any]:
        node = self.client.find(names.node(self.node))
        if node is None:
            lease = self.lock.read() if self.lock is not None else None
            raise NodeUnknown(lease_notes.no_node(self.node, lease, self.client))
        self._take_node(node)
        return node

    def record_from_lease(self, lease: dict[str, Any] | None, run_id: str) -> NodeRecord | None:
        """The record that the Lease keeps of a deleted Node of this name; None where this is the same Node.

        Where only the runs that worked on that one are known, the record has these and no VMs. Raises RecordError.
        """
        if lease is None:
            return None
        return lease_notes.record_from_lease(lease, self.records, self._uid, run_id)

    def lease_annotations(self, notes: dict[str, str], run_id: str) -> dict[str, str]:
        """The annotations of the Lease, with this run among those that worked on the Node."""
        return lease_notes.with_run(notes, self._uid, run_id)

    def _node_gone(self, record: NodeRecord) -> None:
        """Its Lease keeps what stood on it, and the next look tells. Raises KubeError."""
        self.boot_id = record.boot_id
        self.observer.watches.nodes.refresh()
        if self.lock is not None:
            self.lock.note(self.records.notes(record))

    def _take_node(self, node: dict[str, Any]) -> None:
        self.boot_id = ((node.get("status") or {}).get("nodeInfo") or {}).get("bootID", "")
        self._uid = str(node["metadata"]["uid"])
        self.observer.watches.nodes.replace(node)
        self._node_read = self.now()

    # From slice to slice

    def resume(self, cursor: Cursor) -> NodeRecord:
        """Take over the state of the previous slice, and give its record. The Node is read only if the last read is
        more than _NODE seconds ago. One that is gone ends no run here: the next look tells. Raises KubeError,
        RecordError."""
        self.records.instances = {u: Instance(**raw) for u, raw in cursor.instances.items()}
        self.records.pods = cursor.pods
        self.client.streams_lists = cursor.streams_lists
        self.client.later = cursor.later
        self.client.denied |= {*cursor.denied}  # or each slice would wait anew until it believes that
        if self.turns is not None:
            self.turns.other_drains.seen = cursor.other_drains
        self.observer.rates.resume(cursor.rates, cursor.rates_answered)
        if cursor.cluster:
            version = tuple(cursor.cluster["version"])
            self.observer.cluster = Cluster(**{**cursor.cluster, "version": version})
            self.observer.cluster_read = cursor.cluster_read
        if 0 <= self.now() - cursor.read < _NODE:
            self._take_node(cursor.node)
            self._node_read = cursor.read
        else:
            try:
                self._read_node()
            except NodeUnknown:
                self._node_gone(NodeRecord.from_json(cursor.record))
        return NodeRecord.from_json(cursor.record)

    def make_cursor(self, lease: dict[str, Any], record: str, saved: tuple[str, float]) -> Cursor:
        """The state for the next slice. `lease`: as our last write left it. `record`: as it is now, in JSON. `saved`:
        that as it was last written, and when."""
        node, cluster = self.observer.own() or {}, self.observer.cluster
        return Cursor(
            lease=lease,
            node=needed_fields(node),
            read=self._node_read,
            record=record,
            saved=record == saved[0],
            saved_at=saved[1],
            instances={uuid: asdict(found) for uuid, found in self.records.instances.items()},
            pods=self.records.pods,
            cluster=asdict(cluster) if cluster else None,
            cluster_read=self.observer.cluster_read,
            streams_lists=self.client.streams_lists,
            later=self.client.later,
            denied=sorted(self.client.denied),
            rates=self.observer.rates.values,
            rates_answered=self.observer.rates.answered,
            other_drains=self.turns.other_drains.seen if self.turns else {},
        )

    def save(self, record: NodeRecord) -> None:
        try:
            self.observer.watches.nodes.put(self.records.save(record))
        except KubeError as exc:
            if exc.code != 404:
                raise
            self._node_gone(record)
        else:
            self._keep_what_was_stopped(record)
        self._node_read = self.now()

    def _keep_what_was_stopped(self, record: NodeRecord) -> None:
        """Nobody else starts it again: so it is known on the Lease too, before it is stopped. The
        Node may be deleted while no run is there to see it, as where it is installed anew."""
        if self.lock is not None and any(e.asked_to_stop for e in record.vms.values()):
            self.lock.note(self.records.notes(record))

    # Observe, claim, apply

    def observe(self, record: NodeRecord | None) -> Observation:
        self._record = record
        obs = self.observer.observe(record, self.now())
        obs.wall = self.wall()
        if self.observer.cluster is not None:
            vmis = self.observer.watches.vmis.items()
            rates = self.observer.rates
            note_settings(self._policies, vmis, self.records.instances, self.observer.cluster, rates.of)
        if record is not None and self.turns is not None and self.turns.other_drains.has_readers:
            self.turns.other_drains.report(migration_progress(self.observer, record, 0).left)
        unsupported.note_wanted(obs, self.node, self._policy, self.records.instances)
        return obs

    def claim(self, wanted: Sequence[Action], limits: Limits) -> dict[str, Finding | None]:
        """The scheduler and KubeVirt's migration controller reserve and queue.

        KubeVirt knows no order among evacuations. So what rules put behind others is asked for
        only when these have their slots, and what another node has first, when its turn comes.
        """
        waiting = self.observer.priorities_waiting()
        first = max([*waiting, *(a.priority for a in wanted if a.do is Do.MIGRATE)], default=0)
        text = f"VMs of priority {first} go first and have no slots yet."
        behind = Finding(Reason.WaitingForSlot, text)
        now = [a.vm for a in wanted if a.do is Do.MIGRATE and a.priority >= first]
        answers: dict[str, Finding | None] = {a.vm: self._asked_to_wait(a) for a in wanted}
        now = [vm for vm in now if answers[vm] is None]
        answers.update((a.vm, behind) for a in wanted if a.do is Do.MIGRATE and a.priority < first)
        room = self._room(len(now))
        answers.update(dict.fromkeys(now[room:], LATER))
        for uuid in now[:room]:  # written with the record, before it is asked for: a kill must not lose it
            ended = [m["metadata"]["uid"][:8] for m in self.observer.of(uuid) if facts.final(m)]
            self.records.instances[uuid].old = ended
        return answers

    def _asked_to_wait(self, action: Action) -> Finding | None:
        """The server has said when it may be asked again: no attempt before that."""
        if action.do is not Do.MIGRATE:
            return None
        later = asked_to_wait(self.client, self.records.instances[action.vm].uid)
        return later or self._virt_api_is_away(action)

    def _virt_api_is_away(self, action: Action) -> Finding | None:
        """An attempt failed for that: no other one is spent before it is back."""
        entry = self._record.vms.get(action.vm) if self._record is not None else None
        last = entry.last if entry is not None else None
        if last is None or last.reason != Reason.WebhookUnavailable.value:
            return None
        tried, why = self._virt_api
        if time.monotonic() - tried > _IN_DOUBT:
            try:
                self.client.request("GET", f"{names.SUBRESOURCES}/version", retry=False)
                why = None
            except KubeError as exc:
                there = isinstance(exc, AccessDenied) or exc.code == 404
                why = None if there else Finding(Reason.WebhookUnavailable, str(exc))
            self._virt_api = (time.monotonic(), why)
        return why

    def _room(self, wanted: int) -> int:
        """How many of `wanted` migrations may be requested now."""
        if not wanted or self.turns is None or self._record is None:
            return wanted
        cluster = self.observer.need_cluster(self.now(), _LIMITS)
        own = migration_progress(self.observer, self._record, wanted)
        return self.turns.may_begin(wanted, own, cluster, self.observer.waits.free(cluster))

    def _frees_a_slot(self, action: Action) -> bool:
        """Return whether this abort frees a slot. Those come last, or another one that is to go takes it at once.

        KubeVirt then prepares its target, and aborts it only when it runs.
        """
        if action.do not in (Do.ABORT, Do.UNMARK):
            return False
        moving = self.observer.unfinished(action.vm)
        return any(facts.phase(m) not in ("", "Pending") for m in moving)

    def apply(self, actions: Sequence[Action], record: NodeRecord) -> dict[str, Finding]:
        wrong: dict[str, Finding] = {}
        for action in sorted(actions, key=self._frees_a_slot):
            finding = self._actor.apply(action, record)
            if finding is not None:
                wrong[action.vm] = finding
        return {**wrong, **self._actor.note_withdrawn(record)}
