"""Which evacuation goes first, what the descheduler leaves behind, and what events tell."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from kubesim import Kubesim, words
from kubesim.admission import DESCHEDULER
from kubesim.kinds import EVENTS, PODS, VMIMS, VMIS, VMS

SOURCE = "kubevirt.io/eviction-source"


@pytest.fixture
def sim() -> Iterator[Kubesim]:
    with Kubesim(scale=0) as cluster:
        for name in ("n1", "n2", "n3"):
            cluster.add_node(name)
        yield cluster
        assert cluster.world.broken == []


def send(sim: Kubesim, method: str, path: str, body: dict | None = None) -> int:
    headers = {"Authorization": "Bearer admin", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(sim.url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10, context=sim.trust) as response:
            return int(response.status)
    except urllib.error.HTTPError as exc:
        return exc.code


def evict(sim: Kubesim, vm: str, by: str = "") -> None:
    node = sim.node_of(vm)
    pod = next(
        pod["metadata"]["name"]
        for pod in sim.all(PODS)
        if words.annotations(pod).get("kubevirt.io/domain") == vm
        and pod["spec"].get("nodeName") == node
        and not words.final(pod)
    )
    meta = {"name": pod, "namespace": "default"}
    if by:
        meta["annotations"] = {"requested-by": by}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    assert send(sim, "POST", f"/api/v1/namespaces/default/pods/{pod}/eviction", body) == 429


def of(sim: Kubesim, vm: str) -> list[dict]:
    found = [m for m in sim.world.store.all(VMIMS) if m["spec"]["vmiName"] == vm]
    return sorted(found, key=lambda m: m["metadata"]["creationTimestamp"])


def events(sim: Kubesim, reason: str) -> list[str]:
    return [event["message"] for event in sim.all(EVENTS) if event["reason"] == reason]


def test_what_the_descheduler_wants_waits_for_all_other_evacuations(sim: Kubesim) -> None:
    sim.configure(migrations={"parallelMigrationsPerCluster": 1, "parallelOutboundMigrationsPerNode": 1})
    for name in ("first", "theirs", "ours"):
        sim.add_vm(name, "n1", migrate_seconds="3")
    evict(sim, "first")
    sim.until(lambda: of(sim, "first"))
    evict(sim, "theirs", DESCHEDULER)
    sim.until(lambda: of(sim, "theirs"))
    evict(sim, "ours")
    sim.until(lambda: of(sim, "ours") and words.phase(of(sim, "ours")[0]) == "Running", 60)
    assert words.phase(of(sim, "theirs")[0]) == "Pending"
    told = {vm: of(sim, vm)[0]["spec"]["priority"] for vm in ("first", "theirs", "ours")}
    assert told == {"first": "system-critical", "theirs": "system-maintenance", "ours": "system-critical"}


def test_the_mark_of_the_descheduler_outlasts_its_migration(sim: Kubesim) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="3")
    evict(sim, "vm", DESCHEDULER)
    sim.until(lambda: of(sim, "vm") and words.final(of(sim, "vm")[0]), 60)
    assert words.annotations(sim.find(VMIS, "vm"))[SOURCE] == "descheduler"
    sim.advance(5.0)
    evict(sim, "vm")
    later = sim.until(lambda: of(sim, "vm")[1:])
    assert later[0]["spec"]["priority"] == "system-maintenance"


def test_a_vm_shows_migrating_once_more_while_it_stops(sim: Kubesim) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="60")
    shown: list[str] = ["Running"]

    def look(change) -> None:
        if change.kind is VMS and change.type == "MODIFIED":
            text = change.obj["status"].get("printableStatus", "")
            if shown[-1:] != [text]:
                shown.append(text)

    sim.call(lambda: sim.world.on_change(look))
    evict(sim, "vm")
    sim.until(lambda: any(words.phase(m) == "Running" for m in of(sim, "vm")))
    group = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines"
    assert send(sim, "PUT", f"{group}/vm/stop", {}) == 202
    sim.until(lambda: sim.world.store.find(VMIS, "default", "vm") is None)
    assert shown == ["Running", "Migrating", "Stopping", "Migrating", "Stopped"]
    assert of(sim, "vm") == [], "migrations go with their VMI"
    assert "Migration failed vmi shutdown during migration." in events(sim, "FailedMigration")


def test_an_abort_that_cannot_be_signalled_is_told(sim: Kubesim) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="60")
    evict(sim, "vm")
    sim.until(lambda: any(words.phase(m) == "Running" for m in of(sim, "vm")))
    name = of(sim, "vm")[0]["metadata"]["name"]
    sim.world.virt_api_down = True
    path = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancemigrations"
    assert send(sim, "DELETE", f"{path}/{name}") == 200
    sim.advance(1.0)
    assert events(sim, "FailedAbortMigration") and not events(sim, "SuccessfulAbortMigration")
    sim.world.virt_api_down = False
    sim.until(lambda: words.final(of(sim, "vm")[0]) if of(sim, "vm") else True, 60)
    assert events(sim, "SuccessfulAbortMigration")
