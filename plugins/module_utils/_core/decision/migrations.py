"""Decide, the part about migrations that were begun: follow, adopt, finish, give back, give up."""

from __future__ import annotations

from ..model.observation import ACTIVE_STATES, VM, Job, Mode, Observation, Outcome, Sighting, State
from ..model.policy import MigrationSettings
from ..model.record import Attempt, Ending, Intent, VMRecord
from ..reasons.reason import IN_A_QUEUE, Finding, Reason
from .actions import Do
from .reconcile import Situation
from .step import Step
from .strategy import choose

# The claim is still needed, or it is given back when the rest is done (see `arrived`).
_NOT_YET = frozenset({Situation.UNREADABLE, Situation.ARRIVED, Situation.ARRIVED_LEFTOVER})
_MOVED = frozenset({Ending.MOVED.value, Ending.COLD_MOVED.value})
_COLD_WAY = frozenset(
    {Situation.HERE, Situation.PAUSED_HERE, Situation.OUTCOME_LOST, Situation.STOPPED_HERE}
    | {Situation.COLD_DEFINED_TWICE, Situation.COLD_ARRIVED}
)
_STILL_HERE = frozenset({Situation.HERE, Situation.PAUSED_HERE})
_CALM = 5.0  # s
_HALF_GONE = 60.0  # s; libvirt itself waits 30 s for the lock of a VM
_COLD = frozenset({Situation.COLD_DEFINED_TWICE, Situation.COLD_ARRIVED})


def handle_migration(step: Step, uuid: str, situation: Situation) -> None:
    """A migration is under way, ours or somebody's: adopt it, say how it goes, touch nothing."""
    entry = step.record.vms[uuid]
    entry.ending = Ending.NONE.value
    seen, vm = step.sighting(uuid), step.here.get(uuid)
    job = vm.job if vm is not None else None
    _note_calm(step, entry, job)
    entry.note(withdrawal_denied(entry) or (job.finding if job is not None else None))
    if held_for_another(step.obs, entry) or _was_over(step, entry, job):
        close_with_outcome(step, entry)
    if entry.last is None or entry.last.ended:
        _adopt(step, entry, seen.node if seen else "", job)
    last = entry.last
    if last is not None:
        _update_attempt(last, seen, job)
    if last is not None and job is not None and job.ours and _waited_too_long(step, entry, job):
        _give_up(step, entry, last, job)
        return
    if situation is Situation.POSTCOPY_BROKEN:
        entry.note(Finding(Reason.PostCopyBroken, step.where(uuid)))
        if step.late():
            entry.end(Ending.BLOCKED, "", Finding(Reason.PostCopyBroken, step.where(uuid)))
        elif vm is not None and uuid not in step.obs.held and last is not None and not last.adopted:
            # Whoever watches it resumes it.
            step.do(Do.WATCH, uuid, last.target, attempt=last.number, method=vm.method, settings=_settings(step, uuid))
        return
    if step.late(_grace(step, entry, situation)):
        finding = Finding(Reason.DeadlineExceeded, f"Still migrating: {step.where(uuid)}.")
        entry.end(Ending.BLOCKED, "", finding)
        return
    if vm is not None and vm.job is not None and uuid not in step.obs.held and last is not None:
        # Whoever began a foreign migration chose its flags; ours might ask for what they forbid.
        settings = None if last.adopted else _settings(step, uuid)
        step.do(Do.WATCH, uuid, last.target, attempt=last.number, method=vm.method, settings=settings)


def one_has_ended(step: Step, entry: VMRecord, situation: Situation) -> None:
    """It has crashed; or it was in post-copy, and is on one host alone: for a moment that is so at the end of each."""
    where = step.where(entry.uuid)
    if situation is not Situation.POSTCOPY_LOST:
        entry.end(Ending.BLOCKED, step.record.node, crash(entry, where))
        return
    if entry.waiting_since is None:
        entry.waiting_since = step.obs.now
    if step.obs.now - entry.waiting_since > _HALF_GONE or step.late():
        entry.end(Ending.BLOCKED, "", Finding(Reason.Irrecoverable, f"{where}, and nowhere else."), keep_waiting=True)
        return
    entry.ending = Ending.NONE.value
    entry.note(Finding(Reason.PostCopyBroken, where))


def crash(entry: VMRecord, text: str = "") -> Finding:
    """Its process has ended. In post-copy that was half of it, and KubeVirt itself ends what broke there."""
    last = entry.last
    lost = last is not None and last.mode == Mode.POST_COPY.value and not last.ok
    return Finding(Reason.Irrecoverable if lost else Reason.VMCrashed, text)


