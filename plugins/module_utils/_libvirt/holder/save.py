"""Saves in the holder: the call returns when all memory is on disk, which takes minutes.

No module waits for that: its slice goes on, other VMs too. libvirtd carries a save on when the
holder dies; then at most the words of an error are lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..host.connection import LibvirtProblem, libvirt
from .links import Links
from .order import OrderError

AT_ONCE = 2  # they share one disk


class Saves:
    """`publish(event)`: called from any thread with what subscribers shall hear."""

    def __init__(self, links: Links, publish: Callable[[dict[str, Any]], None], log: Callable[[str], None]) -> None:
        self._links = links
        self._publish = publish
        self._log = log
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._status: dict[str, str] = {}  # uuid -> "", or why it came to nothing
        self._queued: dict[str, object] = {}  # uuid -> the order that has not begun

    @property
    def idle(self) -> bool:
        with self._lock:
            return all(self._status.values())

    def order(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Take a save order; the error of an earlier one is forgotten. Raises OrderError."""
        uuid, name = raw.get("uuid"), raw.get("name")
        if not isinstance(uuid, str) or not isinstance(name, str):
            raise OrderError(f"a save order names uuid and name, not {uuid!r} and {name!r}")
        with self._lock:
            if self._status.get(uuid) == "":
                return {"result": "held"}
            self._status[uuid] = ""
            ticket = self._queued[uuid] = object()
        self._log(f"save {name} ({uuid})")
        # Not a daemon of the process: what was accepted is also begun, unless it is withdrawn.
        threading.Thread(target=self._save, args=(uuid, name, ticket), name=f"save-{uuid}").start()
        return {"result": "accepted"}

    def withdraw(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """withdrawn; held: it has begun, and goes on; none: there is none."""
        uuid = str(raw.get("uuid"))
        with self._lock:
            if self._queued.pop(uuid, None) is None:
                return {"result": "held" if self._status.get(uuid) == "" else "none"}
            del self._status[uuid]
        self._log(f"save {raw.get('name')} ({uuid}): withdrawn")
        return {"result": "withdrawn"}

    def queued(self) -> list[str]:
        """UUIDs of those that wait for their turn."""
        with self._lock:
            return list(self._queued)

    def status(self) -> dict[str, str]:
        """UUID -> "" while it goes on or waits for its turn; else why the last one failed."""
        with self._lock:
            return dict(self._status)

    def _save(self, uuid: str, name: str, ticket: object) -> None:
        with self._places:
            with self._lock:
                if self._queued.get(uuid) is not ticket:
                    return  # withdrawn, and perhaps ordered again
                del self._queued[uuid]
            error = self._try(uuid)
        self._log(f"saved {name}: {error or 'ok'}")
        with self._lock:
            if error:
                self._status[uuid] = error
            else:
                del self._status[uuid]
        self._publish({"event": "over", "job": {"uuid": uuid, "name": name}, "outcome": {}})

    def _try(self, uuid: str) -> str:
        """Why it came to nothing; empty: it went well."""
        try:
            self._call(uuid)
        except (libvirt.libvirtError, LibvirtProblem) as exc:
            return str(exc) or type(exc).__name__
        except Exception as exc:  # noqa: BLE001 - an error of ours must not leave it unheard
            return f"the migration agent failed: {type(exc).__name__}: {exc}"
        return ""

    def _call(self, uuid: str) -> None:
        local = self._links.local()
        try:
            dom = local.conn.lookupByUUIDString(uuid)
            if dom.isActive():
                dom.managedSave(0)
        finally:
            local.close()
