"""Which VMs never share a node, and what of it cannot be said as a group."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.affinity import pod_affinity
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.document import vmi_document
from ansible_collections.virtops.maintenance.plugins.module_utils._policy.rules import compile_rules

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
OWN = {"labelSelector": {"matchLabels": {"kind": "db"}}, "topologyKey": HOST}
IN = {"key": "kind", "operator": "In", "values": ["db", "cache"]}
BY_WORDS = {"labelSelector": {"matchExpressions": [IN]}, "topologyKey": HOST}
OTHERS = {"labelSelector": {"matchLabels": {"kind": "noisy"}}, "topologyKey": HOST}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def vmi(*terms: dict[str, Any], **spec: Any) -> dict[str, Any]:
    affinity = {"podAntiAffinity": {REQUIRED: list(terms)}, **spec.pop("affinity", {})}
    meta = {"name": "vm", "namespace": "shop", "uid": "u", "labels": {"kind": "db"}}
    return {"metadata": meta, "spec": {"affinity": affinity, **spec}, "status": {}}


PODS = {"podAffinity": {REQUIRED: [{"topologyKey": ZONE}]}}
SPREAD = [{"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}]


@pytest.mark.parametrize(
    ("found", "group"),
    [
        (vmi(), ""),
        (vmi(OWN), "shop/kind=db"),
        (vmi(BY_WORDS), "shop/kind In cache|db"),
        (vmi(OWN, OTHERS), "shop/kind=db"),
        (vmi({"topologyKey": ZONE}), ""),  # selects no pod
        # More than a group says: not known, rather than none.
        (vmi(OTHERS), None),
        (vmi({**OWN, "topologyKey": ZONE}), None),
        (vmi({**OWN, "namespaceSelector": {}}), None),
        (vmi({**OWN, "namespaces": ["shop", "other"]}), None),
        (vmi({"labelSelector": {}, "topologyKey": HOST}), None),
        (vmi(affinity=PODS), None),
        (vmi(topologySpreadConstraints=SPREAD), None),
        (vmi(topologySpreadConstraints=[{**SPREAD[0], "whenUnsatisfiable": "ScheduleAnyway"}]), ""),
        ({**vmi(), "spec": {}}, ""),
    ],
)
def test_the_document_has_the_plans_group(found: dict[str, Any], group: str | None) -> None:
    assert vmi_document(found, None)["anti_affinity_group"] == group
    assert pod_affinity(found).group == (group or "")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (vmi(OWN, OTHERS), ()),
        (vmi({**OWN, "topologyKey": ZONE}), (f"anti-affinity by {ZONE}",)),
        (vmi({**OWN, "namespaceSelector": {}}), (f"anti-affinity by {HOST}",)),
        (vmi(affinity=PODS), (f"affinity to other pods by {ZONE}",)),
        (vmi(topologySpreadConstraints=SPREAD), (f"spread by {ZONE}",)),
    ],
)
def test_what_the_pods_of_a_node_do_not_tell(found: dict[str, Any], words: tuple[str, ...]) -> None:
    assert pod_affinity(found).unchecked == words


def test_a_rule_tells_none_from_not_known() -> None:
    (rule,) = compile_rules([{"name": "alone", "when": "anti_affinity_group == ''"}])
    answers = [rule.when(vmi_document(one, None)) for one in (vmi(), vmi(OWN), vmi(OTHERS))]
    assert answers == [True, False, None]
