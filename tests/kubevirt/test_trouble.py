"""Trouble: of the API, of the account, of the node."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt import options
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.cache import Cache
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.client import Client
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.errors import (
    AccessDenied,
    KubeError,
    NodeUnknown,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.api.failures import RunsTheMaintenance
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.observe import control_node
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.requests import eviction
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import act, check_mode, service, work
from kubesim.kinds import NODES
from kubesim.reading import add_pod, evictions, row


def test_a_missing_right_is_named(sim, operator, monkeypatch) -> None:
    """One that was there when the drain began; what is missing by then is told before: test_least_privilege."""
    monkeypatch.setattr(work, "check_before_a_drain", lambda *_of: None)
    sim.add_vm("vm", "n1")
    rules = sim.api.access.rules["maintenance"]
    without = [r for r in rules if "pods/eviction" not in r["resources"]]
    sim.api.access.rules["maintenance"] = without
    found = operator.drain(max_attempts=1)
    vm = row(found, "vm")
    assert vm["verdict"] == "blocked"
    assert "create pods/eviction" in vm["message"]
    sim.api.access.rules["maintenance"] = []
    with pytest.raises(AccessDenied, match="get leases"):
        operator.slice(Intent.DRAINED)
    sim.api.access.expired.add("maintenance")
    with pytest.raises(AccessDenied, match="credentials"):
        operator.slice(Intent.DRAINED)


def test_trouble_of_the_api_is_everyday(sim, operator) -> None:
    for number in range(4):
        sim.add_vm(f"vm{number}", "n1")
    faults = sim.api.faults
    faults.drop_watches = 0.2
    faults.plan(500, 2, lambda method, _path: method == "GET")
    faults.plan(429, 1, lambda method, path: method == "GET", retry_after=1)
    faults.plan(503, 2, lambda method, _path: method == "PATCH")
    found = operator.drain()
    assert found["phase"] == "Drained"
    assert evictions(sim) == [f"vm{number}" for number in range(4)]


def test_history_that_is_gone_is_listed_again(sim, operator) -> None:
    sim.api.faults.drop_watches = 0.3
    cache = Cache(Client(operator.auth), "/api/v1/pods", lambda: None)
    cache.start()
    sim.edit(NODES, "n1", lambda o: o["metadata"]["labels"].update(some="change"))
    sim.call(sim.world.store.compact)
    sim.let_pass(5.0)
    sim.add_vm("vm", "n1")
    sim.until(cache.items)
    cache.stop()
    assert len(cache.items()) == 1


def test_virt_api_down_is_a_reason_and_no_success(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.world.virt_api_down = True
    found = operator.drain(max_attempts=1)
    assert found["phase"] == "Blocked"
    assert "WebhookUnavailable" in str(row(found, "vm"))
    assert sim.node_of("vm") == "n1"


@pytest.mark.parametrize("late", [0.0, 1.0], ids=["before the answer", "after it"])
def test_an_eviction_that_was_not_answered_and_worked_is_one_attempt(sim, operator, monkeypatch, late) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="20")
    timers = []

    def timed_out(client, pod):
        timers.append(threading.Timer(late, eviction.evict, [client, pod]))
        timers[-1].start()
        if not late:
            timers[-1].join()
        return eviction.classify(KubeError(0, "Read timed out."))

    monkeypatch.setattr(act, "evict", timed_out)
    found = operator.drain(max_attempts=1)
    assert found["phase"] == "Drained" and len(timers) == 1
    vm = row(found, "vm")
    assert (vm["verdict"], vm["attempts"], vm["reason"]) == ("moved", 1, "")


def test_a_node_that_is_not_ready_is_not_drained(sim, operator) -> None:
    sim.add_vm("vm", "n1")
    sim.edit(
        NODES,
        "n1",
        lambda o: o["status"].update(
            conditions=[{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
        ),
    )
    found = operator.drain()
    assert found["phase"] == "Blocked" and found["certificate"] is None
    assert found["findings"][0]["reason"] == "NodeUnreadable"
    assert evictions(sim) == []


def not_ready(sim, status: str) -> None:
    condition = {"type": "Ready", "status": status, "reason": "NodeStatusUnknown", "message": "silent"}
    sim.edit(NODES, "n1", lambda o: o["status"].update(conditions=[condition]))


@pytest.mark.parametrize("back", [True, False], ids=["and comes back", "for good"])
def test_a_kubelet_that_is_away_in_the_middle_of_a_drain_is_waited_for(sim, operator, back) -> None:
    """As on a real node: what was asked for moves all the same."""
    sim.add_vm("moves", "n1", migrate_seconds="20")
    sim.add_vm("later", "n1", migrate_seconds="5")
    rules = [{"name": "later", "when": "name == 'later'", "priority": -1}]
    one = replace(options._KUBEVIRTS, outbound=1)
    request = operator.request(Intent.DRAINED, "r", 0.7, rules=rules, pending_timeout=6.0, limits=one)
    service.run_slice(request)
    not_ready(sim, "Unknown")
    request = replace(request, begun=True)
    found = service.run_slice(request)
    assert (found["phase"], found["findings"][0]["reason"]) == ("Draining", "NodeUnreadable"), found
    assert row(found, "later")["reason"] == "NodeUnreadable"
    sim.until(lambda: sim.node_of("moves") != "n1")
    if back:
        not_ready(sim, "True")
    while found["ended"] != "final":
        found = service.run_slice(request)
    assert row(found, "moves")["verdict"] == "moved"
    if back:
        assert (found["phase"], row(found, "later")["verdict"]) == ("Drained", "moved")
        return
    assert found["phase"] == "Blocked" and found["findings"][0]["reason"] == "NodeUnreadable"
    assert (row(found, "later")["verdict"], row(found, "later")["reason"]) == ("blocked", "NodeUnreadable")
    assert len(evictions(sim)) == 1


def test_a_node_that_does_not_exist(sim, operator) -> None:
    with pytest.raises(NodeUnknown, match="n9"):
        service.run_slice(replace(operator.request(Intent.DRAINED, "r", 1.0), node="n9"))


@pytest.mark.parametrize("host", ["job", "n1"], ids=["pod network", "network of the node"])
def test_a_run_from_a_pod_on_the_node_is_refused_with_the_remedy(sim, operator, monkeypatch, tmp_path, host) -> None:
    sim.add_vm("vm", "n1")
    add_pod(sim, "job", "n1")
    (tmp_path / "namespace").write_text("default", encoding="ascii")
    monkeypatch.setattr(control_node, "NAMESPACE_FILE", str(tmp_path / "namespace"))
    monkeypatch.setenv("HOSTNAME", host)
    before = len(sim.log)
    for run in (service.run_slice, lambda request: check_mode.plan(request, {})):
        with pytest.raises(RunsTheMaintenance, match=r"on n1 itself. Cordon the node, restart"):
            run(operator.request(Intent.DRAINED, "r", 1.0))
    assert {call.method for call in sim.log[before:]} <= {"GET"}
    assert check_mode.read_node(operator.request(Intent.DRAINED, "r", 1.0))["ready"]
    monkeypatch.setenv("HOSTNAME", "elsewhere")
    add_pod(sim, "elsewhere", "n2")
    assert operator.drain()["phase"] == "Drained"


def test_no_server_is_one_clear_error(operator, tmp_path) -> None:
    nowhere = {**operator.auth, "kubeconfig": None, "host": "http://127.0.0.1:9", "api_key": "x"}
    with pytest.raises(KubeError, match="no answer"):
        check_mode.plan(replace(operator.request(Intent.DRAINED, "r", 1.0), auth=nowhere), {})
