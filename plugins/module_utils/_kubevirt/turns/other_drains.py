"""Which other nodes are drained by us at this moment, and how many VMs are left there.

It is stored on their Leases. Nothing depends on it: who may not read them drains as if he were alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..api.cache import Cache
from ..api.client import Client
from ..api.errors import AccessDenied, KubeError
from ..objects.facts import annotations
from ..objects.names import leases
from ..records.lease import DRAINS, WAITING, Lock

# Seconds more than it lasts until a Lease that does not change is one of a drain that died.
_MARGIN = 10.0


class OtherDrains:
    """Read when it is first asked, then watched until `close`.

    `changed`: called when what the others tell is another thing. `now`: a clock that goes on
    from slice to slice; `seen`, of which versions were first seen when, is handed on with it.
    """

    def __init__(self, client: Client, lock: Lock, changed: Callable[[], None], now: Callable[[], float]) -> None:
        self._client = client
        self._lock = lock
        self._changed = changed
        self._now = now
        self._leases: Cache | None = None
        self._last: dict[str, int | None] = {}
        self._alone = False
        self.seen: dict[str, list[Any]] = {}

    def close(self) -> None:
        if self._leases is not None:
            self._leases.stop()

    def vms_left(self) -> dict[str, int | None] | None:
        """Name of the Lease -> VMs that have no slot yet, None where it was not told.

        None: they cannot be read at this moment.
        """
        if self._alone:
            return {}
        try:
            self._last = self._read()
        except AccessDenied:
            self._alone = True
            return {}
        except KubeError:
            self.close()
            self._leases = None
            return None
        return self._last

    def _read(self) -> dict[str, int | None]:
        if self._leases is None:
            path = leases(self._lock.namespace)
            self._leases = Cache(self._client, path, self._watch_changed, labels=DRAINS)
            self._leases.start()
        found = self._leases.items()
        return {lease["metadata"]["name"]: _vms_left(lease) for lease in found if self._counts(lease)}

    def _counts(self, lease: dict[str, Any]) -> bool:
        meta, spec = lease["metadata"], lease.get("spec") or {}
        if meta["name"] == self._lock.name or not spec.get("holderIdentity"):
            return False
        first = self.seen.get(meta["name"])
        if first is None or first[0] != meta["resourceVersion"]:
            self.seen[meta["name"]] = first = [meta["resourceVersion"], self._now()]
        lasts = float(spec.get("leaseDurationSeconds") or 0) + _MARGIN
        return self._now() - float(first[1]) <= lasts

    def _watch_changed(self) -> None:
        """On the watching thread: their renewals wake nobody."""
        try:
            if self._leases is not None and self._read() != self._last:
                self._changed()
        except KubeError:
            self._changed()

    @property
    def has_readers(self) -> bool:
        """Is anybody there to read what we tell, or has been?"""
        return bool(self._lock.reported or self._last)

    def report(self, left: int) -> None:
        """How many are left here."""
        try:
            self._lock.report(left)
        except KubeError:
            return  # at the next change


def _vms_left(lease: dict[str, Any]) -> int | None:
    text = annotations(lease).get(WAITING, "")
    return int(text) if text.isdigit() else None
