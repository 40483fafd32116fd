"""Placement by profile, labels, affinity, taints, and the hypervisor's version."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.placement import Placement
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model import constraints_text
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import VM, Node, Observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import (
    Limits,
    PlacementPolicy,
    PolicyError,
    Profile,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import TABLE, Finding, Reason

GIB = 1024


def node(name: str, room: int = 8, taints: str = "", **more: Any) -> Node:
    return Node(name, capacity_mib=room * GIB, taints=constraints_text.taints("taints", taints), **more)


def vm(**more: Any) -> VM:
    needs = {k: more.pop(k) for k in ("selector", "affinity", "tolerations", "near") if k in more}
    return VM("u", "vm", "src", memory_mib=GIB, constraints=constraints_text.parse_constraints("vm", needs), **more)


def picks(one: VM, *nodes: Node, how: PlacementPolicy | None = None, times: int = 1, **more: Any) -> Any:
    obs = Observation({n.name: n for n in (node("src", **more), *nodes)}, {})
    placement = Placement(obs, frozenset({"src"}), Limits(inbound=99), "", how)
    found = [placement.pick(one) for _turn in range(times)]
    return found[0] if times == 1 else found


@pytest.mark.parametrize(("profile", "chosen"), [(Profile.LOW, "large"), (Profile.HIGH, "small")])
def test_profiles(profile: Profile, chosen: str) -> None:
    nodes = (node("first", 16), node("large", 32), node("small", 2))
    assert picks(vm(), *nodes, how=PlacementPolicy(profile)) == chosen


def test_packing_goes_on_until_the_host_is_full() -> None:
    found = picks(vm(), node("a", 4), node("b", 3), how=PlacementPolicy(Profile.HIGH), times=5)
    assert found == ["b", "b", "b", "a", "a"]


def test_selector_and_affinity() -> None:
    ssd, hdd = node("ssd", labels={"disk": "ssd"}), node("hdd", 99, labels={"disk": "hdd"})
    assert picks(vm(selector="disk=ssd"), ssd, hdd) == "ssd"
    assert picks(vm(affinity="disk NotIn hdd|tape"), ssd, hdd) == "ssd"
    assert picks(vm(affinity="gpu Exists"), ssd, hdd) is None
    assert picks(vm(affinity="gpu DoesNotExist"), ssd, hdd) == "hdd"


def test_taints_and_tolerations() -> None:
    gpu, plain = node("gpu", 99, "gpu=yes:NoSchedule"), node("plain")
    assert picks(vm(), gpu, plain) == "plain"
    assert picks(vm(tolerations="gpu=yes:NoSchedule"), gpu, plain) == "gpu"
    assert picks(vm(tolerations="gpu"), gpu, plain) == "gpu"
    assert picks(vm(tolerations="gpu=no"), gpu, plain) == "plain"
    assert picks(vm(tolerations="*"), gpu, plain) == "gpu"
    soft = node("soft", 99, "busy:PreferNoSchedule")
    assert picks(vm(), soft, plain) == "plain"
    assert picks(vm(), soft) == "soft"


def test_never_to_an_older_hypervisor() -> None:
    old, same = node("old", 99, version=(8, 2, 0)), node("same", version=(9, 1, 0))
    assert picks(vm(), old, same, version=(9, 1, 0)) == "same"
    assert picks(vm(), old, version=(9, 1, 0)) is None
    assert picks(vm(), old, version=()) == "old"


OLD, NEW = {"version": (7, 2, 0)}, {"version": (10, 0, 8)}


def test_a_newer_hypervisor_is_preferred_where_the_vm_may_stay() -> None:
    """Room counts among hosts of one release; what a VM asks of its host counts before the release."""
    assert picks(vm(), node("old", 99, **OLD), node("new", **NEW), **OLD) == "new"
    assert picks(vm(), node("old", 99, **OLD), node("new", **NEW), node("more", 9, **NEW), **OLD) == "more"
    assert picks(vm(), node("old", 99, **OLD), node("full", 0, **NEW), **OLD) == "old"
    assert picks(vm(group="web"), node("old", **OLD), node("new", group_counts={"web": 1}, **NEW), **OLD) == "old"
    assert picks(vm(near="db"), node("old", group_counts={"db": 1}, **OLD), node("new", **NEW), **OLD) == "old"


def test_of_hosts_that_are_still_to_come_the_older_one_takes_it() -> None:
    """From the newer one it could go on to few. One whose work is over comes before both."""
    to_come = {"roll_rank": 1}
    old, new = node("old", **OLD, **to_come), node("new", 99, **NEW, **to_come)
    assert picks(vm(), old, new, **OLD) == "old"
    assert picks(vm(), old, new, node("done", 4, roll_done=True, **OLD, **to_come), **OLD) == "done"


def test_a_rule_allows_an_older_hypervisor_where_all_is_known() -> None:
    """What is not known is named; a rule for another VM allows nothing."""
    nodes = [node("src", **NEW), node("old", 99, **OLD), node("dark", 50, **OLD)]
    obs = Observation({n.name: n for n in nodes}, {})

    def placement(allowed: str) -> Placement:
        return Placement(obs, frozenset({"src"}), Limits(inbound=9), allows_older=lambda one: one.name == allowed)

    known = vm(compared={"old": "", "dark": "its machine types are not known"})
    assert placement("vm").pick(known) == "old"
    assert placement("other").pick(known) is None
    (why,) = placement("vm").refusals(vm(compared={"dark": "its machine types are not known"}))
    assert why.reason is Reason.NewerToOlder
    assert "dark has an older hypervisor (7.2.0, not 10.0.8), and its machine types are not known" in why.message
    assert "old has an older hypervisor (7.2.0, not 10.0.8), and its machine types and CPU were not" in why.message
    refused = {"old": (Finding(Reason.MachineTypeMissing, "old"),)}
    assert placement("vm").pick(vm(compared={"old": ""}, refused_by=refused)) is None


@pytest.mark.parametrize(
    ("others", "reason", "named"),
    [
        ({"old": (8, 2, 0), "older": (7, 2, 0)}, Reason.NewerToOlder, ("old has", "older has")),
        ({"old": (8, 2, 0), "small": (9, 1, 0)}, Reason.NoTargetWithCapacity, ("old has", "small has room")),
    ],
)
def test_where_every_host_is_older_that_is_the_reason(
    others: dict[str, tuple[int, ...]], reason: Reason, named: tuple[str, ...]
) -> None:
    """More memory on them would not help."""
    nodes = [node(n, 0 if n == "small" else 99, version=v) for n, v in others.items()]
    obs = Observation({n.name: n for n in (node("src", version=(9, 1, 0)), *nodes)}, {})
    (why,) = Placement(obs, frozenset({"src"}), Limits()).refusals(vm())
    assert why.reason is reason
    assert all(text in why.message for text in named), why.message
    assert ("Free memory" in TABLE[why.reason].remedy) is (reason is Reason.NoTargetWithCapacity)


def test_groups_apart_if_required() -> None:
    full = node("a", 99, group_counts={"db": 1})
    required = PlacementPolicy(require_anti_affinity=True)
    assert picks(vm(group="db"), full) == "a"
    assert picks(vm(group="db"), full, how=required) is None
    assert picks(vm(group="db"), full, node("b"), how=required, times=2) == ["b", None]


def test_near_a_group() -> None:
    assert picks(vm(near="web"), node("a", 99), node("b", group_counts={"web": 2})) == "b"


@pytest.mark.parametrize("text", ["gpu=yes", "gpu=yes:Sometimes", ":NoSchedule"])
def test_a_wrong_taint_is_named(text: str) -> None:
    with pytest.raises(PolicyError, match="taints of a has"):
        constraints_text.taints("taints of a", text)


@pytest.mark.parametrize("text", ["rack", "rack Near r1", "rack In", "rack Exists r1"])
def test_a_wrong_affinity_is_named(text: str) -> None:
    with pytest.raises(PolicyError, match="affinity of v has"):
        constraints_text.requirements("affinity of v", [text])


def test_needs_come_back_as_they_went() -> None:
    raw = {
        "selector": {"disk": "ssd"},
        "affinity": ["rack In r1|r2", "gpu Exists"],
        "tolerations": ["gpu=yes:NoSchedule", "*", "old:NoExecute"],
        "near": "web",
    }
    assert constraints_text.constraints_to_dict(constraints_text.parse_constraints("vm", raw)) == raw


def test_hosts_that_are_left_out_are_named() -> None:
    """Somebody may have forgotten to uncordon one."""
    nodes = [Node(name, capacity_mib=1, cordoned=True) for name in "gfedcb"]
    nodes.append(Node("z", reachable=False))
    asked = VM("u", "vm", "src", memory_mib=GIB)

    def why(*more: Node) -> str:
        obs = Observation({n.name: n for n in (Node("src"), *nodes, *more)}, {})
        (finding,) = Placement(obs, frozenset({"src"}), Limits()).refusals(asked)
        return finding.message

    left_out = "Cordoned: b, c, d, e, f and 1 more. Not readable: z."
    assert why() == f"No host can take the VM. {left_out}"
    assert why(Node("small", capacity_mib=512)).endswith(f"small has room for 512 MiB. {left_out}")
    nodes.clear()
    assert why() == "No host can take the VM. No other host was given."
