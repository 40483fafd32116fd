"""The model platform: what the loop needs, on a fleet that exists only in memory.

Every read and every write of it calls `hook` first: time goes by there, and a test may let
another run go on, break something, or end this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import ENDS, Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import (
    Node,
    Observation,
    Sighting,
    State,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits, MigrationSettings
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import Attempt, NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.wall import FORMAT
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding, Reason

from .claims import ModelClaims
from .fleet import Fleet
from .machines import Domain, Machine, Move, Stage
from .reads import read_node

OURS = "virtops.maintenance"


class ModelPlatform:
    """Implements `run/platform.Platform` for one node of a fleet.

    `quorum_hosts`: the hosts that count the cluster's slots. `first`: which host is read first.
    `fails`: an action -> why the platform refuses it.
    """

    def __init__(self, fleet: Fleet, node: str, first: int = 0) -> None:
        self.fleet = fleet
        self.node = node
        self._claims = ModelClaims(self)
        self.quorum_hosts = self._claims.quorum_hosts
        self._acting: NodeRecord | None = None
        self.boot_id = self.own.boot_id
        names = sorted(fleet.machines)
        self._order = names[first % len(names) :] + names[: first % len(names)]
        self.hook: Callable[[str], None] = self._tick
        self.sleep: Callable[[float], None] = self._sleep
        self.fails: Callable[[Action], Finding | None] = lambda _action: None
        self._do: Mapping[Do, Callable[[Action], Finding | None]] = {
            Do.CORDON: self._cordon,
            Do.UNCORDON: self._uncordon,
            Do.FORGET: self._forget,
            Do.MIGRATE: self._migrate,
            Do.WATCH: self._watch,
            Do.ABORT: self._abort,
            Do.RELEASE: self._claims.release,
            Do.FINISH: self._finish,
            Do.MARK: self._mark,
            Do.UNMARK: self._mark,
            Do.CLEAN_SOURCE: self._undefine,
            Do.SHUTDOWN: self._shutdown,
            Do.FORCE_OFF: self._force_off,
            Do.SAVE: self._save_vm,
            Do.UNSAVE: self._unsave,
            Do.COLD_DEFINE: self._cold_define,
            Do.COLD_UNDEFINE: self._undefine,
            Do.COLD_START: self._start,
            Do.COLD_WITHDRAW: self._undefine,
            Do.COLD_RETURN: self._cold_return,
            Do.START: self._start,
            Do.RESUME: self._resume,
            Do.AUTOSTART_OFF: self._autostart,
            Do.AUTOSTART_ON: self._autostart,
        }

    @property
    def own(self) -> Machine:
        return self.fleet.machines[self.node]

    # Time

    def _tick(self, _what: str) -> None:
        """An access takes a moment, so that no loop stands still."""
        self.fleet.advance(self.fleet.clock + 0.005)

    def _sleep(self, seconds: float) -> None:
        until = min(self.fleet.clock + seconds, self.fleet.next_event())
        self.fleet.advance(max(until, self.fleet.clock + 0.001))

    def now(self) -> float:
        return self.fleet.clock - self.own.booted_at

    def wall(self) -> str:
        return datetime.fromtimestamp(self.fleet.clock, timezone.utc).strftime(FORMAT)

    def provides(self) -> Sequence[str]:
        return ()

    def wait(self, seconds: float, gather: float = 0.0) -> None:
        self.sleep(seconds)

    def is_wanted(self) -> bool:
        """Whoever comes next waits for the end of a slice."""
        return False

    # The record

    def load(self) -> NodeRecord | None:
        self.hook("read record")
        return None if self.own.record is None else NodeRecord.from_json(self.own.record)

    def save(self, record: NodeRecord) -> None:
        self.hook("write record")
        for uuid in record.vms:
            domain = self.own.domains.get(uuid)
            if domain is not None and uuid not in self.own.definitions:
                self.own.definitions[uuid] = replace(domain)
        self.own.record = record.to_json()

    # Observe

    def observe(self, record: NodeRecord | None) -> Observation:
        """Host after host: what is read of one may be old when the next is read."""
        self._claims.sweep()
        self.hook("read holders")
        obs = Observation(nodes={}, vms={}, now=self.now())
        held = [m for m in self.fleet.moves.values() if m.source == self.node]
        obs.held = frozenset(m.vm for m in held if m.held and m.ours)
        begun = [m for m in held if m.vm in obs.held and not m.watched]
        obs.held_for = {m.vm: (m.run_id, m.attempt) for m in begun}
        self.hook("read outcomes")
        ours = {(u, a.number, a.run_id) for u, a in _attempts(record)}
        obs.outcomes = {k[:2]: o for k, o in self.own.outcomes.items() if k in ours}
        obs.stop_errors = dict(self.own.stop_errors)
        wanted = set(record.vms) if record else set()
        seen: dict[str, dict[str, Domain]] = {}
        for name in self._order:
            self.hook(f"read {name}")
            machine = self.fleet.machines[name]
            if not self.can_reach(name):
                obs.nodes[name] = Node(name, reachable=False, message=f"{name} does not answer")
                continue
            obs.nodes[name] = read_node(self.fleet, machine, OURS)
            seen[name] = self._read_domains(machine, obs)
        wanted.update(obs.vms)
        taken = {s for name in self.quorum_hosts if name in seen for s in self.fleet.machines[name].slots}
        obs.cluster_in_flight = len({vm for vm, _owner in taken})
        obs.slots_of = Counter(owner for _vm, owner in taken)
        for name, domains in seen.items():
            for uuid in sorted(wanted.intersection(domains)) if name != self.node else ():
                self._sighting(obs, name, domains[uuid])
        return obs

    def can_reach(self, name: str) -> bool:
        machine = self.fleet.machines[name]
        return machine.up and (machine.reachable or name == self.node)

    def _read_domains(self, machine: Machine, obs: Observation) -> dict[str, Domain]:
        """A copy of its domains as they are now; its claims; on the node itself, its VMs."""
        for claim in machine.claims.values():
            if claim.owner == self.node:
                obs.claims[claim.vm] = claim
            elif machine.name == self.node:
                obs.inbound.append(claim)
        if machine.name != self.node:
            jobs = {u: self.fleet.job(u, machine.name) for u in machine.domains}
            copies = {u: replace(d) for u, d in machine.domains.items()}
            for uuid, copy in copies.items():
                copy.spec = replace(copy.spec, job=jobs[uuid])
            return copies
        obs.unsent = frozenset(u for u, d in machine.domains.items() if (d.asked_at or 0.0) > self.fleet.clock)
        for uuid, domain in machine.domains.items():
            obs.vms[uuid] = replace(
                domain.spec,
                node=self.node,
                state=domain.state,
                persistent=domain.persistent,
                autostart=domain.autostart,
                marked=domain.marked,
                managed_save=domain.managed_save,
                instance=domain.instance if domain.active else "",
                stopping=None if domain.spec.stopping is None else domain.asked_at is not None,
                resumable=domain.state is State.PAUSED and domain.save_ends is None,
                job=self.fleet.job(uuid, self.node),
            )
        return {}

    @staticmethod
    def _sighting(obs: Observation, name: str, domain: Domain) -> None:
        spec, state = domain.spec, domain.state
        sighting = Sighting(
            *(name, state, domain.autostart, domain.persistent, domain.marked, spec.job),
            crashed=spec.crashed and state is State.SHUTOFF,
        )
        obs.sightings.setdefault(domain.spec.uuid, []).append(sighting)

    # Claim

    def claim(self, wanted: Sequence[Action], limits: Limits) -> dict[str, Finding | None]:
        return {action.vm: self._claims.claim(action, limits) for action in wanted}

    # Apply

    def apply(self, actions: Sequence[Action], record: NodeRecord) -> dict[str, Finding]:
        wrong: dict[str, Finding] = {}
        self._acting = record
        for action in actions:
            if action.do in ENDS and action.vm in wrong:
                wrong[action.vm] = Finding(Reason.StopFailed, wrong[action.vm].message)
                continue
            self.hook(f"write {action.do.value} {action.vm}")
            finding = self.fails(action)
            there = action.target if action.do is not Do.RELEASE else ""  # its slots go all the same
            if finding is None and there and not self.can_reach(there):
                finding = Finding(Reason.PeerUnreachable, f"{action.target} does not answer")
            if finding is None:
                finding = self._do[action.do](action)
            if finding is not None:
                wrong[action.vm] = finding
            self.fleet.on_change()
        return wrong

    def _cordon(self, _action: Action) -> Finding | None:
        self.own.cordons.add(OURS)
        return None

    def _uncordon(self, _action: Action) -> Finding | None:
        self.own.cordons.discard(OURS)
        return None

    def _forget(self, _action: Action) -> Finding | None:
        self.own.record = None
        self.own.outcomes.clear()
        self.own.definitions.clear()
        return None

    def _migrate(self, action: Action) -> Finding | None:
        """As the holder does it: not without the claim."""
        self.hook(f"read claim on {action.target}")
        if not self.can_reach(action.target):
            return Finding(Reason.PeerUnreachable, action.target)
        if not self._claims.stands(action):
            return Finding(Reason.NoTargetWithCapacity, f"The claim on {action.target} was taken away.")
        fate = self.fleet.fate(action.vm, action.attempt)
        settings = action.settings or MigrationSettings()
        move = Move(action.vm, self.node, action.target, action.attempt, settings, fate)
        move.run_id = self._attempt(action).run_id
        self.fleet.migrate(move)  # else one is under way: adopted
        return None

    def _watch(self, action: Action) -> Finding | None:
        move = self.fleet.moves.get(action.vm)
        if move is not None:
            move.held, move.ours, move.attempt = True, True, action.attempt
            move.run_id, move.watched = self._attempt(action).run_id, True
        return None

    def _attempt(self, action: Action) -> Attempt:
        key = action.vm, action.attempt
        return next(a for uuid, a in _attempts(self._acting) if (uuid, a.number) == key)

    def _abort(self, action: Action) -> Finding | None:
        move = self.fleet.moves.get(action.vm)
        if move is not None and move.is_another(self._attempt(action)):
            return None
        if self.fleet.abort(action.vm):
            return None
        return Finding(Reason.MigrationFailed, "too late to abort: the VM moves")

    def _finish(self, action: Action) -> Finding | None:
        domain = self.fleet.machines[action.target].domains.get(action.vm)
        if domain is None or action.vm in self.fleet.moves:
            return Finding(Reason.MigrationFailed, f"it is not at rest on {action.target}")
        domain.marked = False
        entry = self._acting.vms.get(action.vm) if self._acting else None
        domain.persistent |= entry is not None and entry.persistent
        if domain.persistent:
            domain.autostart = action.autostart
        return None

    def _mark(self, action: Action) -> Finding | None:
        domain = self.own.domains.get(action.vm)
        if domain is None or action.vm in self.fleet.moves:
            return Finding(Reason.StopFailed, "metadata is not written during a job")
        domain.marked = action.do is Do.MARK
        return None

    def _undefine(self, action: Action) -> Finding | None:
        """Here (it runs there, or is defined there), or there (withdrawn). Never what is active,
        and never the last definition."""
        name, other = self.node, action.target
        if action.do is Do.COLD_WITHDRAW:
            name, other = other, name
        kept = self.fleet.machines[other].domains.get(action.vm)
        if kept is None or not kept.persistent:
            return Finding(Reason.StopFailed, f"it is not defined on {other}")
        domain = self.fleet.machines[name].domains.get(action.vm)
        if domain is not None and domain.active:
            return Finding(Reason.StopFailed, f"it is {domain.state.value} on {name}")
        self.fleet.machines[name].domains.pop(action.vm, None)
        return None

    def _running_here(self, action: Action) -> Domain | None:
        move = self.fleet.moves.get(action.vm)
        if move is not None and move.stage is not Stage.STARTING:
            return None
        domain = self.own.domains.get(action.vm)
        return domain if domain is not None and domain.active else None

    def _shutdown(self, action: Action) -> Finding | None:
        domain = self._running_here(action)
        if domain is None:
            return Finding(Reason.StopFailed, "it does not run here")
        if domain.asked_at is None:
            domain.asked_at = self.fleet.clock + domain.ask_takes
        if domain.off_at is None and domain.shutdown_takes is not None:
            domain.off_at = max(self.fleet.clock, domain.asked_at) + domain.shutdown_takes
        return None

    def _force_off(self, action: Action) -> Finding | None:
        if self._running_here(action) is None:
            return Finding(Reason.StopFailed, "it does not run here")
        self.fleet.power_off(self.node, action.vm)
        return None

    def _save_vm(self, action: Action) -> Finding | None:
        domain = self._running_here(action)
        if domain is None or not domain.persistent:
            return Finding(Reason.StopFailed, "it cannot be saved")
        self.fleet.save(self.node, action.vm)
        return None

    def _unsave(self, action: Action) -> Finding | None:
        domain = self.own.domains.get(action.vm)
        if domain is not None:
            domain.save_begins = None
        return None

    def _cold_define(self, action: Action) -> Finding | None:
        domain = self.own.domains.get(action.vm)
        if domain is None or domain.active:
            return Finding(Reason.StopFailed, "it is not off here")
        there = self.fleet.machines[action.target].domains
        there.setdefault(action.vm, replace(domain, autostart=False))
        return None

    def _cold_return(self, action: Action) -> Finding | None:
        domain = self.fleet.machines[action.target].domains.get(action.vm)
        if domain is None or domain.active:
            return Finding(Reason.StopFailed, f"it is not off on {action.target}")
        back = replace(domain, spec=replace(domain.spec, crashed=False), autostart=False)
        self.own.domains.setdefault(action.vm, back)
        return None

    def _start(self, action: Action) -> Finding | None:
        machine = self.fleet.machines[action.target or self.node]
        domain = machine.domains.get(action.vm)
        if domain is None:
            known = self.own.definitions.get(action.vm)
            if known is None:
                return Finding(Reason.CannotStart, "its definition is not known")
            domain = machine.domains[action.vm] = replace(known, off_at=None, marked=False)
        if not domain.active:
            domain.state, domain.managed_save = State.RUNNING, False
            domain.instance += "+"
        return None

    def _resume(self, action: Action) -> Finding | None:
        domain = self._running_here(action)
        if domain is None or domain.state is not State.PAUSED or domain.save_ends is not None:
            return Finding(Reason.StateNotLiveMigratable, "it is not paused")
        domain.state = State.RUNNING
        return None

    def _autostart(self, action: Action) -> Finding | None:
        domain = self.own.domains.get(action.vm)
        if domain is not None:
            domain.autostart = action.do is Do.AUTOSTART_ON
        return None


def _attempts(record: NodeRecord | None) -> list[tuple[str, Attempt]]:
    entries = record.vms if record is not None else {}
    return [(uuid, attempt) for uuid, entry in entries.items() for attempt in entry.attempts]
