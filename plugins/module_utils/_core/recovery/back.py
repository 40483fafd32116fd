"""A host that was recovered is back: which of its old definitions go. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ..model.observation import State, is_active
from .record import Recovery, Step, Taken

States = Mapping[str, State]  # by UUID, of one host


class Fate(str, Enum):
    """The choices for a VM that was taken over, when its host is back."""

    RUNS = "runs"  # elsewhere, and nothing of it is left on the host
    REMOVED = "removed"  # it is elsewhere: its definition on the host is to go
    RETURNS = "returns"  # it was never started elsewhere: what is left of it there is to go, and it is its host's again
    WAITS = "waits"


@dataclass(frozen=True)
class Back:
    """`at`: where it is. `message`: what a person has to do; empty: nothing."""

    vm: Taken
    fate: Fate
    at: str = ""
    message: str = ""


def come_back(known: Recovery, here: States | None, there: Mapping[str, States | None]) -> list[Back]:
    """`here`: what the old host has; `there`: the others. None: it cannot be read."""
    return [_back(vm, known.host, here, there) for vm in known.vms.values() if vm.step is not Step.FAILED]


def since(known: Recovery, boot_id: str) -> str:
    """Was the host off, by its boot id of now? Empty: that is not known."""
    if not known.boot_id or not boot_id:
        return ""
    if boot_id != known.boot_id:
        return f"{known.host} has booted since it died: what ran on it before is gone"
    though = f", though {known.proof}" if known.proof else ""
    return f"{known.host} still has its old boot id: it was not off{though}. Look for VMs that run twice"


def _back(vm: Taken, host: str, here: States | None, there: Mapping[str, States | None]) -> Back:
    runs = [name for name, states in there.items() if states is not None and _active(states, vm.uuid)]
    at = vm.target if vm.target in runs or not runs else runs[0]  # a drain may have moved it since
    states = there.get(at)
    if here is None or states is None:
        silent = host if here is None else at
        text = f"{silent} cannot be read, so nothing of {vm.name} is removed. Run recover again."
        return Back(vm, Fate.WAITS, at, text)
    if vm.step is Step.STARTING and not runs:
        text = f"{vm.name} was not started elsewhere. It belongs to {host} again"
        left = vm.uuid in here and not _active(here, vm.uuid)
        return Back(vm, Fate.RETURNS, at, f"{text}: start it there, virsh start {vm.name}" if left else f"{text}.")
    if vm.uuid not in here:
        return Back(vm, Fate.RUNS, at)
    if vm.uuid not in states:
        text = f"{vm.name} is no longer on {at}, where it was started, so its definition on {host} stays."
        return Back(vm, Fate.WAITS, at, f"{text} Start it here, or undefine it.")
    if _active(here, vm.uuid):
        text = f"{vm.name} runs on {host}, and was started on {at}. Check both, and stop one."
        return Back(vm, Fate.WAITS, at, text)
    return Back(vm, Fate.REMOVED, at)


def _active(states: States, uuid: str) -> bool:
    return uuid in states and is_active(states[uuid])
