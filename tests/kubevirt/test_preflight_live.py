"""The preflight where controllers are at work: also on a given cluster. Each plant is one that
anybody may make through the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.check import preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from kubesim import Kubesim
from kubesim.kinds import NODES


def look(operator: Any) -> dict[str, Any]:
    request = service.Request(operator.auth, "n1", Policy(), Intent.DRAINED, "preflight")
    return preflight(request, {})


def cordon(*names: str) -> Callable[[Kubesim], Any]:
    def plant(sim: Kubesim) -> None:
        for name in names:
            sim.edit(NODES, name, lambda o: o["spec"].update(unschedulable=True))

    return plant


def taint(key: str, *names: str) -> Callable[[Kubesim], Any]:
    def plant(sim: Kubesim) -> None:
        taints = [{"key": key, "effect": "NoSchedule"}]
        for name in names:
            sim.edit(NODES, name, lambda o: o["spec"].update(taints=taints))

    return plant


def quota(sim: Kubesim) -> None:
    meta = {"name": "tight", "namespace": "default"}
    sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": {"pods": "1"}}})


def budget(sim: Kubesim) -> None:
    meta = {"name": "never", "namespace": "default"}
    spec = {"selector": {"matchLabels": {"app": "vm"}}, "maxUnavailable": 1}
    sim.add("poddisruptionbudgets", {"metadata": meta, "spec": spec})


PLANTS: dict[str, Callable[[Kubesim], Any]] = {
    "CordonedByOthers": cordon("n1"),
    "LastSchedulableNode": cordon("n2", "n3"),
    "OthersMaintenance": taint("medik8s.io/drain", "n1"),
    "DrainTaint": taint("kubevirt.io/drain", "n1"),
    "NoTargetTolerated": taint("dedicated", "n2", "n3"),
    "QuotaExceeded": quota,
    "DisruptionBudget": budget,
}


@pytest.mark.parametrize(
    "code", [pytest.param(c, marks=[pytest.mark.three_nodes] if c == "LastSchedulableNode" else []) for c in PLANTS]
)
def test_what_is_planted_is_found_and_was_not_there_before(sim: Kubesim, operator: Any, code: str) -> None:
    # A drain taint on its node moves every VM that can be moved.
    strategy = "External" if code == "DrainTaint" else "LiveMigrate"
    sim.add_vm("vm", "n1", strategy=strategy, labels={"app": "vm"})
    before = look(operator)
    assert code not in {row["code"] for row in before["findings"]}
    assert (before["vms_checked"], before["blockers"]) == (1, [])
    PLANTS[code](sim)
    assert code in {row["code"] for row in look(operator)["findings"]}
    assert sim.node_of("vm") == "n1"
