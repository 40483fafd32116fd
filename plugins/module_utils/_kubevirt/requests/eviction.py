"""Evicting a pod, and what KubeVirt's webhook means by its answers.

Every refusal of the webhook is 429 without a reason; its text distinguishes them. 429 "Eviction
triggered evacuation" is not a failure: it says that the migration has begun.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Any

from ..._core.reasons.reason import Finding, Reason
from ..api.client import Client
from ..api.errors import AccessDenied, KubeError
from ..objects import facts, names

Obj = dict[str, Any]


class Answer(str, Enum):
    """The answer of the API to an eviction."""

    ACCEPTED = "accepted"  # the pod is being ended
    MARKED = "marked"  # the VMI was marked: KubeVirt migrates it, or its owner is told
    IN_PROGRESS = "in_progress"  # it was marked before
    NOT_MIGRATABLE = "not_migratable"
    TARGET_POD = "target_pod"
    HOTPLUG = "hotplug"
    BUDGET = "budget"
    GONE = "gone"
    LATER = "later"
    REFUSED = "refused"


def evict(client: Client, pod: Obj, dry: bool = False, grace: int | None = None) -> tuple[Answer, Finding | None]:
    """Ask once. `dry`: on the server; marks nothing. `grace`: seconds, None: the pod's own.

    Raises AccessDenied; every other refusal is an answer.
    """
    namespace, name = facts.key(pod)
    body: Obj = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    options: Obj = {"preconditions": {"uid": pod["metadata"]["uid"]}}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    body["deleteOptions"] = options
    query = {"dryRun": "All"} if dry else None
    later = None if dry else asked_to_wait(client, whose(pod))
    if later is not None:
        return Answer.LATER, later
    try:
        client.request("POST", f"{names.pod(namespace, name)}/eviction", body, query, retry=False)
    except AccessDenied:
        raise
    except KubeError as exc:
        answer, finding = classify(exc)
        if finding is not None and exc.retry_after and not dry:
            until = time.time() + exc.retry_after
            client.later[whose(pod)] = [until, finding.reason.value, finding.message]
        return answer, finding
    return Answer.ACCEPTED, None


def whose(pod: Obj) -> str:
    """The UID of the instance that a launcher pod belongs to; else the pod's own."""
    return facts.labels(pod).get(names.CREATED_BY) or str(pod["metadata"]["uid"])


def asked_to_wait(client: Client, uid: str) -> Finding | None:
    """The server's last answer, if it said not to ask again before a time that is not over."""
    until, reason, text = client.later.get(uid, (0.0, "", ""))
    return Finding(Reason(reason), text) if time.time() < until else None


def classify(exc: KubeError) -> tuple[Answer, Finding | None]:
    """An answer that is not 2xx, by its status and text."""
    text = exc.message
    if exc.code == 429:
        return _refusal(exc)
    if exc.admission:  # whatever the status
        return Answer.REFUSED, Finding(Reason.AdmissionRefused, f"{exc.code}: {text}")
    if exc.code == 404:
        return Answer.GONE, None
    if exc.ends_with_namespace:
        return Answer.LATER, Finding(Reason.PodStillTerminating, text)
    if exc.behind:
        return Answer.LATER, Finding(Reason.WebhookUnavailable, text)
    if exc.code == 500 and "more than one PodDisruptionBudget" in text:
        return Answer.BUDGET, Finding(Reason.DisruptionBudget, text)
    return Answer.REFUSED, Finding(Reason.APIError, str(exc))


def explain_budget(client: Client, pod: Obj, finding: Finding) -> Finding:
    """ "Still being processed" looks transient; the budget's own condition tells whether it is."""
    if "still being processed" not in finding.message:
        return finding
    try:
        budgets, _version = client.list(names.budgets(pod["metadata"]["namespace"]))
    except KubeError:
        return finding
    for budget in budgets:
        state = facts.condition(budget, "DisruptionAllowed") or {}
        if state.get("reason") == "SyncFailed" and (f" {budget['metadata']['name']} " in finding.message):
            text = f"{finding.message} {state.get('message', '')}".strip()
            return Finding(Reason.DisruptionBudgetNotComputed, text)
    return finding


def _refusal(exc: KubeError) -> tuple[Answer, Finding | None]:
    text = exc.message
    if "Evacuation in progress" in text:
        return Answer.IN_PROGRESS, None
    if "Eviction triggered evacuation" in text:
        return Answer.MARKED, None
    if "not live-migratable" in text:
        return Answer.NOT_MIGRATABLE, Finding(Reason.MigratableNotKnown, text)
    if "Eviction request for target Pod" in text:
        return Answer.TARGET_POD, Finding(Reason.InboundMigration, text)
    if "cannot evict hotplug pod" in text:
        return Answer.HOTPLUG, None
    causes = [cause for cause in exc.causes if cause.startswith("DisruptionBudget")]
    if causes:
        return Answer.BUDGET, Finding(Reason.DisruptionBudget, "; ".join(causes))
    others = exc.admission and "kubevirt.io" not in text  # KubeVirt's own has said it above
    return Answer.LATER, Finding(Reason.AdmissionRefused if others else Reason.APIError, text)


def failure(exc: KubeError) -> Finding:
    """A refusal in the core's words."""
    if isinstance(exc, AccessDenied):
        return Finding(Reason.Forbidden, str(exc))
    if "NodeDrainTaintKey" in exc.message:
        return Finding(Reason.DrainTaint, exc.message)
    return classify(exc)[1] or Finding(Reason.APIError, str(exc))
