"""Preflight: does a node take a VM's pod? Selectors, taints, CPU, room. Pure.

What the scheduler asks, as far as objects say it before the pod exists: zones of volumes and
anti-affinity by host name too. Other rules between pods and devices are the scheduler's to find.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._core.reasons.reason import Reason
from ..objects import facts, names
from ..objects.affinity import PlacedPod, placed_pod, repel
from ..objects.nodes import is_open
from ..objects.quantity import amount
from ..objects.quotas import pod_needs
from ..objects.selectors import matches
from ..objects.tolerations import hard, untolerated
from ..objects.tolerations import of as tolerations_of

Obj = dict[str, Any]

VENDOR = "cpu-vendor.node.kubevirt.io/"
HOST_MODEL = "host-model-cpu.node.kubevirt.io/"
HOST_FEATURE = "host-model-required-features.node.kubevirt.io/"
MODEL_MIGRATION = "cpu-model-migration.node.kubevirt.io/"
FEATURE = "cpu-feature.node.kubevirt.io/"
_MODELS = ("cpu-model.node.kubevirt.io/", MODEL_MIGRATION, FEATURE)
MIB = 2**20


@dataclass
class Target:
    """A node that may take VMs, and what is free on it. `pods`: those that are there."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Obj]
    free: dict[str, float] = field(default_factory=dict)
    pods: list[PlacedPod] = field(default_factory=list)


@dataclass(frozen=True)
class PodRequirements:
    """The requirements of one target pod on a node. `labels`: those that it must have, with their values.

    `volumes`: claim -> what its volume asks of the node's labels. `own`: itself, beside others.
    """

    labels: Mapping[str, str]
    affinity: Sequence[Obj] = ()
    tolerations: Sequence[Obj] = ()
    needs: Mapping[str, float] = field(default_factory=dict)
    volumes: Mapping[str, Sequence[Obj]] = field(default_factory=dict)
    own: PlacedPod | None = None


def targets(nodes: Iterable[Obj], pods: Iterable[Obj], but: str) -> list[Target]:
    """Nodes other than `but` that are up, not cordoned and have KubeVirt running."""
    found = {}
    for node in nodes:
        name = node["metadata"]["name"]
        if name == but or not is_open(node):
            continue
        free = {what: amount(value) for what, value in (facts.status(node).get("allocatable") or {}).items()}
        found[name] = Target(name, facts.labels(node), hard(node), free)
    for pod in pods:
        target = found.get((pod.get("spec") or {}).get("nodeName") or "")
        if target is None or facts.final(pod):
            continue
        target.pods.append(placed_pod(pod))
        for what, value in {**pod_needs(pod), "pods": 1.0}.items():
            if what in target.free:
                target.free[what] -= value
    return list(found.values())


