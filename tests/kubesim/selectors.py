"""Label and field selectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .answers import status
from .kinds import Kind

Test = Callable[[dict[str, Any]], bool]
_SET = re.compile(r"^\s*([\w./-]+)\s+(in|notin)\s*\(([^)]*)\)\s*$")


def label_test(text: str) -> Callable[[dict[str, str]], bool]:
    """A test on a set of labels. Raises ApiError 400 for a selector that is none."""
    tests = [_one(part) for part in _split(text) if part.strip()]
    return lambda labels: all(test(labels) for test in tests)


def _split(text: str) -> list[str]:
    """At commas that are not inside brackets."""
    return re.split(r",(?![^()]*\))", text)


def _one(part: str) -> Callable[[dict[str, str]], bool]:
    found = _SET.match(part)
    if found:
        key, how, rest = found.groups()
        values = {v.strip() for v in rest.split(",")}
        if how == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    part = part.strip()
    if "!=" in part:
        key, value = (x.strip() for x in part.split("!=", 1))
        return lambda labels: labels.get(key) != value
    if "=" in part:
        key, value = (x.strip() for x in part.replace("==", "=").split("=", 1))
        return lambda labels: labels.get(key) == value
    if not re.match(r"^!?[\w./-]+$", part):
        raise status(400, f"unable to parse requirement: {part}", "BadRequest")
    if part.startswith("!"):
        return lambda labels: part[1:] not in labels
    return lambda labels: part in labels


_FIELDS = {
    "pods": {"spec.nodeName", "status.phase"},
    "events": {"involvedObject.name", "involvedObject.kind", "involvedObject.uid", "reason"},
    "nodes": {"spec.unschedulable"},
}


def make_test(kind: Kind, labels: str, fields: str) -> Test:
    """A test on an object, from labelSelector and fieldSelector."""
    by_label = label_test(labels)
    wanted = []
    for part in fields.split(","):
        if not part.strip():
            continue
        negative = "!=" in part
        key, value = part.replace("!=", "=").replace("==", "=").split("=", 1)
        known = {"metadata.name", "metadata.namespace"} | _FIELDS.get(kind.plural, set())
        if key not in known:
            raise status(400, f"field label not supported: {key}", "BadRequest")
        wanted.append((key, value, negative))

    def test(obj: dict[str, Any]) -> bool:
        if not by_label(obj["metadata"].get("labels") or {}):
            return False
        return all((_dig(obj, key) == value) != negative for key, value, negative in wanted)

    return test


def _dig(obj: Any, path: str) -> str:
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return "" if obj is None else str(obj)
