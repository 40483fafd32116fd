"""Decide, the part about stopping: shutdown, save, cold migration, and VMs that are off."""

from __future__ import annotations

from ..model.observation import VM
from ..model.record import Ending, Intent, VMRecord
from ..reasons.reason import LASTING, Finding, Reason
from .actions import Do
from .migrations import crash, lacks_autostart
from .reconcile import Situation
from .step import Step
from .strategy import Choice, Way
from .unread_hosts import might_take, with_unreachable

_STOPPED = frozenset({Ending.STOPPED.value, Ending.SAVED.value, Ending.COLD_MOVED.value})

# From then on what its owner does with it is left as it is.
OVER = frozenset({Ending.COLD_MOVED.value, Ending.GONE.value})

# A shutdown request can get lost in a booting guest; asking again is harmless.
ASK_AGAIN_SECONDS = 10.0

# The platform refused to ask the guest: that is why it still runs.
_NOT_EVEN_ASKED = frozenset(
    {Reason.DisruptionBudget, Reason.DisruptionBudgetNotComputed, Reason.WebhookUnavailable}
    | {Reason.Forbidden, Reason.AdmissionRefused, Reason.APIError}
)


def begin_stop(step: Step, vm: VM, entry: VMRecord, choice: Choice) -> None:
    """Write the intent into the record; the acts follow in the same step, after the write."""
    way = choice.way
    if way is Way.SAVE and not vm.persistent:
        entry.end(Ending.BLOCKED, vm.node, Finding(Reason.TransientDomain))
        return
    never = {
        Way.SAVE: vm.save_findings,
        Way.SHUTDOWN: vm.shutdown_findings,
        Way.COLD_MIGRATE: vm.shutdown_findings + vm.cold_findings,
    }.get(way, ())
    if never:  # known before anything is stopped
        entry.end(Ending.BLOCKED, vm.node, never[0])
        return
    if way is Way.COLD_MIGRATE:
        target = step.pick(vm, cold=True)
        if target is None:
            _no_cold_target(step, vm, entry, Ending.BLOCKED)
            return
        entry.cold_target, entry.waiting_since = target, None
    entry.stop_way, entry.stop_run = way.value, step.record.run_id
    entry.stop_started, entry.stop_asked = step.obs.now, 0.0
    entry.ending = Ending.NONE.value
    if choice.findings:
        entry.note(choice.findings[0])
    if vm.autostart:
        entry.disarmed = True
        step.do(Do.AUTOSTART_OFF, vm.uuid)
    _ask(step, entry, entry.cold_target)


def _ask(step: Step, entry: VMRecord, target: str = "") -> None:
    """A save works or fails. What a guest is asked for it may do at any later time."""
    entry.stop_sent = step.obs.now
    here = step.here.get(entry.uuid)
    entry.stop_instance = entry.stop_instance or (here.instance if here is not None else "")
    if entry.stop_way == Way.SAVE.value:
        step.do(Do.SAVE, entry.uuid)
        return
    entry.stop_requests += 1
    entry.stop_timeout = step.policy.shutdown_timeout
    step.do(Do.SHUTDOWN, entry.uuid, target)


def _no_cold_target(step: Step, vm: VM, entry: VMRecord, ending: Ending) -> None:
    """None fits: that is the end, once all that might take it were asked. One fits, but its places are taken: wait."""
    refusals = step.placement.refusals(vm, cold=True)
    silent = might_take(step.obs, step.record.node, step.record.to) if refusals else []
    if silent or (refusals and not step.obs.full):
        refusals = with_unreachable(refusals, silent)
        if not _waited_for_unread(step, entry):
            entry.ending = Ending.NONE.value
            entry.note(refusals[0])
            return
    since = entry.waiting_since
    if refusals or step.late():
        why = refusals[0] if refusals else Finding(Reason.DeadlineExceeded)
        if ending is Ending.OFF:
            stay_off(step, vm, entry, ending, why)
        else:
            entry.end(ending, vm.node, why)
        entry.waiting_since = since if refusals else None  # the next step must not begin to wait anew
    else:
        entry.ending, entry.refused_since = Ending.NONE.value, None  # a queue: the node's deadline ends it
        entry.note(Finding(Reason.NoTargetWithCapacity, "The targets have no free capacity left."))


