"""Decide, the part about a VM that is not on the node: it runs elsewhere while a definition of it
is left here, it is being started anew, or it is nowhere."""

from __future__ import annotations

from ..model.observation import Sighting, State
from ..model.record import Ending, Intent, VMRecord
from ..reasons.reason import Finding, Reason
from .actions import Do
from .migrations import close_with_outcome
from .step import Step
from .stops import boot_over, start_there

# Sooner than after so many seconds it is no news that what is started anew does not run yet.
_STARTS_WITHIN = 30.0


def clean_source(step: Step, uuid: str) -> None:
    """It runs there, and a definition that could be started is left here.

    After a move of ours it is removed. What others moved they may define where they like; and where
    they moved it without its definition, this is the only one.
    """
    entry = step.record.vms[uuid]
    seen = step.seen_elsewhere(uuid)
    if _moved_by_us(step, entry, seen.node):
        close_with_outcome(step, entry, arrived_at=seen.node)
        step.attempt_or_block(Do.CLEAN_SOURCE, uuid, seen.node, Reason.StopFailed)
        return
    close_with_outcome(step, entry)
    claim, here = step.obs.claims.get(uuid), step.here.get(uuid)
    if claim is not None:  # for a move of ours that was overtaken
        step.attempt_or_block(Do.RELEASE, uuid, claim.target, Reason.PeerUnreachable)
    elif here is not None and here.autostart:
        # With the next boot of this host it would run twice.
        entry.autostart = entry.disarmed = True
        step.attempt_or_block(Do.AUTOSTART_OFF, uuid, "", Reason.StopFailed)
    elif _takes_autostart_along(step, entry, seen):
        step.attempt_or_block(Do.FINISH, uuid, seen.node, Reason.MigrationFailed)
    elif not entry.was_active:
        text = f"It runs on {seen.node}, so it does not start with {step.record.node}."
        why = Finding(Reason.AutostartSuspended, text) if entry.disarmed else None
        entry.end(Ending.OFF, step.record.node, why)
    else:
        finding = Finding(Reason.DefinitionLeft, _left_definition(step, entry, seen))
        entry.end(Ending.MOVED, seen.node, finding)


def _takes_autostart_along(step: Step, entry: VMRecord, seen: Sighting) -> bool:
    """Is it at rest where others run it, while the autostart that we took is to be given back?

    What is transient there has none. Then its definition here stays without it, and is named.
    """
    back = step.record.intent == Intent.ACTIVE.value and entry.disarmed and entry.autostart
    return back and seen.persistent and not seen.autostart and seen.job is None


def _moved_by_us(step: Step, entry: VMRecord, node: str) -> bool:
    """Did the last attempt bring it there? One that failed, or was aborted, brought nothing."""
    last = entry.last
    if last is None or last.adopted or last.target != node:
        return bool(entry.cold_target) and entry.cold_target == node
    if last.ended:
        return bool(last.ok)
    outcome = step.obs.outcomes.get((entry.uuid, last.number))
    return outcome is None or outcome.ok or outcome.at == node


def _left_definition(step: Step, entry: VMRecord, seen: Sighting) -> str:
    node = step.record.node
    how = f"started {entry.name} on" if entry.asked_to_stop else f"moved {entry.name} to"
    text = f"Someone else {how} {seen.node}; its definition is still on {node}."
    if entry.persistent and not seen.persistent:
        text += f" On {seen.node} it is transient: when it stops there, only {node} has its definition."
    if entry.autostart:
        text += " Its autostart there is now off; otherwise it would run twice after a reboot."
    return text


def _handed_over(entry: VMRecord) -> bool:
    """It was seen whole on its new host: what becomes of it there is its owner's business."""
    arrived = (Ending.MOVED.value, Ending.COLD_MOVED.value, Ending.GONE.value)
    last = entry.last
    return entry.ran_there or entry.ending in arrived or (last is not None and last.ended and last.ok)


def starts_anew(step: Step, uuid: str) -> bool:
    """Was it stopped, and is it being started anew? That is no migration: nothing to adopt.

    It is off as long as no node takes it. Of one that we stopped for the drain that is its end: it
    may be that only this node takes it. A restore waits for it, without the cordon.
    """
    seen = step.sighting(uuid)
    if seen is None or not seen.restarted or seen.state is not State.INCOMING:
        return False
    entry = step.record.vms[uuid]
    before, entry.ending = entry.ending, Ending.NONE.value
    if entry.waiting_since is None:
        entry.waiting_since = step.obs.now
    waited, why = step.obs.now - entry.waiting_since, seen.unplaced
    starts = why is None or why.reason is Reason.TargetPodNotReady
    entry.note(None if starts and waited < _STARTS_WITHIN else why)
    long = waited > step.policy.pending_timeout
    stays_off = entry.asked_to_stop and step.record.intent == Intent.DRAINED.value
    known = stays_off and before == Ending.STOPPED.value
    if seen.unplaced is not None and (long or known or step.late()):
        ending = Ending.STOPPED if stays_off else Ending.BLOCKED
        entry.end(ending, "", seen.unplaced, keep_waiting=True)
    elif step.late():
        entry.end(Ending.BLOCKED, "", Finding(Reason.DeadlineExceeded, step.where(uuid)))
    return True


def handle_nowhere(step: Step, uuid: str) -> None:
    """Nowhere, in two full reads."""
    entry = step.record.vms[uuid]
    ended = step.obs.ended.get(uuid)
    if ended is not None and (entry.persistent or not entry.asked_to_stop):
        ours = entry.asked_to_stop and step.record.intent == Intent.DRAINED.value
        if ours and ended.reason is Reason.RestartedByOthers:  # its owner makes another one
            entry.end(Ending.STOPPED, step.record.node, ended)
        else:
            entry.end(Ending.GONE, "", ended)
    elif entry.asked_to_stop and not (entry.persistent or entry.ran_there):
        if entry.cold_target:
            start_there(step, entry, entry.cold_target)
        else:
            entry.end(Ending.STOPPED, step.record.node, step.off_late(entry, entry.finding))
    elif not entry.was_active or _handed_over(entry):
        entry.end(Ending.GONE, "", Finding(Reason.VMVanished))
    elif entry.attempts or boot_over(step, entry):
        entry.end(Ending.LOST, "", Finding(Reason.VMLost))
    else:
        entry.end(Ending.GONE, "", Finding(Reason.VMVanished))
