"""VMs of the model that have hooks, and who runs them in a drain, as a role does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.actions import Action, Do
from ansible_collections.virtops.maintenance.plugins.module_utils._core.decision.hooks import (
    pending_rows,
    record_answers,
)
from ansible_collections.virtops.maintenance.plugins.module_utils._core.model.policy import Hooks, Policy, Rule
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.engine import Engine, Slice, SliceEnd
from ansible_collections.virtops.maintenance.plugins.module_utils._core.run.start import begin
from ansible_collections.virtops.maintenance.tests.unit.plugins.module_utils._core.world import POLICY
from fleetsim.platform import ModelPlatform

BOTH = Hooks("out.yml", "back.yml")
WEB: dict[str, Any] = {"document": {"web": True}}
# What is done with a VM that nobody may do before its `before` was answered.
TOUCHES = frozenset({Do.MIGRATE, Do.SHUTDOWN, Do.SAVE, Do.FORCE_OFF, Do.COLD_DEFINE, Do.MARK, Do.AUTOSTART_OFF})


def hooked(policy: Policy = POLICY, hooks: Hooks = BOTH, **more: Any) -> Policy:
    """The policy with a rule: VMs that are `web` have hooks."""
    rule = Rule("web", lambda document: bool(document.get("web")), hooks=hooks, **more)
    return replace(policy, rules=(rule,))


class Killed(BaseException):
    """kill -9: of the play, with the slice that it runs."""


class Caller:
    """What a role does: runs the hooks that wait, and calls again with the answers.

    `fails`: (hook, UUID) whose tasks fail each time. `kill_at`: the number of the read, write or
    task before which everything is killed.
    """

    def __init__(self, made: Any, policy: Policy, kill_at: int = 0) -> None:
        self.made, self.policy = made, policy
        self.kill_at, self.count = kill_at, 0
        self.asked: list[tuple[str, str]] = []
        self.rounds: list[list[tuple[str, str]]] = []
        self.opened: set[str] = set()  # `before` was run to its end
        self.acts: list[Action] = []
        self.fails: set[tuple[str, str]] = set()

    def _tick(self, _what: str = "") -> None:
        self.count += 1
        if self.count == self.kill_at:
            raise Killed
        self.made.advance(self.made.clock + 0.005)

    def _watch(self, action: Action) -> None:
        self.acts.append(action)
        domain = self.made.machines["a"].domains.get(action.vm)
        if action.do in TOUCHES and domain is not None and domain.spec.document.get("web"):
            hooks = self.policy.rules[0].hooks
            assert not (hooks and hooks.before) or action.vm in self.opened, action

    def slice(
        self, name: str, intent: str, begun: bool, answers: list[dict[str, str]]
    ) -> tuple[Slice, list[dict[str, str]]]:
        platform = ModelPlatform(self.made, "a")
        platform.hook, platform.fails = self._tick, self._watch
        now, boot_id = platform.now(), platform.own.boot_id
        record = begin(platform.load(), "a", intent, name, now, boot_id, fresh=not begun)
        record_answers(record, answers)
        outcome = Engine(platform, self.policy, record).run(platform.now() + 2000.0)
        return outcome, pending_rows(outcome.decision, outcome.record)

    def run(self, intent: str = "drained", name: str = "run") -> Slice:
        """Until it is final, or the tasks of a hook fail."""
        begun, answers = False, []
        for _round in range(100):
            outcome, waiting = self.slice(name, intent, begun, answers)
            assert (outcome.ended is SliceEnd.HOOKS_PENDING) is bool(waiting)
            if outcome.ended is not SliceEnd.HOOKS_PENDING:
                return outcome
            self.rounds.append([(need["hook"], need["uuid"]) for need in waiting])
            for need in waiting:
                self.asked.append((need["hook"], need["uuid"]))
                if (need["hook"], need["uuid"]) in self.fails:
                    return outcome
                (self.opened.add if need["hook"] == "before" else self.opened.discard)(need["uuid"])
                self._tick()
            begun, answers = True, waiting
        raise AssertionError("it turns in circles")