def _note_calm(step: Step, entry: VMRecord, job: Job | None) -> None:
    """Its time to wait ends when nothing has held it up for a while: a single look may not see what does, as the
    first one of a slice."""
    if job is not None and job.finding is not None and job.finding.reason not in IN_A_QUEUE:
        entry.calm_since = None
        return
    if entry.calm_since is None:
        entry.calm_since = step.obs.now
    if step.obs.now - entry.calm_since >= _CALM:
        entry.waiting_since = None


def held_for_another(obs: Observation, entry: VMRecord) -> bool:
    """The holder has begun a migration of this VM, and it is not the record's last attempt.

    An attempt belongs to the run that began it. An adopted one stands for whatever is under way.
    """
    held_for, last = obs.held_for.get(entry.uuid), entry.last
    if held_for is None or (last is not None and last.adopted and not last.ended):
        return False
    return last is None or held_for != (last.run_id, last.number)


def _was_over(step: Step, entry: VMRecord, job: Job | None) -> bool:
    """The end of the last attempt stood written before this job was read: it is another's.

    Not where the holder could not tell the place of the VM: then it may be the same one.
    """
    last = entry.last
    if last is None or job is None or not job.outgoing:
        return False
    outcome = step.obs.outcomes.get((entry.uuid, last.number))
    return outcome is not None and outcome.at != ""


def _update_attempt(last: Attempt, seen: Sighting | None, job: Job | None) -> None:
    """Note what was not known of an attempt when it was requested, and is seen now: its job's work and mode, its
    target, and that it goes on although its request was refused."""
    if not last.ended and not last.gave_up:
        last.reason = last.message = ""  # its request was refused, and it goes on all the same
    if job is not None:
        last.work, last.mode = last.work or job.work, job.mode.value
    if seen is not None and not last.target:
        last.target = seen.node


def _settings(step: Step, uuid: str) -> MigrationSettings:
    """The migration settings that the rules give this VM; the policy's if the VM cannot be read here."""
    vm = step.here.get(uuid)
    return step.policy.migration if vm is None else choose(vm, step.policy).migration


def _waited_too_long(step: Step, entry: VMRecord, job: Job) -> bool:
    """Has the migration waited for something other than a queue for longer than `pending_timeout`, or is the node's own
    deadline over? The platform itself has none for that. Notes since when it waits."""
    if job.finding is None or job.finding.reason in IN_A_QUEUE:
        return job.finding is not None and step.late()
    if entry.waiting_since is None:
        entry.waiting_since = step.obs.now
    return step.late() or step.obs.now - entry.waiting_since > step.policy.pending_timeout


def _give_up(step: Step, entry: VMRecord, last: Attempt, job: Job) -> None:
    """Withdraw it, and remember why: it is not asked for again in this run."""
    finding = job.finding or Finding(Reason.DeadlineExceeded)
    refused = withdrawal_denied(entry)
    last.gave_up, last.reason, last.message = True, finding.reason.value, finding.message
    entry.note(refused or finding)
    step.attempt_or_block(Do.UNMARK, entry.uuid, "", finding.reason)


def withdrawal_denied(entry: VMRecord) -> Finding | None:
    """Why what was asked for could not be taken back: a right is missing, and stays so."""
    last, reported = entry.last, entry.finding
    if last is None or not (last.abort_requested or last.gave_up):
        return None
    return reported if reported is not None and reported.reason is Reason.Forbidden else None


def _grace(step: Step, entry: VMRecord, situation: Situation) -> float:
    """Seconds for which a migration that is under way may go on after the node's deadline, since it has a deadline of
    its own; 0 for anything else."""
    if situation not in (Situation.MOVING, Situation.STARTING):
        return 0.0
    settings = _settings(step, entry.uuid)
    gib = max(1.0, entry.memory_mib / 1024)
    return settings.completion_timeout_per_gib * gib + settings.progress_timeout


def release_unneeded_claim(step: Step, uuid: str) -> bool:
    """Give back a claim that nothing needs any more. True: nothing else is done this time."""
    claim = step.obs.claims.get(uuid)
    entry = step.record.vms[uuid]
    situation = step.situations[uuid]
    if claim is None or uuid in step.unsure or situation in _NOT_YET:
        return False
    if entry.cold_target == claim.target:
        done = (
            situation is Situation.COLD_ARRIVED
            and (entry.ran_there or not entry.was_active)
            and not lacks_autostart(entry, step.seen_elsewhere(uuid))
        )
        given_up = situation in _STILL_HERE and entry.ending == Ending.BLOCKED.value
        back = step.record.intent == Intent.ACTIVE.value and situation not in _COLD
        gone = situation not in _COLD_WAY and not _gone_by_our_stop(entry, situation)
        if entry.stop_way and not (done or given_up or back or gone):
            return False  # a cold migration is under way
    step.attempt_or_block(Do.RELEASE, uuid, claim.target, Reason.PeerUnreachable)
    return True


