"""Decide, the part about VMs that are on the node: which way each goes, and what starts now."""

from __future__ import annotations

from dataclasses import replace

from ..model.columns import count
from ..model.observation import VM
from ..model.record import Ending, Intent, VMRecord
from ..model.wall import after
from ..reasons.reason import Finding, Reason
from . import hooks
from .actions import Do
from .migrations import close_with_outcome, paused_text, resume
from .reconcile import Situation
from .retry import migrate, with_refusals_met
from .step import Step
from .stops import begin_stop, came_back, cancel_stop, is_saving, stopping, was_started_again
from .strategy import Choice, Way, choose, choose_requested, strongest
from .unread_hosts import might_take, with_unreachable


def handle_here(step: Step, uuid: str, situation: Situation) -> None:
    """It is here and not moving: decide its way."""
    entry = step.record.vms[uuid]
    vm = step.vm_here(uuid)
    close_with_outcome(step, entry)
    entry.at = step.record.node
    entry.seen_boot = step.obs.nodes[step.record.node].boot_id
    if was_started_again(step, vm, entry):
        return
    if resume(step, uuid, vm) or came_back(step, vm, entry):
        return
    # One that an earlier run began is watched: what can be read of the VM meanwhile says nothing. Then it is decided.
    saves = entry.stop_way == Way.SAVE.value and is_saving(vm)
    if saves or (entry.stop_way and entry.stop_run == step.record.run_id and not vm.control_node):
        stopping(step, uuid, vm)
        return
    entry.was_active = True
    read_again = vm.known and entry.is_read()
    if vm.migratable is not None and entry.reason == Reason.MigratableNotKnown.value and not read_again:
        entry.waiting_since = None  # known: from now on it waits for something else
    vm = with_refusals_met(step, entry, vm)
    refusals = step.placement.refusals(vm)
    # One that is not migratable goes nowhere while it runs, whoever answers.
    silent = might_take(step.obs, step.record.node, step.record.to) if refusals and vm.migratable is not False else []
    if silent or (refusals and not step.obs.full):
        # Not known yet, so nothing is stopped.
        vm, refusals = replace(vm, migratable=None), with_unreachable(refusals, silent)
    asked = step.record.intent == Intent.MIGRATED.value
    choice = (choose_requested if asked else choose)(vm, step.policy, refusals)
    entry.way, entry.strategy = choice.way.value, choice.strategy.value
    entry.decided_by = choice.decided_by
    if not vm.known:  # what was decided about it before is neither carried on nor taken back
        step.unread(entry, vm)
        return
    entry.agent = vm.document.get("agent_connected") is True
    hooks.note_hooks(entry, choice.hooks)
    if entry.stop_way == choice.way.value:  # of an earlier run, and this one wants it too
        if hooks.waits_for_hook(step, entry):
            return
        entry.stop_run = step.record.run_id
        stopping(step, uuid, vm)
        return
    if entry.stop_way and not cancel_stop(step, uuid, vm):
        return
    if situation is Situation.PAUSED_HERE and choice.way is Way.MIGRATE:
        text = paused_text(vm.name, step.record.node, vm.paused_by)
        entry.end(Ending.BLOCKED, vm.node, Finding(Reason.StateNotLiveMigratable, f"{text}."))
    else:
        _go(step, vm, entry, choice)


def _go(step: Step, vm: VM, entry: VMRecord, choice: Choice) -> None:
    first = choice.findings[0] if choice.findings else None
    if vm.control_node and choice.way in (Way.MIGRATE, Way.EXTERNAL) and _waits_for_other_vms(step, vm, entry):
        return
    if choice.way is Way.MIGRATE:
        migrate(step, vm, entry, choice)
    elif choice.way is Way.BLOCK:
        entry.end(Ending.BLOCKED, vm.node, strongest(choice, step.obs.platform))
        step.unmark(vm)
    elif choice.way is Way.SKIP:
        entry.end(Ending.SKIPPED, vm.node, Finding(Reason.SkippedByPolicy, first.message if first else ""))
    elif choice.way in (Way.WAIT, Way.EXTERNAL):
        _wait(step, vm, entry, choice)
    elif step.late() or step.refused_long(entry):
        entry.end(Ending.BLOCKED, vm.node, step.final_finding(entry))
    elif not hooks.waits_for_hook(step, entry):
        begin_stop(step, vm, entry, choice)


def _waits_for_other_vms(step: Step, vm: VM, entry: VMRecord) -> bool:
    """It runs us, and others have not gone yet: it waits, until the node's deadline at most."""
    others = step.before_control_node()
    if not others or not step.policy.in_turn or step.late():
        return False
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    text = f"{vm.control_node} It is moved last: {', '.join(sorted(others)[:3])}{more} first."
    entry.ending = Ending.NONE.value
    entry.waiting_since = None
    entry.note(Finding(Reason.RunsTheMaintenance, text))
    return True


