"""Slices on the model that read few hosts, as those on libvirt do."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.which_hosts import (
    LastRead,
    last_read,
    to_read,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.observation import Observation
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Limits, Policy
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.record import NodeRecord
from ansible_collections.virtops.maintenance.plugins.module_utils._core.reasons.reason import Finding
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, Slice, SliceEnd
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin

from .fleet import Fleet
from .platform import ModelPlatform


class FewPlatform(ModelPlatform):
    """One slice. `only`: the peers that are read; None: all. `asked`: those that were."""

    only: Collection[str] | None = None

    def __init__(self, fleet: Fleet, node: str) -> None:
        super().__init__(fleet, node)
        self.asked: set[str] = set()
        self.claimed: set[str] = set()
        self._observing = False

    def can_reach(self, name: str) -> bool:
        if not self._observing:
            return super().can_reach(name)
        if self.only is not None and name != self.node and name not in self.only:
            return False
        self.asked.add(name)
        return super().can_reach(name)

    def observe(self, record: NodeRecord | None) -> Observation:
        self._observing = True
        obs = super().observe(record)
        self._observing = False
        if self.only is not None:
            obs.not_asked = frozenset(set(obs.nodes) - {self.node, *self.only})
        return obs

    def claim(self, wanted: Sequence[Action], limits: Limits) -> dict[str, Finding | None]:
        self.claimed.update(action.target for action in wanted)
        return super().claim(wanted, limits)

    def read_all(self) -> None:
        self.only = None


class Drain:
    """A drain, slice by slice. `asked`: the peers that each slice has read."""

    def __init__(self, fleet: Fleet, node: str, policy: Policy, seconds: float = 3.0) -> None:
        self.fleet, self.node, self.policy, self.seconds = fleet, node, policy, seconds
        self.last: LastRead | None = None
        self.asked: list[set[str]] = []
        self.seen: list[Observation] = []

    def slice(self, run: str = "run") -> Slice:
        platform = FewPlatform(self.fleet, self.node)
        platform.hook = lambda _what: None
        now = platform.now()
        record = begin(platform.load(), self.node, "drained", run, now, platform.own.boot_id)
        peers = sorted(set(self.fleet.machines) - {self.node})
        platform.only = to_read(self.last, record, peers, platform.quorum_hosts, self.policy, now)
        engine = Engine(platform, self.policy, record, read_all=platform.read_all)
        outcome = engine.run(now + self.seconds)
        self.asked.append(platform.asked - {self.node})
        self.seen.append(outcome.observation)
        before, self.last = self.last, None
        if outcome.ended is not SliceEnd.FINAL:
            claimed = platform.claimed
            self.last = last_read(outcome.observation, before, outcome.record, claimed)
        return outcome
