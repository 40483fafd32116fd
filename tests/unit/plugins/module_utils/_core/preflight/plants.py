"""A clean cluster of facts, and what may be changed in it. Each code is planted by the platforms' own tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    VM,
    EvictionStrategy,
    Node,
    Observation,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings, Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.check import check, result
from ansible_collections.virtops.maintenance.plugins.module_utils._core.preflight.facts import (
    Facts,
    HostSeen,
    TLSSeen,
    VMSeen,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform, Reason

GIB = 1024
PKI = "/etc/pki/qemu"
POLICY = Policy(migration=MigrationSettings(tls=True))
STOPS = Policy(default_strategy=EvictionStrategy.NONE, allow_stop=True)
L, K = Platform.LIBVIRT, Platform.KUBEVIRT


def clean(platform: Platform = L) -> Facts:
    """Two VMs on `a`, with room for both on `b` and on `c`; nothing stands in the way."""
    vms = {f"u{n}": VM(f"u{n}", f"vm{n}", "a", memory_mib=GIB) for n in range(2)}
    kube = platform is K
    nodes = {name: Node(name, capacity_mib=4 * GIB) for name in (("a", "") if kube else ("a", "b", "c"))}
    hosts = tuple(HostSeen(name, 7002000, 9000000, True, 0.3, tls=TLSSeen(PKI)) for name in "abc")
    return Facts(
        platform=platform,
        node="a",
        observation=Observation(nodes=nodes, vms=vms),
        vms={uuid: VMSeen(pod_mib=vm.memory_mib if kube else None) for uuid, vm in vms.items()},
        hosts=() if kube else hosts,
        targets=("b", "c"),
        room_mib=4 * GIB,
    )


def found(facts: Facts, policy: Policy = POLICY) -> dict[Reason, dict[str, Any]]:
    rows = result(facts, check(facts, policy), {})["findings"]
    return {Reason(row["code"]): row for row in rows}


def vm(platform: Platform, **changes: Any) -> Facts:
    """The first VM is changed."""
    facts = clean(platform)
    facts.observation.vms["u0"] = replace(facts.observation.vms["u0"], **changes)
    return facts


def seen(platform: Platform, **changes: Any) -> Facts:
    """What was seen of the first VM is changed."""
    facts = clean(platform)
    return replace(facts, vms={**facts.vms, "u0": replace(facts.vms["u0"], **changes)})


def unreachable() -> Facts:
    facts = clean(L)
    facts.observation.nodes["c"] = Node("c", reachable=False, message="no route to host")
    return replace(facts, targets=("b",), needed={"c": "It keeps the slots."})
