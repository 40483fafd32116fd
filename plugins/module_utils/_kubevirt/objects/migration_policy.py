"""Which MigrationPolicy applies to a VM, and what it makes of KubeVirt's settings. Pure.

As virt-controller decides: all listed labels must be there, the policy with the most wins, then
the one with more labels of the VM, then the first name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..._core.reasons.reason import Finding, Reason
from . import facts
from .quantity import mib

Obj = dict[str, Any]
MIB = 2**20
NEARLY = 0.9  # of what it may use: who writes so much does not come to an end
_QEMU_PAUSE_MS = 300
_LONGEST_NAME = 63
_PASSING = ("kubevirt.io/", "virtops.maintenance/")  # labels that a VM has while it is here or moves
POLICIES = "/apis/migrations.kubevirt.io/v1alpha1/migrationpolicies"
# KubeVirt's own in every version.
_DEFAULTS: dict[str, Any] = {
    "progressTimeout": 150,
    "bandwidthPerMigration": "0Mi",
    "allowPostCopy": False,
    "allowAutoConverge": False,
}
_SETS = (
    "allowAutoConverge",
    "bandwidthPerMigration",
    "completionTimeoutPerGiB",
    "maxDowntimeMs",
    "allowPostCopy",
    "allowWorkloadDisruption",
)
# Feature gates, both alpha. With the first (1.9) KubeVirt goes by the passes over the memory, and not by its two
# time-outs; with the other (1.10) it raises the pause step by step up to maxDowntimeMs.
STALL_DETECTION, DOWNTIME_TUNING = GATES = ("MigrationStallDetection", "MigrationDowntimeTuning")


def applying(vmi: Obj, namespace: Mapping[str, str], policies: Sequence[Obj]) -> Obj | None:
    """`namespace`: labels of the VM's namespace."""
    best: tuple[tuple[int, int], str, Obj] | None = None
    for policy in policies:
        score = _score(vmi, namespace, policy)
        name = policy["metadata"]["name"]
        if score is None:
            continue
        if best is None or score > best[0] or (score == best[0] and name < best[1]):
            best = (score, name, policy)
    return best[2] if best is not None else None


def _score(vmi: Obj, namespace: Mapping[str, str], policy: Obj) -> tuple[int, int] | None:
    """(labels in all, labels of the VM); None when it does not match."""
    selectors = (policy.get("spec") or {}).get("selectors")
    if selectors is None:
        return None
    of_vm = selectors.get("virtualMachineInstanceSelector") or {}
    of_namespace = selectors.get("namespaceSelector") or {}
    mine = facts.labels(vmi)
    if any(mine.get(k) != v for k, v in of_vm.items()):
        return None
    if any(namespace.get(k) != v for k, v in of_namespace.items()):
        return None
    return len(of_vm) + len(of_namespace), len(of_vm)


def taken(vmi: Obj, version: tuple[int, int]) -> tuple[dict[str, Any], str] | None:
    """(the settings of the migration that is under way, the name of its MigrationPolicy, which may be empty); None:
    none is under way, or they are not known yet."""
    state = facts.status(vmi).get("migrationState") or {}
    found = state.get("migrationConfiguration")
    if not found or state.get("endTimestamp"):
        return None
    return settings(found, None, version), str(state.get("migrationPolicyName") or "")


