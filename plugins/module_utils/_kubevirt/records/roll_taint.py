"""The taint of nodes that a roll has still to empty: Kubernetes' scheduler prefers others for what moves.

With the effect PreferNoSchedule it keeps nothing away, so a VM that fits nowhere else still goes there. The plugin
TaintToleration of kube-scheduler weighs it three times what the room on a node weighs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..api.client import Client
from ..api.errors import KubeError
from ..objects import names

Obj = dict[str, Any]
_TRIES = 5  # while others write the node at the same time: its kubelet, its virt-handler, a drain


class RollTaint:
    """The taint of a roll on the nodes that it has still to empty. Taints of others are left as they are."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def put(self, nodes: Iterable[str], roll_id: str) -> None:
        """Put the taint on these nodes. It is only a preference: where it cannot be put, the roll goes on without."""
        mine = {"key": names.ROLL_TAINT, "value": roll_id, "effect": "PreferNoSchedule"}
        for name in sorted(nodes):
            try:
                self._change(name, lambda taints: [*taints, mine])
            except KubeError:
                return

    def remove_old(self, but: Iterable[str]) -> None:
        """Remove the taint of a roll whose record was deleted. If that fails it stays, and the roll continues."""
        try:
            nodes, _version = self._client.list(f"{names.CORE}/nodes")
            taints = {node["metadata"]["name"]: (node.get("spec") or {}).get("taints") or [] for node in nodes}
            old = {
                name for name, found in taints.items() if any(taint.get("key") == names.ROLL_TAINT for taint in found)
            }
            self.remove(old - {*but})
        except KubeError:
            return

    def remove(self, nodes: Iterable[str]) -> None:
        """Remove the taint from these nodes. Raises KubeError: one that stays would turn VMs away for good."""
        for name in sorted(nodes):
            self._change(name, lambda taints: taints)

    def _change(self, name: str, change: Callable[[list[Obj]], list[Obj]]) -> None:
        """Write with the resourceVersion that was read, so one of two writers wins. `change`: gets others' taints."""
        for left in reversed(range(_TRIES)):
            node = self._client.find(names.node(name))
            if node is None:
                return
            taints = (node.get("spec") or {}).get("taints") or []
            wanted = change([taint for taint in taints if taint.get("key") != names.ROLL_TAINT])
            if wanted == taints:
                return
            version = {"resourceVersion": node["metadata"]["resourceVersion"]}
            try:
                self._client.merge(names.node(name), {"metadata": version, "spec": {"taints": wanted}})
            except KubeError as exc:
                if exc.code != 409 or not left:
                    raise
            else:
                return


__all__ = ["RollTaint"]
