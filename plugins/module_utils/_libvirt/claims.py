# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Admission: a reservation on the target and a slot on one agreed host, before anything moves.

Create, then read, then keep or give back. Two that race both see both, so the limits hold;
at worst both give back and try again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._core.actions import Action
from .._core.model import State
from .._core.policy import Limits
from .._core.reasons import Finding, Reason
from .connection import HostUnreachable, libvirt
from .host import Host
from .store_names import Reservation, Slot, format_name


def claim(
    hosts: Mapping[str, Host],
    slots_on: str,
    source: str,
    wanted: Sequence[Action],
    limits: Limits,
) -> dict[str, Finding | None]:
    """UUID -> None (granted), or why not. What is not granted is given back."""
    answers: dict[str, Finding | None] = {}
    made: dict[str, list[Action]] = {}
    for action in wanted:
        try:
            _create(hosts, slots_on, action, source)
            made.setdefault(action.target, []).append(action)
        except (HostUnreachable, libvirt.libvirtError) as exc:
            answers[action.vm] = Finding(Reason.PEER_UNREACHABLE, f"{action.target}: {exc}")
            _give_back_quietly(hosts, slots_on, action, source)
    kept: list[Action] = []
    for target, actions in made.items():
        kept += _keep_on(hosts[target], actions, limits, answers)
    _keep_slots(hosts[slots_on], kept, limits, answers)
    for actions in made.values():
        for action in actions:
            if answers[action.vm] is not None:
                _give_back_quietly(hosts, slots_on, action, source)
    return answers


def _create(hosts: Mapping[str, Host], slots_on: str, action: Action, source: str) -> None:
    reservation = Reservation(action.vm, action.memory_mib, source)
    hosts[action.target].store.create(format_name(reservation))
    hosts[slots_on].store.create(format_name(Slot(action.vm, source)))


def _keep_on(
    target: Host, actions: list[Action], limits: Limits, answers: dict[str, Finding | None]
) -> list[Action]:
    """A fresh read of the target, after our reservations stand: capacity, places, cordon."""
    read = target.read(False)
    if read.error or read.cordoned:
        why = read.error or f"{target.name} was cordoned meanwhile"
        answers.update({a.vm: Finding(Reason.NO_TARGET, why) for a in actions})
        return []
    reserved = {r.vm: r.memory_mib for r in read.reservations}
    running = sum(
        d.memory_mib
        for d in read.domains.values()
        if d.state is not State.SHUTOFF and d.uuid not in reserved
    )
    room = target.capacity_mib - target.config.reserve_mib - running - sum(reserved.values())
    places = limits.inbound - len(reserved)
    kept = list(actions)
    while kept and (room < 0 or places < 0):
        action = kept.pop()
        room, places = room + action.memory_mib, places + 1
        text = f"{target.name} has no room or no free inbound place any more."
        answers[action.vm] = Finding(Reason.NO_TARGET, text)
    answers.update({a.vm: None for a in kept})
    return kept


def _keep_slots(
    host: Host, kept: list[Action], limits: Limits, answers: dict[str, Finding | None]
) -> None:
    read = host.read(False)
    over = len(read.slots) - limits.cluster
    for action in reversed(kept):
        if not read.error and over <= 0:
            return
        over -= 1
        text = read.error or f"all {limits.cluster} migration slots of the cluster are taken"
        answers[action.vm] = Finding(Reason.NO_TARGET, text)


def give_back(hosts: Mapping[str, Host], slots_on: str, action: Action, source: str) -> None:
    """Remove slot and reservation. The slot first: it is the scarcer one."""
    hosts[slots_on].store.delete(format_name(Slot(action.vm, source)))
    reservation = Reservation(action.vm, action.memory_mib, source)
    hosts[action.target].store.delete(format_name(reservation))


def _give_back_quietly(
    hosts: Mapping[str, Host], slots_on: str, action: Action, source: str
) -> None:
    """What cannot be given back now is seen as our claim at the next read, and given back then."""
    try:
        give_back(hosts, slots_on, action, source)
    except (HostUnreachable, libvirt.libvirtError):
        return
