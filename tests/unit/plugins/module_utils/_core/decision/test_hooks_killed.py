"""Hooks of rules in runs that fail or are killed at any point: each pair is closed all the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Reason
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.hooked import (
    WEB,
    Caller,
    Killed,
    hooked,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.stories import (
    ALLOWED,
    FIXED,
    on,
    two,
)
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import vm
from fleetsim.machines import Domain
from fleetsim.platform import ModelPlatform
from tier import points

KINDS = ("migrate", "shutdown", "save", "cold_migrate")


def population(kinds: tuple[str, ...]) -> list[Domain]:
    made = []
    for number, kind in enumerate(kinds, 1):
        fixed = FIXED if kind != "migrate" else {}
        made.append(vm(number, "a", autostart=number % 2 == 0, **fixed, **(WEB if number % 3 else {})))
    return made


# The other two take longest; tests/perturb kills there too.
@pytest.mark.parametrize(
    "kind", ["shutdown", "save", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("migrate", "cold_migrate"))]
)
def test_killed_at_every_point_it_is_carried_on_and_no_answer_is_lost(kind: str) -> None:
    """A hook may be run twice if it was killed before its answer was written, never after."""
    policy = hooked(on(kind) if kind != "migrate" else ALLOWED)
    for number in points():
        made = two(*population(("migrate", kind, kind)))
        caller = Caller(made, policy, kill_at=number)
        try:
            caller.run()
        except Killed:
            pass
        else:
            break
        record = ModelPlatform(made, "a").load()
        written = {u: e.hook_stage for u, e in record.vms.items()} if record else {}
        before = len(caller.asked)
        caller.kill_at = 0
        assert caller.run(name="second").phase is NodePhase.DRAINED, number
        for hook, uuid in caller.asked[before:]:
            assert written.get(uuid, "") not in (hook, "after"), (number, hook, uuid)
        for uuid in ("u1", "u2"):
            assert made_pair(caller.asked, uuid) == ["before", "after"], (number, caller.asked)
    assert number > 30


def made_pair(asked: list[tuple[str, str]], uuid: str) -> list[str]:
    """The hooks of one VM in order, with what was run again left out."""
    found: list[str] = []
    for hook, of in asked:
        if of == uuid and found[-1:] != [hook]:
            found.append(hook)
    return found


@settings(max_examples=60)
@given(
    kinds=st.lists(st.sampled_from(("migrate", "fixed")), min_size=1, max_size=5),
    on_not=st.sampled_from(KINDS[1:]),
    fails=st.sets(st.tuples(st.sampled_from(("before", "after")), st.integers(1, 5)), max_size=3),
    kills=st.lists(st.integers(1, 60), max_size=3),
    restores=st.booleans(),
)
def test_every_run_ends_and_nothing_is_touched_unasked(
    kinds: list[str], on_not: str, fails: set[tuple[str, int]], kills: list[int], restores: bool
) -> None:
    """`Caller._watch` holds the promise at each act; here runs fail, are killed and carried on."""
    made = two(*population(tuple(kinds)))
    caller = Caller(made, hooked(on(on_not)))
    caller.fails = {(hook, f"u{number}") for hook, number in fails}
    for life, kill in enumerate(kills):
        caller.kill_at, caller.count = kill, 0
        try:
            caller.run(name=f"life{life}")
        except Killed:
            continue
    caller.kill_at, caller.fails = 0, set()
    intent, wanted = ("active", NodePhase.ACTIVE) if restores else ("drained", NodePhase.DRAINED)
    outcome = caller.run(intent, "last")
    if restores and outcome.phase is NodePhase.BLOCKED:
        # Asked to stop by a run that was killed: whether the guest will is not known.
        assert {e.reason for e in outcome.record.vms.values() if e.ending == "blocked"} == {
            Reason.ShutdownTimedOut.value
        }
        outcome = caller.run(intent, "once more")
    assert outcome.phase is wanted
    assert caller.opened == set()  # each pair that was opened was closed