def requirements_of(
    vmi: Obj,
    pod: Obj | None,
    source: Obj,
    volumes: Mapping[tuple[str, str], Sequence[Obj]],
    migrations: Mapping[str, Obj] | None = None,
) -> PodRequirements:
    """Return the requirements of the target pod of this VMI's migration. `source`: the node it runs on.

    `volumes`: namespace and name of a claim -> what its volume asks of a node. `migrations`: by UID.
    """
    labels = _selector(vmi, pod, migrations or {})
    labels[names.SCHEDULABLE] = "true"
    here = facts.labels(source)
    for label, value in here.items():
        if label.startswith(VENDOR):
            labels[label] = value
    cpu = (vmi["spec"].get("domain") or {}).get("cpu") or {}
    # Once it has migrated, its pod names the model of the host that it was started on.
    moved = any(label.startswith(MODEL_MIGRATION) for label in labels)
    if cpu.get("model", "host-model") == "host-model" and not moved:
        for label, value in here.items():
            if label.startswith(HOST_MODEL):
                labels[MODEL_MIGRATION + label[len(HOST_MODEL) :]] = value
            elif label.startswith(HOST_FEATURE):
                labels[FEATURE + label[len(HOST_FEATURE) :]] = value
    rule = ((vmi["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    needs = {**pod_needs(pod), "pods": 1.0} if pod else {"pods": 1.0}
    space = facts.key(vmi)[0]
    zones = {name: volumes[space, name] for name in claims(vmi) if (space, name) in volumes}
    terms = rule.get("nodeSelectorTerms") or ()
    return PodRequirements(labels, terms, tolerations_of(vmi, pod), needs, zones, placed_pod(vmi))


def _selector(vmi: Obj, pod: Obj | None, migrations: Mapping[str, Obj]) -> dict[str, str]:
    """The node selector of the VM's pod, to which KubeVirt and the namespace may have added, without what the migration
    added by which it came here (addedNodeSelector): the next one does not inherit that. Where that migration's object
    was removed, it is taken to be the host name, by which a target is chosen as a rule."""
    own = vmi["spec"].get("nodeSelector") or {}
    labels = dict(((pod or {}).get("spec") or {}).get("nodeSelector") or own)
    came_by = facts.labels(pod).get(names.JOB_UID) if pod else None
    if came_by is None:
        return labels
    migration = migrations.get(came_by)
    added = [names.HOSTNAME] if migration is None else migration["spec"].get("addedNodeSelector") or ()
    return {key: value for key, value in labels.items() if key in own or key not in added}


def claims(vmi: Obj) -> list[str]:
    """Names of the claims that its pod mounts; that of a DataVolume has its name."""
    found = []
    for volume in vmi["spec"].get("volumes") or []:
        ephemeral = (volume.get("ephemeral") or {}).get("persistentVolumeClaim")
        claim = volume.get("persistentVolumeClaim") or ephemeral or {}
        name = claim.get("claimName") or (volume.get("dataVolume") or {}).get("name")
        if name:
            found.append(str(name))
    return found


def refusals(found: Sequence[Target], wanted: PodRequirements) -> dict[str, tuple[Reason, str]]:
    """Node -> why not. Empty as soon as one takes it."""
    refused = {}
    for target in found:
        why = refusal(target, wanted)
        if why is None:
            return {}
        refused[target.name] = why
    return refused


def refusal(target: Target, wanted: PodRequirements) -> tuple[Reason, str] | None:
    """Why this node does not take the pod; None: it does."""
    return _by_labels(target, wanted) or _by_what_is_there(target, wanted)


def _by_labels(target: Target, wanted: PodRequirements) -> tuple[Reason, str] | None:
    lacks = [k for k, v in wanted.labels.items() if target.labels.get(k) != v]
    plain = [k for k in lacks if not k.startswith((VENDOR, *_MODELS))]
    if plain:
        text = ", ".join(f"{key}={wanted.labels[key]}" for key in sorted(plain))
        return Reason.NoTargetForSelector, f"no label {text}"
    if wanted.affinity and not any(_term(term, target) for term in wanted.affinity):
        return Reason.NoTargetForSelector, "node affinity does not match"
    for claim, terms in wanted.volumes.items():
        if not any(_term(term, target) for term in terms):
            return Reason.NoTargetForSelector, f"the volume of claim {claim} is not for this node"
    vendors = [k for k in lacks if k.startswith(VENDOR)]
    if vendors:
        return (Reason.NoTargetForCPUVendor, f"not {', '.join(key[len(VENDOR) :] for key in vendors)}")
    if lacks:
        return Reason.CPUModelNotLiveMigratable, f"no label {', '.join(sorted(lacks)[:3])}"
    return None


def _by_what_is_there(target: Target, wanted: PodRequirements) -> tuple[Reason, str] | None:
    """Taints, pods, room."""
    for taint in untolerated(target.taints, wanted.tolerations):
        return Reason.NoTargetTolerated, f"taint {taint['key']}"
    for pod in target.pods if wanted.own is not None else ():
        if repel(wanted.own, pod):
            return Reason.NoTargetWithCapacity, f"anti-affinity with pod {pod.namespace}/{pod.name}"
    for what, needed in wanted.needs.items():
        free = target.free.get(what)
        if free is not None and free < needed:
            return (Reason.NoTargetWithCapacity, f"{_amount(what, free)} free, {_amount(what, needed)} needed")
    return None


def _amount(what: str, value: float) -> str:
    if what == "memory":
        return f"{max(0.0, value) / MIB:.0f} MiB of memory"
    return f"{max(0.0, value):g} {what}"


def _term(term: Obj, target: Target) -> bool:
    """One nodeSelectorTerm: all of its expressions. One without any matches nothing."""
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return False
    by_label = all(matches(e, target.labels) for e in expressions)
    return by_label and all(matches(e, {"metadata.name": target.name}) for e in fields)