def _waited_for_unread(step: Step, entry: VMRecord) -> bool:
    """Has it waited long enough for hosts that were not read?"""
    if entry.waiting_since is None:
        entry.waiting_since = step.obs.now
    return step.late() or step.obs.now - entry.waiting_since > step.policy.unknown_timeout


def stopping(step: Step, uuid: str, vm: VM) -> None:
    """It was asked to stop and still runs."""
    entry = step.record.vms[uuid]
    entry.ending = Ending.NONE.value
    if is_saving(vm) or is_queued(vm):
        # Perhaps of an earlier run: from now on it is this one's, and so is its error.
        entry.stop_sent = max(entry.stop_sent, entry.stop_started)
        # As long as its memory is large and its storage slow: only the node's deadline ends it.
        if step.late():
            how = "is still being saved" if is_saving(vm) else "still waits to be saved"
            text = f"{entry.name} {how}."
            entry.end(Ending.BLOCKED, vm.node, Finding(Reason.DeadlineExceeded, text))
        return
    if uuid in step.obs.stop_errors:
        entry.note(step.obs.stop_errors[uuid])
    waited = _waited(step, entry)
    if waited > step.policy.shutdown_timeout:
        if step.policy.force_stop and entry.stop_asked and step.attempt(Do.FORCE_OFF, uuid):
            entry.stop_forced = True
        elif waited > step.policy.shutdown_timeout + ASK_AGAIN_SECONDS or not entry.stop_forced:
            # Stays so until a new run asks again (see run/start.start).
            cancel_stop_and_block(step, uuid, vm)
        return
    if step.obs.now - entry.stop_sent >= ASK_AGAIN_SECONDS and vm.job is None:
        _ask(step, entry, _unreserved(step, entry))


def _unreserved(step: Step, entry: VMRecord) -> str:
    """The target of its cold move, if no reservation of it stands there: one is needed before it is asked again."""
    claim, node = step.obs.claims.get(entry.uuid), step.obs.nodes.get(entry.cold_target)
    gone = claim is None and node is not None and node.reachable
    return entry.cold_target if gone else ""


def was_started_again(step: Step, vm: VM, entry: VMRecord) -> bool:
    """Did something start it again after our stop? True: it is not asked once more in this run.

    Not where a move that could not be completed went back: then it was us.
    """
    run_id = step.record.run_id
    new = vm.instance not in ("", entry.stop_instance) and entry.stop_instance != ""
    if new and entry.move_withdrawn is None and entry.stop_way and entry.stop_run == run_id:
        entry.restarted_run = run_id
    if entry.restarted_run != run_id:
        if entry.asked_to_stop and entry.ending in _STOPPED:
            entry.forget_stop()  # by somebody, since the run before
        return False
    if _cancel(step, vm.uuid, vm):
        entry.ending = Ending.NONE.value
        return True
    entry.forget_stop()
    text = f"{entry.name} was stopped, and something on {vm.node} started it again."
    entry.end(Ending.BLOCKED, vm.node, Finding(Reason.RestartsOnPowerOff, text))
    return True


def _waited(step: Step, entry: VMRecord) -> float:
    """How long it had to stop. A guest's time begins when it was asked, not when we decided to."""
    ours = entry.stop_sent >= entry.stop_started  # one of an earlier run was perhaps not made
    sent = entry.stop_requests > 0 and ours and entry.uuid not in step.obs.unsent
    if sent and not entry.stop_asked and entry.stop_way != Way.SAVE.value:
        entry.stop_asked = step.obs.now
    if entry.stop_asked:
        return step.obs.now - entry.stop_asked
    waits = entry.stop_requests > 0 and entry.uuid not in step.obs.stop_errors
    if waits and entry.stop_way != Way.SAVE.value and not step.late():
        return 0.0  # its request is on the way
    return step.obs.now - entry.stop_started


