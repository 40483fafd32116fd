"""Which hosts of a large fleet a slice reads, and whether that was enough. Pure.

A slice that goes on with a drain reads the hosts that have something of it, those that count the
slots, and the roomiest of the others. What is decided on that counts only if no other host could
change it. Else nothing is done, all hosts are read, and it is decided again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..model.constraints import NO_CONSTRAINTS
from ..model.failed_targets import failed_targets
from ..model.observation import Observation
from ..model.policy import Policy, Profile
from ..model.record import Ending, NodeRecord
from .actions import Decision, Do, NodePhase
from .decide import IN_FLIGHT
from .reconcile import Situation
from .strategy import Way
from .unread_hosts import may_have, may_have_been_sent

CANDIDATES = 8
# Seconds: between two slices, and from one read of all hosts to the next.
NOTE_AGE, WHOLE_AGE = 120.0, 300.0
_NONE = -1  # room of a host that takes nothing
# Its place is known from hosts that were read, and nothing is wrong with it.
_SETTLED = (IN_FLIGHT | {Situation.ARRIVED}) - {Situation.POSTCOPY_BROKEN}
_ENDINGS = frozenset({Ending.NONE.value, Ending.MOVED.value, Ending.OFF.value})


@dataclass(frozen=True)
class LastRead:
    """The state that one slice leaves to the next, so that this need not read all hosts. Times: boot-time clock of the
    node, seconds.

    `whole_at`: when all hosts were read. `needed`: hosts to be read in any case. `room`: MiB on
    each host, by its last read; less than 0: it takes nothing. It only says who is asked first.
    """

    run_id: str
    at: float
    whole_at: float
    needed: frozenset[str]
    room: Mapping[str, int]


def to_read(
    last: LastRead | None,
    record: NodeRecord,
    peers: Collection[str],
    quorum_hosts: Collection[str],
    policy: Policy,
    now: float,
    to_come: Collection[str] = (),
) -> frozenset[str] | None:
    """Peers that this slice reads; None: all of them. `to_come`: in the roll, so taken last."""
    if last is None or last.run_id != record.run_id or not last.room.keys() >= set(peers):
        return None
    if not (0 <= now - last.at <= NOTE_AGE and 0 <= now - last.whole_at <= WHOLE_AGE):
        return None
    if policy.placement_policy.profile is not Profile.LOW:
        return None  # the best host is not one with much room
    sent = {name for entry in record.vms.values() for name in may_have_been_sent(entry)}
    must = set(last.needed) | set(quorum_hosts) | sent
    free = [name for name in set(peers) - must if last.room[name] > 0]
    free.sort(key=lambda name: (name in to_come, -last.room[name], name))
    return frozenset(must.union(free[:CANDIDATES])).intersection(peers)


def was_enough(obs: Observation, decision: Decision, node: str, policy: Policy) -> bool:
    """May this be acted on, though `obs.not_asked` were not read?

    Only where every VM is under way, has arrived, or waits here for its turn: then no other host
    has a part in what is done. All else is decided on a read of all hosts.
    """
    record = decision.records[node]
    if decision.phases.get(node) is not NodePhase.DRAINING or decision.node_findings.get(node):
        return False
    if not obs.full or obs.inbound or decision.read_again or decision.pending_hooks:
        return False
    if not all(_is_plain(obs, decision, record, uuid) for uuid in record.vms):
        return False
    return _places_are_given(obs, decision, record, policy)


def _is_plain(obs: Observation, decision: Decision, record: NodeRecord, uuid: str) -> bool:
    entry, vm = record.vms[uuid], obs.vms.get(uuid)
    situation = decision.situations.get(uuid)
    if entry.stop_way or entry.ending not in _ENDINGS:
        return False
    if obs.not_asked.intersection(may_have(obs, record.node, entry, vm)):
        return False
    if situation in _SETTLED:
        return True
    if situation is Situation.STOPPED_HERE:
        return entry.ending == Ending.OFF.value
    if situation is not Situation.HERE or vm is None or entry.ending != Ending.NONE.value:
        return False
    return vm.known and entry.way == Way.MIGRATE.value


def _places_are_given(obs: Observation, decision: Decision, record: NodeRecord, policy: Policy) -> bool:
    """Has each free place its VM, on a host that no other one could be better than?"""
    starts = {action.vm: action.target for action in decision.actions if action.do is Do.MIGRATE}
    failed = failed_targets(record, obs.outcomes)
    for uuid, target in starts.items():
        if target in failed:
            return False  # another is preferred, and may be one that was not read
        vm, node = obs.vms[uuid], obs.nodes[target]
        if vm.group or vm.constraints is not NO_CONSTRAINTS:
            return False  # whom it should be with, or apart from, may be anywhere
        if node.taints or (node.roll_rank is not None and not node.roll_done):
            return False  # any other is better
    waiting = [
        uuid
        for uuid, entry in record.vms.items()
        if entry.ending == Ending.NONE.value and decision.situations.get(uuid) is Situation.HERE and uuid not in starts
    ]
    if not waiting:
        return True
    moving = sum(1 for situation in decision.situations.values() if situation in IN_FLIGHT)
    leaving = max(moving, obs.nodes[record.node].outbound)
    if policy.limits.cluster - obs.cluster_in_flight <= 0:
        return False  # slots of the dead are found where their claims are
    free = min(policy.limits.outbound - leaving, policy.limits.cluster - obs.cluster_in_flight)
    return free <= len(starts)


def last_read(
    obs: Observation, before: LastRead | None, record: NodeRecord, claimed: Collection[str]
) -> LastRead | None:
    """Make the LastRead for the next slice; None: it has to read all hosts. `claimed`: hosts that were asked for a
    claim in this slice."""
    others = {name: node for name, node in obs.nodes.items() if name != record.node}
    if obs.not_asked and (before is None or not before.room.keys() >= obs.not_asked):
        return None
    if len({node.version for node in others.values() if node.reachable and node.name not in obs.not_asked}) > 1:
        return None  # a newer host is better than one with more room
    room = {
        name: before.room[name]
        if before is not None and name in obs.not_asked
        else node.room_mib
        if node.reachable and not (node.cordoned or node.taints)
        else _NONE
        for name, node in others.items()
    }
    silent = {n.name for n in others.values() if not n.reachable} - obs.not_asked
    ours = {claim.target for claim in obs.claims.values()}
    whole_at = before.whole_at if obs.not_asked and before is not None else obs.now
    needed = frozenset(silent | ours | set(claimed)) & others.keys()
    return LastRead(record.run_id, obs.now, whole_at, needed, room)
