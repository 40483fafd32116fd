"""Decide, the part about going back: abort what moves, start what we stopped, undo the rest.

Undoes only what the record says we did.
"""

from __future__ import annotations

from ..model.observation import VM, Observation, Phase, State
from ..model.record import Attempt, Ending, NodeRecord, VMRecord
from ..reasons.reason import Finding, Reason
from . import elsewhere, hooks, migrations, stops
from .actions import Do, NodePhase
from .reconcile import Situation
from .step import Step

_HERE = frozenset({Situation.HERE, Situation.PAUSED_HERE, Situation.OUTCOME_LOST})
_BAD = frozenset({Ending.BLOCKED.value, Ending.LOST.value})
_AWAY = frozenset({Ending.MOVED.value, Ending.COLD_MOVED.value})
# It has run at its target.
_RAN_THERE = _AWAY | {Ending.GONE.value}


def restore(step: Step, in_flight: frozenset[Situation], ready: bool = True) -> NodePhase:
    """The next actions towards an active node. `ready`: it can be given back; else only its VMs are."""
    record, node = step.record, step.obs.nodes[step.record.node]
    vms = record.vms.values()
    # One VM alone: claims and cordon are those of a drain, and its business.
    others = [] if record.only else [u for u in step.obs.claims if u not in record.vms]
    strays = [step.obs.claims[u] for u in others if not step.is_unreadable(u)]
    for claim in strays if not step.late() else ():
        step.do(Do.RELEASE, claim.vm, claim.target)
    waiting, failed, starting = bool(strays), False, False
    for uuid in step.order():
        entry, anew = record.vms[uuid], elsewhere.starts_anew(step, uuid)
        pending = not entry.ending if anew else _pending(step, uuid, in_flight)
        if pending and step.late():
            entry.end(Ending.BLOCKED, "", entry.finding or Finding(Reason.DeadlineExceeded))
        # It may be that only this node takes it: so it does not keep the cordon, or both wait.
        starting |= pending and anew
        waiting |= pending and not anew
        late = _moved_on(entry)
        # A node is given back all the same; one migration was to be aborted, and was not.
        failed |= entry.ending in _BAD or (late and bool(record.only))
    asked = hooks.request_after_hooks(step)
    if waiting:
        return NodePhase.BLOCKED if step.late() else NodePhase.RESTORING
    if any(entry.reason == Reason.Forbidden.value and entry.ending in _BAD for entry in vms):
        return NodePhase.BLOCKED  # half undone: the node takes no VMs until the rest may be, too
    if not ready:
        return NodePhase.RESTORING if step.waits_for_node() else NodePhase.BLOCKED
    ours = node.our_cordon
    if ours is None:
        ours = record.cordoned_by_us and node.cordoned
    if ours and not record.only:
        # Also when its time is over it is asked for once: then there is a reason to tell.
        if not step.waits_for_node() and record.finding is not None:
            return NodePhase.BLOCKED
        step.do(Do.UNCORDON)
        return NodePhase.RESTORING
    if asked or starting:  # the record stays until they are answered, and until they run
        return NodePhase.RESTORING
    if failed:
        return NodePhase.BLOCKED
    return _forget(step)


def _forget(step: Step) -> NodePhase:
    """The last act. Where it is refused it is asked for again, for as long as the node may wait."""
    record = step.record
    refused = record.finding is not None
    if not refused:
        record.waiting_since = None  # what was waited for so far was something else
    if not step.waits_for_node() and refused:
        return NodePhase.BLOCKED
    step.do(Do.FORGET)
    return NodePhase.ACTIVE


def _pending(step: Step, uuid: str, in_flight: frozenset[Situation]) -> bool:
    """Is something still to be done with it, or to be read?"""
    entry, situation = step.record.vms[uuid], step.situations[uuid]
    if uuid in step.obs.ending:
        migrations.ending_by_others(step, uuid)
    elif situation in in_flight:
        _withdraw(step, uuid, situation)
    else:
        return _one(step, uuid, situation) or _asks_silent_target(step, uuid)
    return entry.ending == Ending.NONE.value