def foreseen(vmi: Obj, form: Mapping[str, Any], writes: float | None) -> Finding | None:
    """Return why a migration with these settings is not going to end well; None: nothing speaks against
    it, or nobody limits the bandwidth, and what the link carries is not known.

    `form`: see `result_form`. `writes`: MiB in a second, as the metrics tell it.
    """
    speed, per_gib, memory = form["bandwidth_mib_s"], form["completion_timeout_per_gib"], facts.memory_mib(vmi)
    stalls = form["on_timeout"] == "stall_detection"
    if not speed or not per_gib or not memory or not (stalls or form["on_timeout"] == "abort"):
        return None
    # KubeVirt counts whole gigabytes, at least one.
    gib = max(1, -(-memory * MIB // 10**9))
    allowed, needed = float(per_gib * gib), memory / speed
    ends = f"KubeVirt aborts after {allowed:.0f} s."
    if stalls:
        ends = "KubeVirt's stall detection decides when it ends."
    if needed > allowed and not stalls:
        helps = policy_that_helps(vmi, form, completionTimeoutPerGiB=math.ceil(2 * needed / gib))
        text = f"{memory} MiB of memory at {speed} MiB/s take {needed:.0f} s; {ends}"
        return Finding(Reason.CompletionTimeout, f"{text} {helps}")
    pause = (writes or 0.0) / speed
    most = (form["max_downtime_ms"] or _QEMU_PAUSE_MS) / 1000
    if form["allow_auto_converge"] or pause < NEARLY or pause <= most:
        return None
    helps = policy_that_helps(vmi, form, allowAutoConverge=True)
    text = f"It writes {writes:.0f} MiB/s, and a migration may use {speed} MiB/s: it would pause for {pause:.1f} s,"
    how = ", to which KubeVirt raises it step by step" if form.get("downtime_tuning") else ""
    return Finding(Reason.NotConverging, f"{text} {most:.1f} s are allowed{how}. {ends} {helps}")


def policy_that_helps(vmi: Obj, form: Mapping[str, Any], **sets: Any) -> str:
    """A sentence with a MigrationPolicy, ready to apply. One policy alone applies to a VM: so it has what the one of
    now has, and all labels of the VM, which no other one outdoes."""
    labels = {key: value for key, value in facts.labels(vmi).items() if not key.startswith(_PASSING)}
    if not labels:
        return "It has no labels: a MigrationPolicy for it needs one."
    now = {
        "allowAutoConverge": form["allow_auto_converge"],
        "bandwidthPerMigration": f"{form['bandwidth_mib_s']}Mi",
        "completionTimeoutPerGiB": form["completion_timeout_per_gib"],
        "allowPostCopy": form["allow_post_copy"],
    }
    made = {
        "apiVersion": "migrations.kubevirt.io/v1alpha1",
        "kind": "MigrationPolicy",
        "metadata": {"name": "-".join((*facts.key(vmi), "migrates"))[:_LONGEST_NAME]},
        "spec": {**now, **sets, "selectors": {"virtualMachineInstanceSelector": labels}},
    }
    return f"This helps: kubectl apply -f - <<< '{json.dumps(made)}'"


def defaults(version: tuple[int, int]) -> dict[str, Any]:
    """KubeVirt's own where its object is silent. (0, 0), a version that is not known, is taken for a new one, but for
    maxDowntimeMs: that is left out. Before 1.9 KubeVirt sets none, and QEMU's own applies."""
    found = {**_DEFAULTS, "completionTimeoutPerGiB": 800 if (0, 0) < version < (1, 4) else 150}
    if version != (0, 0):
        found["maxDowntimeMs"] = 900 if version >= (1, 9) else 0
    return found


def with_forecast(vmi: Obj, form: Mapping[str, Any], writes: float | None) -> dict[str, Any]:
    """`form`: see `result_form`. `writes`: MiB in a second, None: not known."""
    found = foreseen(vmi, form, writes)
    return {**form, "warning": found.message if found else ""}


def result_form(applies: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """Result form of what applies to one VM."""
    return {
        "policy": policy,
        "allow_post_copy": bool(applies["allowPostCopy"]),
        "allow_auto_converge": bool(applies["allowAutoConverge"]),
        "completion_timeout_per_gib": int(applies["completionTimeoutPerGiB"]),
        "progress_timeout": int(applies["progressTimeout"]),
        "bandwidth_mib_s": mib(applies["bandwidthPerMigration"]),
        "max_downtime_ms": applies.get("maxDowntimeMs"),
        "on_timeout": _on_timeout(applies),
        "downtime_tuning": bool(applies.get(DOWNTIME_TUNING)),
        "tls": not applies.get("disableTLS"),
        "warning": "",
    }


def _on_timeout(applies: Mapping[str, Any]) -> str:
    """allowWorkloadDisruption is, where nobody sets it, what allowPostCopy is."""
    if applies.get(STALL_DETECTION):
        return "stall_detection"
    disrupts = applies.get("allowWorkloadDisruption")
    if not (applies["allowPostCopy"] if disrupts is None else disrupts):
        return "abort"
    return "post_copy" if applies["allowPostCopy"] else "pause"


def settings(configured: Mapping[str, Any], policy: Obj | None, version: tuple[int, int]) -> dict[str, Any]:
    """The migration settings that apply, by KubeVirt's own names: the policy's, else KubeVirt's, else the defaults of
    its version."""
    found = {**defaults(version), **configured}
    spec = (policy or {}).get("spec") or {}
    found.update({key: spec[key] for key in _SETS if spec.get(key) is not None})
    return found
