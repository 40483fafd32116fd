"""Hosts that were not read: which VMs depend on them. Pure.

A fleet always has a host that is off. It is no target, and it holds up a VM only if that VM may
be there: it was sent there by us, or it left this node in a way that nothing of ours explains.
"""

from __future__ import annotations

from ..model.observation import ACTIVE_STATES, VM, Observation, State
from ..model.record import Attempt, Ending, VMRecord
from ..reasons.reason import Finding, Reason

# After an attempt that ended so it is not known that the VM stayed at its source.
_UNPROVEN = frozenset(
    {Reason.PeerUnreachable.value, Reason.OutcomeLost.value, Reason.VMVanished.value}
    | {Reason.RunningTwice.value, Reason.APIError.value}
)
# Where it is was settled by reads that were enough, and these endings stay so.
_SETTLED = frozenset({Ending.STOPPED.value, Ending.SAVED.value, Ending.GONE.value})


def unread_hosts(obs: Observation, node: str) -> list[str]:
    """Names of the hosts other than `node` that were not read."""
    return sorted(n.name for n in obs.nodes.values() if not n.reachable and n.name != node)


def might_take(obs: Observation, node: str, to: str) -> list[str]:
    """Hosts that do not answer, and that might take what all others refuse. `to`: only this one is asked; "": any."""
    return [name for name in unread_hosts(obs, node) if to in ("", name)]


def with_unreachable(refusals: tuple[Finding, ...], silent: list[str]) -> tuple[Finding, ...]:
    """Why nothing takes it, with the hosts that nobody could ask."""
    if not silent:
        return refusals
    text = f"{refusals[0].message} Not asked because they do not answer: {', '.join(silent)}."
    return (Finding(refusals[0].reason, text.strip()), *refusals[1:])


def may_have(obs: Observation, node: str, entry: VMRecord, here: VM | None) -> list[str]:
    """Hosts that were not read and may have this VM of `node`. Empty: it is on none of them.

    `here`: the VM as it was read on the node; None: it is not there.
    """
    unread = unread_hosts(obs, node)
    sent = may_have_been_sent(entry) if unread else set()
    there = [name for name in unread if name in sent]
    return there or (unread if _left_unexplained(obs, entry, here) else [])


def may_have_been_sent(entry: VMRecord) -> set[str]:
    """Hosts to which our record says that it went, or may have gone."""
    last = entry.last
    return {entry.at, entry.cold_target} | {
        attempt.target for attempt in entry.attempts if _may_be_there(attempt, attempt is last)
    }


def _may_be_there(attempt: Attempt, is_last: bool) -> bool:
    """One that ended well and was followed by another one came back in between. Of one that failed
    the holder has read that the VM ran on at its source, unless its reason says otherwise."""
    if not attempt.ended:
        return True
    return is_last if attempt.ok else attempt.reason in _UNPROVEN


def _left_unexplained(obs: Observation, entry: VMRecord, here: VM | None) -> bool:
    """It ran here, runs on no host that was read, and no stop of ours is the cause: somebody may
    have migrated it to a host that does not answer."""
    if not entry.was_active or entry.ending in _SETTLED:
        return False
    if any(seen.state in ACTIVE_STATES for seen in obs.sightings.get(entry.uuid, ())):
        return False
    if here is None and entry.stop_way:  # a transient VM goes when it stops
        defined = {seen.node for seen in obs.sightings.get(entry.uuid, ())}
        return entry.persistent and entry.cold_target not in defined
    if here is None:
        return True
    return here.state is State.SHUTOFF and not (entry.asked_to_stop or here.crashed)
