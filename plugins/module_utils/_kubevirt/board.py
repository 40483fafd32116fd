# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which other nodes are drained by us at this moment, and how many VMs wait there: their Leases.

Nothing depends on it: who cannot read it drains as if he were alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cache import Cache
from .client import Client
from .errors import KubeError
from .facts import annotations
from .lock import DRAINS, WAITING, Lock
from .names import LEASES


class Board:
    """Read when it is first asked, then watched until `close`. `changed`: called at each change."""

    def __init__(self, client: Client, lock: Lock, changed: Callable[[], None]) -> None:
        self._lock = lock
        path = f"{LEASES}/namespaces/{lock.namespace}/leases"
        self._leases = Cache(client, path, changed, labels=DRAINS)

    def close(self) -> None:
        self._leases.stop()

    def others(self) -> dict[str, int | None]:
        """Name of the Lease -> VMs that have no slot yet; None where it was not told."""
        try:
            if not self._leases.started:
                self._leases.start()
            leases = self._leases.items()
        except KubeError:
            return {}
        return {
            lease["metadata"]["name"]: _waiting(lease)
            for lease in leases
            if lease["metadata"]["name"] != self._lock.name
            and (lease.get("spec") or {}).get("holderIdentity")
        }

    def tell(self, waiting: int) -> None:
        """How many wait here, if anybody else is there to read it."""
        if not self._leases.started or not self.others():
            return
        try:
            self._lock.tell(waiting)
        except KubeError:
            return  # at the next change


def _waiting(lease: dict[str, Any]) -> int | None:
    text = annotations(lease).get(WAITING, "")
    return int(text) if text.isdigit() else None
