"""A cluster in which all is well: the preflight finds nothing there, and soon."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.check import preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from ansible_collections.virtops.maintenance.tests.kubevirt.still_cluster import Still


def _clean(still: Still, dice: random.Random) -> None:
    """Everything there is, and nothing in the way."""
    for number in range(dice.randint(1, 8)):
        name = f"vm{number}"
        more: dict[str, Any] = {}
        if dice.random() < 0.3:
            more = {"pod": {"spec": {"nodeSelector": {"pool": "gold"}}}}
        still.vm(name, space=dice.choice(["default", "shop"]), **more)
    gold = dice.choice(["n2", "n3"])
    still.node(gold, metadata={"labels": {"pool": "gold"}})
    labels = {
        "cpu-vendor.node.kubevirt.io/Intel": "true",
        "host-model-cpu.node.kubevirt.io/Skylake": "true",
        "cpu-model-migration.node.kubevirt.io/Skylake": "true",
    }
    for name in ("n1", "n2", "n3"):
        still.node(name, metadata={"labels": labels})
    for space in ("default", "shop"):
        meta = {"name": "roomy", "namespace": space}
        hard = {"pods": "20", "requests.memory": "40Gi"}
        still.sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": hard}})
        app = {"matchLabels": {"app": "vm0"}}
        pdb = {"selector": app, "minAvailable": 1}
        still.sim.add("poddisruptionbudgets", {"metadata": meta, "spec": pdb})
    still.vm("elsewhere", "n2", strategy="None")
    still.migration("done", "Succeeded")


@pytest.mark.parametrize("seed", range(8))
def test_no_false_alarm_on_clean_clusters(still: Still, seed: int) -> None:
    _clean(still, random.Random(seed))
    assert still.look()["findings"] == []


@pytest.mark.full
def test_five_hundred_vms_take_a_request_each_and_few_more(still: Still) -> None:
    for number in range(500):
        still.vm(f"vm{number}", space=f"team{number % 5}")
    for number in range(5):
        meta = {"name": "q", "namespace": f"team{number}"}
        spec = {"hard": {"pods": "200", "requests.memory": "400Gi"}}
        still.sim.add("resourcequotas", {"metadata": meta, "spec": spec})
    for name in ("n2", "n3"):
        still.node(name, status={"allocatable": {"memory": "900Gi", "pods": "600"}})
    request = service.Request(still.auth, "n1", Policy(), Intent.DRAINED, "preflight")
    before = len(still.sim.log)
    told = preflight(request, {})
    assert told["findings"] == [] and told["vms_checked"] == 500
    assert len(still.sim.log) - before <= 550