def _asks_silent_target(step: Step, uuid: str) -> bool:
    """Its way ended on a host that does not answer: what was claimed there and with the quorum hosts
    is not seen, and may stand. True: it is asked once more to give it back. At last it is said."""
    entry = step.record.vms[uuid]
    target = _silent_target(step.obs, entry)
    if not target or entry.ending in _BAD or step.late():
        return False
    before = entry.finding
    if step.attempt(Do.RELEASE, uuid, target, "silent"):
        entry.ending = Ending.NONE.value
        return True
    if before is None or before.reason is Reason.PeerUnreachable:
        text = f"{target} does not answer: a reservation for {entry.name} may be left there."
        text += " The next run that can read both hosts removes it."
        entry.note(Finding(Reason.PeerUnreachable, text))
    return False


def _silent_target(obs: Observation, entry: VMRecord) -> str:
    """The host to which it was sent, or was to go, and which does not answer; empty: there is none."""
    ours = next((attempt for attempt in reversed(entry.attempts) if not attempt.adopted), None)
    target = entry.cold_target or (ours.target if ours is not None and not ours.ok else "")
    node = obs.nodes.get(target)
    return target if node is not None and not node.reachable else ""


def leaves_nothing(record: NodeRecord, obs: Observation) -> bool:
    """Is all of one VM's migration over, so that its record can go: no stop to be undone, no claim, no job, nothing
    left to be done where it has arrived, and nothing unknown?"""
    for uuid, entry in record.vms.items():
        stopped = entry.asked_to_stop and entry.ending != Ending.COLD_MOVED.value
        moved = uuid not in obs.vms or (entry.last is not None and entry.last.ok)
        unfinished = entry.ending in _BAD and moved
        if stopped or unfinished or uuid in obs.claims or uuid in obs.held or _silent_target(obs, entry):
            return False
    return True


def _moved_on(entry: VMRecord) -> bool:
    """The abort came too late. Then the VM itself says where it runs."""
    last = entry.last
    if last is None or last.abort_status != "Failed":
        return False
    if entry.ending in _AWAY:
        entry.note(too_late(entry.at))
    return True


def too_late(node: str) -> Finding:
    """It runs on `node`, and was to stay where it was."""
    return Finding(Reason.TooLateToAbort, f"Not aborted: it runs on {node}.")


def _refuse(step: Step, entry: VMRecord, last: Attempt, situation: Situation) -> None:
    last.abort_requested, last.abort_status = True, "Failed"
    if entry.finding is not None:
        return  # worse: post-copy is broken
    here, where = step.here.get(entry.uuid), last.target or "its target"
    if here is not None and here.state in (State.INCOMING, State.POSTCOPY):
        text = f"it is migrating to {here.node}; abort it on its source."
    else:
        post = situation is Situation.POSTCOPY
        how = "post-copy runs" if post else "it is being switched over"
        text = f"{how}. It moves to {where}."
    entry.note(Finding(Reason.TooLateToAbort, f"Not aborted: {text}"))


def _withdraw(step: Step, uuid: str, situation: Situation) -> None:
    """Stage-aware: pre-copy is aborted, unless what runs may finish; what is past it goes on, and
    the answer says so. What somebody else asked for is left to them, unless this one VM was named.
    """
    entry = step.record.vms[uuid]
    refused = migrations.withdrawal_denied(entry)
    if refused is not None:  # it goes on, and asking again changes nothing
        entry.end(Ending.BLOCKED, step.record.node, refused)
        return
    migrations.handle_migration(step, uuid, situation)
    last = entry.last
    if last is None or (last.adopted and not step.record.only) or entry.ending:
        return
    if step.policy.let_finish and _runs(step.here.get(uuid)):
        return
    if situation in (Situation.MOVING, Situation.STARTING):
        if not last.abort_requested:
            last.abort_requested, last.abort_status = True, "Aborting"
        step.do(Do.ABORT, uuid, last.target, attempt=last.number)
    else:
        _refuse(step, entry, last, situation)


