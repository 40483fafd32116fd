"""Claims and slots of other hosts' drains: whose they are, and taking away those of the dead.

What proves that an owner is dead, and why no harm is done if it is not: see the core's owners.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, MutableMapping
from dataclasses import replace

from ..._core.claims.owners import ClaimState, OwnerState, OwnerWatch, claim_state, is_half_moved, owner_returned
from ..._core.decision.actions import Action, Do
from ..._core.model.observation import Observation, State
from ..._core.model.observation import Reservation as CoreReservation
from ..._core.model.record import NodeRecord, RecordError, VMRecord
from ..host.connection import HostUnreachable, libvirt
from ..observe.host import Host, HostNow, finish_arrival
from ..store.names import Reservation, Slot, alive_of, format_name, parse_name
from ..store.volumes import Store, StoreError, VolumeTorn
from .claim_text import claim_text, off_between, owner_text, read_owner_note, removed, removed_own, stays

NOTES = "/run/virtops/claims.json"
Reads = MutableMapping[str, HostNow]
GiveBack = Callable[[Action], None]
# Nothing moves for these by waiting.
_STUCK = frozenset({ClaimState.UNREADABLE, ClaimState.WITHOUT_ID, ClaimState.HALF_MOVED})


class StaleClaims:
    """Looks at the claims of others at each observation. `acts` False: it only reports.

    `reported`: sentences for people, each once. `elsewhere`: sentences on claims on other hosts, of whose owners
    nothing was heard at the last look.
    """

    def __init__(
        self,
        hosts: Mapping[str, Host],
        own: str,
        quorum_hosts: Collection[str],
        now: Callable[[], float],
        acts: bool,
        notes: str = NOTES,
    ) -> None:
        self._hosts, self._own, self._quorum_hosts = hosts, own, quorum_hosts
        self._now, self._acts, self._path = now, acts, notes
        self._contents: dict[tuple[str, str], bytes] = {}  # (host, volume) -> content
        self.reported: list[str] = []
        self.elsewhere: list[str] = []

    def check(self, found: Mapping[str, HostNow], obs: Observation) -> None:
        """Judge each claim of another host, remove those whose owner is dead, and slots without a claim.

        `found`: the last read of the hosts. Notes in `obs.inbound` whose each claim is, and whether waiting helps.
        """
        reads = dict(found)
        watch = OwnerWatch(_load(self._path))
        before, keys = dict(watch.notes), set()
        self.elsewhere = []
        notes: dict[tuple[str, str], tuple[str, bool]] = {}
        for target, read in found.items():
            for claim in () if read.error else read.reservations:
                if claim.source == self._own:
                    continue
                key = f"{target}:{format_name(claim)}"
                keys.add(key)
                seen = self._see(claim, target, reads)
                quiet = watch.quiet_for(key, seen, self._now())
                state = claim_state(seen, bool(claim.id), quiet)
                if state is ClaimState.OWNER_DEAD:
                    state = self._remove(claim, target, seen, reads)
                text = self._describe(claim, target, state, seen, reads)
                notes[claim.vm, target] = text, state in _STUCK
        watch.keep_only(keys)
        if self._acts and watch.notes != before:
            _save(self._path, watch.notes)
        obs.inbound = [_noted(c, notes.get((c.vm, c.target))) for c in obs.inbound]
        self._sweep_slots(reads)

    def release_own(self, found: Mapping[str, HostNow], held: Collection[str], release: GiveBack) -> None:
        """Release the claims that this host, which has no record, still has on any host, where nothing of the VM is
        under way. `release`: gives one back. What was done, and what stays and why, is in `reported`.

        Its owner is here, so nobody has to be watched: no other slice runs beside this one, and
        `held` is what its holder works on, read before `found`.
        """
        reads, mine = dict(found), found[self._own]
        claims = [(name, r) for name, read in reads.items() for r in read.reservations]
        for target, claim in claims if self._acts and not mine.error else ():
            if claim.source != self._own or claim.vm in held or _has_single(mine, claim.vm):
                continue
            seen = self._see(claim, target, reads)
            if not seen.is_idle or claim.vm in mine.unread or claim.vm in reads[target].unread:
                continue
            who, why = self._owner_text(claim, target, reads), ""
            if is_half_moved(seen, target, ()):
                why = off_between(claim, target)
            else:
                try:
                    release(Action(Do.RELEASE, self._own, claim.vm, target=target))
                except (HostUnreachable, libvirt.libvirtError) as exc:
                    why = f"{exc}. Restore {self._own} again"
            self._report(stays(who, target, why) if why else removed_own(who, claim, target))

    def _see(self, claim: Reservation, target: str, reads: Reads) -> OwnerState:
        source = self._read(claim.source, reads)
        if source is None or source.error:
            return OwnerState(False)
        here, there = source.domains.get(claim.vm), reads[target].domains.get(claim.vm)
        return OwnerState(
            True,
            alive_of(source.names),
            here.state if here is not None else State.ABSENT,
            here is not None and here.job is not None,
            there.state if there is not None else State.ABSENT,
        )

    def _read(self, name: str, reads: Reads) -> HostNow | None:
        """None: it is none of the hosts given."""
        if name not in reads and name in self._hosts:
            reads[name] = self._hosts[name].read(True)
        return reads.get(name)

    # Telling

    def _describe(self, claim: Reservation, target: str, state: ClaimState, seen: OwnerState, reads: Reads) -> str:
        here = target == self._own
        silent = state in _STUCK or state is ClaimState.OWNER_DEAD
        if not here and not silent and (state is not ClaimState.QUIET or seen.mark):
            return ""
        is_there = claim.vm in reads[target].domains
        text = claim_text(claim, target, state, self._owner_text(claim, target, reads), is_there)
        if not here:
            self.elsewhere.append(f"{text}. It holds {claim.memory_mib} MiB of {target}.")
        if silent:
            self._report(f"A reservation on {target}: {text}.")
        return text

    def _report(self, text: str) -> None:
        if text not in self.reported:
            self.reported.append(text)

    def _owner_text(self, claim: Reservation, target: str, reads: Reads) -> str:
        names = [r.domains[claim.vm].name for r in reads.values() if claim.vm in r.domains]
        owner_note = read_owner_note(self._content(target, format_name(claim)))
        return owner_text(claim, owner_note, names[0] if names else "")

    def _content(self, host: str, volume: str) -> bytes:
        """The content of a claim or slot, read once: nobody changes it. b"": empty, or it cannot be read now."""
        if (host, volume) not in self._contents:
            try:
                self._contents[host, volume] = self._hosts[host].store.read(volume)
            except (HostUnreachable, StoreError, libvirt.libvirtError):
                return b""
        return self._contents[host, volume]

    # Taking away

    def _remove(self, claim: Reservation, target: str, seen: OwnerState, reads: Reads) -> ClaimState:
        """Remove the claim of an owner that was proven dead, unless that shows a sign of life meanwhile. Gives the
        state of the claim after that."""
        try:
            entries = _entries(self._hosts[claim.source].store, claim.source, claim.vm)
            if is_half_moved(seen, target, entries):
                return ClaimState.HALF_MOVED
            if not self._acts:
                return ClaimState.OWNER_DEAD
            self._finish(claim, target, seen, entries)
            who, name = self._owner_text(claim, target, reads), format_name(claim)
            content, store = self._content(target, name), self._hosts[target].store
            if not store.delete(name):
                return ClaimState.IN_USE  # somebody else was first
            if self._is_back(claim, target, seen):
                store.create(name, content)
                return ClaimState.IN_USE
            self._drop_slots(claim)
        except RecordError:
            return ClaimState.UNREADABLE
        except (HostUnreachable, StoreError, libvirt.libvirtError):
            return ClaimState.QUIET  # asked again at the next look
        self._report(removed(who, target))
        return ClaimState.IN_USE  # for this observation; it is not there at the next one

    def _is_back(self, claim: Reservation, target: str, seen: OwnerState) -> bool:
        """Has the owner returned, read after the claim was removed? True where the target cannot be read."""
        fresh = {name: self._hosts[name].read(True) for name in (claim.source, target)}
        if fresh[target].error:
            return True
        return owner_returned(seen, self._see(claim, target, fresh))

    def _finish(self, claim: Reservation, target: str, seen: OwnerState, entries: Collection[VMRecord]) -> None:
        """Where the VM has arrived, do what its drain would have done last of all: finish_arrival. Before the claim
        goes: while it stands nobody takes for its own what is read of the VM there."""
        if seen.there not in (State.RUNNING, State.PAUSED):
            return
        dom = self._hosts[target].domain(claim.vm)
        last = {"source": claim.source, "target": target}
        for entry in entries:
            if any(attempt.target == target for attempt in entry.attempts):
                finish_arrival(dom, entry.autostart, last)

    def _drop_slots(self, claim: Reservation) -> None:
        """Delete the slots of a claim on all hosts that answer. One that stays is a slot without a claim, and removed
        later."""
        for quorum_host in self._quorum_hosts:
            try:
                self._hosts[quorum_host].store.delete(format_name(Slot(claim.vm, claim.source, claim.id)))
            except (HostUnreachable, StoreError, libvirt.libvirtError):
                continue

    def _sweep_slots(self, reads: Reads) -> None:
        """A slot is made after its claim and goes before it: one without a claim is nobody's."""
        claimed = {r.id for read in reads.values() for r in read.reservations}
        for quorum_host in self._quorum_hosts:
            for slot in reads[quorum_host].slots if self._acts and quorum_host in reads else ():
                if slot.id and slot.id not in claimed:
                    self._sweep_slot(quorum_host, slot, reads)

    def _sweep_slot(self, quorum_host: str, slot: Slot, reads: Reads) -> None:
        """The claim may have been made since the hosts were read: its host is asked now."""
        name = format_name(slot)
        target = read_owner_note(self._content(quorum_host, name)).get("target", "")
        read = self._read(target, reads)
        if read is None or read.error:
            return
        try:
            names = self._hosts[target].store.names()
            claims = [c for c in map(parse_name, names) if isinstance(c, Reservation)]
            if not any(c.id == slot.id for c in claims):
                self._hosts[quorum_host].store.delete(name)
        except (HostUnreachable, StoreError, libvirt.libvirtError):
            return


