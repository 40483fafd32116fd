"""Act: carry out one action of the core through the API. Each adopts what is already so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..._core.decision.actions import Action, Do
from ..._core.model.record import NodeRecord
from ..._core.reasons.reason import Finding, Reason
from ..api.client import Client, only
from ..api.cluster import can_cancel
from ..api.errors import AccessDenied, KubeError
from ..objects import facts, names
from ..observe.observe import Observer
from ..records.node_record import Instance, Records, instance_of
from ..requests import migration_api
from ..requests.eviction import Answer, evict, explain_budget, failure
from ..requests.signature import Signature, remove_signature
from ..requests.start import start
from .cordon import Cordon
from .withdraw import Withdrawal

Obj = dict[str, Any]
_AT_ONCE = {"gracePeriodSeconds": 1}
# There is no claim, no autostart, no definition of its own on a node, no saved state; the holder of
# every migration is KubeVirt, which pauses and resumes for it.
NO_COUNTERPART = frozenset(
    {Do.WATCH, Do.RELEASE, Do.FINISH, Do.CLEAN_SOURCE, Do.RESUME}
    | {Do.SAVE, Do.UNSAVE, Do.AUTOSTART_OFF, Do.AUTOSTART_ON}
    | {Do.COLD_DEFINE, Do.COLD_UNDEFINE, Do.COLD_START, Do.COLD_WITHDRAW, Do.COLD_RETURN}
)
_EVICTED = (Answer.MARKED, Answer.IN_PROGRESS)
# No answer, or not from who should do it: the request may work all the same.
_PERHAPS_DONE = frozenset({Reason.APIError, Reason.WebhookUnavailable})


class Actor:
    """Acts on one node and its VMs. `wall`: time for people, ISO 8601 UTC."""

    def __init__(self, client: Client, observer: Observer, records: Records, wall: Callable[[], str]) -> None:
        self._client = client
        self._observer = observer
        self._records = records
        self._wall = wall
        self._sent: set[str] = set()  # UUIDs of VMs of which a migration was asked for, whatever was answered
        self._signature = Signature(client, observer.watches, wall)
        withdrawal = Withdrawal(client, observer, records, self._signature)
        self.note_withdrawn = withdrawal.note_withdrawn
        cordon = Cordon(client, observer, self._signature)
        self._acts: Mapping[Do, Callable[[Action, NodeRecord], Finding | None]] = {
            Do.CORDON: cordon.cordon,
            Do.UNCORDON: cordon.uncordon,
            Do.FORGET: self._forget,
            Do.MIGRATE: self._migrate,
            Do.MARK: self._mark,
            Do.UNMARK: withdrawal.withdraw,
            Do.ABORT: withdrawal.withdraw,
            Do.SHUTDOWN: self._shutdown,
            Do.FORCE_OFF: self._force_off,
            Do.START: self._start,
        }

    def apply(self, action: Action, record: NodeRecord) -> Finding | None:
        """None, or why it was not done. What goes wrong with one VM never hurts the next."""
        if action.do in NO_COUNTERPART:
            text = f"{action.do.value} has no counterpart on KubeVirt"
            return Finding(Reason.APIError, text)
        try:
            finding = self._acts[action.do](action, record)
        except KubeError as exc:
            finding = failure(exc)
        if finding is not None and action.do is Do.MIGRATE:
            reported = [finding.reason.value, finding.message]
            self._known(action).refused = {str(action.attempt): reported}
            if finding.reason in _PERHAPS_DONE and action.vm in self._sent:
                self._observer.evicted[action.vm] = time.monotonic()
        return finding

    def _forget(self, _action: Action, record: NodeRecord) -> Finding | None:
        """Nothing of ours stays on the VMs that we moved; who did it, an Event says."""
        label = f"{names.FROM_NODE}={names.label(self._observer.node)}"
        moved, _version = self._client.list(f"{names.KUBEVIRT}/virtualmachineinstances", label)
        stay: dict[str, list[str]] = {}  # the words of a refusal -> names of VMs
        why = Reason.APIError
        for vmi in moved:
            try:
                remove_signature(self._client, vmi, record.runs)
            except KubeError as exc:  # the others are asked all the same
                refusal = failure(exc)
                why = refusal.reason
                stay.setdefault(refusal.message, []).append("/".join(facts.key(vmi)))
        if stay:
            text = " ".join(f"{', '.join(those)}: {words}" for words, those in stay.items())
            return Finding(why, f"VMIs still carry marks of this maintenance, so its record stays. {text}")
        self._observer.watches.nodes.put(self._records.forget())
        return None

    # Migrations

    def _known(self, action: Action) -> Instance:
        return self._records.instances[action.vm]

    def _vmi(self, action: Action) -> Obj | None:
        return instance_of(self._client, self._known(action))

    def _migrate(self, action: Action, record: NodeRecord) -> Finding | None:
        """Evict once where KubeVirt then migrates; else a migration object of our own."""
        if self._observer.unfinished(action.vm):
            return None  # adopted
        vmi = self._observer_vmi(action)
        if vmi is None:
            return None  # it is gone or started anew: seen at the next look
        if facts.mark(vmi):
            return None  # KubeVirt tries again by itself
        evicts = self._strategy(vmi) in ("LiveMigrate", "LiveMigrateIfPossible")
        # Else a migration of our own, which can be withdrawn on every version.
        evicts = evicts and can_cancel(self._observer.cluster)
        self._sent.discard(action.vm)
        vmi = self._signature.sign(vmi, record, "evacuation", evicts, action.priority)
        if facts.mark(vmi) or facts.status(vmi).get("nodeName") != self._observer.node:
            return None
        self._sent.add(action.vm)
        if evicts:
            return self._evict_to_migrate(action, vmi)
        return self._create(action, vmi, record)

    def _observer_vmi(self, action: Action) -> Obj | None:
        for vmi in self._observer.watches.vmis.items():
            if vmi["metadata"]["uid"] == self._known(action).uid:
                return dict(vmi)
        return None

    def _strategy(self, vmi: Obj) -> str:
        """The evictionStrategy by which KubeVirt handles an eviction of this VM, whatever our rules say."""
        cluster = self._observer.cluster
        default = cluster.default_strategy if cluster else "None"
        return str(vmi["spec"].get("evictionStrategy") or default)

    def _evict_to_migrate(self, action: Action, vmi: Obj) -> Finding | None:
        pod = self._pod(vmi)
        if self._strategy(vmi) == "LiveMigrateIfPossible":
            # If it cannot be migrated by now, an eviction would kill the guest. Others are not
            # read again for this: KubeVirt refuses.
            fresh = self._vmi(action)
            if fresh is None or facts.mark(fresh) or not self._is_here(fresh):
                return None
            vmi = fresh
        if not facts.is_true(vmi, "LiveMigratable"):
            return Finding(Reason.MigratableNotKnown)
        if pod is None:
            return None
        self._known(action).asked = True
        answer, finding = evict(self._client, pod)
        if answer in _EVICTED:
            self._observer.evicted[action.vm] = time.monotonic()
            return None
        self._known(action).asked = False
        return finding

    def _pod(self, vmi: Obj) -> Obj | None:
        return facts.launcher_of(vmi, self._observer.watches.need_pods())

    def _create(self, action: Action, vmi: Obj, record: NodeRecord) -> Finding | None:
        note = self._signature.request(record, "evacuation")
        where = {names.HOSTNAME: action.target} if action.target else None
        try:
            migration_api.create(self._client, vmi, note, where)
        except AccessDenied:
            raise
        except KubeError as exc:
            if migration_api.in_flight(exc):
                return None  # adopted at the next look
            return failure(exc)
        self._observer.evicted[action.vm] = time.monotonic()
        return None

    def sign_migrations(self, record: NodeRecord) -> None:
        """Annotate the migrations that KubeVirt created for our evictions with who asked. Raises AccessDenied."""
        for uuid, known in self._records.instances.items():
            if not known.asked:
                continue
            for migration in self._observer.unfinished(uuid):
                notes = facts.annotations(migration)
                ours = notes.get(names.EVACUATION) == self._observer.node
                if ours and names.REQUEST not in notes and not facts.deleted(migration):
                    self._signature.sign_migration(migration, record)

    def nudge(self, uuids: Sequence[str]) -> None:
        """Write to the Node, which wakes KubeVirt's evacuation controller. Raises KubeError.

        `uuids`: VMs that are marked and have no migration; each counts the write in its `nudges`.
        """
        self._observer.watches.nodes.put(self._records.nudge(uuids, self._wall()))

    def _mark(self, action: Action, record: NodeRecord) -> Finding | None:
        """External: the mark tells the owner. Where somebody set it, it is left.

        Where only a rule says External, an eviction would make KubeVirt migrate or stop the VM:
        then the signature alone tells the owner.
        """
        vmi = self._vmi(action)
        if vmi is None or facts.mark(vmi):
            return None
        marks = self._strategy(vmi) == "External"
        vmi = self._signature.sign(vmi, record, "request to the owner to move it because", marks)
        pod = self._pod(vmi)
        if pod is None or not marks:
            return None
        self._known(action).asked = True
        answer, finding = evict(self._client, pod)
        return None if answer in _EVICTED else finding

    # Stopping and starting

    def _force_off(self, action: Action, _record: NodeRecord) -> Finding | None:
        """End the guest without waiting for its grace period. The pod is not removed by force:
        its object stays until the node says that the guest has ended."""
        vmi = self._vmi(action)
        pod = self._pod(vmi) if vmi is not None else None
        if pod is not None:
            self._client.gone("DELETE", names.pod(*facts.key(pod)), {**only(pod), **_AT_ONCE})
        return None

    def _shutdown(self, action: Action, record: NodeRecord) -> Finding | None:
        """Evict where KubeVirt then stops the guest; else delete the instance.

        The VM's runStrategy is not touched: Always starts it elsewhere, by itself.
        """
        vmi = self._vmi(action)
        if vmi is None or not self._is_here(vmi):
            return None
        vmi = self._signature.sign(vmi, record, "stop because", marks=False)
        if not self._is_here(vmi):
            return None
        strategy = self._strategy(vmi)
        able = facts.is_true(vmi, "LiveMigratable")
        evictable = strategy == "None" or (strategy == "LiveMigrateIfPossible" and not able)
        pod = self._pod(vmi)
        if evictable and pod is not None:
            answer, finding = evict(self._client, pod)
            if answer in (Answer.ACCEPTED, Answer.GONE) or finding is None:
                return None
            return explain_budget(self._client, pod, finding)
        self._delete_here(action, vmi)
        return None

    def _is_here(self, vmi: Obj) -> bool:
        """Not on its way out, and not moved on its own."""
        node = facts.status(vmi).get("nodeName") or self._observer.node
        return node == self._observer.node and not facts.final(vmi) and not facts.deleted(vmi)

    def _delete_here(self, action: Action, read: Obj) -> None:
        """Delete the instance as it was read, or it might be stopped where it has moved to.

        Never blindly again: what was not answered is asked for anew after the next look.
        """
        vmi: Obj | None = read
        for last in (False, False, True):
            if vmi is None or not self._is_here(vmi):
                return
            body = only(vmi)
            body["preconditions"]["resourceVersion"] = vmi["metadata"]["resourceVersion"]
            namespace, name = facts.key(vmi)
            path = names.kubevirt(namespace, "virtualmachineinstances", name)
            try:
                self._client.request("DELETE", path, body, retry=False)
                return
            except KubeError as exc:
                if exc.code == 404:
                    return
                if exc.code != 409 or last:
                    raise
            vmi = self._vmi(action)  # it has changed meanwhile

    def _start(self, action: Action, _record: NodeRecord) -> Finding | None:
        """Bring back what does not come back by itself."""
        known = self._known(action)
        vm = self._client.find(names.kubevirt(known.namespace, "virtualmachines", known.name))
        if vm is None:
            return Finding(Reason.CannotStart, "its VirtualMachine is gone")
        why = start(self._client, vm)
        return Finding(Reason.CannotStart, why) if why else None
