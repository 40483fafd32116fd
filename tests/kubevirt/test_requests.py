"""How many requests a drain makes, and what a slice hands to the next one."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Intent, Superseded
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.records import lease as lock
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run import service
from ansible_collections.virtops.maintenance.plugins.module_utils._kubevirt.run.platform import KubeVirtPlatform
from kubesim import words
from kubesim.kinds import BY_PLURAL, NODES
from kubesim.reading import evictions

LEASES = BY_PLURAL["leases"]
LEASE, WANTED = "virtops-maintenance-n1", "virtops.maintenance/wanted"
VMS = 20
# Signature, Event, eviction, signature of the migration.
PER_VM = 4
# Lease, VMIs, migrations, the record of the roll (a take-over is seen by the next slice), a watch
# of the Lease (another run that waits for the node is let in at once).
PER_SLICE = 5
# The first reads, cordon, the certificate's two, the record, the roll's: 29; pods that end late are read again.
PER_DRAIN = 33
# On a busy machine migrations wait for a slot that is free, and it is looked at why: once a slice at most.
PER_LOOK = 2
LOOK = ("GET", "virtualmachineinstances", "limit=500&labelSelec")
PER_WAIT = 6  # of the one that waits, in a slice: VM, pods, events, nodes


def step(operator, seconds: float, cursor: str | None, begun: bool, run_id: str = "r"):
    request = operator.request(Intent.DRAINED, run_id, seconds)
    return service.run_slice(replace(request, begun=begun, cursor=cursor))


def ours(sim) -> list:
    return [call for call in sim.log if call.user == "maintenance"]


def of_one_that_waits(method: str, what: str, query: str) -> bool:
    """On a busy machine one migration may wait beside free places: its VM, its pods, its events, the nodes of these."""
    pods = what == "pods" and query.startswith("limit=500&labelSelec")
    return method == "GET" and (pods or what in ("events", "n2", "n3") or what.startswith("vm"))


def test_a_drain_makes_few_requests(sim, operator) -> None:
    for number in range(VMS):
        sim.add_vm(f"vm{number}", "n1", wait=False, migrate_seconds="3")
    for number in range(VMS):
        sim.until(lambda number=number: sim.running(f"vm{number}"))
    begun = len(ours(sim))
    slices, found = 1, step(operator, 1.5, "", False)
    while found["ended"] != "final":
        slices, found = slices + 1, step(operator, 1.5, found["cursor"], True)
    assert found["phase"] == "Drained" and slices > 2
    calls = ours(sim)[begun:]
    kinds = Counter((c.method, c.path.split("/")[-1], c.query[:20]) for c in calls)
    waiting = {kind: count for kind, count in kinds.items() if of_one_that_waits(*kind)}
    waits = sum(waiting.values())
    made = len(calls) - waits
    assert waits <= PER_WAIT * slices
    assert len({what for _method, what, _query in waiting if what.startswith("vm")}) <= slices
    print(f"{made} requests = {made / VMS:.2f} a VM, {slices} slices: {kinds.most_common()}")
    assert made <= PER_VM * VMS + PER_SLICE * (slices - 1) + PER_DRAIN + PER_LOOK * min(slices, kinds[LOOK])


def test_a_server_that_does_not_stream_lists_is_asked_once(sim, operator) -> None:
    sim.api.streams_lists = False
    for number in range(3):
        sim.add_vm(f"vm{number}", "n1")
    found = step(operator, 30.0, "", False)
    assert found["phase"] == "Drained"
    asked = [call for call in ours(sim) if "sendInitialEvents" in call.query]
    assert [call.status for call in asked] == [422]


def test_the_next_slice_goes_on_without_reading_the_node(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="20")
    first = step(operator, 1.0, "", False)
    begun = len(ours(sim))
    second = step(operator, 0.5, first["cursor"], True)
    assert second["ended"] == "out_of_time"
    paths = [(call.method, call.path.split("/")[-1]) for call in ours(sim)[begun:]]
    assert ("GET", "n1") not in paths and ("PATCH", "n1") not in paths
    last = step(operator, 30.0, second["cursor"], True)
    assert last["phase"] == "Drained" and "cursor" not in last
    assert evictions(sim) == ["vm"]
    (lease,) = sim.all(LEASES)
    assert lease["spec"]["holderIdentity"] == ""


def test_a_cursor_that_is_lost_costs_reads_and_nothing_else(sim, operator) -> None:
    sim.add_vm("vm", "n1", migrate_seconds="20")
    step(operator, 1.0, None, False)
    found = step(operator, 30.0, "no cursor of ours", True)
    assert found["phase"] == "Drained" and evictions(sim) == ["vm"]


def test_a_run_that_keeps_the_lease_lets_in_who_waits(sim, operator) -> None:
    """An abort must not wait for the end of the drain."""
    sim.add_vm("vm", "n1", migrate_seconds="300")
    first = step(operator, 1.0, "", False, "first")
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(step, operator, 0.5, None, False, "second")
        sim.until(lambda: WANTED in words.annotations(sim.find(LEASES, LEASE)))
        with pytest.raises(Superseded, match="second"):
            step(operator, 0.5, first["cursor"], True, "first")
        assert second.result()["run_id"] == "second"
    lease = sim.find(LEASES, LEASE)
    assert lease["spec"]["holderIdentity"] == "" and WANTED not in words.annotations(lease)
    operator.restore()


def test_a_cursor_is_void_when_another_run_was_at_work(sim, operator) -> None:
    """What it says of the record would undo what the other one wrote."""
    sim.add_vm("vm", "n1", migrate_seconds="300")
    first = step(operator, 1.0, "", False, "first")
    sim.edit(LEASES, LEASE, lambda o: o["spec"].update(holderIdentity=""), "default")
    step(operator, 0.5, None, False, "second")
    with pytest.raises(Superseded, match="second"):
        step(operator, 0.5, first["cursor"], True, "first")
    assert '"second"' in sim.find(NODES, "n1")["metadata"]["annotations"]["virtops.maintenance/record"]
    operator.restore()


def test_a_slice_that_lost_its_lease_writes_nothing_more(sim, operator, monkeypatch) -> None:
    """Its first write comes later than the Lease allows, and another run has it by then."""
    sim.add_vm("vm", "n1", migrate_seconds="300")
    late = KubeVirtPlatform.observe

    def observe(platform, record):
        monkeypatch.setattr(lock.Lock, "_gone", lambda _lock: 40.0)
        sim.edit(LEASES, LEASE, lambda o: o["spec"].update(holderIdentity="other"), "default")
        return late(platform, record)

    monkeypatch.setattr(KubeVirtPlatform, "observe", observe)
    with pytest.raises(Superseded, match="taken the Lease"):
        step(operator, 1.0, "", False)
    others = [call for call in ours(sim) if "/leases" not in call.path and "accessreviews" not in call.path]
    assert {call.method for call in others} == {"GET"}
    assert sim.find(LEASES, LEASE)["spec"]["holderIdentity"] == "other"
