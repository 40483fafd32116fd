"""Patches, as each kind of resource takes them."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch

from .answers import status
from .kinds import Kind

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
# Lists that a strategic merge patch merges by a key; node taints have none and are replaced.
_KEYS = {"conditions": "type", "containers": "name", "volumes": "name", "ownerReferences": "uid"}


def apply_patch(kind: Kind, obj: dict[str, Any], body: Any, content_type: str) -> dict[str, Any]:
    """The patched object. Raises ApiError: 415, 422."""
    content_type = content_type.split(";", maxsplit=1)[0].strip()
    if content_type == JSON_PATCH:
        try:
            result: dict[str, Any] = jsonpatch.apply_patch(obj, body)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as exc:
            text = "the server rejected our request due to an error in our request"
            raise status(422, text, "Invalid") from exc
        return result
    if content_type == MERGE:
        return merge(obj, body)
    if content_type == STRATEGIC and not kind.custom:
        return merge(obj, body, strategic=True)
    text = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON_PATCH}, {MERGE}, {APPLY}"
    )
    raise status(415, text, "UnsupportedMediaType")


def merge(obj: Any, patch: Any, strategic: bool = False) -> Any:
    """RFC 7396; strategic: some lists are merged by key."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif strategic and isinstance(value, list) and key in _KEYS:
            by = _KEYS[key]
            items = {item.get(by): item for item in result.get(key) or []}
            for item in value:
                items[item.get(by)] = merge(items.get(item.get(by)), item, True)
            result[key] = list(items.values())
        else:
            result[key] = merge(result.get(key), value, strategic)
    return result