def is_saving(vm: VM) -> bool:
    return vm.job is not None and vm.job.saving


def is_queued(vm: VM) -> bool:
    """A save of it was ordered and has not begun."""
    return vm.job is not None and vm.job.queued


def _cancel(step: Step, uuid: str, vm: VM) -> bool:
    """Take back what we did for a stop that does not come. True: something is still to do."""
    entry = step.record.vms[uuid]
    claim = step.obs.claims.get(uuid)
    more = is_queued(vm) and step.attempt(Do.UNSAVE, uuid)
    if entry.autostart and not vm.autostart:
        more |= step.attempt(Do.AUTOSTART_ON, uuid)
    if claim is not None:  # of a cold migration
        more |= step.attempt(Do.RELEASE, uuid, claim.target)
    return more


def cancel_stop(step: Step, uuid: str, vm: VM) -> bool:
    """An earlier run asked it to stop, and this one does not want that. True: it is undone."""
    entry = step.record.vms[uuid]
    entry.ending = Ending.NONE.value
    if _cancel(step, uuid, vm):
        return False
    entry.renew_stop()
    return True


def cancel_stop_and_block(step: Step, uuid: str, vm: VM) -> None:
    """Undo what we did for the stop, then block. The stop stays in the record as tried."""
    entry = step.record.vms[uuid]
    _cancel(step, uuid, vm)
    text = f"{entry.name} still runs after {int(step.policy.shutdown_timeout)} s."
    asked = entry.stop_asked > 0
    if not asked and entry.stop_way != Way.SAVE.value:
        text = f"{entry.name} could not be asked to stop."
    finding = Finding(Reason.ShutdownTimedOut if asked else Reason.StopFailed, text)
    known = _NOT_EVEN_ASKED if asked else _NOT_EVEN_ASKED | {Reason.StopFailed}
    if entry.finding is not None and entry.finding.reason in known:
        finding = entry.finding
    entry.end(Ending.BLOCKED, vm.node, finding)


def handle_off_here(step: Step, uuid: str) -> None:
    """It is defined here and off."""
    entry = step.record.vms[uuid]
    vm = step.vm_here(uuid)
    entry.stop_requests = 0  # whatever was asked for, it is done
    moves = not entry.was_active and step.policy.move_inactive
    if not vm.known and (moves or entry.asked_to_stop):
        step.unread(entry, vm)
        return
    if not entry.is_read() and entry.reason == Reason.MigratableNotKnown.value:
        entry.note(None)  # of an earlier run
    if not entry.was_active:
        if step.policy.move_inactive and entry.persistent:
            _move_inactive(step, vm, entry)
        else:
            text = f"{entry.name} is off; it is moved while off if it is persistent and move_inactive is true."
            asked = step.record.intent == Intent.MIGRATED.value
            stay_off(step, vm, entry, Ending.OFF, Finding(Reason.StateNotLiveMigratable, text) if asked else None)
        return
    if not entry.asked_to_stop and vm.crashed:
        text = f"{entry.name} is off: its process on {vm.node} crashed or failed."
        entry.end(Ending.BLOCKED, vm.node, crash(entry, text))
    elif not entry.asked_to_stop and boot_over(step, entry):
        entry.end(Ending.BLOCKED, vm.node, why_off(step, entry))
    elif not entry.asked_to_stop:
        stay_off(step, vm, entry, Ending.GONE, why_off(step, entry))
    elif entry.stop_way == Way.COLD_MIGRATE.value:
        _handle_off_to_move(step, vm, entry)
    else:
        ending = Ending.SAVED if vm.managed_save else Ending.STOPPED
        found = step.obs.ended.get(uuid, entry.finding)
        ours = found is not None and found.reason is Reason.StoppedByItself
        stay_off(step, vm, entry, ending, step.off_late(entry, None if ours else found))


