"""The cordon of a Node: ours, with what was before; what somebody else has set is left as it is."""

from __future__ import annotations

import json
from typing import Any

from ..._core.decision.actions import Action
from ..._core.model.record import NodeRecord
from ..._core.reasons.reason import Finding
from ..api.client import Client
from ..api.errors import KubeError
from ..objects import facts, names
from ..objects.nodes import cordoned
from ..observe.observe import Observer
from ..requests.signature import Signature

Obj = dict[str, Any]


class Cordon:
    """The cordon of the one node of a run."""

    def __init__(self, client: Client, observer: Observer, signature: Signature) -> None:
        self._client = client
        self._observer = observer
        self._signature = signature

    def _node(self) -> str:
        return names.node(self._observer.node)

    def cordon(self, _action: Action, record: NodeRecord) -> Finding | None:
        """Cordon the node, with who asked and what was before. One that others have cordoned is left so. Raises
        KubeError."""
        try:
            self._cordon_as(self._observer.own() or self._client.get(self._node()), record)
        except KubeError as exc:
            if exc.code != 409:
                raise
            self._cordon_as(self._client.get(self._node()), record)
        return None

    def _cordon_as(self, node: Obj, record: NodeRecord) -> None:
        """Cordon with the resourceVersion that was read, so that only one of two writers wins."""
        if cordoned(node):
            self._observer.watches.nodes.put(node)
            record.cordoned_by_us = names.CORDON in facts.annotations(node)
            return
        mine = {**self._signature.request(record), "before": {"unschedulable": False}}
        mine[facts.AGAIN] = facts.cordoned_again(node) + (names.CORDON in facts.annotations(node))
        version = node["metadata"]["resourceVersion"]
        patch = {
            "metadata": {"resourceVersion": version, "annotations": {names.CORDON: json.dumps(mine, sort_keys=True)}},
            "spec": {"unschedulable": True},
        }
        self._observer.watches.nodes.put(self._client.merge(self._node(), patch))

    def uncordon(self, _action: Action, _record: NodeRecord) -> Finding | None:
        """Remove our own cordon. Raises KubeError."""
        node = self._client.get(self._node())
        if names.CORDON not in facts.annotations(node):
            self._observer.watches.nodes.put(node)
            return None  # it is not ours (any more)
        patch = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": {names.CORDON: None}},
            "spec": {"unschedulable": None},
        }
        self._observer.watches.nodes.put(self._client.merge(self._node(), patch))
        return None
