"""Watch the objects of one node for the length of a slice."""

from __future__ import annotations

import threading
from typing import Any

from ..objects import facts, names
from ..objects.nodes import not_ready
from .cache import Cache
from .client import Client

Obj = dict[str, Any]
_CHUNK = 80  # VM names in one selector


class Watches:
    """The node (not watched), its pods, its VMIs, and the migrations of the VMs of the run.

    The pods are read when they are first asked for, and always when no VMI is left on the node:
    while VMs migrate, their migrations tell.
    """

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._changed = threading.Event()
        fields = f"metadata.name={node}"
        self.nodes = Cache(client, f"{names.CORE}/nodes", self._changed.set, fields=fields)
        self.pods = Cache(client, f"{names.CORE}/pods", self._changed.set, fields=f"spec.nodeName={node}")
        self.vmis = Cache(
            client, f"{names.KUBEVIRT}/virtualmachineinstances", self._changed.set, labels=f"{names.NODE_NAME}={node}"
        )
        self._migrations: list[Cache] = []
        self._watched: set[str] = set()  # VM names whose migrations are watched
        self.started = False

    def close(self) -> None:
        for cache in (self.nodes, self.pods, self.vmis, *self._migrations):
            cache.stop()

    def wait(self, seconds: float) -> bool:
        """Wait until something changes, or for that time. Did something change?"""
        return self._changed.wait(seconds)

    def wake(self) -> None:
        """Something changed that is watched elsewhere."""
        self._changed.set()

    def clear(self) -> None:
        """Forget earlier changes: only what comes from now on ends a wait."""
        self._changed.clear()

    def ready(self, fresh: bool) -> None:
        """List when first called, then watch. `fresh`: list again. Raises KubeError."""
        if fresh or any(not_ready(node) for node in self.nodes.items() or [{}]):
            # Not watched: its heartbeats would wake us, and each write of the record shows it anew.
            self.nodes.refresh()
        if fresh and self.pods.started:
            self.pods.refresh()
        if not self.vmis.started:
            self.vmis.start()
        elif fresh:
            self.vmis.refresh()
        if not self._active():
            self.need_pods()
        self.started = True

    def need_pods(self) -> list[Obj]:
        """The pods of the node. Raises KubeError."""
        if not self.pods.started:
            self.pods.start()
        return self.pods.items()

    def launchers(self) -> list[Obj]:
        """Live launcher pods of the node, if its pods are read by now."""
        return facts.live_launchers(self.pods.items())

    def follow(self, wanted: set[str], fresh: bool) -> None:
        """Watch the migrations of these VMs too. Raises KubeError."""
        missing = sorted(name for name in wanted - self._watched if len(name) <= 63)
        if fresh:
            for cache in self._migrations:
                cache.refresh()
        for begin in range(0, len(missing), _CHUNK):
            chunk = missing[begin : begin + _CHUNK]
            cache = Cache(
                self._client,
                f"{names.KUBEVIRT}/virtualmachineinstancemigrations",
                self._changed.set,
                labels=f"{names.VMI_NAME} in ({', '.join(chunk)})",
            )
            self._migrations.append(cache)
            cache.start()
            self._watched.update(chunk)

    def migrations(self) -> list[Obj]:
        """Oldest first."""
        found = {m["metadata"]["uid"]: m for cache in self._migrations for m in cache.items()}
        return sorted(found.values(), key=lambda m: m["metadata"]["creationTimestamp"])

    def migrations_of(self, namespace: str, name: str) -> list[Obj]:
        """All migrations of a VM that the API still knows, oldest first."""
        return [
            m for m in self.migrations() if m["metadata"]["namespace"] == namespace and m["spec"].get("vmiName") == name
        ]

    def put_migration(self, obj: Obj) -> None:
        """Take over a migration as the answer to a write of ours has it."""
        for cache in self._migrations:
            cache.put(obj)

    def own(self) -> Obj | None:
        """The Node; None when there is none."""
        found = self.nodes.items()
        return found[0] if found else None

    def busy(self) -> bool:
        """Is anything of a VM still on the node, as far as the watches know?"""
        return self._active() or bool(facts.live_launchers(self.need_pods()))

    def _active(self) -> bool:
        return any(not facts.final(v) for v in self.vmis.items())
