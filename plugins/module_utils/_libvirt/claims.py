# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Admission: a reservation on the target and a slot on one agreed host, before anything moves.

The protocol stands in the core (claims.keep): create, read afresh, keep or give back. Here it
is done with volumes, for all that one step wants at once: few round trips to each host.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from .._core.actions import Action
from .._core.claims import keep, keep_slot, settled
from .._core.model import Reservation as CoreReservation
from .._core.model import State
from .._core.policy import Limits
from .._core.reasons import Finding, Reason
from .connection import HostUnreachable, libvirt
from .host import Host, HostNow
from .store_names import Reservation, Slot, format_name, parse_name

Answers = dict[str, "Finding | None"]


def claim(
    hosts: Mapping[str, Host],
    slots_on: str,
    source: str,
    wanted: Sequence[Action],
    limits: Limits,
) -> Answers:
    """UUID -> None (granted), or why not. What was made here and is not granted is given back."""
    answers: Answers = {}
    made: dict[str, list[Action]] = {}
    stood: set[str] = set()
    for action in wanted:
        try:
            reservation = Reservation(action.vm, action.memory_mib, source)
            if not hosts[action.target].store.create(format_name(reservation)):
                stood.add(action.vm)
            made.setdefault(action.target, []).append(action)
        except (HostUnreachable, libvirt.libvirtError) as exc:
            answers[action.vm] = Finding(Reason.PEER_UNREACHABLE, f"{action.target}: {exc}")
    kept: list[Action] = []
    for target, actions in made.items():
        kept += _keep_on(hosts[target], source, actions, stood, limits, answers)
    _take_slots(hosts[slots_on], source, kept, limits, answers)
    for actions in made.values():
        for action in actions:
            if answers[action.vm] is not None and action.vm not in stood:
                _give_back_quietly(hosts, slots_on, action, source)
    return answers


def _keep_on(
    target: Host,
    source: str,
    actions: list[Action],
    stood: Collection[str],
    limits: Limits,
    answers: Answers,
) -> list[Action]:
    """Read the target with our reservations on it. Too much: the last ones go first."""
    read = target.read(False)
    if read.error:
        why = Finding(Reason.PEER_UNREACHABLE, f"{target.name}: {read.error}")
        answers.update({a.vm: why for a in actions})
        return []
    claims = [_core(r, target.name) for r in read.reservations]
    kept = list(actions)
    for action in reversed(actions):
        mine = CoreReservation(action.vm, target.name, source, action.memory_mib)
        cordoned = read.cordoned and not settled(action.do, action.vm in stood)
        why_not = _why_not(target, mine, claims, read, limits, cordoned)
        answers[action.vm] = why_not
        if why_not is not None:
            kept.remove(action)
            claims = [c for c in claims if c != mine]
    return kept


def _core(reservation: Reservation, target: str) -> CoreReservation:
    return CoreReservation(reservation.vm, target, reservation.source, reservation.memory_mib)


def _why_not(
    target: Host,
    mine: CoreReservation,
    claims: Sequence[CoreReservation],
    read: HostNow,
    limits: Limits,
    cordoned: bool,
) -> Finding | None:
    active = {d.uuid: d.memory_mib for d in read.domains.values() if d.state is not State.SHUTOFF}
    incoming = [d.uuid for d in read.domains.values() if d.state is State.INCOMING]
    capacity = target.capacity_mib - target.config.reserve_mib
    return keep(mine, claims, active, incoming, capacity, limits, cordoned)


def _take_slots(
    host: Host, source: str, kept: Sequence[Action], limits: Limits, answers: Answers
) -> None:
    """After the reservations: a slot never stands without its claim."""
    made: set[str] = set()
    try:
        for action in kept:
            if host.store.create(format_name(Slot(action.vm, source))):
                made.add(action.vm)
        read = host.read(False)
    except (HostUnreachable, libvirt.libvirtError) as exc:
        why = Finding(Reason.PEER_UNREACHABLE, f"{host.name}, which keeps the slots: {exc}")
        answers.update({a.vm: why for a in kept})
        return
    slots = {slot.vm for slot in read.slots}
    for action in reversed(kept):
        why_not = (
            Finding(Reason.PEER_UNREACHABLE, f"{host.name}: {read.error}")
            if read.error
            else keep_slot(slots, limits)
        )
        answers[action.vm] = why_not
        if why_not is not None:
            slots.discard(action.vm)
            if action.vm in made:
                _drop_slot(host, source, action)


def _drop_slot(host: Host, source: str, action: Action) -> None:
    """What stays goes with its claim."""
    try:
        host.store.delete(format_name(Slot(action.vm, source)))
    except (HostUnreachable, libvirt.libvirtError):
        return


def give_back(hosts: Mapping[str, Host], slots_on: str, action: Action, source: str) -> None:
    """Remove the slot, then the reservation: a slot never stands without its claim.

    Every reservation of this VM by this host goes, whatever memory its name says: that of a
    claim which no record remembers is not known here.
    """
    hosts[slots_on].store.delete(format_name(Slot(action.vm, source)))
    store = hosts[action.target].store
    for name in store.names():
        parsed = parse_name(name)
        if isinstance(parsed, Reservation) and (parsed.vm, parsed.source) == (action.vm, source):
            store.delete(name)


def _give_back_quietly(
    hosts: Mapping[str, Host], slots_on: str, action: Action, source: str
) -> None:
    """What cannot be given back now is seen as our claim at the next read, and given back then."""
    try:
        give_back(hosts, slots_on, action, source)
    except (HostUnreachable, libvirt.libvirtError):
        return
