"""A finding, as a result carries it: one reason about one subject.

All that others need of this room is imported from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .codes import Reason
from .platform import BOTH, Platform
from .row import About, Plane, Preflight, Row, Severity
from .table import CHECKED, IN_A_QUEUE, LASTING, OF_THE_VM, TABLE


@dataclass(frozen=True)
class Finding:
    """One reason about one subject, with the particulars.

    `message` names the thing (disk, network, peer ...); empty means the table's sentence.
    """

    reason: Reason
    message: str = ""

    def text(self, platform: Platform) -> str:
        """One line: what a hook or a driver says ends with one, or has several."""
        return " ".join(self.message.splitlines()).strip() or TABLE[self.reason].words(platform).sentence

    def to_dict(self, platform: Platform) -> dict[str, str]:
        """Result form: reason, plane, message, remedy."""
        row = TABLE[self.reason]
        return {
            "reason": self.reason.value,
            "plane": row.plane.value,
            "message": self.text(platform),
            "remedy": row.words(platform).remedy,
        }


def advised(found: Mapping[str, Any]) -> str:
    """Message and remedy of a finding in result form, as sentences."""
    message, remedy = str(found["message"]).rstrip(), str(found["remedy"])
    stop = "" if not message or not remedy or message[-1] in ".!?" else "."
    return f"{message}{stop} {remedy}".strip()


__all__ = [
    "BOTH",
    "CHECKED",
    "IN_A_QUEUE",
    "LASTING",
    "OF_THE_VM",
    "TABLE",
    "About",
    "Finding",
    "Plane",
    "Platform",
    "Preflight",
    "Reason",
    "Row",
    "Severity",
    "advised",
]
