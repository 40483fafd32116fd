"""What the preflight says of single things: what runs us, nodes, other pods, budgets, quotas."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent, RecordError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import NodeUnknown
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects import names
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.observe import control_node
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.pods.filters import PodOptions
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.check import preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from ansible_collections.virtops.maintenance.tests.kubevirt.still_cluster import Still, budget
from kubesim.kinds import PODS, VMIS
from kubesim.reading import add_budget, add_pod


def test_our_own_pod_and_our_own_machine(still: Still, monkeypatch, tmp_path: Path) -> None:
    firmware = {"spec": {"domain": {"firmware": {"uuid": "11111111-2222-3333-4444-555555555555"}}}}
    still.vm(vmi=firmware)
    assert still.told() == {}
    uuid = "11111111-2222-3333-4444-555555555555"
    monkeypatch.setattr(control_node, "own_uuid", lambda: uuid)
    row = still.told()[Reason.RunsTheMaintenance]
    assert "VM default/vm is the machine" in row["message"]
    assert row["severity"] == "warning"  # the drain moves it last
    monkeypatch.undo()
    (tmp_path / "namespace").write_text("default")
    monkeypatch.setattr(control_node, "NAMESPACE_FILE", str(tmp_path / "namespace"))
    monkeypatch.setenv("HOSTNAME", "virt-launcher-vm-x")
    assert "This runs in pod" in still.told()[Reason.RunsTheMaintenance]["message"]


def test_a_node_that_is_not_there_and_a_record_that_is_not_readable(still: Still) -> None:
    request = service.Request(still.auth, "n9", Policy(), Intent.DRAINED, "preflight")
    with pytest.raises(NodeUnknown, match="no node n9"):
        preflight(request, {})
    still.node("n1", metadata={"annotations": {names.RECORD: "{"}})
    with pytest.raises(RecordError):
        still.look()


def test_the_budget_that_is_never_computed_is_told_beforehand(still: Still) -> None:
    still.vm(strategy="None")
    budget(still, "half", maxUnavailable=1)
    row = still.told(allow_stop=True)[Reason.DisruptionBudget]
    assert row["severity"] == "blocker"
    assert "half can never allow an eviction: maxUnavailable" in row["message"]
    # A VM that migrates is not held by it.
    still.sim.edit(VMIS, "vm", lambda o: o["spec"].update(evictionStrategy="LiveMigrate"), "default")
    assert still.told()[Reason.DisruptionBudget]["severity"] == "warning"


def test_other_pods_are_judged_by_the_same_options_as_the_drains(still: Still) -> None:
    still.vm()
    add_pod(still.sim, "scratch", "n1", empty_dir=True)
    add_pod(still.sim, "bare", "n1", owner="")
    add_pod(still.sim, "held", "n1", labels={"app": "held"})
    add_pod(still.sim, "elsewhere", "n2", owner="")
    add_budget(still.sim, "strict", 1, app="held")
    told = {row["subject"]: row for row in still.look()["findings"]}
    assert {subject: (row["code"], row["about"]) for subject, row in told.items()} == {
        "pod default/scratch": ("PodHasLocalData", "node"),
        "pod default/bare": ("PodNotManaged", "node"),
        "pod default/held": ("DisruptionBudget", "pod"),
    }
    assert "strict" in told["pod default/held"]["message"]
    allowed = PodOptions(force=True, delete_emptydir_data=True, disable_eviction=True)
    for given in (allowed, PodOptions(selector="kubevirt.io=virt-launcher")):
        assert still.look(pods=given)["findings"] == []


def test_the_other_pods_stay_where_they_are(still: Still) -> None:
    add_pod(still.sim, "web", "n1")
    assert still.look()["findings"] == []
    (asked,) = [c for c in still.sim.log if c.path.endswith("/eviction")]
    assert "dryRun=All" in asked.query and still.sim.find(PODS, "web") is not None


def test_a_quota_counts_what_one_more_pod_asks_for(still: Still) -> None:
    still.vm()
    hard = {"requests.memory": "2Gi", "pods": "9", "limits.cpu": "1"}
    used = {"requests.memory": "1200Mi", "pods": "1", "limits.cpu": "1"}
    meta = {"name": "small", "namespace": "default"}
    spec, status = {"hard": hard}, {"hard": hard, "used": used}
    still.sim.add("resourcequotas", {"metadata": meta, "spec": spec, "status": status})
    told = [row["message"] for row in still.look()["findings"]]
    # It has no limits.cpu, so that one does not count.
    assert len(told) == 1 and "requests.memory" in told[0]