def _runs(vm: VM | None) -> bool:
    """Does its memory move? Where the platform has phases, what is still prepared does not."""
    job = vm.job if vm is not None else None
    return job is not None and job.phase in ("", Phase.RUNNING.value)


def _one(step: Step, uuid: str, situation: Situation) -> bool:
    """One VM that is not moving. True: something is still to be done or to be read."""
    entry = step.record.vms[uuid]
    if uuid in step.unsure or situation is Situation.UNREADABLE:
        migrations.wait_for_reading(step, entry, situation)
        return entry.ending == Ending.NONE.value
    migrations.close_attempt(step, uuid)
    if migrations.release_unneeded_claim(step, uuid):
        return entry.ending == Ending.NONE.value
    vm = step.here.get(uuid)
    if vm is not None and situation in _HERE and migrations.resume(step, uuid, vm):
        return entry.ending == Ending.NONE.value
    if vm is not None and vm.known:
        entry.is_read()
    elif vm is not None and _touched(entry, vm):  # what there is to undo is not known
        step.unread(entry, vm)
        return entry.ending == Ending.NONE.value
    if vm is not None and vm.marked:
        # Restored with a mark is not restored.
        step.attempt_or_block(Do.UNMARK, uuid, "", Reason.EvacuationMarkStays)
    elif situation is Situation.ARRIVED:
        migrations.arrived(step, uuid)
    elif situation is Situation.ARRIVED_LEFTOVER:
        elsewhere.clean_source(step, uuid)
    elif situation in _HERE:
        return _runs_here(step, uuid, step.vm_here(uuid))
    elif situation is Situation.TWICE:
        entry.end(Ending.BLOCKED, "", Finding(Reason.RunningTwice, step.where(uuid)))
    elif situation in (Situation.CRASHED_HERE, Situation.CRASHED_THERE, Situation.POSTCOPY_LOST):
        migrations.one_has_ended(step, entry, situation)
    else:
        return _off(step, uuid, situation)
    return entry.ending == Ending.NONE.value


def _touched(entry: VMRecord, vm: VM) -> bool:
    """Has the drain moved or stopped this VM, or disarmed its autostart? The last counts only where it may run: of a VM
    that is off the autostart is known, whatever else is not."""
    return bool(entry.attempts or entry.asked_to_stop or (entry.disarmed and vm.active))


def _gives_autostart_back(entry: VMRecord, vm: VM) -> bool:
    """Is it off here, and is its autostart still suspended by us?"""
    if entry.finding is not None and entry.finding.reason is Reason.AutostartSuspended:
        entry.note(None)
    return entry.disarmed and entry.autostart and not vm.autostart


def _off(step: Step, uuid: str, situation: Situation) -> bool:
    """It runs nowhere. It is started again if we stopped it."""
    entry = step.record.vms[uuid]
    vm, cold = step.here.get(uuid), _is_at_cold_target(step, entry)
    wanted = entry.was_active and entry.asked_to_stop
    if situation is Situation.COLD_DEFINED_TWICE and cold:
        step.attempt_or_block(Do.COLD_WITHDRAW, uuid, entry.cold_target, Reason.StopFailed)
    elif situation is Situation.COLD_ARRIVED:
        return _off_there(step, entry, cold, wanted)
    elif situation is Situation.NOWHERE and (entry.persistent or entry.ran_there or not wanted):
        elsewhere.handle_nowhere(step, uuid)
    elif vm is not None and vm.kept_off is not None:
        entry.end(Ending.GONE, "", vm.kept_off)  # stopped by us or not: it is its owner's by now
    elif wanted:
        _start(step, uuid, Do.START, step.record.node)
    elif vm is not None and _gives_autostart_back(entry, vm):
        step.attempt_or_block(Do.AUTOSTART_ON, uuid, "", Reason.CannotStart)
    elif entry.ending != Ending.GONE.value:
        ran = entry.was_active
        ending, why = (Ending.GONE, stops.why_off(step, entry)) if ran else (Ending.OFF, entry.finding)
        entry.end(ending, step.record.node, why)
    entry.stop_requests = 0  # whatever was asked for, it is done
    return entry.ending == Ending.NONE.value


