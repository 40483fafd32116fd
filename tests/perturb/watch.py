"""What is true at the moment of an act, and at the moment at which a command says its word. It reads the fleet as data,
and knows nothing of the product.

The end of a run may hide it: a VM that was sent to a host that had its cordon is moved on, a migration that outlived an
abort arrives. So it is looked at all the time, and once more with each word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    OnNotMigratable,
    Reservation,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from fleetsim.fleet import Fleet
from fleetsim.machines import Domain, Machine, Move

EXECUTES = ("running", "postcopy")
ACTIVE = (*EXECUTES, "paused", "postcopy_source", "postcopy_failed", "crashed")
_DONE = ("Drained", "Active", "Migrated")

Place = tuple[str, str, str]  # the target, UUID, owner


@dataclass(frozen=True)
class Stop:
    """What is known of the stop of a VM that is active. `asked`: when its guest has the request. `due`: when it goes
    off by itself, or is saved. `saving`: its memory goes to disk."""

    asked: float | None
    due: float | None
    saving: bool


@dataclass
class Watch:
    """Looks all the time, for what must never be. `certified`: hosts that were said to be empty, and not given back
    since. `out_of_order`: acts that came before what they need, in words. `unfinished`: VMs whose place on their new
    host was given back before they were there with all they had. `theirs`: VMs that others have changed. `others_at`:
    the run of this host goes on, and the others stand still: a reservation of theirs that it takes for left is gone
    when they go on. `perhaps`: VMs whose request to stop may have got lost, by its answer. `by_us`: VMs
    that went off with a request of ours, and are off. `no_stop`: the run that goes on allows no stop, and has done all
    that it can do at once. `not_to`: acts of ours on VMs that would be against what their owners did."""

    fleet: Fleet
    policy: Policy
    twice: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)  # UUID -> where it was
    was_active: set[str] = field(default_factory=set)
    told_of_takeover: bool = False
    certified: set[str] = field(default_factory=set)
    out_of_order: set[str] = field(default_factory=set)
    unfinished: dict[str, str] = field(default_factory=dict)
    theirs: set[str] = field(default_factory=set)
    others_at: str = ""
    perhaps: set[str] = field(default_factory=set)
    by_us: set[str] = field(default_factory=set)
    no_stop: bool = False
    not_to: set[tuple[str, str]] = field(default_factory=set)
    _as_it_was: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    _claims: dict[Place, tuple[Reservation, bool]] = field(default_factory=dict)  # was its target cordoned when made?
    _moves: dict[str, Move] = field(default_factory=dict)
    _defined: set[tuple[str, str]] = field(default_factory=set)
    _stops: dict[tuple[str, str], Stop] = field(default_factory=dict)  # of what is active
    _taken: set[tuple[str, str]] = field(default_factory=set)  # (UUID, owner): see `others_at`
    _cold: set[str] = field(default_factory=set)  # VMs that are to move while off

    def __post_init__(self) -> None:
        for name, machine in self.fleet.machines.items():
            for uuid, domain in machine.domains.items():
                self.names[uuid] = name
                self._defined.add((name, uuid))
                self._as_it_was[uuid] = domain.persistent, domain.autostart
                if domain.state.value in ACTIVE:
                    self.was_active.add(uuid)
                moves_off = self.policy.on_not_migratable is OnNotMigratable.COLD_MIGRATE
                if moves_off and domain.spec.migratable is False and domain.spec.declared_strategy != "None":
                    self._cold.add(uuid)

        def look() -> None:  # a copy of the fleet must not copy this object, as one with a method of it would
            self.look()

        self.fleet.on_change = look

    def look(self) -> None:
        self._look_at_claims()
        self._look_at_stops()
        seen: set[str] = set()
        for machine in self.fleet.machines.values():
            for uuid, domain in machine.domains.items():
                if domain.state.value in EXECUTES:
                    if uuid in seen:
                        self.twice.add(uuid)
                    seen.add(uuid)
        for uuid, move in self.fleet.moves.items():
            if self._moves.get(uuid) is not move and move.asked and move.ours and not move.watched:
                self._sent(uuid, move.source, self.fleet.machines[move.target])
        self._moves = dict(self.fleet.moves)
        defined = {(name, uuid) for name, machine in self.fleet.machines.items() for uuid in machine.domains}
        for name, uuid in defined - self._defined:
            owners = [owner for vm, owner in self.fleet.machines[name].claims if vm == uuid]
            if owners and uuid not in self.fleet.moves:
                self._sent(uuid, owners[0], self.fleet.machines[name])
        self._defined = defined

    def is_settled(self, uuid: str, node: str) -> bool:
        """Does it run elsewhere, and is all done there that its drain had to do?"""
        claimed = any(vm == uuid for machine in self.fleet.machines.values() for vm, _owner in machine.claims)
        there = [m.domains[uuid] for m in self.fleet.machines.values() if uuid in m.domains and m.name != node]
        return any(domain.active for domain in there) and not claimed and uuid not in self.fleet.moves

    def act(self, words: Sequence[str]) -> None:
        if words[0] == "write" and (words[1], words[-1]) in self.not_to:
            self.out_of_order.add(f"{words[1]} of {words[-1]}, against its owner")
        move = self.fleet.moves.get(words[-1])
        if words[:2] == ["write", "abort"] and move is not None and not move.ours:
            self.out_of_order.add(f"abort of the migration of {words[-1]}, which somebody else has begun")

    def _look_at_claims(self) -> None:
        now = {(m.name, *key): (claim, bool(m.cordons)) for m in self.fleet.machines.values()
               for key, claim in m.claims.items()}  # fmt: skip
        for place, (claim, _cordoned) in now.items():
            if place in self._claims and self._claims[place][0] is claim:
                now[place] = self._claims[place]
        for name, uuid, owner in self._claims.keys() - now.keys():
            self._given_back(uuid, owner, self.fleet.machines[name])
            if self.others_at not in ("", owner):
                self._taken.add((uuid, owner))
        self._claims = now

    def _look_at_stops(self) -> None:
        now = {
            (machine.name, uuid): Stop(domain.asked_at, domain.off_at or domain.save_ends, bool(domain.save_ends))
            for machine in self.fleet.machines.values()
            for uuid, domain in machine.domains.items()
            if domain.active
        }
        for (name, uuid), stop in now.items():
            before = self._stops.get((name, uuid))
            if before is not None and before.asked is None and stop.asked is not None and uuid in self._cold:
                self._asked(uuid, name)
            if stop.saving and self.no_stop and not (before is not None and before.saving):
                self.out_of_order.add(f"{uuid} is saved, and the run allows no stop")
        self.by_us.difference_update(uuid for _name, uuid in now)
        for name, uuid in self._stops.keys() - now.keys():
            domain = self.fleet.machines[name].domains.get(uuid)
            if self._stops[name, uuid].asked is not None and uuid not in self.fleet.killed | self.theirs:
                self.by_us.add(uuid)
            if uuid not in self.fleet.killed | self.theirs | self.perhaps:
                self._off(uuid, domain, self._stops[name, uuid])
        self._stops = now

    def _asked(self, uuid: str, source: str) -> None:
        """The guest of a VM that is to move while off is just asked to stop."""
        taken = (uuid, source) in self._taken
        if not taken and not any((uuid, source) in machine.claims for machine in self.fleet.machines.values()):
            self.out_of_order.add(f"{uuid} is asked to stop for its move without a reservation")

    def _off(self, uuid: str, domain: Domain | None, stop: Stop) -> None:
        """A VM is active no more here. By force, if it does not run elsewhere, and it was not yet to go by itself."""
        runs = any(uuid in m.domains and m.domains[uuid].active for m in self.fleet.machines.values())
        saved = domain is not None and domain.managed_save
        if runs or saved or (stop.due is not None and stop.due <= self.fleet.clock):
            return
        if stop.asked is None or self.fleet.clock < stop.asked + self.policy.shutdown_timeout:
            self.out_of_order.add(f"{uuid} is forced off, and its guest had no request for as long as it has to stop")

    def _given_back(self, uuid: str, owner: str, target: Machine) -> None:
        """The reservation of a VM is just taken away."""
        move, there = self.fleet.moves.get(uuid), target.domains.get(uuid)
        if uuid in self.theirs:
            return
        if move is not None and move.asked and move.ours and (move.source, move.target) == (owner, target.name):
            self.unfinished[uuid] = f"{uuid} migrates to {target.name}, and its place there is given back"
        if move is not None or there is None or there.state.value not in ACTIVE:
            return
        if there.marked or (there.persistent, there.autostart) != self._as_it_was.get(uuid):
            self.unfinished[uuid] = f"{uuid} is not finished on {target.name}, and its place there is given back"

    def _sent(self, uuid: str, source: str, target: Machine) -> None:
        """A VM is just sent there by us."""
        where = f"{uuid} is sent to {target.name}"
        _claim, cordoned = self._claims.get((target.name, uuid, source), (None, False))
        if _claim is None:
            self.out_of_order.add(f"{where} without a reservation")
        if cordoned:
            self.out_of_order.add(f"{where}, which was cordoned before the reservation was made")
        if target.name in self.certified:
            self.out_of_order.add(f"{where}, which was certified as empty")
        memory = {vm: claim.memory_mib for (vm, _owner), claim in target.claims.items()}
        memory.update({vm: d.spec.memory_mib for vm, d in target.domains.items() if d.active and vm not in memory})
        if sum(memory.values()) > target.capacity_mib:
            self.out_of_order.add(f"{where}, which has no room")
        slots = {vm for machine in self.fleet.machines.values() for vm, _owner in machine.slots}
        if len(slots) > self.policy.limits.cluster:
            self.out_of_order.add(f"{where}, beside as many as may be")


def at_word(fleet: Fleet, said: dict[str, Any]) -> list[str]:
    """What is still under way, or left, when a command says how it ended. `said`: its result."""
    node, phase = said["node"], said["phase"]
    if phase not in (*_DONE, "Blocked") or said.get("checked"):
        return []
    excused = {uuid for uuid, row in said.get("vms", {}).items() if row["reason"]}
    if phase == "Blocked" and said["findings"]:
        excused.update(fleet.moves, *(m.domains for m in fleet.machines.values()))
    found = [
        f"{phase}, and {uuid} migrates to {move.target}"
        for uuid, move in fleet.moves.items()
        if move.source == node and move.asked and move.ours and (phase in _DONE or uuid not in excused)
    ]
    found += [
        f"{phase}, and the stop of {uuid} is under way"
        for uuid, domain in fleet.machines[node].domains.items()
        if (domain.off_at or domain.save_begins or domain.save_ends) and uuid not in excused
    ]
    for name, machine in fleet.machines.items():
        left = {("claim", *key) for key in machine.claims} | {("slot", *key) for key in machine.slots}
        for what, uuid, owner in sorted(left):
            if owner == node and uuid not in excused:
                found.append(f"{phase}, and the {what} of {uuid} on {name} stands")
    return found
