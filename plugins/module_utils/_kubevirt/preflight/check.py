"""Preflight of a KubeVirt node: one pass of lists, access reviews and dry runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..._core.model.observation import VM, Node, Observation, OnNotMigratable, Reservation
from ..._core.model.policy import Policy
from ..._core.model.record import Ending, NodeRecord
from ..._core.preflight.check import check, record_text, result
from ..._core.preflight.facts import Budget, Facts, MovedSeen, NodeSeen
from ..._core.reasons.reason import Platform, Reason, Severity
from ..api.client import Client
from ..api.cluster import Cluster, read_cluster
from ..api.errors import AccessDenied, KubeError, NodeUnknown
from ..api.failures import RunsTheMaintenance
from ..api.metrics import DirtyRates
from ..objects import facts, migration_policy, names, tolerations
from ..objects.nodes import cordoned
from ..observe.control_node import ControlNode, refuse_own_node
from ..observe.migration_policies import MigrationPolicies, note_settings
from ..placement.targets import MIB, Target, targets
from ..records.node_record import Instance, Records
from ..run import unsupported
from ..run.work import Request
from .cluster import cluster_seen, node_seen, stuck
from .dry_runs import missing_rights, try_evictions, webhook_trouble
from .pods import other_pods
from .read import ClusterObjects, read
from .vm import Around, vm_of, vm_seen

Obj = dict[str, Any]
# The node that stands for what the scheduler finds; whether a VM fits is asked of each target.
_ANYWHERE, _HUGE = "", 10**9


def preflight(request: Request, severity: Mapping[Reason, Severity]) -> dict[str, Any]:
    """Blockers and warnings. Raises KubeError, NodeUnknown, RecordError; what the account may not
    read is a finding."""
    client, rates = Client(request.auth), DirtyRates(request.metrics, request.node)
    try:
        found = gather(client, request, rates)
        reported = result(found, check(found, request.policy), severity)
        return {**reported, **rates.result_fields}
    finally:
        client.close()


def gather(client: Client, request: Request, rates: DirtyRates) -> Facts:
    """Everything that one pass reads and asks. `rates`: not asked yet."""
    policy = request.policy
    stops = policy.allow_stop or policy.on_not_migratable is OnNotMigratable.SHUTDOWN
    try:
        known = read_cluster(client)
        found = read(client)
    except AccessDenied as exc:
        missing, unread = missing_rights(client, (), stops, (0, 0))
        return _only_rights(request.node, missing or [str(exc)], unread)
    node = next((n for n in found.nodes if n["metadata"]["name"] == request.node), None)
    if node is None:
        raise NodeUnknown(names.no_node(request.node, found.nodes))
    record = Records(client, request.node).load(node)
    here, pods, arriving = _vms_here(found, request.node)
    if here:
        rates.refresh(time.time())
    spaces = sorted({facts.key(vmi)[0] for vmi in here})
    missing, unread = missing_rights(client, spaces, stops, known.version)
    webhook = webhook_trouble(client)
    running = {
        facts.identity(vmi): pods[facts.identity(vmi)]
        for vmi in here
        if facts.phase(vmi) == "Running" and facts.identity(vmi) in pods
    }
    tried = try_evictions(client, {} if webhook else running)
    takers = targets(found.nodes, found.pods, request.node)
    roomy = _tolerated(takers, here, pods)
    around = Around(found, node, takers, record)
    us = ControlNode(client.server, request.controller_uuid)
    vms = {
        facts.identity(vmi): replace(
            vm_of(vmi, request.node, known.default_strategy, found.vms.get(facts.key(vmi)), rates.of(vmi)),
            control_node=us.why(vmi),
        )
        for vmi in here
    }
    settings = _settings(client, here, vms, policy, known, rates)
    seen = {}
    for vmi in here:
        uuid = facts.identity(vmi)
        one = vm_seen(vmi, pods.get(uuid), around)
        answer = tried.found.get(uuid)
        if answer is not None and answer[0] is Reason.DisruptionBudget and _is_reported(one.budgets):
            answer = None  # the budget's own object says it better
        applies = settings[uuid].settings
        differs = tuple(unsupported.sentence(row) for row in unsupported.rows(settings[uuid]))
        ends = migration_policy.foreseen(vmi, applies, rates.of(vmi)) if applies else None
        seen[uuid] = replace(one, tried=answer, unsupported=differs, foreseen=ends)
    others = other_pods(client, found.pods, request.node, request.pods, record is not None)
    denied = [tried.denied] if tried.denied and not missing else []
    return Facts(
        platform=Platform.KUBEVIRT,
        node=request.node,
        observation=_observation(request.node, node, vms, arriving, bool(takers)),
        own=node_seen(
            node,
            found.nodes,
            found.kubevirt,
            record_text(record),
            _own_pod(client, request.node),
            _rebooted(node, record),
        ),
        vms=seen,
        cluster=cluster_seen(found, webhook or tried.webhook),
        moved=tuple(_moved(found.vmis, record, request.node)),
        targets=tuple(sorted(target.name for target in takers)),
        room_mib=_room(roomy),
        room_on=tuple(sorted(target.name for target in roomy)),
        stuck=tuple(stuck(found)),
        missing=(*missing, *denied, *others.missing),
        unread=(*found.unread, *unread, *tried.unread, *others.unread),
        pods=others.pods,
    )


def _rebooted(node: Obj, record: NodeRecord | None) -> bool:
    """Since its drain began."""
    boot_id = (facts.status(node).get("nodeInfo") or {}).get("bootID", "")
    return record is not None and record.boot_id not in ("", boot_id)


def _moved(vmis: list[Obj], record: NodeRecord | None, node: str) -> Iterator[MovedSeen]:
    for vmi in vmis:
        entry = record.vms.get(facts.identity(vmi)) if record is not None else None
        place = facts.status(vmi).get("nodeName")
        if entry is not None and entry.ending == Ending.MOVED.value and facts.phase(vmi) == "Running" and place != node:
            yield MovedSeen(entry.name, str(place), entry.agent, facts.is_true(vmi, "AgentConnected"))


def _own_pod(client: Client, node: str) -> str:
    """Why the node is taken for the one on which our own pod is; empty: it is not."""
    try:
        refuse_own_node(client, node)
    except RunsTheMaintenance as exc:
        return str(exc)
    except KubeError:
        pass  # our own pod cannot be read: a reason less
    return ""


def _settings(
    client: Client, vmis: list[Obj], vms: dict[str, VM], policy: Policy, cluster: Cluster, rates: DirtyRates
) -> dict[str, Instance]:
    """UUID -> the settings with which KubeVirt would migrate it, and those that its rule asks for."""
    found = {}
    for vmi in vmis:
        uuid, uid = facts.identity(vmi), vmi["metadata"]["uid"]
        found[uuid] = Instance(*facts.key(vmi), uid, wanted=unsupported.asked(vms[uuid], policy))
    note_settings(MigrationPolicies(client), vmis, found, cluster, rates.of)
    return found


def _is_reported(budgets: tuple[Budget, ...]) -> bool:
    return len(budgets) > 1 or any(budget.never or budget.left == 0 for budget in budgets)


def _only_rights(node: str, missing: list[str], unread: list[str]) -> Facts:
    text = "Everything else: the account may not read what a drain needs to read."
    return Facts(
        platform=Platform.KUBEVIRT,
        node=node,
        observation=Observation(nodes={node: Node(node)}, vms={}),
        own=NodeSeen(),
        missing=tuple(missing),
        unread=(*unread, text),
    )


def _vms_here(found: ClusterObjects, node: str) -> tuple[list[Obj], dict[str, Obj], list[Reservation]]:
    """(VMIs of the node, UUID -> its pod there, migrations that arrive)."""
    by_uid = {vmi["metadata"]["uid"]: vmi for vmi in found.vmis}
    pods: dict[str, Obj] = {}
    arriving: list[Reservation] = []
    for pod in facts.live_launchers(found.pods):
        if (pod.get("spec") or {}).get("nodeName") != node:
            continue
        vmi = by_uid.get(facts.labels(pod).get(names.CREATED_BY, ""))
        if vmi is None or facts.final(vmi):
            continue
        place = facts.status(vmi).get("nodeName")
        if place in (None, "", node):
            pods[facts.identity(vmi)] = pod
        elif names.JOB_UID in facts.labels(pod):
            name = "{}/{}".format(*facts.key(vmi))
            arriving.append(Reservation(name, node, str(place), 0))
    here = [
        vmi
        for vmi in found.vmis
        if not facts.final(vmi) and (facts.status(vmi).get("nodeName") == node or facts.identity(vmi) in pods)
    ]
    return here, pods, arriving


def _observation(name: str, node: Obj, vms: dict[str, VM], arriving: list[Reservation], takers: bool) -> Observation:
    nodes = {name: Node(name, cordoned=cordoned(node))}
    if takers:
        nodes[_ANYWHERE] = Node(_ANYWHERE, capacity_mib=_HUGE)
    return Observation(nodes=nodes, vms=vms, inbound=arriving)


def _tolerated(takers: list[Target], vmis: list[Obj], pods: dict[str, Obj]) -> list[Target]:
    """The targets whose taints at least one of the VMs tolerates: what is free on others helps none of them."""
    wanted = [tolerations.of(vmi, pods.get(facts.identity(vmi))) for vmi in vmis]
    different = {tolerations.key(found): found for found in wanted}.values()
    return [taker for taker in takers if any(not tolerations.untolerated(taker.taints, found) for found in different)]


def _room(takers: list[Target]) -> int | None:
    """MiB of memory that all targets together have free; None where one does not tell, or there is no
    target: then each VM has the reason."""
    if not takers or any("memory" not in target.free for target in takers):
        return None
    return int(sum(max(0.0, target.free["memory"]) for target in takers) / MIB)
