"""What happens to a simulated cluster in the middle of a command.

Each act takes the cluster and a dice, and says what it did. What it may have cost it notes in the cluster: VMs that
may be off or stop for it (`excused`), VMs that need not run any more (`gone`), and what ends it (`undo`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from kubesim import Kubesim
from kubesim.kinds import NODES, VMIMS, VMIS, VMS
from kubesim.nodelife import reboot
from kubesim.remote import Remote


class Victim(Protocol):
    """The cluster of a case."""

    sim: Kubesim
    remote: Remote
    excused: set[str]
    gone: set[str]
    nodes: tuple[str, ...]
    open: bool  # VMs may come to the first node by themselves

    def later(self, seconds: float, undo: Callable[[], Any]) -> None:
        """Undo it after so many real seconds, or when everything is healed."""

    def kill(self, all_of_it: bool, dice: random.Random) -> str:
        """kill -9 of the playbook and all that it started, or of one process of it."""

    def beside(self) -> None:
        """Another command begins beside this one: a drain of another node."""


ACTS: dict[str, Callable[[Victim, random.Random], str]] = {}


def _act(function: Callable[[Victim, random.Random], str]) -> Callable[[Victim, random.Random], str]:
    ACTS[function.__name__.strip("_")] = function
    return function


def _vm(on: Victim, dice: random.Random) -> str:
    found = sorted(o["metadata"]["name"] for o in on.sim.all(VMS) if o["metadata"]["name"] not in on.gone)
    return dice.choice(found)


# The API and KubeVirt's own parts


@_act
def _api_restarts(on: Victim, dice: random.Random) -> str:
    away = dice.choice((1.0, 3.0, 8.0))
    on.sim.restart(away)
    return f"the API server restarts, away for {away:.0f} s"


@_act
def _api_errors(on: Victim, dice: random.Random) -> str:
    code, times = dice.choice((409, 429, 500, 503, 504)), dice.randint(1, 8)
    writes = code == 409
    on.sim.api.faults.plan(
        code, times, lambda method, _path: method != "GET" or not writes, retry_after=1 if code == 429 else None
    )
    on.later(20.0, on.sim.api.faults.planned.clear)
    return f"the next {times} {'writes' if writes else 'requests'} are answered {code}"


@_act
def _api_slow(on: Victim, dice: random.Random) -> str:
    faults, seconds = on.sim.api.faults, dice.choice((0.2, 1.0))
    faults.latency = seconds
    on.later(6.0, lambda: setattr(faults, "latency", 0.0))
    return f"each answer takes {seconds} s more, for 6 s"


@_act
def _watches_break(on: Victim, _dice: random.Random) -> str:
    faults = on.sim.api.faults
    faults.drop_watches = 0.3
    on.later(10.0, lambda: setattr(faults, "drop_watches", None))
    return "watches end after 0.3 s, for 10 s"


@_act
def _virt_controller_away(on: Victim, dice: random.Random) -> str:
    seconds = dice.choice((2.0, 6.0))
    on.sim.virt_controller(False)
    on.later(seconds, lambda: on.sim.virt_controller(True))
    return f"virt-controller is away for {seconds:.0f} s"


@_act
def _virt_api_away(on: Victim, dice: random.Random) -> str:
    seconds, world = dice.choice((2.0, 6.0)), on.sim.world
    world.virt_api_down = True
    on.later(seconds, lambda: setattr(world, "virt_api_down", False))
    return f"virt-api is away for {seconds:.0f} s"


# Nodes


@_act
def _node_reboots(on: Victim, dice: random.Random) -> str:
    node = dice.choice(on.nodes)
    on.excused |= {o["metadata"]["name"] for o in on.sim.all(VMIS) if _touches(o, node)}
    on.sim.call(lambda: reboot(on.sim.world, node))
    return f"{node} reboots by itself"


def _touches(vmi: dict[str, Any], node: str) -> bool:
    """It is there, or it is on its way there or from there."""
    status = vmi.get("status") or {}
    state = status.get("migrationState") or {}
    return node in (status.get("nodeName"), state.get("targetNode"), state.get("sourceNode"))


@_act
def _cordons(on: Victim, dice: random.Random) -> str:
    node = dice.choice(on.nodes[1:])
    on.remote.patch(NODES, node, {"spec": {"unschedulable": True}})
    on.later(30.0, lambda: on.remote.patch(NODES, node, {"spec": {"unschedulable": None}}))
    return f"somebody cordons {node} for 30 s"


@_act
def _uncordons(on: Victim, _dice: random.Random) -> str:
    on.open = True
    on.remote.uncordon(on.nodes[:1])
    return f"somebody uncordons {on.nodes[0]}"


# Owners, and other controllers


@_act
def _owner_stops(on: Victim, dice: random.Random) -> str:
    name = _vm(on, dice)
    on.excused.add(name)
    on.gone.add(name)
    on.remote.patch(VMS, name, {"spec": {"runStrategy": "Halted"}}, "default")
    return f"the owner of {name} stops it"


@_act
def _owner_restarts(on: Victim, dice: random.Random) -> str:
    name = _vm(on, dice)
    on.excused.add(name)
    on.gone |= {name} if "manual" in name else set()  # KubeVirt starts it no more
    if on.remote.find(VMIS, name) is not None:
        on.remote.request("DELETE", on.remote.path_of(VMIS, "default", name))
    return f"the owner of {name} restarts it"


@_act
def _owner_deletes(on: Victim, dice: random.Random) -> str:
    name = _vm(on, dice)
    on.excused.add(name)
    on.gone.add(name)
    on.remote.request("DELETE", on.remote.path_of(VMS, "default", name))
    return f"the owner of {name} deletes it"


@_act
def _owner_edits(on: Victim, dice: random.Random) -> str:
    name = _vm(on, dice)
    more = {"metadata": {"labels": {"tier": "gold"}}, "spec": {"template": {"metadata": {"labels": {"tier": "gold"}}}}}
    on.remote.patch(VMS, name, more, "default")
    return f"the owner of {name} edits it"


@_act
def _owner_migrates(on: Victim, dice: random.Random) -> str:
    name = _vm(on, dice)
    body = {**VMIMS.head, "metadata": {"generateName": "owner-", "namespace": "default"}, "spec": {"vmiName": name}}
    on.remote.request("POST", on.remote.path_of(VMIMS, "default"), body)
    return f"the owner of {name} migrates it"


@_act
def _owner_adds(on: Victim, dice: random.Random) -> str:
    name = f"new-{dice.randrange(10**6)}"
    on.sim.add_vm(name, on.nodes[0], wait=False, migrate_seconds="5")
    on.excused.add(name)
    return f"somebody makes a VM, {name}"


@_act
def _other_evicts(on: Victim, dice: random.Random) -> str:
    """As kubectl drain or a descheduler: KubeVirt refuses it, and evacuates."""
    name = _vm(on, dice)
    vmi = on.sim.find(VMIS, name)
    pods = on.sim.call(lambda: [p["metadata"]["name"] for p in on.sim.world.pods_of(vmi)]) if vmi else []
    for pod in pods:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}}
        on.remote.request("POST", f"/api/v1/namespaces/default/pods/{pod}/eviction", body)
    on.excused |= {name} if "plain" in name or "manual" in name else set()
    return f"somebody evicts {name}"


# Our own processes


@_act
def _playbook_killed(on: Victim, dice: random.Random) -> str:
    return on.kill(True, dice)


@_act
def _process_killed(on: Victim, dice: random.Random) -> str:
    return on.kill(False, dice)


@_act
def _second_drain(on: Victim, _dice: random.Random) -> str:
    on.beside()
    return f"a drain of {on.nodes[1]} begins beside it"
