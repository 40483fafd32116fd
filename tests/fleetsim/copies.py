"""A copy of a fleet, some twenty times as fast as `copy.deepcopy`.

What is never changed in place (what a VM is, claims, outcomes, findings) is shared with the first one. So a claim is
the same object in both, as its id on a host is the same.
"""

from __future__ import annotations

from typing import TypeVar

from .fleet import Fleet
from .machines import Machine

T = TypeVar("T")


def copied(fleet: Fleet) -> Fleet:
    """It has to have nothing that is to be done at a time (`Fleet.at`): that would be done to the first one."""
    if fleet._later:
        raise ValueError("what is to be done later belongs to one fleet alone")
    new = _shallow(fleet)
    new.machines = {name: _machine(machine) for name, machine in fleet.machines.items()}
    new.moves = {uuid: _shallow(move) for uuid, move in fleet.moves.items()}
    new.killed, new._later = set(fleet.killed), []
    return new


def _machine(machine: Machine) -> Machine:
    new = _shallow(machine)
    new.domains = {uuid: _shallow(domain) for uuid, domain in machine.domains.items()}
    new.claims, new.slot_of = dict(machine.claims), dict(machine.slot_of)
    new.slots, new.cordons = set(machine.slots), set(machine.cordons)
    new.watched, new.definitions = dict(machine.watched), dict(machine.definitions)
    new.outcomes, new.stop_errors = dict(machine.outcomes), dict(machine.stop_errors)
    return new


def _shallow(one: T) -> T:
    new = object.__new__(type(one))
    new.__dict__.update(one.__dict__)
    return new
