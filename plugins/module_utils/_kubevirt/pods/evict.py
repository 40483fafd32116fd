"""The other pods, once the VMs have gone: ask them to go, ask again, and see that they went.

All of a stage are asked at once. One that a PodDisruptionBudget holds back is asked again; the
others do not wait for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..._core.decision.actions import NodePhase
from ..._core.model.policy import Policy
from ..._core.model.record import NodeRecord
from ..._core.reasons.reason import Finding, Platform, Reason
from ..api.client import Client
from ..api.errors import AccessDenied, KubeError
from ..api.watches import Watches
from ..objects import facts, names
from ..records.node_record import Records
from ..requests.eviction import Answer, evict, explain_budget
from .filters import JudgedPod, PodDecision, PodOptions, Stage, attachments_left, finished_launchers
from .read import PodReader, last_replica, terminating

Obj = dict[str, Any]
# kubectl's pause before it evicts again what was refused with 429.
ASK_AGAIN = 5.0
# Nothing but a person changes these: they block after pending_timeout.
_STUCK = frozenset({Reason.LastReadyReplica, Reason.DisruptionBudgetNotComputed, Reason.Forbidden})


OF_A_VM = "vm"


@dataclass
class PodsResult:
    """The outcome for the other pods. `phase`: EMPTY when none is left that has to go."""

    phase: NodePhase = NodePhase.EMPTY
    findings: tuple[Finding, ...] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    acted: bool = False


class Run(Protocol):
    """The run that the other pods' drain is part of, as far as it needs it."""

    @property
    def client(self) -> Client: ...
    @property
    def node(self) -> str: ...
    @property
    def records(self) -> Records: ...
    def save(self, record: NodeRecord) -> None: ...
    def now(self) -> float: ...
    def is_wanted(self) -> bool: ...


