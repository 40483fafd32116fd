"""The certificate: whatever speaks against it, one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.certificate import certify, problems
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    Job,
    Node,
    Observation,
    Reservation,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Ending, NodeRecord, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason


def record() -> NodeRecord:
    made = NodeRecord("a", "run", cordoned_by_us=True)
    for uuid, ending, at in (
        ("moved", Ending.MOVED, "b"),
        ("stopped", Ending.STOPPED, "a"),
        ("off", Ending.OFF, "a"),
        ("gone", Ending.GONE, ""),
    ):
        made.vms[uuid] = VMRecord(uuid, f"vm-{uuid}", ending=ending.value, at=at)
    return made


def read(now: float = 1.0) -> Observation:
    return Observation(
        nodes={"a": Node("a", cordoned=True, boot_id="1"), "b": Node("b")},
        vms={u: VM(u, f"vm-{u}", "a", State.SHUTOFF) for u in ("stopped", "off")},
        sightings={"moved": [Sighting("b", State.RUNNING)]},
        now=now,
    )


def test_a_drained_node_gets_one() -> None:
    certificate = certify(read(1.0), read(2.0), record())
    assert certificate is not None
    assert (certificate.first_read, certificate.second_read) == (1.0, 2.0)
    assert set(certificate.vms) == {"moved", "stopped", "off", "gone"}
    assert certificate.vms["moved"] == "moved to b"


@pytest.mark.parametrize(("waited", "phase"), [(0.0, "Draining"), (1e6, "Blocked")])
def test_an_empty_node_that_is_cordoned_now_is_nothing_to_complain_of(waited: float, phase: str) -> None:
    """One that cannot be cordoned is, once it was waited for."""
    made = NodeRecord("a", "run", intent="drained", waiting_since=0.0 if waited else None)
    found = decide(Observation({"a": Node("a"), "b": Node("b")}, {}, now=waited), {"a": made}, Policy())
    assert found.phases["a"].value == phase
    said = [finding.message for finding in found.node_findings.get("a", ())]
    assert said == (["a is not cordoned"] if waited else [])


def test_a_pod_that_stays_after_its_vm_has_left_is_named() -> None:
    seen = replace(read(1.0), vms={}, held=frozenset({"moved"}), held_by={"moved": "pod shop/virt-launcher-m"})
    made = replace(record(), intent="drained", vms={"moved": record().vms["moved"]})
    (finding,) = decide(seen, {"a": made}, Policy()).node_findings["a"]
    assert finding.reason is Reason.PodStillTerminating
    assert finding.message == f"{made.vms['moved'].name} has left, and its pod shop/virt-launcher-m has not ended"


def vm_on_it(state: State, job: Job | None = None):
    def break_it(obs, rec):
        obs.vms["stopped"] = replace(obs.vms["stopped"], state=state, job=job)

    return break_it


def ending(uuid: str, what: Ending):
    return lambda obs, rec: setattr(rec.vms[uuid], "ending", what.value)


BREAKS = {
    "one read of a host is missing": (
        lambda obs, rec: setattr(obs, "full", False), "not every host"),
    "the node is not read": (lambda obs, rec: obs.nodes.pop("a"), "not every host"),
    "the node is unreachable": (
        lambda obs, rec: setattr(obs.nodes["a"], "reachable", False), "not every host"),
    "not cordoned": (
        lambda obs, rec: setattr(obs.nodes["a"], "cordoned", False), "not cordoned"),
    "a VM runs": (vm_on_it(State.RUNNING), "is running"),
    "a VM is paused": (vm_on_it(State.PAUSED), "is paused"),
    "a VM arrives": (vm_on_it(State.INCOMING), "is incoming"),
    "a VM crashed": (vm_on_it(State.CRASHED), "is crashed"),
    "a job runs": (vm_on_it(State.SHUTOFF, Job()), "is shutoff"),
    "an inbound claim": (
        lambda obs, rec: obs.inbound.append(Reservation("x", "a", "c", 1)), "is arriving"),
    "a claim of ours": (
        lambda obs, rec: obs.claims.update(x=Reservation("x", "b", "a", 1)), "reservation"),
    "a holder": (lambda obs, rec: setattr(obs, "held", frozenset({"moved"})), "carried out"),
    "a VM that the record does not know": (
        lambda obs, rec: rec.vms.pop("off"), "not in the record"),
    "a pending VM": (ending("moved", Ending.NONE), "not accounted"),
    "a blocked VM": (ending("moved", Ending.BLOCKED), "not accounted"),
    "a skipped VM": (ending("off", Ending.SKIPPED), "not accounted"),
    "a lost VM": (ending("gone", Ending.LOST), "not accounted"),
    "a restored VM": (ending("off", Ending.RESTORED), "not accounted"),
    "a moved VM that is nowhere": (lambda obs, rec: obs.sightings.clear(), "not accounted"),
    "a moved VM that is elsewhere": (
        lambda obs, rec: obs.sightings.update(moved=[Sighting("c", State.RUNNING)]),
        "not accounted"),
    "a moved VM that runs at two hosts": (
        lambda obs, rec: obs.sightings["moved"].append(Sighting("c", State.RUNNING)),
        "not accounted"),
    "a host that was not read and may have a VM": (
        lambda obs, rec: setattr(obs.nodes["b"], "reachable", False), "may be on b"),
    "a stopped VM that runs elsewhere": (
        lambda obs, rec: obs.sightings.update(stopped=[Sighting("b", State.RUNNING)]),
        "not accounted"),
}  # fmt: skip


@pytest.mark.parametrize("what", BREAKS)
@pytest.mark.parametrize("which", ["first", "second"])
def test_refused(what: str, which: str) -> None:
    break_it, text = BREAKS[what]
    first, second, rec = read(1.0), read(2.0), record()
    broken = first if which == "first" else second
    break_it(broken, rec)
    assert any(text in problem for problem in problems(broken, rec))
    assert certify(first, second, rec) is None


def test_one_read_is_not_two() -> None:
    only = read()
    assert certify(None, only, record()) is None
    assert certify(only, only, record()) is None


def test_a_restart_between_the_reads() -> None:
    first, second = read(1.0), read(2.0)
    second.nodes["a"].boot_id = "2"
    assert certify(first, second, record()) is None
