"""A VM that is here and could not be read: nothing is concluded, and it is waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.strategy import Way, choose
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    EvictionStrategy,
    Job,
    Node,
    Observation,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Hooks, OnNotMigratable, Rule
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.input import request_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.observed import fleet_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.decision.test_facts_of_now import (
    BLOCKED,
    PLAIN,
    STOP,
    OneNode,
    only,
    web,
)

LOCKED = Finding(Reason.MigratableNotKnown, "web: cannot acquire state change lock")


def unread(**more) -> VM:
    """As the host's list has it, and no more."""
    found = (LOCKED,)
    more = {"migratable": None, "findings": found, "cold_findings": found, **more}
    return web(known=False, save_findings=found, **more)


def test_a_vm_that_could_not_be_read_is_not_stopped() -> None:
    """What it declares is not known: it may be what keeps it from being stopped."""
    node = OneNode()
    assert node.step(unread(), policy=STOP) == []
    assert (node.entry.way, node.entry.message) == ("wait", LOCKED.message)
    found = node.step(web(declared_strategy="LiveMigrate"), policy=STOP)
    assert [a.do for a in found] == [Do.MIGRATE]


def test_autostart_is_not_lost_by_a_first_read_that_failed() -> None:
    node = OneNode()
    node.step(unread())
    moved = only(node.step(web(autostart=True)), Do.MIGRATE)
    assert (moved.autostart, moved.persistent) == (True, True)


def test_what_was_read_before_stays_in_the_record() -> None:
    node = OneNode()
    node.step(web(autostart=True, **BLOCKED))
    node.run()
    node.step(unread())
    assert (node.entry.autostart, node.entry.persistent) == (True, True)


def test_no_rule_is_asked_about_a_vm_that_could_not_be_read() -> None:
    rules = (Rule("first", when=lambda _document: None),)
    choice = choose(unread(), replace(STOP, rules=rules))
    assert (choice.way, choice.findings) == (Way.WAIT, (LOCKED,))
    assert choose(replace(unread(), findings=()), STOP).findings[0].reason is Reason.MigratableNotKnown


def test_one_that_cannot_be_read_at_all_is_named_with_the_words_of_the_error() -> None:
    """Never is the node called empty or drained with it."""
    node = OneNode()
    for _second in range(int(PLAIN.unknown_timeout)):
        node.step(unread())
        assert node.phase is NodePhase.DRAINING
        assert node.entry.message == LOCKED.message
    node.step(unread())
    node.step(unread())
    assert node.phase is NodePhase.BLOCKED
    entry = node.entry
    assert (entry.ending, entry.reason, entry.message) == ("blocked", "MigratableNotKnown", LOCKED.message)


@pytest.mark.parametrize("unknown", [unread(), web(migratable=None)])
def test_two_short_times_are_not_one_long_time(unknown: VM) -> None:
    """In between it was known, and waited for its turn."""
    node = OneNode()
    node.step(unknown)
    assert node.step(web(), cluster_in_flight=99) == []
    node.now += 2 * PLAIN.unknown_timeout
    node.step(unknown)
    assert node.entry.ending == ""


def test_what_was_decided_before_is_not_taken_back() -> None:
    """An earlier run asked it to stop, and this one will want it too, once it can read it."""
    node = OneNode()
    node.step(web(autostart=True), policy=STOP)
    node.run()
    assert node.step(unread(), policy=STOP) == []
    assert node.entry.stop_way == "shutdown"
    assert [a.do for a in node.step(web(), policy=STOP)] == [Do.SHUTDOWN]
    assert node.entry.autostart


def test_hooks_that_were_named_stay_named() -> None:
    rules = (Rule("r", when=bool, hooks=Hooks(after="after.yml")),)
    policy = replace(PLAIN, rules=rules)
    node = OneNode()
    node.step(web(document={"name": "web"}, **BLOCKED), policy=policy)
    assert node.entry.hook_after == "after.yml"
    node.run()
    node.step(unread(), policy=policy)
    assert node.entry.hook_after == "after.yml"


