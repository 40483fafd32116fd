"""What the API server does with the body of a write before admission sees it, and after.

First it is decoded (`decode`): what it is, its types, fields that nobody knows. Mutating webhooks
may change it. Then it is validated (`check`), and only what is valid meets validating webhooks.
"""

from __future__ import annotations

import json
from typing import Any

from . import rules, schema
from .answers import ApiError, not_found, status
from .kinds import NAMESPACES, Kind
from .schema import Cause, Found
from .store import Obj, Store

_ECHO = 30  # characters of an object that an answer repeats


def decode(kind: Kind, body: Any, how: str, patched: bool = False) -> tuple[list[str], Found]:
    """Warnings, and what `check` shall know; unknown fields are taken out of `body`.

    Raises ApiError.

    `how`: the parameter fieldValidation. `patched`: it is what came out of a patch.
    """
    if not isinstance(body, dict):
        raise status(400, f"{kind.kind} cannot be handled: not an object", "BadRequest")
    _what_it_is(kind, body)
    found = schema.look(kind, body)
    trouble = found.types[0] if found.types else rules.not_decoded(kind, body)
    if trouble:
        raise _patch(body, trouble) if patched else _not_handled(kind, trouble)
    return unknown(kind, found.unknown, how), found


def unknown(kind: Kind, fields: list[str], how: str) -> list[str]:
    """Warnings of fields that nobody knows. Raises ApiError where they are an error."""
    told = [f'unknown field "{path}"' for path in fields]
    if told and how == "Strict":
        raise _not_handled(kind, f"strict decoding error: {', '.join(told)}")
    return [] if how == "Ignore" else told


def _what_it_is(kind: Kind, body: Obj) -> None:
    version = body.get("apiVersion")
    if kind.custom and not (body.get("kind") and version):
        missing, text = "apiVersion" if body.get("kind") else "Kind", json.dumps(body)
        raise status(
            400,
            f"the object provided is unrecognized (must be of type {kind.kind}): Object "
            f"'{missing}' is missing in '{text}' ({text[:_ECHO]} ...)",
            "BadRequest",
        )
    if version and version != kind.api_version:
        text = f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        raise status(400, text, "BadRequest")
    body["apiVersion"], body["kind"] = kind.api_version, kind.kind


def _not_handled(kind: Kind, trouble: str) -> ApiError:
    text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {trouble}'
    return status(400, text, "BadRequest")


def _patch(body: Obj, trouble: str) -> ApiError:
    echo = json.dumps(json.dumps(body, separators=(",", ":")))
    cause = Cause("FieldValueInvalid", "patch", f"Invalid value: {echo}: {trouble}")
    text = f' "" is invalid: patch: {cause.text}'
    return status(422, text, "Invalid", {"causes": [cause.row]})


def place(store: Store, kind: Kind, obj: Obj, namespace: str) -> None:
    """Into the namespace of the path, which must be there. Raises ApiError."""
    if not kind.namespaced:
        return
    meta = obj.setdefault("metadata", {})
    if meta.get("namespace") not in (None, "", namespace):
        text = "the namespace of the provided object does not match the namespace sent on the request"
        raise status(400, text, "BadRequest")
    meta["namespace"] = namespace
    if store.find(NAMESPACES, "", namespace) is None:
        raise not_found(NAMESPACES, namespace)


def same(kind: Kind, old: Obj, new: Obj) -> None:
    """What an update cannot change. Raises ApiError."""
    meta, was = new.setdefault("metadata", {}), old["metadata"]
    if meta.get("name") != was["name"]:
        text = f"the name of the object ({meta.get('name', '')}) does not match the name on the URL ({was['name']})"
        raise status(400, text, "BadRequest")
    if kind.custom and not meta.get("resourceVersion"):
        text = "Invalid value: 0x0: must be specified for an update"
        cause = Cause("FieldValueInvalid", "metadata.resourceVersion", text)
        raise invalid(kind, was["name"], [cause])
    for fixed in ("uid", "creationTimestamp", "namespace"):
        if fixed in was:
            meta[fixed] = was[fixed]


def changed(kind: Kind, old: Obj, new: Obj) -> None:
    """Raises ApiError 422 for a change that is not valid."""
    causes = rules.changed(kind, old, new)
    if causes:
        raise invalid(kind, old["metadata"]["name"], causes)


def check(kind: Kind, obj: Obj, found: Found) -> None:
    """Raises ApiError 422 for what is not valid. `found`: as it was decoded."""
    causes = rules.wrong(kind, obj)
    seen = {cause.path for cause in causes}
    # Where a rule says it in its own words, the schema's are left out.
    places = tuple(path.replace("metadata.taints", "spec.taints") for path in seen)
    causes += [cause for cause in found.causes if cause.path not in (*seen, *places)]
    if causes:
        raise invalid(kind, (obj.get("metadata") or {}).get("name") or "", causes)


def invalid(kind: Kind, name: str, causes: list[Cause]) -> ApiError:
    whole = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    told = [f"{cause.path}: {cause.text}" for cause in causes]
    text = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    details: Obj = {"name": name, "group": kind.group, "kind": kind.kind}
    details = {key: value for key, value in details.items() if value}
    details["causes"] = [cause.row for cause in causes]
    return status(422, f'{whole} "{name}" is invalid: {text}', "Invalid", details)
