"""The observer of a model world. It reads the fleet alone, never what a run says."""

from __future__ import annotations

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do, NodePhase
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import State
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Slice
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.faults import Run
from fleetsim.fleet import Fleet
from fleetsim.machines import Machine, Move, Stage
from fleetsim.platform import OURS

EXECUTES = frozenset({State.RUNNING, State.POSTCOPY})
STOPS = frozenset({Do.SHUTDOWN, Do.SAVE, Do.FORCE_OFF})


class Broken(AssertionError):
    """The observer saw what must never be."""


class Observer:
    """Raises `Broken` when it sees what must never be."""

    fleet: Fleet
    policy: Policy

    @staticmethod
    def active(machine: Machine) -> int:
        return sum(d.spec.memory_mib for d in machine.domains.values() if d.active)

    def where(self, uuid: str) -> list[str]:
        return [
            f"{d.state.value} on {m.name}"
            for m in self.fleet.machines.values()
            for u, d in m.domains.items()
            if u == uuid
        ]

    def _runs(self, move: Move) -> bool:
        domain = self.fleet.machines[move.source].domains.get(move.vm)
        return domain is not None and domain.active

    def _watch(self, action: Action):
        """Before an act is carried out."""
        if action.do is Do.MIGRATE:
            move = self.fleet.moves.get(action.vm)
            if move is not None and move.asked:
                raise Broken(f"a second migration of {action.name}")
        if action.do is Do.RESUME and action.vm in self.asleep:
            raise Broken(f"{action.name} is resumed, which its owner has paused")
        domain = self.fleet.machines[action.node].domains.get(action.vm)
        # One that its owner has stopped since it was read takes no harm.
        if action.do is Do.FORCE_OFF and domain is not None and domain.active:
            asked = domain.asked_at
            if asked is None or self.fleet.clock - asked < self.policy.shutdown_timeout:
                raise Broken(f"{action.name} is switched off before its time is over")
        if action.do in STOPS:
            spec = self.fleet.machines[action.node].domains.get(action.vm)
            if spec is not None and not spec.spec.labels.get("may_stop"):
                raise Broken(f"{action.name} is stopped, which nothing allows")
            self.stopped.add(action.vm)

    def check(self) -> None:
        """After every change."""
        fleet, limits = self.fleet, self.policy.limits
        places: dict[str, list[str]] = {}
        for machine in fleet.machines.values():
            for uuid, domain in machine.domains.items():
                if domain.state in EXECUTES:
                    places.setdefault(uuid, []).append(machine.name)
                move = fleet.moves.get(uuid)
                asked = move is not None and move.asked
                if domain.state is State.INCOMING and asked and self.drained.get(machine.name):
                    raise Broken(f"{uuid} comes to {machine.name}, which is drained")
            if self.active(machine) > machine.capacity_mib - machine.reserve_mib:
                raise Broken(f"{machine.name} is over its capacity")
        for uuid, hosts in places.items():
            if len(hosts) > 1:
                raise Broken(f"{uuid} runs on {hosts}")
        # An order for a VM that was stopped meanwhile fails as soon as it begins.
        ours = [m for m in fleet.moves.values() if m.asked and self._runs(m)]
        if len(ours) > limits.cluster:
            raise Broken(f"{len(ours)} migrations in the cluster")
        for name in fleet.machines:
            if sum(1 for m in ours if m.source == name) > limits.outbound:
                raise Broken(f"too many migrations from {name}")
            if sum(1 for m in ours if m.target == name) > limits.inbound:
                raise Broken(f"too many migrations to {name}")
        lost = self.names - self.excused - fleet.killed - self.stopped - set(places)
        for uuid in lost:
            states = [m.domains[uuid].state for m in fleet.machines.values() if uuid in m.domains]
            if uuid in self.home and not any(s.value not in ("shutoff",) for s in states):
                raise Broken(f"{uuid} is lost: {self.where(uuid)}")

    def _said(self, run: Run, outcome: Slice) -> None:
        """A run has ended: is it true what it says?"""
        machine = self.fleet.machines[run.node]
        certified = outcome.certificate is not None
        if certified != (outcome.phase is NodePhase.DRAINED):
            raise Broken(f"{run.node} is {outcome.phase} and certificate={certified}")
        self.drained[run.node] = outcome.phase is NodePhase.DRAINED
        if outcome.phase is NodePhase.DRAINED:
            late = {m.vm for m in self.fleet.moves.values() if self._came_too_late(m)}
            left = [u for u, d in machine.domains.items() if d.active and u not in late]
            moving = [
                m
                for m in self.fleet.moves.values()
                if run.node in (m.source, m.target) and (m.asked or m.stage is not Stage.STARTING) and m.vm not in late
            ]
            seen = {u for u, node in self.home.items() if node == run.node}
            unsaid = seen - set(outcome.record.vms) - self.excused
            if left or moving or unsaid:
                raise Broken(f"{run.node} is said to be drained: {left} {moving} {unsaid}")
            for uuid in outcome.record.vms:
                runs = any(m.domains[uuid].active for m in self.fleet.machines.values() if uuid in m.domains)
                known = uuid in self.stopped | self.excused or uuid not in self.home
                if not runs and not known:
                    raise Broken(f"{uuid} is not accounted for: {self.where(uuid)}")
        for uuid, seen in outcome.observation.vms.items():
            # Seen by the run, on a full read: what it ended on it has left so.
            stands = seen.state is State.PAUSED and seen.job is None and outcome.observation.full
            if stands and seen.uuid not in self.asleep and not outcome.record.only:
                raise Broken(f"{uuid} is left paused: {describe(outcome)}")
        if outcome.phase is NodePhase.BLOCKED:
            told = outcome.findings or any(
                e.reason for e in outcome.record.vms.values() if e.ending in ("blocked", "lost")
            )
            skipped = any(e.ending == "skipped" for e in outcome.record.vms.values())
            if not (told or skipped):
                raise Broken(f"{run.node} is blocked without a reason: {describe(outcome)}")

    def _came_too_late(self, move: Move) -> bool:
        """Somebody's migration that began after the last read of its target: who reboots the
        node takes the certificate again, and nobody could know of it before."""
        read_at = self.read_at.get(move.target, 0.0)
        return not move.asked and move.stage is not Stage.STARTING and move.since > read_at

    def nothing_of_ours(self, node: str) -> list[str]:
        """What is left of us on a node whose maintenance is over, and of its VMs."""
        machine = self.fleet.machines[node]
        left = []
        if OURS in machine.cordons:
            left.append("the cordon")
        if machine.record is not None:
            left.append("the record")
        for other in self.fleet.machines.values():
            left += [f"claim {c}" for c in other.claims.values() if c.owner == node]
            left += [f"slot {s}" for s in other.slots if s[1] == node]
        left += [f"mark on {u}" for u, d in machine.domains.items() if d.marked]
        for uuid, home in self.home.items():
            if home == node and uuid not in self.excused | self.fleet.killed:
                places = [(m.name, m.domains[uuid]) for m in self.fleet.machines.values() if uuid in m.domains]
                runs = [d for _name, d in places if d.active]
                persistent, autostart = self.before[uuid]
                paused = [d for d in runs if d.state is State.PAUSED]
                if len(runs) != 1 or bool(paused) != (uuid in self.asleep):
                    left.append(f"{uuid} is {self.where(uuid)}")
                elif runs[0].persistent != persistent:
                    left.append(f"{uuid} persistent={runs[0].persistent}")
                elif persistent and runs[0].autostart != autostart and uuid not in self.stolen:
                    left.append(f"{uuid} autostart={runs[0].autostart}")
        return left


def describe(outcome: Slice) -> str:
    vms = [f"{e.name}:{e.ending or 'pending'}/{e.reason}" for e in outcome.record.vms.values()]
    doing = [f"{a.do.value} {a.name}" for a in outcome.decision.actions]
    found = [f"{f.reason.value} {f.message}" for f in outcome.findings]
    return f"{outcome.phase.value} {vms} {doing} {found}"
