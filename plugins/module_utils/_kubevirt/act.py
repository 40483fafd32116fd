# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Act: carry out one action of the core through the API. Each adopts what is already so."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from .._core.actions import Action, Do
from .._core.reasons import Finding, Reason
from .._core.record import NodeRecord
from . import facts, names
from .client import JSON_PATCH, MERGE, Client
from .errors import AccessDenied, KubeError
from .eviction import Answer, classify, evict
from .observe import Observer
from .records import Instance, Records

Obj = dict[str, Any]
# A withdrawal takes a moment to be seen; asking again sooner only makes noise.
_ASK_AGAIN = 2.0
_EVICTED = (Answer.MARKED, Answer.IN_PROGRESS)


class Actor:
    """Acts on one node and its VMs. `wall`: time for people, ISO 8601 UTC."""

    def __init__(
        self, client: Client, observer: Observer, records: Records, wall: Callable[[], str]
    ) -> None:
        self._client = client
        self._observer = observer
        self._records = records
        self._wall = wall
        self._withdrawn: dict[str, float] = {}
        self._acts: Mapping[Do, Callable[[Action, NodeRecord], Finding | None]] = {
            Do.CORDON: self._cordon,
            Do.UNCORDON: self._uncordon,
            Do.FORGET: self._forget,
            Do.MIGRATE: self._migrate,
            Do.MARK: self._mark,
            Do.UNMARK: self._withdraw,
            Do.ABORT: self._withdraw,
            Do.SHUTDOWN: self._shutdown,
            Do.START: self._start,
        }

    def apply(self, action: Action, record: NodeRecord) -> Finding | None:
        """None, or why it was not done. What goes wrong with one VM never hurts the next."""
        act = self._acts.get(action.do)
        if act is None:
            text = f"{action.do.value} has no counterpart on KubeVirt"
            return Finding(Reason.API_ERROR, text)
        try:
            finding = act(action, record)
        except KubeError as exc:
            finding = failure(exc)
        if finding is not None and action.do is Do.MIGRATE:
            told = [finding.reason.value, finding.message]
            self._known(action).refused = {str(action.attempt): told}
        return finding

    # The node

    def _node(self) -> str:
        return names.node(self._observer.node)

    def _cordon(self, _action: Action, record: NodeRecord) -> Finding | None:
        """Ours, with what was before; the version that was read, so that of two one wins."""
        node = self._client.get(self._node())
        if (node.get("spec") or {}).get("unschedulable"):
            self._observer.nodes.put(node)
            record.cordoned_by_us = names.CORDON in facts.annotations(node)
            return None
        mine = {**self._request(record), "before": {"unschedulable": False}}
        version = node["metadata"]["resourceVersion"]
        patch = {
            "metadata": {
                "resourceVersion": version,
                "annotations": {names.CORDON: json.dumps(mine, sort_keys=True)},
            },
            "spec": {"unschedulable": True},
        }
        self._observer.nodes.put(self._client.merge(self._node(), patch))
        return None

    def _uncordon(self, _action: Action, _record: NodeRecord) -> Finding | None:
        node = self._client.get(self._node())
        if names.CORDON not in facts.annotations(node):
            self._observer.nodes.put(node)
            return None  # it is not ours (any more): left as it is
        patch = {
            "metadata": {
                "resourceVersion": node["metadata"]["resourceVersion"],
                "annotations": {names.CORDON: None},
            },
            "spec": {"unschedulable": None},
        }
        self._observer.nodes.put(self._client.merge(self._node(), patch))
        return None

    def _forget(self, _action: Action, _record: NodeRecord) -> Finding | None:
        self._observer.nodes.put(self._records.forget())
        return None

    # Migrations

    def _request(self, record: NodeRecord) -> dict[str, Any]:
        return {
            "run": record.run_id,
            "by": record.requester,
            "reason": record.reason,
            "node": record.node,
            "at": self._wall(),
        }

    def _known(self, action: Action) -> Instance:
        return self._records.instances[action.vm]

    def _vmi(self, action: Action) -> Obj | None:
        found = self._known(action)
        vmi = self._client.find(
            names.kubevirt(found.namespace, "virtualmachineinstances", found.name)
        )
        if vmi is None or vmi["metadata"]["uid"] != found.uid:
            return None
        return vmi

    def _sign(self, vmi: Obj, record: NodeRecord) -> Obj:
        """Who asks, when and why stand on the VMI before anything is asked. The VMI as it is."""
        namespace, name = facts.key(vmi)
        note = json.dumps(self._request(record), sort_keys=True)
        path = names.kubevirt(namespace, "virtualmachineinstances", name)
        patch = {"metadata": {"annotations": {names.REQUEST: note}}}
        new = self._client.request("PATCH", path, patch, content_type=MERGE, retry=False)
        self._observer.vmis.put(new)
        return new

    def _migrate(self, action: Action, record: NodeRecord) -> Finding | None:
        """Evict once where KubeVirt then migrates; else a migration object of our own."""
        found = self._known(action)
        if self._observer.unfinished(action.vm):
            return None  # adopted
        vmi = self._observer_vmi(action)
        if vmi is None:
            return None  # it is gone or started anew: seen at the next look
        if facts.mark(vmi):
            return None  # KubeVirt tries again by itself
        vmi = self._sign(vmi, record)
        strategy = vmi["spec"].get("evictionStrategy") or self._default()
        if facts.mark(vmi) or facts.status(vmi).get("nodeName") != self._observer.node:
            return None
        found.old = [m["metadata"]["uid"][:8] for m in self._observer.of(action.vm)]
        if strategy in ("LiveMigrate", "LiveMigrateIfPossible"):
            return self._evict_to_migrate(action, vmi)
        return self._create(action, vmi, record)

    def _observer_vmi(self, action: Action) -> Obj | None:
        for vmi in self._observer.vmis.items():
            if vmi["metadata"]["uid"] == self._known(action).uid:
                return dict(vmi)
        return None

    def _default(self) -> str:
        cluster = self._observer.cluster
        return cluster.default_strategy if cluster else "None"

    def _evict_to_migrate(self, action: Action, vmi: Obj) -> Finding | None:
        if not facts.is_true(vmi, "LiveMigratable"):
            # An eviction now would kill a LiveMigrateIfPossible guest.
            return Finding(Reason.NOT_KNOWN_YET)
        pod = self._pod(vmi)
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
        """The pod in which the guest runs: the newest live one of the VMI on its node."""
        uid, node = vmi["metadata"]["uid"], facts.status(vmi).get("nodeName")
        pods = [
            pod
            for pod in facts.live_launchers(self._observer.pods.items())
            if facts.labels(pod).get(names.CREATED_BY) == uid
            and (pod.get("spec") or {}).get("nodeName") == node
        ]
        pods.sort(key=lambda p: p["metadata"]["creationTimestamp"])
        return pods[-1] if pods else None

    def _create(self, action: Action, vmi: Obj, record: NodeRecord) -> Finding | None:
        namespace, name = facts.key(vmi)
        note = json.dumps(self._request(record), sort_keys=True)
        spec: dict[str, Any] = {"vmiName": name}
        if action.target:
            spec["addedNodeSelector"] = {"kubernetes.io/hostname": action.target}
        body = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstanceMigration",
            "metadata": {
                "generateName": "virtops-maintenance-",
                "annotations": {names.REQUEST: note},
            },
            "spec": spec,
        }
        path = names.kubevirt(namespace, "virtualmachineinstancemigrations")
        try:
            self._client.request("POST", path, body, retry=False)
        except AccessDenied:
            raise
        except KubeError as exc:
            if "in-flight migration detected" in exc.message:
                return None  # adopted at the next look
            return failure(exc)
        self._observer.evicted[action.vm] = time.monotonic()
        return None

    def nudge(self) -> None:
        """Any write to the Node wakes KubeVirt's evacuation controller; nothing else may."""
        note = {"metadata": {"annotations": {names.NUDGE: self._wall()}}}
        self._observer.nodes.put(self._client.merge(self._node(), note))

    def _mark(self, action: Action, record: NodeRecord) -> Finding | None:
        """External: the mark tells the owner. Where somebody set it, it is left."""
        vmi = self._vmi(action)
        if vmi is None or facts.mark(vmi):
            return None
        vmi = self._sign(vmi, record)
        pod = self._pod(vmi)
        if pod is None:
            return None
        self._known(action).asked = True
        answer, finding = evict(self._client, pod)
        return None if answer in _EVICTED else finding

    # Withdrawing: first the mark, or KubeVirt makes a new migration for it; then the migration

    def _withdraw(self, action: Action, _record: NodeRecord) -> Finding | None:
        if time.monotonic() - self._withdrawn.get(action.vm, -1e9) < _ASK_AGAIN:
            return None
        self._withdrawn[action.vm] = time.monotonic()
        known, vmi = self._known(action), self._vmi(action)
        if vmi is not None and known.asked and facts.mark(vmi):
            self._cancel(vmi)
        for migration in self._observer.unfinished(action.vm):
            notes = facts.annotations(migration)
            kubevirts = known.asked and notes.get(names.EVACUATION) == self._observer.node
            if (names.REQUEST in notes or kubevirts) and not _deleted(migration):
                namespace, name = facts.key(migration)
                path = names.kubevirt(namespace, "virtualmachineinstancemigrations", name)
                self._gone("DELETE", path)
        return None

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

    def _gone(self, method: str, path: str, body: Any = None) -> None:
        """A request for which 404 is as good."""
        try:
            self._client.request(method, path, body)
        except KubeError as exc:
            if exc.code != 404:
                raise

    # Stopping and starting

    def _shutdown(self, action: Action, record: NodeRecord) -> Finding | None:
        """Evict where KubeVirt then stops the guest; else delete the instance.

        The VM's runStrategy is not touched: Always starts it elsewhere, by itself.
        """
        vmi = self._vmi(action)
        if vmi is None or facts.final(vmi) or vmi["metadata"].get("deletionTimestamp"):
            return None
        if facts.status(vmi).get("nodeName") not in (None, "", self._observer.node):
            return None  # it has moved on its own
        vmi = self._sign(vmi, record)
        strategy = vmi["spec"].get("evictionStrategy") or self._default()
        able = facts.is_true(vmi, "LiveMigratable")
        evictable = strategy == "None" or (strategy == "LiveMigrateIfPossible" and not able)
        pod = self._pod(vmi)
        if evictable and pod is not None:
            answer, finding = evict(self._client, pod)
            if answer in (Answer.ACCEPTED, Answer.GONE):
                return None
            return finding
        namespace, name = facts.key(vmi)
        path = names.kubevirt(namespace, "virtualmachineinstances", name)
        self._gone("DELETE", path, _only(vmi))
        return None

    def _start(self, action: Action, _record: NodeRecord) -> Finding | None:
        """Bring back what does not come back by itself."""
        known = self._known(action)
        if known.bare:
            text = "It has no VirtualMachine, so KubeVirt cannot start it again."
            return Finding(Reason.CANNOT_START, text)
        vm = self._client.find(names.kubevirt(known.namespace, "virtualmachines", known.name))
        if vm is None:
            return Finding(Reason.CANNOT_START, "its VirtualMachine is gone")
        strategy = (vm.get("spec") or {}).get("runStrategy", "")
        path = names.kubevirt(known.namespace, "virtualmachineinstances", known.name)
        if strategy == "Once":
            vmi = self._client.find(path)
            if vmi is not None and facts.final(vmi):
                self._gone("DELETE", path, _only(vmi))  # the controller then starts a new one
            return None
        if strategy in ("Manual", "RerunOnFailure"):
            start = names.subresource(known.namespace, "virtualmachines", known.name, "start")
            try:
                self._client.request("PUT", start, {}, accept="*/*", retry=False)
            except AccessDenied:
                raise
            except KubeError as exc:
                if exc.code == 409 and "already running" in exc.message:
                    return None
                return Finding(Reason.CANNOT_START, exc.message)
            return None
        if strategy == "Always":
            return None
        return Finding(Reason.CANNOT_START, f"its runStrategy is {strategy or 'not set'}")


def _deleted(obj: Obj) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def _only(obj: Obj) -> Obj:
    """DeleteOptions for this very object."""
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": obj["metadata"]["uid"]},
    }


def failure(exc: KubeError) -> Finding:
    """A refusal in the core's words."""
    if isinstance(exc, AccessDenied):
        return Finding(Reason.FORBIDDEN, str(exc))
    return classify(exc)[1] or Finding(Reason.API_ERROR, str(exc))
