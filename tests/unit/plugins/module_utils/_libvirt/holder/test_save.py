"""Saves in the holder: nobody waits for one, a second order is the first, errors are kept."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    Job,
    Node,
    Observation,
    OnNotMigratable,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import (
    Attempt,
    NodeRecord,
    VMRecord,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import save as holder_save
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.order import OrderError
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.save import Saves
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.holder_status import (
    note_never,
    note_saves,
    note_stops,
)


class Refused(Exception):
    """As libvirt.libvirtError."""


class Machine:
    """A hypervisor whose saves go on until they are let go."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.go = threading.Event()
        self.error = ""
        self.at_once = self.most = 0

    def local(self) -> Any:
        conn = SimpleNamespace(lookupByUUIDString=self._domain)
        return SimpleNamespace(conn=conn, close=lambda: None)

    def _domain(self, uuid: str) -> Any:
        def save(_flags: int) -> None:
            self.calls.append(uuid)
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            self.go.wait(60)
            self.at_once -= 1
            if self.error:
                raise Refused(self.error)

        return SimpleNamespace(isActive=lambda: True, managedSave=save)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(holder_save, "libvirt", SimpleNamespace(libvirtError=Refused))
    return Machine()


def saves(machine: Machine, events: list[dict[str, Any]]) -> Saves:
    return Saves(machine, events.append, lambda _text: None)  # type: ignore[arg-type]


def order(uuid: str) -> dict[str, str]:
    return {"order": "save", "uuid": uuid, "name": f"vm-{uuid}"}


def until(what: Any) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_order_returns_at_once_and_the_same_again_is_held(machine: Machine) -> None:
    events: list[dict[str, Any]] = []
    made = saves(machine, events)
    assert made.order(order("u")) == {"result": "accepted"}
    until(lambda: machine.calls == ["u"])
    assert made.order(order("u")) == {"result": "held"}
    assert made.status() == {"u": ""}
    assert not made.idle
    machine.go.set()
    until(lambda: events)
    assert (events[0]["event"], events[0]["job"]["uuid"]) == ("over", "u")
    assert (made.status(), made.idle, machine.calls) == ({}, True, ["u"])


def test_an_error_stands_in_the_words_of_libvirt_until_it_is_asked_again(machine: Machine) -> None:
    events: list[dict[str, Any]] = []
    made = saves(machine, events)
    machine.error = "cannot migrate domain: vhost-user device"
    machine.go.set()
    made.order(order("u"))
    until(lambda: events)
    assert made.status() == {"u": "cannot migrate domain: vhost-user device"}
    assert made.idle
    machine.error = ""
    machine.go.clear()
    assert made.order(order("u")) == {"result": "accepted"}
    assert made.status() == {"u": ""}
    machine.go.set()
    until(lambda: made.idle)


def test_two_go_on_at_once_and_the_others_wait_for_them(machine: Machine) -> None:
    made = saves(machine, [])
    for uuid in "abcd":
        made.order(order(uuid))
    until(lambda: len(machine.calls) == 2)
    time.sleep(0.05)
    assert set(made.status()) == set("abcd")
    machine.go.set()
    until(lambda: made.idle)
    assert (sorted(machine.calls), machine.most) == (list("abcd"), 2)


def test_one_that_has_not_begun_can_be_withdrawn(machine: Machine) -> None:
    made = saves(machine, [])
    for uuid in "abcd":
        made.order(order(uuid))
    until(lambda: len(made.queued()) == 2)
    begun, waits = sorted(set("abcd") - set(made.queued())), sorted(made.queued())
    assert made.withdraw(order(waits[0])) == {"result": "withdrawn"}
    assert made.withdraw(order(waits[0])) == {"result": "none"}
    assert made.withdraw(order(begun[0])) == {"result": "held"}
    assert set(made.status()) == {*begun, waits[1]}
    machine.go.set()
    until(lambda: made.idle)
    assert sorted(machine.calls) == sorted([*begun, waits[1]])


def test_one_that_is_ordered_again_is_saved_once(machine: Machine) -> None:
    made = saves(machine, [])
    for uuid in "abc":
        made.order(order(uuid))
    until(lambda: len(made.queued()) == 1)
    (waits,) = made.queued()
    made.withdraw(order(waits))
    assert made.order(order(waits)) == {"result": "accepted"}
    machine.go.set()
    until(lambda: made.idle)
    assert sorted(machine.calls) == list("abc")


