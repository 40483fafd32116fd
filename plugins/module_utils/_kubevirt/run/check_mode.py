"""Say what a run would do now: check mode with predicted times, and the node's info."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..._core.model.policy import Limits, MigrationSettings, Policy
from ..._core.model.record import Intent
from ..._core.plan.schedule import add_times, predict_times
from ..._core.plan.speeds import KUBEVIRT, speeds_of
from ..._core.reasons.reason import Platform
from ..._core.roll.owner import check_host
from ..._core.run.report import record_row
from ..._core.run.rows import accounted
from ..._playbook import lives
from ..api.cluster import Cluster
from ..objects import facts
from ..objects.migration_policy import defaults
from ..objects.nodes import takes_vms
from ..objects.quotas import amount
from ..observe.control_node import refuse_own_node
from ..records.roll import RollLease, system_clock
from .dry_run import dry_run_evictions
from .platform import KubeVirtPlatform
from .work import Request, check_now, connect

_ALL = 10**6
MIB = 2**20


def plan(request: Request, known: Mapping[str, Any]) -> dict[str, Any]:
    """Decide what a run would do now. Only reads, and evicts as a dry run on the server.

    Gives the module's result as work.check_now does; for a drain with the server's answers, and with the times and
    totals of add_times. `known`: the option `speeds`. Raises what run_slice raises, and PolicyError.
    """
    speeds = speeds_of(known, KUBEVIRT)
    platform = connect(request)
    try:
        if request.intent is Intent.DRAINED:
            refuse_own_node(platform.client, request.node)
        store = RollLease(platform.client, request.lock_namespace)
        drains = request.intent is Intent.DRAINED
        beside: list[str] = []
        of_roll = check_host(
            store, request.node, request.roll_run, system_clock(), request.begun, drains, beside.append
        )
        request = replace(request, of_roll=of_roll)
        found, seen = check_now(platform, request, lambda: _as_kubevirt(platform, request.policy))
        if beside:
            found["warnings"] = [*beside, *found.get("warnings", ())]
        if drains:
            found = dry_run_evictions(platform.client, platform.observer, found)
        if not drains or platform.observer.cluster is None:
            return found
        policy = _as_kubevirt(platform, request.policy)
        times = predict_times(seen.decision, seen.obs, policy, known, speeds)
        return {**found, **add_times(found["vms"], *times)}
    finally:
        platform.close()


def _as_kubevirt(platform: KubeVirtPlatform, policy: Policy) -> Policy:
    """The policy with the limits and settings with which KubeVirt migrates; as it is where these are not known."""
    cluster = platform.observer.cluster
    if cluster is None:
        return policy
    return replace(policy, limits=limits(policy, cluster), migration=settings(cluster))


def limits(policy: Policy, cluster: Cluster) -> Limits:
    """KubeVirt's limits, and the drain's own if that is narrower.

    With 0 in KubeVirt's object none moves, which `waiting` reports; times are predicted as with 1.
    """
    outbound = min(policy.limits.outbound, max(1, cluster.outbound))
    return Limits(max(1, cluster.cluster), outbound, _ALL)


def settings(cluster: Cluster) -> MigrationSettings:
    """How KubeVirt migrates by its own object. MigrationPolicies of single VMs are left aside."""
    given = {**defaults(cluster.version), **cluster.migrations}
    post_copy = bool(given["allowPostCopy"])
    return MigrationSettings(
        bandwidth_mib=int(amount(given["bandwidthPerMigration"]) / MIB),
        auto_converge=bool(given["allowAutoConverge"]),
        post_copy=post_copy,
        completion_timeout_per_gib=int(given["completionTimeoutPerGiB"]),
        progress_timeout=int(given["progressTimeout"]),
        max_downtime_ms=int(given.get("maxDowntimeMs") or 0),
        on_timeout="post_copy" if post_copy else "abort",
    )


def read_node(request: Request) -> dict[str, Any]:
    """The node, KubeVirt's settings, its VMs, and what a drain would do. Only reads."""
    platform = connect(request, machines=True)
    try:
        planned, seen = check_now(platform, request)
        obs = seen.obs
        node, cluster = platform.observer.own() or {"metadata": {}}, platform.observer.cluster
        return {
            "node": request.node,
            "boot_id": platform.boot_id,
            "ready": obs.nodes[request.node].reachable,
            "cordoned": obs.nodes[request.node].cordoned,
            "cordoned_by_us": bool(obs.nodes[request.node].our_cordon),
            "schedulable": takes_vms(node),
            "heartbeat": facts.annotations(node).get("kubevirt.io/heartbeat", ""),
            "target_exists": platform.observer.another_node(),
            "inbound": [claim.owner for claim in obs.inbound],
            "kubevirt": {
                "version": ".".join(str(part) for part in cluster.version),
                "default_strategy": cluster.default_strategy,
                "parallel_migrations_per_cluster": cluster.cluster,
                "parallel_outbound_migrations_per_node": cluster.outbound,
                "upgrading": cluster.upgrading,
            }
            if cluster
            else {},
            **accounted(planned["vms"]),
            "pods": planned["pods"],
            "findings": planned["findings"],
            "documents": [dict(vm.document) for vm in obs.vms.values()],
            "record": record_row(seen.old, Platform.KUBEVIRT, lives.has_ended),
            "changed": False,
            **platform.observer.rates.result_fields,
        }
    finally:
        platform.close()
