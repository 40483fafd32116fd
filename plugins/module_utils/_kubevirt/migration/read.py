"""Read one VM and its migrations: by watches, and listed anew where it matters."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..._core.reasons.reason import Finding, Reason
from ..api.cache import Cache
from ..api.client import Client
from ..api.cluster import Cluster, can_cancel, no_targets, read_cluster
from ..api.errors import KubeError
from ..api.failures import MigrationRefused, VMNotHere
from ..objects import facts, names, tolerations
from ..objects.nodes import cordoned, why_closed
from ..objects.requesters import two_loops
from ..requests import migration_api
from ..waiting.read import WaitReader
from .model import MigrationRequest, View, WantedState

Obj = dict[str, Any]
Clock = Callable[[], float]


class Reader:
    """Reads one VM and its migrations. Keeps watches for the length of a slice."""

    def __init__(self, client: Client, request: MigrationRequest, mono: Clock, wall: Clock) -> None:
        self._client = client
        self._request = request
        self._mono = mono
        self._wall = wall
        self._changed = threading.Event()
        space, name = request.namespace, request.name
        # Longer names are no label value; the list is then of the whole namespace.
        label = f"{names.VMI_NAME}={name}" if len(name) <= 63 else ""
        self._vmis = Cache(
            client, names.kubevirt(space, "virtualmachineinstances"), self._changed.set, fields=f"metadata.name={name}"
        )
        self._migrations = Cache(
            client, names.kubevirt(space, "virtualmachineinstancemigrations"), self._changed.set, labels=label
        )
        self.cluster: Cluster | None = None
        self._fits: dict[str, bool] = {}
        self._ended: dict[str, float] = {}
        self._switched: float | None = None
        self._events: dict[str, str] = {}
        self._waits = WaitReader(client, space, mono, wall)
        # A request that the server did not take for the moment, and when.
        self.refused: tuple[Finding, float] | None = None

    def wait(self, seconds: float) -> None:
        """Wait until something changes, or for that time."""
        self._changed.wait(seconds)

    def refresh(self) -> None:
        """List now, not at the next event. Raises KubeError."""
        self._vmis.refresh()
        self._migrations.refresh()

    def put(self, vmi: Obj) -> None:
        self._vmis.put(vmi)

    def close(self) -> None:
        self._vmis.stop()
        self._migrations.stop()

    # Reading

    def start(self) -> None:
        """Raises VMNotHere, MigrationRefused, KubeError."""
        self.cluster = read_cluster(self._client)
        self._check_target()
        self._vmis.start()
        self._migrations.start()
        if not self._request.begun:
            self._check_vm()

    def _check_target(self) -> None:
        """Check, before anything is written, that KubeVirt can choose targets, and that the target exists. Raises
        MigrationRefused."""
        request, cannot = self._request, (no_targets(self.cluster) if self.cluster else "")
        if not (request.target or request.selector) or request.want is WantedState.ABORTED:
            return
        if cannot:
            raise MigrationRefused(
                f"{cannot}. Leave target and added_node_selector out, or cordon the nodes that must not get it."
                " Nothing was changed."
            )
        if request.target:
            self._hostname()

    def _hostname(self) -> str:
        """The target's label, which may differ from its name. Raises MigrationRefused."""
        name = self._request.target
        node = self._client.find(names.node(name))
        if node is None:
            raise MigrationRefused(
                f"There is no node {name} in this cluster (target). See kubectl get nodes. Nothing was changed."
            )
        label = facts.labels(node).get(names.HOSTNAME, "")
        if not label:
            raise MigrationRefused(
                f"Node {name} (target) has no label kubernetes.io/hostname, which selects "
                "it. Use added_node_selector with labels that it has."
            )
        return label

    def selector(self) -> dict[str, str]:
        if self._request.target:
            return {names.HOSTNAME: self._hostname()}
        return dict(self._request.selector)

    def _check_vm(self) -> None:
        """Raises VMNotHere."""
        vmi, request = self._vmi(), self._request
        if vmi is not None and request.uid not in ("", facts.identity(vmi)):
            raise VMNotHere(
                f"VM {request.vm} is a different VM now: its UID is {facts.identity(vmi)}, not {request.uid}. "
                "Nothing was changed."
            )
        if vmi is not None and not facts.final(vmi):
            return
        path = names.kubevirt(request.namespace, "virtualmachines", request.name)
        vm = self._client.find(path)
        if vm is None and vmi is None:
            raise VMNotHere(
                f"There is no VM {request.name} in namespace {request.namespace}. "
                "See kubectl get vm,vmi --all-namespaces. Nothing was changed."
            )
        if request.want is WantedState.MIGRATED:
            shown = facts.status(vm).get("printableStatus") if vm else facts.phase(vmi or {})
            raise VMNotHere(
                f"VM {request.vm} does not run ({shown or 'no instance'}): there is nothing to "
                "migrate. Start it first, if it should run. Nothing was changed."
            )

    def _vmi(self) -> Obj | None:
        found = self._vmis.items()
        found.sort(key=lambda v: str(v["metadata"].get("creationTimestamp", "")))
        return dict(found[-1]) if found else None

    def read(self, fresh: bool = False) -> View:
        """The VM and its migrations as they are now. `fresh`: list them; else as the watches have them."""
        self._changed.clear()
        if fresh:
            self.refresh()
        vmi = self._vmi()
        mine = [m for m in self._migrations.items() if self._mine(m)]
        mine.sort(key=lambda m: (m["metadata"]["creationTimestamp"], m["metadata"]["name"]))
        view = View(vmi, tuple(mine), self._wall())
        last = mine[-1] if mine else None
        refused = self.refused
        return replace(
            view,
            refused=refused[0] if refused else None,
            since_refused=self._mono() - refused[1] if refused else 0.0,
            can_cancel=can_cancel(self.cluster),
            fits=self._wanted(view),
            waits=self._waits_for(view),
            event=self._event(last),
            since_ended=self._since_ended(view),
            since_switched=self._since_switched(view),
        )

    def _mine(self, migration: Obj) -> bool:
        return bool(migration["spec"].get("vmiName") == self._request.name)

    def _wanted(self, view: View) -> bool | None:
        request = self._request
        if request.want is WantedState.ABORTED or not (request.target or request.selector):
            return None
        if request.target:
            return view.node == request.target
        if view.node and view.node not in self._fits:
            node = self._client.find(names.node(view.node)) or {"metadata": {}}
            has = facts.labels(node)
            self._fits[view.node] = all(has.get(k) == v for k, v in request.selector.items())
        return self._fits.get(view.node, False)

    def _waits_for(self, view: View) -> Finding | None:
        """Why the migration that is under way does not go on; None: it does, or there is none. Not asked for an
        abort."""
        if view.vmi is None or self._request.want is WantedState.ABORTED:
            return None
        current = view.current
        self._waits.update([current] if current is not None else [])
        if current is None:
            return None
        before = [m for m in view.migrations if facts.final(m)]
        found = self._waits.waits_for(view.vmi, [*before, current], self.cluster)
        return found or two_loops(view.vmi, current)

    def _event(self, migration: Obj | None) -> str:
        """Why it failed: before the hand-off only an event says."""
        if migration is None or facts.phase(migration) != "Failed":
            return ""
        uid = migration["metadata"]["uid"]
        if uid not in self._events:
            self._events[uid] = migration_api.why_failed(self._client, migration)
        return self._events[uid]

    def _since_ended(self, view: View) -> float:
        if view.moving or not view.migrations:
            return 0.0
        uid, now = view.migrations[-1]["metadata"]["uid"], self._mono()
        return now - self._ended.setdefault(uid, now)

    def _since_switched(self, view: View) -> float:
        if view.moving:
            self._switched = None
            return 0.0
        if self._switched is None:
            self._switched = self._mono()
        return self._mono() - self._switched


