# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One slice at a time works on a node: a Lease.

It is held for the length of a slice and given back. A holder that died is waited for until its
Lease has not changed for its duration on our own clock: nobody's wall time is believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from .client import Client
from .errors import KubeError, LockHeld
from .names import LEASES

T = TypeVar("T")


class Lock:
    """`holder`: names this slice. `seconds`: how long the slice may take at most."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        node: str,
        holder: str,
        seconds: int,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._path = f"{LEASES}/namespaces/{namespace}/leases"
        self._name = f"virtops-maintenance-{node}"
        self._holder = holder
        self._seconds = seconds
        self._sleep = sleep
        self._clock = clock
        self._held: dict[str, Any] | None = None  # the Lease as our last write left it

    def renew(self, lease: dict[str, Any]) -> bool:
        """Take over the Lease that an earlier slice of this run has left to us.

        False: it is another one by now, so someone else has been at work. Raises KubeError.
        """
        return self._update(lease, True)

    @property
    def held(self) -> dict[str, Any]:
        """The Lease as our last write left it, for the next slice. Empty when there is none."""
        return self._held or {}

    def take(self, patience: float, read: Callable[[], T]) -> T:
        """What `read` gave, which nobody of ours has changed since.

        It is called between looking at the Lease and taking it: who gets it as he saw it knows
        that no one worked in between. Raises LockHeld after `patience` seconds, KubeError, and
        what `read` raises.
        """
        until = self._clock() + patience
        seen, since = "", self._clock()
        while True:
            lease = self._client.find(f"{self._path}/{self._name}")
            if lease is None:
                found = read()
                if self._create():
                    return found
                continue
            spec, version = lease.get("spec") or {}, lease["metadata"]["resourceVersion"]
            if version != seen:
                seen, since = version, self._clock()
            holder = spec.get("holderIdentity") or ""
            expired = self._clock() - since > float(spec.get("leaseDurationSeconds") or 0)
            if not holder or holder == self._holder or expired:
                found = read()
                if self._update(lease, True):
                    return found
            if self._clock() >= until:
                raise LockHeld(f"{holder} works on the node at this moment ({self._name})")
            self._sleep(0.5)

    def give_back(self) -> None:
        """Only what is ours. Failing does no harm: it expires."""
        try:
            if self._held is not None:
                self._update(self._held, False)  # another's version is another: refused
        except KubeError:
            return

    def _spec(self, held: bool) -> dict[str, Any]:
        holder = self._holder if held else ""
        return {"holderIdentity": holder, "leaseDurationSeconds": self._seconds}

    def _create(self) -> bool:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
            "spec": self._spec(True),
        }
        return self._won("POST", self._path, body)

    def _update(self, lease: dict[str, Any], held: bool) -> bool:
        """With the version that was read: of two, one wins."""
        body = {**lease, "spec": {**(lease.get("spec") or {}), **self._spec(held)}}
        return self._won("PUT", f"{self._path}/{self._name}", body)

    def _won(self, method: str, path: str, body: dict[str, Any]) -> bool:
        try:
            self._held = self._client.request(method, path, body)
        except KubeError as exc:
            if exc.code in (404, 409):
                return False
            raise
        return True