def lacks_autostart(entry: VMRecord, seen: Sighting) -> bool:
    """A definition that we made there does not have it: libvirt keeps it beside the definition."""
    return entry.cold_target == seen.node and entry.persistent and seen.autostart != entry.autostart


def _gone_by_our_stop(entry: VMRecord, situation: Situation) -> bool:
    """A transient VM is nowhere between our stop and its start at the target."""
    return situation is Situation.NOWHERE and not (entry.persistent or entry.ran_there)


def _adopt(step: Step, entry: VMRecord, target: str, job: Job | None) -> None:
    ours = job is not None and job.ours  # the platform tries again what we asked for
    node = step.obs.nodes[step.record.node]
    entry.attempts.append(
        Attempt(
            number=len(entry.attempts) + 1,
            target=target,
            method="",
            started=step.obs.now,
            boot_id=node.boot_id,
            run_id=step.record.run_id,
            requester=step.record.requester if ours else "",
            adopted=not ours,
            message="the platform's own retry" if ours else "adopted: it was under way already",
            work=job.work if job is not None else "",
        )
    )


def ending_by_others(step: Step, uuid: str) -> None:
    """Others are ending it: no attempt of ours has failed. What comes of it is waited for."""
    entry = step.record.vms[uuid]
    entry.ending = Ending.NONE.value
    entry.note(step.obs.ending[uuid])
    if step.late():
        text = step.obs.ending[uuid].message
        entry.end(Ending.BLOCKED, step.record.node, Finding(Reason.DeadlineExceeded, text))


def wait_for_reading(step: Step, entry: VMRecord, situation: Situation) -> None:
    """Something must be read (again) before anything is concluded."""
    entry.ending = Ending.NONE.value
    if situation is not Situation.UNREADABLE:
        return
    vm = step.here.get(entry.uuid)
    names = step.may_have(entry, vm)
    names += [f"{name} (not one of the hosts given)" for name in step.hosts_not_listed(entry)]
    if vm is not None and vm.state is State.UNKNOWN:
        names.append(f"its job on {vm.node}")
    unread = f"{', '.join(names)} cannot be read" if names else step.obs.nodes[step.record.node].message
    text = f"{unread or 'a host cannot be read'}: where {entry.name} runs is not known."
    if step.obs.silent:
        text += f" On {step.record.node} {step.obs.silent}."
    entry.note(Finding(Reason.PeerUnreachable, text))
    if entry.waiting_since is None:
        entry.waiting_since = step.obs.now
    elif step.obs.now - entry.waiting_since > step.policy.pending_timeout or step.late():
        finding = Finding(Reason.PeerUnreachable, text)
        entry.end(Ending.BLOCKED, "", finding, keep_waiting=True)


def arrived(step: Step, uuid: str) -> None:
    """It runs there and nothing of it is here. Finish what the move left to do, then account."""
    entry = step.record.vms[uuid]
    seen = step.seen_elsewhere(uuid)
    if _outcome_is_coming(step, entry):
        entry.ending = Ending.NONE.value
        return
    close_with_outcome(step, entry, arrived_at=seen.node)
    entry.ran_there |= entry.cold_target == seen.node != ""
    # Once it was accounted for, what is changed at the target is the doing of others.
    settled = entry.ending in _MOVED and uuid not in step.obs.claims
    unfinished = seen.marked or (entry.persistent and (not seen.persistent or seen.autostart != entry.autostart))
    if unfinished and not settled:
        if seen.job is not None:
            entry.ending = Ending.NONE.value  # it moves on: metadata is not written during a job
            if step.late():
                entry.end(Ending.BLOCKED, seen.node, Finding(Reason.DeadlineExceeded))
            return
        step.attempt_or_block(Do.FINISH, uuid, seen.node, Reason.MigrationFailed)
        if entry.ending == Ending.NONE.value:
            return
    elif uuid not in step.obs.claims:
        cold = entry.cold_target or seen.restarted
        why = _restarted_by_others(entry, seen) or _arrived_paused(entry, seen)
        entry.end(Ending.COLD_MOVED if cold else Ending.MOVED, seen.node, why)
        return
    # Last of all: while the claim stands, the target knows that the VM is not finished, and
    # does not take what it reads of it (autostart, marks) for the VM's own.
    if uuid in step.obs.claims:
        step.attempt_or_block(Do.RELEASE, uuid, step.obs.claims[uuid].target, Reason.PeerUnreachable)


def _restarted_by_others(entry: VMRecord, seen: Sighting | None) -> Finding | None:
    """It was started anew, and nobody of us had asked it to stop."""
    if seen is None or not seen.restarted or entry.asked_to_stop:
        return None
    if seen.crashed:
        return crash(entry, f"Its instance crashed and was restarted on {seen.node}.")
    text = f"Someone else ended its instance, and it was restarted on {seen.node}."
    return Finding(Reason.RestartedByOthers, text)