def target_refuses(client: Client, request: MigrationRequest, vmi: Obj) -> Finding | None:
    """Why the target that was named does not take the VM, as far as the node itself says."""
    if not request.target:
        return None
    node = client.find(names.node(request.target)) or {"metadata": {}}
    taints = tolerations.untolerated(tolerations.hard(node), tolerations.of(vmi))
    if taints:
        taints = tolerations.untolerated(taints, tolerations.of(vmi, _launcher(client, vmi)))
    closed = why_closed(node)
    if not closed and not taints:
        return None
    if cordoned(node):  # the taint says the same
        taints = [t for t in taints if t.get("key") != "node.kubernetes.io/unschedulable"]
    why = closed + [f"it has the taint {tolerations.shown(t)}" for t in taints]
    what = "takes no VMs" if closed else "does not take the VM"
    text = f"Node {request.target} {what}: {'; '.join(why)}."
    return Finding(Reason.TargetUnschedulable, text)


def _launcher(client: Client, vmi: Obj) -> Obj | None:
    """Its pod may tolerate more than the VMI says. One that cannot be read does not."""
    space, uid = vmi["metadata"].get("namespace", ""), vmi["metadata"].get("uid", "")
    try:
        path = f"{names.CORE}/namespaces/{space}/pods"
        pods, _version = client.list(path, f"{names.CREATED_BY}={uid}")
    except KubeError:
        return None
    return facts.launcher_of(vmi, pods)
