"""Whose claim is it, and what is to be done about it: for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..._core.claims.owners import DEAD_AFTER, ClaimState
from ..domain.untrusted import load_json
from ..store.names import Reservation, format_name

LONGEST = 200  # characters of what another host has written


def read_owner_note(content: bytes) -> dict[str, str]:
    """Parse what the owner wrote into the volume of a claim or slot: run, by, at, name and target, each where it is
    known. {}: nothing (an older version), or nothing readable."""
    try:
        raw = load_json(content)
    except ValueError:
        return {}
    if not isinstance(raw, dict):
        return {}
    return {str(k): _plain(v) for k, v in raw.items() if isinstance(v, str)}


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:LONGEST])


def owner_text(claim: Reservation, owner_note: Mapping[str, str], name: str) -> str:
    """Name the VM and its source, with run, requester and time as far as `owner_note` has them.

    `name`: of the VM, as a host reports it now; empty: none does.
    """
    text = f"{owner_note.get('name') or name or claim.vm} from {claim.source}"
    parts = [f"run {owner_note['run']}"] if owner_note.get("run") else []
    parts += [f"of {owner_note['by']}"] if owner_note.get("by") else []
    parts += [f"since {owner_note['at']}"] if owner_note.get("at") else []
    return f"{text} ({' '.join(parts)})" if parts else text


def claim_text(claim: Reservation, target: str, found: ClaimState, who: str, is_there: bool) -> str:
    """Say in one sentence or two, without the last full stop, how the claim stands and what can be done about it.

    `who`: its owner_text. `is_there`: the target has a domain of the VM.
    """
    source = claim.source
    by_hand = f"on {target}: virsh vol-delete --pool virtops {format_name(claim)}"
    if found is ClaimState.QUIET:
        return f"{who}: its drain does not answer; after {DEAD_AFTER:.0f} s a drain removes it"
    if found is ClaimState.HALF_MOVED:
        return (
            f"{who}: it is off, half-way from {source} to {target}, and its drain is dead."
            f" Run the drain of {source} again, or restore {source}"
        )
    if found is ClaimState.WITHOUT_ID:
        return (
            f"{who}: its drain does not answer, and an older version made its reservation, so it is"
            f" not removed automatically. Run the drain of {source} again, or {by_hand}"
        )
    if found is ClaimState.UNREADABLE:
        no_domain = "" if is_there else f" {target} has no domain of it."
        return (
            f"{who}: {source} cannot be read, so its drain may still be at work.{no_domain} As soon"
            f" as {source} answers, a drain removes the reservation if its owner is dead. If {source} is"
            f" off for good, {by_hand}"
        )
    if found is ClaimState.OWNER_DEAD:
        return f"{who}: its drain is dead. The next drain that finds the reservation removes it"
    return who


def removed(who: str, target: str) -> str:
    """The warning that the claim of a dead drain was removed. `who`: its owner_text."""
    return (
        f"Removed the reservation on {target} for {who}: its drain is dead. For {DEAD_AFTER:.0f} s there"
        " was no migration of it and no sign of its migration agent."
    )


def removed_own(who: str, claim: Reservation, target: str) -> str:
    """The warning that a claim was removed whose own host has no record of it."""
    return (
        f"Removed the reservation on {target} for {who}: {claim.source} has no record of it, and nothing"
        " is under way for the VM."
    )


def off_between(claim: Reservation, target: str) -> str:
    """Why a claim stays whose VM is off half-way, with what to do, without the full stop: for `stays`."""
    return (
        f"the VM is off, only {target} has its definition, and {claim.source} has no record of it."
        f" Start it on {target} (virsh start), then restore {claim.source} again"
    )


def stays(who: str, target: str, why: str) -> str:
    """The warning that a claim could not be removed. `why`: without the full stop."""
    return f"The reservation on {target} for {who} stays: {why}."