def _wait(step: Step, vm: VM, entry: VMRecord, choice: Choice) -> None:
    """Wait for the owner (External) or for knowledge, up to a deadline of our own."""
    external = choice.way is Way.EXTERNAL
    if external and not step.late() and hooks.waits_for_hook(step, entry):
        return
    limit = step.policy.external_timeout if external else step.policy.unknown_timeout
    if entry.waiting_since is None:
        entry.waiting_since, entry.owner_asked = step.obs.now, ""
    asked = bool(entry.owner_asked) or step.policy.in_turn  # else it is only looked at
    if external and not entry.owner_asked:
        entry.owner_asked, entry.owner_limit = after(step.obs.wall, entry.waiting_since - step.obs.now), limit
    finding = choice.findings[0] if choice.findings else Finding(Reason.MigratableNotKnown)
    if external:
        # Who only looks knows the options of the drain by its record alone.
        limit = entry.owner_limit
        told = _asked_owner(vm, entry.owner_asked, limit) if asked else _would_ask(vm, limit)
        finding = Finding(Reason.ExternalOwner, told)
    entry.ending = Ending.NONE.value
    entry.note(finding)
    if step.obs.now - entry.waiting_since > limit or step.late():
        late = Finding(Reason.ExternalOwnerTimedOut, _not_moved(vm)) if external else finding
        entry.end(Ending.BLOCKED, vm.node, late, keep_waiting=True)
        step.unmark(vm)
    elif external and not vm.marked:
        step.attempt(Do.MARK, vm.uuid)


def _asked_owner(vm: VM, at: str, limit: float) -> str:
    """`at`: UTC."""
    who = f"Its owner{vm.owner and f' ({vm.owner})'} was asked"
    return f"{who} at {at} to move it, and has until {after(at, limit)}." if at else f"{who} to move it."


def _would_ask(vm: VM, limit: float) -> str:
    return f"Its owner{vm.owner and f' ({vm.owner})'} would be asked to move it, and would have {limit:.0f} s for that."


def _not_moved(vm: VM) -> str:
    return f"Its owner ({vm.owner}) did not move it within external_timeout." if vm.owner else ""


def start_migrations(step: Step) -> None:
    """Give out the free places: higher priority first, then larger VMs (they fit last).

    Among its equals a VM that waits for its hook comes last: it is asked for when the place is
    free, and keeps that, so that no more of them stand prepared than can move.
    """
    step.look_at_failures()
    # Also where one VM alone is asked for: the others that leave the node take places too.
    leaving = max(step.in_flight, step.obs.nodes[step.record.node].outbound)
    room = min(step.policy.limits.outbound - leaving, step.cluster_room)
    entries = step.record.vms
    waits = {vm.uuid: hooks.has_unanswered_hook(step, entries[vm.uuid]) for vm, _choice in step.wanted}
    size = step.placement.size
    step.wanted.sort(key=lambda w: (-w[1].priority, waits[w[0].uuid], -size(w[0]), w[0].name))
    for vm, choice in step.wanted:
        entry = entries[vm.uuid]
        if room <= 0:
            break
        target = step.pick(vm)
        if target is None:
            entry.refused_since = None
            # Only inbound places are taken: a queue, which the node's deadline ends.
            full = step.placement.with_room(vm)
            if not full:
                _no_room_now(step, vm, entry)
            elif not leaving:
                _wait_for_others_there(step, entry, full)
            continue
        room -= 1
        step.cluster_room -= 1
        if hooks.waits_for_hook(step, entry, target):
            continue
        step.do(
            Do.MIGRATE,
            vm.uuid,
            target,
            attempt=len(entry.attempts) + 1,
            method=vm.method,
            priority=choice.priority,
            settings=choice.migration,
        )
    if not leaving and step.policy.limits.cluster <= step.obs.cluster_in_flight:
        _wait_for_slots(step)
    elif not step.in_flight and step.policy.limits.outbound <= leaving:
        _wait_for_others_here(step, leaving)


def _wait_for_slots(step: Step) -> None:
    """Others have all places of the fleet. A host that died keeps its own, so they are named."""
    taken = ", ".join(f"{name} {held}" for name, held in sorted(step.obs.slots_of.items()))
    slots = count(step.policy.limits.cluster, "migration slot")
    text = f"All {slots} are taken ({taken}). A dead host keeps its slots."
    for vm, _choice in step.wanted:
        step.record.vms[vm.uuid].note(Finding(Reason.WaitingForSlot, text))


def _wait_for_others_there(step: Step, entry: VMRecord, full: list[str]) -> None:
    """It has room on these nodes, and others migrate there now."""
    text = (
        f"{', '.join(sorted(full))} cannot receive more than {count(step.policy.limits.inbound, 'migration')} at once."
    )
    entry.note(Finding(Reason.WaitingForSlot, f"{text} Migrations that others started are running."))


def _wait_for_others_here(step: Step, leaving: int) -> None:
    """None of the migrations that leave this node is ours."""
    text = f"{count(leaving, 'migration')} by others from {step.record.node} under way; "
    text += f"{step.policy.limits.outbound} may run at once."
    for vm, _choice in step.wanted:
        step.record.vms[vm.uuid].note(Finding(Reason.WaitingForSlot, text))


def _no_room_now(step: Step, vm: VM, entry: VMRecord) -> None:
    """A node could take it, but its room is taken now."""
    text = f"Targets exist, but their {step.placement.taken(vm)} is reserved by others."
    entry.note(Finding(Reason.NoTargetWithCapacity, text))
    if entry.waiting_since is None:
        entry.waiting_since = step.obs.now
    elif step.obs.now - entry.waiting_since > step.policy.pending_timeout:
        finding = Finding(Reason.NoTargetWithCapacity, text)
        entry.end(Ending.BLOCKED, vm.node, finding, keep_waiting=True)
