"""What somebody wants of a roll, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.rules import Ask
from ansible_collections.virtops.maintenance.plugins.module_utils._core.roll.terms import TERMS_SPEC, Terms


def ask(run: str = "one", hosts: Sequence[str] = ("a", "b", "c"), roll_id: str = "7f3a", **more: Any) -> Ask:
    """`more`: terms, and fields of Ask."""
    terms = {name: more.pop(name) for name in TERMS_SPEC if name in more}
    return Ask(id=roll_id, run=run, hosts=hosts, terms=Terms(**terms), **more)