class PodDrain:
    """Drains the other pods of the node, for one slice."""

    def __init__(
        self, platform: Run, watches: Watches, options: PodOptions, policy: Policy, ask_again: float = ASK_AGAIN
    ) -> None:
        self._platform = platform
        self._client = platform.client
        self._watches = watches
        self._options = options
        self._policy = policy
        self._ask_again = ask_again
        self._asked: dict[str, float] = {}  # UID -> when (this slice's clock)
        self._findings: dict[str, Finding] = {}  # UID -> why it has not gone
        self._left: dict[str, Finding] = {}  # namespace/name of what VMs left behind -> why it has not gone
        self._reader = PodReader(self._client, platform.node, options, platform.now)
        self._acted = False

    # Which

    def judged(self) -> list[JudgedPod]:
        """Every pod of the node, by name. Raises KubeError."""
        return self._reader.judged(self._watches.need_pods())

    def refused(self) -> tuple[Finding, ...]:
        """Return what kubectl drain would refuse before it begins. Raises KubeError."""
        return tuple(j.finding for j in self.judged() if j.finding is not None and j.decision is PodDecision.REFUSED)

    def check(self) -> PodsResult:
        """Judge the other pods for check mode: BLOCKED if kubectl drain would refuse one of them. Only reads. Raises
        KubeError."""
        judged = self.judged()
        refused = any(j.decision is PodDecision.REFUSED for j in judged)
        return self._result(NodePhase.BLOCKED if refused else NodePhase.EMPTY, judged, False)

    # Making them go

    def run(self, record: NodeRecord, deadline: float) -> PodsResult:
        """Evict pods until none is left, nothing more can be done, or `deadline` (the platform's clock). Raises
        KubeError."""
        self._acted = False
        before = json.dumps(self._platform.records.pods)
        result = self._until(record, deadline)
        if json.dumps(self._platform.records.pods) != before:
            self._platform.save(record)
        return result

    def _until(self, record: NodeRecord, deadline: float) -> PodsResult:
        while True:
            self._watches.clear()
            judged = self.judged()
            going = [j for j in judged if j.decision in (PodDecision.GO, PodDecision.WAIT)]
            launchers = self._remove_what_vms_left()
            self._step(going, record)
            late = self._platform.now() - record.started > self._policy.drain_timeout
            phase = self._phase(judged, going, launchers, late)
            over = self._platform.now() >= deadline or self._platform.is_wanted()
            if phase is not NodePhase.DRAINING or over:
                return self._result(phase, judged, late)
            self._watches.wait(min(1.0, max(0.0, deadline - self._platform.now())))

    def _phase(self, judged: list[JudgedPod], going: list[JudgedPod], launchers: bool, late: bool) -> NodePhase:
        refused = any(j.decision is PodDecision.REFUSED for j in judged)
        hopeless = bool(going) and all(self._is_stuck(j) for j in going)
        stays = bool(self._left) and all(self._is_long(name) for name in self._left)
        if late and (going or launchers):
            return NodePhase.BLOCKED
        if going and not hopeless:
            return NodePhase.DRAINING
        if hopeless or refused or stays:
            return NodePhase.BLOCKED
        return NodePhase.DRAINING if launchers else NodePhase.EMPTY

    def _is_stuck(self, found: JudgedPod) -> bool:
        reported = self._findings.get(found.pod["metadata"]["uid"])
        return reported is not None and reported.reason in _STUCK and self._is_long(found.name)

    def _is_long(self, name: str) -> bool:
        since = self._platform.records.pods.get(name, {}).get("since")
        return since is not None and self._platform.now() - float(since) > self._policy.pending_timeout

    def _known(self, found: JudgedPod) -> dict[str, Any]:
        return self._platform.records.pods.get(found.name, {})

    def _remove_what_vms_left(self) -> bool:
        """Launcher pods that have ended, and attachments that stayed behind. True: some are left."""
        pods = self._watches.pods.items()
        ended, attachments = finished_launchers(pods), attachments_left(pods)
        self._delete_launchers({(facts.key(pod)[0], facts.phase(pod)) for pod in ended})
        for pod in attachments:
            uid = pod["metadata"]["uid"]
            if not pod["metadata"].get("deletionTimestamp") and self._due(uid):
                self._take(uid, self._evict_attachment(pod))
                self._acted = True
        self._left = {}
        for pod in [*ended, *attachments]:
            self._note_left(pod)
        return bool(ended or attachments)

    def _evict_attachment(self, pod: Obj) -> Finding | None:
        try:
            return evict(self._client, pod)[1]
        except AccessDenied as exc:
            return Finding(Reason.Forbidden, str(exc))

    def _note_left(self, pod: Obj) -> None:
        """A pod that a VM left behind, and why it has not gone, if that is known. Since when, the next slice has to
        know too."""
        name, uid = "/".join(facts.key(pod)), pod["metadata"]["uid"]
        why = terminating(pod) or self._findings.get(uid) or self._findings.get(_group(pod))
        if why is not None:
            self._left[name] = why
            known = self._platform.records.pods.setdefault(name, {"uid": uid, OF_A_VM: True})
            known.setdefault("since", self._platform.now())

    def _take(self, key: str, finding: Finding | None) -> None:
        if finding is None:
            self._findings.pop(key, None)
        else:
            self._findings[key] = finding

    def _delete_launchers(self, ended: Collection[tuple[str, str]]) -> None:
        """One request for all of a namespace: the server matches label, node and phase itself."""
        for namespace, phase in sorted(ended):
            key = f"{namespace} {phase}"  # see _group
            if not self._due(key):
                continue
            query = {
                "labelSelector": "kubevirt.io=virt-launcher",
                "fieldSelector": f"spec.nodeName={self._platform.node},status.phase={phase}",
            }
            path = f"{names.CORE}/namespaces/{namespace}/pods"
            try:
                self._client.request("DELETE", path, query=query)
            except KubeError as exc:
                if not exc.code:
                    raise  # nobody answered
                text = f"Pods of VMs that have ended are not removed from namespace {namespace}: {exc}"
                self._take(key, Finding(Reason.Forbidden if isinstance(exc, AccessDenied) else Reason.APIError, text))
            else:
                self._take(key, None)
            self._acted = True

    def _due(self, key: str) -> bool:
        now = time.monotonic()
        if now - self._asked.get(key, -1e9) < self._ask_again:
            return False
        self._asked[key] = now
        return True

    def _step(self, going: list[JudgedPod], record: NodeRecord) -> None:
        """Ask all of the first stage that is not empty."""
        if not going:
            return
        stage = min(j.stage for j in going)
        asked = [j for j in going if j.stage is stage and j.decision is PodDecision.GO]
        now = [j for j in asked if not j.pod["metadata"].get("deletionTimestamp")]
        for j in going:
            ending = terminating(j.pod)
            if ending is not None:
                self._findings[j.pod["metadata"]["uid"]] = ending
        due = [j for j in now if self._due(j.pod["metadata"]["uid"])]
        if due:
            self._enter(due, record)
        for j in due:
            self._ask(j, stage)

    def _enter(self, due: list[JudgedPod], record: NodeRecord) -> None:
        """Record on the Node which pods are about to be evicted, before they are."""
        known = self._platform.records.pods
        new = [j for j in due if j.name not in known]
        for j in new:
            known[j.name] = {"uid": j.pod["metadata"]["uid"]}
        if new:
            self._platform.save(record)

    def _ask(self, found: JudgedPod, stage: Stage) -> None:
        uid = found.pod["metadata"]["uid"]
        finding = self._last_replica(found) if stage is Stage.LAST else None
        if finding is None:
            finding = self._evict(found.pod)
            self._acted = True
        if finding is None:
            self._findings.pop(uid, None)
            return
        self._findings[uid] = finding
        if finding.reason in _STUCK:
            self._known(found).setdefault("since", self._platform.now())
        else:
            self._known(found).pop("since", None)

    def _last_replica(self, found: JudgedPod) -> Finding | None:
        namespace = found.pod["metadata"]["namespace"]
        pods, _version = self._client.list(f"{names.CORE}/namespaces/{namespace}/pods")
        return last_replica(found, pods)

    def _evict(self, pod: Obj) -> Finding | None:
        grace = None if self._options.grace_period < 0 else self._options.grace_period
        try:
            if self._options.disable_eviction:
                return self._delete(pod, grace)
            answer, finding = evict(self._client, pod, grace=grace)
        except AccessDenied as exc:
            return Finding(Reason.Forbidden, str(exc))
        if answer is Answer.BUDGET and finding is not None:
            return explain_budget(self._client, pod, finding)
        return None if answer in (Answer.ACCEPTED, Answer.GONE) else finding

    def _delete(self, pod: Obj, grace: int | None) -> Finding | None:
        """Past all budgets, as kubectl's --disable-eviction. Never for what belongs to a VM."""
        body: Obj = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod["metadata"]["uid"]}}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            self._client.request("DELETE", names.pod(*facts.key(pod)), body)
        except AccessDenied:
            raise
        except KubeError as exc:
            return None if exc.code in (404, 409) else Finding(Reason.APIError, str(exc))
        return None

    # What became of them

    def _result(self, phase: NodePhase, judged: list[JudgedPod], late: bool) -> PodsResult:
        here = {j.name for j in judged}
        rows = [self._row(j) for j in judged if j.why != "it belongs to a VM"]
        rows += [_row(name, "gone", "", None) for name in had_to_go(self._platform.records) if name not in here]
        findings = [j.finding for j in judged if j.finding is not None]
        if phase is not NodePhase.EMPTY:
            findings += dict.fromkeys(self._left.values())
            findings += [
                self._findings[j.pod["metadata"]["uid"]]
                for j in judged
                if j.decision is PodDecision.GO and j.pod["metadata"]["uid"] in self._findings
            ]
        if late and phase is NodePhase.BLOCKED:
            findings.append(Finding(Reason.DeadlineExceeded))
        rows.sort(key=lambda row: row["name"])
        return PodsResult(phase, tuple(findings), rows, self._acted)

    def _row(self, found: JudgedPod) -> dict[str, Any]:
        if found.decision is PodDecision.STAY:
            return _row(found.name, "stays", found.why, None)
        if found.decision is PodDecision.REFUSED:
            return _row(found.name, "blocked", found.why, found.finding)
        reported = found.finding or self._findings.get(found.pod["metadata"]["uid"])
        return _row(found.name, "blocked" if self._is_stuck(found) else "pending", "", reported)


def had_to_go(records: Records) -> list[str]:
    """Namespace and name of the pods that had to go, those of VMs left out."""
    return sorted(name for name, known in records.pods.items() if OF_A_VM not in known)


def _group(pod: Obj) -> str:
    """What a launcher that has ended is deleted by."""
    return f"{facts.key(pod)[0]} {facts.phase(pod)}"


def _row(name: str, verdict: str, why: str, finding: Finding | None) -> dict[str, Any]:
    empty = {"reason": "", "plane": "", "message": why, "remedy": ""}
    return {"name": name, "verdict": verdict, **(finding.to_dict(Platform.KUBEVIRT) if finding else empty)}
