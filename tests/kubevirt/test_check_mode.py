"""Check mode, the node's info and the preflight beside them are one answer, and a drain does what they say."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.promise import is_due, with_preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.severity import parse_severity
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.check import preflight
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.preflight.info import read_node
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.check_mode import plan
from kubesim.kinds import NODES
from kubesim.reading import row


def quota(sim) -> None:
    meta = {"name": "tight", "namespace": "default"}
    sim.add("resourcequotas", {"metadata": meta, "spec": {"hard": {"pods": "1"}}})


def too_small(sim) -> None:
    for name in ("n2", "n3"):
        sim.edit(NODES, name, lambda o: o["status"].update(allocatable={"memory": "1Mi", "pods": "100"}))


def no_slots(sim) -> None:
    sim.configure(migrations={"parallelMigrationsPerCluster": 0})


def no_virt_api(sim) -> None:
    sim.world.virt_api_down = True


def nothing(_sim) -> None:
    pass


def in_check_mode(request, severity) -> dict:
    """As the action kubevirt_drain puts it together."""
    found = plan(request, {})
    if not is_due(found, "drained"):
        return found
    return with_preflight(found, preflight(request, severity)["findings"], Platform.KUBEVIRT)


ALL_THE_SAME = "A drain asks anyway, and waits until pending_timeout for this to change."
# What KubeVirt alone finds out when it is asked.
ASKED = [quota, too_small]


@pytest.mark.parametrize("plant", [quota, too_small, no_slots, no_virt_api, nothing])
def test_what_the_preflight_calls_a_blocker_check_mode_does_not_promise(sim, operator, plant) -> None:
    sim.add_vm("vm", "n1")
    plant(sim)
    request = operator.request(Intent.DRAINED, "try", 5.0)
    blockers = {f["code"]: f for f in preflight(request, {})["findings"] if f["severity"] == "blocker"}
    found = in_check_mode(request, {})
    for one in (found, read_node(request, {})):
        rows = [row(one, "vm"), *one["findings"]]
        told = {told["reason"]: told["message"] for told in rows if told["reason"]}
        assert set(blockers) <= set(told), one
        for code, blocker in blockers.items():
            assert ALL_THE_SAME not in blocker["message"] or told[code] == blocker["message"]
    stays = found["phase"] == "Blocked" or found["would_stay"] == ["default/vm"]
    assert stays is bool(blockers) is (plant is not nothing)
    # What the user makes of a code is so for all of them.
    passed = parse_severity(dict.fromkeys(blockers, "warning"))
    assert not [f for f in preflight(request, passed)["findings"] if f["severity"] == "blocker"]
    if plant in ASKED:
        words = [one["message"] for one in blockers.values() if one["subject"] == "VM default/vm"]
        assert words and all(text.endswith(ALL_THE_SAME) for text in words), words
        found = in_check_mode(request, passed)
        assert found["would_stay"] == [] and "default/vm" in [act["vm"] for act in found["planned"]]
        assert row(read_node(request, passed), "vm")["reason"] == ""


@pytest.mark.full
def test_a_quota_is_named_in_check_mode(sim, plays) -> None:
    sim.add_vm("vm", "n1")
    sim.add_vm("other", "n2")
    quota(sim)
    done = plays.own("drain", "--check", maintenance_hosts="n1")
    text = " ".join(done.stdout.split())
    assert "would be migrated" not in text and "in total" not in text, done.stdout
    assert "QuotaExceeded" in text and "tight" in text and "n1 would not become Drained" in text, done.stdout
    assert ALL_THE_SAME in text, done.stdout
    passed = {"maintenance_preflight_severity": {"QuotaExceeded": "warning"}}
    done = plays.own("drain", "--check", maintenance_hosts="n1", **passed)
    assert "would be migrated" in done.stdout and "would not become" not in done.stdout, done.stdout
