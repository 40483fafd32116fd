"""The result of kubevirt_migration_info for one VM. Pure."""

from __future__ import annotations

from typing import Any

from ..._core.reasons.reason import Finding, Reason
from ..migration.result import finding_of
from ..objects import facts, migration_policy
from ..objects.requesters import asked_by, two_loops
from ..waiting.causes import LIMITS, MIGRATION, Found, Known, named, not_begun, not_known, waits
from ..waiting.slots import source_of

Obj = dict[str, Any]


def findings(known: Known) -> list[dict[str, str]]:
    """All that stands in the way, the first one first. Empty: it moves, or nothing is asked."""
    found = [*_migration(known), *_forecast(known)]
    return [
        {
            "where": where,
            "code": row["reason"],
            "plane": row["plane"],
            "subject": subject,
            "sentence": row["message"],
            "remedy": row["remedy"],
        }
        for where, finding, subject in found
        for row in [finding_of(finding)]
    ]


def _migration(known: Known) -> Found:
    vmi, current = known.vmi, known.current
    me = f"VM {named(vmi)}"
    found: Found = []
    able, why = facts.migratable(vmi)
    wanted = facts.mark(vmi) or (current is not None and not facts.final(current))
    if wanted and able is False:
        found += [(MIGRATION, finding, me) for finding in why]
    if wanted and able is None:
        found.append((MIGRATION, not_known(vmi), me))
    if current is None or facts.final(current):
        return found + _none_under_way(known, current, me)
    subject = f"migration {named(current)}"
    if facts.switched(vmi, current):
        found.append((MIGRATION, _stays(vmi, current), subject))
    elif facts.deleted(current):
        found.append((MIGRATION, _aborting(current), subject))
    else:
        twice = two_loops(vmi, current)
        found += [*waits(known), *([(MIGRATION, twice, subject)] if twice else [])]
    return found


def _none_under_way(known: Known, last: Obj | None, me: str) -> Found:
    found: Found = []
    mark = facts.mark(known.vmi)
    if mark:
        external = "Its strategy is External: KubeVirt leaves moving it to the VM's owner."
        why = external if known.strategy == "External" else ""
        asked, version = facts.request(known.vmi).get("at"), known.cluster.version if known.cluster else (0, 0)
        late = bool(asked) and known.now - facts.seconds(str(asked)) >= facts.FOLLOWS
        followed = not late or facts.mark_followed(known.vmi, version)
        found.append((MIGRATION, not_begun(known.vmi, why, followed=followed), me))
    if last is not None and facts.phase(last) == "Failed":
        event = known.event_message("FailedMigration")
        failed = facts.why_failed(known.vmi, last, event)
        found.append((MIGRATION, failed, f"migration {named(last)}"))
    return found


def _stays(vmi: Obj, migration: Obj) -> Finding:
    state = facts.state_of(vmi, migration)
    text = (
        f"The VM runs on {state.get('targetNode')} since {state.get('endTimestamp')}; "
        f"the object is still {facts.phase(migration)}"
    )
    kept = facts.what_keeps_it(vmi)
    return Finding(
        Reason.MigrationObjectStays, text + (f" because of {kept}." if kept else ": virt-controller lags behind.")
    )


def _aborting(migration: Obj) -> Finding:
    phase, since = facts.phase(migration), migration["metadata"]["deletionTimestamp"]
    text = f"It is being aborted (deleted {since}), phase {phase}."
    if phase in ("PreparingTarget", "TargetReady"):
        text += " KubeVirt aborts it only once the target is ready."
    return Finding(Reason.AbortRequested, text)


def _forecast(known: Known) -> Found:
    open_ = known.current is not None and not facts.final(known.current)
    if not open_ or not known.settings:
        return []
    form = migration_policy.result_form(known.settings, known.policy)
    found = migration_policy.foreseen(known.vmi, form, None)
    subject = f"MigrationPolicy {known.policy}" if known.policy else "KubeVirt's configuration"
    return [(LIMITS, found, subject)] if found else []


def row(known: Known) -> dict[str, Any]:
    """One VM in result form."""
    vmi, current = known.vmi, known.current
    state = facts.state_of(vmi, current) if current is not None else {}
    pod = known.target
    node = str(facts.status(vmi).get("nodeName") or "")
    on = (pod.get("spec") or {}).get("nodeName") if pod is not None else ""
    return {
        "name": named(vmi),
        "uuid": facts.identity(vmi),
        "node": node,
        "strategy": known.strategy,
        "marked": facts.mark(vmi),
        "migration": current["metadata"]["name"] if current is not None else "",
        "phase": (facts.phase(current) or "Pending") if current is not None else "",
        "seconds_in_phase": max(0.0, round(known.now - facts.seconds(facts.entered(current)), 1)) if current else 0.0,
        "source": source_of(vmi, current) if current is not None else node,
        "target": str(state.get("targetNode") or on or ""),
        "target_pod": pod["metadata"]["name"] if pod is not None else "",
        "mode": str(state.get("mode") or ""),
        "requested_by": asked_by(vmi, current) if current is not None else "",
        "policy": known.policy,
        "findings": findings(known),
    }
