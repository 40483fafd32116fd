# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide, the part about going back: abort what moves, start what we stopped, undo the rest.

Undoes only what the record says we did.
"""

from __future__ import annotations

from . import moves
from .actions import Do, NodePhase
from .model import State
from .reasons import Finding, Reason
from .record import Ending
from .step import Step
from .verdict import Situation


def restore(step: Step, in_flight: frozenset[Situation]) -> NodePhase:
    """The next actions towards an active node."""
    waiting = failed = False
    for uuid in step.order():
        situation = step.situations[uuid]
        if situation in in_flight:
            _withdraw(step, uuid, situation)
            waiting = True
        elif _one(step, uuid, situation):
            waiting = True
        elif step.record.vms[uuid].ending == Ending.BLOCKED.value:
            failed = True
    if waiting:
        return NodePhase.RESTORING
    if step.record.cordoned_by_us and step.obs.nodes[step.record.node].cordoned:
        step.do(Do.UNCORDON)
        return NodePhase.RESTORING
    if failed:
        return NodePhase.BLOCKED
    step.do(Do.FORGET)
    return NodePhase.ACTIVE


def _withdraw(step: Step, uuid: str, situation: Situation) -> None:
    """Stage-aware: pre-copy is aborted; what is past it goes on, and the answer says so."""
    entry = step.record.vms[uuid]
    moves.follow(step, uuid, situation)
    last = entry.last
    if last is None:
        return
    if situation in (Situation.MOVING, Situation.STARTING):
        if not last.abort_requested:
            last.abort_requested, last.abort_status = True, "Aborting"
        step.do(Do.ABORT, uuid, last.target, attempt=last.number)
    elif last.abort_requested:
        last.abort_status = "Failed"


def _one(step: Step, uuid: str, situation: Situation) -> bool:
    """One VM that is not moving. True: something is still to be done or to be read."""
    entry = step.record.vms[uuid]
    if uuid in step.unsure or situation is Situation.UNREADABLE:
        moves.wait_for_reading(step, entry, situation)
        return entry.ending == Ending.NONE.value
    moves.close_attempt(step, uuid)
    if uuid in step.obs.claims:
        step.do(Do.RELEASE, uuid, step.obs.claims[uuid].target)
        return True
    if situation is Situation.ARRIVED:
        moves.arrived(step, uuid)
        return entry.ending == Ending.NONE.value
    if situation is Situation.ARRIVED_LEFTOVER:
        moves.clean_source(step, uuid)
        return True
    if situation in (Situation.HERE, Situation.PAUSED_HERE, Situation.OUTCOME_LOST):
        return _runs_here(step, uuid)
    if situation is Situation.COLD_DEFINED_TWICE and entry.cold_target:
        step.do(Do.COLD_WITHDRAW, uuid, entry.cold_target)
        return True
    if situation is Situation.COLD_ARRIVED and entry.cold_target and entry.was_active:
        return _start(step, uuid, Do.COLD_START, entry.cold_target)
    if situation is Situation.STOPPED_HERE or (
        situation is Situation.NOWHERE and not entry.persistent
    ):
        if entry.stop_way and entry.was_active:
            return _start(step, uuid, Do.START, step.record.node)
    elif situation in (Situation.NOWHERE, Situation.TWICE):
        reason = Reason.RUNNING_TWICE if situation is Situation.TWICE else Reason.VM_LOST
        entry.end(Ending.BLOCKED, "", Finding(reason, step.where(uuid)))
    return False


def _runs_here(step: Step, uuid: str) -> bool:
    entry = step.record.vms[uuid]
    vm = step.here[uuid]
    assert vm is not None
    if vm.marked:
        step.do(Do.UNMARK, uuid)
        return True
    still_stopping = (
        entry.stop_way
        and entry.start_tries == 0
        and entry.ending == Ending.NONE.value
        and step.obs.now - entry.stop_started <= step.policy.shutdown_timeout
    )
    if still_stopping and vm.state is State.RUNNING:
        return True  # an ACPI request cannot be taken back: wait for what the guest does
    if entry.stop_way and entry.autostart and not vm.autostart:
        step.do(Do.AUTOSTART_ON, uuid)
        return True
    entry.end(Ending.RESTORED, step.record.node)
    return False


def _start(step: Step, uuid: str, what: Do, node: str) -> bool:
    entry = step.record.vms[uuid]
    if entry.start_tries >= step.policy.max_attempts:
        entry.end(Ending.BLOCKED, node, entry.finding or Finding(Reason.CANNOT_START))
        return False
    entry.start_tries += 1
    entry.ending = Ending.NONE.value
    step.do(what, uuid, node)
    return True
