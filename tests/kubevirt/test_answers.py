"""What the eviction of a launcher pod may be answered, and what the drain does about it.

A row an answer: `asked` evicts as the drain does and says how it is understood; then the drain
runs to its end.
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import OnNotMigratable
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.requests import eviction
from kubesim.kinds import PODS, VMIS
from kubesim.reading import add_budget, evictions, row

pytestmark = pytest.mark.full

EVICT = "/eviction"
HOOK = 'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: '


def asked(sim: Any, operator: Any, name: str = "virt-launcher-vm") -> str:
    """The answer for the newest live pod of that name, as a dry run: it marks nothing."""
    pods = [p for p in sim.all(PODS) if p["metadata"]["name"].startswith(name) and p["status"]["phase"] == "Running"]
    pods.sort(key=lambda p: int(p["metadata"]["resourceVersion"]))
    client = Client(operator.auth)
    answer, _finding = eviction.evict(client, pods[-1], dry=True)
    client.close()
    return answer.value


def by_the_drain(sim: Any) -> list[str]:
    """The VMs whose eviction it asked for; `asked` was the first."""
    return list(evictions(sim)[1:])


def statuses(sim: Any) -> list[int]:
    return [call.status for call in sim.requests("POST", EVICT)]


def fail_once(sim: Any, code: int, text: str = "") -> None:
    sim.api.faults.plan(code, 1, lambda m, path: m == "POST" and path.endswith(EVICT), text=text)


def test_429_triggered_is_watched_and_not_asked_again(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="20")
    assert asked(sim, operator) == "marked"
    found = operator.drain()
    assert (found["phase"], row(found, "vm")["attempts"]) == ("Drained", 1)
    assert by_the_drain(sim) == ["vm"] and statuses(sim)[-1] == 429


def test_429_in_progress_is_no_error(sim, operator) -> None:
    """Marked by somebody between our look and our request."""
    sim.add_vm("vm", "n1", migrate_seconds="20")
    sim.edit(VMIS, "vm", lambda o: o["status"].update(evacuationNodeName="n1"), "default")
    assert asked(sim, operator) == "in_progress"
    found = operator.drain()
    assert (found["phase"], row(found, "vm")["verdict"]) == ("Drained", "moved")


@pytest.mark.parametrize(
    ("policy", "phase", "verdict"), [({}, "Blocked", "blocked"), ({"on_not_migratable": "skip"}, "Blocked", "skipped")]
)
def test_429_not_migratable_is_left_to_the_policy(sim, operator, policy, phase, verdict) -> None:
    sim.add_vm("vm", "n1", not_migratable_reason="DisksNotLiveMigratable")
    assert asked(sim, operator) == "not_migratable"
    if "on_not_migratable" in policy:
        policy = {**policy, "on_not_migratable": OnNotMigratable(policy["on_not_migratable"])}
    found = operator.drain(**policy)
    assert (found["phase"], row(found, "vm")["verdict"]) == (phase, verdict)
    if verdict == "blocked":
        assert row(found, "vm")["reason"] == "DisksNotLiveMigratable" and by_the_drain(sim) == []


def test_429_of_a_failure_inside_virt_api_is_tried_again(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    fail_once(sim, 429, HOOK + "kubevirt failed getting the vmi: timeout")
    assert asked(sim, operator) == "later"
    fail_once(sim, 429, HOOK + "kubevirt failed marking the vmi for eviction: timeout")
    found = operator.drain()
    assert (found["phase"], row(found, "vm")["attempts"]) == ("Drained", 2)


def test_429_of_a_budget_names_it(sim, operator) -> None:
    sim.add_vm("vm", "n1", strategy="None", labels={"tier": "db"})
    add_budget(sim, "strict", 1, tier="db")
    assert asked(sim, operator) == "budget"
    found = operator.drain(allow_stop=True, shutdown_timeout=2.0)
    vm = row(found, "vm")
    assert (found["phase"], vm["reason"]) == ("Blocked", "DisruptionBudget")
    assert "strict" in vm["message"] and sim.node_of("vm") == "n1"


def test_500_of_the_webhook_is_tried_again(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.world.virt_api_down = True
    assert asked(sim, operator) == "later"
    sim.world.virt_api_down = False
    text = 'Internal error occurred: failed calling webhook "virt-launcher-eviction-interceptor"'
    fail_once(sim, 500, text)
    found = operator.drain()
    assert (found["phase"], row(found, "vm")["attempts"]) == ("Drained", 2)


def test_404_the_vm_is_looked_for_and_not_given_up(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    fail_once(sim, 404, 'pods "virt-launcher-vm" not found')
    assert asked(sim, operator) == "gone"
    fail_once(sim, 404, 'pods "virt-launcher-vm" not found')
    found = operator.drain()
    assert (found["phase"], row(found, "vm")["verdict"]) == ("Drained", "moved")
