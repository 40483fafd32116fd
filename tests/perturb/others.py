"""Somebody else's hand: owners of VMs, other controllers, hosts that reboot.

Each act says what of the fleet it changes by itself. That, and no more, may differ at the end without a reason. An
act that would change nothing raises `Nothing`: the case is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.claims.owners import DEAD_AFTER
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Reservation, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason
from fleetsim.fleet import Fleet
from fleetsim.machines import Domain, Fate, Move
from fleetsim.platform import ModelPlatform
from fleetsim.reads import incoming
from perturb.play import Command, Killed, Perturbed, Play, SliceLost, fault
from perturb.request import Nothing

# Acts on one VM -> words of what may differ of it afterwards. "all": it is another VM now, or none.
ON_VMS: dict[str, set[str]] = {}
# And what of ours would be against it, once the VM is settled.
_TO_RUN = ("start", "cold_start", "cold_return", "cold_define")
AGAINST = {"owner_stops": _TO_RUN, "owner_deletes": _TO_RUN, "owner_pauses": ("resume",)}
TAKEN_FOR = 10.0  # s: what another drain takes, it gives back
ENDS = ("owner_stops", "owner_deletes", "owner_undefines")  # a VM may be off, or gone, for that
ON_HOSTS: dict[str, set[str]] = {}
ON_HOSTS_ACTS: dict[str, Callable[[Play, str], None]] = {}


def _found(fleet: Fleet, uuid: str, active: bool | None = None) -> list[tuple[str, Domain]]:
    """Where it is, active first."""
    places = [(n, m.domains[uuid]) for n, m in sorted(fleet.machines.items()) if uuid in m.domains and m.up]
    if active is not None:
        places = [(n, d) for n, d in places if d.active is active]
    if not places:
        raise Nothing
    return sorted(places, key=lambda place: not place[1].active)


def _at_rest(fleet: Fleet, uuid: str) -> tuple[str, Domain]:
    """Where it runs and does not move."""
    name, domain = _found(fleet, uuid, True)[0]
    if uuid in fleet.moves or domain.state is not State.RUNNING or domain.save_ends or domain.save_begins:
        raise Nothing
    return name, domain


def last_word(play: Play) -> str:
    """What an owner wished of a VM's autostart, and what it is; "": the same, or there is no such wish."""
    wished = [case.arg for case in play.cases if case.kind == "owner_sets_autostart"]
    if not wished or play.wish is None:
        return ""
    uuid = wished[-1]
    found = [m.domains[uuid] for m in play.fleet.machines.values() if uuid in m.domains]
    if all(domain.autostart == play.wish for domain in found):
        return ""
    return f"{uuid} has autostart={not play.wish}, its owner set {play.wish}"


ACTS: dict[str, Callable[[Fleet, str], Any]] = {}


def act(fleet: Fleet, kind: str, subject: str) -> None:
    """In the small world, where no time passes with it."""
    machine = fleet.machines.get(subject)
    if kind == "cordons" and machine is not None:
        machine.cordons.add("a person")
    elif kind == "uncordons" and machine is not None:
        if not machine.cordons:
            raise Nothing
        machine.cordons.clear()
    elif kind == "reboots" and machine is not None:
        fleet.crash(subject, 0.0)
        fleet.advance(fleet.clock + 0.001)
    else:
        ACTS["controller_evicts" if kind == "evicts" else kind](fleet, subject)


def on_vm(kind: str, *changes: str) -> Callable[[Any], Any]:
    def known(act: Callable[[Fleet, str], None]) -> Any:
        ON_VMS[kind] = set(changes)
        ACTS[kind] = act

        def perturb(play: Play, platform: Perturbed, _what: str) -> None:
            uuid, watch = play.arg, play.watch
            settled = watch.is_settled(uuid, platform.node)
            wish = act(play.fleet, uuid)
            play.wish = wish if wish is not None else play.wish
            watch.theirs.add(uuid)
            if kind == "owner_starts":
                watch.was_active.add(uuid)
            if settled:
                watch.not_to.update((word, uuid) for word in AGAINST.get(kind, ()))
            watch.look()

        fault(kind)(perturb)
        return act

    return known


def on_host(kind: str, *changes: str) -> Callable[[Any], Any]:
    def known(act: Callable[[Play, str], None]) -> Any:
        ON_HOSTS[kind] = set(changes)
        ON_HOSTS_ACTS[kind] = act

        def perturb(play: Play, _platform: Perturbed, _what: str) -> None:
            act(play, play.arg)

        fault(kind)(perturb)
        return act

    return known


@on_vm("owner_starts", "all")
def _starts(fleet: Fleet, uuid: str) -> None:
    """Where it is defined and off; not where it runs or moves elsewhere: libvirt would not know, its owner does."""
    if any(d.active for _n, d in _found(fleet, uuid)):
        raise Nothing
    _name, domain = _found(fleet, uuid, False)[0]
    domain.state, domain.managed_save = State.RUNNING, False
    domain.instance += "o"