def test_one_that_left_unread_is_left_as_it_is_there() -> None:
    """Somebody else moved it, and it starts with its host there: so it stays."""
    node = OneNode()
    node.step(unread())
    node.step(unread(job=Job()), sightings={"u1": [Sighting("b", State.INCOMING)]})
    there = {"u1": [Sighting("b", State.RUNNING, autostart=True)]}
    assert node.step(sightings=there) == []
    assert (node.entry.ending, node.entry.at) == ("moved", "b")


def test_one_that_is_off_is_moved_as_it_is() -> None:
    """A first read that failed blocks nothing, and costs it no autostart."""
    policy = replace(PLAIN, move_inactive=True)
    node = OneNode()
    assert node.step(unread(state=State.SHUTOFF), policy=policy) == []
    assert node.phase is NodePhase.DRAINING
    found = only(node.step(web(state=State.SHUTOFF, autostart=True), policy=policy), Do.COLD_DEFINE)
    assert found.autostart
    node = OneNode()
    node.step(unread(state=State.SHUTOFF))  # it stays here anyhow
    assert node.entry.ending == "off"


def test_whether_it_was_saved_is_told_when_it_is_known() -> None:
    node = OneNode()
    node.step(web(), policy=STOP)
    node.step(unread(state=State.SHUTOFF), policy=STOP)
    assert (node.entry.ending, node.phase) == ("", NodePhase.DRAINING)
    node.step(web(state=State.SHUTOFF, managed_save=True), policy=STOP)
    assert node.entry.ending == "saved"


def test_an_owner_who_was_asked_has_the_time_that_was_promised() -> None:
    """No more and no less, though the VM could not be read once meanwhile."""
    policy = replace(PLAIN, default_strategy=EvictionStrategy.EXTERNAL, external_timeout=300.0)
    node = OneNode()
    node.step(web(), policy=policy)
    node.now = 200.0
    node.step(unread(), policy=policy)
    assert node.phase is NodePhase.DRAINING
    node.step(web(marked=True), policy=policy)
    assert (node.entry.reason, node.entry.waiting_since) == (Reason.ExternalOwner.value, 1.0)
    node.now = 301.5
    node.step(web(marked=True), policy=policy)
    assert node.phase is NodePhase.BLOCKED


def test_a_stop_that_came_late_is_not_given_up_at_a_read_that_failed() -> None:
    """And why it was stopped stays its reason."""
    policy = replace(PLAIN, on_not_migratable=OnNotMigratable.SHUTDOWN, allow_stop=True)
    node = OneNode()
    node.step(web(migratable=None), policy=policy)
    node.now = 50.0
    assert [a.do for a in node.step(web(**BLOCKED), policy=policy)] == [Do.SHUTDOWN]
    node.now = 90.0
    node.step(unread(state=State.SHUTOFF), policy=policy)
    assert node.phase is NodePhase.DRAINING
    node.step(web(state=State.SHUTOFF, **BLOCKED), policy=policy)
    assert (node.entry.ending, node.entry.reason) == ("stopped", Reason.SnapshotsPresent.value)


def test_a_restore_forgets_nothing_of_a_vm_that_it_cannot_read() -> None:
    """Its autostart was switched off by us, and its owner has started it since."""
    node = OneNode()
    node.step(web(autostart=True), policy=STOP)
    node.step(web(state=State.SHUTOFF), policy=STOP)
    node.step(web(state=State.SHUTOFF), policy=STOP)
    node.run("active")
    assert node.step(unread()) == []
    assert node.phase is NodePhase.RESTORING
    assert [a.do for a in node.step(web())] == [Do.AUTOSTART_ON]


def test_a_restore_does_not_wait_for_a_vm_that_it_has_not_touched() -> None:
    node = OneNode()
    node.step(unread())
    node.run("active")
    assert [a.do for a in node.step(unread())] == [Do.FORGET]


def test_the_plan_stops_no_vm_that_could_not_be_read() -> None:
    node = Node("a", capacity_mib=4096)
    rows = fleet_of(Observation({"a": node}, {"u1": unread()}), "a")
    found = request_of([rows["host"]], rows["vms"], ["a"], STOP).vms["u1"]
    assert (found.known, choose(found, STOP).way) == (False, Way.WAIT)
