# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode of a drain: what `service.plan` tells, with the times that are foreseen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._core.decide import decide
from .._core.engine import begin
from .._core.plan_rows import add_times, foresee
from .._core.plan_speeds import KUBEVIRT, speeds_of
from .._core.policy import Limits, MigrationSettings, Policy
from .._core.record import Intent
from .client import Client
from .cluster import Cluster
from .migration_policy import DEFAULTS
from .preflight_limits import amount
from .service import Request, _plan, _platform

_ALL = 10**6
MIB = 2**20


def plan(request: Request, known: Mapping[str, Any]) -> dict[str, Any]:
    """`known`: the option `speeds`. Only reads. Raises what run_slice raises, and PolicyError."""
    speeds = speeds_of(known, KUBEVIRT)
    platform = _platform(Client(request.auth), request)
    try:
        found, (_old, obs) = _plan(platform, request)
        cluster = platform.observer.cluster
        if request.intent is not Intent.DRAINED or cluster is None:
            return found
        record = begin(None, request.node, request.intent.value, request.run_id, obs.now, "")
        policy = replace(
            request.policy,
            limits=limits(request.policy, cluster),
            migration=settings(cluster),
        )
        unlimited = replace(policy, limits=Limits(_ALL, _ALL, _ALL))
        decision = decide(obs, {request.node: record}, unlimited)
        return {**found, **add_times(found["vms"], *foresee(decision, obs, policy, known, speeds))}
    finally:
        platform.close()


def limits(policy: Policy, cluster: Cluster) -> Limits:
    """KubeVirt's, and the drain's own if that is narrower. 0 in KubeVirt's object: none moves."""
    outbound = min(policy.limits.outbound, max(1, cluster.outbound))
    return Limits(max(1, cluster.cluster), outbound, _ALL)


def settings(cluster: Cluster) -> MigrationSettings:
    """How KubeVirt migrates by its own object. MigrationPolicies of single VMs are left aside."""
    given = {**DEFAULTS, **cluster.migrations}
    post_copy = bool(given["allowPostCopy"])
    return MigrationSettings(
        bandwidth_mib=int(amount(given["bandwidthPerMigration"]) / MIB),
        auto_converge=bool(given["allowAutoConverge"]),
        post_copy=post_copy,
        completion_timeout_per_gib=int(given["completionTimeoutPerGiB"]),
        progress_timeout=int(given["progressTimeout"]),
        on_timeout="post_copy" if post_copy else "abort",
    )
