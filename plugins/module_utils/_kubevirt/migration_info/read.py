"""Read what `waiting.causes` judges: of one VM, of a namespace, or of a node. Only reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..._core.model.policy import PolicyError
from ..api.client import Client
from ..api.cluster import Cluster, read_cluster
from ..api.errors import AccessDenied, KubeError, NodeUnknown
from ..api.failures import VMNotHere
from ..objects import facts, migration_policy, names
from ..observe.migration_policies import MigrationPolicies
from ..requests import migration_api
from ..waiting.causes import Known
from ..waiting.slots import Holder, last_end, with_sources
from .result import row

Obj = dict[str, Any]
T = TypeVar("T")
_CHUNK = 80  # VM names in one selector
_VMIMS = "virtualmachineinstancemigrations"
_VMIS = "virtualmachineinstances"


@dataclass(frozen=True)
class InfoRequest:
    """`name` (with its namespace), or a namespace, or a node."""

    auth: Mapping[str, Any]
    name: str = ""
    namespace: str = ""
    node: str = ""


def waiting(request: InfoRequest, wall: Callable[[], float] = time.time) -> dict[str, Any]:
    """Raises PolicyError, KubeError (AccessDenied), VMNotHere, NodeUnknown, ConfigError,
    KubernetesMissing."""
    if not (request.name or request.namespace or request.node):
        raise PolicyError("name, namespace or node must be given, and none of them may be empty")
    client = Client(request.auth)
    try:
        return _Reading(client, request, wall()).run()
    finally:
        client.close()


class _Reading:
    def __init__(self, client: Client, request: InfoRequest, now: float) -> None:
        self._client = client
        self._request = request
        self._now = now
        self._not_read: dict[str, None] = {}  # in order, each once
        self._holders: list[Holder] | None = None
        self._asked_holders = False
        self._freed = 0.0
        self._policies = MigrationPolicies(client)
        self._quotas: dict[str, list[Obj]] = {}

    def run(self) -> dict[str, Any]:
        cluster = read_cluster(self._client)
        rows = []
        for vmi, migrations in self._chosen():
            known = self._known(cluster, vmi, migrations)
            if self._request.name or known.current is not None or facts.mark(vmi):
                rows.append(row(known))
        rows.sort(key=lambda r: (not r["findings"], r["name"]))
        return {"migrations": rows, "not_read": list(self._not_read), "changed": False}

    # Which

    def _chosen(self) -> list[tuple[Obj, list[Obj]]]:
        request = self._request
        if request.name:
            vmis = [self._one()]
        elif request.node:
            vmis = self._of_node()
        else:
            path = names.kubevirt(request.namespace, _VMIS)
            vmis, _version = self._client.list(path)
        found = self._migrations(vmis)
        return [(vmi, found.get(facts.key(vmi), [])) for vmi in vmis if not facts.final(vmi)]

    def _one(self) -> Obj:
        request = self._request
        vmi = self._client.find(names.kubevirt(request.namespace, _VMIS, request.name))
        if vmi is not None and not facts.final(vmi):
            return vmi
        vm = self._client.find(names.kubevirt(request.namespace, "virtualmachines", request.name))
        if vm is None and vmi is None:
            raise VMNotHere(
                f"There is no VM {request.name} in namespace {request.namespace}. "
                "See kubectl get vm,vmi --all-namespaces."
            )
        shown = facts.status(vm).get("printableStatus") if vm else facts.phase(vmi or {})
        raise VMNotHere(
            f"VM {request.namespace}/{request.name} does not run ({shown or 'no instance'}), "
            "so no migration of it can be under way."
        )

    def _of_node(self) -> list[Obj]:
        """Read the VMIs that run on the node or are on their way to it. Raises NodeUnknown, KubeError."""
        node = self._request.node
        if self._client.find(names.node(node)) is None:
            raise NodeUnknown(f"There is no node {node} in this cluster. See kubectl get nodes.")
        found: dict[str, Obj] = {}
        for label in (names.NODE_NAME, "kubevirt.io/migrationTargetNodeName"):
            items, _version = self._client.list(f"{names.KUBEVIRT}/{_VMIS}", f"{label}={node}")
            found.update({vmi["metadata"]["uid"]: vmi for vmi in items})
        return list(found.values())

    def _migrations(self, vmis: Iterable[Obj]) -> dict[tuple[str, str], list[Obj]]:
        """Read the migrations of these VMs, oldest first."""
        vms = {facts.key(vmi)[1] for vmi in vmis}
        short = sorted(name for name in vms if len(name) <= 63)
        space = self._request.namespace
        path = names.kubevirt(space, _VMIMS) if space else f"{names.KUBEVIRT}/{_VMIMS}"
        items: list[Obj] = []
        if len(short) < len(vms):  # no label value for a longer name
            items, _version = self._client.list(path)
        else:
            for begin in range(0, len(short), _CHUNK):
                chunk = ", ".join(short[begin : begin + _CHUNK])
                items += self._client.list(path, f"{names.VMI_NAME} in ({chunk})")[0]
        items.sort(key=lambda m: (m["metadata"]["creationTimestamp"], m["metadata"]["name"]))
        found: dict[tuple[str, str], list[Obj]] = {}
        for migration in items:
            key = (migration["metadata"]["namespace"], str(migration["spec"].get("vmiName")))
            found.setdefault(key, []).append(migration)
        return found

    # What about each

    def _known(self, cluster: Cluster, vmi: Obj, migrations: list[Obj]) -> Known:
        known = Known(vmi, migrations, self._now, cluster)
        current = known.current
        if current is None and not facts.mark(vmi):
            return known
        namespace, uid = vmi["metadata"]["namespace"], vmi["metadata"]["uid"]
        pods = self._try(
            lambda: self._client.list(f"{names.CORE}/namespaces/{namespace}/pods", f"{names.CREATED_BY}={uid}")[0], []
        )
        open_ = current is not None and not facts.final(current)
        target = Known(vmi, migrations, self._now, cluster, pods).target
        events = [e for obj in (current, vmi, target) if obj for e in self._events(obj)]
        policy = self._try(lambda: self._policies.of(vmi), None) if open_ else None
        slots = self._slots() if open_ and target is None else None
        node = facts.status(vmi).get("nodeName")
        return Known(
            vmi,
            migrations,
            self._now,
            cluster,
            pods,
            events,
            self._quota(namespace) if current is not None and self._rejected(current) else [],
            [holder for holder in slots or [] if holder.source == node],
            slots,
            migration_policy.settings(cluster.migrations, policy, cluster.version),
            policy["metadata"]["name"] if policy else "",
            freed=self._freed,
        )

    def _try(self, what: Callable[[], T], otherwise: T) -> T:
        """Read, or give `otherwise` where that is not allowed, which is noted in `not_read`, or where this KubeVirt
        does not have it. Raises KubeError."""
        try:
            return what()
        except AccessDenied as exc:
            self._not_read[str(exc)] = None
        except KubeError as exc:
            if exc.code != 404:  # 404: this KubeVirt does not have it
                raise
        return otherwise

    def _events(self, obj: Obj) -> list[Obj]:
        return self._try(lambda: migration_api.read_events(self._client, obj), [])

    @staticmethod
    def _rejected(migration: Obj) -> bool:
        return facts.is_true(migration, "migrationRejectedByResourceQuota")

    def _quota(self, namespace: str) -> list[Obj]:
        if namespace not in self._quotas:
            path = f"{names.CORE}/namespaces/{namespace}/resourcequotas"
            self._quotas[namespace] = self._try(lambda: self._client.list(path)[0], [])
        return self._quotas[namespace]

    def _slots(self) -> list[Holder] | None:
        """All migrations of the cluster that hold a slot. Read once."""
        if not self._asked_holders:
            self._asked_holders = True
            path = f"{names.KUBEVIRT}/{_VMIMS}"
            items = self._try(lambda: self._client.list(path)[0], None)
            self._holders = None if items is None else with_sources(items, self._vmi, self._now)
            self._freed = last_end(items or [])
        return self._holders

    def _vmi(self, namespace: str, name: str) -> Obj | None:
        path = names.kubevirt(namespace, _VMIS, name)
        return self._try(lambda: self._client.find(path), None)
