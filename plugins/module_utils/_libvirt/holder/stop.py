"""Guests are asked to stop in the holder: by its agent the call returns when the guest is off.

That takes as long as the guest wants, up to a minute, and all that time it occupies one of the
workers of libvirtd. So few guests are asked by their agents at a time; whoever finds no place is
asked by ACPI, at once, and by its agent when it is asked again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..domain.xml import agent_connected
from ..host.connection import LibvirtProblem, libvirt
from .links import Links
from .order import OrderError

# libvirtd has 20 workers, and the migrations need one each.
AGENTS, CALLS = 6, 4
# libvirt first waits 5 s for an agent that does not answer; then the guest was not asked. Its error
# comes later than that where the host is busy: a guest that was never asked counted as asked.
AGENT_ANSWERS = 15.0


@dataclass
class Request:
    """The last request for one guest. `agent_since`: monotonic seconds, while its agent is asked.

    `agent_failed`: the next one goes by ACPI.
    """

    busy: bool = True
    sent: bool = False
    error: str = ""
    agent_since: float | None = None
    agent_failed: bool = False

    def has_it(self, now: float) -> bool:
        """Has the guest got it?"""
        by_agent = self.agent_since is not None and now - self.agent_since > AGENT_ANSWERS
        return self.sent or by_agent


class Stops:
    """`publish(event)`: called from any thread with what subscribers shall hear."""

    def __init__(self, links: Links, publish: Callable[[dict[str, Any]], None], log: Callable[[str], None]) -> None:
        self._links = links
        self._publish = publish
        self._log = log
        self._lock = threading.Lock()
        self._agents = threading.BoundedSemaphore(AGENTS)
        self._calls = threading.BoundedSemaphore(CALLS)
        self._requests: dict[str, Request] = {}

    @property
    def idle(self) -> bool:
        with self._lock:
            return not any(request.busy for request in self._requests.values())

    def order(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Ask a guest to stop; the error of an earlier request is forgotten. Raises OrderError."""
        uuid, name = raw.get("uuid"), raw.get("name")
        if not isinstance(uuid, str) or not isinstance(name, str):
            raise OrderError(f"a shutdown order names uuid and name, not {uuid!r} and {name!r}")
        with self._lock:
            before = self._requests.get(uuid)
            if before is not None and before.busy:
                return {"result": "held"}
            request = self._requests[uuid] = Request()
        by_agent = before is None or not before.agent_failed
        # Not a daemon of the process: what was accepted is also begun.
        threading.Thread(target=self._ask, args=(uuid, name, request, by_agent), name=f"stop-{uuid}").start()
        return {"result": "accepted"}

    def status(self) -> dict[str, dict[str, Any]]:
        """UUID -> `sent`: the guest has got a request; `error`: why the last one failed."""
        now = time.monotonic()
        with self._lock:
            return {
                uuid: {"sent": request.has_it(now), "error": request.error} for uuid, request in self._requests.items()
            }

    def _ask(self, uuid: str, name: str, request: Request, by_agent: bool) -> None:
        error = ""
        try:
            self._call(uuid, name, request, by_agent)
        except (libvirt.libvirtError, LibvirtProblem) as exc:
            error = str(exc) or type(exc).__name__
        except Exception as exc:  # noqa: BLE001 - an error of ours must not leave it unheard
            error = f"the migration agent failed: {type(exc).__name__}: {exc}"
        if error:
            self._log(f"shutdown {name}: {error}")
        with self._lock:
            request.error, request.busy = error, False

    def _call(self, uuid: str, name: str, request: Request, by_agent: bool) -> None:
        local = self._links.local()
        try:
            with self._calls:
                dom = local.conn.lookupByUUIDString(uuid)
                if not dom.isActive():
                    return
                by_agent = by_agent and agent_connected(dom.XMLDesc(0))
            if by_agent and self._agents.acquire(blocking=False):
                try:
                    answered = self._by_agent(name, dom, request)
                finally:
                    self._agents.release()
                if answered:
                    self._publish({"event": "over", "job": {"uuid": uuid, "name": name}, "outcome": {}})
                    return
            with self._calls:
                dom.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN)
            self._log(f"shutdown {name}: by ACPI")
            request.sent = True
        finally:
            local.close()

    def _by_agent(self, name: str, dom: Any, request: Request) -> bool:
        """False: its agent does not answer after all.

        An agent that took the request and whose guest does not go off is no ground to ask by
        ACPI now: a minute later the stop may not be wanted any more. Who wants it asks again.
        """
        self._log(f"shutdown {name}: by its agent")
        request.agent_since = time.monotonic()
        try:
            dom.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_GUEST_AGENT)
        except libvirt.libvirtError:
            request.agent_failed = True
            if request.has_it(time.monotonic()):
                request.sent = True
                raise
            return False
        finally:
            request.agent_since = None
        request.sent = True
        return True
