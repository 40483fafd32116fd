"""Check mode: each eviction that is planned is tried out by the server, which marks nothing.

So what only the server knows is told before anything is done: its webhook does not answer, a
budget is in the way, a right is missing.
"""

from __future__ import annotations

from typing import Any

from ..._core.decision.actions import Do
from ..._core.reasons.reason import Finding, Platform, Reason
from ..api.client import Client
from ..api.cluster import can_cancel
from ..api.errors import AccessDenied
from ..objects import facts
from ..observe.observe import Observer
from ..requests.eviction import Answer, evict, explain_budget
from ..requests.rights import missing_for_a_drain

Obj = dict[str, Any]
_WELL = frozenset({Answer.ACCEPTED, Answer.MARKED, Answer.IN_PROGRESS, Answer.GONE})
_MIGRATED = frozenset({"LiveMigrate", "LiveMigrateIfPossible"})


def dry_run_evictions(client: Client, observer: Observer, plan: dict[str, Any]) -> dict[str, Any]:
    """Evict, as a dry run, each VM that `plan` would evict, and give `plan` with the answers written into it.

    `plan`: the module's result, as work.check_now gives it. A row of `vms` whose eviction was refused gets `reason`,
    `message`, `remedy` and `plane`; a right that a drain would miss, now or at its end, is one of `findings`.
    """
    missing = missing_for_a_drain(client, observer.watches.vmis.items())
    if missing:
        plan["findings"].append(Finding(Reason.Forbidden, missing).to_dict(Platform.KUBEVIRT))
    rows = {row["name"]: row for row in plan["vms"]}
    vmis = {facts.identity(vmi): vmi for vmi in observer.watches.vmis.items()}
    pods = observer.watches.pods.items()
    for act in plan["planned"]:
        row = rows.get(act["vm"])
        vmi = vmis.get(row["uuid"]) if row is not None else None
        if row is None or vmi is None or not _evicted(act["do"], vmi, observer):
            continue
        pod = facts.launcher_of(vmi, pods)
        if pod is None:
            continue
        try:
            finding = _ask(client, pod)
        except AccessDenied as exc:
            if not missing:
                plan["findings"].append(Finding(Reason.Forbidden, str(exc)).to_dict(Platform.KUBEVIRT))
            break
        if finding is not None:
            row.update(finding.to_dict(Platform.KUBEVIRT))
    return plan


def _evicted(act: str, vmi: Obj, observer: Observer) -> bool:
    """Would the drain evict for this act? Else it makes a migration, or deletes the instance."""
    cluster = observer.cluster
    default = cluster.default_strategy if cluster else "None"
    strategy = str(vmi["spec"].get("evictionStrategy") or default)
    if act == Do.MIGRATE.value:
        return strategy in _MIGRATED and can_cancel(cluster)
    stops = strategy == "None" or not facts.is_true(vmi, "LiveMigratable")
    return act == Do.SHUTDOWN.value and strategy != "LiveMigrate" and stops


def _ask(client: Client, pod: Obj) -> Finding | None:
    answer, finding = evict(client, pod, dry=True)
    if answer in _WELL or finding is None:
        return None
    return explain_budget(client, pod, finding)
