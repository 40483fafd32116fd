# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a roll: an annotation on a Lease that stands for the whole cluster.

A write names the version that was read, so of two the API server refuses one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ..._core.model.record import RecordError
from ..._core.recovery.nodes import told
from ..._core.roll.owner import LEASE, RollRefused
from ..._core.roll.planned import left_free
from ..._core.roll.record import MOVE_BACK, OVER, OWN_DRAIN, Clock, Fleet, Roll, State
from ..._playbook.lives import has_ended, heard
from ..api.client import Client
from ..api.cluster import no_targets, read_cluster
from ..api.errors import KubeError
from ..objects import facts, names
from ..objects.nodes import cordoned, not_ready, takes_vms
from .lease_notes import left_behind
from .node_record import pack, unpack
from .roll_taint import RollTaint

Obj = dict[str, Any]


class RollLease:
    """Implements roll.record.RollStore. Raises KubeError, RecordError."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._taint = RollTaint(client)
        self._path = names.leases(namespace)
        self._where = f"annotation {names.ROLL} of the Lease {names.ROLL_LEASE} in {namespace}"

    def read(self) -> tuple[Roll | None, Obj | None]:
        lease = self._client.find(f"{self._path}/{names.ROLL_LEASE}")
        text = "" if lease is None else facts.annotations(lease).get(names.ROLL)
        if not text:
            return None, lease
        try:
            return Roll.from_json(unpack(text)), lease
        except RecordError as exc:
            raise RecordError(f"{exc} ({self._where}). Nothing was changed.") from exc

    def write(self, roll: Roll, seen: Obj | None) -> bool:
        """Nodes that have to be emptied get a taint with it: what was killed in between leaves none too many."""
        before, after = self._left_free(seen), left_free(roll)
        # At the end each node is looked at: a write that was lost may have left one, or a playbook that was aborted
        # while it put them.
        ends = roll.state in OVER or (before and not after)
        self._taint.remove(roll.hosts if ends else before - after)
        written = self._write(roll, seen)
        if written and after and not before:
            self._taint.remove_old(but=after)
        if written:
            self._taint.put(after - before, roll.id)
        return written

    def _left_free(self, seen: Obj | None) -> frozenset[str]:
        text = "" if seen is None else facts.annotations(seen).get(names.ROLL)
        return left_free(Roll.from_json(unpack(text))) if text else frozenset()

    def _write(self, roll: Roll, seen: Obj | None) -> bool:
        body = seen or {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": names.ROLL_LEASE}}
        notes = {**facts.annotations(body), names.ROLL: pack(roll.to_json())}
        lives = roll.state in (State.RUNNING, State.ABORTING)
        spec = {**(body.get("spec") or {}), "holderIdentity": roll.run if lives else ""}
        spec["leaseDurationSeconds"] = int(LEASE)
        meta = {**body["metadata"], "annotations": notes}
        body = {**body, "metadata": meta, "spec": spec}
        # Again while the server is busy: if the first answer was lost, the second is that the Lease was changed, and
        # who reads it then finds what it wanted to write.
        try:
            if seen is None:
                self._client.request("POST", self._path, body)
            else:
                self._client.request("PUT", f"{self._path}/{names.ROLL_LEASE}", body)
        except KubeError as exc:
            if exc.code in (404, 409):
                return False
            raise
        return True

    def fleet(self) -> Fleet:
        """Nodes that run VMs, or would if they worked: the label is there in either case."""
        nodes, _version = self._client.list(f"{names.CORE}/nodes")
        found: dict[str, str] = {}
        busy = set()
        fleet = [node for node in nodes if names.SCHEDULABLE in facts.labels(node)]
        for node in fleet:
            name = node["metadata"]["name"]
            if names.RECORD in facts.annotations(node):
                busy.add(name)
            why = _out(node)
            if why:
                found[name] = why
        labels = {node["metadata"]["name"]: facts.labels(node) for node in fleet}
        there = frozenset(node["metadata"]["name"] for node in nodes)
        return Fleet([*labels], found, frozenset(busy), labels, there, self._left_behind(nodes))

    def _left_behind(self, nodes: list[Obj]) -> dict[str, str]:
        """It is told and decides nothing, so it may be missing."""
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
    """That of the node as its kubelet reported it last. Raises KubeError."""
    found = client.get(names.node(node))
    return str((facts.status(found).get("nodeInfo") or {}).get("bootID") or "")


def check_targets(client: Client, params: Mapping[str, Any]) -> None:
    """Before a roll after which VMs go back: can they be sent to where they were? Raises RollRefused, KubeError."""
    if params["state"] != "begun" or not params["settings"].get(MOVE_BACK):
        return
    cannot = no_targets(read_cluster(client))
    if cannot:
        raise RollRefused(f"{cannot}, so {MOVE_BACK} cannot be. Leave it out. Nothing was changed.")


def system_clock() -> Clock:
    """A clock that all processes of the machine share; and UTC for people. The module may run on
    any controller, and not all of them have CLOCK_BOOTTIME."""
    return Clock(
        time.monotonic, lambda: datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), time.sleep, heard, has_ended
    )
