"""Volumes that are attached to a node though the pods that used them have left it.

A node that is powered off then keeps them: nobody answers for it, and the attach-detach controller waits for six
minutes before it gives them to a pod elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from ..api.client import Client
from ..objects import facts, names

Obj = dict[str, Any]
_ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
_AGAIN = 3.0  # s; there is no selector for a node


class Attachments:
    """Reads, for one slice, which volumes are attached to the node. Requests nothing while the Node names none."""

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._node = node
        self._claims: dict[str, tuple[str, str]] | None = None  # volume -> namespace and name of its claim
        # When they were listed, what the Node named then, and those of this node: volume -> its VolumeAttachment.
        self._read: tuple[float, list[Obj], dict[str, Obj]] = (-1e9, [], {})

    def left(self, node: Obj | None, pods: Sequence[Obj]) -> tuple[str, ...]:
        """The attached volumes, in words, that no pod of the node (`pods`) uses any more. Raises KubeError."""
        used = set(_claims_of(pods))
        return tuple(text for claim, text in self.attached(node) if claim not in used)

    def attached(self, node: Obj | None) -> list[tuple[tuple[str, str], str]]:
        """Each volume: namespace and name of its claim, and in words. Raises KubeError."""
        named = facts.status(node or {}).get("volumesAttached") or []
        if not named:
            return []
        known = self._claims or {}
        here = self._attachments(named)
        if here and self._claims is None:
            persistent, _version = self._client.list(f"{names.CORE}/persistentvolumes")
            known = self._claims = {one["metadata"]["name"]: _claim(one) for one in persistent}
        of = {name: known.get(name, ("?", "?")) for name in here}
        return [
            (of[name], f"Volume {name} of {'/'.join(of[name])}{_trouble(one)}") for name, one in sorted(here.items())
        ]

    def _attachments(self, named: list[Obj]) -> dict[str, Obj]:
        read, before, here = self._read
        if named != before or time.monotonic() - read >= _AGAIN:
            listed, _version = self._client.list(_ATTACHMENTS)
            mine = [one for one in listed if one["spec"].get("nodeName") == self._node]
            found = {(one["spec"].get("source") or {}).get("persistentVolumeName"): one for one in mine}
            here = {name: one for name, one in found.items() if name}
            self._read = (time.monotonic(), named, here)
        return here


def _claim(volume: Obj) -> tuple[str, str]:
    claim = (volume.get("spec") or {}).get("claimRef") or {}
    return str(claim.get("namespace", "?")), str(claim.get("name", "?"))


def _claims_of(pods: Iterable[Obj]) -> Iterable[tuple[str, str]]:
    for pod in pods:
        if facts.final(pod):
            continue  # the kubelet has unmounted what it used
        for volume in (pod.get("spec") or {}).get("volumes") or []:
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if not name and "ephemeral" in volume:
                name = f"{pod['metadata']['name']}-{volume['name']}"
            if name:
                yield pod["metadata"]["namespace"], name


def _trouble(attachment: Obj) -> str:
    error = facts.status(attachment).get("detachError") or {}
    return f" ({error['message']})" if error.get("message") else ""
