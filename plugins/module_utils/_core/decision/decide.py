"""decide: from an observation, the records and a policy to the next actions. Pure.

Level-triggered: it looks only at what is and what the record says, so a run that was killed
anywhere is carried on by calling it again. It takes a set of nodes; its cost follows the VMs
of those nodes, not the fleet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from ..model.observation import ARRIVING, VM, Observation, State
from ..model.policy import Policy
from ..model.record import Ending, Intent, NodeRecord, VMRecord
from ..reasons.reason import Finding, Reason
from . import elsewhere, here, hooks, migrations, restore, stops
from .actions import Decision, Do, NodePhase
from .certificate import moving_on, not_cordoned, pods_that_stay, problems, volumes_that_stay
from .placement import Placement
from .reconcile import UNDER_WAY, JobStage, Recorded, Situation, judge, most_significant
from .step import Step, wait_for_node, wait_for_others, wait_for_volumes
from .strategy import allows_older

IN_FLIGHT = frozenset(
    {Situation.STARTING, Situation.MOVING, Situation.POSTCOPY, Situation.POSTCOPY_BROKEN, Situation.SWITCHING_OVER}
)
# On its way to us: what is read of it now (persistent? autostart?) is not yet the VM's own.
_NOT_YET_OURS = ARRIVING | {State.UNKNOWN}
_PERHAPS_PAUSED = frozenset({State.PAUSED, State.UNKNOWN})
# It is here, and nothing moves it: what is read of it is its own, not what a move made of it.
_AT_HOME = frozenset({Situation.HERE, Situation.PAUSED_HERE, Situation.OUTCOME_LOST, Situation.STOPPED_HERE})
_ON_ITS_WAY = IN_FLIGHT | {Situation.ARRIVED, Situation.ARRIVED_LEFTOVER}
# Believed only when two full reads in a row say the same.
SUSPICIOUS = frozenset({Situation.NOWHERE, Situation.TWICE, Situation.POSTCOPY_LOST})
# And these, while the end of an attempt is not known: it may have gone over between the reads of its two hosts, and an
# old definition is what is seen.
_OFF = frozenset({Situation.STOPPED_HERE, Situation.COLD_ARRIVED, Situation.COLD_DEFINED_TWICE})
# A request whose sender was killed may be carried out until then: an API server ends one after 60 s.
_ON_ITS_WAY_SECONDS = 60.0


def decide(
    obs: Observation,
    records: Mapping[str, NodeRecord],
    policy: Policy,
    before: Mapping[str, Situation] | None = None,
    refused: Mapping[str, Collection[str]] | None = None,
) -> Decision:
    """The next actions for the nodes that have a record.

    `before`: the situations of the step before, if that read was full (for what must be
    seen twice). `refused`: UUID -> targets that have just refused a claim for it.
    Raises nothing; what is wrong becomes a reason.
    """
    new = {name: record.copy() for name, record in records.items()}
    decision = Decision(new, {})
    draining = frozenset(n for n, r in new.items() if r.intent != Intent.ACTIVE.value)
    to = next((r.to for r in new.values() if r.to), "")
    # For half of its time a drain waits for the other drains of its roll. Then it takes the places that there are.
    hurries = frozenset(name for name, record in new.items() if obs.now - record.started > policy.drain_timeout / 2)
    allows = partial(allows_older, policy=policy)
    placement = Placement(obs, draining, policy.limits, to, policy.placement_policy, hurries, allows)
    cluster_room = policy.limits.cluster - obs.cluster_in_flight
    by_node: dict[str, list[VM]] = {name: [] for name in new}
    for vm in obs.vms.values():
        if vm.node in by_node:
            by_node[vm.node].append(vm)
    for name, record in new.items():
        step = Step(obs, record, policy, placement, decision, cluster_room, refused)
        _node(step, by_node[name], before)
        cluster_room = step.cluster_room
    return decision


def _node(step: Step, vms: list[VM], before: Mapping[str, Situation] | None) -> None:
    record, decision = step.record, step.decision
    if record.only:
        vms = [vm for vm in vms if vm.uuid == record.only]
    node = step.obs.nodes.get(record.node)
    if node is None or not node.reachable:
        decision.phases[record.node] = _node_unreadable(step, vms, before)
        return
    if record.intent == Intent.ACTIVE.value:
        decision.phases[record.node] = _restoring(step, vms, before)
        return
    if record.intent == Intent.MIGRATED.value:
        decision.phases[record.node] = _one_vm(step, vms, before)
        step.close()
        return
    _cordon(step, node.cordoned)
    if record.intent == Intent.CORDONED.value:
        decision.phases[record.node] = _cordoned(step, node.cordoned)
        return
    _judge_vms(step, vms, before)
    for uuid in step.order():
        _one(step, uuid)
    for uuid, claim in step.obs.claims.items():
        stray = claim.owner == record.node and uuid not in record.vms and not step.is_unreadable(uuid)
        if stray and not step.waited_long():
            step.do(Do.RELEASE, uuid, claim.target)
    here.start_migrations(step)
    decision.phases[record.node] = _phase(step)
    step.close()


def _node_unreadable(step: Step, vms: list[VM], before: Mapping[str, Situation] | None) -> NodePhase:
    """The phase of a node that cannot be read. In the middle of a drain it may come back, so it is waited for. Nothing
    begins there meanwhile; what is under way is followed, for on KubeVirt it goes on without the kubelet. So does all
    that a restore does with VMs; the node itself is given back when it is ready."""
    record, node = step.record, step.obs.nodes.get(step.record.node)
    text = node.message if node is not None else f"{record.node} was not read"
    why = Finding(Reason.NodeUnreadable, text)
    step.decision.node_findings[record.node] = (why,)
    drains = record.intent == Intent.DRAINED.value and bool(record.vms)
    restores = record.intent == Intent.ACTIVE.value and step.obs.complete
    if node is None or node.gone or not (drains or restores):
        for entry in record.vms.values():
            if not entry.ending:
                entry.note(why)
        return NodePhase.BLOCKED
    if restores:
        return _restoring(step, vms, before, ready=False)
    waits = step.waits_for_node()
    _judge_vms(step, vms, before)
    for uuid in step.order():
        entry = record.vms[uuid]
        if step.situations[uuid] in _ON_ITS_WAY:
            _one(step, uuid)
        elif not entry.ending:
            entry.note(why)
        if not (waits or entry.ending):
            entry.end(Ending.BLOCKED, record.node, entry.finding or why)
    step.close()
    return NodePhase.DRAINING if waits else NodePhase.BLOCKED


def _restoring(step: Step, vms: list[VM], before: Mapping[str, Situation] | None, ready: bool = True) -> NodePhase:
    _judge_vms(step, vms, before)
    phase = _unreadable_vm(step, vms, NodePhase.RESTORING) or restore.restore(step, IN_FLIGHT, ready)
    step.close()
    return phase


def _cordon(step: Step, cordoned: bool) -> None:
    """Own the cordon only if nobody had cordoned the node before."""
    if not cordoned and not step.waited_long():
        step.record.cordoned_by_us = True
        step.do(Do.CORDON)


def _cordoned(step: Step, cordoned: bool) -> NodePhase:
    """Cordoned is said when it was read, not when it was asked for."""
    if cordoned:
        return NodePhase.CORDONED
    return wait_for_node(step, f"{step.record.node} is not cordoned")


def _unreadable_vm(step: Step, vms: list[VM], phase: NodePhase) -> NodePhase | None:
    """The one VM that is meant could never be read: nothing can be said of it yet."""
    record, unread = step.record, [vm.name for vm in vms if vm.state is State.UNKNOWN]
    if not record.only or record.vms or not unread:
        return None
    why = step.obs.silent or "its job cannot be read"
    waits = wait_for_node(step, f"{unread[0]}: {why}")
    return phase if waits is NodePhase.DRAINING else waits


def _judge_vms(step: Step, vms: list[VM], before: Mapping[str, Situation] | None) -> None:
    """Enter new VMs into the record and judge where each one is.

    One that could not be read is entered as if it were transient: then nothing is made of its
    autostart should it leave before it was read.
    """
    here = {vm.uuid: vm for vm in vms}
    unfinished = {r.vm for r in step.obs.inbound if r.target == step.record.node}
    arriving = unfinished | {vm.uuid for vm in vms if vm.state in _NOT_YET_OURS}
    for vm in vms:
        if vm.uuid not in step.record.vms and vm.uuid not in arriving:
            step.record.vms[vm.uuid] = VMRecord(
                vm.uuid,
                vm.name,
                vm.memory_mib,
                vm.known and vm.persistent,
                vm.known and vm.autostart,
                was_active=vm.active,
                seen_boot=step.obs.nodes[step.record.node].boot_id if vm.active else "",
            )
    for uuid, entry in step.record.vms.items():
        vm_here = here.get(uuid)
        situation, step.decision.judged[uuid] = _situation(step, vm_here, entry)
        suspicious = situation in SUSPICIOUS or (situation in _OFF and _recorded(step.obs, entry) in UNDER_WAY)
        if suspicious and not (step.obs.full and before is not None and before.get(uuid) is situation):
            step.unsure.add(uuid)
            step.decision.read_again |= step.obs.full
        step.here[uuid] = vm_here
        if vm_here is None or vm_here.state not in _PERHAPS_PAUSED:
            entry.paused_by_us = False  # who pauses it from now on is not we
        entry.ran_there &= vm_here is None or not vm_here.active
        if _is_another_instance(step, vm_here, entry):
            entry.stop_requests = 0  # what was asked of the one before, this one does not know
        if vm_here is not None and vm_here.stopping is False and step.obs.now - entry.stop_sent > _ON_ITS_WAY_SECONDS:
            entry.stop_requests = 0  # it was noted, and then not made or refused
        if vm_here is not None and situation in _AT_HOME and uuid not in arriving and uuid not in step.unsure:
            _update_entry(step, entry, vm_here)
        step.situations[uuid] = situation
        step.decision.situations[uuid] = situation
        if situation in IN_FLIGHT:
            step.in_flight += 1


def _is_another_instance(step: Step, vm: VM | None, entry: VMRecord) -> bool:
    """Does it run anew since it was asked to stop? One that is off since a reboot of the node was asked all the same:
    it acted on that, or would be off without us."""
    if vm is not None:
        return vm.restarted or (vm.active and stops.boot_over(step, entry))
    seen = step.sighting(entry.uuid)
    return seen is not None and seen.restarted


def _update_entry(step: Step, entry: VMRecord, vm: VM) -> None:
    """A record lives over many runs, and its owner goes on with the VM: what is read now holds.

    But not what we did to it ourselves.
    """
    if not vm.known:
        return
    entry.persistent = vm.persistent
    if entry.uuid not in step.obs.claims:  # a claim that stands has the size of its time
        entry.memory_mib = vm.memory_mib
    if vm.autostart:
        entry.disarmed = False
    elif entry.autostart and entry.asked_to_stop:
        entry.disarmed = True  # as `begin_stop` has it; an older record does not say so
    if not entry.asked_to_stop and not entry.disarmed:
        entry.autostart = vm.autostart


def _situation(step: Step, vm: VM | None, entry: VMRecord) -> tuple[Situation, str]:
    """Where the VM is, and why: the row of the verdict table and what it was read from, for people."""
    obs = step.obs
    sightings = obs.sightings.get(entry.uuid, [])
    target = most_significant(tuple(s.state for s in sightings))
    if target in (State.ABSENT, State.SHUTOFF):
        unsure = not obs.full or step.hosts_not_listed(entry) or step.may_have(entry, vm)
        target = State.UNKNOWN if unsure else target
    running = [s for s in sightings if s.state is State.RUNNING]
    if len(running) > 1 and not any(s.job for s in running):
        return Situation.TWICE, "runs on more than one other host"
    job = JobStage.NONE
    if vm is not None and vm.job is not None and vm.job.outgoing:
        post = vm.job.mode.value == "PostCopy"
        job = JobStage.POSTCOPY if post else JobStage.PRECOPY
    source = vm.state if vm is not None else State.ABSENT
    recorded = _recorded(obs, entry)
    situation, row = judge(source, target, job, recorded)
    read = f"here {source.value}, elsewhere {target.value}, job {job.value}, record {recorded.value}"
    return situation, f"{row} ({read})"


def _recorded(obs: Observation, entry: VMRecord) -> Recorded:
    if entry.stop_way:
        return Recorded.COLD if entry.cold_target else Recorded.STOPPING
    last = entry.last
    if last is None or migrations.held_for_another(obs, entry):
        # Held, and not for an attempt of ours: by another run, and its job may not be there yet.
        return Recorded.HELD if entry.uuid in obs.held else Recorded.NOTHING
    if last.ended:
        return Recorded.NOTHING if last.ok else Recorded.FAILED
    outcome = obs.outcomes.get((entry.uuid, last.number))
    if outcome is not None:
        return Recorded.SUCCEEDED if outcome.ok else Recorded.FAILED
    return Recorded.HELD if entry.uuid in obs.held else Recorded.INTENDED


def _one(step: Step, uuid: str) -> None:
    """One VM of a node that shall be empty."""
    entry = step.record.vms[uuid]
    situation = step.situations[uuid]
    if _is_under_way(step, uuid, situation):
        return
    if migrations.release_unneeded_claim(step, uuid):
        # Given back before anything else: a new attempt must not start on the old claim.
        return
    if uuid in step.unsure or situation is Situation.UNREADABLE:
        migrations.wait_for_reading(step, entry, situation)
    elif situation is Situation.ARRIVED:
        migrations.arrived(step, uuid)
    elif situation is Situation.ARRIVED_LEFTOVER:
        elsewhere.clean_source(step, uuid)
    elif situation in (Situation.HERE, Situation.PAUSED_HERE, Situation.OUTCOME_LOST):
        here.handle_here(step, uuid, situation)
    elif situation is Situation.STOPPED_HERE:
        stops.handle_off_here(step, uuid)
    elif situation in (Situation.COLD_DEFINED_TWICE, Situation.COLD_ARRIVED):
        stops.handle_off_elsewhere(step, uuid, situation)
    elif situation is Situation.NOWHERE:
        elsewhere.handle_nowhere(step, uuid)
    elif situation is Situation.TWICE:
        entry.end(Ending.BLOCKED, finding=Finding(Reason.RunningTwice, step.where(uuid)))
    else:  # crashed, here or there, or in post-copy on one side
        migrations.one_has_ended(step, entry, situation)


def _is_under_way(step: Step, uuid: str, situation: Situation) -> bool:
    """It moves, is ended by others, or is started anew: said, and nothing done yet."""
    if uuid in step.obs.ending:
        migrations.ending_by_others(step, uuid)
    elif situation in IN_FLIGHT:
        if not elsewhere.starts_anew(step, uuid):
            migrations.handle_migration(step, uuid, situation)
    else:
        return False
    return True


def _one_vm(step: Step, vms: list[VM], before: Mapping[str, Situation] | None) -> NodePhase:
    """One VM shall move; the others and the node are left alone."""
    _judge_vms(step, vms, before)
    waits = _unreadable_vm(step, vms, NodePhase.MIGRATING)
    if waits is not None:
        return waits
    for uuid in step.order():
        _one(step, uuid)
    here.start_migrations(step)
    endings = {entry.ending for entry in step.record.vms.values()}
    arrives = _wait_for_arrivals(step) if not endings else None
    if arrives is not None:
        return NodePhase.MIGRATING if arrives is NodePhase.DRAINING else arrives
    if not endings:  # it went before it was seen
        step.decision.node_findings[step.record.node] = (Finding(Reason.VMVanished),)
    if Ending.NONE.value in endings:
        return NodePhase.MIGRATING
    if endings <= {Ending.MOVED.value, Ending.COLD_MOVED.value} and endings:
        return NodePhase.MIGRATED
    return NodePhase.BLOCKED


def _wait_for_arrivals(step: Step) -> NodePhase | None:
    """Wait for what others bring to the node, or start there: all of it, or the one VM that is meant. None: there is
    nothing."""
    record, obs = step.record, step.obs
    claims = [r for r in obs.inbound if r.target == record.node and record.only in ("", r.vm)]
    starting = [claim for claim in claims if claim.starts]
    if starting and len(starting) == len(claims):
        text = "; ".join(map(str, starting))
        return wait_for_node(step, text, Reason.VMStartsHere)
    inbound = [str(claim) for claim in claims]
    vms = [vm for vm in obs.vms.values() if vm.node == record.node and record.only in ("", vm.uuid)]
    inbound += [f"{vm.name} is {vm.state.words}" for vm in vms if vm.state in ARRIVING]
    if not inbound:
        return None
    if len(claims) == len(inbound) and all(claim.stuck for claim in claims):
        return wait_for_node(step, "; ".join(inbound), Reason.InboundMigration)
    return wait_for_others(step, ", ".join(inbound), Reason.InboundMigration)


def _phase(step: Step) -> NodePhase:
    record, obs = step.record, step.obs
    endings = {entry.ending for entry in record.vms.values()}
    if hooks.request_after_hooks(step) or Ending.NONE.value in endings:
        # What has to be read twice has its ending back with the second look: each slice begins with the first.
        if any(not entry.ending for uuid, entry in record.vms.items() if uuid not in step.unsure):
            record.waiting_since = None
        return NodePhase.DRAINING
    bad = {Ending.BLOCKED.value, Ending.SKIPPED.value, Ending.LOST.value}
    if endings & bad:
        if step.acts_on_node:  # one that is refused is not asked for without end
            step.waits_for_node()
        return NodePhase.BLOCKED
    arrives = _wait_for_arrivals(step)
    if arrives is not None:
        return arrives
    left = problems(obs, record)
    if not obs.full:
        what = obs.nodes[record.node].message or "a host"
        return wait_for_node(step, f"not read: {what}", Reason.PeerUnreachable)
    if left:
        return _not_empty(step, left)
    record.waiting_since = None
    step.decision.read_again = True
    return NodePhase.EMPTY


def _not_empty(step: Step, left: list[str]) -> NodePhase:
    """All VMs are accounted for, and this still speaks against "drained"."""
    record, text = step.record, "; ".join(left)
    if left == moving_on(step.obs, record):
        return wait_for_others(step, text)
    if left == volumes_that_stay(step.obs):
        return wait_for_volumes(step, text)
    pods = left == pods_that_stay(step.obs, record)
    phase = wait_for_node(step, text, Reason.PodStillTerminating if pods else Reason.NodeUnreadable)
    if phase is NodePhase.DRAINING and step.cordons and left == [not_cordoned(record.node)]:
        del step.decision.node_findings[record.node]  # it is cordoned in this step
    return phase
