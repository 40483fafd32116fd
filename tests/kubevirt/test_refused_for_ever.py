"""What the server refuses again and again ends with its words, and the same command goes on later."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.objects.names import FROM_NODE
from ansible_collections.virtops.maintenance.tests.kubevirt.account import TOKEN, documented_rules, rules_without
from kubesim.kinds import NODES, VMIS
from kubesim.reading import clean, row

FROZEN = "admission policy frozen denied the request: this namespace is frozen"


def vmi_patch(method: str, path: str) -> bool:
    return method == "PATCH" and "/virtualmachineinstances/" in path


def unmarked(sim) -> None:
    """Nobody refuses any more."""
    sim.api.faults.planned.clear()
    sim.api.access.rules[TOKEN] = documented_rules()


@pytest.mark.parametrize("refusal", ["right", "policy", 400, 500])
def test_a_restore_whose_last_act_is_refused_ends_with_the_vm_and_the_words(sim, operator, refusal) -> None:
    sim.add_vm("vm", "n1")
    assert operator.drain()["phase"] == "Drained"
    if refusal == "right":
        sim.api.access.rules[TOKEN] = rules_without("patch", "virtualmachineinstances")
        words = "Not allowed: patch virtualmachineinstances.kubevirt.io"
    else:
        words = FROZEN if refusal == "policy" else "planned fault"
        text = FROZEN if refusal == "policy" else ""
        sim.api.faults.plan(403 if refusal == "policy" else refusal, 10**6, vmi_patch, text=text)
    found = operator.restore(pending_timeout=2.0)
    (finding,) = found["findings"]
    assert found["phase"] == "Blocked" and "default/vm" in finding["message"] and words in finding["message"], found
    assert row(found, "vm")["verdict"] == "moved"
    assert not sim.find(NODES, "n1", "")["spec"].get("unschedulable"), "it takes VMs again all the same"
    unmarked(sim)
    assert operator.restore()["phase"] == "Active" and clean(sim)


def test_while_it_is_refused_the_restore_says_so(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    operator.drain()
    sim.api.access.rules[TOKEN] = rules_without("patch", "virtualmachineinstances")
    found = operator.slice(Intent.ACTIVE, seconds=1.0)
    assert (found["ended"], found["phase"]) == ("out_of_time", "Restoring")
    assert [finding["reason"] for finding in found["findings"]] == ["Forbidden"]


def test_one_vm_that_cannot_be_patched_keeps_no_other_one_marked(sim, operator) -> None:
    sim.add_vm("a", "n1")
    sim.add_vm("b", "n1")
    operator.drain()
    sim.api.faults.plan(403, 10**6, lambda m, p: m == "PATCH" and p.endswith("/virtualmachineinstances/a"), text=FROZEN)
    found = operator.restore(pending_timeout=2.0)
    assert "default/a" in found["findings"][0]["message"] and "default/b" not in found["findings"][0]["message"]
    marked = [vmi["metadata"]["name"] for vmi in sim.all(VMIS) if FROM_NODE in vmi["metadata"]["labels"]]
    assert marked == ["a"]
    unmarked(sim)
    assert operator.restore()["phase"] == "Active" and clean(sim)
