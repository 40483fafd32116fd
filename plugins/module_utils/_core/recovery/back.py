# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that was recovered is back: which of its old definitions go. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..model.observation import State, is_active
from .record import Recovery, Step, Taken

States = Mapping[str, State]  # by UUID, of one host


@dataclass(frozen=True)
class Back:
    """One VM that was taken over. `remove`: its definition on the old host is to go. `message`: why it cannot yet, for
    people; empty: it is done, or will be with that."""

    vm: Taken
    remove: bool = False
    message: str = ""


def come_back(known: Recovery, here: States | None, there: Mapping[str, States | None]) -> list[Back]:
    """`here`: what the old host has; `there`: the others. None: it cannot be read."""
    return [
        _back(vm, known.host, here, there.get(vm.target)) for vm in known.vms.values() if vm.step is not Step.FAILED
    ]


def _back(vm: Taken, host: str, here: States | None, there: States | None) -> Back:
    if here is None or there is None:
        silent = host if here is None else vm.target
        return Back(vm, message=f"{silent} cannot be read, so nothing of {vm.name} is removed. Run recover again.")
    if vm.uuid not in here:
        return Back(vm)
    if vm.uuid not in there:
        if vm.step is Step.STARTING:
            return Back(vm)  # it never came to that
        text = f"{vm.name} is not on {vm.target} any more, where it was started: what is left of it on {host} stays."
        return Back(vm, message=f"{text} Start it here, or undefine it.")
    if is_active(here[vm.uuid]):
        return Back(
            vm, message=f"{vm.name} runs on {host}, and was started on {vm.target}. Look at both, and stop one."
        )
    return Back(vm, remove=True)
