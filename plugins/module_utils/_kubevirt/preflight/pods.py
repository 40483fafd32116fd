"""Preflight: what will become of the other pods of the node. The drain's own look, and dry runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..._core.preflight.facts import PodSeen
from ..._core.reasons.reason import Finding, Reason
from ..api.client import Client
from ..api.errors import AccessDenied, KubeError
from ..objects import facts
from ..pods.filters import JudgedPod, PodDecision, PodOptions, Stage
from ..pods.read import PodReader, last_replica, terminating
from ..requests.eviction import Answer, evict, explain_budget
from ..requests.rights import lacking
from .dry_runs import DELETES_PODS, EVICTS_PODS, together

Obj = dict[str, Any]


@dataclass(frozen=True)
class OtherPods:
    """`missing`: rights that the account lacks. `unread`: what could not be told."""

    pods: tuple[PodSeen, ...] = ()
    missing: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def other_pods(client: Client, pods: Sequence[Obj], node: str, options: PodOptions, begun: bool) -> OtherPods:
    """`pods`: of the cluster. `begun`: a maintenance of ours is recorded on the node, so what is
    refused keeps the VMs no more. Raises KubeError for a selector that the server refuses."""
    here = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName") == node]
    try:
        judged = PodReader(client, node, options, time.time).judged(here)
    except AccessDenied as exc:
        return OtherPods(missing=(str(exc),))
    found = [
        _seen(j, j.finding, not begun and j.decision is PodDecision.REFUSED) for j in judged if j.finding is not None
    ]
    asked = []
    for one in judged:
        if one.decision is not PodDecision.GO or facts.final(one.pod):
            continue
        stays = terminating(one.pod) or (last_replica(one, _beside(one, pods)) if _late(one) else None)
        if stays is None:
            asked.append(one)
        else:
            found.append(_seen(one, stays))
    held = _ask(client, asked, options)
    return OtherPods((*found, *held.pods), held.missing, held.unread)


def _late(found: JudgedPod) -> bool:
    return found.stage is Stage.LAST


def _beside(found: JudgedPod, pods: Sequence[Obj]) -> list[Obj]:
    namespace = found.pod["metadata"]["namespace"]
    return [pod for pod in pods if pod["metadata"]["namespace"] == namespace]


def _seen(found: JudgedPod, why: Finding, whole: bool = False) -> PodSeen:
    return PodSeen(found.name, why.reason, why.message, whole)


def _ask(client: Client, going: Sequence[JudgedPod], options: PodOptions) -> OtherPods:
    """Each that has to go is evicted as a dry run, unless it will be deleted past all budgets."""
    right = DELETES_PODS if options.disable_eviction else EVICTS_PODS
    spaces = sorted({j.pod["metadata"]["namespace"] for j in going})
    try:
        missing = lacking(client, right, spaces) if spaces else ""
    except KubeError as exc:
        return OtherPods(unread=(f"The account's rights on other pods: {str(exc).rstrip('.')}.",))
    if missing or options.disable_eviction:
        return OtherPods(missing=(missing,) if missing else ())
    reported = together(lambda one: _try(client, one), going)
    return OtherPods(
        tuple(one for one in reported if isinstance(one, PodSeen)),
        unread=tuple(one for one in reported if isinstance(one, str)),
    )


def _try(client: Client, found: JudgedPod) -> PodSeen | str | None:
    """Return what holds the pod back, or why that is not known now. None: it would go."""
    try:
        answer, finding = evict(client, found.pod, dry=True)
    except AccessDenied as exc:
        return str(exc)
    if finding is None or finding.reason is Reason.PodStillTerminating:
        return None  # with its namespace it goes anyway
    if answer is Answer.BUDGET:
        return _seen(found, explain_budget(client, found.pod, finding))
    if answer is Answer.REFUSED:
        text = f"Its eviction as a dry run: {finding.message}."
        return PodSeen(found.name, Reason.APIError, text)
    return f"The eviction of {found.name} as a dry run: {finding.message}."