@on_vm("owner_stops", "all")
def _stops(fleet: Fleet, uuid: str) -> None:
    name, domain = _found(fleet, uuid, True)[0]
    if domain.state is not State.RUNNING:
        raise Nothing
    fleet.power_off(name, uuid)


@on_vm("owner_deletes", "all")
def _deletes(fleet: Fleet, uuid: str) -> None:
    """Wherever it is at rest."""
    if uuid in fleet.moves:
        raise Nothing
    for name, domain in _found(fleet, uuid):
        if domain.active:
            fleet.power_off(name, uuid, vanish=True)
        else:
            del fleet.machines[name].domains[uuid]


@on_vm("owner_sets_autostart", "autostart")
def _autostart(fleet: Fleet, uuid: str) -> bool:
    _name, domain = _found(fleet, uuid)[0]
    if not domain.persistent or uuid in fleet.moves:  # libvirt refuses it during a job
        raise Nothing
    domain.autostart = not domain.autostart
    return domain.autostart


@on_vm("owner_undefines", "all")
def _undefines(fleet: Fleet, uuid: str) -> None:
    """Of one that runs: it is transient now."""
    _name, domain = _at_rest(fleet, uuid)
    if not domain.persistent:
        raise Nothing
    domain.persistent = domain.autostart = False


@on_vm("owner_defines", "all")
def _defines(fleet: Fleet, uuid: str) -> None:
    _name, domain = _at_rest(fleet, uuid)
    if domain.persistent:
        raise Nothing
    domain.persistent = True


@on_vm("owner_edits", "nothing")
def _edits(fleet: Fleet, uuid: str) -> None:
    """More memory, from its next start on; what is read of it is that already."""
    for _name, domain in _found(fleet, uuid):
        domain.spec = replace(domain.spec, memory_mib=domain.spec.memory_mib + 512)


@on_vm("owner_renames", "nothing")
def _renames(fleet: Fleet, uuid: str) -> None:
    for _name, domain in _found(fleet, uuid):
        domain.spec = replace(domain.spec, name=f"{domain.spec.name}-new")


@on_vm("owner_pauses", "all")
def _pauses(fleet: Fleet, uuid: str) -> None:
    _name, domain = _at_rest(fleet, uuid)
    domain.state = State.PAUSED


@on_vm("owner_migrates", "all")
def _migrates(fleet: Fleet, uuid: str) -> None:
    """By virsh, without asking us, to the first other host that is up."""
    name, _domain = _at_rest(fleet, uuid)
    others = [n for n, m in sorted(fleet.machines.items()) if n != name and m.up and not m.cordons]
    if not others:
        raise Nothing
    move = Move(uuid, name, others[0], 1, MigrationSettings(), Fate(), asked=False, held=False)
    move.ours = False
    fleet.migrate(move)


@on_vm("somebody_brings_back", "all")
def _brings_back(fleet: Fleet, uuid: str) -> None:
    """While it is off, to a host that is being emptied: virsh knows no cordon."""
    name, domain = _at_rest(fleet, uuid)
    homes = [n for n, m in sorted(fleet.machines.items()) if n != name and m.up and m.cordons]
    if not homes or not domain.persistent or uuid in fleet.machines[homes[0]].domains:
        raise Nothing
    del fleet.machines[name].domains[uuid]
    fleet.machines[homes[0]].domains[uuid] = domain
    domain.instance += "o"
    domain.off_at = domain.asked_at = None


@on_vm("controller_evicts", "all")
def _evicts(fleet: Fleet, uuid: str) -> None:
    """By the run of one VM: the holder makes the call for another record."""
    _migrates(fleet, uuid)
    move = fleet.moves[uuid]
    move.held = move.ours = True
    move.run_id = "single"


@on_host("controller_cordons", "cordons")
def _cordons(play: Play, name: str) -> None:
    cordons = play.fleet.machines[name].cordons
    if "a person" in cordons:
        raise Nothing
    cordons.add("a person")


@on_host("controller_uncordons", "cordons")
def _uncordons(play: Play, name: str) -> None:
    cordons = play.fleet.machines[name].cordons
    if not cordons:
        raise Nothing
    cordons.clear()


@on_host("host_reboots", "all")
def _reboots(play: Play, name: str) -> None:
    """Without warning. A run on it ends with it."""
    _crash(play, name)
    if name == "a":
        play.fleet.advance(play.fleet.clock + 21.0)
        raise Killed


@on_host("host_reboots_in_a_slice", "all")
def _reboots_in_a_slice(play: Play, name: str) -> None:
    """The same, and the playbook, which runs elsewhere, asks again until it answers."""
    _crash(play, name)
    play.fleet.advance(play.fleet.clock + 21.0)
    raise SliceLost


