# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of the volumes in a host's store. They carry the facts. Pure.

    cordon                                          nobody of ours places a VM here
    record.<generation>                             the record of the host
    resv.<vm uuid>.<memory MiB>.<source node>       on the target: a claim on it
    slot.<vm uuid>.<source node>                    on the agreed host: a slot of the fleet
    outcome.<vm uuid>.<attempt>                     on the source: how one attempt ended
    copy.<node>.<generation>                        on a peer: a copy of another's record
    single.<vm uuid>.record.<generation>            the record of one VM's own migration
    ended.<generation>                              the last of those that are over
    made.<vm uuid>.<generation>                     files of a copied disk that may be replaced

A node's name may have dots in it; a UUID and a number have none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Union

CORDON = "cordon"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,150}\Z")
_NUMBER = re.compile(r"(0|[1-9][0-9]{0,17})\Z")


@dataclass(frozen=True)
class Reservation:
    """A claim of a VM on the host that holds the volume. `source`: the node that claims."""

    vm: str
    memory_mib: int
    source: str


@dataclass(frozen=True)
class Slot:
    vm: str
    source: str


@dataclass(frozen=True)
class OutcomeName:
    vm: str
    attempt: int


@dataclass(frozen=True)
class MadeName:
    vm: str
    generation: int


Name = Union[Reservation, Slot, OutcomeName, MadeName]


def format_name(name: Name) -> str:
    """The volume's name. Raises ValueError when a part of it cannot stand in a name."""
    text = _join(name)
    if parse_name(text) != name:
        raise ValueError(f"not a name of the store: {text!r}")
    return text


def _join(name: Name) -> str:
    if isinstance(name, Reservation):
        return f"resv.{name.vm}.{name.memory_mib}.{name.source}"
    if isinstance(name, Slot):
        return f"slot.{name.vm}.{name.source}"
    if isinstance(name, OutcomeName):
        return f"outcome.{name.vm}.{name.attempt}"
    return f"made.{name.vm}.{name.generation}"


def can_name_a_node(text: str) -> bool:
    """Can this name of a node be part of a volume's name?"""
    return _NODE.match(text) is not None


def parse_name(text: str) -> Name | None:
    """What a volume's name says of a VM; None for the other names."""
    kind, _dot, rest = text.partition(".")
    vm, _dot, rest = rest.partition(".")
    return _parse_of_vm(kind, vm, rest) if _UUID.match(vm) else None


def _parse_of_vm(kind: str, vm: str, rest: str) -> Name | None:
    if kind == "resv":
        memory, _dot, node = rest.partition(".")
        if _NUMBER.match(memory) and _NODE.match(node):
            return Reservation(vm, int(memory), node)
    elif kind == "outcome" and _NUMBER.match(rest):
        return OutcomeName(vm, int(rest))
    elif kind == "made" and _NUMBER.match(rest):
        return MadeName(vm, int(rest))
    elif kind == "slot" and _NODE.match(rest):
        return Slot(vm, rest)
    return None


def split_generation(text: str) -> tuple[str, int | None]:
    """(`prefix`, generation) of `prefix.<generation>`; generation None if there is none."""
    prefix, _dot, number = text.rpartition(".")
    if not prefix or number == "0" or not _NUMBER.match(number):
        return text, None
    return prefix, int(number)