def test_an_order_names_the_vm(machine: Machine) -> None:
    with pytest.raises(OrderError, match="uuid"):
        saves(machine, []).order({"order": "save", "uuid": None})


def record_of(**stops: dict[str, Any]) -> NodeRecord:
    entries = {uuid: VMRecord(uuid, uuid, **stop) for uuid, stop in stops.items()}
    return NodeRecord("a", "run-2", vms=entries)


def test_the_error_of_a_save_is_told_of_that_save_only() -> None:
    """The holder that knows it may live on, and a later run may stop the VM in another way."""
    asked = {"stop_started": 3.0, "stop_sent": 5.0}
    record = record_of(
        saved={"stop_way": "save", **asked},
        not_yet={"stop_way": "save", "stop_started": 3.0, "stop_sent": -7.0},
        shut={"stop_way": "shutdown", "stop_requests": 1, **asked},
        moved={},
    )
    obs = Observation({}, {u: VM(u, u, "a") for u in record.vms})
    note_saves(obs, record, dict.fromkeys([*record.vms, "unknown"], "no space"), ())
    note_stops(obs, record, {})
    assert set(obs.stop_errors) == {"saved"}


def test_what_the_holder_says_of_a_migration_that_does_not_converge_is_said_of_its_vm() -> None:
    job = Job(iteration=7)
    obs = Observation({"a": Node("a")}, {u: VM(u, u, "a", job=job if u == "u" else None) for u in ("u", "idle")})
    note_never(obs, {"u": "writes 180 MiB/s", "idle": "it is over", "gone": ""})
    assert obs.vms["u"].job == replace(job, finding=Finding(Reason.NotConverging, "writes 180 MiB/s"))
    assert obs.vms["idle"].job is None
    record = record_of(u={"attempts": [Attempt(1, "b", "", 1.0, "boot", run_id="run-2")]})
    entry = decide(obs, {"a": record}, Policy()).records["a"].vms["u"]
    assert (entry.reason, entry.message) == ("NotConverging", "writes 180 MiB/s")


def test_the_error_of_a_save_that_an_earlier_run_ordered_is_told_of_it() -> None:
    """It was under way when this run began, which took it up."""
    policy = Policy(allow_stop=True, on_not_migratable=OnNotMigratable.SAVE)
    guest = VM("u", "u", "a", migratable=False, findings=(Finding(Reason.HostDeviceNotLiveMigratable),))
    node = Node("a", boot_id="boot", cordoned=True)
    record = record_of(u={"stop_way": "save", "stop_sent": 5.0, "stop_started": 5.0})
    record = begin(record, "a", "drained", "run-3", 100.0, "boot")
    obs = Observation({"a": node}, {"u": guest}, now=101.0)
    note_saves(obs, record, {"u": ""}, ())
    record = decide(obs, {"a": record}, policy).records["a"]
    obs = Observation({"a": node}, {"u": guest}, now=160.0)
    note_saves(obs, record, {"u": "no space"}, ())
    decision = decide(obs, {"a": record}, policy)
    assert "no space" in decision.records["a"].vms["u"].message
    assert [action.do for action in decision.actions] == [Do.SAVE]


def test_the_error_of_a_request_to_stop_is_not_told_of_a_save() -> None:
    record = record_of(
        saved={"stop_way": "save", "stop_requests": 1}, shut={"stop_way": "shutdown", "stop_requests": 1}
    )
    obs = Observation({}, {})
    note_stops(obs, record, {uuid: {"sent": True, "error": "no agent"} for uuid in record.vms})
    assert set(obs.stop_errors) == {"shut"}


def test_what_the_holder_knows_is_in_the_picture() -> None:
    """One that waits for its turn has a job, or it would be asked for and timed again."""
    vms = {u: VM(u, u, "a") for u in ("waits", "goes on", "failed")}
    obs = Observation({}, {**vms, "off": VM("off", "off", "a", State.SHUTOFF)})
    record = record_of(failed={"stop_way": "save", "stop_sent": 5.0})
    told = {"waits": "", "goes on": "", "failed": "no space", "off": "", "gone": ""}
    note_saves(obs, record, told, {"waits"})
    assert obs.vms["waits"].job == Job(outgoing=False, queued=True)
    assert obs.vms["goes on"].job == Job(outgoing=False, saving=True)
    assert obs.vms["failed"].job is None
    assert obs.vms["off"].job is None
    assert [f.message for f in obs.stop_errors.values()] == ["save: no space"]
