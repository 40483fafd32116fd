"""Which settings KubeVirt migrates a VM with: its own, and those of the MigrationPolicy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..api.client import Client
from ..api.cluster import Cluster
from ..api.errors import KubeError
from ..objects import facts, migration_policy, names
from ..records.node_record import Instance

Obj = dict[str, Any]


class MigrationPolicies:
    """Reads each policy and namespace once. Raises KubeError, the same one again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._policies: list[Obj] | None = None
        self._namespaces: dict[str, dict[str, str]] = {}
        self._failed: KubeError | None = None

    def of(self, vmi: Obj) -> Obj | None:
        """The policy that applies to it; None when none does."""
        if self._failed is not None:
            raise self._failed
        try:
            return self._applying(vmi)
        except KubeError as exc:
            self._failed = exc
            raise

    def _applying(self, vmi: Obj) -> Obj | None:
        if self._policies is None:
            self._policies = self._client.list(migration_policy.POLICIES)[0]
        if not self._policies:
            return None
        return migration_policy.applying(vmi, self._labels(facts.key(vmi)[0]), self._policies)

    def _labels(self, namespace: str) -> dict[str, str]:
        if namespace not in self._namespaces:
            found = self._client.find(f"{names.CORE}/namespaces/{namespace}")
            self._namespaces[namespace] = facts.labels(found) if found else {}
        return self._namespaces[namespace]


def note_settings(
    policies: MigrationPolicies,
    vmis: Iterable[Obj],
    known: dict[str, Instance],
    cluster: Cluster,
    writes: Callable[[Obj], float | None],
) -> None:
    """Put it with each VM that has not been told yet. It is stored in the record, so once a run.

    KubeVirt takes the policy as it hands a migration over, so what it took then replaces that. `writes`: MiB in a
    second, None: not known.
    """
    for vmi in vmis:
        found = known.get(facts.identity(vmi))
        if found is None:
            continue
        taken = migration_policy.taken(vmi, cluster.version)
        if taken is not None:
            gates = {gate: True for gate in migration_policy.GATES if cluster.migrations.get(gate)}
            form = migration_policy.result_form({**taken[0], **gates}, taken[1])
            found.settings = migration_policy.with_forecast(vmi, form, writes(vmi))
        if found.settings:
            continue
        try:
            policy = policies.of(vmi)
        except KubeError as exc:
            if exc.code != 404:  # 404: this KubeVirt does not have policies
                return  # not known; a drain does not end for that
            policy = None
        applies = migration_policy.settings(cluster.migrations, policy, cluster.version)
        name = policy["metadata"]["name"] if policy else ""
        form = migration_policy.result_form(applies, name)
        found.settings = migration_policy.with_forecast(vmi, form, writes(vmi))
