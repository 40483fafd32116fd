"""What is proven of a state of the small world: the same command, given again, ends well."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Platform
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Slice, SliceEnd
from perturb import others
from perturb.judge import OURS
from perturb.request import Nothing
from perturb.small_state import World, defined
from perturb.watch import ACTIVE, EXECUTES

AGAIN = 6  # how often a command is given again; from the second time on after the remedy
WAIT = 4.0  # s: the longest wait of a slice


class Violation(Exception):
    """What must never be."""


def check(world: World) -> None:
    """At this moment."""
    places = [u for m in world.fleet.machines.values() for u, d in m.domains.items() if d.state.value in EXECUTES]
    if len(places) != len(set(places)):
        raise Violation(f"runs twice: {places}")


@dataclass
class Proofs:
    """`known`: state -> how many commands lead from it to an end, the one that is under way included."""

    known: dict[bytes, int] = field(default_factory=dict)

    def ends(self, world: World, begun: tuple[World, Slice | None] | None = None) -> None:
        """The same command again leads to an end. `begun`: its first step, if that was played already. Else raises
        Violation."""
        path: list[tuple[bytes, int]] = []
        used = self._commands(world, begun, path)
        for key, number in path:
            self.known[key] = max(used - number, self.known.get(key, 0))

    def _commands(self, world: World, begun: Any, path: list[tuple[bytes, int]]) -> int:
        said: list[Slice] = []
        for number in range(AGAIN):
            world, outcome, more = self._to_the_end(world, begun, path, number)
            begun = None
            if more:
                return number + more
            if outcome is None or outcome.phase.value in ("Drained", "Active"):
                if outcome is not None:
                    nothing_left(world, outcome)
                return number + 1
            said.append(outcome)
            if outcome.phase.value != "Blocked":
                raise Violation(f"ended as {outcome.phase.value}")
            if number:
                follow_remedies(world, outcome)
        raise Violation(f"Blocked for ever: {[(e.name, e.ending, e.reason) for e in said[-1].record.vms.values()]}")

    def _to_the_end(
        self, world: World, begun: Any, path: list[tuple[bytes, int]], number: int
    ) -> tuple[World, Slice | None, int]:
        """(the world, how the command ended, 0); or how many commands it still takes, as is known. No outcome: there
        was nothing to restore."""
        world = world.copy()
        for _step in range(600):
            key = world.key()
            more = self.known.get(key, 0)
            if more and number + more <= AGAIN:
                return world, None, more
            path.append((key, number))
            if begun is not None:
                (world, outcome), begun = begun, None
            else:
                outcome = world.step()
            check(world)
            if outcome is None or outcome.ended is SliceEnd.FINAL:
                return world, outcome, 0
            if not outcome.decision.read_again:
                world.wait(WAIT)
        raise Violation("endless")


def nothing_left(world: World, outcome: Slice) -> None:
    own = world.fleet.machines["a"]
    if outcome.phase.value == "Drained":
        if outcome.certificate is None or any(d.state.value in ACTIVE for d in own.domains.values()):
            raise Violation("false certificate")
    elif own.record is not None or OURS in own.cordons:
        raise Violation("left behind: record or cordon")
    if any(
        owner == "a" and uuid not in world.fleet.moves
        for m in world.fleet.machines.values()
        for uuid, owner in m.claims
    ):
        raise Violation("left behind: claim")


def follow_remedies(world: World, outcome: Slice) -> None:
    """What the remedy of each VM's reason says, as a person would do it."""
    for entry in outcome.record.vms.values():
        if entry.ending not in ("blocked", "lost"):
            continue
        found = entry.finding
        if found is None or not found.to_dict(Platform.LIBVIRT)["remedy"]:
            raise Violation(f"{entry.name} is {entry.ending} without a remedy")
        if found.reason.value == "NoTargetWithCapacity":  # "uncordon a target"
            world.fleet.machines["b"].cordons.discard("a person")
            continue
        if found.reason.value == "ExternalOwnerTimedOut":  # its owner moves it, and has another target for it
            world.fleet.machines["b"].cordons.discard("a person")
            with suppress(Nothing):  # it moves already, or is off
                others.act(world.fleet, "owner_migrates", entry.uuid)
        domains = [(n, m.domains[entry.uuid]) for n, m in world.fleet.machines.items() if entry.uuid in m.domains]
        for _name, domain in domains:
            if domain.state is State.PAUSED:
                domain.state = State.RUNNING
        if not domains:  # defined again
            kind = world.kinds[("u1", "u2").index(entry.uuid)]
            world.fleet.machines["a"].domains[entry.uuid] = defined(entry.uuid, kind)
        elif not any(domain.active for _name, domain in domains):
            domains[0][1].state = State.RUNNING
            domains[0][1].instance += "r"
