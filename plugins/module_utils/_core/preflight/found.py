"""One finding of the preflight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..reasons.reason import About, Reason

LISTED = 5  # names in one sentence
# Of what the platform alone finds out when it is asked.
ASKED_ALL_THE_SAME = "A drain asks anyway, and waits until pending_timeout for this to change."


@dataclass(frozen=True)
class Found:
    """`message`: the particulars. `soft`: the drain gets over it by itself.

    `decided_by`: what made it so for this subject (a rule, a declaration); empty: the fact alone.
    `about`: one of the table's others; None: the table's.
    """

    reason: Reason
    subject: str
    message: str = ""
    soft: bool = False
    decided_by: str = ""
    about: About | None = None


def listed(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
