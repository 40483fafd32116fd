"""Requests to stop: nobody waits for a guest's agent, and a guest's time begins when it has one."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, Node, Observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder import stop as holder_stop
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.order import OrderError
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.holder.stop import Stops
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.observe.holder_status import note_stops
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run import act
from ansible_collections.virtops.maintenance.plugins.module_utils._libvirt.run.act import Actor

AGENT, ACPI = 2, 1
CHANNEL = """<domain id='1'><devices><channel type='unix'>
<target type='virtio' name='org.qemu.guest_agent.0' state='{}'/></channel></devices></domain>"""


class Refused(Exception):
    """As libvirt.libvirtError."""


class Machine:
    """A hypervisor. A call to an agent returns when the guest is let go."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.go = threading.Event()
        self.connected = True
        self.agent_error = self.acpi_error = ""

    def local(self) -> Any:
        return SimpleNamespace(conn=self, close=lambda: None)

    def lookupByUUIDString(self, uuid: str) -> Any:  # noqa: N802 - libvirt's name
        return self.domain(uuid)

    def domain(self, uuid: str) -> Any:
        def shutdown(flags: int) -> None:
            self.calls.append((uuid, "agent" if flags == AGENT else "acpi"))
            error = self.acpi_error
            if flags == AGENT:
                error = self.agent_error
                self.go.wait(60)
            if error:
                raise Refused(error)

        xml = CHANNEL.format("connected" if self.connected else "disconnected")
        return SimpleNamespace(isActive=lambda: True, XMLDesc=lambda _flags: xml, shutdownFlags=shutdown)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    binding = SimpleNamespace(
        libvirtError=Refused, VIR_DOMAIN_SHUTDOWN_GUEST_AGENT=AGENT, VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN=ACPI
    )
    for module in (holder_stop, act):
        monkeypatch.setattr(module, "libvirt", binding)
    made = Machine()
    yield made
    made.go.set()
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("stop-")])


def stops(machine: Machine) -> Stops:
    return Stops(machine, lambda _event: None, lambda _text: None)  # type: ignore[arg-type]


def order(uuid: str) -> dict[str, str]:
    return {"order": "shutdown", "uuid": uuid, "name": f"vm-{uuid}"}


def until(what: Any) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_is_to_be_done_for_others_does_not_wait_for_an_agent(machine: Machine) -> None:
    """Three guests whose agents do not return, and a request for a fourth VM behind them."""
    made = stops(machine)
    record = NodeRecord("a", "run", vms={u: VMRecord(u, u) for u in "uvwx"})
    sent: list[str] = []

    def send(raw: dict[str, Any]) -> None:
        if raw["order"] == "shutdown":
            made.order(raw)
        sent.append(raw["order"])

    source: Any = SimpleNamespace(name="a", domain=machine.domain)
    actor = Actor(source, {}, "a", send, dict, lambda: "now", lambda _uuid: ())

    def acts() -> None:
        for uuid in "uvw":
            assert actor.apply(Action(Do.SHUTDOWN, "a", uuid, uuid), record) is None
        assert actor.apply(Action(Do.WATCH, "a", "x", "x"), record) is None

    thread = threading.Thread(target=acts, name="acts", daemon=True)
    thread.start()
    until(lambda: sent == ["shutdown"] * 3 + ["watch"])
    assert not machine.go.is_set()
    until(lambda: sorted(machine.calls) == [(u, "agent") for u in "uvw"])
    assert not made.idle
    machine.go.set()
    until(lambda: made.idle)
    assert all(told == {"sent": True, "error": ""} for told in made.status().values())


def test_the_same_again_is_held(machine: Machine) -> None:
    made = stops(machine)
    assert made.order(order("u")) == {"result": "accepted"}
    assert made.order(order("u")) == {"result": "held"}
    machine.go.set()
    until(lambda: made.idle)
    assert made.order(order("u")) == {"result": "accepted"}


def test_an_agent_that_is_not_connected_is_not_asked(machine: Machine) -> None:
    machine.connected = False
    made = stops(machine)
    made.order(order("u"))
    until(lambda: made.idle)
    assert machine.calls == [("u", "acpi")]
    assert made.status() == {"u": {"sent": True, "error": ""}}


