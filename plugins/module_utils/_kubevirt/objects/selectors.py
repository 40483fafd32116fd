"""Selectors by labels. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Obj = dict[str, Any]


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """A label selector; an empty one selects everything."""
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        matches(e, labels) for e in selector.get("matchExpressions") or []
    )


def matches(expression: Obj, labels: Mapping[str, str]) -> bool:
    """One requirement of a selector, or of a node affinity (Gt and Lt)."""
    key, values = expression["key"], expression.get("values") or []
    has, value = key in labels, labels.get(key)
    how = expression["operator"]
    if how in ("Gt", "Lt"):
        try:
            left, right = int(value or ""), int(values[0])
        except (ValueError, IndexError):
            return False
        return left > right if how == "Gt" else left < right
    return {
        "In": has and value in values,
        "NotIn": not has or value not in values,
        "Exists": has,
        "DoesNotExist": not has,
    }.get(how, False)
