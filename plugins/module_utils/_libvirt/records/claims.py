"""Admission: a reservation on the target and a slot on the quorum, before anything moves.

The protocol is in the core (keep): create, read afresh, keep or give back. Here it
is done with volumes, for all that one step wants at once: few round trips to each host.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence

from ..._core.claims.admission import are_majority, may_keep_claim, may_keep_slot, quorum_hosts, settled
from ..._core.decision.actions import Action
from ..._core.model.observation import Reservation as CoreReservation
from ..._core.model.observation import State
from ..._core.model.policy import Limits
from ..._core.reasons.reason import Finding, Reason
from ..host.connection import HostUnreachable, is_full, libvirt
from ..observe.host import Host, HostNow
from ..store.names import Reservation, Slot, format_name, new_id, parse_name

Answers = dict[str, "Finding | None"]
OwnerNote = Callable[[], Mapping[str, str]]


class Claims:
    """The claims that one host makes on the others. `hosts`: all of the fleet.

    `owner_note`: gives what a claim says of its owner: see read_owner_note. `unreachable`: gives the hosts that did not
    answer just now; they are not waited for once more.
    """

    def __init__(
        self,
        hosts: Mapping[str, Host],
        source: str,
        owner_note: OwnerNote = dict,
        unreachable: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._hosts = hosts
        self._source = source
        self._owner_note = owner_note
        self._unreachable = unreachable
        self.quorum_hosts = quorum_hosts(hosts)
        self._ids: dict[str, str] = {}  # UUID -> id of the claim that was last granted
        self._names: dict[str, str] = {}  # the same -> its volume

    def name_of(self, uuid: str) -> str:
        """The volume of the claim under which this VM may move; empty: there is none."""
        return self._names.get(uuid, "")

    def claim(self, wanted: Sequence[Action], limits: Limits) -> Answers:
        """UUID -> None (granted), or why not. What was made here and is not granted is given
        back."""
        answers: Answers = {}
        made: dict[str, list[Action]] = {}
        stood: set[str] = set()
        for action in wanted:
            try:
                if not self._reserve(action):
                    stood.add(action.vm)
                made.setdefault(action.target, []).append(action)
            except (HostUnreachable, libvirt.libvirtError) as exc:
                reason = Reason.TargetStoreFull if is_full(exc) else Reason.PeerUnreachable
                answers[action.vm] = Finding(reason, f"{action.target}: {exc}")
        kept: list[Action] = []
        for target, actions in made.items():
            kept += _keep_on(self._hosts[target], self._source, actions, stood, limits, answers)
        self._take_slots(kept, limits, answers)
        for actions in made.values():
            for action in actions:
                if answers[action.vm] is not None and action.vm not in stood:
                    self._release_quietly(action)
        return answers

    def _reserve(self, action: Action) -> bool:
        """False: there is one of ours already."""
        store = self._hosts[action.target].store
        for name in store.names():
            have = parse_name(name)
            if isinstance(have, Reservation) and (have.vm, have.memory_mib, have.source) == (
                *(action.vm, action.memory_mib),
                self._source,
            ):
                self._ids[action.vm], self._names[action.vm] = have.id, name
                return False
        new = Reservation(action.vm, action.memory_mib, self._source, new_id())
        name = format_name(new)
        store.create(name, self._text(action))
        self._ids[action.vm], self._names[action.vm] = new.id, name
        return True

    def _text(self, action: Action) -> bytes:
        """The content of a claim or slot, for whoever finds it and cannot ask us."""
        text = {"name": action.name, "target": action.target, **self._owner_note()}
        return json.dumps(text, sort_keys=True).encode()

    def _take_slots(self, kept: Sequence[Action], limits: Limits, answers: Answers) -> None:
        """After the reservations: a slot never stands without its claim.

        Read is only when all have been made: of drains that race, the last one to make its last slot then meets those
        of all the others. Read one by one as they were made, three drains could each see one of the other two.
        """
        if not kept:
            return
        made: dict[str, list[str]] = {}
        slots: set[str] = set()
        silent: dict[str, str] = dict.fromkeys(self._unreachable(), "it did not answer")
        asked = [name for name in self.quorum_hosts if name not in silent]
        for name in asked:
            try:
                store = self._hosts[name].store
                for action in kept:
                    if store.create(self._slot(action), self._text(action)):
                        made.setdefault(action.vm, []).append(name)
            except (HostUnreachable, libvirt.libvirtError) as exc:
                silent[name] = str(exc)
        for name in [name for name in asked if name not in silent]:
            try:
                slots.update(_slots_in(self._hosts[name].store.names()))
            except (HostUnreachable, libvirt.libvirtError) as exc:
                silent[name] = str(exc)
        answering = [name for name in asked if name not in silent]
        for action in reversed(kept):
            why_not = (
                may_keep_slot(slots, limits)
                if are_majority(answering, self.quorum_hosts)
                else too_few(self.quorum_hosts, silent)
            )
            answers[action.vm] = why_not
            if why_not is not None:
                slots.discard(action.vm)  # what stood goes with its claim
                self._drop_slots(action, made.get(action.vm, ()))

    def _slot(self, action: Action) -> str:
        return format_name(Slot(action.vm, self._source, self._ids[action.vm]))

    def _drop_slots(self, action: Action, where: Sequence[str]) -> None:
        """On those that answer. On one that does not the slot stays, without a claim: then whoever
        meets it takes it away."""
        unreachable = self._unreachable()
        for quorum_host in where:
            if quorum_host in unreachable:
                continue
            try:
                store = self._hosts[quorum_host].store
                for name in self._slots_of(action.vm, store.names()):
                    store.delete(name)
            except (HostUnreachable, libvirt.libvirtError):
                continue

    def _slots_of(self, vm: str, names: Sequence[str]) -> list[str]:
        found = ((name, parse_name(name)) for name in names)
        mine = (vm, self._source)
        return [n for n, s in found if isinstance(s, Slot) and (s.vm, s.source) == mine]

    def release(self, action: Action) -> None:
        """Remove the slot, then the reservation: a slot never stands without its claim.

        Every reservation of this VM by this host goes, whatever memory its name says: that of a
        claim which no record remembers is not known here.
        """
        self._drop_slots(action, self.quorum_hosts)
        store = self._hosts[action.target].store
        for name in store.names():
            parsed = parse_name(name)
            mine = (action.vm, self._source)
            if isinstance(parsed, Reservation) and (parsed.vm, parsed.source) == mine:
                store.delete(name)
        self._names.pop(action.vm, None)

    def _release_quietly(self, action: Action) -> None:
        """Release, if the hosts answer. A claim that stays is seen as ours at the next read, and released
        then."""
        try:
            self.release(action)
        except (HostUnreachable, libvirt.libvirtError):
            return


def too_few(of: Sequence[str], silent: Mapping[str, str]) -> Finding:
    """The finding where no majority of the quorum hosts (`of`) answers. `silent`: host -> why."""
    unreachable = "; ".join(f"{name}: {silent[name]}" for name in of if name in silent)
    text = f"Slots are counted on {', '.join(of)}, and a majority of them must answer. {unreachable}"
    return Finding(Reason.PeerUnreachable, text)


def _slots_in(names: Sequence[str]) -> set[str]:
    return {slot.vm for slot in map(parse_name, names) if isinstance(slot, Slot)}


def _keep_on(
    target: Host, source: str, actions: list[Action], stood: Collection[str], limits: Limits, answers: Answers
) -> list[Action]:
    """Read the target with our reservations on it, and give the actions whose reservation stays. Too much: the last
    ones go first. `stood`: VMs whose reservation was there before. Fills `answers`: UUID -> None, or why not."""
    read = target.read(False)
    if read.error:
        why = Finding(Reason.PeerUnreachable, f"{target.name}: {read.error}")
        answers.update({a.vm: why for a in actions})
        return []
    claims = [_core(r, target.name) for r in read.reservations]
    kept = list(actions)
    for action in reversed(actions):
        mine = CoreReservation(action.vm, target.name, source, action.memory_mib)
        cordoned = read.cordoned and not settled(action.do, action.vm in stood)
        why_not = _why_not(target, mine, claims, read, limits, cordoned)
        answers[action.vm] = why_not
        if why_not is not None:
            kept.remove(action)
            claims = [c for c in claims if c != mine]
    return kept


def _core(reservation: Reservation, target: str) -> CoreReservation:
    return CoreReservation(reservation.vm, target, reservation.source, reservation.memory_mib)


def _why_not(
    target: Host,
    mine: CoreReservation,
    claims: Sequence[CoreReservation],
    read: HostNow,
    limits: Limits,
    cordoned: bool,
) -> Finding | None:
    active = {d.uuid: d.memory_mib for d in read.domains.values() if d.state is not State.SHUTOFF}
    incoming = [d.uuid for d in read.domains.values() if d.state is State.INCOMING]
    capacity = target.capacity_mib - target.config.reserve_mib
    return may_keep_claim(mine, claims, active, incoming, capacity, limits, cordoned)