def _is_at_cold_target(step: Step, entry: VMRecord) -> bool:
    seen = step.sighting(entry.uuid)
    return bool(entry.cold_target) and seen is not None and seen.node == entry.cold_target


def _off_there(step: Step, entry: VMRecord, cold: bool, wanted: bool) -> bool:
    """It is off, and defined on another host only. `cold`: on that to which we moved it off. `wanted`: it is to run."""
    seen, late = step.sighting(entry.uuid), entry.stop_requests > 0
    own = entry.ran_there or not entry.was_active
    if seen is not None and own and entry.ending not in stops.OVER and migrations.lacks_autostart(entry, seen):
        step.attempt_or_block(Do.FINISH, entry.uuid, entry.cold_target, Reason.StopFailed)
    elif entry.was_active and not late and seen is not None and (entry.ran_there or entry.ending in _RAN_THERE):
        entry.end(Ending.GONE, seen.node, Finding(Reason.StoppedByItself))  # as a drain says it
    elif cold and wanted and entry.stop_way:
        entry.start_tries += 1
        hooks.note_started_again(entry)
        stops.start_there(step, entry, entry.cold_target)
    elif late and wanted and seen is not None:  # it moved, and acted on our request there
        _start(step, entry.uuid, Do.COLD_START, seen.node)
        return entry.ending == Ending.NONE.value
    else:
        entry.end(Ending.COLD_MOVED if cold else Ending.MOVED, seen.node if seen else "")
    return entry.ending == Ending.NONE.value


def _runs_here(step: Step, uuid: str, vm: VM) -> bool:
    entry = step.record.vms[uuid]
    if entry.stop_way and stops.is_saving(vm):
        # Ended half-way it would have stood still for nothing: then it is started from its state.
        text = f"{entry.name} is being saved; it is started again once that is done."
        entry.ending = Ending.NONE.value
        entry.note(Finding(Reason.BlockJobRunning, text))
        return True
    if stops.is_queued(vm):
        step.attempt_or_block(Do.UNSAVE, uuid, "", Reason.StopFailed)
        return entry.ending == Ending.NONE.value
    asked, waited = entry.stop_requests > 0, step.obs.now - entry.stop_sent
    timeout = max(entry.stop_timeout, step.policy.shutdown_timeout)
    if asked and (waited <= timeout or vm.stopping is False) and vm.state is State.RUNNING:
        entry.ending = Ending.NONE.value
        return True  # it cannot be taken back: wait for what the guest does. One that was not asked is soon forgotten
    ours = entry.asked_to_stop or entry.disarmed
    if ours and entry.persistent and entry.autostart and not vm.autostart:
        step.attempt_or_block(Do.AUTOSTART_ON, uuid, "", Reason.CannotStart)
        return entry.ending == Ending.NONE.value
    if asked:
        # Forgotten now, nobody would start it again. The next restore believes that it is deaf.
        text = f"{entry.name} was asked to stop {int(waited)} s ago, and may still stop."
        entry.end(Ending.BLOCKED, vm.node, Finding(Reason.ShutdownTimedOut, text))
        return False
    entry.end(Ending.RESTORED, step.record.node)
    return False


def _start(step: Step, uuid: str, what: Do, node: str) -> None:
    entry = step.record.vms[uuid]
    entry.start_tries += 1
    hooks.note_started_again(entry)
    step.attempt_or_block(what, uuid, node, Reason.CannotStart)