def stay_off(step: Step, vm: VM, entry: VMRecord, ending: Ending, finding: Finding | None = None) -> None:
    """It stays here, off: until the restore the node's next boot must not start it."""
    if vm.autostart and (entry.asked_to_stop or not step.record.only):
        entry.autostart = entry.disarmed = True
        step.attempt_or_block(Do.AUTOSTART_OFF, vm.uuid, "", Reason.StopFailed)
        return
    if ending is Ending.OFF and entry.disarmed:
        text = f"It is off, and does not start with {vm.node} until the restore."
        finding = Finding(Reason.AutostartSuspended, text)
    entry.end(ending, vm.node, finding)


def why_off(step: Step, entry: VMRecord) -> Finding:
    """Why a VM that ran is off, though this run did not ask it to stop."""
    if boot_over(step, entry):
        text = f"{step.record.node} restarted while {entry.name} ran on it. It is off."
        return Finding(Reason.VMCrashed, text)
    return step.obs.ended.get(entry.uuid, Finding(Reason.StoppedByItself))


def boot_over(step: Step, entry: VMRecord) -> bool:
    """Has the node restarted since the VM was last seen running on it?"""
    boot_id = step.obs.nodes[step.record.node].boot_id
    return entry.seen_boot not in ("", boot_id)


def _move_inactive(step: Step, vm: VM, entry: VMRecord) -> None:
    if vm.cold_findings:
        entry.end(Ending.BLOCKED, vm.node, vm.cold_findings[0])
        return
    entry.stop_run = step.record.run_id
    entry.stop_way = Way.COLD_MIGRATE.value
    _define_there(step, vm, entry, Ending.OFF)


def _define_there(step: Step, vm: VM, entry: VMRecord, if_none: Ending) -> None:
    """On the target that was claimed, or on another one if that did not take it after all."""
    target = entry.cold_target or step.pick(vm, cold=True)
    if target is None:
        _no_cold_target(step, vm, entry, if_none)
        return
    entry.cold_target, entry.waiting_since = target, None
    if step.refused_to_the_end(entry):
        entry.end(Ending.BLOCKED, vm.node, step.final_finding(entry))
        return
    step.attempt_or_block(Do.COLD_DEFINE, vm.uuid, target, Reason.StopFailed)


def _handle_off_to_move(step: Step, vm: VM, entry: VMRecord) -> None:
    """It was stopped for its move."""
    if vm.managed_save:
        entry.end(Ending.BLOCKED, vm.node, Finding(Reason.StopFailed, "it has a saved state"))
        return
    why = entry.move_withdrawn or _must_not_leave(vm, entry)
    if why is not None:
        _go_back(step, entry, why)
    else:
        _define_there(step, vm, entry, Ending.BLOCKED)


def _must_not_leave(vm: VM, entry: VMRecord) -> Finding | None:
    """Why the VM, which is off now, must not be started on its target; None: it may. Only now is it sure with which
    definition it starts: that may have been changed since the guest was asked to stop."""
    refused = vm.refused_by if vm.cold_refused_by is None else vm.cold_refused_by
    found = (*vm.cold_findings, *refused.get(entry.cold_target, ()))
    return next((finding for finding in found if finding.reason in LASTING), None)


