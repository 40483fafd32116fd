"""A roll beside its cluster: which nodes there are, and which of them are out. For the steps of the roll itself; a
drain reads the record alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.recovery.nodes import told
from ..._core.roll.owner import RollRefused
from ..._core.roll.record import OWN_DRAIN, Fleet
from ..._core.roll.terms import MOVE_BACK
from ..api.client import Client
from ..api.cluster import no_targets, read_cluster
from ..api.errors import KubeError
from ..objects import facts, names
from ..objects.nodes import cordoned, not_ready, runs_vms, takes_vms
from .lease_notes import left_behind
from .roll import RollLease

Obj = dict[str, Any]


class RollOfCluster(RollLease):
    """Implements roll.record.RollStore. Raises KubeError, RecordError."""

    def fleet(self) -> Fleet:
        """Nodes that run VMs, or would if they worked."""
        nodes, _version = self._client.list(f"{names.CORE}/nodes")
        found: dict[str, str] = {}
        busy, silent = set(), set()
        fleet = [node for node in nodes if runs_vms(node)]
        for node in fleet:
            name = node["metadata"]["name"]
            if names.RECORD in facts.annotations(node):
                busy.add(name)
            why = _out(node)
            if why:
                found[name] = why
                silent |= set() if cordoned(node) else {name}
        labels = {node["metadata"]["name"]: facts.labels(node) for node in fleet}
        there = frozenset(node["metadata"]["name"] for node in nodes)
        left = self._left_behind(nodes)
        return Fleet([*labels], found, frozenset(busy), labels, there, left, silent=frozenset(silent))

    def _left_behind(self, nodes: list[Obj]) -> dict[str, str]:
        """Node -> a sentence on its recovery, or on what a drain before its deletion left. It is only reported: without
        the right to list Leases the second is missing."""
        by_name = {node["metadata"]["name"]: facts.annotations(node) for node in nodes}
        died = {name: told(notes, names.RECOVERY, name) for name, notes in by_name.items() if names.RECOVERY in notes}
        try:
            leases, _version = self._client.list(self._path)
        except KubeError:
            return died
        ours = [lease for lease in leases if lease["metadata"]["name"].startswith(names.LEASE)]
        return {**left_behind(ours, nodes, self._client), **died}


def _out(node: Obj) -> str:
    """Why the node takes no VMs; '': it does."""
    if not_ready(node):
        return "not Ready"
    if cordoned(node):
        by_run = names.RECORD in facts.annotations(node)
        return OWN_DRAIN if by_run else "cordoned by others"
    return "" if takes_vms(node) else f"its label {names.SCHEDULABLE} is not true"


def boot_id(client: Client, node: str) -> str:
    """The node's boot id, as its kubelet last reported it. Raises KubeError."""
    found = client.get(names.node(node))
    return str((facts.status(found).get("nodeInfo") or {}).get("bootID") or "")


def check_targets(client: Client, params: Mapping[str, Any]) -> None:
    """Before a roll after which VMs go back: can they be sent to where they were? Raises RollRefused, KubeError."""
    if params["state"] != "begun" or not params["options"].get(MOVE_BACK):
        return
    cannot = no_targets(read_cluster(client))
    if cannot:
        raise RollRefused(f"{cannot}, so {MOVE_BACK} is not possible. Leave it out. Nothing was changed.")
