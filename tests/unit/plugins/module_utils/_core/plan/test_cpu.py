"""CPU and huge pages beside memory, where hosts say how much of it they can give out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.placement import Placement
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, Node, Observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits, Policy, PolicyError
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan import text as plan_text
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.input import request_of
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.model import Plan
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.observed import fleet_of, of_fleet
from ansible_collections.virtops.maintenance.plugins.module_utils._core.plan.order import plan_roll
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason

GIB = 1024


def host(name: str, cpus: float | None = 16, gib: int = 64, **more: Any) -> dict[str, Any]:
    counted = {} if cpus is None else {"cpu_milli": 1000 * cpus}
    return {"name": name, "memory_mib": gib * GIB, **counted, **more}


def guest(name: str, where: str, cpus: float, gib: int = 1, **more: Any) -> dict[str, Any]:
    row = {"name": name, "host": where, "memory_mib": gib * GIB, "cpu_milli": 1000 * cpus}
    return {**row, **more}


def plan(hosts: list[dict[str, Any]], vms: list[dict[str, Any]], *roll: str, out: int = 1) -> Plan:
    return plan_roll(request_of(hosts, vms, roll, Policy(limits=Limits(9, 9, 9)), out))


def targets(found: Plan) -> dict[str, str]:
    return {move.name: move.target for step in found.steps for move in step.moves}


def test_a_vm_goes_where_its_cpus_are_free() -> None:
    """b has more memory left, and c the CPUs."""
    vms = [guest("db", "a", 8), guest("busy", "b", 12), guest("large", "c", 1, 40)]
    found = plan([host("a"), host("b"), host("c")], vms, "a")
    assert found.fits and targets(found) == {"db": "c"}


def test_without_cpu_there_is_no_place_and_the_sentence_names_it() -> None:
    vms = [guest("db-2", "a", 8), guest("on-b", "b", 10), guest("on-c", "c", 12)]
    found = plan([host("a"), host("b"), host("c")], vms, "a")
    assert found.refusal is not None
    assert found.refusal.sentence == (
        "step 1 does not fit: db-2 (8 CPUs requested) has no target once a is out; free 2 CPUs"
    )
    assert (found.refusal.cpu_milli, found.refusal.missing_cpu_milli) == (8000, 2000)
    assert found.refusal.missing_mib == 0
    assert "needs 1024 MiB and 8 CPUs: b has room for 64512 MiB and 6 CPUs" in found.refusal.detail


def test_what_is_short_of_both_says_both() -> None:
    vms = [guest("db", "a", 8, 60), guest("on-b", "b", 12, 30)]
    found = plan([host("a"), host("b")], vms, "a")
    assert found.refusal is not None
    assert "db (60 GiB, 8 CPUs requested) has no target" in found.refusal.sentence
    assert found.refusal.sentence.endswith("free 26 GiB and 4 CPUs")


def test_a_host_that_is_too_small_is_not_to_be_freed() -> None:
    found = plan([host("a", 32), host("b", 16)], [guest("db", "a", 20)], "a")
    assert found.refusal is not None
    text = "db (20 CPUs requested) has no target once a is out (too small even when empty: b); add a host"
    assert text in found.refusal.sentence
    # Of two hosts the one that could ever take it is named.
    both = plan([host("a", 32), host("b", 16), host("c", 32)], [guest("db", "a", 20), guest("there", "c", 18)], "a")
    assert both.refusal is not None and both.refusal.sentence.endswith("free 6 CPUs")


def test_what_the_step_gives_out_is_not_given_twice() -> None:
    """Each fits alone on b, both do not."""
    vms = [guest("one", "a", 5), guest("two", "a", 5)]
    found = plan([host("a"), host("b", 8)], vms, "a")
    assert found.refusal is not None
    assert found.refusal.sentence.endswith("free 2 CPUs")
    assert "their CPU is reserved by others" in found.refusal.detail
    assert targets(plan([host("a"), host("b", 10)], vms, "a")) == {"one": "b", "two": "b"}


def test_what_a_step_moved_counts_in_the_next() -> None:
    """Only c is free, and it takes the VMs of one host; then that host takes the others."""
    hosts = [host("a", 8), host("b", 8), host("c", 8)]
    vms = [guest("one", "a", 6), guest("two", "b", 6)]
    found = plan(hosts, vms, "a", "b")
    assert found.fits and targets(found) == {"one": "c", "two": "a"}
    together = plan(hosts, vms, "a", "b", out=2)
    assert [step.hosts for step in together.steps] == [("a",), ("b",)]


def test_what_others_request_is_not_free() -> None:
    others = host("b", 16, committed_cpu_milli=12500)
    assert not plan([host("a"), others], [guest("db", "a", 4)], "a").fits
    assert plan([host("a"), others], [guest("db", "a", 3.5)], "a").fits


def test_the_one_that_takes_most_of_a_host_is_placed_first() -> None:
    """By memory alone the small ones would be spread over both, and the CPUs of none left."""
    hosts = [host("a"), host("b", 8), host("c", 8)]
    vms = [guest("db", "a", 8)] + [guest(f"web-{n}", "a", 1, 2) for n in range(6)]
    found = plan(hosts, vms, "a")
    assert found.fits
    web = {target for name, target in targets(found).items() if name != "db"}
    assert web == {"b", "c"} - {targets(found)["db"]}


def test_a_vm_moves_out_of_the_way_for_cpus() -> None:
    hosts = [host("a"), host("b", 8), host("c", 8)]
    vms = [guest("db", "a", 7), guest("small", "b", 0.5), guest("mid", "b", 3), guest("c", "c", 4, 2)]
    found = plan(hosts, vms, "a")
    assert found.fits and targets(found) == {"mid": "c", "db": "b"}
    assert [move.swap_for for move in found.steps[0].moves] == ["db", ""]


def test_the_owner_of_a_vm_needs_cpus_for_it_too() -> None:
    own = guest("own", "a", 8, strategy="External")
    short = plan([host("a"), host("b", 4)], [own], "a")
    assert short.refusal is not None and "own (8 CPUs requested)" in short.refusal.sentence
    assert plan([host("a"), host("b", 8)], [own], "a").fits


def test_where_cpu_is_not_counted_nothing_is_asked_or_told() -> None:
    """As on libvirt."""
    found = plan([host("a", None), host("b", None)], [guest("db", "a", 500)], "a")
    assert found.fits and found.steps[0].spare_cpu_milli is None
    assert "CPU" not in plan_text.table({**found.to_dict(), "targets": ""})[0]
    full = plan([host("a", None), host("b", None)], [guest("db", "a", 500, 65)], "a")
    assert full.refusal is not None and "CPU" not in full.refusal.sentence


def test_what_is_left_meanwhile_is_told() -> None:
    vms = [guest("db", "a", 8), guest("on-c", "c", 1.5)]
    found = plan([host("a"), host("b"), host("c")], vms, "a")
    assert found.steps[0].spare_cpu_milli == 22500
    assert "left meanwhile: 126 GiB and 22.5 CPUs, at most" in plan_text.table(found.to_dict())[0]


def test_a_vm_that_requests_none_gets_in_where_too_much_is_requested() -> None:
    """As the scheduler has it."""
    over = host("b", 4, committed_cpu_milli=5000)
    assert plan([host("a"), over], [guest("idle", "a", 0)], "a").fits
    assert not plan([host("a"), over], [guest("idle", "a", 0.001)], "a").fits


@pytest.mark.parametrize("memory", [False, True])
def test_what_is_taken_is_named(memory: bool) -> None:
    node = Node("b", capacity_mib=GIB + 1, cpu_milli=1000)
    vm = VM("u", "vm", "a", memory_mib=GIB, cpu_milli=1000)
    placement = Placement(Observation({"b": node}, {}), frozenset({"a"}), Limits(inbound=9))
    first = replace(vm, memory_mib=2, cpu_milli=0) if memory else replace(vm, memory_mib=1)
    assert placement.pick(first) == "b"
    assert placement.refusals(vm) == () and not placement.with_room(vm)
    assert placement.taken(vm) == ("room" if memory else "CPU")


@pytest.mark.parametrize("key", ["cpu_milli", "committed_cpu_milli"])
def test_wrong_numbers_are_named(key: str) -> None:
    with pytest.raises(PolicyError, match=f"{key} of b"):
        plan([host("a"), {**host("b"), key: "many"}], [], "a")
    with pytest.raises(PolicyError, match="cpu_milli of v"):
        plan([host("a")], [{"name": "v", "host": "a", "cpu_milli": -1}], "a")


PAGES = "hugepages of 1048576 KiB"
NO_PAGES = (Finding(Reason.HugepagesMissing, "b has 0 free pages."),)


def paged(name: str, where: str, gib: int = 16, **more: Any) -> dict[str, Any]:
    return guest(name, where, 1, gib, takes={PAGES: gib * GIB}, **more)


def spare(gib: int) -> dict[str, dict[str, int]]:
    return {"spare": {PAGES: gib * GIB, "pods": 9}}


def test_huge_pages_are_free_once_their_vms_have_left() -> None:
    """b and c are full. a is a spare host: b goes there, then c to b."""
    vms = [paged(f"{where}-{number}", where) for where in ("b", "c") for number in range(4)]
    found = plan([host("a", **spare(64)), host("b", **spare(0)), host("c", **spare(0))], vms, "a", "b", "c")
    assert found.fits and not any(step.second_moves for step in found.steps)
    assert targets(found) == {vm["name"]: "a" if vm["host"] == "b" else "b" for vm in vms}


def test_huge_pages_are_given_once() -> None:
    """There is memory and CPU for all, and pages for one on each of the others."""
    hosts = [host("a", 64, 512, **spare(0)), host("b", 64, 512, **spare(16)), host("c", 64, 512, **spare(16))]
    assert plan(hosts, [paged("db-1", "a"), paged("db-2", "a")], "a").fits
    refusal = plan(hosts, [paged(f"db-{number}", "a") for number in (1, 2, 3)], "a").refusal
    assert refusal is not None
    assert refusal.sentence == (
        f"step 1 does not fit: db-3 (16 GiB and 16384 MiB of {PAGES}) has no target once a is out; "
        f"free 16384 MiB of {PAGES}"
    )
    obs = Observation(nodes={"a": Node("a"), "b": Node("b", capacity_mib=GIB, spare={PAGES: 0})}, vms={})
    waits = Placement(obs, frozenset({"a"}), Limits(9, 9, 9))
    assert waits.taken(VM("u1", "db", "a", memory_mib=GIB, takes={PAGES: GIB})) == "room"  # not CPU
    large = plan(hosts, [guest("db", "a", 1, 32, takes={PAGES: 32 * GIB, "pods": 1})], "a").refusal
    assert large is not None
    assert f"b has room for 524288 MiB and 64 CPUs and 16384 MiB of {PAGES};" in large.detail
    full = plan([host("a"), host("b", spare={"pods": 0})], [guest("web", "a", 1, takes={"pods": 1})], "a").refusal
    assert full is not None and full.sentence.endswith("has no target once a is out; free 1 pod")


def test_a_host_of_which_it_is_not_known_takes_huge_pages() -> None:
    vms = [paged("db", "a"), guest("web", "a", 1)]
    assert targets(plan([host("a"), host("b"), host("c", **spare(0))], vms, "a"))["db"] == "b"
    other = {"spare": {"hugepages of 2048 KiB": 64 * GIB}}
    assert not plan([host("a"), host("b", **other)], vms, "a").fits


def test_a_vm_makes_room_for_one_that_lacks_huge_pages() -> None:
    """b is large enough for db alone, c is where what is on b can go."""
    hosts = [host("a", **spare(0)), host("b", gib=200, **spare(16)), host("c", gib=40, **spare(16))]
    found = plan(hosts, [paged("db", "a", 32), paged("web", "b")], "a")
    assert found.fits
    assert targets(found) == {"web": "c", "db": "b"}
    assert [move.swap_for for move in found.steps[0].moves] == ["db", ""]


def test_what_hosts_say_of_each_other_is_counted_and_not_what_is_free_now() -> None:
    """A host that has no VM in huge pages does not ask for its own."""
    web = VM("u1", "web", "a", memory_mib=GIB, takes={PAGES: GIB}, refused_by={"b": NO_PAGES}, cold_refused_by={})
    nodes = {"a": Node("a", capacity_mib=64 * GIB), "b": Node("b", capacity_mib=64 * GIB, spare={PAGES: 0})}
    empty = Observation(nodes={name: Node(name, capacity_mib=64 * GIB) for name in nodes}, vms={})
    hosts, vms = of_fleet([fleet_of(Observation(nodes=nodes, vms={"u1": web}), "a"), fleet_of(empty, "b")])
    assert {row["name"]: row.get("spare") for row in hosts} == {"a": None, "b": {PAGES: 0}}
    assert (vms[0]["takes"], vms[0]["refused_by"]) == ({PAGES: GIB}, {})
    at_its_next_start = fleet_of(Observation(nodes=nodes, vms={"u1": replace(web, takes={})}), "a")["vms"][0]
    assert [row["reason"] for row in at_its_next_start["refused_by"]["b"]] == ["HugepagesMissing"]
