"""The other pods of a node and what shall become of each. The drain and the preflight look here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from ..._core.reasons.reason import Finding, Reason
from ..api.client import Client
from ..objects import facts, names
from .filters import Asked, JudgedPod, PodOptions, controller, judge, replica_elsewhere

Obj = dict[str, Any]


class PodReader:
    """Judges the other pods of the node, for one slice. Only reads. `now`: seconds since the epoch."""

    def __init__(self, client: Client, node: str, options: PodOptions, now: Callable[[], float]) -> None:
        self._client = client
        self._node = node
        self._options = options
        self._now = now
        self._orphans: dict[str, bool] = {}  # UID of a DaemonSet -> is it gone?

    def judged(self, pods: Iterable[Obj]) -> list[JudgedPod]:
        """The pods of the node, each with its decision, by name. Raises KubeError."""
        asked = Asked(self._options, self._orphan, self._now(), self._selected())
        found = [judge(pod, asked) for pod in pods]
        return sorted(found, key=lambda j: j.name)

    def _selected(self) -> set[str] | None:
        """The server knows best what its selectors mean."""
        if not self._options.selector:
            return None
        node = f"spec.nodeName={self._node}"
        pods, _version = self._client.list(f"{names.CORE}/pods", self._options.selector, node)
        return {pod["metadata"]["uid"] for pod in pods}

    def _orphan(self, pod: Obj) -> bool:
        owner = controller(pod) or {}
        uid = owner.get("uid", "")
        if uid not in self._orphans:
            path = names.daemonset(pod["metadata"]["namespace"], owner.get("name", ""))
            self._orphans[uid] = self._client.find(path) is None
        return self._orphans[uid]


def last_replica(found: JudgedPod, others: Collection[Obj]) -> Finding | None:
    """Why a pod that the VMs or the API need may not go. `others`: pods of its namespace."""
    if replica_elsewhere(found.pod, others):
        return None
    owner = controller(found.pod) or {}
    what = f"{owner.get('kind', 'no controller')} {owner.get('name', '')}".strip()
    return Finding(Reason.LastReadyReplica, f"Pod {found.name}: no other pod of {what} is Ready elsewhere.")


def terminating(pod: Obj) -> Finding | None:
    """One that was asked to end is waited for."""
    if not pod["metadata"].get("deletionTimestamp"):
        return None
    text = f"Pod {'/'.join(facts.key(pod))} was asked to end and is still terminating."
    return Finding(Reason.PodStillTerminating, text)
