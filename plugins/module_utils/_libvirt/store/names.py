"""Names of the volumes in a host's store. They carry the facts. Pure.

    cordon                                          nobody of ours places a VM here
    record.<generation>                             the record of the host
    resv.<vm uuid>.<memory MiB>._<id>.<source node> on the target: a claim on it
    slot.<vm uuid>._<id>.<source node>              on the quorum: a slot of the fleet
    alive.<ms>                                      on the source: its holder lives, and has work
    outcome.<vm uuid>.<attempt>                     on the source: how one attempt ended
    copy.<node>.<generation>                        on a peer: a copy of another's record
    single.<vm uuid>.record.<generation>            the record of one VM's own migration
    ended.<generation>                              the last of those that are over
    made.<vm uuid>.<generation>                     files of a copied disk that may be replaced

A node's name may have dots in it; a UUID and a number have none. The id is of twelve hexadecimal
digits, new with each claim, and its slot has the same: so a claim that was taken away is never
taken for one that was made after it. Older versions made claims without an id, and read ours
as those of a node `_<id>.<source node>`: they count them.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Union

CORDON = "cordon"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,150}\Z")
_NUMBER = re.compile(r"(0|[1-9][0-9]{0,17})\Z")
_ID = re.compile(r"_[0-9a-f]{12}\Z")
_ALIVE = "alive."


@dataclass(frozen=True)
class Reservation:
    """A claim of a VM on the host that holds the volume. `source`: the node that claims.

    `id`: empty in those of an older version.
    """

    vm: str
    memory_mib: int
    source: str
    id: str = ""


@dataclass(frozen=True)
class Slot:
    vm: str
    source: str
    id: str = ""


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
        return f"resv.{name.vm}.{name.memory_mib}.{_owner(name)}"
    if isinstance(name, Slot):
        return f"slot.{name.vm}.{_owner(name)}"
    if isinstance(name, OutcomeName):
        return f"outcome.{name.vm}.{name.attempt}"
    return f"made.{name.vm}.{name.generation}"


def _owner(name: Reservation | Slot) -> str:
    return f"{name.id}.{name.source}" if name.id else name.source


def new_id() -> str:
    """The ID of a claim that is about to be created."""
    return f"_{secrets.token_hex(6)}"


def can_name_a_node(text: str) -> bool:
    """Can this name of a node be part of a volume's name?"""
    return _NODE.match(text) is not None and not _split_id(text)[0]


def _split_id(text: str) -> tuple[str, str]:
    """(id, node) of `<id>.<node>`; the id is empty where there is none."""
    head, _dot, rest = text.partition(".")
    return (head, rest) if _ID.match(head) and rest else ("", text)


def alive_name(milliseconds: int) -> str:
    """The volume name of the holder's sign of life. `milliseconds`: of its host's boot-time clock."""
    return f"{_ALIVE}{milliseconds}"


def is_alive(name: str) -> bool:
    return name.startswith(_ALIVE)


def alive_of(names: Iterable[str]) -> str:
    """The newest sign of life among a host's volumes; empty: none, so its holder has no work or is not there."""
    return max((name for name in names if is_alive(name)), default="", key=lambda n: (len(n), n))


def parse_name(text: str) -> Name | None:
    """Parse a volume's name that is about a VM; None for other names."""
    kind, _dot, rest = text.partition(".")
    vm, _dot, rest = rest.partition(".")
    return _parse_of_vm(kind, vm, rest) if _UUID.match(vm) else None


def _parse_of_vm(kind: str, vm: str, rest: str) -> Name | None:
    if kind == "resv":
        memory, _dot, rest = rest.partition(".")
        claim_id, node = _split_id(rest)
        if _NUMBER.match(memory) and _NODE.match(node):
            return Reservation(vm, int(memory), node, claim_id)
    elif kind == "outcome" and _NUMBER.match(rest):
        return OutcomeName(vm, int(rest))
    elif kind == "made" and _NUMBER.match(rest):
        return MadeName(vm, int(rest))
    elif kind == "slot":
        claim_id, node = _split_id(rest)
        if _NODE.match(node):
            return Slot(vm, node, claim_id)
    return None


def split_generation(text: str) -> tuple[str, int | None]:
    """(`prefix`, generation) of `prefix.<generation>`; generation None if there is none."""
    prefix, _dot, number = text.rpartition(".")
    if not prefix or number == "0" or not _NUMBER.match(number):
        return text, None
    return prefix, int(number)
