"""The record of a roll: an annotation on a Lease that stands for the whole cluster.

A write names the version that was read, so of two the API server refuses one.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

from ..._core.model.record import RecordError
from ..._core.roll.owner import LEASE
from ..._core.roll.record import OVER, Clock, Roll, State
from ..._core.roll.stages import left_free
from ..._playbook.lives import has_ended, heard
from ..api.client import Client
from ..api.errors import KubeError
from ..objects import facts, names
from .node_record import pack, unpack
from .roll_taint import RollTaint

Obj = dict[str, Any]


class RollLease:
    """Implements roll.record.RollRecord. Raises KubeError, RecordError."""

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
            if exc.code != 409 and (exc.code != 404 or seen is None):  # a POST is not found where the namespace is not
                raise
            return False
        return True


def system_clock() -> Clock:
    """A clock that all processes of the machine share; and UTC for people. The module may run on
    any controller, and not all of them have CLOCK_BOOTTIME."""
    return Clock(
        time.monotonic, lambda: datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), time.sleep, heard, has_ended
    )