def start_there(step: Step, entry: VMRecord, node: str) -> None:
    """Start it where it was moved; what cannot be started there goes back to where it ran."""
    if entry.move_withdrawn is None:
        if not step.refused_to_the_end(entry) and step.attempt(Do.COLD_START, entry.uuid, node):
            entry.ending = Ending.NONE.value
            return
        why = entry.message or "it gave no reason"
        text = f"{node} could not start it: {why.removeprefix(f'{Do.COLD_START.value}: ')}."
        entry.withdraw_move(Finding(Reason.CannotStart, text.replace("..", ".")))
    if entry.persistent:  # a transient one is nowhere yet
        step.attempt_or_block(Do.COLD_RETURN, entry.uuid, node, Reason.CannotStart)
    elif entry.move_withdrawn is not None:
        _go_back(step, entry, entry.move_withdrawn)


def _go_back(step: Step, entry: VMRecord, why: Finding) -> None:
    """It is off here, with its definition: it runs again where it ran."""
    entry.withdraw_move(why)
    if step.attempt(Do.START, entry.uuid):
        entry.ending = Ending.NONE.value
        return
    text = f"{why.message} {step.record.node} could not start it again: {entry.message}"
    entry.end(Ending.BLOCKED, step.record.node, Finding(Reason.CannotStart, text))


def came_back(step: Step, vm: VM, entry: VMRecord) -> bool:
    """Did it go back, and does it run here again? In this run it is not asked once more."""
    why = entry.move_withdrawn
    if why is None:
        return False
    entry.forget_stop()  # and so its claim is given back
    more = vm.uuid in step.obs.claims
    if vm.known and entry.disarmed and entry.autostart and not vm.autostart:
        more |= step.attempt(Do.AUTOSTART_ON, vm.uuid)
    if more:
        entry.ending = Ending.NONE.value
        return True
    text = f"{why.message} It was stopped for its move, and runs on {vm.node} again."
    entry.end(Ending.BLOCKED, vm.node, Finding(why.reason, text))
    return True


def handle_off_elsewhere(step: Step, uuid: str, situation: Situation) -> None:
    """Off and defined on another node, perhaps here too. Never both startable at the end."""
    entry = step.record.vms[uuid]
    seen = step.seen_elsewhere(uuid)
    before, entry.ending = entry.ending, Ending.NONE.value
    if situation is Situation.COLD_DEFINED_TWICE:
        if entry.cold_target != seen.node:
            # Not our doing: an old definition elsewhere. It is off; it is left alone.
            handle_off_here(step, uuid)
            return
        what = Do.COLD_UNDEFINE if entry.move_withdrawn is None else Do.COLD_WITHDRAW
        step.attempt_or_block(what, uuid, seen.node, Reason.StopFailed)
    elif (entry.ran_there or not entry.was_active) and before not in OVER and lacks_autostart(entry, seen):
        step.attempt_or_block(Do.FINISH, uuid, seen.node, Reason.StopFailed)
    elif not entry.was_active:
        entry.end(Ending.COLD_MOVED if entry.cold_target else Ending.OFF, seen.node)
    elif seen.crashed and not (entry.cold_target and before == Ending.NONE.value and not entry.ran_there):
        # libvirt calls failed also what it could not start.
        text = f"{entry.name} was moved to {seen.node}, and its process there crashed or failed."
        entry.end(Ending.BLOCKED, seen.node, crash(entry, text))
    elif not entry.cold_target and (entry.stop_requests or _said_late(entry, before)):
        # Said once: who runs it there may know better than to start it.
        entry.stop_requests = 0
        text = f"{entry.name} was asked to stop here, moved to {seen.node}, and shut down there."
        entry.end(Ending.BLOCKED, seen.node, Finding(Reason.ShutdownTimedOut, text))
    elif not entry.cold_target or entry.ran_there or before in OVER:
        # It moved, and then its guest or somebody stopped it there.
        entry.end(Ending.GONE, seen.node, Finding(Reason.StoppedByItself))
    else:
        start_there(step, entry, seen.node)


def _said_late(entry: VMRecord, before: str) -> bool:
    late = entry.reason == Reason.ShutdownTimedOut.value
    return before == Ending.BLOCKED.value and late
