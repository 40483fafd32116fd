"""A VM that is stopped for the drain and that no other node takes: it is off until the restore."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from kubesim import words
from kubesim.kinds import NODES, PODS, VMIS, VMS
from kubesim.reading import clean, evictions, launcher, row


def stays(sim, run_strategy: str = "Always") -> None:
    """A VM of strategy None that only n1 takes."""
    sim.edit(NODES, "n1", lambda o: o["metadata"]["labels"].update(pool="here"))
    sim.add_vm("vm", "n1", strategy="None", run_strategy=run_strategy, pool="here", shutdown_seconds="1")


@pytest.mark.parametrize("run_strategy", ["Always", "Manual"])
def test_the_cordon_goes_before_the_vm_that_waits_for_it(sim, operator, run_strategy) -> None:
    stays(sim, run_strategy)
    found = operator.drain(allow_stop=True, pending_timeout=1.0)
    assert found["phase"] == "Drained", found
    assert row(found, "vm")["verdict"] == "stopped"
    back = operator.restore(shutdown_timeout=1000.0)  # a request of before is not waited for
    assert (back["phase"], row(back, "vm")["verdict"]) == ("Active", "restored")
    sim.until(lambda: sim.running("vm"))
    assert sim.node_of("vm") == "n1" and clean(sim)


def test_what_it_waits_for_is_said(sim, operator) -> None:
    stays(sim)
    found = operator.drain(allow_stop=True, pending_timeout=1.0)
    vm = row(found, "vm")
    assert vm["reason"] == "TargetUnschedulable" and "node affinity" in vm["message"]
    assert any("default/vm" in text and "off" in text for text in found["warnings"])


def test_a_vm_that_no_node_takes_after_the_restore_is_named(sim, operator) -> None:
    stays(sim)
    assert operator.drain(allow_stop=True, pending_timeout=1.0)["phase"] == "Drained"
    sim.edit(NODES, "n1", lambda o: o["metadata"]["labels"].pop("pool"))
    back = operator.restore(pending_timeout=1.0)
    assert (back["phase"], row(back, "vm")["reason"]) == ("Blocked", "TargetUnschedulable")
    assert not sim.find(NODES, "n1")["spec"].get("unschedulable")
    assert sim.find(VMIS, "vm")["status"]["phase"] == "Scheduling"


def test_what_hangs_where_it_is_started_anew_is_named_and_holds_up_nobody(sim, operator) -> None:
    """Its new pod has a node, and does not start there."""
    sim.add_vm("vm", "n1", strategy="None", shutdown_seconds="1")
    hangs = {"lab/pod": "hang"}
    sim.edit(VMS, "vm", lambda o: o["spec"]["template"]["metadata"]["annotations"].update(hangs), "default")
    found = operator.drain(allow_stop=True, pending_timeout=3.0)
    vm = row(found, "vm")
    assert (found["phase"], vm["verdict"]) == ("Drained", "stopped"), found
    assert vm["reason"] == "TargetPodNotReady" and "Scheduling" in vm["message"]
    assert any("default/vm was stopped, and has not started" in text for text in found["warnings"])
    back = operator.restore(pending_timeout=1.0)
    assert (back["phase"], row(back, "vm")["reason"]) == ("Blocked", "TargetPodNotReady")


def test_the_preflight_says_that_it_stays_off(still) -> None:
    still.vm(vmi={"spec": {"evictionStrategy": "None"}})
    run = {"allow_stop": True}
    assert Reason.StaysOff not in still.told(**run)
    for name in ("n2", "n3"):
        still.node(name, spec={"taints": [{"key": "kept", "effect": "NoSchedule"}]})
    assert "taint kept" in still.told(**run)[Reason.StaysOff]["message"]


def test_one_that_comes_back_on_the_node_is_stopped_once(sim, operator) -> None:
    """It tolerates the cordon, so KubeVirt starts it here again."""
    stays(sim)
    anything = [{"operator": "Exists"}]
    sim.edit(VMS, "vm", lambda o: o["spec"]["template"]["spec"].update(tolerations=anything), "default")
    found = operator.drain(allow_stop=True)
    vm = row(found, "vm")
    assert (found["phase"], vm["verdict"], vm["reason"]) == ("Blocked", "blocked", "RestartsOnPowerOff"), found
    assert evictions(sim) == ["vm"]
    sim.until(lambda: sim.running("vm"))
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_the_pod_of_a_vm_that_has_ended_is_waited_for(sim, operator) -> None:
    """Its storage may hang: the instance has ended, and the volume is still in use."""
    sim.add_vm("vm", "n1", strategy="None", run_strategy="Manual", shutdown_seconds="1", linger_seconds="6000")
    pod = launcher(sim)["metadata"]["name"]
    found = operator.drain(allow_stop=True, pending_timeout=2.0)
    (finding,) = found["findings"]
    assert (found["phase"], finding["reason"]) == ("Blocked", "PodStillTerminating"), found
    assert f"default/vm has ended, and its pod default/{pod} has not ended" in finding["message"]
    assert found["certificate"] is None and row(found, "vm")["verdict"] == "stopped"
    sim.edit(PODS, pod, words.completed, "default")
    assert operator.drain(allow_stop=True)["phase"] == "Drained"
