"""Withdrawing what was asked of KubeVirt: what is due now, and in which order. Pure.

The mark first, or KubeVirt makes a new migration for it; then the migrations; then it is seen to
that they end. The drain and the migration of one VM both go by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from ..._core.reasons.reason import Finding, Reason
from ..objects import facts

Obj = dict[str, Any]


class WithdrawalStep(str, Enum):
    CANCEL = "cancel"  # take the mark from the VMI
    DELETE = "delete"  # a migration: that is how it is aborted
    END_TARGET = "end_target"  # the target pod of a migration that was deleted and does not end


def withdrawal_steps(
    vmi: Obj | None, marked: bool, migrations: Sequence[Obj], stuck: Callable[[Obj], bool]
) -> list[tuple[WithdrawalStep, Obj]]:
    """`marked`: the mark is to go. `migrations`: those to end. `stuck`: it has had its time."""
    found = [(WithdrawalStep.CANCEL, vmi)] if vmi is not None and marked else []
    found += [(WithdrawalStep.DELETE, m) for m in migrations if not facts.deleted(m)]
    if vmi is not None:
        ending = [m for m in migrations if facts.deleted(m) and stuck(m)]
        found += [(WithdrawalStep.END_TARGET, m) for m in ending if not_begun(vmi, m)]
    return found


def mark_stays(node: str) -> Finding:
    """Before KubeVirt 1.7. Nothing else is withdrawn then: it would be made anew for the mark."""
    text = (
        f"Its mark (evacuationNodeName {node}) stays: KubeVirt can withdraw it only since 1.7. Its "
        "migration was left as it is, because KubeVirt would create a new one for the mark at once."
    )
    return Finding(Reason.EvacuationMarkStays, text)


def not_begun(vmi: Obj, migration: Obj) -> bool:
    """KubeVirt puts an abort off until the migration runs, and nothing of the guest is there yet.

    Without its target pod it fails, and the guest stays where it is.
    """
    begun = facts.state_of(vmi, migration).get("startTimestamp")
    return facts.phase(migration) in facts.PREPARING and not begun