def test_where_all_places_are_taken_acpi_asks_at_once(machine: Machine) -> None:
    """The workers of libvirtd are not filled with guests that take their time."""
    made = stops(machine)
    for number in range(holder_stop.AGENTS + 3):
        made.order(order(str(number)))
    until(lambda: len(machine.calls) == holder_stop.AGENTS + 3)
    assert [way for _uuid, way in machine.calls].count("agent") == holder_stop.AGENTS


def test_an_agent_that_refuses_at_once_is_followed_by_acpi(machine: Machine) -> None:
    machine.agent_error = "Guest agent is not responding"
    machine.go.set()
    made = stops(machine)
    made.order(order("u"))
    until(lambda: made.idle)
    assert machine.calls == [("u", "agent"), ("u", "acpi")]
    assert made.status() == {"u": {"sent": True, "error": ""}}


def test_after_a_long_time_acpi_is_for_who_asks_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent took it, and the guest stays. By now the stop may not be wanted any more."""
    monkeypatch.setattr(holder_stop, "AGENT_ANSWERS", -1.0)
    machine.agent_error = "timed out"
    made = stops(machine)
    made.order(order("u"))
    until(lambda: made.status()["u"]["sent"])
    machine.go.set()
    until(lambda: made.idle)
    assert machine.calls == [("u", "agent")]
    assert made.status() == {"u": {"sent": True, "error": "timed out"}}
    made.order(order("u"))
    until(lambda: made.idle)
    assert machine.calls == [("u", "agent"), ("u", "acpi")]


def test_a_request_that_failed_was_not_sent(machine: Machine) -> None:
    machine.connected, machine.acpi_error = False, "cannot acquire state change lock"
    made = stops(machine)
    made.order(order("u"))
    until(lambda: made.idle)
    assert made.status() == {"u": {"sent": False, "error": "cannot acquire state change lock"}}


def test_an_agent_that_has_not_answered_yet_was_not_asked(machine: Machine) -> None:
    made = stops(machine)
    made.order(order("u"))
    until(lambda: machine.calls)
    assert not made.status()["u"]["sent"]


def test_an_order_names_the_vm(machine: Machine) -> None:
    with pytest.raises(OrderError, match="uuid"):
        stops(machine).order({"order": "shutdown", "uuid": None})


def test_what_the_holder_knows_is_in_the_picture() -> None:
    entries = {u: VMRecord(u, u, stop_requests=1) for u in ("sent", "waits", "failed", "unknown")}
    record = NodeRecord("a", "run", vms={**entries, "other": VMRecord("other", "other")})
    obs = Observation({}, {})
    told = {
        "sent": {"sent": True, "error": ""},
        "waits": {"sent": False, "error": ""},
        "failed": {"sent": False, "error": "busy"},
        "other": {"sent": False, "error": "of an earlier run"},
    }
    note_stops(obs, record, told)
    assert obs.unsent == {"waits", "failed", "unknown"}
    assert {u: f.message for u, f in obs.stop_errors.items()} == {"failed": "shutdown: busy"}


def forced_at(sent_at: float) -> float:
    """When a deaf guest is switched off whose request was sent at that time; decided at 0."""
    policy = Policy(allow_stop=True, force_stop=True, shutdown_timeout=180.0, drain_timeout=9000.0)
    record = begin(None, "a", "drained", "run", 0.0, "boot")
    vm = VM("u", "vm", "a", declared_strategy="None")
    nodes = {n: Node(n, capacity_mib=9999, boot_id="boot", cordoned=n == "a") for n in "ab"}
    for now in range(1000):
        unsent = frozenset("u") if now < sent_at else frozenset()
        obs = Observation(nodes, {"u": replace(vm)}, now=1000.0 + now, unsent=unsent)
        decision = decide(obs, {"a": record}, policy)
        record = decision.records["a"]
        if Do.FORCE_OFF in {action.do for action in decision.actions}:
            return float(now)
    return float("inf")


@pytest.mark.parametrize("sent_at", [0.0, 1.0, 120.0, 179.0, 300.0])
def test_nobody_is_switched_off_before_its_full_time(sent_at: float) -> None:
    assert sent_at + 180 <= forced_at(sent_at) <= sent_at + 183


def test_who_was_never_asked_is_never_switched_off() -> None:
    assert forced_at(5000.0) == float("inf")
