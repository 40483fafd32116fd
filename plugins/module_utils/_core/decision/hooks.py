"""Decide, the part about hooks: tasks that the caller runs before and after a VM is touched.

Deciding never runs one. It says which are due (`Decision.pending_hooks`), and holds a VM until its
`before` is answered. The answers stand in the record. A pair is open from when `before` is asked
for (its tasks may have been run, in part or in whole) until `after` is answered, whatever run
asks; then the VM's next move asks anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..model.policy import Hooks, PolicyError
from ..model.record import Ending, Hook, HookStage, NodeRecord, VMRecord
from ..reasons.reason import Finding, Reason
from .actions import Decision, PendingHook
from .reconcile import Situation
from .step import Step

# It has left its node, or was taken off: what `after` comes after.
_LEFT = frozenset({Ending.MOVED.value, Ending.COLD_MOVED.value, Ending.STOPPED.value, Ending.SAVED.value})
_OFF = frozenset({Ending.STOPPED.value, Ending.SAVED.value})
# Settled otherwise: `after` only closes what a `before` has opened.
_SETTLED = frozenset({Ending.GONE.value, Ending.OFF.value, Ending.RESTORED.value})
_STAYS = frozenset({Ending.BLOCKED.value, Ending.SKIPPED.value})
_OPEN = frozenset({HookStage.ASKED.value, HookStage.BEFORE.value, HookStage.STARTED.value})


def note_hooks(entry: VMRecord, hooks: Hooks) -> None:
    """The hooks of a VM that runs here. Once it has left, no rule can be asked about it.

    What was opened is closed, also if no rule names the `after` any more.
    """
    if entry.hook_stage == HookStage.AFTER.value:
        # It was away and has come back, or it was blocked and may go now.
        entry.hook_stage = HookStage.NONE.value
    opened = entry.hook_stage in _OPEN
    entry.hook_before = hooks.before or (entry.hook_before if opened else "")
    entry.hook_after = hooks.after or (entry.hook_after if opened else "")


def has_unanswered_hook(step: Step, entry: VMRecord) -> bool:
    """Has it a `before` that was not answered?"""
    answered = entry.hook_stage in (HookStage.BEFORE.value, HookStage.AFTER.value)
    return bool(entry.hook_before and not answered and step.policy.in_turn)


def waits_for_hook(step: Step, entry: VMRecord, target: str = "") -> bool:
    """Is nothing done with it yet, because of its `before`? Then that is asked for."""
    if not has_unanswered_hook(step, entry):
        return False
    entry.ending, entry.hook_stage = Ending.NONE.value, HookStage.ASKED.value
    entry.note(Finding(Reason.HookPending, f"It waits for its `before` hook: {entry.hook_before}."))
    step.decision.pending_hooks.append(PendingHook(Hook.BEFORE, entry.uuid, target))
    return True


def note_started_again(entry: VMRecord) -> None:
    """Note that a restore has started the VM again: its hook `after` has to follow that too."""
    if entry.hook_after:
        entry.hook_stage = HookStage.STARTED.value


def request_after_hooks(step: Step) -> bool:
    """Ask for each `after` that is due. It is not the VM that waits, so the node says it."""
    if not step.policy.in_turn:
        return False
    entries = [step.record.vms[uuid] for uuid in step.order()]
    due = [entry for entry in entries if _closes(entry, step.situations[entry.uuid])]
    for entry in due:
        step.decision.pending_hooks.append(PendingHook(Hook.AFTER, entry.uuid, entry.at))
    if due:
        text = f"`after` hooks wait for an answer: {', '.join(entry.name for entry in due)}."
        findings = step.decision.node_findings.get(step.record.node, ())
        finding = Finding(Reason.HookPending, text)
        step.decision.node_findings[step.record.node] = (*findings, finding)
    return bool(due)


def _closes(entry: VMRecord, situation: Situation) -> bool:
    """One that is blocked and runs on serves where it is. Of one that crashed nothing is asked."""
    if not entry.hook_after or entry.hook_stage == HookStage.AFTER.value:
        return False
    if entry.hook_stage == HookStage.STARTED.value and entry.ending in _OFF:
        return False  # a restore was cut off before it had started it; this drain leaves it as it is
    if entry.hook_stage in _OPEN:
        stays = entry.ending in _STAYS and situation is Situation.HERE
        return stays or entry.ending in _LEFT or entry.ending in _SETTLED
    return entry.ending in _LEFT and not entry.hook_before


def record_answers(record: NodeRecord, answers: Sequence[Mapping[str, Any]]) -> None:
    """Note in the record which hooks were run. Raises PolicyError for what is no answer.

    An answer that stands already changes nothing, and one to `before` opens no closed pair again.
    """
    known = [hook.value for hook in Hook]
    for place, item in enumerate(answers):
        uuid, hook = item.get("uuid"), item.get("hook")
        if hook not in known:
            raise PolicyError(f"hooks_done[{place}].hook is {hook!r}: expected before or after")
        entry = record.vms.get(str(uuid))
        if entry is None:
            text = f"the record of {record.node} has no VM with the UUID {uuid!r}"
            raise PolicyError(f"hooks_done[{place}]: {text}. Nothing was done.")
        if hook == Hook.AFTER.value or entry.hook_stage != HookStage.AFTER.value:
            entry.hook_stage = str(hook)
        if entry.reason == Reason.HookPending.value:
            entry.note(None)


def pending_rows(decision: Decision, record: NodeRecord) -> list[dict[str, str]]:
    """A row for each hook that has to be answered, as a task file gets it and as it is given back: kind, hook, tasks
    (the file), name, uuid, namespace, node, target, way, verdict, decided_by.

    Hooks `after` come first, since they bring a VM back into service.
    """
    found = []
    for need in sorted(decision.pending_hooks, key=lambda need: need.hook is Hook.BEFORE):
        entry = record.vms[need.vm]
        before = need.hook is Hook.BEFORE
        found.append(
            {
                "kind": "hook",
                "hook": need.hook.value,
                "tasks": entry.hook_before if before else entry.hook_after,
                "name": entry.name,
                "uuid": entry.uuid,
                "namespace": "",
                "node": record.node,
                "target": need.target,
                "way": entry.stop_way or entry.way,
                "verdict": entry.ending or "pending",
                "decided_by": entry.decided_by,
            }
        )
    return found
