"""Claims on the model: admission, giving back, and what the dead have left.

A claim is an object of its own, as a volume on real hosts has an id of its own: one that was made
anew is another one, though it reads the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ansible_collections.virtops.maintenance.plugins.module_utils._core.claims import admission, owners
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Reservation, State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord, VMRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason

from .fleet import Fleet
from .machines import Machine
from .reads import incoming

Key = tuple[str, str]  # UUID, owner


class Site(Protocol):
    """What this part needs of the platform."""

    fleet: Fleet
    node: str
    hook: Callable[[str], None]

    def can_reach(self, name: str) -> bool: ...

    def now(self) -> float: ...


class ModelClaims:
    """The claims of one node of the fleet, and its look at those of others."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._fleet = site.fleet
        self.quorum_hosts = admission.quorum_hosts(site.fleet.machines)
        self._granted: dict[str, Reservation] = {}

    def claim(self, action: Action, limits: Limits) -> Finding | None:
        """Create, read afresh, keep or withdraw: first on the target, then the slot."""
        if not self._site.can_reach(action.target):
            return Finding(Reason.PeerUnreachable, action.target)
        target = self._fleet.machines[action.target]
        mine = Reservation(action.vm, action.target, self._site.node, action.memory_mib)
        self._site.hook(f"write claim on {target.name}")
        stood = target.claims.get((mine.vm, mine.owner))
        if stood == mine:
            mine = stood
        target.claims[mine.vm, mine.owner] = self._granted[mine.vm] = mine
        self._site.hook(f"read claims on {target.name}")
        active = {u: d.spec.memory_mib for u, d in target.domains.items() if d.active}
        refusal: Finding | None
        if not self._site.can_reach(target.name):
            refusal = Finding(Reason.PeerUnreachable, target.name)
        else:
            refusal = admission.may_keep_claim(
                mine,
                list(target.claims.values()),
                active,
                incoming(target),
                target.capacity_mib - target.reserve_mib - target.other_mib,
                limits,
                bool(target.cordons) and not admission.settled(action.do, stood is not None),
            )
        if refusal is None:
            refusal = self._take_slot(mine, limits)
        if refusal is not None and stood is None:
            self.release(action)
        return refusal

    def stands(self, action: Action) -> bool:
        """Is the claim that was granted still there?"""
        target = self._fleet.machines[action.target]
        mine = self._granted.get(action.vm)
        return mine is not None and target.claims.get((action.vm, self._site.node)) is mine

    def _take_slot(self, mine: Reservation, limits: Limits) -> Finding | None:
        """On each quorum host that answers; a majority has to."""
        key = mine.vm, mine.owner
        made: list[str] = []
        answering: list[str] = []
        seen: set[str] = set()
        for name in self.quorum_hosts:
            self._site.hook(f"write slot on {name}")
            if not self._site.can_reach(name):
                continue
            quorum_host = self._fleet.machines[name]
            if key not in quorum_host.slots:
                made.append(name)
            quorum_host.slots.add(key)
            quorum_host.slot_of[key] = mine
            self._site.hook(f"read slots on {name}")
            if self._site.can_reach(name):
                answering.append(name)
                seen.update(vm for vm, _owner in quorum_host.slots)
        if admission.are_majority(answering, self.quorum_hosts):
            refusal = admission.may_keep_slot(seen, limits)
        else:
            away = [name for name in self.quorum_hosts if name not in answering]
            refusal = Finding(Reason.PeerUnreachable, ", ".join(away))
        if refusal is not None:
            self._drop_slot(key, made)
        return refusal

    def _drop_slot(self, key: Key, where: Sequence[str]) -> None:
        """What is left on a quorum host that is away has no claim, and is nobody's."""
        for name in where:
            self._site.hook(f"write slot on {name}")
            if self._site.can_reach(name):
                self._fleet.machines[name].slots.discard(key)

    def release(self, action: Action) -> Finding | None:
        """The slot first. What cannot be given back now is seen and given back later."""
        self._drop_slot((action.vm, self._site.node), self.quorum_hosts)
        self._site.hook(f"write claim on {action.target}")
        if not self._site.can_reach(action.target):
            return Finding(Reason.PeerUnreachable, action.target)
        self._fleet.machines[action.target].claims.pop((action.vm, self._site.node), None)
        return None

    # What the dead have left

    def sweep(self) -> None:
        """Take away claims whose owner is proven dead, and slots without a claim."""
        watch = owners.OwnerWatch(self._fleet.machines[self._site.node].watched)
        keys = set()
        for target in self._fleet.machines.values():
            others = [c for c in target.claims.values() if c.owner != self._site.node]
            for claim in others if self._site.can_reach(target.name) else ():
                keys.add(f"{id(claim)}")
                owner = self._owner_state(claim)
                quiet = watch.quiet_for(f"{id(claim)}", owner, self._site.now())
                if owners.claim_state(owner, True, quiet) is owners.ClaimState.OWNER_DEAD:
                    self._remove(claim, target, owner)
        watch.keep_only(keys)
        self._fleet.machines[self._site.node].watched = watch.notes
        for name in self.quorum_hosts:
            if self._site.can_reach(name):
                self._sweep_slots(self._fleet.machines[name])

    def _owner_state(self, claim: Reservation) -> owners.OwnerState:
        owner = self._fleet.machines.get(claim.owner)
        if owner is None or not self._site.can_reach(owner.name):
            return owners.OwnerState(False)
        here = owner.domains.get(claim.vm)
        there = self._fleet.machines[claim.target].domains.get(claim.vm)
        works = any(m.held and m.ours for m in self._fleet.moves.values() if m.source == owner.name)
        return owners.OwnerState(
            True,
            f"{self._fleet.clock // owners.HEARTBEAT_INTERVAL}" if works else "",
            here.state if here is not None else State.ABSENT,
            self._fleet.job(claim.vm, owner.name) is not None,
            there.state if there is not None else State.ABSENT,
        )

    def _entries(self, claim: Reservation) -> list[VMRecord]:
        text = self._fleet.machines[claim.owner].record
        record = None if text is None else NodeRecord.from_json(text)
        return [record.vms[claim.vm]] if record is not None and claim.vm in record.vms else []

    def _remove(self, claim: Reservation, target: Machine, owner: owners.OwnerState) -> None:
        for what in self.removal(claim, target, owner):
            self._site.hook(what)

    def removal(self, claim: Reservation, target: Machine, owner: owners.OwnerState) -> Iterator[str]:
        """Step by step: before each of them others may go on."""
        yield f"read record of {claim.owner}"
        if not self._site.can_reach(claim.owner):
            return
        entries = self._entries(claim)
        if owners.is_half_moved(owner, claim.target, entries):
            return
        domain = target.domains.get(claim.vm)
        if domain is not None and domain.active and entries:
            domain.marked = False
            if domain.persistent:
                domain.autostart = entries[0].autostart
        yield f"write claim on {target.name}"
        key = claim.vm, claim.owner
        if not self._site.can_reach(target.name) or target.claims.get(key) is not claim:
            return
        del target.claims[key]
        yield f"read {claim.owner} again"
        if owners.owner_returned(owner, self._owner_state(claim)):
            target.claims.setdefault(key, claim)

    def _sweep_slots(self, quorum_host: Machine) -> None:
        for key in sorted(quorum_host.slots):
            claim = quorum_host.slot_of.get(key)
            if claim is None or not self._site.can_reach(claim.target):
                continue
            self._site.hook(f"read claims on {claim.target}")
            if not (self._site.can_reach(claim.target) and self._site.can_reach(quorum_host.name)):
                continue
            stands = self._fleet.machines[claim.target].claims.get(key) is claim
            if not stands and quorum_host.slot_of.get(key) is claim:
                quorum_host.slots.discard(key)
