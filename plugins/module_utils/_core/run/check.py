"""Check mode: what a run would do now, decided as the run decides it, and nothing done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..decision.actions import Action, Decision, Do, NodePhase
from ..decision.decide import decide
from ..model.observation import Observation
from ..model.policy import Limits, Policy
from ..model.record import Intent, NodeRecord
from .diff import DiffLines, diff_lines
from .platform import Reader
from .start import Request, start

# Limits and turns say when a VM moves, not whether: here they are left aside.
NO_LIMITS = Limits(10**6, 10**6, 10**6)
_QUIET = frozenset({Do.FORGET, Do.WATCH})


@dataclass(frozen=True)
class Checked:
    """`old`: the record that was there. `planned`: as the run would leave it. `before`: the node
    as it is, for the difference."""

    old: NodeRecord | None
    planned: NodeRecord
    obs: Observation
    decision: Decision
    acts: tuple[Action, ...]
    phase: NodePhase
    before: DiffLines


def check(platform: Reader, request: Request, policy: Callable[[], Policy] | None = None) -> Checked:
    """`policy`: asked for once the platform was read; None: the request's. Only reads."""
    old = platform.load()
    record = start(platform, request, old)
    obs = platform.observe(record)
    wanted = request.policy if policy is None else policy()
    decision = decide(obs, {record.node: record}, replace(wanted, limits=NO_LIMITS, in_turn=False))
    planned = decision.records[record.node]
    acts = tuple(a for a in decision.actions if a.do not in _QUIET)
    if old is None and request.intent is Intent.ACTIVE:
        acts = ()
    phase = decision.phases[record.node]
    return Checked(old, planned, obs, decision, acts, phase, diff_lines(obs, planned))
