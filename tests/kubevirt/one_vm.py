"""Who asks for one VM's migration or abort, and what somebody else may do to that VM."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.migration import run_migration
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.migration.model import (
    MigrationRequest,
    WantedState,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import facts
from kubesim import Kubesim
from kubesim.kinds import NODES, VMIMS, VMIS
from kubesim.patience import patience
from kubesim.reading import take_slots

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class One:
    """Asks for one VM's migration, as the module does."""

    def __init__(self, sim: Kubesim, auth: dict[str, Any]) -> None:
        self.sim = sim
        self.auth = auth
        self.runs = 0

    def request(self, want: WantedState, **more: Any) -> MigrationRequest:
        self.runs += 1
        settings = {"backoff": 0.2, "seconds": 4.0, "run_id": f"one-{self.runs}", **more}
        base = {"name": "vm", "namespace": "default", "requester": "me", "reason": "why"}
        return MigrationRequest(auth=self.auth, want=want, **{**base, **settings})

    def run(self, request: MigrationRequest) -> dict[str, Any]:
        """To its end, slice by slice."""
        changed = False
        end = time.monotonic() + patience()
        while True:
            found = run_migration(request)
            changed = changed or found["changed"]
            if found["ended"] == "final":
                return {**found, "changed": changed}
            assert time.monotonic() < end, f"not final: {found}"
            request = replace(request, begun=True)

    def migrate(self, **more: Any) -> dict[str, Any]:
        return self.run(self.request(WantedState.MIGRATED, **more))

    def abort(self, **more: Any) -> dict[str, Any]:
        return self.run(self.request(WantedState.ABORTED, **more))

    def begin(self, phase: str = "", **more: Any) -> MigrationRequest:
        """A migration that is under way, in this phase; the request, to go on with."""
        request = self.request(WantedState.MIGRATED, **{"seconds": 0.2, **more})
        end = time.monotonic() + patience()
        while True:
            run_migration(request)
            # On a busy machine the VM has changed before it is signed, and so short a slice does not try again.
            signed = self.sim.call(lambda request=request: self._signed_by(request))
            request = replace(request, begun=signed)
            if signed and self.sim.call(lambda: set(phases(self.sim)) - {"Succeeded", "Failed"}):
                break
            assert time.monotonic() < end, "no migration began"
        if phase:
            self.sim.until(lambda: phase in phases(self.sim))
        return replace(request, seconds=4.0)

    def _signed_by(self, request: MigrationRequest) -> bool:
        vmi = self.sim.world.store.find(VMIS, request.namespace, request.name)
        return vmi is not None and facts.request(vmi).get("run") == request.run_id


def phases(sim: Kubesim) -> list[str]:
    """Only on the cluster's thread."""
    return [m.get("status", {}).get("phase", "") for m in sim.world.store.all(VMIMS)]


def writes(sim: Kubesim, since: int) -> list[str]:
    return [f"{c.method} {c.path}" for c in sim.log[since:] if c.method in _WRITES]


def vm(result: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = result["vms"][0]
    return row


def mark(sim: Kubesim) -> None:
    """What an eviction of somebody leads to."""
    sim.edit(VMIS, "vm", lambda o: o["status"].update(evacuationNodeName="n1"), "default")


def foreign(sim: Kubesim) -> None:
    """A migration by hand."""
    meta = {"name": "byhand", "namespace": "default", "labels": {"kubevirt.io/vmi-name": "vm"}}
    meta["finalizers"] = ["kubevirt.io/migrationJobFinalize"]
    sim.add("virtualmachineinstancemigrations", {"metadata": meta, "spec": {"vmiName": "vm"}})


def keep_open(sim: Kubesim, kind: str = "MigrationRequired", status: str = "True") -> None:
    """What leaves a migration object Running after the guest has moved."""
    keeps = {"type": kind, "status": status}
    sim.edit(VMIS, "vm", lambda o: o["status"]["conditions"].append(keeps), "default")


def full(sim: Kubesim) -> None:
    take_slots(sim)


def nowhere(sim: Kubesim) -> None:
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["spec"].update(unschedulable=True))
