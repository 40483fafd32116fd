"""Record who asks for what, when and why: on the VMI, on its migrations, and as an Event.

It is stored there before anything is asked.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection
from typing import Any

from ..._core.model.record import NodeRecord
from ..._core.run.node_events import Notice
from ..api.client import JSON_PATCH, MERGE, Client
from ..api.errors import AccessDenied, KubeError
from ..api.watches import Watches
from ..objects import facts, names, requesters

Obj = dict[str, Any]
COMPONENT = "virtops.maintenance"
# Of an Event's message, in bytes: the limit that the newer Events API has for a note.
_MESSAGE_BYTES = 1024
_TEST_FAILED = 422  # of a JSON patch


def post_event(client: Client, about: Obj, reason: str, text: str, now: str, good: bool = True) -> None:
    """`about`: the object. Of one without a namespace the Event is in `default`. Raises KubeError (AccessDenied)."""
    namespace = about.get("namespace", "default")
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about['name'][:200]}.{secrets.token_hex(8)}", "namespace": namespace},
        "involvedObject": about,
        "reason": reason,
        "message": shortened(text),
        "type": "Normal" if good else "Warning",
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
    }
    client.request("POST", f"{names.CORE}/namespaces/{namespace}/events", body, retry=False)


def note_on_node(client: Client, node: Obj, notice: Notice, now: str) -> str:
    """An Event on the Node, which is no part of the run: '' or, if it is forbidden, a sentence about that."""
    meta = node["metadata"]
    about = {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]}
    try:
        post_event(client, about, notice.reason, notice.message, now, notice.good)
    except AccessDenied as exc:
        return f"No Event is written on the node: {exc.message}"
    except KubeError:
        pass
    return ""


class Signature:
    """`wall`: time for people, ISO 8601 UTC."""

    def __init__(self, client: Client, watches: Watches, wall: Callable[[], str]) -> None:
        self._client = client
        self._watches = watches
        self._wall = wall

    def request(self, record: NodeRecord, what: str = "", priority: int = 0, marks: bool = True) -> Obj:
        """The request as stored in an annotation. `marks`: the VMI is to be marked for it."""
        found: Obj = {
            "run": record.run_id,
            "by": record.requester,
            "reason": record.reason,
            "node": record.node,
            "at": self._wall(),
        }
        if what:
            found["what"] = what
        if priority:
            found["priority"] = priority
        if not marks:
            found["marks"] = False
        return found

    def sign(self, vmi: Obj, record: NodeRecord, what: str, marks: bool, priority: int = 0) -> Obj:
        """The VMI as it then is. What this run has signed already is not signed again.

        `marks`: is it evicted next, so that KubeVirt marks it?
        """
        old = facts.request(vmi)
        if (old.get("run"), old.get("what")) == (record.run_id, what):
            return vmi
        asked = self.request(record, what, priority, marks)
        before = requesters.eviction_source(vmi) or old.get(requesters.SOURCE_BEFORE)
        if before and not facts.mark(vmi):
            asked[requesters.SOURCE_BEFORE] = before
        note = json.dumps(asked, sort_keys=True)
        patch = {
            "metadata": {"annotations": {names.REQUEST: note}, "labels": {names.FROM_NODE: names.label(record.node)}}
        }
        new = self._client.request("PATCH", _path(vmi), patch, content_type=MERGE, retry=False)
        self._watches.vmis.put(new)
        self.send_event(new, record, "MaintenanceRequested", what)
        return new

    def send_event(self, vmi: Obj, record: NodeRecord, reason: str, what: str) -> None:
        """An Event on the VMI. Raises AccessDenied; else an Event less does no harm."""
        namespace, name = facts.key(vmi)
        why = f": {record.reason}" if record.reason else ""
        text = f"{what} of node {record.node}, run {record.run_id} of {record.requester}{why}"
        about = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "namespace": namespace,
            "name": name,
            "uid": vmi["metadata"]["uid"],
        }
        try:
            post_event(self._client, about, reason, text, self._wall())
        except AccessDenied as exc:
            if "being terminated" not in exc.message:  # else the namespace takes none
                raise
        except KubeError:
            return

    def sign_migration(self, migration: Obj, record: NodeRecord) -> None:
        """One that KubeVirt made for a request of ours."""
        note = json.dumps(self.request(record, "evacuation"), sort_keys=True)
        namespace, name = facts.key(migration)
        path = names.kubevirt(namespace, "virtualmachineinstancemigrations", name)
        patch = {"metadata": {"annotations": {names.REQUEST: note}}}
        try:
            new = self._client.request("PATCH", path, patch, content_type=MERGE, retry=False)
            self._watches.put_migration(new)
        except AccessDenied:
            raise
        except KubeError:
            return  # it ended meanwhile, or it is tried again

    def remove_mark(self, vmi: Obj) -> None:
        """The request is withdrawn: nothing of it stays on the VMI.

        If it still is the one that was read: by now another run may have signed. Its text is
        compared, since the VMI's version changes with all that KubeVirt writes.
        """
        patch = _removes("annotations", names.REQUEST, facts.annotations(vmi)[names.REQUEST])
        if names.FROM_NODE in facts.labels(vmi):
            patch.append({"op": "remove", "path": _pointer("labels", names.FROM_NODE)})
        try:
            new = self._client.request("PATCH", _path(vmi), patch, content_type=JSON_PATCH, retry=False)
            self._watches.vmis.put(new)
        except AccessDenied:
            raise
        except KubeError:
            return


def remove_signature(client: Client, vmi: Obj, runs: Collection[str]) -> None:
    """Remove the label of a node, and the request if one of `runs` has signed it; not what another run has signed since
    it was read. Raises KubeError."""
    notes, label = facts.annotations(vmi), facts.labels(vmi)[names.FROM_NODE]
    ours = _removes("labels", names.FROM_NODE, label)
    signed = _removes("annotations", names.REQUEST, notes[names.REQUEST]) if _run(vmi) in runs else []
    for patch in ([*signed, *ours], ours) if signed else (ours,):
        try:
            client.gone("PATCH", _path(vmi), patch, JSON_PATCH)
        except KubeError as exc:
            if exc.code != _TEST_FAILED:
                raise
        else:
            return


def _run(vmi: Obj) -> object:
    return facts.request(vmi).get("run")


def _removes(what: str, key: str, value: str) -> list[Obj]:
    path = _pointer(what, key)
    return [{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]


def shortened(text: str) -> str:
    """Shorten to what an Event may hold. The full reason is in the annotation."""
    raw = text.encode()
    if len(raw) <= _MESSAGE_BYTES:
        return text
    return raw[: _MESSAGE_BYTES - 3].decode(errors="ignore") + "..."


def _pointer(what: str, key: str) -> str:
    """Where a label or an annotation is, for a JSON patch."""
    return f"/metadata/{what}/" + key.replace("/", "~1")


def _path(vmi: Obj) -> str:
    namespace, name = facts.key(vmi)
    return names.kubevirt(namespace, "virtualmachineinstances", name)
