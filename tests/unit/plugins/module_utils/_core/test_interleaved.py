"""Properties of several runs at once, with faults: see world.py for what the observer checks."""

from __future__ import annotations

import os
from dataclasses import replace

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    EvictionStrategy,
    OnNotMigratable,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits, Rule
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.observer import describe
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import (
    POLICY,
    Run,
    World,
    fleet,
    vm,
)
from fleetsim.machines import Fate
from tier import share

quick = settings(
    max_examples=int(
        os.environ.get("VIRTOPS_EXAMPLES", share(40, quick=15))
    ),  # more: thousands a minute on a free core
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

FATES = {
    "ok": Fate(),
    "fail": Fate(fail_at=0.5),
    "hang": Fate(hang=True),
    "postcopy": Fate(post_copy=True),
    "breaks": Fate(post_copy=True, breaks=True),
    "heals": Fate(post_copy=True, breaks=True, heals_after=20.0),
    "leftover": Fate(leftover=True),
    "refused": Fate(refused_by=("d",)),
}
NOT_HERE = (Finding(Reason.HostDeviceNotLiveMigratable, "a device"),)
KINDS = {
    "live": {},
    "autostart": {"autostart": True},
    "transient": {"persistent": False},
    "marked": {"marked": True},
    "fixed": {"migratable": False, "findings": NOT_HERE},
    "shutdown": {"declared_strategy": "None", "may_stop": True, "document": {"may_stop": True}, "autostart": True},
    "transient_stop": {
        "declared_strategy": "None",
        "may_stop": True,
        "document": {"may_stop": True},
        "persistent": False,
    },
    "stuck": {"declared_strategy": "None", "may_stop": True, "document": {"may_stop": True}, "shutdown_takes": None},
    "slow_stop": {
        "declared_strategy": "None",
        "may_stop": True,
        "document": {"may_stop": True},
        "shutdown_takes": 30.0,  # longer than the policy gives it
    },
    "asked_late": {
        "declared_strategy": "None",
        "may_stop": True,
        "document": {"may_stop": True},
        "shutdown_takes": 12.0,
        "ask_takes": 20.0,  # longer than the policy gives the guest
    },
    "asleep": {"state": State.PAUSED},
    "forbidden_stop": {"declared_strategy": "None"},
    "external": {"declared_strategy": "External"},
    "unknown": {"migratable": None},
    "cold": {
        "migratable": False,
        "findings": NOT_HERE,
        "may_stop": True,
        "document": {"cold": True},
        "autostart": True,
    },
    "save": {
        "migratable": False,
        "findings": NOT_HERE,
        "may_stop": True,
        "document": {"save": True},
        "save_takes": 25.0,
    },
    "save_queued": {
        "migratable": False,
        "findings": NOT_HERE,
        "may_stop": True,
        "document": {"save": True},
        "autostart": True,
        "save_takes": 5.0,
        "save_waits": 40.0,
    },
    "if_possible": {
        "declared_strategy": "LiveMigrateIfPossible",
        "migratable": False,
        "findings": NOT_HERE,
        "may_stop": True,
        "document": {"may_stop": True},
    },
}
RULES = (
    Rule("stop", lambda d: bool(d.get("may_stop")), allow_stop=True),
    Rule(
        "cold",
        lambda d: bool(d.get("cold")),
        allow_stop=True,
        strategy=EvictionStrategy.LIVE_MIGRATE,
        on_not_migratable=OnNotMigratable.COLD_MIGRATE,
    ),
    Rule("save", lambda d: bool(d.get("save")), allow_stop=True, on_not_migratable=OnNotMigratable.SAVE),
)
CALM = ("live", "autostart", "transient", "shutdown", "transient_stop", "cold", "save")

small = st.integers(0, 40)
gaps = st.one_of(st.integers(0, 3), st.integers(0, 30), st.integers(0, 150))
SAFE_EVENTS = ("switch", "switch", "switch", "kill", "holder", "pause")
ALL_EVENTS = (*SAFE_EVENTS, "unreach", "crash", "stop", "vanish", "cordon", "steal", "single")


def plans(events: tuple[str, ...]) -> st.SearchStrategy:
    return st.lists(st.tuples(gaps, st.sampled_from(events), small), max_size=25)


@st.composite
def fleets(draw, kinds=tuple(KINDS), fates=tuple(FATES), ample: bool = False):
    """Three nodes to drain, two more. Capacity is plenty, or it is not."""
    vms = []
    for number in range(draw(st.integers(1, 7))):
        node = draw(st.sampled_from("abc"))
        kind = draw(st.sampled_from(kinds))
        memory = draw(st.sampled_from([512, 1024, 2048]))
        vms.append((node, vm(number, node, memory, **KINDS[kind])))
    size = 16384 if ample else draw(st.sampled_from([2048, 3072, 4096, 16384]))
    capacity = {"a": 16384, "b": 16384, "c": 16384, "d": size, "e": size}
    made = fleet(vms, capacity, draw(st.sampled_from([100.0, 1000.0])))
    drawn = draw(st.lists(st.sampled_from(fates), min_size=8, max_size=8))
    if ample:  # and one of eight attempts is
        drawn[draw(st.integers(0, 7))] = "ok"
    made.fate = lambda uuid, attempt: FATES[drawn[(int(uuid[1:]) + 3 * attempt) % 8]]
    return made


def allowed(**more):
    return replace(POLICY, rules=RULES, **more)


@quick
@given(fleets(), plans(ALL_EVENTS), st.sampled_from([5.0, 30.0, 1000.0]), st.booleans())
def test_three_nodes_drained_at_once(made, plan, seconds, force) -> None:
    world = World(made, allowed(force_stop=force), plan, seconds)
    for run in world.go(Run("a"), Run("b"), Run("c")):
        event(run.result.phase.value)
        assert run.result.phase in (NodePhase.DRAINED, NodePhase.BLOCKED)


@quick
@given(fleets(), plans(ALL_EVENTS), st.sampled_from([5.0, 30.0]))
def test_two_runs_on_one_node(made, plan, seconds) -> None:
    world = World(made, allowed(), plan, seconds)
    runs = world.go(Run("a"), Run("a"), Run("b"))
    assert runs[0].result or runs[1].result
    for run in runs:
        assert run.result or run.superseded


@quick
@given(fleets(CALM, ("ok", "postcopy", "leftover", "fail"), ample=True), plans(SAFE_EVENTS))
def test_run_again_after_kills_is_carried_on_to_the_end(made, plan) -> None:
    """Where nothing hinders it each node ends drained, wherever and however often it was killed."""
    # Eight of nine attempts may be fated to fail: with this back-off that is no hindrance.
    world = World(made, allowed(max_attempts=9, backoff=0.1), plan)
    for run in world.go(Run("a"), Run("b"), Run("c")):
        assert run.result.phase is NodePhase.DRAINED, describe(run.result)


def may_still_stop(entry: VMRecord) -> bool:
    return (entry.ending, entry.reason) == ("blocked", Reason.ShutdownTimedOut.value)


@quick
@given(fleets(), plans(ALL_EVENTS), st.integers(1, 300), st.booleans())
def test_abort_leaves_nothing_of_ours(made, plan, moment, foreign) -> None:
    """A drain is killed at some moment; the same nodes are asked to be active again."""
    if foreign:
        made.machines["a"].cordons.add("a person")
    world = World(made, allowed(), [(moment, "kill", 0), *plan])
    runs = [Run("a"), Run("b"), Run("c")]
    original = world._live

    def once(run: Run) -> None:
        if run.lives > 1:
            run.finished = True
        else:
            original(run)

    world._live = once
    world.go(*runs)
    world._live = original
    world.heal()
    cordoned = {m.name for m in made.machines.values() if "a person" in m.cordons}
    back = world.go(*[Run(n, "active", f"back-{n}") for n in "abc"])
    # A guest that was asked to stop and did not, and may still do: said once, then believed.
    doubtful = [r.node for r in back if any(map(may_still_stop, r.result.record.vms.values()))]
    if doubtful:
        back = [r for r in back if r.node not in doubtful]
        back += world.go(*[Run(n, "active", f"again-{n}") for n in doubtful])
    for run in back:
        assert run.result.phase in (NodePhase.ACTIVE, NodePhase.BLOCKED)
        if run.result.phase is NodePhase.ACTIVE:
            left = world.nothing_of_ours(run.node)
            assert left == [], left
        else:
            # Somebody moved it off its node, and the run of the other one has stopped it there.
            elsewhere = world.stolen & world.stopped
            harmed = world.excused | made.killed | elsewhere
            blocked = [e for e in run.result.record.vms.values() if e.ending in ("blocked", "lost")]
            assert blocked
            assert {e.uuid for e in blocked} <= harmed, run.result
    still = {m.name for m in made.machines.values() if "a person" in m.cordons}
    assert still == cordoned
    assert ("a" in still) >= foreign


@quick
@given(fleets(CALM, ample=True), plans(ALL_EVENTS))
def test_after_all_faults_are_mended_a_new_run_drains(made, plan) -> None:
    world = World(made, allowed(), plan)
    world.go(Run("a"), Run("b"), Run("c"))
    world.heal()
    world.uncordon_what_people_cordoned()
    for run in world.go(*[Run(n, "drained", f"again-{n}") for n in "abc"]):
        if run.result.phase is not NodePhase.DRAINED:
            bad = [e for e in run.result.record.vms.values() if e.ending in ("blocked", "lost")]
            # Somebody moved it off its node, and the run of the other one has stopped it there.
            elsewhere = world.stolen & world.stopped
            harmed = world.excused | made.killed | elsewhere
            assert {e.uuid for e in bad} <= harmed, describe(run.result)
            assert bad, describe(run.result)


@st.composite
def races(draw):
    """One or two targets, few places, and runs that are at the same point at the same time."""
    memory = draw(st.sampled_from([1024, 2048]))
    vms = [(node, vm(n, node, memory)) for n, node in enumerate("abcabc")]
    size = draw(st.sampled_from([2048, 3072, 16384]))
    targets = draw(st.sampled_from(["d", "de"]))
    made = fleet(vms, {**dict.fromkeys("abc", 2 * memory), **dict.fromkeys(targets, size)}, 100.0)
    limits = Limits(cluster=draw(st.integers(1, 3)), outbound=2, inbound=draw(st.integers(1, 3)))
    return made, limits


turns = st.lists(st.tuples(st.integers(0, 6), st.just("switch"), st.integers(0, 1)), min_size=5, max_size=60)


@quick
@given(races(), turns)
def test_racing_for_the_last_place(race, plan) -> None:
    made, limits = race
    world = World(made, allowed(limits=limits), plan)
    for run in world.go(Run("a"), Run("b"), Run("c")):
        assert run.result.phase in (NodePhase.DRAINED, NodePhase.BLOCKED)
