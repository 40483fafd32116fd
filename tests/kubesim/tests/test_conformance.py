"""The simulator against what a real control plane answered and did.

expected/*.json holds, for each recorded scenario, the requests in their order and at their
times, the answers (status, message, reason, Retry-After), the heartbeats of the nodes, and the
orders in which VMIs (node, mark, EvictionRequested) and migrations (phase with all conditions)
changed, each object from its first state to its last. kubesim.replay plays and compares them,
kubesim.orders says in what form. The simulator itself never sees these files.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kubesim import Kubesim
from kubesim.replay import EXPECTED, Replay, check

# Not here as a replay: 17 (a node dies) is in test_cluster.py, by its moments; 18 (the bare API) is
# in test_api.py; 24 (refused writes) in test_refused.py. Compared by test_real_plane.py or nowhere:
# - the order of updates of different objects: they came by different watches;
# - what came together in one update: a watch does not tell which part was first;
# - which of several free nodes was chosen: nodes are compared as "the first, another one";
# - when something happened, but for what a request at its time meets;
# - other conditions and fields of VMIs (Ready, LiveMigratable, guest info, volume status; what
#   maintenance reads of them is in the answers), states of VMs, phases and annotations of pods;
# - texts, counts and times of events, Warning headers, managedFields.
# Server-side apply and PartialObjectMetadata (18) are not simulated: nobody here uses them.
# In 07, 26 and 30 agents took longer than their knobs said, on a machine with other work: these VMs
# have `slow` in the expectation. 26 has the requests of kubectl drain too, at the times of its log.


def scenarios() -> list[str]:
    return sorted(path.stem for path in EXPECTED.glob("*.json"))


def vms_of(name: str) -> int:
    return len(json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))["vms"])


def limits(sim: Kubesim, *names: str) -> None:
    """Those that it had when they were recorded."""
    if any(name[:2] in ("03", "09", "12", "15", "16") for name in names):
        sim.configure(migrations={"parallelMigrationsPerCluster": 12})
    elif any(name[:2] in ("19", "20", "22", "23", "26", "27", "28", "29", "30") for name in names):
        sim.configure(migrations={"parallelMigrationsPerCluster": 20})


def subject(step: dict[str, Any]) -> str:
    """The VM that a request is about; empty: none, or more than it."""
    text = f"{step.get('path', '')} {json.dumps(step.get('body'))}"
    found = set(re.findall(r"<(?:pod|migration) (\S+) \d+>|virtualmachine(?:instance)?s/([^/\" ]+)", text))
    found |= set(re.findall(r'()"vmiName": "([^"]+)"', text))
    names = {one or two for one, two in found}
    return names.pop() if len(names) == 1 else ""


def swapped(steps: list[Any]) -> None:
    """Neighbours that are about different VMs, and less than a second apart, change places."""
    changed, i = False, 0
    while i + 1 < len(steps):
        one, two = steps[i], steps[i + 1]
        vms = {subject(one), subject(two)}
        if "" not in vms and len(vms) == 2 and two["t"] - one["t"] < 1:
            steps[i], steps[i + 1] = {**two, "t": one["t"]}, {**one, "t": two["t"]}
            changed, i = True, i + 2
        else:
            i += 1
    assert changed, "no two to swap"


def backwards(steps: list[Any]) -> None:
    """The first evictions in the opposite order, each at the time of another one.

    A later one is left out: what it meets depends on the order.
    """
    where = [i for i, s in enumerate(steps) if s.get("path", "").endswith("/eviction") and s["t"] < 1]
    times = [steps[i]["t"] for i in where]
    turned = [steps[i] for i in reversed(where)]
    for place, step, at in zip(where, turned, times, strict=True):
        steps[place] = {**step, "t": at}
    steps[:] = [s for s in steps if not (s.get("path", "").endswith("/eviction") and s["t"] >= 1)]


@pytest.mark.parametrize("name", scenarios())
def test_it_answers_as_the_real_one(name: str) -> None:
    with Kubesim(scale=0) as sim:
        limits(sim, name)
        check(sim, Replay(sim, name))


@pytest.mark.parametrize("name", scenarios())
def test_under_other_names(name: str) -> None:
    with Kubesim(scale=0) as sim:
        limits(sim, name)
        check(sim, Replay(sim, name, "x"))


# Where the usual factor would put KubeVirt's own, fixed times elsewhere among the steps.
SLOWER = {"04-eviction-livemigrate-if-possible": 1.3}  # a start that failed is tried again after 10 s
FASTER = {"07-evacuation-cancel": 0.95}  # two aborts have to meet a preparation of one second
# A pod is evicted within the second in which a back-off of 20 s ends, which is so long at any pace.
ONE_PACE = {"30-manual-once-and-flipping-lmip"}
# kubectl evicts between the end of a move and that of its pod, every five seconds.
NOT_FASTER = {"26-two-clients-and-uncordon-midway"} | ONE_PACE


@pytest.mark.parametrize("name", [name for name in scenarios() if name not in ONE_PACE])
def test_slower(name: str) -> None:
    """Node agents need longer, and so does the client between two requests."""
    factor = SLOWER.get(name, 1.7)
    with Kubesim(scale=0) as sim:
        limits(sim, name)
        sim.world.pace = factor
        check(sim, Replay(sim, name, slower=factor))


@pytest.mark.parametrize("name", [name for name in scenarios() if name not in NOT_FASTER])
def test_faster(name: str) -> None:
    """Node agents need less long; the client asks when it did."""
    with Kubesim(scale=0) as sim:
        limits(sim, name)
        sim.world.pace = FASTER.get(name, 0.7)
        check(sim, Replay(sim, name))


@pytest.mark.parametrize("name", [name for name in scenarios() if vms_of(name) > 1])
def test_another_order(name: str) -> None:
    """Not where there is one VM: its requests build upon each other."""
    with Kubesim(scale=0) as sim:
        limits(sim, name)
        check(sim, Replay(sim, name, mix=swapped))


def test_six_evictions_the_other_way_round() -> None:
    with Kubesim(scale=0) as sim:
        check(sim, Replay(sim, "14-six-at-once-limits", mix=backwards))


def pairs() -> list[tuple[str, str]]:
    """Each with the next. But where virt-api is down it is so for all: 13 goes with one whose
    client asks nothing meanwhile. 21 and 25 say how many may migrate in the whole cluster."""
    alone = "13-virt-api-down"
    limited = ("21-descheduler-priority", "25-limits-changed-while-queued")
    others = [name for name in scenarios() if name not in (alone, *limited)]
    return [*zip(others, others[1:] + others[:1], strict=True), (alone, "06-failing-evacuation-backoff")]


@pytest.mark.parametrize(("one", "two"), pairs())
def test_two_scenarios_at_once_under_other_names(one: str, two: str) -> None:
    with Kubesim(scale=0) as sim:
        sim.configure(migrations={"parallelMigrationsPerCluster": 12})
        check(sim, Replay(sim, one, "x"), Replay(sim, two, "y"))