def _arrived_paused(entry: VMRecord, seen: Sighting) -> Finding | None:
    """The finding for a VM that is paused where it has arrived; None: it is not. A drain migrates no paused VM, so its
    owner, or an error, paused it during the migration or after it."""
    if seen.state is not State.PAUSED:
        return None
    return Finding(Reason.ArrivedPaused, f"{paused_text(entry.name, seen.node, seen.paused_by)}.")


def paused_text(name: str, node: str, by: str) -> str:
    """Say that the VM is paused there, and by what (`by`), without the full stop."""
    return f"{name} is paused on {node}{by and f': {by}'}"


def _outcome_is_coming(step: Step, entry: VMRecord) -> bool:
    """It was just seen at the target, and who made the call still holds it: a moment more."""
    last = entry.last
    if last is None or last.ended or entry.uuid not in step.obs.held or step.late():
        return False
    return (entry.uuid, last.number) not in step.obs.outcomes


def close_with_outcome(step: Step, entry: VMRecord, arrived_at: str = "") -> None:
    """Close the last attempt with what the holder wrote, or with what was read.

    A VM that was started anew elsewhere is no sign that its migration succeeded.
    """
    last = entry.last
    if last is None or last.ended:
        return
    outcome = step.obs.outcomes.get((entry.uuid, last.number))
    entry.paused_by_us = _left_paused(step, entry, last, outcome)
    last.ended, last.ended_at = True, step.obs.now
    seen = step.sighting(entry.uuid)
    if seen is not None and seen.restarted and (outcome is None or not outcome.ok):
        arrived_at = ""
    last.ok = bool(arrived_at)
    last.target = arrived_at or last.target
    if outcome is not None:
        last.mode = outcome.mode.value
        last.processed, last.seconds = outcome.processed, outcome.seconds
        last.downtime_ms = outcome.downtime_ms
        last.steps, last.writes = list(outcome.steps), outcome.writes
        last.work = outcome.work or last.work
        if last.ok and not last.gave_up:
            last.reason = last.message = ""
        elif not last.gave_up:
            finding = outcome.finding or Finding(Reason.MigrationFailed)
            last.reason, last.message = finding.reason.value, finding.message
    elif not last.gave_up and (last.ok or not last.reason):
        # Else the request was refused, and said why (see Engine).
        why = _restarted_by_others(entry, seen) or Finding(Reason.OutcomeLost)
        last.reason, last.message = why.reason.value, why.message
    if last.abort_requested:
        last.abort_status = "Failed" if last.ok else "Succeeded"


def _left_paused(step: Step, entry: VMRecord, last: Attempt, outcome: Outcome | None) -> bool:
    """Did this attempt leave it paused? It ran before: what was paused is never migrated by us.

    Where the holder told the end it has resumed the VM itself, or says that it could not: what
    is paused afterwards is its owner's doing. A request that was refused paused nothing.
    """
    vm = step.here.get(entry.uuid)
    if vm is None or vm.state is not State.PAUSED or not vm.resumable or last.adopted:
        return False
    return outcome.paused if outcome is not None else not last.reason


def resume(step: Step, uuid: str, vm: VM) -> bool:
    """Let a VM run on that our migration left paused. True: nothing else is done with it yet."""
    entry = step.record.vms[uuid]
    if not entry.paused_by_us or not vm.resumable:
        return False
    if not step.obs.full or step.hosts_not_listed(entry) or step.may_have(entry, vm):
        # On a host that does not answer it may run already.
        wait_for_reading(step, entry, Situation.UNREADABLE)
        return True
    last = entry.last
    if last is not None and last.ended_at == step.obs.now:
        entry.ending = Ending.NONE.value  # the end of its migration was just read: once more
        step.decision.read_again = True
        return True
    if entry.finding is None or entry.finding.reason is not Reason.StateNotLiveMigratable:
        text = f"{entry.name} was paused for its migration; resuming it."
        entry.note(Finding(Reason.StateNotLiveMigratable, text))
    step.attempt_or_block(Do.RESUME, uuid, "", Reason.StateNotLiveMigratable)
    return True


def close_attempt(step: Step, uuid: str) -> None:
    """Close the last attempt of a VM that does not move (it stayed here)."""
    seen = step.sighting(uuid)
    gone = step.here.get(uuid) is None and seen is not None and seen.state in ACTIVE_STATES
    if gone and _outcome_is_coming(step, step.record.vms[uuid]):
        return  # see `arrived`
    if step.situations[uuid] is Situation.ARRIVED_LEFTOVER:
        return  # whose move that was, `clean_source` tells
    close_with_outcome(step, step.record.vms[uuid], seen.node if gone and seen else "")
