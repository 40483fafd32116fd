"""A whole simulated cluster: start it, put nodes and VMs into it, look at its log."""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from . import certs, templates, validation, words
from .access import ADMIN_TOKEN, AUTHENTICATED, READ
from .attaching import AttachDetachController
from .budgets import BudgetController, QuotaController
from .clock import Clock
from .evacuation import EvacuationController
from .garbage import GarbageCollector
from .handler import Handler
from .kinds import BY_PLURAL, KUBEVIRTS, NAMESPACES, NODES, PODS, VMIMS, VMIS, VMS, Kind
from .metrics import PREFIX
from .migrations import MigrationController
from .nodelife import NodeLifecycle
from .nodes import NodeAgent
from .patience import patience
from .replicasets import ReplicaSetController
from .scheduler import Scheduler
from .server import Call, Server
from .store import Obj
from .vms import VMController, VMIController
from .world import World

T = TypeVar("T")
PATIENCE = 120.0  # seconds
# What of it can be held up.
VIRT_CONTROLLER = frozenset({"vm", "vmi", "migration", "evacuation"})


class Kubesim:
    """A cluster on a thread of its own. Use as a context manager.

    `scale`: how many times faster than real time things happen in it; 0: only in `advance`,
    and while `until` waits, as fast as they can be worked out. `version`: KubeVirt's.
    `port` 0: one that is free. It speaks HTTPS, with a CA of its own, unless `tls` is false.
    """

    def __init__(self, scale: float = 1.0, version: tuple[int, int] = (1, 10), port: int = 0, tls: bool = True) -> None:
        self.world = World(Clock(scale), version)
        self.server: Server | None = None
        self.port = port
        self.certificates = certs.make() if tls else None
        self._trust = self.certificates.client_context() if self.certificates else None
        self._listener: asyncio.Server | None = None
        self._protocols: list[asyncio.BaseProtocol] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kubesim", daemon=True)
        self._ready = threading.Event()
        self._trouble: Exception | None = None

    def __enter__(self) -> Kubesim:
        self._thread.start()
        # A busy machine is slow; what goes wrong is told at once.
        if not self._ready.wait(PATIENCE) or self._trouble is not None:
            raise RuntimeError("the simulator did not start") from self._trouble
        return self

    def __exit__(self, *_exc: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise RuntimeError("the simulator did not end")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            runner = self._loop.run_until_complete(self._start())
        except Exception as exc:  # it is raised where the simulator is started
            self._trouble = exc
            return
        finally:
            self._ready.set()
        self._loop.run_forever()
        if self.server is not None:
            self.server.end()
        self._loop.run_until_complete(self._stop(runner))
        self._loop.close()

    async def _stop(self, runner: web.AppRunner) -> None:
        if self._listener is not None:
            self._listener.close()
        await runner.cleanup()
        # Connections that the client has left need the loop once more to be closed.
        for transport in list(self._transports):
            transport.abort()
        # Those that are still shaking hands have no handler yet (Python 3.13 knows them).
        if hasattr(self._listener, "abort_clients"):
            self._listener.abort_clients()
        # Closed, not only told to: what the loop leaves behind speaks up in some later test.
        for _turn in range(500):
            await asyncio.sleep(0.01)
            if not self._transports:  # a handler lets go of its own as it is lost
                break
        await asyncio.sleep(0.02)

    async def _start(self) -> web.AppRunner:
        self.server = Server(self.world)
        self.world.bind(self._loop)
        self.server.access.rules[AUTHENTICATED] = READ
        for part in (VMController, ReplicaSetController, VMIController, EvacuationController, MigrationController):
            part(self.world)
        for part in (NodeLifecycle, BudgetController, QuotaController, GarbageCollector, AttachDetachController):
            part(self.world)
        for agent in (Scheduler, NodeAgent, Handler):
            agent(self.world)
        for name in ("default", "kube-system", "kubevirt"):
            self._namespace(name)
        self.world.store.create(
            KUBEVIRTS,
            {
                "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
                "spec": {"configuration": {}},
                "status": {
                    "phase": "Deployed",
                    "observedKubeVirtVersion": "v{}.{}.0".format(*self.world.version),
                    "observedDeploymentID": "1",
                    "targetDeploymentID": "1",
                },
            },
        )
        runner = web.AppRunner(self.server.app(), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        secure = self.certificates.server_context() if self.certificates else None
        make = runner.server
        if make is None:
            raise RuntimeError("the server was not set up")

        def protocol() -> asyncio.BaseProtocol:
            handler = make()
            living = [one for one in self._protocols if getattr(one, "transport", None)]
            self._protocols = [*living, handler]
            return handler

        self._listener = await self._loop.create_server(protocol, "127.0.0.1", self.port, ssl=secure)
        self.port = self._listener.sockets[0].getsockname()[1]
        return runner

    @property
    def _transports(self) -> list[asyncio.Transport]:
        found = (getattr(protocol, "transport", None) for protocol in self._protocols)
        return [transport for transport in found if transport is not None]

    # For the one who tests

    def restart(self, away: float, blank: float = 1.0) -> None:
        """The API server goes and comes; real seconds. What its controllers do goes on."""

        def go() -> None:
            self.api.faults.restart(away, blank)
            for transport in self._transports:
                transport.abort()

        self.call(go)

    def virt_controller(self, runs: bool) -> None:
        """It is away, or it is back and looks at everything. The guests' nodes go on without it."""

        def go() -> None:
            if not runs:
                self.world.paused |= VIRT_CONTROLLER
                return
            self.world.paused -= VIRT_CONTROLLER
            seen = {"kubevirt.io/latest-observed-api-version": "v1"}  # each of its writes wakes the others
            for vmi in list(self.world.store.all(VMIS)):
                meta = vmi["metadata"]
                self.world.store.change(
                    VMIS,
                    meta["namespace"],
                    meta["name"],
                    lambda o: o["metadata"].setdefault("annotations", {}).update(seen),
                )

        self.call(go)

    @property
    def api(self) -> Server:
        if self.server is None:
            raise RuntimeError("not started")
        return self.server

    @property
    def url(self) -> str:
        return f"{'https' if self.certificates else 'http'}://127.0.0.1:{self.port}"

    @property
    def metrics_url(self) -> str:
        """Of the Prometheus that collects its metrics."""
        return f"{self.url}/{PREFIX}"

    @property
    def trust(self) -> ssl.SSLContext | None:
        """For a client of the standard library."""
        return self._trust

    @property
    def log(self) -> list[Call]:
        return list(self.api.log)

    def kubeconfig(self, path: Path, token: str = ADMIN_TOKEN) -> Path:
        """Write a kubeconfig for this cluster."""
        ca = self.certificates.ca if self.certificates else ""
        config = templates.kubeconfig(self.url, token, ca)
        path.write_text(json.dumps(config), encoding="utf-8")
        return path

    def call(self, what: Callable[[], T]) -> T:
        """Do it on the cluster's own thread."""
        return self.world.do(what)

    def until(self, what: Callable[[], Any], seconds: float | None = None) -> Any:
        """Wait until `what`, asked on the cluster's thread, is true.

        `seconds` are real ones; simulated ones, 20, where the clock stands still and is moved on
        here.
        """
        stands, clock = self.world.clock.stands, self.world.clock
        if seconds is None:
            seconds = 20.0 if stands else patience()
        end = (clock.at if stands else time.monotonic()) + seconds
        while True:
            found = self.call(what)
            if found:
                return found
            if (clock.at if stands else time.monotonic()) > end:
                raise TimeoutError(f"not so after {seconds} s; broken: {self.world.broken[:3]}")
            if stands:
                self.advance(0.05)
            else:
                time.sleep(0.01)

    def advance(self, seconds: float) -> None:
        """Let so much simulated time pass, where the clock stands still (scale 0)."""
        self.call(lambda: self.world.advance(self.world.clock.at + seconds))

    def let_pass(self, seconds: float) -> None:
        """Wait until so much simulated time has gone by on the cluster's own thread."""
        clock = self.world.clock
        end = clock.now() + seconds
        self.until(lambda: clock.now() >= end)

    def add(self, plural: str, obj: Obj) -> Obj:
        """As the API takes it, but that its status stays. A namespace that is missing is made."""
        kind = BY_PLURAL[plural]
        obj = {"apiVersion": kind.api_version, "kind": kind.kind, **copy.deepcopy(obj)}
        return self.call(lambda: self._add(kind, obj))

    def _add(self, kind: Kind, obj: Obj) -> Obj:
        namespace = obj["metadata"].get("namespace") or "default"
        if kind.namespaced:
            self._namespace(namespace)
        found = validation.decode(kind, obj, "Strict")[1]
        validation.place(self.world.store, kind, obj, namespace)
        validation.check(kind, obj, found)
        return self.world.store.create(kind, obj)

    def _namespace(self, name: str) -> None:
        if self.world.store.find(NAMESPACES, "", name) is None:
            labels = {"kubernetes.io/metadata.name": name}
            meta = {"name": name, "labels": labels}
            self.world.store.create(NAMESPACES, {"metadata": meta, "status": {"phase": "Active"}})

    def find(self, kind: Kind, name: str, namespace: str = "default") -> Obj | None:
        space = namespace if kind.namespaced else ""
        return self.call(lambda: self.world.store.find(kind, space, name))

    def all(self, kind: Kind) -> list[Obj]:
        return self.call(lambda: list(self.world.store.all(kind)))

    def edit(self, kind: Kind, name: str, what: Callable[[Obj], Any], namespace: str = "") -> Obj:
        def change(obj: Obj) -> None:
            before = copy.deepcopy(obj)
            what(obj)
            validation.changed(kind, before, obj)

        return self.call(lambda: self.world.store.change(kind, namespace, name, change))

    def configure(self, **configuration: Any) -> None:
        """spec.configuration of the KubeVirt object."""
        self.edit(KUBEVIRTS, "kubevirt", lambda o: o["spec"]["configuration"].update(configuration), "kubevirt")

    def add_node(self, name: str, **labels: str) -> None:
        self.add("nodes", templates.node(name, self.world.clock.stamp(), **labels))

    def add_vm(
        self,
        name: str,
        node: str,
        *,  # a given cluster takes the same words
        strategy: str | None = "LiveMigrate",
        run_strategy: str = "Always",
        namespace: str = "default",
        memory: str = "128Mi",
        wait: bool = True,
        labels: dict[str, str] | None = None,
        grace: int = 30,
        pool: str = "",
        start: bool = True,
        **knobs: str,
    ) -> None:
        """A VM that prefers `node` at its start; without `run_strategy` a bare instance.

        `knobs`: migrate_seconds="5" and so on. `pool`: it stays on nodes with this label.
        """
        obj = templates.vm(name, node, strategy, run_strategy, namespace, memory, labels, grace, pool, **knobs)
        if run_strategy == "Manual" and start:
            obj["status"] = {"stateChangeRequests": [{"action": "Start"}]}
        self.add("virtualmachines" if run_strategy else "virtualmachineinstances", obj)
        if wait:
            self.until(lambda: self.running(name, namespace))

    def running(self, name: str, namespace: str = "default") -> bool:
        """Only on the cluster's thread."""
        vmi = self.world.store.find(VMIS, namespace, name)
        return vmi is not None and words.phase(vmi) == "Running"

    def node_of(self, name: str, namespace: str = "default") -> str:
        """Where the VM runs; empty: nowhere."""
        vmi = self.find(VMIS, name, namespace)
        if vmi is None or words.phase(vmi) != "Running":
            return ""
        return str(vmi["status"].get("nodeName", ""))

    def leftovers(self) -> list[str]:
        """Marks, migrations that have not ended, and taints of a roll."""
        return words.leftovers(self.all(VMIS), self.all(VMIMS), self.all(NODES))

    def requests(self, method: str = "", part: str = "") -> list[Call]:
        """From the log: by method, and by what the path contains."""
        return [c for c in self.log if method in ("", c.method) and part in c.path]


__all__ = ["NODES", "PODS", "VMIMS", "VMIS", "VMS", "Kubesim"]
