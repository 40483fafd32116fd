"""Decide, the part about another attempt: what was tried and refused, the pause, and the end of trying."""

from __future__ import annotations

from dataclasses import replace

from ..model.columns import count
from ..model.observation import VM
from ..model.policy import pause_after
from ..model.record import Attempt, Ending, VMRecord
from ..reasons.reason import LASTING, OF_THE_VM, Finding, Reason
from .step import Step
from .strategy import Choice


def _tried(step: Step, entry: VMRecord) -> list[Attempt]:
    """The attempts of this run."""
    return [a for a in entry.attempts if a.run_id == step.record.run_id]


def with_refusals_met(step: Step, entry: VMRecord, vm: VM) -> VM:
    """A target that refused it in this run, for a reason that lasts, is not asked again. Nor is
    any other, if the reason is of the VM itself."""
    met = {a.target: (a.finding,) for a in _tried(step, entry) if a.finding and a.finding.reason in LASTING}
    own = tuple(why for (why,) in met.values() if why.reason in OF_THE_VM)
    if own:
        return replace(vm, migratable=False, findings=(*own, *vm.findings))
    return replace(vm, refused_by={**vm.refused_by, **met}) if met else vm


def migrate(step: Step, vm: VM, entry: VMRecord, choice: Choice) -> None:
    """Wish for another attempt, unless its pause lasts; or end: refused for good, used up, late."""
    tried = _tried(step, entry)
    last = tried[-1] if tried else None
    if last is not None and last.gave_up:
        entry.end(Ending.BLOCKED, vm.node, last.finding)
        step.unmark(vm)
        return
    if len(tried) >= step.policy.max_attempts and last is not None:
        targets = ", ".join(dict.fromkeys(a.target for a in tried if a.target))
        which = f", to {targets}" if targets else ""
        text = f"{count(len(tried), 'attempt')}{which}; the last failed with {step.said(last.finding)}"
        entry.end(Ending.BLOCKED, vm.node, Finding(Reason.AttemptsUsedUp, text))
        step.unmark(vm)
        return
    if step.late() or step.refused_long(entry):
        entry.end(Ending.BLOCKED, vm.node, step.final_finding(entry))
        step.unmark(vm)
        return
    entry.ending = Ending.NONE.value
    if entry.refused_since is None:
        entry.note(last.finding if last is not None and last.reason else None)
    if last is not None:
        pause = pause_after(len(tried), step.policy.backoff)
        same_boot = last.boot_id == step.obs.nodes[step.record.node].boot_id
        if same_boot and step.obs.now - last.ended_at < pause:
            return
    step.wanted.append((vm, choice))
