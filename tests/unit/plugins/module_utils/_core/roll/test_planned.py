"""What stands against a roll, its header, and when it is ready."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll import planned
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.host import Asked
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.record import HostEntry, Roll, Stage, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.stages import left_free
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.terms import Terms

FITS: dict[str, Any] = {"refusal": None, "vms_moved": 12, "stops": 2, "moves": 14, "fits_if": [], "duration": 252.0}
FULL: dict[str, Any] = {**FITS, "refusal": {"sentence": "step 2 does not fit"}}


def looks(*why: str) -> list[dict[str, Any]]:
    return [{"not_ready": one} for one in why]


@pytest.mark.parametrize(
    ("why", "plan", "max_failures", "found"),
    [
        (("", ""), FITS, 0, []),
        (("", ""), None, 0, []),
        (("a is not ready", ""), FITS, 0, ["a is not ready"]),
        (("a is not ready", ""), FITS, 1, []),
        (("a is not ready", "b is not ready"), FITS, 1, ["a is not ready", "b is not ready"]),
        (("a is not ready", ""), FULL, 0, ["a is not ready", "step 2 does not fit"]),
        (("", ""), FULL, 5, ["step 2 does not fit"]),
    ],
)
def test_all_that_stands_against_it_is_named(
    why: tuple[str, ...], plan: dict[str, Any] | None, max_failures: int, found: list[str]
) -> None:
    assert planned.objections(looks(*why), plan, max_failures) == found


def test_without_a_plan_it_does_not_begin_unless_hosts_that_are_not_ready_may_be_why() -> None:
    why = "roll names x, not in the fleet"
    assert planned.objections(looks("", ""), None, 0, (), why) == [f"There is no plan: {why}"]
    assert planned.objections(looks("a is not ready", ""), None, 1, (), why) == []


def test_a_host_that_cannot_be_rebooted_is_named_with_why() -> None:
    said = planned.unreached("b", "ssh: no route")
    assert said.startswith("b is to be rebooted, but Ansible cannot reach it: ssh: no route. Repair the connection")
    assert planned.objections(looks(""), FITS, 0, [said]) == [said]


def test_only_a_look_that_went_over_the_connection_of_a_certain_reboot_has_to_have_one() -> None:
    asked = [
        (state, platform, reboot)
        for state in ("looked", "drained")
        for platform in ("libvirt", "kubevirt")
        for reboot in ("always", "auto", "never")
        if Asked(state, "b", platform=platform, reboot=reboot).needs_own_connection
    ]
    assert asked == [("looked", "libvirt", "always")]


def test_one_line_says_what_is_going_to_happen() -> None:
    assert planned.header("7f3a", ["a", "b"], FITS) == "roll 7f3a: 2 hosts, 14 VMs, by plan 4 min 12 s of transfers"
    owned = {**FITS, "fits_if": [{"vm": "own"}]}
    assert "2 hosts, 15 VMs" in planned.header("7f3a", ["a", "b"], owned), "its owner moves it: no move of ours"
    assert planned.header("7f3a", ["a"], FULL) == "roll 7f3a: 1 host"
    assert planned.header("7f3a", ["a"], {**FITS, "vms_moved": 0, "stops": 1, "moves": 0}) == "roll 7f3a: 1 host, 1 VM"
    assert planned.header("7f3a", ["a"], None) == "roll 7f3a: 1 host"


def test_when_it_is_ready_is_known_once_a_host_has_shown_what_work_and_reboot_take() -> None:
    def entry(name: str, stage: Stage, begun: str = "", since: str = "") -> HostEntry:
        return HostEntry(name, stage, since=f"2026-03-01T{since}Z", begun=f"2026-03-01T{begun}Z" if begun else "")

    first = entry("a", Stage.DRAINING, "10:00:00", "10:00:00")
    rest = [entry("b", Stage.WAITING, "", "10:00:00"), entry("c", Stage.WAITING, "", "10:00:00")]
    seconds = {"a": 60.0, "b": 30.0, "c": 90.0}
    roll = Roll(
        "7f3a", "run", "", "", "2026-03-01T10:00:00Z", {e.name: e for e in (first, *rest)}, terms=Terms(seconds=seconds)
    )
    assert planned.seconds_left(roll, "2026-03-01T10:01:00Z") is None
    assert planned.ready(roll, "2026-03-01T10:01:00Z") == ""
    roll.hosts["a"] = entry("a", Stage.DONE, "10:00:00", "10:03:00")  # two minutes more than its transfers
    assert planned.seconds_left(roll, "2026-03-01T10:03:00Z") == (30 + 120) + (90 + 120)
    roll.hosts["b"] = entry("b", Stage.EMPTY, "10:03:00", "10:04:00")
    assert planned.seconds_left(roll, "2026-03-01T10:04:00Z") == 90 + 210
    assert planned.ready(roll, "2026-03-01T10:04:00Z") == "2026-03-01T10:09:00Z"
    roll.terms = replace(roll.terms, soak=60.0)  # before the one host that waits
    assert planned.ready(roll, "2026-03-01T10:04:00Z") == "2026-03-01T10:10:00Z"


def test_of_a_share_as_many_go_on_together_as_do_now() -> None:
    def entry(name: str, stage: Stage, begun: str, since: str) -> HostEntry:
        return HostEntry(name, stage, since=f"2026-03-01T{since}Z", begun=f"2026-03-01T{begun}Z" if begun else "")

    done = entry("a", Stage.DONE, "10:00:00", "10:01:00")
    out = [entry(name, Stage.DRAINING, "10:01:00", "10:01:00") for name in "bc"]
    rest = [entry(name, Stage.WAITING, "", "10:00:00") for name in "defg"]
    hosts = {one.name: one for one in (done, *out, *rest)}
    seconds = dict.fromkeys("abcdefg", 60.0)
    roll = Roll("7f3a", "run", "", "", "2026-03-01T10:00:00Z", hosts, terms=Terms(seconds=seconds))
    left = {}
    for most in ("1", "2", "20%"):
        roll.terms = replace(roll.terms, max_unavailable=most)
        left[most] = planned.seconds_left(roll, "2026-03-01T10:01:00Z")
    assert left == {"1": 60 + 4 * 60, "2": 60 + 2 * 60, "20%": 60 + 2 * 60}


@pytest.mark.parametrize(("forks", "said"), [(5, ""), (3, ""), (2, "The plan takes 3 hosts out together")])
def test_hosts_that_go_together_need_as_many_forks(forks: int, said: str) -> None:
    steps = [{"hosts": ["a"]}, {"hosts": ["b", "c", "d"]}]
    found = planned.too_few_forks({**FITS, "steps": steps}, forks)
    assert found.startswith(said) and bool(found) == bool(said)
    assert "--forks 3" in found or not said
    assert planned.too_few_forks(None, forks) == planned.too_few_forks({**FULL, "steps": steps}, forks) == ""


def test_where_vms_go_is_kept_by_host() -> None:
    """Not of one that makes way for another, which no drain moves, and not of one that stays and is stopped."""

    def move(vm: str, source: str, target: str) -> dict[str, str]:
        return {"vm": vm, "source": source, "target": target}

    first = {"hosts": ["a", "b"], "moves": [move("1", "a", "c"), move("2", "b", "d"), move("3", "a", "a")]}
    then = {"hosts": ["c"], "moves": [move("1", "c", "a"), move("4", "d", "a"), move("5", "c", "")]}
    plan = {"refusal": None, "steps": [first, then]}
    assert planned.targets(plan) == {"a": {"1": "c"}, "b": {"2": "d"}, "c": {"1": "a"}}
    assert planned.targets({"steps": [{"hosts": ["a"], "duration": 3}]}) == {}  # a file that somebody wrote
    assert planned.targets({**plan, "refusal": {"sentence": "step 2 does not fit"}}) == planned.targets(None) == {}


@pytest.mark.parametrize(
    ("stages", "state", "found"),
    [
        (["waiting", "waiting"], "running", ""),  # it may still be refused by its plan
        (["draining", "waiting"], "running", "ab"),
        (["done", "waiting"], "running", "b"),
        (["done", "rebooting"], "running", "b"),
        (["done", "failed"], "stopped", ""),
        (["draining", "waiting"], "aborting", ""),
        (["done", "waiting"], "paused", ""),
        (["draining"], "running", ""),  # no other host of it is to be kept free
    ],
)
def test_vms_had_better_not_come_to_what_has_still_to_be_emptied(stages: list[str], state: str, found: str) -> None:
    hosts = {name: HostEntry(name, Stage(stage)) for name, stage in zip("ab", stages, strict=False)}
    roll = Roll("r", "run", "", "", "", hosts=hosts, state=State(state))
    assert left_free(roll) == set(found)