def _crash(play: Play, name: str) -> None:
    machine = play.fleet.machines[name]
    play.started |= {u for u, d in machine.domains.items() if d.persistent and d.autostart}
    play.fleet.crash(name, 20.0)


@on_host("other_takes_room", "nothing")
def _takes_room(play: Play, name: str) -> None:
    """A drain of a host that is not seen here reserves all that is left there, and gives it back after 10 s. It counts
    what is reserved, so it takes nothing that is taken."""
    machine = play.fleet.machines[name]
    memory = {vm: claim.memory_mib for (vm, _owner), claim in machine.claims.items()}
    memory.update({u: d.spec.memory_mib for u, d in machine.domains.items() if d.active and u not in memory})
    free = machine.capacity_mib - sum(memory.values())
    arriving = incoming(machine).union(vm for vm, _owner in machine.claims)
    if free <= 0 or len(arriving) >= play.policy.limits.inbound:
        raise Nothing
    machine.claims["other", "z"] = Reservation("other", name, "z", free)
    play.fleet.at(play.fleet.clock + TAKEN_FOR, lambda: machine.claims.pop(("other", "z"), None))


@on_host("other_takes_slots", "nothing")
def _takes_slots(play: Play, _name: str) -> None:
    """The same of the slots of the cluster, on all hosts that count them."""
    machines = play.fleet.machines.values()
    taken = {vm for machine in machines for vm, _owner in machine.slots}
    left = play.policy.limits.cluster - len(taken)
    if left <= 0:
        raise Nothing
    slots = {(f"other{number}", "z") for number in range(left)}
    for machine in machines:
        machine.slots |= slots
        play.fleet.at(play.fleet.clock + TAKEN_FOR, lambda machine=machine: machine.slots.difference_update(slots))


@fault("taken_over")
def _taken_over(play: Play, platform: Perturbed, _what: str) -> None:
    """Between two slices another run of the same host begins, with the same wish or the other one, or with a policy
    that allows no stop, and ends. This run has to stop then."""
    intent = "active" if play.arg == "active" else platform.command.intent
    play.aside(replace(platform.command, intent=intent, no_stop=play.arg == "no_stop"))


@fault("other_drain")
def _other_drain(play: Play, platform: Perturbed, _what: str) -> None:
    """Another host is drained, and given back, while this run stands still between two calls."""
    _drain(play, platform)
    play.aside(Command("active", play.arg))


@fault("other_drain_stays")
def _drain(play: Play, platform: Perturbed, _what: str = "") -> None:
    """Another host is drained, and stays so until this run has said its word. Of its own host it has the lock: that
    one is taken over between two slices, see `taken_over`."""
    if play.arg == platform.node:
        raise Nothing
    play.aside(Command("drained", play.arg))


@fault("refused")
def _refused(play: Play, platform: Perturbed, what: str) -> None:
    """An act is refused. `arg`: with which reason, and for how many seconds."""
    reason, seconds = play.arg
    until, act = play.fleet.clock + seconds, " ".join(what.split()[1:])

    def fails(action: Action) -> Finding | None:
        same = f"{action.do.value} {action.vm}" == act
        if not same or play.fleet.clock > until:
            return None
        if action.do is Do.SHUTDOWN and reason in ("PeerUnreachable", "APIError"):  # it may have got there, or not
            play.watch.perhaps.add(action.vm)
        return Finding(Reason(reason), "refused")

    play.refuses = fails


@fault("taken_for_left")
def _taken_for_left(play: Play, platform: Perturbed, _what: str) -> None:
    """This run stands still for so long that the drain of another host takes its reservation for left. While that one
    removes it, this run goes on. `arg`: which host; before which step of that; and for how many points."""
    name, step, points = play.arg
    other, found = ModelPlatform(play.fleet, name), list[Iterator[str]]()
    claims = other._claims
    claims._remove = lambda *about: found.append(claims.removal(*about))
    until = play.fleet.clock + 2 * DEAD_AFTER
    while not found and play.fleet.clock < until:
        play.fleet.advance(play.fleet.clock + 5.0)
        claims.sweep()
    if not found or len(list(islice(found[0], step))) < step:
        raise Nothing
    play.watch.others_at = name
    play.watch.look()
    play.watch.others_at = ""
    play.later = play.count + points, name, found[0]


@fault("no_answer")
def _no_answer(play: Play, platform: Perturbed, what: str) -> None:
    """A host answers nobody. `arg`: which, and for how many seconds; 0: for this call."""
    name, seconds = play.arg
    machine = play.fleet.machines[name]
    machine.reachable = False
    play.fleet.at(play.fleet.clock + (seconds or 0.004), lambda: setattr(machine, "reachable", True))


@fault("error")
def _error(play: Play, platform: Perturbed, what: str) -> None:
    """The record cannot be read or written. `arg`: for how many seconds."""
    play.failing, play.failing_what = play.fleet.clock + play.arg, "all"
