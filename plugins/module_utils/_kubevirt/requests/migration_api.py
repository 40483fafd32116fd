"""Requests about one migration: sign, create, cancel the mark, delete. One way for all callers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..api.client import Client, only
from ..api.errors import AccessDenied, KubeError
from ..objects import facts, names
from .withdrawal import not_begun

Obj = dict[str, Any]
_PREFIX = "virtops-maintenance-"
_NEW_POD = re.compile(r'\bpods? "virt-launcher-[^"]*"')


def sign(client: Client, vmi: Obj, note: Mapping[str, Any], version: str = "") -> Obj:
    """Write on the VMI who asks, when and why, before any request. Returns the updated VMI.

    `version`: only if it is still this one, so that of two runs one wins (else KubeError 409).
    """
    namespace, name = facts.key(vmi)
    text = json.dumps(dict(note), sort_keys=True)
    meta: Obj = {"annotations": {names.REQUEST: text}}
    if version:
        meta["resourceVersion"] = version
    path = names.kubevirt(namespace, "virtualmachineinstances", name)
    return client.merge(path, {"metadata": meta})


def create(
    client: Client, vmi: Obj, note: Mapping[str, Any], selector: Mapping[str, str] | None = None, dry: bool = False
) -> Obj:
    """A migration object of our own. Raises KubeError; `in_flight` tells the one kind.

    Strict: a server that does not know addedNodeSelector would drop it without a word, and the
    VM would go anywhere.
    """
    namespace, name = facts.key(vmi)
    spec: Obj = {"vmiName": name}
    if selector:
        spec["addedNodeSelector"] = dict(selector)
    body = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {"generateName": _PREFIX, "annotations": {names.REQUEST: json.dumps(dict(note), sort_keys=True)}},
        "spec": spec,
    }
    query = {"fieldValidation": "Strict"}
    if dry:
        query["dryRun"] = "All"
    path = names.kubevirt(namespace, "virtualmachineinstancemigrations")
    return client.request("POST", path, body, query, retry=False)


def in_flight(exc: KubeError) -> bool:
    """Was a new migration refused because one is under way?"""
    return "in-flight migration detected" in exc.message


def cancel_mark(client: Client, vmi: Obj, dry: bool = False) -> None:
    """Take evacuationNodeName away. KubeVirt wants the node's name, and refuses a wrong one.

    Since KubeVirt 1.7 (Cluster.can_cancel). Before it nobody but KubeVirt can: a change of the
    field by anybody else is accepted and dropped.
    """
    namespace, name = facts.key(vmi)
    path = names.subresource(namespace, "virtualmachineinstances", name, "evacuate/cancel")
    body: Obj = {"evacuationNodeName": facts.mark(vmi)}
    if dry:
        body["dryRun"] = ["All"]
    # Subresources answer 406 to a client that accepts JSON alone.
    client.request("PUT", path, body, accept="*/*")


def _delete(client: Client, obj: Obj, path: str, retry: bool = True) -> None:
    """This very object; that it is gone is as good."""
    try:
        client.request("DELETE", path, only(obj), retry=retry)
    except AccessDenied:
        raise
    except KubeError as exc:
        # 409: another object has its name by now
        if exc.code not in (404, 409):
            raise


def delete_migration(client: Client, migration: Obj) -> None:
    """Deleting it is how KubeVirt is asked to abort it."""
    path = names.kubevirt(facts.key(migration)[0], "virtualmachineinstancemigrations")
    _delete(client, migration, f"{path}/{facts.key(migration)[1]}")


def end_target(client: Client, vmi: Obj, migration: Obj) -> None:
    """Without its target pod a migration that has not begun fails.

    The pod first, then both are read anew, and it is asked for once: a moment later it may have
    begun, and soon after that the guest is there.
    """
    pod = target_pod(client, migration) if not_begun(vmi, migration) else None
    if pod is None or facts.final(pod) or facts.deleted(pod):
        return
    now = _again(client, vmi, "virtualmachineinstances")
    current = _again(client, migration, "virtualmachineinstancemigrations")
    if now is None or current is None or not facts.deleted(current) or not not_begun(now, current):
        return
    _delete(client, pod, names.pod(*facts.key(pod)), retry=False)


def _again(client: Client, obj: Obj, plural: str) -> Obj | None:
    """Read this very object again, by its UID; None: it is gone. It uses a list, so the right `get` is not needed.
    Raises KubeError."""
    namespace, name = facts.key(obj)
    found, _version = client.list(names.kubevirt(namespace, plural), "", f"metadata.name={name}")
    return next((o for o in found if o["metadata"]["uid"] == obj["metadata"]["uid"]), None)


def read_events(client: Client, obj: Obj) -> list[Obj]:
    """Events about an object, oldest first, in words that stay the same while the same goes on. Raises KubeError."""
    namespace, uid = obj["metadata"]["namespace"], obj["metadata"]["uid"]
    path = f"{names.CORE}/namespaces/{namespace}/events"
    found, _version = client.list(path, "", f"involvedObject.uid={uid}")
    found = [{**event, "message": settled(str(event.get("message") or ""))} for event in found]
    return sorted(found, key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""))


def settled(text: str) -> str:
    """Each try has a pod with a name of its own, and what is alike is told together after the tenth."""
    return _NEW_POD.sub("the target pod", text.removeprefix("(combined from similar events): "))


def events(client: Client, obj: Obj) -> list[Obj]:
    """The same; empty where they cannot be read: a reason less."""
    try:
        return read_events(client, obj)
    except KubeError:
        return []


def why_failed(client: Client, migration: Obj) -> str:
    """The text of its FailedMigration event: before the hand-off the only reason."""
    found = events(client, migration)
    texts = [str(e.get("message", "")) for e in found if e.get("reason") == "FailedMigration"]
    return texts[-1] if texts else ""


def target_pod(client: Client, migration: Obj) -> Obj | None:
    """The pod that it was made for. Raises KubeError."""
    namespace, uid = migration["metadata"]["namespace"], migration["metadata"]["uid"]
    path = f"{names.CORE}/namespaces/{namespace}/pods"
    found, _version = client.list(path, f"{names.JOB_UID}={uid}")
    return found[0] if found else None