def _has_single(mine: HostNow, vm: str) -> bool:
    """A migration of this VM alone is under way, or was killed: whoever runs it again needs it."""
    return any(name.startswith(f"single.{vm}.record.") for name in mine.names)


def _noted(claim: CoreReservation, note: tuple[str, bool] | None) -> CoreReservation:
    return claim if note is None else replace(claim, note=note[0], stuck=note[1])


def _entries(store: Store, source: str, vm: str) -> list[VMRecord]:
    """The entries of the VM in its owner's records, that of the host and that of the VM's own migration. Raises
    RecordError when one is not readable."""
    found = []
    for prefix in ("record", f"single.{vm}.record"):
        try:
            text = store.read_record(prefix)
        except VolumeTorn as exc:
            if store.generations(prefix) == [1]:
                continue  # being written when its run was killed: nothing was done yet
            raise RecordError(str(exc)) from exc
        record = None if text is None else NodeRecord.from_json(text)
        if record is not None and record.node == source and vm in record.vms:
            found.append(record.vms[vm])
    return found


def _load(path: str) -> dict[str, tuple[float, str]]:
    """Notes of the slices before, in a file that a reboot takes away. {}: it begins anew."""
    try:
        with open(path, encoding="utf-8") as stream:
            raw = json.load(stream)
        return {str(key): (float(since), str(seen)) for key, (since, seen) in raw.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _save(path: str, notes: Mapping[str, tuple[float, str]]) -> None:
    """Without them a claim is watched for longer, and that is all."""
    try:
        with open(f"{path}.new", "w", encoding="utf-8") as stream:
            json.dump(notes, stream)
        os.replace(f"{path}.new", path)
    except OSError:
        return
