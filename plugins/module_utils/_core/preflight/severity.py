"""Severity is policy: what the user makes of single codes. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from ..model.policy import PolicyError
from ..reasons.reason import CHECKED, Reason, Severity


def parse_severity(raw: Mapping[str, Any] | None) -> dict[Reason, Severity]:
    """Code -> severity, as a user gives it. Raises PolicyError naming what is wrong."""
    known = {reason.value: reason for reason in CHECKED}
    wanted: dict[Reason, Severity] = {}
    for code, value in (raw or {}).items():
        if code not in known:
            near = difflib.get_close_matches(str(code), known, 1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise PolicyError(
                f"severity names {code!r}, which is not a preflight code. {hint}All codes are in docs/reasons.md."
            )
        try:
            wanted[known[code]] = Severity(value)
        except ValueError as exc:
            words = ", ".join(s.value for s in Severity)
            raise PolicyError(f"severity of {code} is {value!r}: expected {words}") from exc
    return wanted
