"""The VM that runs the maintenance: moved last, and never stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.decide import decide
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.strategy import (
    Way,
    choose,
    choose_requested,
    strongest,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, OnNotMigratable
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy, Rule
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform, Reason
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.observer import Broken
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import (
    ALLOWED,
    DEVICE,
    FIXED,
    POLICY,
    ended,
    on,
    run,
    two,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.test_interleaved import (
    ALL_EVENTS,
    allowed,
    fleets,
    plans,
    quick,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import Run, World, vm
from fleetsim.platform import ModelPlatform

US = "VM vm1 is the machine that Ansible runs on."
STOPS = frozenset({Do.SHUTDOWN, Do.SAVE, Do.FORCE_OFF, Do.COLD_DEFINE, Do.AUTOSTART_OFF})


def us(domain):
    domain.spec = replace(domain.spec, control_node=US)
    return domain


# Properties


@given(
    st.sampled_from(["LiveMigrate", "LiveMigrateIfPossible", "None", "External", "?", None]),
    st.sampled_from([True, False, None]),
    st.sampled_from(list(OnNotMigratable)),
    st.sampled_from([None, True]),
)
def test_nothing_chooses_a_stop_for_it(declared, migratable, on_not, by_rule) -> None:
    found = DEVICE if migratable is False else ()
    one = VM(
        "u", "vm", "a", declared_strategy=declared, migratable=migratable, findings=found,
        control_node=US,
    )  # fmt: skip
    rules = (Rule("stop", lambda _document: True, allow_stop=True),) if by_rule else ()
    policy = Policy(rules=rules, on_not_migratable=on_not, allow_stop=True)
    for choice in (choose(one, policy), choose_requested(one, policy)):
        assert choice.way not in (Way.SHUTDOWN, Way.SAVE, Way.COLD_MIGRATE)
        other = (choose if choice.decided_by != "asked for" else choose_requested)(
            replace(one, control_node=""), policy
        )
        if other.way in (Way.SHUTDOWN, Way.SAVE, Way.COLD_MIGRATE):
            why = strongest(choice, Platform.LIBVIRT)
            assert why is not None and why.reason is Reason.RunsTheMaintenance
        else:
            assert choice == other


class Watched(World):
    """Looks at each act on one VM."""

    us = ""

    def _watch(self, action):
        here = self.fleet.machines[action.node].domains.get(self.us)
        if action.vm == self.us and action.do in STOPS and here is not None and here.active:
            raise Broken(f"{action.do.value} of the VM that runs us")
        if action.vm == self.us and action.do in (Do.MIGRATE, Do.MARK):
            record = NodeRecord.from_json(self.fleet.machines[action.node].record)
            left = [e.name for u, e in record.vms.items() if u != self.us and not e.ending]
            if left:
                raise Broken(f"{action.do.value} of the VM that runs us, before {left}")
        return super()._watch(action)


@quick
@given(fleets(), plans(ALL_EVENTS), st.sampled_from([5.0, 30.0]), st.integers(0, 6))
def test_it_is_never_stopped_and_goes_last(made, plan, seconds, number) -> None:
    """Whatever kind of VM it is, and whatever happens meanwhile."""
    here = [d for m in made.machines.values() for d in m.domains.values()]
    domain = us(here[number % len(here)])
    world = Watched(made, allowed(force_stop=True), plan, seconds)
    world.us = domain.spec.uuid
    for done in world.go(Run("a"), Run("b"), Run("c")):
        assert done.result.phase in (NodePhase.DRAINED, NodePhase.BLOCKED)


# Stories


def test_it_is_moved_when_all_others_have_gone() -> None:
    """Larger than they are, and of higher priority: it would be the first."""
    first = Rule("first", lambda document: bool(document.get("us")), priority=9)
    made = two(us(vm(1, "a", 4096, document={"us": True})), *(vm(n, "a", 512) for n in range(2, 6)))
    outcome = run(made, replace(POLICY, rules=(first,)))
    assert outcome.phase is NodePhase.DRAINED
    own = outcome.record.vms["u1"].attempts
    others = [e.attempts[-1] for u, e in outcome.record.vms.items() if u != "u1"]
    assert len(own) == 1 and own[0].started >= max(a.ended_at for a in others)


def test_meanwhile_it_says_whom_it_waits_for() -> None:
    made = two(us(vm(1, "a")), *(vm(n, "a") for n in range(2, 7)))
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "drained", "run", platform.now(), platform.own.boot_id)
    entry = Engine(platform, POLICY, record).run(platform.now() + 0.5).record.vms["u1"]
    assert (entry.ending, entry.attempts, entry.reason) == ("", [], "RunsTheMaintenance")
    assert entry.message == f"{US} It is moved last: vm2, vm3, vm4 and 2 more first."


def test_others_that_stay_do_not_keep_it() -> None:
    outcome = run(two(us(vm(1, "a")), vm(2, "a", **FIXED)))
    assert ended(outcome) == ("moved", "")
    assert ended(outcome, "u2") == ("blocked", Reason.HostDeviceNotLiveMigratable.value)


def test_an_owner_is_asked_to_move_it_when_others_have_gone() -> None:
    made = two(us(vm(1, "a", declared_strategy="External")), vm(2, "a"))
    seen = []

    def look(action):
        if action.vm == "u1":
            seen.append((action.do, "u2" in made.machines["a"].domains))

    outcome = run(made, fails=look)
    assert ended(outcome) == ("blocked", "ExternalOwnerTimedOut")
    assert seen[0] == (Do.MARK, False)


@pytest.mark.parametrize("kind", ["shutdown", "save", "cold_migrate"])
def test_where_it_would_be_stopped_it_blocks_and_says_so(kind: str) -> None:
    made = two(us(vm(1, "a", **FIXED)))
    outcome = run(made, on(kind))
    assert ended(outcome) == ("blocked", "RunsTheMaintenance")
    message = outcome.record.vms["u1"].message
    assert message.startswith(US) and "a card" in message
    assert made.machines["a"].domains["u1"].active


def test_a_stop_that_was_begun_before_it_was_known_is_not_gone_on_with() -> None:
    made = two(vm(1, "a", autostart=True, shutdown_takes=None, **FIXED))
    policy = replace(on("shutdown"), force_stop=True)
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "drained", "run", platform.now(), platform.own.boot_id)
    Engine(platform, policy, record).run(platform.now() + 2.0)
    domain = made.machines["a"].domains["u1"]
    assert not domain.autostart
    us(domain)
    acts = []
    outcome = run(made, policy, fails=lambda action: acts.append(action.do))
    assert ended(outcome) == ("blocked", "RunsTheMaintenance")
    assert not STOPS & set(acts)
    assert domain.active and domain.autostart


def test_check_mode_shows_its_move_with_all_others() -> None:
    made = two(us(vm(1, "a")), vm(2, "a"))
    platform = ModelPlatform(made, "a")
    record = begin(None, "a", "drained", "run", platform.now(), platform.own.boot_id)
    obs = platform.observe(record)
    for in_turn, moving in ((True, {"u2"}), (False, {"u1", "u2"})):
        decision = decide(obs, {"a": record}, replace(ALLOWED, in_turn=in_turn))
        assert {a.vm for a in decision.actions if a.do is Do.MIGRATE} == moving
