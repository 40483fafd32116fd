"""Objects against the schemas that a real API server publishes (schemas/, see there)."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from .kinds import Kind

Obj = dict[str, Any]
_WHERE = Path(__file__).parent / "schemas"
_GO = {"boolean": "bool", "integer": "int", "number": "float64", "array": "[]", "object": "map"}


@dataclass(frozen=True)
class Cause:
    """Why an object is invalid, as the API server lists it."""

    reason: str
    path: str
    text: str

    @property
    def row(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.text, "field": self.path}


@dataclass
class Found:
    """`unknown`: fields that no schema has; `types`: what cannot be decoded; `causes`: the rest."""

    unknown: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)


def look(kind: Kind, obj: Obj) -> Found:
    """Unknown fields are taken out of `obj`; of a built-in kind also those that are null."""
    found = Found()
    if not kind.custom:
        _without_nulls(obj)
    validator = _validator("kubevirt" if kind.custom else "kubernetes", kind.kind)
    if validator is not None:
        _sort(kind, validator.iter_errors(obj), found)
    if kind.custom and isinstance(obj.get("metadata"), dict):
        _without_nulls(obj["metadata"])
        meta = _validator("kubernetes", "ObjectMeta")
        assert meta is not None
        _sort(kind, meta.iter_errors(obj["metadata"]), found, "metadata")
    return found


def _sort(kind: Kind, errors: Iterable[ValidationError], found: Found, above: str = "") -> None:
    for error in list(errors):
        path = path_of([above, *error.absolute_path] if above else error.absolute_path)
        if error.validator == "additionalProperties":
            for name in sorted(set(error.instance) - set(error.schema["properties"])):
                found.unknown.append(f"{path}.{name}" if path else name)
                del error.instance[name]
        elif error.validator == "required":
            # No Go type requires a field; what metadata must have is among the rules.
            if not path.startswith("metadata" if kind.custom else ("metadata", "status")):
                found.causes.extend(_missing(path, error))
        elif error.validator == "type" and (above or not kind.custom):
            found.types.append(_not_decoded(kind, path, error))
        else:
            found.causes.append(_cause(path, error))


def _missing(path: str, error: ValidationError) -> list[Cause]:
    missing = [name for name in error.validator_value if name not in error.instance]
    where = f"{path}." if path else ""
    return [Cause("FieldValueRequired", where + name, "Required value") for name in missing]


def _cause(path: str, error: ValidationError) -> Cause:
    shown = json.dumps(error.instance)
    if error.validator == "enum":
        wanted = ", ".join(json.dumps(value) for value in error.validator_value)
        text = f"Unsupported value: {shown}: supported values: {wanted}"
        return Cause("FieldValueNotSupported", path, text)
    if error.validator == "type":
        wanted, got = _wanted(error), f'"{_json_type(error.instance)}"'
        text = f"Invalid value: {got}: {path} in body must be of type {wanted}: {got}"
        return Cause("FieldValueTypeInvalid", path, text)
    if error.validator == "minimum":
        least = error.validator_value
        text = f"Invalid value: {shown}: {path} in body should be greater than or equal to {least}"
        return Cause("FieldValueInvalid", path, text)
    return Cause("FieldValueInvalid", path, f"Invalid value: {shown}: {error.message}")


def _wanted(error: ValidationError) -> str:
    wanted = error.validator_value
    kinds = [wanted] if isinstance(wanted, str) else [one for one in wanted if one != "null"]
    return str(kinds[0])


def _not_decoded(kind: Kind, path: str, error: ValidationError) -> str:
    wanted = _wanted(error)
    return (
        f"json: cannot unmarshal {_json_type(error.instance, True)} into Go struct field "
        f"{kind.kind}.{path} of type {_GO.get(wanted, wanted)}"
    )


def _json_type(value: Any, go: bool = False) -> str:
    if isinstance(value, bool):
        return "bool" if go else "boolean"
    if isinstance(value, (int, float)):
        return "number" if go else "integer" if isinstance(value, int) else "number"
    names = {str: "string", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "object")


def path_of(parts: Iterable[Any]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _without_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for key in [key for key, inner in value.items() if inner is None]:
            del value[key]
        for inner in value.values():
            _without_nulls(inner)
    elif isinstance(value, list):
        for inner in value:
            _without_nulls(inner)


@functools.cache
def _validator(name: str, kind: str) -> Draft202012Validator | None:
    """None: no schema of it is here."""
    schemas = _schemas(name)
    return Draft202012Validator(_whole(schemas[kind], schemas)) if kind in schemas else None


def _whole(schema: Any, schemas: Obj) -> Any:
    """With each part where it belongs: none is part of itself, and a reference costs time."""
    if isinstance(schema, list):
        return [_whole(one, schemas) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("$ref"), str):
        return _whole(schemas[schema["$ref"].removeprefix("#/")], schemas)
    return {key: _whole(value, schemas) for key, value in schema.items()}


@functools.cache
def _schemas(name: str) -> Obj:
    found: Obj = json.loads((_WHERE / f"{name}.json").read_text(encoding="utf-8"))
    for schema in found.values():
        _nullable(schema)
    return found


def _nullable(schema: Any) -> None:
    """As JSON Schema says it."""
    if isinstance(schema, list):
        for one in schema:
            _nullable(one)
    elif isinstance(schema, dict):
        if schema.get("nullable") is True and isinstance(schema.get("type"), str):
            schema["type"] = [schema["type"], "null"]
        for one in schema.values():
            _nullable(one)
