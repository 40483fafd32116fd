"""A record lives over many runs: what it says of a VM is what the VM is now."""

from __future__ import annotations

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import (
    Action,
    Decision,
    Do,
    NodePhase,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    EvictionStrategy,
    Job,
    Node,
    Observation,
    Reservation,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin

BLOCKED = {"migratable": False, "findings": (Finding(Reason.SnapshotsPresent, "x"),)}
FREE = {"migratable": True, "findings": ()}
PLAIN = Policy()
STOP = Policy(default_strategy=EvictionStrategy.NONE, allow_stop=True)


class OneNode:
    """Node a with its record, and b and c beside it; a step at a time, run after run."""

    def __init__(self) -> None:
        self.now = 0.0
        self.record = begin(None, "a", "drained", "r0", 0.0, "boot")
        self.last: Decision | None = None

    def run(self, intent: str = "drained") -> None:
        """Another run carries the record on."""
        self.now += 100.0
        name = f"r{self.now}"
        self.record = begin(self.record, "a", intent, name, self.now, "boot", fresh=True)
        self.last = None

    def step(self, *vms: VM, policy: Policy = PLAIN, **more) -> list[Action]:
        self.now += 1.0
        nodes = {n: Node(n, capacity_mib=10**5, cordoned=n == "a") for n in "abc"}
        nodes["a"].boot_id = "boot"
        obs = Observation(nodes, {v.uuid: v for v in vms}, now=self.now, **more)
        before = self.last.situations if self.last else None
        self.last = decide(obs, {"a": self.record}, policy, before)
        self.record = self.last.records["a"]
        return self.last.actions

    @property
    def phase(self) -> NodePhase:
        assert self.last is not None
        return self.last.phases["a"]

    @property
    def entry(self) -> VMRecord:
        return self.record.vms["u1"]


def web(**more) -> VM:
    return VM("u1", "web", "a", **{"memory_mib": 1024, **more})


def only(actions: list[Action], do: Do) -> Action:
    (found,) = [a for a in actions if a.do is do]
    return found


def test_a_vm_that_was_defined_since_stays_defined_on_its_target() -> None:
    """The remedy for a transient VM says to define it. Moved as one it would be undefined."""
    node = OneNode()
    node.step(web(persistent=False, **BLOCKED))
    assert node.entry.ending == "blocked"
    node.run()
    assert only(node.step(web(**FREE)), Do.MIGRATE).persistent


@pytest.mark.parametrize("now", [True, False])
def test_autostart_is_what_it_is_when_the_vm_goes(now: bool) -> None:
    node = OneNode()
    node.step(web(autostart=not now, **BLOCKED))
    node.run()
    assert only(node.step(web(autostart=now)), Do.MIGRATE).autostart is now


def test_room_is_reserved_for_the_memory_that_it_has_now() -> None:
    node = OneNode()
    node.step(web(**BLOCKED))
    node.run()
    assert only(node.step(web(memory_mib=16384)), Do.MIGRATE).memory_mib == 16384


def test_a_claim_that_stands_keeps_its_size() -> None:
    node = OneNode()
    node.step(web(**BLOCKED))
    node.run()
    claim = Reservation("u1", "b", "a", 1024)
    node.step(web(memory_mib=16384), claims={"u1": claim})
    assert node.entry.memory_mib == 1024


def test_what_was_defined_is_started_from_its_definition() -> None:
    """Started from what was written down while it was transient, its saved state would be lost."""
    node = OneNode()
    node.step(web(persistent=False), policy=STOP)
    node.step(web(state=State.SHUTOFF))  # defined after the request, and before it went off
    assert node.entry.ending == "stopped"
    node.run("active")
    node.step(web(state=State.SHUTOFF))
    assert node.entry.persistent


@pytest.mark.parametrize("late", [False, True])
def test_what_is_transient_at_its_stop_is_started_again(late: bool) -> None:
    """Seen as defined first, and undefined since, as for a copy of disks. Off, it is nowhere."""
    node = OneNode()
    node.step(web(**BLOCKED))
    node.run()
    if late:  # only after the request
        node.step(web(), policy=STOP)
        node.step(web(persistent=False), policy=STOP)
    else:
        node.step(web(persistent=False), policy=STOP)
    node.step()
    node.step()
    assert node.entry.ending == "stopped"
    node.run("active")
    node.step()
    assert only(node.step(), Do.START).vm == "u1"
    assert node.phase is NodePhase.RESTORING


def test_autostart_that_we_switched_off_is_not_taken_for_the_owners_word() -> None:
    """It went off for the maintenance, somebody started it, and now it moves."""
    node = OneNode()
    off = only(node.step(web(autostart=True), policy=STOP), Do.AUTOSTART_OFF)
    assert off.autostart
    node.step(web(state=State.SHUTOFF), policy=STOP)
    assert node.entry.ending == "stopped"
    node.run()
    node.step(web(**BLOCKED))
    node.run()
    assert only(node.step(web()), Do.MIGRATE).autostart
    # Switched on again and off by the owner: that is his word.
    node = OneNode()
    node.step(web(autostart=True), policy=STOP)
    node.step(web(state=State.SHUTOFF), policy=STOP)
    node.run()
    node.step(web(autostart=True, **BLOCKED))
    node.run()
    assert not only(node.step(web(autostart=False)), Do.MIGRATE).autostart


def test_what_a_vm_is_on_its_way_to_us_is_not_what_it_is() -> None:
    """It moved away and comes back: autostart is set when its move is finished, by who moved it."""
    node = OneNode()
    node.step(web(autostart=True, **BLOCKED))
    node.run()
    back = Reservation("u1", "a", "b", 1024)
    node.step(web(autostart=False, **BLOCKED), inbound=[back])
    assert node.entry.autostart
    node.step(web(autostart=False, **BLOCKED))
    assert not node.entry.autostart


def test_what_moves_is_not_learned_from() -> None:
    """Its definition is taken away here while its move ends."""
    node = OneNode()
    node.step(web(autostart=True))
    moving = web(autostart=False, persistent=False, job=Job())
    node.step(moving, sightings={"u1": [Sighting("b", State.INCOMING)]})
    assert (node.entry.persistent, node.entry.autostart) == (True, True)


def test_a_record_without_the_mark_is_read() -> None:
    text = NodeRecord("a", "r", vms={"u1": VMRecord("u1", "web")}).to_json()
    assert not NodeRecord.from_json(text.replace('"disarmed":false,', "")).vms["u1"].disarmed


def test_an_older_record_does_not_make_its_stop_the_owners_word() -> None:
    """It does not say that we switched autostart off; its owner has started the VM since."""
    node = OneNode()
    node.step(web(autostart=True), policy=STOP)
    node.step(web(state=State.SHUTOFF), policy=STOP)
    node.entry.disarmed = False
    node.run()
    node.step(web(**BLOCKED))
    node.step(web(**BLOCKED))
    assert node.entry.autostart
    node.run("active")
    assert only(node.step(web(**BLOCKED)), Do.AUTOSTART_ON)


@pytest.mark.parametrize("now", [True, False, None])
def test_whether_its_agent_is_connected_is_what_was_seen_last(now: bool | None) -> None:
    """A gate asks for that: an agent that the guest itself has ended before it moved is not missed."""
    node = OneNode()
    node.step(web(document={"agent_connected": True}, **BLOCKED))
    node.step(web(document={"agent_connected": now}, **BLOCKED))
    assert node.entry.agent is (now is True)
