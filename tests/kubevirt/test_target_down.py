"""The node that a VM moves to goes down in the middle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from kubesim.kinds import NODES, VMIS


@pytest.mark.full
def test_a_target_that_goes_down_is_named_and_the_drain_ends(sim, operator) -> None:
    """KubeVirt gives the migration up, and makes no other while the dead node's pod is left. By then the node counts
    as dead, which takes 40 s."""
    sim.configure(migrations={"progressTimeout": 60})
    sim.add_vm("vm", "n1", migrate_seconds="3000")
    request = operator.request(Intent.DRAINED, "run-1", 6.0, pending_timeout=10.0)
    found, target = service.run_slice(request), ""
    while found["ended"] != "final":
        if not target:
            state = sim.find(VMIS, "vm")["status"].get("migrationState") or {}
            target = state.get("targetNode", "")
            sim.edit(NODES, target, lambda o: o["metadata"]["annotations"].update({"lab/down": "true"}))
        found = service.run_slice(replace(request, begun=True))
    (row,) = found["vms"]
    assert (found["phase"], row["verdict"], row["at"]) == ("Blocked", "blocked", "n1")
    assert row["reason"] == "TargetPodNotReady"
    assert f"check its node {target}" in row["message"]
    assert "node.kubernetes.io/out-of-service" in row["message"]
    assert sim.running("vm")
    assert operator.restore()["phase"] == "Active"
